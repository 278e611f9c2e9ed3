"""What a restore would do to every path: computed whole, before anything is touched (rules T1 to T6)."""

from __future__ import annotations

from _sha1 import sha1

from lastgood import ids
from lastgood.errors import NotFound, Unsafe
from lastgood.model.operation import DISCARDED, NOT_BACK, Step
from lastgood.model.path_safety import Inspection, refuse
from lastgood.model.tree import DIRECTORY, FILE, PERMISSION_BITS, is_directory, same_content
from lastgood.paths import Covering, ancestors, folded, is_beyond, join, parent, printable, to_text, ways
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Literal, Protocol

    from lastgood.literals import Action
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import RestorePlan
    from lastgood.model.tree import Difference, Entry, Gap, Listings, Tree, TreeId

    # How much is known of a directory of the workspace: its scan, nothing but that it is there
    # (its contents have to be looked at one by one), or that it is not there.
    Sight = Literal["captured", "unseen", "absent"]
    # What a path holds now, and whether the scan left it out.
    Found = tuple[Entry | None, bool]
else:
    Protocol = object

# --- What may be taken away, and what stays and why (rules T4, S5) ---

# Why a path that the base or the target of a merge has stays away.
DELETED = "deleted since, which a merge keeps"
# Why a file with a key in it, say, stays as it is.
SPARED = "private, and differs: give its path to restore it"
# How it begins why a change stays of which nobody knows that it is an agent's.
NOT_TAKEN = "not taken back"


class Present(Protocol):
    """The workspace as it was just scanned (`lastgood.worktree.Scan`)."""

    def directory(self, path: bytes) -> Sequence[Entry] | None:
        """Return the captured entries of a directory; None if it was not captured."""

    def left_out(self, path: bytes) -> Sequence[bytes]:
        """Return the names in a captured directory that were not captured."""

    def ignored(self, path: bytes, *, directory: bool) -> bool | None:
        """Tell whether the present rules ignore a path; None if they cannot be read."""


class IgnoredThen(Protocol):
    """The ignore rules of the target's moment."""

    def __call__(self, path: bytes, *, directory: bool) -> bool | None:
        """Tell whether those rules ignored a path; None if they could not be read."""


class DeletionEvidence(Value):
    """What decides whether a path may be taken away or overwritten.

    ``look`` reads a path that the scan left out, as it is now: None if nothing is there. A file
    whose content cannot be held (a socket, an unreadable file) has an empty ``oid``, and so has
    every directory. ``spares`` tells of which files what is there stays although it differs, unless
    their path is given (rule S5).
    """

    ignored_then: IgnoredThen
    look: Callable[[bytes], Entry | None]
    spares: Callable[[bytes], bool] = lambda _path: False
    gaps_then: tuple[Gap, ...] = ()
    gaps_now: tuple[Gap, ...] = ()


class DeletionPolicy:
    """Says of captured paths that the target does not have whether they stay."""

    __slots__ = ("_gaps_now", "_gaps_then", "_ignored_then", "_present")

    def __init__(self, present: Present, evidence: DeletionEvidence) -> None:
        self._present = present
        self._ignored_then = evidence.ignored_then
        self._gaps_now = _by_path(evidence.gaps_now)
        self._gaps_then = _by_path(evidence.gaps_then)

    def reason_to_keep(self, path: bytes, *, directory: bool) -> str | None:
        """Return why a path must not be taken away, or None when it may be."""
        now = self.ignored_now(path, directory=directory)
        if now is not None:
            return now
        then = self._ignored_then(path, directory=directory)
        if then is not False:
            return "was ignored" if then else "the ignore rules of then cannot be read"
        return self.gap_now(path) or self.gap_then(path)

    def ignored_now(self, path: bytes, *, directory: bool) -> str | None:
        """Return which present rule covers a path, or may do so."""
        now = self._present.ignored(path, directory=directory)
        return None if now is False else "ignored" if now else "its ignore rules cannot be read"

    def gap_now(self, path: bytes) -> str | None:
        """Return which gap of the workspace covers a path."""
        reason = self._gaps_now.of(path)
        return reason and f"not saved: {reason}"

    def is_too_deep(self, path: bytes) -> bool:
        """Tell whether a path is a gap of the workspace because no checkpoint holds anything so deep."""
        return self._gaps_now.at(path) == "unsupported" and is_beyond(path)

    def gap_then(self, path: bytes) -> str | None:
        """Return which gap of the target covers a path."""
        reason = self._gaps_then.of(path)
        return reason and f"not held then: {reason}"

    def reason_left_out(self, path: bytes, *, directory: bool) -> str:
        """Return why a path that the scan left out is none of a restore's business."""
        if self._present.ignored(path, directory=directory):
            return "ignored"
        return self.gap_now(path) or "not captured"


