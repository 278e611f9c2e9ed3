"""Every entry of an index: split ones joined, looked up by path, and written anew without stat data."""

from __future__ import annotations

import zlib
from _struct import Struct

from lastgood.project_git import read_known
from lastgood.project_git.index import (
    HEADER,
    SPARSE,
    SPLIT,
    TREES,
    IndexDamage,
    digest_of,
    entries_of,
    index_file,
    read_shared,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final, TypeAlias

    from lastgood.project_git import Repository
    from lastgood.project_git.query import Asker

    # The index that holds an entry, and where the entry begins there.
    Place: TypeAlias = tuple[bytes, int]


_DIGEST_SIZE = 20
_MODE: Final = 24
_OID: Final = 40
_FLAGS: Final = 60
_NAME: Final = 62
_LONG_NAME: Final = 0xFFF
_EXTENDED: Final = 0x4000
_STATS = Struct(">10I")
_SHORT = Struct(">H")
_WORDS = Struct(">II")
_FORMS = frozenset({0o100644, 0o100755, 0o120000, 0o160000, 0o040000, 0o100664})
_LARGER = 3  # the version of an index with flags that need more room
_COMPRESSED = 4  # the version of an index whose names are compressed

GITLINK = 0o160000
LINK_MODE = 0o120000
SPARSE_DIRECTORY = 0o040000
# Flags as `flags_of` returns them: the extended ones are shifted.
ASSUMED = 0x8000
STAGE = 0x3000
INTENDED = 0x2000 << 16
SKIPPED = 0x4000 << 16
_KEPT_FLAGS = 0x8000 | 0x3000


class Entries:
    """One reading of an index. ``mtime`` is that of its file in nanoseconds; ``absent`` if there is none.

    ``trees`` are the directories of which the index itself says which tree they are. ``plain`` says
    that a path can be found without all being read: it is known to have whole names, in one file.
    """

    def __init__(
        self, content: bytes, *, repository: Repository, mtime: int = 0, plain: bool = False
    ) -> None:
        self._plain = plain
        self.mtime = mtime
        self.absent: bool = not content
        self._content = content
        self._repository = repository
        self._rows: list[tuple[bytes, Place]] | None = None
        self._first: dict[bytes, Place] = {}
        self._trees: dict[bytes, bytes] = {}
        self._sparse = False
        self._split = False

    @property
    def rows(self) -> list[tuple[bytes, Place]]:
        """Path and place of every entry, in git's order; `IndexDamage`."""
        if self._rows is None:
            self._load()
        assert self._rows is not None
        return self._rows

    @property
    def trees(self) -> dict[bytes, bytes]:
        """The trees that the index knows to be those of its entries, by directory."""
        assert self.rows is not None
        return self._trees

    @property
    def sparse(self) -> bool:
        """Whether entries may stand for whole directories."""
        assert self.rows is not None
        return self._sparse

    @property
    def plain(self) -> bool:
        """Whether an entry can be found by its name: whole names, in one file."""
        if self._rows is None and not self._plain:
            self._load()
        return self._plain

    @property
    def whole(self) -> bytes:
        """An index of these entries in one file: as it was read, unless it is a split one."""
        return self._content if self._content and not self._split else self.canonical()

    def place(self, path: bytes) -> Place | None:
        """Return where the first entry of a path lies; None if it is not tracked."""
        if self._rows is None and self._plain:
            return self._find(path)
        if not self._first:
            self._first = dict(reversed(self.rows))
        return self._first.get(path)

    def canonical(self) -> bytes:
        """Return an index of the same entries that depends on nothing else: no stat data, no caches."""
        if self.plain and self.rows:
            return self._without_stats()
        version = 2
        pieces: list[bytes] = []
        heads: dict[bytes, bytes] = {}
        padding = [bytes(8 - count) for count in range(8)]
        for path, (source, at) in self.rows:
            mode = source[at + _MODE : at + _MODE + 4]
            head = heads.get(mode)
            if head is None:
                head = heads[mode] = bytes(_MODE) + mode + bytes(12)
            high = source[at + _FLAGS] << 8 & (_KEPT_FLAGS | _EXTENDED)
            flags = _SHORT.pack(high | min(len(path), _LONG_NAME))
            if high & _EXTENDED:
                version = 3
                flags += source[at + _NAME : at + _NAME + 2]
            pieces += (head, source[at + _OID : at + _FLAGS], flags, path)
            pieces.append(padding[(_FLAGS + len(flags) + len(path)) & 7])
        return sealed(b"".join(pieces), count=len(self.rows), version=version, sparse=self._sparse)

    def _without_stats(self) -> bytes:
        """Return the same for a plain index: there everything after the stat data can stay as it is."""
        content, places = self._content, [place[1] for _, place in self.rows]
        last, (path, _) = places[-1], self.rows[-1]
        extended = [at for at in places if content[at + _FLAGS] & 0x40] if content[7] == _LARGER else []
        head = _NAME + (2 if extended and extended[-1] == last else 0)
        start = places[0]
        body = bytearray(content[start : last + ((head + len(path) + 8) & ~7)])
        before, after = bytes(_MODE), bytes(_OID - _MODE - 4)
        for place in places:
            at = place - start
            body[at : at + _MODE] = before
            body[at + _MODE + 4 : at + _OID] = after
        return sealed(body, count=len(places), version=3 if extended else 2, sparse=False)

    def _load(self) -> None:
        if self.absent:
            self._rows = []
            self._plain = True
            return
        content = self._content
        entries, extensions = entries_of(content, digest_size=_DIGEST_SIZE)
        self._sparse = SPARSE in extensions
        self._split = SPLIT in extensions
        self._plain = not self._sparse and not self._split and content[7] != _COMPRESSED
        if TREES in extensions:
            self._trees = _trees(extensions[TREES])
        rows = [(path, (content, at)) for path, at in entries]
        link = extensions.get(SPLIT)
        if link is not None and any(link[:_DIGEST_SIZE]):
            shared = read_shared(self._repository, link[:_DIGEST_SIZE])
            rows = _joined(rows, shared, link[_DIGEST_SIZE:])
        self._rows = rows

    def _find(self, path: bytes) -> Place | None:
        if self.absent:
            return None
        content, needle = self._content, path + b"\0"
        length = min(len(path), _LONG_NAME)
        at = content.find(needle, 12)
        while at >= 0:
            for head in (_NAME, _NAME + 2):
                place = at - head
                if place < 12 or (place - 12) & 7:
                    continue
                flags = content[place + _FLAGS] << 8 | content[place + _FLAGS + 1]
                fits = flags & _LONG_NAME == length and bool(flags & _EXTENDED) == (head != _NAME)
                if fits and mode_of((content, place)) in _FORMS:
                    return content, place
            at = content.find(needle, at + 1)
        return None


def read_entries(repository: Repository, *, plain: bool = False) -> Entries:
    """Read the index of a worktree as one version of it; `IndexDamage`."""
    content, mtime = index_file(repository)
    return Entries(content, repository=repository, mtime=mtime, plain=plain)


def mode_of(place: Place) -> int:
    """Return the mode of an entry."""
    source, at = place
    return int.from_bytes(source[at + _MODE : at + _MODE + 4], "big")


def oid_of(place: Place) -> bytes:
    """Return the object id of an entry."""
    source, at = place
    return source[at + _OID : at + _FLAGS]


def flags_of(place: Place) -> int:
    """Return the flags of an entry, the extended ones shifted by 16 bits."""
    source, at = place
    flags = source[at + _FLAGS] << 8 | source[at + _FLAGS + 1]
    if flags & _EXTENDED:
        flags |= (source[at + _NAME] << 8 | source[at + _NAME + 1]) << 16
    return flags


def stats_of(place: Place) -> tuple[int, ...]:
    """Return ctime, its nanoseconds, mtime, its nanoseconds, device, inode, mode, uid, gid, size."""
    stats: tuple[int, ...] = _STATS.unpack_from(*place)
    return stats


def sealed(body: bytes | bytearray, *, count: int, version: int, sparse: bool) -> bytes:
    """Return entries with header, extension and digest around them."""
    pieces = [HEADER.pack(b"DIRC", version, count), body, SPARSE + bytes(4) if sparse else b""]
    return b"".join([*pieces, digest_of(pieces)])


def _trees(extension: bytes) -> dict[bytes, bytes]:
    """Return the valid trees of the extension by directory (gitformat-index(5), "Cache tree")."""
    found: dict[bytes, bytes] = {}
    at = 0
    above: list[list[object]] = []  # directory, subdirectories still to come
    while at < len(extension):
        end = extension.find(b"\0", at)
        line = extension.find(b"\n", end)
        counts = extension[end + 1 : line].split(b" ") if 0 <= end < line else []
        if len(counts) != 2 or not counts[1].isdigit():
            return {}  # only a convenience: what is not understood is not used
        parent = above[-1][0] if above else b""
        name = extension[at:end]
        assert isinstance(parent, bytes)
        path = parent + b"/" + name if parent else name
        at = line + 1
        if not counts[0].startswith(b"-"):
            found[path] = extension[at : at + _DIGEST_SIZE]
            at += _DIGEST_SIZE
        if above:
            above[-1][1] = int(str(above[-1][1])) - 1
        above.append([path, int(counts[1])])
        while above and not above[-1][1]:
            above.pop()
    return found


def _joined(rows: list[tuple[bytes, Place]], shared: bytes, link: bytes) -> list[tuple[bytes, Place]]:
    """Put a split index together with the one it builds on."""
    before, _ = entries_of(shared, digest_size=_DIGEST_SIZE)
    whole: dict[int, tuple[bytes, Place]] = {
        number: (path, (shared, at)) for number, (path, at) in enumerate(before)
    }
    try:
        deleted, used = _bits(link)
        replaced, _ = _bits(link[used:])
        for number, (_, place) in zip(replaced, rows, strict=False):
            whole[number] = (whole[number][0], place)
        for number in deleted:
            del whole[number]
    except (KeyError, IndexError, ValueError) as failure:
        raise IndexDamage("the index does not fit the one it builds on") from failure
    joined = [*whole.values(), *((path, place) for path, place in rows if path)]
    joined.sort(key=lambda row: (row[0], flags_of(row[1]) & STAGE))
    return joined


def _bits(packed: bytes) -> tuple[list[int], int]:
    """Return the positions of the set bits of an EWAH bitmap, and its length in bytes."""
    size, count = _WORDS.unpack(packed[:8])
    words = [int.from_bytes(packed[8 + 8 * k : 16 + 8 * k], "big") for k in range(count)]
    if len(packed) < 12 + 8 * count:
        raise ValueError(count)
    found: list[int] = []
    at = place = 0
    while at < count:
        run = words[at] >> 1 & 0xFFFFFFFF
        literals = words[at] >> 33
        if words[at] & 1:
            found.extend(range(place, min(place + 64 * run, size)))
        place += 64 * run
        found += _set(words[at + 1 : at + 1 + literals], place)
        place += 64 * literals
        at += 1 + literals
    return found, 12 + 8 * count


def _set(words: Iterable[int], start: int) -> list[int]:
    return [
        start + 64 * number + bit for number, word in enumerate(words) for bit in range(64) if word >> bit & 1
    ]


# --- Which entries of an index are not those of HEAD's tree ---

_OBJECT_LIMIT = 1 << 20
_PATIENCE_SECONDS = 5.0  # a save does not wait longer for a list
_QUESTION = (b"diff-index", b"--cached", b"--name-only", b"--no-renames", b"--ita-invisible-in-index", b"-z")
_HEX = 40


class Unknown(Exception):
    """It cannot be told without running what the project configured; never leaves the adapter."""


def staged(found: Repository, commit: str | None, *, entries: Entries, asker: Asker) -> set[bytes]:
    """Return the paths, as the index calls them, at which it differs from a commit; `Unknown`.

    Where the index itself says that it is the commit's tree, nothing has to be asked.
    """
    if commit is None:
        return {path for path, _ in entries.rows}
    tree = entries.trees.get(b"")
    if tree is not None and tree == _tree_of(found, commit):
        return set()
    said = asker.ask(
        found, [*_QUESTION, commit.encode(), b"--"], index=entries.whole, patience=_PATIENCE_SECONDS
    )
    if said is None:
        raise Unknown
    return {path for path in said.split(b"\0") if path}


def _tree_of(found: Repository, commit: str) -> bytes | None:
    """Return the tree of a commit that lies in a file of its own, as fresh ones do; None otherwise."""
    path = found.objects + b"/" + commit[:2].encode() + b"/" + commit[2:].encode()
    packed = read_known(path, limit=_OBJECT_LIMIT)
    if packed is None:
        return None
    try:
        text = zlib.decompressobj().decompress(packed, 200)
    except zlib.error:
        return None
    head, _, body = text.partition(b"\0")
    if not head.startswith(b"commit ") or not body.startswith(b"tree "):
        return None
    try:
        return bytes.fromhex(body[5 : 5 + _HEX].decode("ascii"))
    except ValueError:
        return None
