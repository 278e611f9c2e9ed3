"""What a workspace consists of at one moment: entries in directories, and the gaps."""

from __future__ import annotations

from stat import S_IFDIR, S_IFREG

from lastgood.paths import Covering, join
from lastgood.value import Value, setters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Protocol

    from lastgood.literals import ChangeStatus, EntryKind, GapReason
    from lastgood.value import ObjectId

else:
    Protocol = object


FILE: EntryKind = "file"
LINK: EntryKind = "link"
DIRECTORY: EntryKind = "directory"

DEFAULT_FILE_MODE = 0o644
DEFAULT_EXECUTABLE_MODE = 0o755
DEFAULT_DIRECTORY_MODE = 0o755

PERMISSION_BITS = 0o777
# setuid, setgid and sticky are recorded, and never restored (rule S3).
SPECIAL_BITS = 0o7000
# What a directory has that a restore makes, until it gets its own permissions last of all: the sticky bit
# marks it as ours, for a restore that is killed meanwhile.
UNFINISHED_DIRECTORY = 0o1700
_INHERITED = 0o2000


class TreeId(Value):
    """The identity of a whole directory: what it contains, and the permissions that git cannot hold.

    ``tree`` is the 20-byte object id of a git tree. ``modes`` is the 20-byte id of the parallel tree
    of permission tables, or ``b""`` when everything below has default permissions.
    """

    tree: bytes
    modes: bytes = b""


class Entry(Value):
    """One name in a directory.

    ``mode`` holds the twelve permission bits (always 0 for a link). ``oid`` is the 20-byte blob id
    of a file's bytes or of a link's target; for a directory it is the tree id, and ``modes`` the
    other half of its `TreeId`.
    """

    name: bytes
    kind: EntryKind
    mode: int
    oid: ObjectId
    modes: ObjectId

    # Written out: a listing builds thousands of these, and this takes a fifth of the time.
    def __init__(self, *, name: bytes, kind: EntryKind, mode: int, oid: bytes, modes: bytes = b"") -> None:
        _set_name(self, name)
        _set_kind(self, kind)
        _set_mode(self, mode)
        _set_oid(self, oid)
        _set_modes(self, modes)

    @property
    def tree_id(self) -> TreeId:
        """The identity of the directory that this entry names."""
        return TreeId(tree=self.oid, modes=self.modes)


_set_name, _set_kind, _set_mode, _set_oid, _set_modes = setters(Entry)


def plain_entry(row: tuple[bytes, int, bytes]) -> Entry:
    """Return the entry of a name, its whole mode and an id: a file, or a directory with defaults below."""
    name, mode, oid = row
    kind: EntryKind = DIRECTORY if mode & S_IFDIR else FILE
    return Entry(name=name, kind=kind, mode=mode & ~(S_IFDIR | S_IFREG), oid=oid)


def is_directory(entry: Entry | None) -> bool:
    """Tell whether something is there and is a directory."""
    return entry is not None and entry.kind == DIRECTORY


def is_content(entry: Entry | None) -> bool:
    """Tell whether something is there that has a content of its own: a file or a link."""
    return entry is not None and entry.kind != DIRECTORY


def is_unfinished(mode: int) -> bool:
    """Tell whether a directory is one that a restore has made, and that has no permissions of its own yet."""
    return mode & ~_INHERITED == UNFINISHED_DIRECTORY


def same_content(one: Entry | None, other: Entry | None) -> bool:
    """Tell whether two entries are one to a restore: special bits and contents of directories aside."""
    if one is None or other is None:
        return one is other
    if one.kind != other.kind:
        return False
    if one.kind != DIRECTORY and one.oid != other.oid:
        return False
    return one.kind == LINK or not (one.mode ^ other.mode) & PERMISSION_BITS


class Gap(Value):
    """A path that exists, and that a checkpoint does not hold; a directory stands for all below it."""

    path: bytes
    reason: GapReason
    size: int | None = None


class Change(Value):
    """One path that differs between two trees; directories count only when empty or alone in kind."""

    path: bytes
    status: ChangeStatus
    before: Entry | None
    after: Entry | None


class Counts(Value):
    """How many paths a comparison found."""

    added: int = 0
    modified: int = 0
    deleted: int = 0


# --- What differs between two trees, in the order of paths as bytes ---

if TYPE_CHECKING:
    Difference = tuple[bytes, ChangeStatus, Entry | None, Entry | None]
    # Sort key, path, and either a difference or the listings to go on with.
    Listings = tuple[Sequence[Entry], Sequence[Entry]]
    # Returns what of a directory, of which both identities are given, is not alike in both trees, before and
    # after; None where it has to be read.
    Differing = Callable[[bytes, TreeId, TreeId], Listings | None]
    Item = tuple[bytes, Difference | None, bytes, Listings | None]


class Tree(Protocol):
    """A whole tree that can be read directory by directory."""

    @property
    def root(self) -> TreeId:
        """The identity of the whole."""

    def directory(self, path: bytes, tree: TreeId) -> Sequence[Entry]:
        """Return the entries of one directory, named by its path and its identity alike."""


class StoredTree:
    """A tree read by identity alone, as an engine reads."""

    __slots__ = ("_read", "root")

    def __init__(self, root: TreeId, read: Callable[[TreeId], Sequence[Entry]]) -> None:
        self.root: TreeId = root
        self._read = read

    def directory(self, path: bytes, tree: TreeId) -> Sequence[Entry]:  # noqa: ARG002 - the protocol's
        """Return the entries of one directory."""
        return self._read(tree)