def _by_path(gaps: Iterable[Gap]) -> Covering:
    return Covering({gap.path: gap.reason for gap in gaps})


# --- The walk behind a restore plan: target and workspace side by side, equal directories passed over ---


class Since(Value):
    """What the last scan knows: of a directory that it saw as the target has it, only what differs counts.

    ``root`` is the present tree, ``differing`` is `Scan.differing`. By ``edits``, which is `Scan.edits`, no
    directory is gone through where nothing came, went or became of another kind since the target.
    """

    root: TreeId
    differing: Callable[[bytes, TreeId, TreeId], Listings | None]
    edits: Callable[[TreeId], Sequence[Difference] | None] = lambda _before: None


class Planner:
    """Collects the steps of one plan, in no order."""

    def __init__(
        self,
        target: Tree,
        present: Present,
        *,
        evidence: DeletionEvidence,
        discard: bool = False,
        was: Callable[[bytes], bool] | None = None,
        since: Since | None = None,
    ) -> None:
        self.steps: list[Step] = []
        self.unheld: list[bytes] = []
        self.inspection: Inspection = Inspection(target.directory)
        self._target = target
        self._discard = discard
        self._was = was
        self._since = since
        self._present = present
        self._look = evidence.look
        self._spares = evidence.spares
        self._given: set[bytes] = set()
        self._policy = DeletionPolicy(present, evidence)
        # A stack of our own: trees may be deeper than Python's recursion limit.
        self._waiting: list[tuple[bytes, TreeId, Sight, TreeId | None]] = []
        self._made: set[bytes] = set()

    def whole(self) -> None:
        """Plan for the whole workspace."""
        edits = None if self._since is None else self._since.edits(self._target.root)
        if edits is not None:
            self._take_back(edits)
            return
        sight: Sight = "unseen" if self._present.directory(b"") is None else "captured"
        now = None if self._since is None else self._since.root
        self._waiting.append((b"", self._target.root, sight, now))
        self._finish()

    def _take_back(self, edits: Iterable[Difference]) -> None:
        """Plan for paths that hold something else than the target does, and are of the kind that it wants.

        All names are then names that a scan has captured, which are none that must not be written, and no
        reason to keep counts that is about what goes, or about what a directory holds beside.
        """
        for path, _, want, have in edits:
            if want is None or have is None or same_content(want, have):  # special bits are never put back
                continue
            if want.kind == DIRECTORY:
                self._add(path, "chmod", want=want, have=have)
            else:
                self._bring(path, want, (have, False))

    def scope(self, path: bytes) -> None:
        """Plan for one path and what is below it; the directories above are only made if need be."""
        self._given.add(path)
        wants = self._wanted_along(path)
        found = self._found_along(path)
        have, left_out = found[-1]
        want = wants[-1]
        if want is not None:
            self._lead_to(path, wants, found)
            self._wanted(path, want, (have, left_out))
            self._finish()
        elif have is None and self._was is not None and self._was(path):
            self._add(path, "keep", reason=DELETED)
        elif have is None:
            self._add(path, "skip", reason=self._absent(path))
        elif left_out:
            directory = have.kind == DIRECTORY
            self._add(path, "keep", reason=self._policy.reason_left_out(path, directory=directory))
        else:
            self._unwanted(path, have)

    def alone(self, path: bytes, want: Entry) -> None:
        """Plan for a path that is to hold something, and for nothing below it.

        The directories above it are made if need be; one that the target has not stays as it is.
        """
        self._given.add(path)
        wants, found = self._wanted_along(path), self._found_along(path)
        if not all(is_directory(above) for above in wants[:-1]):
            return
        self._lead_to(path, wants, found)
        if want.kind != DIRECTORY:
            self._wanted(path, want, found[-1])
        elif not is_directory(found[-1][0]):
            self._make(path, want, found[-1])
        elif not same_content(want, found[-1][0]):
            self._add(path, "chmod", want=want, have=found[-1][0])

    def _lead_to(self, path: bytes, wants: Sequence[Entry | None], found: Sequence[Found]) -> None:
        for place, above, there in zip(ancestors(path), wants, found, strict=False):
            assert above is not None
            if not is_directory(there[0]):
                self._make(place, above, there)

    def _absent(self, path: bytes) -> str:
        reason = self._policy.gap_then(path)
        if reason is None:
            from lastgood.suggestions import nearest_path

            shown = printable(to_text(path))
            near = nearest_path(path, self._names)
            details: dict[str, object] = {"path": to_text(path)}
            raise NotFound(
                f"neither the checkpoint nor the workspace has {shown}",
                hint="lastgood show ID --files lists what a checkpoint holds"
                if near is None
                else f"did you mean {printable(to_text(near))}?",
                details=details if near is None else details | {"near": to_text(near)},
            )
        return reason

    def _names(self, directory: bytes) -> list[bytes]:
        """Return the names that target and workspace hold in a directory."""
        tree: TreeId | None = self._target.root
        above = b""
        for name in directory.split(b"/") if directory else ():
            entry = None if tree is None else _named(self._target.directory(above, tree), name)
            tree = entry.tree_id if entry is not None and entry.kind == DIRECTORY else None
            above = join(above, name)
        wanted = () if tree is None else self._target.directory(directory, tree)
        return [entry.name for entry in (*wanted, *(self._present.directory(directory) or ()))]

    def _wanted_along(self, path: bytes) -> list[Entry | None]:
        """Return what the target holds at every directory above a path and at the path itself."""
        along: list[Entry | None] = []
        tree: TreeId | None = self._target.root
        above = b""
        for name in path.split(b"/"):
            listing = () if tree is None else self._target.directory(above, tree)
            self.inspection.listing(above, [entry for entry in listing if entry.name == name])
            entry = _named(listing, name)
            along.append(entry)
            tree = entry.tree_id if entry is not None and entry.kind == DIRECTORY else None
            above = join(above, name)
        return along

    def _found_along(self, path: bytes) -> list[Found]:
        """Return what the workspace holds at every directory above a path and at the path itself."""
        along: list[Found] = []
        sight: Sight = "captured"
        above = b""
        for name in path.split(b"/"):
            found = self._finder(above, sight)(name)
            along.append(found)
            sight = _sight(*found)
            above = join(above, name)
        return along

    def _finish(self) -> None:
        while self._waiting:
            self._directory(*self._waiting.pop())

    def _directory(self, path: bytes, tree: TreeId, sight: Sight, now: TreeId | None) -> None:
        wanted, present = self._listings(path, tree, sight=sight, now=now)
        find: Callable[[bytes], Found] | None = None
        there = {have.name: have for have in present}
        for want in wanted:
            have = there.pop(want.name, None)
            if have is None:
                find = find or self._finder(path, sight)
                self._wanted(join(path, want.name), want, find(want.name))
            elif not _is_same(want, have):
                self._wanted(join(path, want.name), want, (have, False))
        for have in there.values():
            self._unwanted(join(path, have.name), have)

    def _listings(self, path: bytes, tree: TreeId, *, sight: Sight, now: TreeId | None) -> Listings:
        """Return what is to be compared of a directory: what it is to hold, and what of it is captured."""
        if self._since is not None and now is not None and sight == "captured":
            known = self._since.differing(path, tree, now)
            if known is not None:  # all else is there, under these very names
                self.inspection.listing(path, known[0])
                return known
        wanted = self._target.directory(path, tree)
        if sight != "absent":
            self.inspection.listing(path, wanted)
        return wanted, (self._present.directory(path) if sight == "captured" else None) or ()

    def _finder(self, path: bytes, sight: Sight) -> Callable[[bytes], Found]:
        """Return a function from a name in a directory of the workspace to what it holds."""
        if sight == "absent":
            return lambda _name: (None, False)
        listing = self._present.directory(path) if sight == "captured" else None
        if listing is None:
            return lambda name: (self._look(join(path, name)), True)
        captured = {entry.name: entry for entry in listing}
        left_out = frozenset(self._present.left_out(path))

        def find(name: bytes) -> Found:
            if name in captured:
                return captured[name], False
            return (self._look(join(path, name)), True) if name in left_out else (None, False)

        return find

    def _wanted(self, path: bytes, want: Entry, found: Found) -> None:
        if want.kind == DIRECTORY:
            self._wanted_directory(path, want, found)
        elif is_directory(found[0]):
            self._replace_directory(path, want, found)
        elif not same_content(want, found[0]):
            self._bring(path, want, found)

    def _bring(self, path: bytes, want: Entry, found: Found) -> None:
        """Plan for a file or link to be brought where another one is, or none."""
        have, left_out = found
        if have is not None and path not in self._given and self._spares(path):
            self._add(path, "keep", have=have, reason=SPARED)
        else:
            self._add(path, action_between(want, have), want=want, have=have, forced=left_out)

    def _wanted_directory(self, path: bytes, want: Entry, found: Found) -> None:
        have, left_out = found
        if have is None or have.kind != DIRECTORY:
            self.inspection.subtree(path, want.tree_id)
            # A tree made to overwhelm is refused in the end; it must not be walked before.
            if not self.inspection.faults:
                self._make(path, want, found)
                self._waiting.append((path, want.tree_id, "absent", None))
            return
        if not same_content(want, have):
            # Permissions alone: nothing of an uncaptured directory has to be held for that.
            self._add(path, "chmod", want=want, have=have)
        if left_out or have.oid != want.oid or have.modes != want.modes:
            self._waiting.append((path, want.tree_id, _sight(have, left_out), have.tree_id))

    def _make(self, path: bytes, want: Entry, found: Found) -> None:
        have, left_out = found
        if path not in self._made:
            self._made.add(path)
            self._add(path, "mkdir", want=want, have=have, forced=left_out)

    def _replace_directory(self, path: bytes, want: Entry, found: Found) -> None:
        have, left_out = found
        assert have is not None
        if left_out:
            why = self._policy.reason_left_out(path, directory=True)
            self._add(path, "skip", want=want, have=have, reason=f"a directory is in the way ({why})")
            return
        obstacle = self._clear(path, have, remove=False)
        if obstacle is None:
            self._add(path, "write", want=want, have=have)
        else:
            shown = printable(to_text(obstacle))
            reason = f"a directory is in the way, and {shown} in it stays"
            self._add(path, "skip", want=want, have=have, reason=reason)

    def _unwanted(self, path: bytes, have: Entry) -> bool:
        """Plan to take a captured path away, and return whether (some of) it stays."""
        if have.kind == DIRECTORY:
            return self._clear(path, have, remove=True) is not None
        reason = self._policy.reason_to_keep(path, directory=False)
        if reason is None:
            self._add(path, "delete", have=have)
        else:
            self._add(path, "keep", have=have, reason=reason)
        return reason is not None

    def _clear(self, root: bytes, have: Entry, *, remove: bool) -> bytes | None:
        """Plan to empty a directory, and return a path that stays in it, None if none does.

        With ``remove`` the directory itself goes too, unless something speaks against it.
        """
        stays: dict[bytes, bytes] = {}
        order: list[tuple[bytes, Entry]] = []
        waiting = [(root, have)]
        while waiting:
            path, entry = waiting.pop()
            order.append((path, entry))
            obstacle = None if remove and self._is_discarded(path) else self._left_in(path)
            if obstacle is not None and (path != root or remove):
                self._add_left(path)
            for child in self._present.directory(path) or ():
                inside = join(path, child.name)
                if child.kind == DIRECTORY:
                    waiting.append((inside, child))
                elif self._unwanted(inside, child):
                    obstacle = inside
            if obstacle is not None:
                stays[path] = obstacle
        # Parents were met before their children: backwards, a directory is judged after its contents.
        for path, entry in reversed(order):
            if (path != root or remove) and path not in stays and self._stays_empty(path, entry):
                stays[path] = path
            if path in stays and path != root:
                stays.setdefault(parent(path), stays[path])
        return stays.get(root)

    def _left_in(self, path: bytes) -> bytes | None:
        """Name something in a directory that the scan left out: it stays, and the directory with it."""
        left_out = self._present.left_out(path)
        if not left_out and self._present.directory(path) is not None:
            return None
        return join(path, left_out[0]) if left_out else path

    def _add_left(self, path: bytes) -> None:
        left_out = self._present.left_out(path)
        reason = "holds a repository" if b".git" in left_out else "holds what was not captured"
        if self._is_too_deep(path):
            reason = "holds what is too deep to be captured: --discard would delete it"
        self._add(path, "keep", reason=reason)

    def _is_too_deep(self, path: bytes) -> bool:
        """Tell whether all that the scan left out in a directory is too deep for a checkpoint."""
        left_out = self._present.left_out(path)
        return bool(left_out) and all(self._policy.is_too_deep(join(path, name)) for name in left_out)

    def _is_discarded(self, path: bytes) -> bool:
        return self._discard and self._is_too_deep(path)

    def _stays_empty(self, path: bytes, have: Entry) -> bool:
        reason = self._policy.reason_to_keep(path, directory=True)
        if reason is None:
            self._add(path, "rmdir", have=have, reason=DISCARDED if self._is_discarded(path) else None)
        else:
            self._add(path, "keep", have=have, reason=reason)
        return reason is not None

    def _add(
        self,
        path: bytes,
        action: Action,
        *,
        want: Entry | None = None,
        have: Entry | None = None,
        reason: str | None = None,
        forced: bool = False,
    ) -> None:
        if want is not None and want.mode & ~PERMISSION_BITS:
            want = want.replace(mode=want.mode & PERMISSION_BITS)
        if action in MAKING and is_unheld(have):
            self.unheld.append(path)
        self.steps.append(Step(path=path, action=action, want=want, have=have, reason=reason, forced=forced))


