"""Merging: a tree of changes since and changes taken back, and the contents that files get (rule T17).

Seen from the base, the present is one side and the target the other; what only one of them changed
is taken from it, and what both changed in different ways is a conflict, unless it is text that merges.
"""

from __future__ import annotations

from lastgood.errors import Conflict
from lastgood.host import MergeInput
from lastgood.ids import short
from lastgood.model.operation import CONFLICT, Merged, Step
from lastgood.model.path_safety import LONGEST_NAME
from lastgood.model.report import MARKED, PARTLY
from lastgood.model.tree import DIRECTORY, FILE, PERMISSION_BITS, Entry, TreeId, same_content
from lastgood.paths import LONGEST_PATH, Covering, ancestors, join, parent, printable, to_text, within
from lastgood.restore.look import blob_id
from lastgood.restore.plan import DELETED, SPARED, UNTOUCHED, action_between, barred, in_order, occupied, plan
from lastgood.restore.spellings import as_spelt
from lastgood.trees import Files, tree_of
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import TypeVar

    from lastgood.context import Context
    from lastgood.literals import Favour
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import RestorePlan
    from lastgood.model.tree import Tree
    from lastgood.restore.plan import DeletionEvidence, Present
    from lastgood.snapshot import WorkspaceSnapshot

    Fact = TypeVar("Fact", int, bytes)
    Blend = Callable[["Sides"], "MergedBlob | None"]
    Look = Callable[[bytes], Entry | None]


# --- What a merge makes of every path: changes since a base stay, those between target and base go (rule
# T17) ---

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


class MergedBlob(Value):
    """The blob that a merge of texts gives; ``marked`` if conflicts are marked in it.

    ``partly``: where both sides changed a text, it is as at present.
    """

    oid: bytes
    marked: bool = False
    partly: bool = False

    @property
    def conflict(self) -> str | None:
        """What is told of it, None of one without conflicts."""
        return MARKED if self.marked else PARTLY if self.partly else None


class MergedPath(Value):
    """What a path is to hold, ``beside`` what is to be put beside it, and the reason of a conflict."""

    want: Entry | None
    conflict: str | None = None
    beside: Entry | None = None
    merged: Merged | None = None


def decide(sides: Sides, *, blend: Blend, favour: Favour | None) -> MergedPath:
    """Decide one path; directories are one if their trees are.

    ``blend`` merges the contents of three files, or returns None where they conflict.
    """
    base, target, present = sides.base, sides.target, sides.present
    if same(base, target):
        return MergedPath(want=present)
    if same(present, base):
        return MergedPath(want=target)
    if same(present, target):
        return MergedPath(want=present)
    return _of_files(sides, blend, favour) or _of_conflict(sides, favour)


def same(one: Entry | None, other: Entry | None) -> bool:
    """Tell whether two sides are one, contents of directories included."""
    if not same_content(one, other):
        return False
    return one is None or other is None or one.kind != DIRECTORY or one.tree_id == other.tree_id


def _of_files(sides: Sides, blend: Blend, favour: Favour | None) -> MergedPath | None:
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
        return MergedPath(want=present.replace(oid=oid, mode=mode))
    blended = blend(sides)
    if blended is None:
        return None
    return MergedPath(
        want=present.replace(oid=blended.oid, mode=mode),
        conflict=blended.conflict,
        beside=target if blended.partly else None,
        merged=Merged(
            path=sides.path, base=base.oid, target=target.oid, favour="ours" if blended.partly else None
        ),
    )


def _chosen(base: Fact, target: Fact, present: Fact) -> Fact | None:
    """Return the one of two that changed; None if both did, in different ways."""
    if present in (base, target):
        return target if present == base else present
    return present if target == base else None


def _of_conflict(sides: Sides, favour: Favour | None) -> MergedPath:
    if favour == "theirs":
        return MergedPath(want=sides.target)
    if favour == "ours":
        return MergedPath(want=sides.present, conflict=KEPT)
    return MergedPath(want=sides.present, conflict=CONFLICT, beside=sides.target)


