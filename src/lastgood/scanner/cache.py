"""The scan cache: a record for each directory in one file, their details appended to another.

The records are read whole and replaced atomically; details are read only where a signature differs.
Everything is checksummed, and any doubt means to start anew: the cache can always be deleted (rule
K6). Whoever does not get the lock at once does not write.
"""

from __future__ import annotations

import fcntl
import os
import time
from marshal import dumps, loads

from lastgood.files import DIGEST_BYTES, digest, proof, read_proven, write_pieces
from lastgood.scanner import FILES, LENGTH, START
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, MutableMapping, Sequence
    from typing import Any

    from lastgood.scanner import Record, Row

    StatCache = Any  # of `stat_cache`, which rests on what imports this
    # Bytes, perhaps within a block of others.
    Packed = bytes | memoryview
    # Inode, size, modification and change time.
    Source = tuple[int, int, int, int]

_FORMAT = b"lastgood scan cache 3\n"
_RECORDS = b"/scan.records"
_LOCK = b"/scan.lock"
_DETAILS_PREFIX = b"scan.details."
# Details that nothing refers to any more are tolerated up to as much again, and this.
_SLACK_BYTES = 1 << 17
# The rows of so many directories are remembered once they were asked for, or added: whoever compares asks for
# the same ones again.
_REMEMBERED = 64
_PRIVATE = 0o600
# About so many bytes a row takes where it is written.
_ROW_BYTES = 100
# Of a cache of up to so many directories (3 MB) what was read, or written, stays in memory for the next scan.
_REMEMBERED_DIRECTORIES = 2_000
# Who saves again and again writes every so many seconds, and when about so many bytes of rows are owed.
_PUT_OFF_SECONDS = 5.0
# Below this number of files a second process costs more than it saves (measured: 29.6 ms against 21.8 at
# 10,000 files).
WORTHWHILE_FILES = 4_000
_MOST_OWED = 1 << 19
# Values up to the one size lie side by side anyway, those from the other on are apart from all others.
_SMALL_BYTES = 450
_LARGE_BYTES = 1 << 17
_BLOCK_BYTES = 1 << 20


class CacheConditions(Value):
    """What the records depend on besides the files: if it differs, they are looked at anew.

    ``policy`` stands for the settings and the rules outside the workspace, ``index`` for the
    project's index, ``tree`` is what the scan came to (tree and modes).
    """

    root: bytes
    generation: str
    policy: bytes
    index: bytes
    tree: tuple[bytes, bytes]


class DetailsLost(Exception):
    """The details of a directory that has to be looked at are damaged."""


class Details:
    """The rows of directories: on disk, or about to be.

    Of those ``pending`` the first stay as they are until they are written: of a directory that changes again
    before that they are never packed.
    """

    def __init__(
        self,
        folder: bytes,
        name: bytes,
        *,
        pending: Iterable[Packed | Sequence[Row]] = (),
        owed_bytes: int = 0,
    ) -> None:
        self._folder = folder
        self.name = name
        self.pending: list[Packed | Sequence[Row]] = [*pending]
        # About how many bytes are to be written.
        self.owed_bytes: int = owed_bytes
        self._remembered: dict[int, Sequence[Row]] = {}
        self._descriptor = -1

    def rows(self, record: Record) -> Sequence[Row] | None:
        """Return the rows of a directory, None if they are lost."""
        start = record[START]
        found = self._remembered.get(start)
        if found is not None:
            return found
        kept = self.pending[-1 - start] if start < 0 else self._read(record)
        rows = unpack(kept) if isinstance(kept, bytes | memoryview) else kept
        if rows is not None:
            self._remember(start, rows)
        return rows

    def packed(self, record: Record) -> Packed:
        """Return the rows of a directory as they are written, b"" if they cannot be read."""
        start = record[START]
        kept = self.pending[-1 - start] if start < 0 else self._read(record)
        return kept if isinstance(kept, bytes | memoryview) else pack(kept)

    def _read(self, record: Record) -> bytes:
        try:
            if self._descriptor < 0:
                flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
                self._descriptor = os.open(self._folder + b"/" + self.name, flags)
            return os.pread(self._descriptor, record[LENGTH], record[START])
        except OSError:
            return b""

    def add(self, rows: Sequence[Row], *, packed: Packed = b"") -> tuple[int, int]:
        """Take in the rows of a directory, ``packed`` perhaps; return start and length for its record."""
        kept = rows if len(self._remembered) < _REMEMBERED else packed or pack(rows)
        self.pending.append(kept)
        start = -len(self.pending)
        self._remember(start, rows)
        length = len(kept) if isinstance(kept, bytes | memoryview) else _ROW_BYTES * len(kept)
        self.owed_bytes += length
        return start, length

    def _remember(self, start: int, rows: Sequence[Row]) -> None:
        if len(self._remembered) < _REMEMBERED:
            self._remembered[start] = rows

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1  # closed twice it may be another's
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class Blocks:
    """Takes in what is going to stay for long, one after another.

    Each where it was made would leave a hole in memory as long as what it was made from.
    """

    __slots__ = ("_block", "_end")

    def __init__(self) -> None:
        self._block = memoryview(b"")
        self._end = 0

    def hold(self, content: bytes) -> Packed:
        """Return the same, to be kept."""
        if not _SMALL_BYTES < len(content) < _LARGE_BYTES:
            return content
        start = self._end
        self._end += len(content)
        if self._end > len(self._block):
            self._block = memoryview(bytearray(_BLOCK_BYTES))
            start, self._end = 0, len(content)
        held = self._block[start : self._end]
        held[:] = content
        return held


