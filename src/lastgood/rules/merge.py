"""What a merge makes of every path: changes since a base stay, those between target and base go (rule T17).

Seen from the base, the present is one side and the target the other; what only one of them changed
is taken from it, and what both changed in different ways is a conflict, unless it is text that merges.
"""

from __future__ import annotations

from lastgood.model.plan import CONFLICT, Merged, Step
from lastgood.model.report import MARKED
from lastgood.model.tree import DIRECTORY, FILE, Entry, TreeId
from lastgood.names import Covering, ancestors, join, parent, within
from lastgood.rules.evidence import PERMISSION_BITS, alike
from lastgood.rules.hostile import LONGEST_NAME, LONGEST_PATH
from lastgood.rules.restore import in_order, plan
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from typing import TypeVar

    from lastgood.model.plan import Favour
    from lastgood.rules.compare import Tree
    from lastgood.rules.evidence import Evidence, Present

    Fact = TypeVar("Fact", int, bytes)
    Blend = Callable[["Sides"], "Blended | None"]

KEPT = f"{CONFLICT}: kept as it is"


class Sides(Value):
    """One path on three sides; None where it is not there."""

    path: bytes
    base: Entry | None
    target: Entry | None
    present: Entry | None

    @property
    def kinds(self) -> set[str]:
        """The kinds of those that are there."""
        return {side.kind for side in (self.base, self.target, self.present) if side is not None}


class Blended(Value):
    """The blob that a merge of texts gives; ``marked`` if conflicts are marked in it."""

    oid: bytes
    marked: bool = False


class Verdict(Value):
    """What a path is to hold, ``beside`` what is to be put beside it, and the reason of a conflict."""

    want: Entry | None
    conflict: str | None = None
    beside: Entry | None = None
    merged: Merged | None = None


def decide(sides: Sides, *, blend: Blend, favour: Favour | None) -> Verdict:
    """Decide one path; directories are one if their trees are.

    ``blend`` merges the contents of three files, or returns None where they conflict.
    """
    base, target, present = sides.base, sides.target, sides.present
    if same(base, target):
        return Verdict(want=present)
    if same(present, base):
        return Verdict(want=target)
    if same(present, target):
        return Verdict(want=present)
    return _of_files(sides, blend, favour) or _of_conflict(sides, favour)


def same(one: Entry | None, other: Entry | None) -> bool:
    """Tell whether two sides are one, contents of directories included."""
    if not alike(one, other):
        return False
    return one is None or other is None or one.kind != DIRECTORY or one.tree_id == other.tree_id


def _of_files(sides: Sides, blend: Blend, favour: Favour | None) -> Verdict | None:
    """Merge permissions and contents of three files; None where that cannot be."""
    base, target, present = sides.base, sides.target, sides.present
    if base is None or target is None or present is None or sides.kinds != {FILE}:
        return None
    mode = _chosen(*(side.mode & PERMISSION_BITS for side in (base, target, present)))
    if mode is None and favour is None:
        return None
    if mode is None:
        mode = (target if favour == "theirs" else present).mode & PERMISSION_BITS
    oid = _chosen(base.oid, target.oid, present.oid)
    if oid is not None:
        return Verdict(want=present.replace(oid=oid, mode=mode))
    blended = blend(sides)
    if blended is None:
        return None
    return Verdict(
        want=present.replace(oid=blended.oid, mode=mode),
        conflict=MARKED if blended.marked else None,
        merged=Merged(path=sides.path, base=base.oid, target=target.oid),
    )


def _chosen(base: Fact, target: Fact, present: Fact) -> Fact | None:
    """Return the one of two that changed; None if both did, in different ways."""
    if present in (base, target):
        return target if present == base else present
    return present if target == base else None


def _of_conflict(sides: Sides, favour: Favour | None) -> Verdict:
    if favour == "theirs":
        return Verdict(want=sides.target)
    if favour == "ours":
        return Verdict(want=sides.present, conflict=KEPT)
    return Verdict(want=sides.present, conflict=CONFLICT, beside=sides.target)