def compare(
    before: Tree | None,
    after: Tree | None,
    *,
    gaps: Sequence[Gap] = (),
    differing: Differing | None = None,
) -> Iterator[Change]:
    """Yield what differs, sorted by path; None stands for a tree without anything in it.

    ``gaps`` are those of ``after``: what lies at or below one counts as unknown, not as deleted.
    By ``differing`` fewer entries are looked at.

    Directories of equal identity are not read. A directory that came or went is reported through
    its contents, and itself only when empty; one whose own permissions differ has status "mode".
    Where a directory takes another kind's place, the path has status "kind" and the contents
    follow as added or deleted.
    """
    for difference in _beside_gaps(_differences(before, after, differing), gaps):
        yield changed(*difference)


def changed(path: bytes, status: ChangeStatus, before: Entry | None, after: Entry | None) -> Change:
    """Return a difference as a change."""
    return Change(path=path, status=status, before=before, after=after)


def counts(changes: Iterable[Change]) -> Counts:
    """Count changes; changes of mode and kind are modifications."""
    return _count(change.status for change in changes)


def tally(
    before: Tree | None,
    after: Tree | None,
    *,
    gaps: Sequence[Gap] = (),
    differing: Differing | None = None,
) -> Counts:
    """Return ``counts(compare(before, after, ...))`` without building the changes."""
    return _count(status for _, status, _, _ in _beside_gaps(_differences(before, after, differing), gaps))


def _beside_gaps(differences: Iterable[Difference], gaps: Sequence[Gap]) -> Iterable[Difference]:
    """Leave out what only seems to be gone: a gap is never a deletion (rule S7)."""
    if not gaps:
        return differences
    covering = Covering({gap.path: gap.reason for gap in gaps})
    return (one for one in differences if one[1] != "deleted" or covering.of(one[0]) is None)


def _count(statuses: Iterable[ChangeStatus]) -> Counts:
    added = modified = deleted = 0
    for status in statuses:
        if status == "added":
            added += 1
        elif status == "deleted":
            deleted += 1
        else:
            modified += 1
    return Counts(added=added, modified=modified, deleted=deleted)


def _differences(
    before: Tree | None, after: Tree | None, differing: Differing | None
) -> Iterator[Difference]:
    if before is not None and after is not None and before.root == after.root:
        return
    walk = _Walk(before, after, differing)
    first = walk.listings(b"", *(None if tree is None else whole(tree.root) for tree in (before, after)))
    # A stack of our own: trees may be deeper than Python's recursion limit.
    stack = [iter(walk.items(b"", first))]
    while stack:
        for _, difference, path, listings in stack[-1]:
            if difference is not None:
                yield difference
            elif listings is not None:
                stack.append(iter(walk.items(path, listings)))
                break
        else:
            stack.pop()


class _Walk:
    """Pairs the entries of one directory in both trees."""

    __slots__ = ("_after", "_before", "_differing")

    def __init__(self, before: Tree | None, after: Tree | None, differing: Differing | None) -> None:
        self._before = before
        self._after = after
        self._differing = differing

    def items(self, path: bytes, listings: Listings) -> list[Item]:
        """Return the differences in one directory and the directories to go into, sorted.

        Contents sort by ``name/``, the name itself by ``name``: so whole paths come out in order.
        """
        items: list[Item] = []
        old_listing, new_listing = listings
        olds = {entry.name: entry for entry in old_listing}
        for new in new_listing:
            old = olds.pop(new.name, None)
            if old is None:
                self._one_sided(items, join(path, new.name), None, new)
            elif old.oid != new.oid or old.mode != new.mode or old.kind != new.kind or old.modes != new.modes:
                self._two_sided(items, join(path, new.name), old, new)
        for old in olds.values():
            self._one_sided(items, join(path, old.name), old, None)
        items.sort(key=_key)
        return items

    def _one_sided(self, items: list[Item], path: bytes, old: Entry | None, new: Entry | None) -> None:
        there = new if old is None else old
        assert there is not None
        if there.kind == DIRECTORY:
            listings = self.listings(path, old, new)
            if listings != ((), ()):
                items.append((path + b"/", None, path, listings))
                return
        items.append((path, (path, "added" if old is None else "deleted", old, new), path, None))

    def _two_sided(self, items: list[Item], path: bytes, old: Entry, new: Entry) -> None:
        status: ChangeStatus = "modified"
        if old.kind != new.kind:
            status = "kind"
        elif old.kind == DIRECTORY or old.oid == new.oid:
            status = "mode"
        if status != "mode" or old.mode != new.mode:
            items.append((path, (path, status, old, new), path, None))
        if DIRECTORY in (old.kind, new.kind) and (old.oid != new.oid or old.modes != new.modes):
            items.append((path + b"/", None, path, self.listings(path, old, new)))

    def listings(self, path: bytes, old: Entry | None, new: Entry | None) -> Listings:
        """Return what is to be compared of a directory in both trees."""
        if self._differing is not None and old is not None and new is not None and old.kind == new.kind:
            known = self._differing(path, old.tree_id, new.tree_id)
            if known is not None:
                return known
        return (_listing(self._before, path, old), _listing(self._after, path, new))


def whole(root: TreeId) -> Entry:
    """Return the workspace itself as an entry."""
    return Entry(name=b"", kind=DIRECTORY, mode=0, oid=root.tree, modes=root.modes)


def _listing(tree: Tree | None, path: bytes, entry: Entry | None) -> Sequence[Entry]:
    if tree is None or entry is None or entry.kind != DIRECTORY:
        return ()
    # A tuple, so that emptiness compares equal whatever the tree hands out.
    return tuple(tree.directory(path, entry.tree_id))


def _key(item: Item) -> bytes:
    return item[0]
