"""The project's index: which paths it tracks, and what it knows of them (gitformat-index(5))."""

from __future__ import annotations

import os
from _struct import Struct

from lastgood.ignore import Unreadable
from lastgood.project_git import open_file, read_descriptor, read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lastgood.project_git import Repository

_LIMIT = 1 << 30
HEADER = Struct(">4sII")
# Extensions: an index that builds on another, one with sparse directories, the trees of directories.
SPLIT = b"link"
SPARSE = b"sdir"
TREES = b"TREE"
_TOLD = frozenset({SPLIT, SPARSE, TREES})
# From here on OpenSSL's SHA-1, eight times as fast, is worth its import: an index is hashed three times.
_MUCH = 1 << 19
_LENGTH = Struct(">I")
_STAT_BYTES = 40
# Of the two bytes that matter of a mode, the first; its upper half is 8 for a file. Of the first extended
# byte the bit for what is not to be in the worktree.
_MODE_AT = 26
_PLAIN_FILE = 0o10
_SKIPPED = 0x40


class UnknownIndex:
    """Stands for an index that exists and cannot be understood: any path may be a tracked one."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason: str = reason


class IndexDamage(Exception):
    """An index cannot be understood; never leaves the adapter."""


class Index:
    """What one reading of an index found; entries outside the workspace are left out.

    ``places`` are the offsets of the entries by path. ``whole`` is False for a split index: its
    paths then are more than are tracked now, and prove nothing.
    """

    __slots__ = (
        "_content",
        "_digest_size",
        "_directories",
        "_tracked",
        "places",
        "whole",
    )

    def __init__(
        self,
        content: bytes,
        places: dict[bytes, int],
        *,
        repository: Repository,
        whole: bool,
    ) -> None:
        self._content = content
        self._digest_size = repository.digest_size
        self._tracked: frozenset[bytes] | None = None
        self._directories: frozenset[bytes] | None = None
        self.places: dict[bytes, int] = _below(places, repository.prefix)
        self.whole: bool = whole

    @property
    def tracked(self) -> frozenset[bytes]:
        """The tracked paths, relative to the workspace; a submodule's is that of its directory."""
        if self._tracked is None:
            self._tracked = frozenset(self.places)
        return self._tracked

    @property
    def tracked_directories(self) -> frozenset[bytes]:
        """The directories above tracked paths, without the workspace itself."""
        if self._directories is None:
            found: set[bytes] = set()
            for path in self.places:
                above = path.rpartition(b"/")[0]
                while above and above not in found:
                    found.add(above)
                    above = above.rpartition(b"/")[0]
            self._directories = frozenset(found)
        return self._directories

    def blobs(self) -> set[bytes]:
        """Return the objects of the files that are to be there; none where the index is not whole."""
        if not self.whole:
            return set()
        content, size = self._content, self._digest_size
        found: set[bytes] = set()
        for at in self.places.values():
            end = at + _STAT_BYTES + size
            if content[at + _MODE_AT] >> 4 != _PLAIN_FILE:
                continue
            if content[end] & 0x40 and content[end + 2] & _SKIPPED:
                continue
            found.add(content[at + _STAT_BYTES : end])
        return found


def read_index(repository: Repository) -> Index | UnknownIndex:
    """Return the index of a worktree; one without entries if there is none."""
    try:
        content, _ = index_file(repository)
        return _parse(content, repository) if content else Index(b"", {}, repository=repository, whole=True)
    except IndexDamage as damage:
        return UnknownIndex(str(damage))


def index_file(repository: Repository) -> tuple[bytes, int]:
    """Return one version of an index, and its mtime in nanoseconds; empty if there is none; `IndexDamage`."""
    descriptor = open_file(repository.git_dir + b"/index")
    if descriptor is None:
        return b"", 0
    if isinstance(descriptor, Unreadable):
        raise IndexDamage("the index cannot be opened")
    try:
        modified = os.fstat(descriptor).st_mtime_ns
        content = read_descriptor(descriptor, limit=_LIMIT)
    except OSError as error:
        raise IndexDamage("the index cannot be read") from error
    finally:
        os.close(descriptor)
    if isinstance(content, Unreadable) or not content:
        raise IndexDamage("the index is empty, or cannot be read")
    return content, modified


def _parse(content: bytes, repository: Repository) -> Index:
    places, extensions = _places(content, digest_size=repository.digest_size)
    shared = extensions.get(SPLIT)
    if shared is not None:
        _add_shared(places, shared[: repository.digest_size], repository=repository)
    return Index(content, places, repository=repository, whole=shared is None)


def _add_shared(places: dict[bytes, int], oid: bytes, *, repository: Repository) -> None:
    """Add the names of the index that a split one builds on, the deleted ones among them."""
    places.pop(b"", None)  # an entry that only replaces one of the other index has no name here
    if not any(oid):
        return
    content = read_shared(repository, oid)
    for name in _places(content, digest_size=repository.digest_size)[0]:
        places.setdefault(name, 0)


