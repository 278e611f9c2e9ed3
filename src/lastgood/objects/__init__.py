"""What an object is to git: a kind, a size, bytes, and the SHA-1 over all three.

For each directory that has a permission other than the defaults, in its own entries or below, there
is a modes tree: the blob ``modes`` holds a line ``OCTAL SP NAME NUL`` for each of its own entries
that is not default (all twelve bits, sorted by name), and a tree ``d.NAME`` stands for each
subdirectory that has a modes tree itself.
"""

from __future__ import annotations

from _operator import attrgetter, lt
from itertools import chain, repeat
from stat import S_IFDIR, S_IFREG

from lastgood.errors import Invalid
from lastgood.ids import SHA1_SWITCH, sha1_for
from lastgood.model.tree import (
    DEFAULT_DIRECTORY_MODE,
    DEFAULT_EXECUTABLE_MODE,
    DEFAULT_FILE_MODE,
    DIRECTORY,
    FILE,
    LINK,
    Entry,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lastgood.ids import Digest
    from lastgood.literals import EntryKind

    # (mode as git writes it, name, object id)
    Row = tuple[bytes, bytes, bytes]


COMMIT = 1
TREE = 2
BLOB = 3
TAG = 4
OFS_DELTA = 6
REF_DELTA = 7

KIND_NAMES = {COMMIT: b"commit", TREE: b"tree", BLOB: b"blob", TAG: b"tag"}

OID_BYTES = 20

# Above this, hashing header and content apart beats joining them first.
_JOIN_BYTES = 1 << 16


class Hasher:
    """Computes object ids; turns to OpenSSL's SHA-1 once there was much to hash."""

    __slots__ = ("_left", "_new")

    def __init__(self) -> None:
        self._new: Callable[[bytes], Digest] = sha1_for(0)
        self._left = SHA1_SWITCH

    def expect_much(self) -> None:
        """Turn to what is quickest for much."""
        if self._left > 0:
            self._left, self._new = 0, sha1_for(SHA1_SWITCH)

    def begin(self, head: bytes, *, size: int) -> Digest:
        """Start a SHA-1 over ``head``; about ``size`` bytes are going to follow."""
        if self._left > 0:
            self._count(size)
        return self._new(head)

    def _count(self, size: int) -> None:
        self._left -= size
        if self._left <= 0:
            self._new = sha1_for(SHA1_SWITCH)

    def object_id(self, kind: int, content: bytes) -> bytes:
        """Return the id of an object."""
        size = len(content)
        head = b"%b %d\0" % (KIND_NAMES[kind], size)
        if self._left > 0:
            self._count(size)
        if size <= _JOIN_BYTES:
            return self._new(head + content).digest()
        running = self._new(head)
        running.update(content)
        return running.digest()


# --- Git's tree objects, and the parallel trees that hold the permissions which git's cannot ---

PLAIN = b"100644"
EXECUTABLE = b"100755"
SYMLINK = b"120000"
SUBTREE = b"40000"

TABLE_NAME = b"modes"
BELOW_PREFIX = b"d."

_NO_NAMES = frozenset({b"", b".", b".."})
_fields: Callable[[Entry], tuple[bytes, EntryKind, int, bytes, bytes]] = attrgetter(
    "name", "kind", "mode", "oid", "modes"
)
_DEFAULTS = {
    PLAIN: DEFAULT_FILE_MODE,
    EXECUTABLE: DEFAULT_EXECUTABLE_MODE,
    SUBTREE: DEFAULT_DIRECTORY_MODE,
    SYMLINK: 0,
}
# By the whole mode.
_HEADS = {
    S_IFREG | DEFAULT_FILE_MODE: PLAIN + b" ",
    S_IFREG | DEFAULT_EXECUTABLE_MODE: EXECUTABLE + b" ",
    S_IFDIR | DEFAULT_DIRECTORY_MODE: SUBTREE + b" ",
}
_FORMS = {
    PLAIN: (FILE, DEFAULT_FILE_MODE),
    EXECUTABLE: (FILE, DEFAULT_EXECUTABLE_MODE),
    SUBTREE: (DIRECTORY, DEFAULT_DIRECTORY_MODE),
    SYMLINK: (LINK, 0),
}


def encode_tree(rows: Iterable[Row]) -> bytes:
    """Return a tree object; names are sorted as git does, directories as if they ended in a slash."""
    keyed = [
        (name + b"/" if mode == SUBTREE else name, b"%b %b\0%b" % (mode, name, oid))
        for mode, name, oid in rows
    ]
    keyed.sort()
    return b"".join([row for _, row in keyed])


def encode_plain(rows: Sequence[tuple[bytes, int, bytes]]) -> bytes | None:
    """Return the tree object of files and directories, each a name, a whole mode and an id, sorted by name.

    None for what takes more than that: other permissions than the defaults, and names to be refused.
    """
    if not rows:
        return b""
    names, modes, oids = zip(*rows, strict=True)
    joined = b"".join(names)
    sound = _NO_NAMES.isdisjoint(names) and b"/" not in joined and b"\0" not in joined
    if not sound or not all(map(lt, names, names[1:])):
        return None
    try:
        heads = [*map(_HEADS.__getitem__, modes)]
    except KeyError:
        return None
    pieces = zip(heads, names, repeat(b"\0"), oids)
    if any(mode & S_IFDIR for mode in set(modes)):
        keys = [name + b"/" if mode & S_IFDIR else name for name, mode, _ in rows]
        if not all(map(lt, keys, keys[1:])):
            return b"".join([b"".join(one) for _, one in sorted(zip(keys, pieces, strict=True))])
    return b"".join(chain.from_iterable(pieces))


def decode_tree(content: bytes) -> list[Row]:
    """Return the rows of a tree object; ValueError when it is none."""
    rows: list[Row] = []
    at, end = 0, len(content)
    while at < end:
        nul = content.index(b"\0", at)
        mode, _, name = content[at:nul].partition(b" ")
        at = nul + 21
        rows.append((mode, name, content[nul + 1 : at]))
    if at > end:
        raise ValueError("a row is cut short")
    return rows


def split_entries(entries: Iterable[Entry]) -> tuple[list[Row], bytes, list[Row]]:
    """Return what git can hold of a directory, the table of the other permissions, and the rows below.

    Raises `Invalid` for a name that no directory can contain, and for a name given twice.
    """
    rows: list[Row] = []
    table: list[bytes] = []
    below: list[Row] = []
    last = b""
    for name, kind, mode, oid, modes in sorted(map(_fields, entries)):
        if kind == FILE:
            git_mode = EXECUTABLE if mode & 0o100 else PLAIN
        else:
            git_mode = SUBTREE if kind == DIRECTORY else SYMLINK
        if mode != _DEFAULTS[git_mode] and kind != LINK:
            table.append(b"%o %b\0" % (mode, name))
        if modes:
            below.append((SUBTREE, BELOW_PREFIX + name, modes))
        rows.append((git_mode, name, oid))
        if name == last or b"/" in name or b"\0" in name or name in _NO_NAMES:
            raise Invalid(
                f"a directory cannot hold the name {name!r}" + (" twice" if name and name == last else ""),
                hint="this is a fault of the caller: names are single path components",
            )
        last = name
    return rows, b"".join(table), below


def join_entries(rows: Sequence[Row], table: bytes, below: Sequence[Row]) -> tuple[Entry, ...]:
    """Return the entries of a directory sorted by name, undoing `split_entries`; ValueError if malformed."""
    modes = _decode_table(table)
    subtrees = {name[len(BELOW_PREFIX) :]: oid for _, name, oid in below}
    entries = []
    for git_mode, name, oid in sorted(rows, key=_row_name):
        if git_mode not in _FORMS:
            raise ValueError(f"the mode {git_mode!r} is not one of ours")
        kind, mode = _FORMS[git_mode]
        if modes or subtrees:  # few directories have any
            mode, below_it = modes.get(name, mode), subtrees.get(name, b"")
            entries.append(Entry(name=name, kind=kind, mode=mode, oid=oid, modes=below_it))
        else:
            entries.append(Entry(name=name, kind=kind, mode=mode, oid=oid))
    return tuple(entries)


def _decode_table(table: bytes) -> dict[bytes, int]:
    modes: dict[bytes, int] = {}
    for line in table.split(b"\0")[:-1]:
        octal, _, name = line.partition(b" ")
        modes[name] = int(octal, 8) & 0o7777
    return modes


def _row_name(row: Row) -> bytes:
    return row[1]


# --- The commit of a checkpoint: no parents, a fixed author, the checkpoint's id as its message ---

_IDENTITY = b"lastgood <lastgood@localhost>"
_MESSAGE = b"checkpoint "

MANIFEST = b"checkpoint.json"
WORKSPACE = b"workspace"
MODES = b"modes"
STATE = b"state"
CONVERSATION = b"conversation"
PROGRESS = b"progress"


def encode_commit(*, tree: bytes, id: str, created_at: int) -> bytes:
    """Return a commit object; ``created_at`` is in nanoseconds."""
    seconds = max(created_at // 1_000_000_000, 0)
    return b"tree %b\nauthor %b %d +0000\ncommitter %b %d +0000\n\n%b%b\n" % (
        tree.hex().encode(),
        _IDENTITY,
        seconds,
        _IDENTITY,
        seconds,
        _MESSAGE,
        id.encode(),
    )


def commit_tree(content: bytes) -> bytes:
    """Return the tree of a checkpoint's commit; ValueError when it is something else."""
    head, _, message = content.partition(b"\n\n")
    first, _, rest = head.partition(b"\n")
    label, _, tree = first.partition(b" ")
    if label != b"tree" or len(tree) != 40 or not message.startswith(_MESSAGE) or b"parent " in rest:
        raise ValueError("it is not the commit of a checkpoint")
    return bytes.fromhex(tree.decode("ascii"))


def commit_time(content: bytes) -> int:
    """Return when a commit was made, in seconds; 0 where it does not say."""
    head = content.partition(b"\n\n")[0]
    words = head.rpartition(b"\ncommitter ")[2].split()
    return int(words[-2]) if len(words) > 1 and words[-2].isdigit() else 0


def commit_id(content: bytes) -> bytes:
    """Return the id of the checkpoint that a commit is of; empty where it does not say."""
    message = content.partition(b"\n\n")[2]
    return message.removeprefix(_MESSAGE).removesuffix(b"\n") if message.startswith(_MESSAGE) else b""


# --- Git's deltas (gitformat-pack(5)): copies from a base and insertions, with both sizes in front ---

# A delta of a few bytes can claim any size; none of ours comes near this.
LARGEST_RESULT = 1 << 30


def apply_delta(base: bytes, delta: bytes) -> bytes:
    """Return what a delta makes of its base; ValueError when it is malformed or does not fit."""
    base_size, at = _varint(delta, 0)
    size, at = _varint(delta, at)
    if base_size != len(base):
        raise ValueError("a delta expects another base")
    if size > LARGEST_RESULT:
        raise ValueError("a delta claims an absurd size")
    parts: list[bytes] = []
    left, end = size, len(delta)
    while at < end:
        order = delta[at]
        at += 1
        if order & 0x80:
            offset, length, at = _copy(delta, order, at)
            part = base[offset : offset + length]
        else:
            length = order
            part = delta[at : at + length]
            at += length
        left -= length
        if len(part) != length or left < 0 or not order:
            raise ValueError("a delta reaches beyond its base or itself")
        parts.append(part)
    if left:
        raise ValueError("a delta makes less than it claims")
    return b"".join(parts)


def result_size(delta: bytes) -> int:
    """Return the size that a delta claims to make, from its first bytes; ValueError if malformed."""
    _, at = _varint(delta, 0)
    return _varint(delta, at)[0]


def _copy(delta: bytes, order: int, at: int) -> tuple[int, int, int]:
    values = 0
    for bit in range(7):
        if order >> bit & 1:
            if at >= len(delta):
                raise ValueError("a delta is cut short")
            values |= delta[at] << 8 * bit
            at += 1
    return values & 0xFFFFFFFF, values >> 32 or 0x10000, at


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        if at >= len(content):
            raise ValueError("a delta is cut short")
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
    raise ValueError("a size in a delta is absurd")