class MergedTree:
    """The tree that a merge leads to, made directory by directory as it is read.

    A restore to it is planned like any other. ``suffix`` is what the names of target's versions
    get that are put beside conflicts; ``limits`` are the paths that count, none for all.
    """

    def __init__(
        self,
        base: Tree,
        target: Tree,
        *,
        present: Present,
        evidence: Evidence,
        blend: Blend,
        favour: Favour | None,
        suffix: bytes,
        limits: Sequence[bytes] = (),
    ) -> None:
        self.conflicts: dict[bytes, str] = {}
        self.merged: list[Merged] = []
        self.beside: list[bytes] = []
        self.root = _name_of(b"")
        self._origin, self._target, self._present = base, target, present
        self._look = evidence.look
        self._unknown = Covering({gap.path: gap.reason for gap in evidence.gaps_then})
        self._blend, self._favour, self._suffix = blend, favour, suffix
        self._limits = () if b"" in limits else tuple(limits)
        # Directories that are merged, by path: both trees, and whether they may turn out to be gone.
        self._trees: dict[bytes, tuple[TreeId | None, TreeId | None]] = {b"": (base.root, target.root)}
        self._doubtful: set[bytes] = set()
        self._gone: set[bytes] = set()
        self._kept: set[bytes] = set()
        self._made: dict[bytes, list[Entry]] = {}

    def directory(self, path: bytes, tree: TreeId) -> Sequence[Entry]:
        """Return the entries of one directory."""
        if tree == _name_of(path):
            return [entry for entry in self._listing(path) if self._lives(join(path, entry.name))]
        if not self._kept.isdisjoint((*ancestors(path), path)):
            return self._present.directory(path) or ()
        return self._target.directory(path, tree)

    def _lives(self, path: bytes) -> bool:
        """Tell whether anything is left in a directory that one side does not have."""
        if path not in self._doubtful or path in self._gone:
            return path not in self._gone
        waiting, seen = [path], set()
        while waiting:
            place = waiting.pop()
            seen.add(place)
            for entry in self._listing(place):
                inside = join(place, entry.name)
                if inside not in self._doubtful:
                    return True
                waiting.append(inside)
        self._gone |= seen
        return False

    def _listing(self, path: bytes) -> list[Entry]:
        if path not in self._made:
            self._made[path] = self._merge(path)
        return self._made[path]

    def _merge(self, path: bytes) -> list[Entry]:
        base, target = self._trees[path]
        olds = {} if base is None else _by_name(self._origin.directory(path, base))
        thens = {} if target is None else _by_name(self._target.directory(path, target))
        captured = self._present.directory(path)
        nows = _by_name(captured or ())
        hidden = set(self._present.left_out(path)) if captured is not None else (olds | thens).keys()
        made: dict[bytes, Entry] = {}
        taken = olds.keys() | thens.keys() | nows.keys()
        for name in sorted(taken):
            inside = join(path, name)
            left_out = name in hidden and name not in nows
            now = self._look(inside) if left_out else nows.get(name)
            sides = Sides(path=inside, base=olds.get(name), target=thens.get(name), present=now)
            want = self._want(sides, taken=taken, made=made)
            # What the scan left out and the merge leaves alone is none of a restore's business.
            if want is not None and not (left_out and want is now):
                made[name] = want
        return [made[name] for name in sorted(made)]

    def _want(self, sides: Sides, *, taken: Collection[bytes], made: dict[bytes, Entry]) -> Entry | None:
        path = sides.path
        untold = sides.target is None and self._unknown.of(path) is not None
        if untold or not self._counts(path):
            sides = sides.replace(target=sides.base)
        if sides.kinds == {DIRECTORY} and not self._decided(sides):
            return self._merged_directory(sides)
        verdict = decide(sides, blend=self._blend, favour=self._favour)
        if verdict.want is sides.present and sides.present is not None:
            self._kept.add(path)
        if verdict.conflict is not None:
            self.conflicts[path] = verdict.conflict
        if verdict.merged is not None:
            self.merged.append(verdict.merged)
        if verdict.beside is not None:
            self._put_beside(path, verdict.beside, taken=taken, made=made)
        return verdict.want

    def _decided(self, sides: Sides) -> bool:
        base, target, present = sides.base, sides.target, sides.present
        return same(base, target) or same(present, base) or same(present, target)

    def _merged_directory(self, sides: Sides) -> Entry:
        base, target, present = sides.base, sides.target, sides.present
        there = present or target
        assert there is not None
        self._trees[sides.path] = (
            None if base is None else base.tree_id,
            None if target is None else target.tree_id,
        )
        if present is None or target is None:
            self._doubtful.add(sides.path)
        mode = there.mode
        if base is not None and target is not None and present is not None:
            chosen = _chosen(*(side.mode & PERMISSION_BITS for side in (base, target, present)))
            mode = present.mode if chosen is None else chosen
        name = _name_of(sides.path)
        return there.replace(mode=mode, oid=name.tree, modes=name.modes)

    def _put_beside(
        self, path: bytes, entry: Entry, *, taken: Collection[bytes], made: dict[bytes, Entry]
    ) -> None:
        """Give the target's version a name of its own beside a conflict; never one that is taken."""
        for number in range(1, len(taken) + 1000):
            place = beside(path, self._suffix, number=number)
            if place is None:
                return
            name = place.rpartition(b"/")[2]
            there = None if name in made else self._there(place)
            if there is not None and same(there, entry):
                return  # an earlier merge has put it there
            if there is None and name not in taken and name not in made:
                made[name] = entry.replace(name=name)
                self.beside.append(place)
                return

    def _there(self, path: bytes) -> Entry | None:
        """Return what a path holds now; a directory that was captured with what is in it."""
        captured = _by_name(self._present.directory(parent(path)) or ())
        return captured.get(path.rpartition(b"/")[2]) or self._look(path)

    def _counts(self, path: bytes) -> bool:
        return not self._limits or any(within(path, limit) or within(limit, path) for limit in self._limits)