class CachedTree:
    """All that is known of a workspace: a record for each directory, and the details.

    ``source`` stands for the file of records as it was when they were read, or those before them. ``states``
    are what was said of the entries of directories, by their signatures, as far as that is remembered: what
    a scan adds serves those after it. So do ``folders``, all in one at most, which a scan takes out to look.
    """

    __slots__ = ("conditions", "details", "folders", "records", "source", "states")

    def __init__(
        self,
        conditions: CacheConditions | None,
        *,
        records: MutableMapping[bytes, Record],
        details: Details,
        source: Source | None = None,
        states: dict[bytes, bytes] | None = None,
        folders: list[StatCache] | None = None,
    ) -> None:
        self.states: dict[bytes, bytes] = {} if states is None else states
        self.folders: list[StatCache] = [] if folders is None else folders
        self.source: Source | None = source
        self.conditions: CacheConditions | None = conditions
        self.records: MutableMapping[bytes, Record] = records
        self.details: Details = details

    @property
    def is_large(self) -> bool:
        """Whether there are so many files that two processes look at them in less time than one."""
        top = self.records.get(b"")
        return top is not None and top[FILES] >= WORTHWHILE_FILES

    def followed(self, conditions: CacheConditions, *, records: MutableMapping[bytes, Record]) -> CachedTree:
        """Return what a later look came to, whose rows are among these."""
        return CachedTree(
            conditions,
            records=records,
            details=self.details,
            source=self.source,
            states=self.states,
            folders=self.folders,
        )


class CacheMemory:
    """What a process that scans a workspace again and again knows of its scan cache.

    The cache is not written each time: what lies there meanwhile is that of an earlier scan, which proves as
    little as it did. Killed, the process leaves one from which the next looks at more. Where it ``stays``
    somebody calls `settle_up` in the end.
    """

    __slots__ = ("_folder", "_owed_by", "_stays", "_written", "known")

    def __init__(self, folder: bytes, *, known: CachedTree | None = None, stays: bool = False) -> None:
        self._folder = folder
        self._stays = stays
        # What would be read if all were written.
        self.known: CachedTree | None = known
        # The process that has yet to write it, 0 where none has.
        self._owed_by = 0
        self._written: float | None = None

    @property
    def is_small(self) -> bool:
        """Whether it is known that one process is enough to look."""
        return self.known is not None and not self.known.is_large

    def remembers(self, known: CachedTree) -> bool:
        """Tell whether what was loaded would not be read again: it is remembered, or there is nothing."""
        return known.source is None or (self.known is not None and self.known.source == known.source)

    def load(self, root: bytes) -> CachedTree:
        """Return what the last scan left; it is read only where somebody else has written since."""
        held = self.known
        if held is None or not is_of(held, self._folder, root):
            loaded = load(self._folder, root)
            self._remember(loaded)
            return loaded
        return again(held, self._folder)

    def keep(self, snapshot: CachedTree, *, restored: bool = False) -> None:
        """Remember what a scan left, or a restore after it, and write it, or later where it is little."""
        if self._may_wait(snapshot, restored=restored):
            self._remember(snapshot)
            self._owed_by = os.getpid()
        else:
            self._write(snapshot)

    def settle_up(self) -> None:
        """Write what was put off, unless somebody else has written meanwhile, or this is a fork."""
        known = self.known
        if known is not None and self._owed_by == os.getpid() and known.source == source_of(self._folder):
            self._write(known)
        self._owed_by = 0

    def _write(self, snapshot: CachedTree) -> None:
        kept = keep(self._folder, snapshot)
        if kept is not None:
            self._owed_by = 0
            self._written = time.monotonic()
            self._remember(kept)

    def _may_wait(self, snapshot: CachedTree, *, restored: bool) -> bool:
        known = self.known
        if known is None or known.source is None or known.source != snapshot.source:
            return False
        if len(snapshot.records) > _REMEMBERED_DIRECTORIES or snapshot.details.owed_bytes > _MOST_OWED:
            return False
        if restored:
            return self._stays
        return self._written is not None and time.monotonic() <= self._written + _PUT_OFF_SECONDS

    def _remember(self, known: CachedTree) -> None:
        if known.source is not None and len(known.records) <= _REMEMBERED_DIRECTORIES:
            # Its own details: to those of a scan is added what that finds.
            self.known = again(known, self._folder)


def is_of(held: CachedTree, folder: bytes, root: bytes) -> bool:
    """Tell whether what is held is of a workspace, and nobody has written another one since."""
    ours = held.conditions is not None and held.conditions.root == root
    return ours and held.source is not None and held.source == source_of(folder)