class Copies(Value):
    """How the versions of then are put beside conflicts: their checkpoint, and what their names end with.

    Of what is ``private``, or holds what is, there is no copy: nothing would ignore that, and the next
    save would hold it like any file (rule S5).
    """

    ref: str
    suffix: bytes
    private: tuple[bytes, ...] = ()

    def why_none(self, path: bytes, entry: Entry | None) -> str | None:
        """Return what is told of a conflict beside which no copy may lie; None where one may."""
        if entry is None or not any(within(one, path) for one in self.private):
            return None
        if entry.kind == DIRECTORY:
            seen = f"restore {self.ref} --to FOLDER"
            return f"{CONFLICT}: holds private files, so no copy lies beside it: lastgood {seen}"
        from shlex import quote  # lazily: only such a conflict pays for it

        seen = f"cat {self.ref} {quote(to_text(path))} --private"
        return f"{CONFLICT}: private, so no copy lies beside it: lastgood {seen}"


class MergedTree:
    """The tree that a merge leads to, made directory by directory as it is read.

    A restore to it is planned like any other. ``copies`` says how target's versions are put beside
    conflicts; ``limits`` are the paths that count, none for all.
    """

    def __init__(
        self,
        base: Tree,
        target: Tree,
        *,
        present: Present,
        evidence: DeletionEvidence,
        blend: Blend,
        favour: Favour | None,
        copies: Copies,
        limits: Sequence[bytes] = (),
    ) -> None:
        self.conflicts: dict[bytes, str] = {}
        self.merged: list[Merged] = []
        self.beside: list[bytes] = []
        self.root: TreeId = _name_of(b"")
        self._origin, self._target, self._present = base, target, present
        self._look, self._spares = evidence.look, evidence.spares
        self._unknown = Covering({gap.path: gap.reason for gap in evidence.gaps_then})
        self._blend, self._favour, self._copies = blend, favour, copies
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
        without = self._copies.why_none(path, verdict.beside)
        if without is not None and sides.present is not None and self._stays(path):
            without = SPARED
        if verdict.conflict is not None:
            self.conflicts[path] = without or verdict.conflict
        if verdict.merged is not None:
            self.merged.append(verdict.merged)
        if verdict.beside is not None and without is None:
            self._put_beside(path, verdict.beside, taken=taken, made=made)
        return verdict.want

    def _stays(self, path: bytes) -> bool:
        """Tell whether what is there stays although it differs, its path not being given (rule S5)."""
        return path not in self._limits and self._spares(path)

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
            place = name_beside(path, self._copies.suffix, number=number)
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
    tree: MergedTree,
    present: Present,
    *,
    evidence: DeletionEvidence,
    paths: Sequence[bytes],
    discard: bool,
    was: Callable[[bytes], bool],
) -> tuple[Step, ...]:
    """Return the steps that turn what is present into a merged tree, with a step for each conflict.

    ``was`` tells whether the base or the target has a path.
    """
    made = plan(tree, present, evidence=evidence, paths=paths, discard=discard, was=was)
    steps = {step.path: step for step in made}
    limits = () if b"" in paths else paths
    outside = [place for place in tree.beside if limits and not any(within(place, one) for one in limits)]
    if outside:
        for step in plan(tree, present, evidence=evidence, paths=outside):
            steps.setdefault(step.path, step)
    for path, reason in tree.conflicts.items():
        if limits and not any(within(path, limit) or within(limit, path) for limit in limits):
            continue
        if path not in steps or steps[path].reason == DELETED:
            stays = reason in {KEPT, SPARED}
            steps[path] = Step(path=path, action="keep" if stays else "skip", reason=reason)
        elif steps[path].reason != SPARED:
            steps[path] = steps[path].replace(reason=reason)
    return in_order(steps.values())


def _name_of(path: bytes) -> TreeId:
    """Return what stands for the identity of a merged directory."""
    return TreeId(tree=b"merged " + path)


def _by_name(entries: Iterable[Entry]) -> dict[bytes, Entry]:
    return {entry.name: entry for entry in entries}


def name_beside(path: bytes, suffix: bytes, *, number: int) -> bytes | None:
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


# --- Steps taken back, what changed since being kept: a merge path by path (rules T8, T17) ---

_TRIES = 1000


class Reverted(Value):
    """A step that is taken back from, and what is taken back ``earlier`` of the same path, newest first.

    That is what the path had after somebody's change and before it; between these others changed it.
    """

    step: Step
    earlier: tuple[tuple[Entry | None, Entry | None], ...] = ()