def is_unheld(entry: Entry | None) -> bool:
    """Tell whether an entry stands for something whose content nothing can hold."""
    return entry is not None and entry.kind == FILE and not entry.oid


def action_between(want: Entry | None, have: Entry | None) -> Action:
    """Return the action that leads from what a path has to what it is to hold."""
    if want is None:
        return "rmdir" if is_directory(have) else "delete"
    if have is None or have.kind != want.kind:
        return "mkdir" if want.kind == DIRECTORY else "write"
    return "chmod" if want.kind == DIRECTORY or want.oid == have.oid else "write"


def _is_same(one: Entry, other: Entry) -> bool:
    """Tell whether nothing has to be done for an entry, nor below it."""
    return (
        one.oid == other.oid
        and one.mode == other.mode
        and one.kind == other.kind
        and one.modes == other.modes
    )


def _named(listing: Sequence[Entry], name: bytes) -> Entry | None:
    return next((entry for entry in listing if entry.name == name), None)


def _sight(have: Entry | None, left_out: bool) -> Sight:  # noqa: FBT001 - the two halves of a Found
    if have is None or have.kind != DIRECTORY:
        return "absent"
    return "unseen" if left_out else "captured"


# --- What a restore would do to every path: computed whole, before anything is touched (rules T1 to T6) ---