def plan_merge(
    tree: MergedTree, present: Present, *, evidence: Evidence, paths: Sequence[bytes], discard: bool
) -> tuple[Step, ...]:
    """Return the steps that turn what is present into a merged tree, with a step for each conflict."""
    steps = {step.path: step for step in plan(tree, present, evidence=evidence, paths=paths, discard=discard)}
    limits = () if b"" in paths else paths
    outside = [place for place in tree.beside if limits and not any(within(place, one) for one in limits)]
    if outside:
        for step in plan(tree, present, evidence=evidence, paths=outside):
            steps.setdefault(step.path, step)
    for path, reason in tree.conflicts.items():
        if limits and not any(within(path, limit) or within(limit, path) for limit in limits):
            continue
        if path in steps:
            steps[path] = steps[path].replace(reason=reason)
        else:
            steps[path] = Step(path=path, action="keep" if reason == KEPT else "skip", reason=reason)
    return in_order(steps.values())


def _name_of(path: bytes) -> TreeId:
    """Return what stands for the identity of a merged directory."""
    return TreeId(tree=b"merged " + path)


def _by_name(entries: Iterable[Entry]) -> dict[bytes, Entry]:
    return {entry.name: entry for entry in entries}


def beside(path: bytes, suffix: bytes, *, number: int) -> bytes | None:
    """Return the nth path to put another version of a file at, None where no name would be short enough.

    The name is cut at a character's edge where it would be too long.
    """
    if number > 1:
        suffix += b"-%d" % number
    above, _, name = path.rpartition(b"/")
    room = min(LONGEST_NAME, LONGEST_PATH - len(join(above, b""))) - len(suffix)
    if room < 1:
        return None
    if len(name) > room:
        name = name[:room].decode("utf-8", "ignore").encode() or name[:room]
    return join(above, name + suffix)