def revert_merge(
    reverted: Iterable[Reverted],
    actual: Look,
    *,
    source: Look,
    present: Present,
    contents: Contents,
    copies: Copies,
) -> tuple[tuple[Step, ...], tuple[Merged, ...]]:
    """Return the steps that lead to what some steps want, changes since what they have being kept.

    ``actual`` answers for every path, ``present`` for what directories hold, ``source`` for what is
    taken back, ``copies`` how that is put beside conflicts.
    """
    made: list[Step] = []
    merged: list[Merged] = []
    for one in reverted:
        step = one.step
        if step.action in UNTOUCHED:
            made.append(step)
            continue
        sides = Sides(
            path=step.path,
            base=_alone(step.have),
            target=_alone(step.want),
            present=_alone(actual(step.path)),
        )
        if one.earlier:
            verdict = _folded(sides, one.earlier, contents)
        else:
            verdict = decide(sides, blend=contents.blend, favour=contents.favour)
        made += _steps(sides, verdict, actual, copies=copies)
        if verdict.merged is not None:
            merged.append(verdict.merged)
    return in_order(_housed(_beside_new(made, present), actual, source)), tuple(merged)


def _folded(
    sides: Sides, earlier: Sequence[tuple[Entry | None, Entry | None]], contents: Contents
) -> MergedPath:
    """Decide a path from which several changes are taken back one after the other, the newest first."""
    pairs = [(sides.base, sides.target), *((_alone(have), _alone(want)) for have, want in earlier)]
    last = sides.replace(target=pairs[-1][1])
    now = sides.present
    for base, target in pairs:
        if same(now, base):
            now = target
        elif not (same(base, target) or same(now, target)):
            break
    else:
        return MergedPath(want=now)
    files = [side for pair in pairs for side in pair]
    if sides.present is None or any(side is None or side.kind != FILE for side in (*files, sides.present)):
        return _of_conflict(last, contents.favour)
    mode, oids = sides.present.mode & PERMISSION_BITS, list[tuple[bytes, bytes]]()
    for base, target in pairs:
        assert base is not None
        assert target is not None
        chosen = _chosen(base.mode & PERMISSION_BITS, target.mode & PERMISSION_BITS, mode)
        mode = mode if chosen is None else chosen
        oids.append((base.oid, target.oid))
    merged = Merged(path=sides.path, base=oids[0][0], target=oids[0][1], then=tuple(oids[1:]))
    blended = contents.blended(merged, sides.present)
    if blended is None:
        return _of_conflict(last, contents.favour)
    return MergedPath(
        want=sides.present.replace(oid=blended.oid, mode=mode),
        conflict=blended.conflict,
        beside=last.target if blended.partly else None,
        merged=merged.replace(favour="ours") if blended.partly else merged,
    )


def _beside_new(steps: Sequence[Step], present: Present) -> list[Step]:
    """Let a directory be that a file would take the place of, but for what somebody has put into it."""
    full = occupied(steps, present)
    return [
        _closed(step, f"holds {printable(to_text(full[step.path]))}") if step.path in full else step
        for step in steps
    ]


def _closed(step: Step, why: str) -> Step:
    return step.replace(action="skip", reason=f"{CONFLICT}: {why}", forced=False)


def _housed(steps: Sequence[Step], actual: Look, source: Look) -> Iterator[Step]:
    """Make directories again that are gone; what lies below something else by now is a conflict."""
    homes: dict[bytes, Step] = {}
    decided = {step.path for step in steps}
    for path in barred(steps, actual) - decided:
        home = source(path) if actual(path) is None else None
        if home is not None and home.kind == DIRECTORY:
            homes[path] = Step(path=path, action="mkdir", want=_alone(home))
    closed = barred((*steps, *homes.values()), actual)
    used: set[bytes] = set()
    for step in steps:
        if step.want is None or step.action in UNTOUCHED:
            yield step
            continue
        above = ancestors(step.path)
        way = next((place for place in above if place in closed), None)
        if way is None:
            used.update(above)
            yield step
        else:
            yield _closed(step, f"{printable(to_text(way))} is no folder any more")
    yield from (home for path, home in homes.items() if path in used)