# Rule T16.
MANY_DELETIONS = 1000
FEW_DELETIONS = 50

# In which order steps are taken: what is to hold others first, what takes something away last (rule T5).
ORDER: tuple[Action, ...] = ("mkdir", "write", "chmod", "delete", "rmdir")
_TOUCHING: frozenset[Action] = frozenset(ORDER)
MAKING: frozenset[Action] = frozenset({"mkdir", "write"})
_SHOWN = 10


def plan(
    target: Tree,
    present: Present,
    *,
    evidence: DeletionEvidence,
    paths: Iterable[bytes] = (),
    discard: bool = False,
    was: Callable[[bytes], bool] | None = None,
    since: Since | None = None,
) -> tuple[Step, ...]:
    """Return the steps that turn what is present into the target, in the order to take them.

    ``paths`` limits them to some files or directories, ``since`` spares a look at what did not change.
    Raises `NotFound` for a path that neither side has, nor ``was`` in any that the target was merged of,
    and `Unsafe` for a target that must not be written out, or (unless ``discard``) when something would be
    overwritten that no guard can hold.
    """
    planner = Planner(target, present, evidence=evidence, discard=discard, was=was, since=since)
    scopes = _outermost(paths)
    if scopes in ([], [b""]):
        planner.whole()
    else:
        for scope in scopes:
            planner.scope(scope)
    refuse(planner.inspection.faults)
    if planner.unheld and not discard:
        _refuse_unheld(sorted(planner.unheld))
    return in_order(planner.steps)