def again(held: CachedTree, folder: bytes) -> CachedTree:
    """Return the same with details of its own."""
    then = held.details
    details = Details(folder, then.name, pending=then.pending, owed_bytes=then.owed_bytes)
    return CachedTree(
        held.conditions,
        records=held.records,
        details=details,
        source=held.source,
        states=held.states,
        folders=held.folders,
    )


def pack(rows: Iterable[Row]) -> bytes:
    """Return rows as they are written."""
    body = dumps(list(rows), 2)
    return digest(body) + body


def unpack(packed: Packed) -> list[Row] | None:
    """Return rows as they were written, None if they are damaged."""
    body = packed[DIGEST_BYTES:]
    if not packed or digest(body) != packed[:DIGEST_BYTES]:
        return None
    rows: list[Row] = loads(body)  # noqa: S302 - our own file, proven by its checksum
    return rows


def load(folder: bytes, root: bytes) -> CachedTree:
    """Return what the last scan of a workspace left, or an empty snapshot if there is any doubt."""
    source = source_of(folder)
    found = _read(folder + _RECORDS)
    if found is None or found[0][0] != root:
        return CachedTree(None, records={}, details=Details(folder, b""))
    (known_root, generation, policy, index, tree), name, records = found
    conditions = CacheConditions(
        root=known_root, generation=generation, policy=policy, index=index, tree=tree
    )
    return CachedTree(conditions, records=records, details=Details(folder, name), source=source)


def keep(folder: bytes, snapshot: CachedTree) -> CachedTree | None:
    """Write a snapshot, and return what would be loaded then.

    None if somebody else is writing, or the disk will not take it.
    """
    assert snapshot.conditions is not None
    try:
        lock = os.open(folder + _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _PRIVATE)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _write(folder, snapshot)
    except OSError:  # the lock is taken, or the disk is full: the next scan will be slower, that is all
        return None
    finally:
        os.close(lock)


def _read(
    path: bytes,
) -> tuple[tuple[bytes, str, bytes, bytes, tuple[bytes, bytes]], bytes, dict[bytes, Record]] | None:
    body = read_proven(path, form=_FORMAT)
    if body is None:
        return None
    found: tuple[tuple[bytes, str, bytes, bytes, tuple[bytes, bytes]], bytes, dict[bytes, Record]]
    found = loads(body)  # noqa: S302 - our own file, proven by its checksum
    return found


def _write(folder: bytes, snapshot: CachedTree) -> CachedTree | None:
    details = snapshot.details
    if details.name and (snapshot.source is None or snapshot.source != source_of(folder)):
        current = _read(folder + _RECORDS)
        if current is None or current[1] != details.name:
            return None  # somebody started anew meanwhile; the offsets known here mean nothing there
    records = dict(snapshot.records.items())
    live = sum(record[LENGTH] for record in records.values())
    path = folder + b"/" + details.name
    end = os.stat(path).st_size if details.name else 0
    compact = not details.name or end + details.owed_bytes > 2 * live + _SLACK_BYTES
    name = details.name
    if compact:
        name = _DETAILS_PREFIX + os.urandom(8).hex().encode()
        _append(folder + b"/" + name, _moved(records, snapshot, everything=True), new=True)
    elif details.pending:
        _append(path, _moved(records, snapshot, start=end))
    now = snapshot.conditions
    assert now is not None
    conditions = (now.root, now.generation, now.policy, now.index, now.tree)
    body = dumps((conditions, name, records))
    temporary = folder + _RECORDS + b".new"
    _append(temporary, [proof(_FORMAT, body), body], new=True)
    os.rename(temporary, folder + _RECORDS)
    if compact:
        _drop_others(folder, name)
    return CachedTree(
        now,
        records=records,
        details=Details(folder, name),
        source=source_of(folder),
        states=snapshot.states,
        folders=snapshot.folders,
    )


def source_of(folder: bytes) -> Source | None:
    """Return what stands for the file of records as it is; None if there is none."""
    try:
        seen = os.stat(folder + _RECORDS)
    except OSError:
        return None
    return seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


def _moved(
    records: dict[bytes, Record], snapshot: CachedTree, *, start: int = 0, everything: bool = False
) -> list[Packed]:
    """Give records the place where their details are going to lie, and return those details."""
    pieces: list[Packed] = []
    for path, record in records.items():
        if record[START] < 0 or everything:
            packed = snapshot.details.packed(record)
            records[path] = (*record[:START], start, len(packed))
            pieces.append(packed)
            start += len(packed)
    return pieces


def _append(path: bytes, pieces: Sequence[Packed], *, new: bool = False) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_TRUNC if new else 0)
    descriptor = os.open(path, flags, _PRIVATE)
    try:
        write_pieces(descriptor, pieces)
    finally:
        os.close(descriptor)


def _drop_others(folder: bytes, name: bytes) -> None:
    for other in os.listdir(folder):
        if other.startswith(_DETAILS_PREFIX) and other != name:
            os.unlink(folder + b"/" + other)