def _steps(sides: Sides, verdict: MergedPath, actual: Look, *, copies: Copies) -> Iterator[Step]:
    path, present, want = sides.path, sides.present, verdict.want
    without = copies.why_none(path, verdict.beside)
    if not same_content(want, present):
        forced = present is not None and present.kind != DIRECTORY
        action, reason = action_between(want, present), verdict.conflict
        if reason == PARTLY and without is not None:
            reason += without.removeprefix(CONFLICT)
        yield Step(path=path, action=action, want=want, have=present, reason=reason, forced=forced)
    elif verdict.conflict is not None:
        action = "keep" if verdict.conflict == KEPT else "skip"
        yield Step(path=path, action=action, reason=without or verdict.conflict)
    if verdict.beside is not None and verdict.beside.kind != DIRECTORY and without is None:
        yield from _beside(path, verdict.beside, actual, suffix=copies.suffix)


def _beside(path: bytes, entry: Entry, actual: Look, *, suffix: bytes) -> Iterator[Step]:
    above = parent(path)
    there = actual(above) if above else None
    if above and (there is None or there.kind != DIRECTORY):
        return  # its folder is gone: the guard that is being taken back to has it
    for number in range(1, _TRIES):
        place = name_beside(path, suffix, number=number)
        if place is None:
            return  # no name is short enough: the guard has it
        found = actual(place)
        if found is None:
            yield Step(path=place, action="write", want=entry.replace(name=place.rpartition(b"/")[2]))
        if found is None or same_content(found, entry):
            return


def _alone(entry: Entry | None) -> Entry | None:
    """Return a directory without what is in it: every path has a step of its own."""
    if entry is None or entry.kind != DIRECTORY:
        return entry
    return entry.replace(oid=b"", modes=b"")


# --- Merging: a tree of changes since and changes taken back, and the contents that files get (rule T17)
# ---

# Git looks so far for a zero byte to tell what is no text; and larger files are nobody's prose.
_LOOKED_AT = 8000
_LARGEST = 64 << 20


class Merge(Value):
    """What a merge keeps: everything since ``base``. ``favour`` decides where both sides changed."""

    base: Checkpoint
    favour: Favour | None = None


class Contents:
    """Blends the contents of files, and stores nothing: `hold` does that again when it is time.

    With ``partly`` a text in which both sides changed the same places is merged everywhere else.
    """

    def __init__(self, context: Context, *, favour: Favour | None, label: str, partly: bool = False) -> None:
        self._context = context
        self._partly = partly
        self.favour: Favour | None = favour
        self._label = label

    def blend(self, sides: Sides) -> MergedBlob | None:
        """Return the blob of three files merged; None where they conflict or are no texts."""
        if sides.base is None or sides.target is None or sides.present is None or not sides.present.oid:
            return None
        parts = Merged(path=sides.path, base=sides.base.oid, target=sides.target.oid)
        return self.blended(parts, sides.present)

    def blended(self, parts: Merged, present: Entry) -> MergedBlob | None:
        """Return the blob of what a path has, merged with each base and target in turn; None as `blend`."""
        found = self.merge(parts, present=present)
        if found is not None and not found[1] and self.favour is None and self._partly:
            return self._blended_partly(parts, present)
        if found is None or (not found[1] and self.favour is None):
            return None
        return MergedBlob(oid=blob_id(found[0]), marked=not found[1] and self.favour == "markers")

    def _blended_partly(self, parts: Merged, present: Entry) -> MergedBlob | None:
        """Return the blob with what both sides changed left as it is; None if nothing else changes."""
        found = self.merge(parts.replace(favour="ours"), present=present)
        oid = None if found is None else blob_id(found[0])
        return None if oid is None or oid == present.oid else MergedBlob(oid=oid, partly=True)

    def merge(self, parts: Merged, *, present: Entry) -> tuple[bytes, bool] | None:
        """Return the merged content and whether it is without conflicts; None for what is no text."""
        engine = self._context.engine
        pairs = ((parts.base, parts.target), *parts.then)
        oids = {oid for pair in pairs for oid in pair}
        if engine.missing(oids) or max(map(engine.blob_size, oids)) > _LARGEST:
            return None
        ours = self._context.applier.read(parts.path, present)
        if ours is None:
            raise Conflict(
                f"{printable(to_text(parts.path))} changed while it was being merged",
                hint="try again",
                details={"paths": [to_text(parts.path)]},
            )
        clean = True
        for base, target in pairs:
            texts = MergeInput(base=engine.read_blob(base), ours=ours, theirs=engine.read_blob(target))
            if parts.then and ours in {texts.base, texts.theirs}:
                ours = texts.theirs
                continue
            if len(ours) > _LARGEST or any(_is_binary(text) for text in (texts.base, ours, texts.theirs)):
                return None
            favour = parts.favour or self.favour
            made = self._context.merger().merge(texts, favour=favour, label=self._label)
            ours, clean = made.content, clean and made.clean
        return ours, clean