def read_shared(repository: Repository, oid: bytes) -> bytes:
    """Return the index that a split one builds on, by the digest that it names."""
    path = repository.git_dir + b"/sharedindex." + oid.hex().encode("ascii")
    content = read_file(path, limit=_LIMIT)
    if content is None or isinstance(content, Unreadable):
        raise IndexDamage("the shared index cannot be read")
    return content


def _below(places: dict[bytes, int], prefix: bytes) -> dict[bytes, int]:
    if not prefix:
        return places
    start = prefix + b"/"
    cut = len(start)
    return {path[cut:]: at for path, at in places.items() if path.startswith(start)}


def _places(content: bytes, *, digest_size: int) -> tuple[dict[bytes, int], dict[bytes, bytes]]:
    """Return where the entry of each path begins, and the extensions that have to be understood."""
    entries, extensions = entries_of(content, digest_size=digest_size)
    places = dict(entries)
    if SPARSE in extensions:  # a sparse directory stands for all below it
        places = {path.rstrip(b"/"): at for path, at in places.items()}
    return places, extensions


def entries_of(content: bytes, *, digest_size: int) -> tuple[list[tuple[bytes, int]], dict[bytes, bytes]]:
    """Return path and place of every entry in git's order, and the extensions; `IndexDamage`."""
    _prove(content, digest_size=digest_size)
    try:
        mark, version, count = HEADER.unpack_from(content, 0)
        if mark != b"DIRC" or version not in {2, 3, 4}:
            raise IndexDamage(f"the index is of an unknown version: {version}")
        walk = _walk_compressed if version == 4 else _walk
        entries = list(walk(content, count=count, digest_size=digest_size))
        extensions = _extensions(content, entries.pop()[1], limit=len(content) - digest_size)
    except (IndexError, ValueError) as failure:
        raise IndexDamage("the index ends too early") from failure
    return entries, extensions


def _walk(content: bytes, *, count: int, digest_size: int) -> Iterator[tuple[bytes, int]]:
    """Yield the path and place of each entry, at last the end under a name that no path can have."""
    at = 12
    fixed = _STAT_BYTES + digest_size + 2
    for _ in range(count):
        flags = at + fixed - 2
        high = content[flags]
        start = at + fixed + (2 if high & 0x40 else 0)
        length = (high & 0x0F) << 8 | content[flags + 1]
        end = start + length if length < 0xFFF else content.index(b"\0", start + length)
        yield content[start:end], at
        at += (end - at + 8) & ~7
    yield b"\0", at


def _walk_compressed(content: bytes, *, count: int, digest_size: int) -> Iterator[tuple[bytes, int]]:
    at = 12
    fixed = _STAT_BYTES + digest_size + 2
    path = b""
    for _ in range(count):
        place = at
        at += fixed + (2 if content[at + fixed - 2] & 0x40 else 0)
        byte = content[at]
        at += 1
        dropped = byte & 0x7F
        while byte & 0x80:
            byte = content[at]
            at += 1
            dropped = (dropped + 1) << 7 | byte & 0x7F
        if dropped > len(path):
            raise IndexDamage("a name of the index drops more than there is")
        end = content.index(b"\0", at)
        path = path[: len(path) - dropped] + content[at:end]
        at = end + 1
        yield path, place
    yield b"\0", at


def _extensions(content: bytes, at: int, *, limit: int) -> dict[bytes, bytes]:
    found = {}
    while at < limit:
        if at + 8 > limit:
            raise IndexDamage("the index does not end where it should")
        mark = content[at : at + 4]
        size = _LENGTH.unpack_from(content, at + 4)[0]
        if not mark[:1].isupper() and mark not in {SPLIT, SPARSE}:
            raise IndexDamage(f"the index needs an unknown extension: {mark!r}")
        if mark in _TOLD:
            found[mark] = content[at + 8 : at + 8 + size]
        at += 8 + size
    if at != limit:
        raise IndexDamage("the index does not end where it should")
    return found


def _prove(content: bytes, *, digest_size: int) -> None:
    """Check the digest at the end; one of zeros was left out on purpose (``index.skipHash``)."""
    if len(content) < 12 + digest_size:
        raise IndexDamage("the index ends too early")
    written = content[-digest_size:]
    if any(written) and digest_of([memoryview(content)[:-digest_size]], size=digest_size) != written:
        raise IndexDamage("the index does not have the digest that it names")


def digest_of(pieces: Sequence[bytes | bytearray | memoryview], *, size: int = 20) -> bytes:
    """Return the digest of some pieces together: SHA-1, or SHA-256 if it is to have 32 bytes."""
    if size == 20 and sum(map(len, pieces)) < _MUCH:
        from _sha1 import sha1

        running = sha1(usedforsecurity=False)
    else:
        import hashlib

        running = hashlib.new("sha1" if size == 20 else "sha256", usedforsecurity=False)
    for piece in pieces:
        running.update(piece)
    digest: bytes = running.digest()
    return digest


def blob_id(content: bytes) -> bytes:
    """Return the id that git gives a file of some content."""
    return digest_of([b"blob %d\0" % len(content), content])
