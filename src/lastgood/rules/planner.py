"""The walk behind a restore plan: target and workspace side by side, equal directories passed over."""

from __future__ import annotations

from lastgood.errors import NotFound
from lastgood.model.plan import DISCARDED, Step
from lastgood.model.tree import DIRECTORY, FILE
from lastgood.names import ancestors, join, parent, printable, to_text
from lastgood.rules.evidence import PERMISSION_BITS, Judge, alike
from lastgood.rules.hostile import Inspection
from lastgood.rules.nearest import nearest_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal

    from lastgood.model.plan import Action
    from lastgood.model.tree import Entry, TreeId
    from lastgood.rules.compare import Tree
    from lastgood.rules.evidence import Evidence, Present

    # How much is known of a directory of the workspace: its scan, nothing but that it is there
    # (its contents have to be looked at one by one), or that it is not there.
    Sight = Literal["captured", "unseen", "absent"]
    # What a path holds now, and whether the scan left it out.
    Found = tuple[Entry | None, bool]


class Planner:
    """Collects the steps of one plan, in no order."""

    def __init__(self, target: Tree, present: Present, *, evidence: Evidence, discard: bool = False) -> None:
        self.steps: list[Step] = []
        self.unheld: list[bytes] = []
        self.inspection = Inspection(target.directory)
        self._target = target
        self._discard = discard
        self._present = present
        self._look = evidence.look
        self._judge = Judge(present, evidence)
        # A stack of our own: trees may be deeper than Python's recursion limit.
        self._waiting: list[tuple[bytes, TreeId, Sight]] = []
        self._made: set[bytes] = set()

    def whole(self) -> None:
        """Plan for the whole workspace."""
        sight: Sight = "unseen" if self._present.directory(b"") is None else "captured"
        self._waiting.append((b"", self._target.root, sight))
        self._finish()

    def scope(self, path: bytes) -> None:
        """Plan for one path and what is below it; the directories above are only made if need be."""
        wants = self._wanted_along(path)
        found = self._found_along(path)
        have, left_out = found[-1]
        want = wants[-1]
        if want is not None:
            self._lead_to(path, wants, found)
            self._wanted(path, want, (have, left_out))
            self._finish()
        elif have is None:
            self._add(path, "skip", reason=self._absent(path))
        elif left_out:
            directory = have.kind == DIRECTORY
            self._add(path, "keep", reason=self._judge.reason_left_out(path, directory=directory))
        else:
            self._unwanted(path, have)

    def alone(self, path: bytes, want: Entry) -> None:
        """Plan for a path that is to hold something, and for nothing below it.

        The directories above it are made if need be; one that the target has not stays as it is.
        """
        wants, found = self._wanted_along(path), self._found_along(path)
        if not all(_is_directory(above) for above in wants[:-1]):
            return
        self._lead_to(path, wants, found)
        if want.kind != DIRECTORY:
            self._wanted(path, want, found[-1])
        elif not _is_directory(found[-1][0]):
            self._make(path, want, found[-1])
        elif not alike(want, found[-1][0]):
            self._add(path, "chmod", want=want, have=found[-1][0])

    def _lead_to(self, path: bytes, wants: Sequence[Entry | None], found: Sequence[Found]) -> None:
        for place, above, there in zip(ancestors(path), wants, found, strict=False):
            assert above is not None
            if not _is_directory(there[0]):
                self._make(place, above, there)

    def _absent(self, path: bytes) -> str:
        reason = self._judge.gap_then(path)
        if reason is None:
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

    def _directory(self, path: bytes, tree: TreeId, sight: Sight) -> None:
        wanted = self._target.directory(path, tree)
        if sight != "absent":
            self.inspection.listing(path, wanted)
        find = self._finder(path, sight)
        present = self._present.directory(path) if sight == "captured" else None
        there = {have.name: have for have in present or ()}
        for want in wanted:
            have = there.pop(want.name, None)
            if have is None or not _is_same(want, have):
                self._wanted(join(path, want.name), want, find(want.name))
        for have in there.values():
            self._unwanted(join(path, have.name), have)

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
        have, left_out = found
        if want.kind == DIRECTORY:
            self._wanted_directory(path, want, found)
        elif _is_directory(have):
            self._replace_directory(path, want, found)
        elif not alike(want, have):
            self._add(path, action_between(want, have), want=want, have=have, forced=left_out)

    def _wanted_directory(self, path: bytes, want: Entry, found: Found) -> None:
        have, left_out = found
        if have is None or have.kind != DIRECTORY:
            self.inspection.subtree(path, want.tree_id)
            # A tree made to overwhelm is refused in the end; it must not be walked before.
            if not self.inspection.faults:
                self._make(path, want, found)
                self._waiting.append((path, want.tree_id, "absent"))
            return
        if not alike(want, have):
            # Permissions alone: nothing of an uncaptured directory has to be held for that.
            self._add(path, "chmod", want=want, have=have)
        if left_out or have.oid != want.oid or have.modes != want.modes:
            self._waiting.append((path, want.tree_id, _sight(have, left_out)))

    def _make(self, path: bytes, want: Entry, found: Found) -> None:
        have, left_out = found
        if path not in self._made:
            self._made.add(path)
            self._add(path, "mkdir", want=want, have=have, forced=left_out)

    def _replace_directory(self, path: bytes, want: Entry, found: Found) -> None:
        have, left_out = found
        assert have is not None
        if left_out:
            why = self._judge.reason_left_out(path, directory=True)
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
        reason = self._judge.reason_to_keep(path, directory=False)
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
        return bool(left_out) and all(self._judge.is_too_deep(join(path, name)) for name in left_out)

    def _is_discarded(self, path: bytes) -> bool:
        return self._discard and self._is_too_deep(path)

    def _stays_empty(self, path: bytes, have: Entry) -> bool:
        reason = self._judge.reason_to_keep(path, directory=True)
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
        if action in {"write", "mkdir"} and is_unheld(have):
            self.unheld.append(path)
        self.steps.append(Step(path=path, action=action, want=want, have=have, reason=reason, forced=forced))


def is_unheld(entry: Entry | None) -> bool:
    """Tell whether an entry stands for something whose content nothing can hold."""
    return entry is not None and entry.kind == FILE and not entry.oid


def action_between(want: Entry | None, have: Entry | None) -> Action:
    """Return the action that leads from what a path has to what it is to hold."""
    if want is None:
        return "rmdir" if have is not None and have.kind == DIRECTORY else "delete"
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


def _is_directory(entry: Entry | None) -> bool:
    return entry is not None and entry.kind == DIRECTORY


def _named(listing: Sequence[Entry], name: bytes) -> Entry | None:
    return next((entry for entry in listing if entry.name == name), None)


def _sight(have: Entry | None, left_out: bool) -> Sight:  # noqa: FBT001 - the two halves of a Found
    if have is None or have.kind != DIRECTORY:
        return "absent"
    return "unseen" if left_out else "captured"