def merged_steps(
    snapshot: WorkspaceSnapshot,
    merge: Merge,
    *,
    files: tuple[Files, Files],
    target: Checkpoint,
    evidence: DeletionEvidence,
    paths: tuple[bytes, ...],
    discard: bool,
) -> tuple[tuple[Step, ...], tuple[Merged, ...]]:
    """Return the steps of a merge and what of them has to be stored; ``files`` are base's and target's."""
    base, then = files
    contents = Contents(snapshot.context, favour=merge.favour, label=target.short_id)
    tree = MergedTree(
        base,
        then,
        present=snapshot.scan,
        evidence=evidence,
        blend=contents.blend,
        favour=merge.favour,
        copies=_copies(snapshot, target, ref=target.short_id),
        limits=paths,
    )
    steps = plan_merge(
        tree,
        snapshot.scan,
        evidence=evidence,
        paths=paths,
        discard=discard,
        was=lambda path: base.entry(path) is not None or then.entry(path) is not None,
    )
    steps = as_spelt(steps, evidence.look, listed=snapshot.scan.directory)
    return steps, needed(steps, tree.merged)


def taken_back(
    snapshot: WorkspaceSnapshot,
    reverted: tuple[Reverted, ...],
    *,
    source: str | None,
    favour: Favour | None = None,
    partly: bool = False,
) -> tuple[tuple[Step, ...], tuple[Merged, ...]]:
    """Return steps that keep what changed since, and what of them has to be stored.

    A text with conflicts stays as it is; ``partly`` it stays so only where they are.
    """
    label = short(source or "then")
    found = None if source is None else snapshot.context.catalogue.get(source)
    contents = Contents(snapshot.context, favour=favour, label=label, partly=partly)
    made, merged = revert_merge(
        reverted,
        snapshot.actual,
        source=_entries_of(snapshot.context, found),
        present=snapshot.scan,
        contents=contents,
        copies=_copies(snapshot, found, ref=label),
    )
    return made, needed(made, merged)


def _entries_of(context: Context, checkpoint: Checkpoint | None) -> Callable[[bytes], Entry | None]:
    return (lambda _path: None) if checkpoint is None else Files(tree_of(checkpoint), context.engine).entry


def _copies(snapshot: WorkspaceSnapshot, then: Checkpoint | None, *, ref: str) -> Copies:
    private = {*(() if then is None else then.manifest.private), *snapshot.scan.result.private}
    return Copies(ref=ref, suffix=b".lastgood-" + ref.encode(), private=tuple(sorted(private)))


def needed(steps: Iterable[Step], merged: Iterable[Merged]) -> tuple[Merged, ...]:
    """Return the merges whose result a step writes."""
    written = {step.path for step in steps if step.action == "write"}
    return tuple(one for one in merged if one.path in written)


def hold_merged(snapshot: WorkspaceSnapshot, plan: RestorePlan) -> None:
    """Have the guard's pack take in the merged contents of a plan: they are written like any other.

    Raises `Conflict` if a file is not what the plan merged.
    """
    contents = Contents(snapshot.context, favour=plan.favour, label=short(plan.target))
    steps = {step.path: step for step in plan.steps}
    for parts in plan.merged:
        step = steps[parts.path]
        assert step.have is not None
        assert step.want is not None
        found = contents.merge(parts, present=step.have)
        if found is None or snapshot.hold(found[0]) != step.want.oid:
            raise Conflict(
                f"{printable(to_text(parts.path))} is not what the plan merged",
                hint="make the plan anew",
                details={"paths": [to_text(parts.path)]},
            )


def _is_binary(content: bytes) -> bool:
    return b"\0" in content[:_LOOKED_AT]
