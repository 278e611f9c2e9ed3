"""What a workspace consists of at one moment: entries in directories, and the gaps."""

from __future__ import annotations

from lastgood.value import Value, setters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    EntryKind = Literal["file", "link", "directory"]
    GapReason = Literal["too-large", "unreadable", "unsupported", "unstable", "budget", "withheld"]
    ChangeStatus = Literal["added", "modified", "deleted", "mode", "kind"]

FILE: EntryKind = "file"
LINK: EntryKind = "link"
DIRECTORY: EntryKind = "directory"

DEFAULT_FILE_MODE = 0o644
DEFAULT_EXECUTABLE_MODE = 0o755
DEFAULT_DIRECTORY_MODE = 0o755


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
    oid: bytes
    modes: bytes

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