def in_order(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return steps in the safe order (`ORDER`), then what is not touched."""
    by: dict[Action, list[Step]] = {action: [] for action in (*ORDER, "keep", "skip")}
    for step in steps:
        by[step.action].append(step)
    for action, bucket in by.items():
        # Shallow first, but directories are removed deep first.
        bucket.sort(key=_path, reverse=action == "rmdir")
    return tuple(step for bucket in by.values() for step in bucket)


def are_alike(steps: Sequence[Step]) -> bool:
    """Tell whether something is to be made whose name differs in case alone from one that is not wanted."""
    there = {folded(step.path) for step in steps if step.want is None}
    making = (step for step in steps if step.have is None and step.action in MAKING) if there else ()
    return any(folded(step.path) in there for step in making)


def inverse(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return the steps that take steps back: what was wanted is what they find, and the reverse.

    What no guard could hold (discarded on request) does not come back: a step "skip" says so.
    """
    back = []
    for step in steps:
        if step.action not in _TOUCHING:
            continue
        if is_unheld(step.have):
            back.append(Step(path=step.path, action="skip", reason="what was here could not be copied"))
            continue
        action = action_between(step.have, step.want)
        reason = NOT_BACK if step.reason == DISCARDED else None
        back.append(step.replace(action=action, want=step.have, have=step.want, reason=reason))
    return in_order(back)


def conflicts(steps: Iterable[Step], actual: Callable[[bytes], Entry | None]) -> tuple[bytes, ...]:
    """Return the paths to be touched that do not hold what the steps say they have.

    ``actual`` has to answer for paths that a scan leaves out as well; contents of directories do
    not count.
    """
    touching = (step for step in steps if step.action in _TOUCHING)
    return tuple(step.path for step in touching if not same_content(step.have, actual(step.path)))


def too_many_deletions(steps: Iterable[Step], files_total: int) -> bool:
    """Tell whether a plan takes away so much that consent has to be asked for (rule T16)."""
    deletions = sum(1 for step in steps if step.action == "delete")
    return deletions > MANY_DELETIONS or (deletions >= FEW_DELETIONS and deletions * 2 > files_total)


def takes_many_away(plan: RestorePlan, target: Checkpoint) -> bool:
    """Tell whether a plan towards a checkpoint takes so much away that consent has to be asked for."""
    fresh = sum(1 for step in plan.of("write") if step.have is None)
    # How many files the workspace has now, as far as the plan and its target tell.
    before = max(0, target.manifest.files - fresh) + plan.deletions
    return too_many_deletions(plan.steps, before)


def identify(
    steps: Iterable[Step],
    *,
    target: str,
    workspace_key: str,
    paths: Iterable[bytes] = (),
    discard: bool = False,
    force: bool = False,
    beside: Iterable[bytes] = (),
) -> str:
    """Return the id of a plan: the same steps towards the same target give the same id (rule T16).

    ``beside`` is what else it covers: scopes, parts, the base of a merge.
    """
    said = b" ".join(word for word, is_said in ((b"discard", discard), (b"force", force)) if is_said)
    texts = (target.encode(), workspace_key.encode(), said, *sorted(paths))
    told = [b"%d:%b" % (len(text), text) for text in texts]
    told += [b"\n%d:%b" % (len(text), text) for text in beside]
    told.append(b"\n")
    for step in steps:
        facts = f"{step.action} {_facts(step.want)} {_facts(step.have)} {step.forced}"
        told.append(b"%d:%b %b\n" % (len(step.path), step.path, facts.encode()))
    return ids.plan_id(sha1(b"".join(told), usedforsecurity=False).digest())


def _facts(entry: Entry | None) -> str:
    if entry is None:
        return "-"
    return f"{entry.kind} {entry.mode:o} {'' if entry.kind == DIRECTORY else entry.oid.hex()}"


def _path(step: Step) -> bytes:
    return step.path


def _outermost(paths: Iterable[bytes]) -> list[bytes]:
    """Leave out the paths that lie within others."""
    given = set(paths)
    if b"" in given:
        return [b""]
    covering = Covering(dict.fromkeys(given, "given"))
    return sorted(path for path in given if covering.of(parent(path)) is None)


def _refuse_unheld(paths: Sequence[bytes]) -> None:
    shown = ", ".join(printable(to_text(path)) for path in paths[:_SHOWN])
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    raise Unsafe(
        f"what is there now cannot be copied, and would be lost: {shown}{more}",
        hint="move it away, or restore with --discard to lose it",
        details={"paths": [to_text(path) for path in paths]},
    )


# --- What is in the way of steps ---

UNTOUCHED: frozenset[Action] = frozenset({"keep", "skip"})


def obstacles(paths: Iterable[bytes], actual: Callable[[bytes], Entry | None]) -> set[bytes]:
    """Return the paths above others that hold no directory, though they would have to."""
    return {way for way in sorted(ways(paths)) if not is_directory(actual(way))}


def barred(steps: Iterable[Step], actual: Callable[[bytes], Entry | None]) -> set[bytes]:
    """Return the paths above what steps write that hold no directory, and that no step makes one."""
    writing = tuple(step for step in steps if step.want is not None and step.action not in UNTOUCHED)
    made = {step.path for step in writing if step.action == "mkdir"}
    return obstacles((step.path for step in writing), actual) - made


def occupied(steps: Iterable[Step], present: Present) -> dict[bytes, bytes]:
    """Return the directories that a file is to take the place of, each with something that stays in it."""
    known = tuple(step for step in steps if step.action not in UNTOUCHED)
    going = {step.path for step in known if step.want is None}
    found: dict[bytes, bytes] = {}
    for step in known:
        if step.want is None or step.want.kind == DIRECTORY or step.have is None:
            continue
        stays = _staying(step.path, going, present) if step.have.kind == DIRECTORY else None
        if stays is not None:
            found[step.path] = stays
    return found


def _staying(path: bytes, going: set[bytes], present: Present) -> bytes | None:
    waiting = [path]
    while waiting:
        place = waiting.pop()
        left_out = present.left_out(place)
        if left_out:
            return join(place, left_out[0])
        for entry in present.directory(place) or ():
            inside = join(place, entry.name)
            if inside not in going:
                return inside
            if entry.kind == DIRECTORY:
                waiting.append(inside)
    return None


def is_barred(steps: Iterable[Step]) -> bool:
    """Tell whether some of what steps want could not even be planned, because of what is in its way."""
    return any(step.action == "skip" and step.want is not None for step in steps)
