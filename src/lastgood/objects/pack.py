"""A pack in the making (version 2, gitformat-pack(5)): in memory while small, in a locked file beyond.

A pack may be damaged or made to harm: sizes can lie, deltas can refer to each other in circles.
Whatever is wrong raises ValueError with a reason; the caller knows which object it was after.

Pack and index are written and synced under temporary names, renamed (the pack first: an index is
what makes a pack visible), and then the directory is synced. What is published without syncing
leaves a mark first, and whoever publishes durably next syncs it too, for his objects may rest on it.

A pack is named by its content, but what lies under that name may be another: a damaged one, of which
every object was saved, gives the very bytes that it had when it was whole. It is never replaced.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
import zlib
from _struct import Struct, pack, unpack, unpack_from
from itertools import accumulate

from lastgood.files import path_exists, sync_all, unlink_quietly, write_pieces, write_whole
from lastgood.ids import sha1_for
from lastgood.objects import KIND_NAMES, OFS_DELTA, OID_BYTES, REF_DELTA, apply_delta, result_size
from lastgood.objects.repository import (
    DIRECTORY_MODE,
    FILE_MODE,
    HANDED_SUFFIX,
    TemporaryFile,
    fresh_path,
    pieces,
    sync,
    sync_directory,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from lastgood.objects.repository import Layout

    # (object id, CRC-32 of the entry's bytes, offset in the pack)
    IndexEntry = tuple[bytes, int, int]
    # (kind, size before compression, offset of the delta's base or -1, offset of the compressed bytes)
    Header = tuple[int, int, int, int]


# --- Pack indexes, version 2 (gitformat-pack(5)): written whole, read by fan-out and bisection ---

_MAGIC = b"\xfftOc\0\0\0\x02"
_HEAD_BYTES = 8 + 1024
_TRAILER_BYTES = 40
_FANOUT = Struct(">256I")
_LARGE = 1 << 31
_FARTHEST = 1 << 63
# Small ones are read: a file less held open. Their bytes then also outlive the file.
_MAPPED_FROM_BYTES = 1 << 20
# So many entries are looked at together; in an index so many times as large, each is looked up instead.
_BLOCK = 1 << 16
_SPARSE = 16


def encode_index(entries: Iterable[IndexEntry], *, pack_checksum: bytes) -> bytes:
    """Return the index of a pack."""
    rows = sorted(entries)
    counts = [0] * 256
    for oid, _, _ in rows:
        counts[oid[0]] += 1
    total = len(rows)
    large: list[int] = []
    short: list[int] = []
    for _, _, offset in rows:
        if offset < _LARGE:
            short.append(offset)
        else:
            short.append(_LARGE | len(large))
            large.append(offset)
    body = b"".join(
        [
            _MAGIC,
            _FANOUT.pack(*accumulate(counts)),
            b"".join([row[0] for row in rows]),
            pack(f">{total}I", *[row[1] for row in rows]),
            pack(f">{total}I", *short),
            pack(f">{len(large)}Q", *large),
            pack_checksum,
        ]
    )
    return body + checksum(body)


def checksum(body: bytes | mmap.mmap | memoryview) -> bytes:
    """Return the SHA-1 of a whole file's bytes."""
    return sha1_for(len(body))(body).digest()


class Index:
    """One index file; its structure is checked on opening, its checksum only by `sound`."""

    __slots__ = ("_bytes", "_fanout", "_large", "count")

    def __init__(self, content: bytes | mmap.mmap) -> None:
        """Read an index; ValueError when its structure is not one."""
        if len(content) < _HEAD_BYTES + _TRAILER_BYTES or content[:8] != _MAGIC:
            raise ValueError("it is not a pack index of version 2")
        self._bytes = content
        self._fanout: tuple[int, ...] = _FANOUT.unpack(content[8:_HEAD_BYTES])
        self.count: int = self._fanout[255]
        self._large = (len(content) - _HEAD_BYTES - _TRAILER_BYTES - 28 * self.count) // 8
        whole = _HEAD_BYTES + 28 * self.count + 8 * self._large + _TRAILER_BYTES
        if self._large < 0 or self._large > self.count or whole != len(content):
            raise ValueError("its size does not fit its number of objects")
        if sorted(self._fanout) != list(self._fanout):
            raise ValueError("its fan-out table does not rise")

    @classmethod
    def open(cls, path: bytes) -> Index:
        """Open an index file; OSError, or ValueError when its structure is not one."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            if size >= _MAPPED_FROM_BYTES:
                return cls(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ))
            return cls(os.read(descriptor, size))
        finally:
            os.close(descriptor)

    @property
    def pack_checksum(self) -> bytes:
        """The checksum of the pack that this index belongs to."""
        return self._bytes[-40:-20]

    @property
    def sound(self) -> bool:
        """Whether the file's checksum is right and its ids rise."""
        with memoryview(self._bytes) as view, view[:-20] as body:
            right = checksum(body) == self._bytes[-20:]
        oids = list(self.oids())
        return right and all(oids[place - 1] < oids[place] for place in range(1, len(oids)))

    def demand_sound(self) -> None:
        """Raise ValueError unless the index is sound."""
        if not self.sound:
            raise ValueError("its index is damaged")

    def find(self, oid: bytes) -> int:
        """Return the offset of an object in the pack, -1 when it is not in it."""
        place = self._place(oid)
        return place if place < 0 else self._offset(place)

    def _place(self, oid: bytes) -> int:
        first = oid[0]
        low = self._fanout[first - 1] if first else 0
        high = self._fanout[first]
        content = self._bytes
        while low < high:
            middle = (low + high) >> 1
            at = _HEAD_BYTES + 20 * middle
            found = content[at : at + 20]
            if found == oid:
                return middle
            if found < oid:
                low = middle + 1
            else:
                high = middle
        return -1

    def oids(self) -> Iterator[bytes]:
        """Yield all object ids, in order."""
        content = self._bytes[_HEAD_BYTES : _HEAD_BYTES + 20 * self.count]
        return (content[at : at + 20] for at in range(0, len(content), 20))

    def entries(self) -> list[IndexEntry]:
        """Return all of it: ids, CRCs and offsets, in the order of the ids; ValueError if malformed."""
        return [row for block in self._blocks() for row in block]

    def among(self, oids: Collection[bytes]) -> Iterator[bytes]:
        """Yield those objects that the pack has."""
        if self.count > _SPARSE * len(oids):
            return (oid for oid in oids if self._place(oid) >= 0)
        return (oid for oid in self.oids() if oid in oids)

    def entries_of(self, oids: Collection[bytes]) -> list[IndexEntry]:
        """Return the entries of those objects that the pack has."""
        if self.count <= _SPARSE * len(oids):
            return [row for block in self._blocks() for row in block if row[0] in oids]
        places = [(oid, self._place(oid)) for oid in oids]
        start = _HEAD_BYTES + 20 * self.count
        return [
            (oid, unpack_from(">I", self._bytes, start + 4 * place)[0], self._offset(place))
            for oid, place in places
            if place >= 0
        ]

    def entries_at(self, offsets: Collection[int]) -> list[IndexEntry]:
        """Return the entries at those places in the pack."""
        return [row for block in self._blocks() for row in block if row[2] in offsets]

    def offsets(self) -> Iterator[Sequence[int]]:
        """Yield all places in the pack in the order of the ids, many together; ValueError if malformed."""
        for start in range(0, self.count, _BLOCK):
            yield self._offsets(start, min(start + _BLOCK, self.count))

    def _blocks(self) -> Iterator[Iterable[IndexEntry]]:
        for start in range(0, self.count, _BLOCK):
            stop = min(start + _BLOCK, self.count)
            names = self._bytes[_HEAD_BYTES + 20 * start : _HEAD_BYTES + 20 * stop]
            at = _HEAD_BYTES + 20 * self.count
            crcs = unpack(f">{stop - start}I", self._bytes[at + 4 * start : at + 4 * stop])
            oids = (names[at : at + 20] for at in range(0, len(names), 20))
            yield zip(oids, crcs, self._offsets(start, stop), strict=True)

    def _offsets(self, start: int, stop: int) -> Sequence[int]:
        at = _HEAD_BYTES + 24 * self.count
        short: tuple[int, ...] = unpack(f">{stop - start}I", self._bytes[at + 4 * start : at + 4 * stop])
        if max(short) < _LARGE:
            return short
        return [self._offset(place) for place in range(start, stop)]

    def _offset(self, place: int) -> int:
        short = unpack_from(">I", self._bytes, _HEAD_BYTES + 24 * self.count + 4 * place)[0]
        if short < _LARGE:
            return int(short)
        place = short & (_LARGE - 1)
        if place >= self._large:
            raise ValueError("an offset is not in its table")
        at = _HEAD_BYTES + 28 * self.count + 8 * place
        offset = int(unpack_from(">Q", self._bytes, at)[0])
        if offset >= _FARTHEST:
            raise ValueError("an offset lies beyond any file")
        return offset

    def close(self) -> None:
        """Let go of the map."""
        if isinstance(self._bytes, mmap.mmap):
            self._bytes.close()


# --- A pack in the making (version 2, gitformat-pack(5)): in memory while small, in a locked file beyond
# ---

HEADER_BYTES = 12
PACK_SUFFIX = b".pack"
# What is kept in memory before a temporary file takes it.
_MEMORY_BYTES = 4 << 20


def entry_header(kind: int, size: int) -> bytes:
    """Return the header of a pack's entry: the kind, and the size before compression."""
    first = kind << 4 | size & 15
    size >>= 4
    if not size:
        return first.to_bytes(1, "big")
    out = bytearray((first | 0x80,))
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out)


def distance(way: int) -> bytes:
    """Return how a delta says how far in front of it its base lies."""
    out = bytearray((way & 0x7F,))
    way >>= 7
    while way:
        way -= 1
        out.append(way & 0x7F | 0x80)
        way >>= 7
    out.reverse()
    return bytes(out)


class PackDraft:
    """The entries of a pack so far. Its methods raise OSError.

    Of one that is not ``kept``, because it is never published, the bytes are dropped and no file is made.
    The file of one that is ``handed`` may be taken back by the process that began it.
    """

    __slots__ = ("_buffer", "_buffered", "_file", "_folder", "entries", "handed", "kept", "size")

    def __init__(self, folder: bytes, *, kept: bool = True) -> None:
        self._folder = folder
        self.kept: bool = kept
        self.handed: bool = False
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._file: TemporaryFile | None = None
        self.entries: list[IndexEntry] = []
        self.size: int = HEADER_BYTES

    def add(self, oid: bytes, crc: int, raw: bytes) -> None:
        """Add an entry: id, CRC-32 and bytes."""
        self.entries.append((oid, crc, self.size))
        self.add_piece(raw)

    def append(self, made: Iterable[tuple[bytes, int, int]], body: bytes) -> None:
        """Add entries: id, CRC-32 and length of each, and the bytes of all of them."""
        at = self.size
        for oid, crc, length in made:
            self.entries.append((oid, crc, at))
            at += length
        self.add_piece(body)

    def add_piece(self, piece: bytes) -> None:
        """Add bytes of an entry that is being streamed; `entries` gets its row from the caller."""
        self._buffer.append(piece)
        self.size += len(piece)
        self._buffered += len(piece)
        if self._buffered > _MEMORY_BYTES:
            self.flush()

    def cut(self, size: int) -> None:
        """Take back streamed pieces, down to a former size."""
        self.flush()
        if self._file is None:
            self.size = size
            return
        os.ftruncate(self._file.descriptor, size)
        os.lseek(self._file.descriptor, size, os.SEEK_SET)
        self.size = size

    def flush(self) -> None:
        """Move what is in memory to the temporary file."""
        if not self.kept:
            self._buffer.clear()
            self._buffered = 0
            return
        if self._file is None:
            self._file = TemporaryFile.create(self._folder, PACK_SUFFIX)
            self._buffer.insert(0, bytes(HEADER_BYTES))
        content = self._buffer
        self._buffer = []
        self._buffered = 0
        write_pieces(self._file.descriptor, content)

    def finish(self) -> tuple[TemporaryFile, bytes]:
        """Complete the pack, and return its file (not yet synced) and its checksum."""
        header = b"PACK" + pack(">II", 2, len(self.entries))
        if self._file is None:
            running = sha1_for(self.size)(header)
            for piece in self._buffer:
                running.update(piece)
            trailer = running.digest()
            self._file = TemporaryFile.create(self._folder, PACK_SUFFIX)
            write_pieces(self._file.descriptor, [header, *self._buffer, trailer])
            return self._file, trailer
        import hashlib

        self.flush()
        descriptor = self._file.descriptor
        os.pwrite(descriptor, header, 0)
        running = hashlib.sha1(usedforsecurity=False)
        for piece in pieces(descriptor, start=0, end=self.size):
            running.update(piece)
        write_whole(descriptor, running.digest())
        return self._file, running.digest()

    def discard(self) -> None:
        """Forget everything."""
        self._buffer.clear()
        self.entries.clear()
        if self._file is not None:
            self._file.discard()
            self._file = None

    def detach(self) -> Mapping[str, object]:
        """Return the pack as plain values; its file, if it has one, stays locked until this process ends."""
        path = b""
        if self._file is not None:
            self.flush()
            path = fresh_path(self._folder, HANDED_SUFFIX)
            self._file.rename(path)
        memory = b"".join(self._buffer)
        return {
            "path": path,
            "memory": memory,
            "size": self.size,
            "entries": self.entries,
            "kept": self.kept,
        }

    def take_back(self) -> None:
        """Go on after `detach`; what another process did with it is undone, wherever it left the file."""
        if self._file is not None:
            self._file.find(self._folder)
            self._file.rename(fresh_path(self._folder, PACK_SUFFIX))
            os.ftruncate(self._file.descriptor, self.size)
            os.lseek(self._file.descriptor, self.size, os.SEEK_SET)

    def let_go(self) -> None:
        """Close the file after `detach`: another process has made more of it."""
        if self._file is not None:
            self._file.close()

    @classmethod
    def resume(cls, folder: bytes, detached: Mapping[str, object]) -> PackDraft:
        """Go on with what `detach` returned."""
        draft = cls(folder, kept=bool(detached.get("kept", True)))
        path, memory, size, entries = (detached[key] for key in ("path", "memory", "size", "entries"))
        assert isinstance(path, bytes)
        assert isinstance(memory, bytes)
        assert isinstance(size, int)
        assert isinstance(entries, list)
        if path:
            draft.handed = True
            draft._file = TemporaryFile.take_over(path)
            draft._file.rename(fresh_path(folder, PACK_SUFFIX))
            os.lseek(draft._file.descriptor, 0, os.SEEK_END)
        elif memory:
            draft._buffer.append(memory)
            draft._buffered = len(memory)
        draft.size = size
        draft.entries = list(entries)
        return draft


# --- Reads one pack: entries by offset, deltas resolved, and nothing believed that the bytes do not prove
# ---

_WINDOW_BYTES = 4096
# What a source file takes, compressed, most often.
LIKELY_BYTES = 16 << 10
_HEADER_WINDOW = 1
_STEP_BYTES = 1 << 18
_LEAST_STEP = 64
# Git itself makes chains of at most 4,095.
_DEEPEST = 4096
_CACHED_BYTES = 16 << 20
_CACHED_LARGEST = 1 << 20


class PackFile:
    """A pack and its index, opened when first needed. OSError when a file cannot be read."""

    __slots__ = ("_cache", "_cached", "_descriptor", "_index", "bases", "name", "path")

    def __init__(self, folder: bytes, name: bytes) -> None:
        self.name: bytes = name
        self.path: bytes = folder + b"/" + name
        self._descriptor = -1
        self._index: Index | None = None
        # Where the bases of deltas are, for a walk over a pack without an index.
        self.bases: dict[bytes, int] | None = None
        self._cache: dict[int, tuple[int, bytes]] = {}
        self._cached = 0

    @property
    def index(self) -> Index:
        """The pack's index; ValueError when its structure is damaged."""
        if self._index is None:
            self._index = Index.open(self.path + b".idx")
        return self._index

    @property
    def is_there(self) -> bool:
        """Whether its index lies there still: then nobody has taken the pack away."""
        return path_exists(self.path + b".idx")

    @property
    def index_fits(self) -> bool:
        """Whether the index is sound and the one of this pack."""
        held = self.is_open
        try:
            trailer = os.pread(self.descriptor, 20, max(self.end, 0))
            index = self.index
        except (OSError, ValueError):
            return False
        finally:
            if not held:
                self.close()
        return index.sound and index.pack_checksum == trailer

    def use_entries(self, entries: list[IndexEntry]) -> None:
        """Use these entries in the place of the index file."""
        self._index = Index(encode_index(entries, pack_checksum=bytes(20)))

    @property
    def is_open(self) -> bool:
        """Whether the pack holds a descriptor."""
        return self._descriptor >= 0

    @property
    def descriptor(self) -> int:
        """The open pack."""
        if self._descriptor < 0:
            self._descriptor = os.open(self.path + b".pack", os.O_RDONLY | os.O_CLOEXEC)
        return self._descriptor

    @property
    def end(self) -> int:
        """Where the last entry ends if the pack is whole."""
        return os.fstat(self.descriptor).st_size - 20

    def close(self) -> None:
        """Close the pack, and forget what was read of it; it opens again when needed."""
        self._cache.clear()
        self._cached = 0
        held, self._descriptor = self._descriptor, -1  # first: who is interrupted here closes it once
        if held >= 0:
            os.close(held)

    # For a program that drops an engine without closing it. What it needs is bound: the interpreter may be
    # taking its modules down.
    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if self._descriptor >= 0:
            close(self._descriptor)

    def header(self, offset: int, *, bytes_read: int = _WINDOW_BYTES) -> tuple[Header, bytes]:
        """Return an entry's header, and the first of its compressed bytes."""
        window = os.pread(self.descriptor, bytes_read, offset)
        try:
            return self._parse_header(window, offset)
        except IndexError:
            raise ValueError("the pack ends within an entry's header") from None

    def _parse_header(self, window: bytes, offset: int) -> tuple[Header, bytes]:
        byte = window[0]
        kind, size, shift, at = byte >> 4 & 7, byte & 15, 4, 1
        while byte & 0x80:
            byte = window[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise ValueError("an entry's size is absurd")
        found = -1
        if kind == OFS_DELTA:
            distance, at = _distance(window, at)
            found = offset - distance
            if not 12 <= found < offset:
                raise ValueError("a delta's base lies outside the pack")
        elif kind == REF_DELTA:
            base = window[at : at + OID_BYTES]
            found = self.index.find(base) if self.bases is None else self.bases.get(base, -1)
            at += OID_BYTES
            if found < 0:
                raise ValueError("a delta's base is not in the pack")
        elif kind not in KIND_NAMES:
            raise ValueError(f"an entry is of the unknown kind {kind}")
        return (kind, size, found, offset + at), window[at:]

    def kind(self, offset: int) -> int:
        """Return an object's kind, looking through its deltas."""
        for _ in range(_DEEPEST):
            window = os.pread(self.descriptor, _HEADER_WINDOW, offset)
            if not window:
                break
            kind = window[0] >> 4 & 7
            if kind in KIND_NAMES:
                return kind
            (_, _, offset, _), _ = self.header(offset)
        raise ValueError("a chain of deltas does not end")

    def kind_and_size(self, offset: int) -> tuple[int, int]:
        """Return an object's kind and size without making its content."""
        (kind, size, found, start), window = self.header(offset)
        if kind in {OFS_DELTA, REF_DELTA}:
            size = result_size(next(self._inflate(window, start=start, size=size)))
            kind = self.kind(found)
        return kind, size

    def read(self, offset: int) -> tuple[int, bytes]:
        """Return an object's kind and content."""
        chain: list[tuple[int, bytes]] = []
        while True:
            cached = self._cache.get(offset)
            if cached is not None:
                kind, content = cached
                break
            (kind, size, base, start), window = self.header(offset)
            body = b"".join(self._inflate(window, start=start, size=size))
            if kind not in {OFS_DELTA, REF_DELTA}:
                content = body
                break
            chain.append((offset, body))
            if len(chain) > _DEEPEST:
                raise ValueError("a chain of deltas does not end")
            offset = base
        if chain and cached is None:
            self._keep(offset, kind, content)
        for place, body in reversed(chain):
            content = apply_delta(content, body)
            self._keep(place, kind, content)
        return kind, content

    def whole(self, offset: int, *, most: int, likely: int = LIKELY_BYTES) -> tuple[int, bytes | None]:
        """Return an object's kind and content; no content of a delta, nor one of more bytes than ``most``.

        So many bytes as it ``likely`` takes are read at once.
        """
        (kind, size, _, start), window = self.header(offset, bytes_read=likely)
        if kind in {OFS_DELTA, REF_DELTA} or size > most:
            return kind, None
        return kind, b"".join(self._inflate(window, start=start, size=size))

    def stream(self, offset: int) -> tuple[int, int, Iterator[bytes]] | None:
        """Return an object's kind, size and pieces, or None when it is a delta."""
        (kind, size, _, start), window = self.header(offset)
        if kind in {OFS_DELTA, REF_DELTA}:
            return None
        return kind, size, self._inflate(window, start=start, size=size)

    def _inflate(self, window: bytes, *, start: int, size: int) -> Iterator[bytes]:
        content = self._inflated(window, start=start, size=size) if size <= _STEP_BYTES else None
        return self._in_pieces(window, start=start, size=size) if content is None else iter((content,))

    def _in_pieces(self, window: bytes, *, start: int, size: int) -> Iterator[bytes]:
        running = zlib.decompressobj()
        made = 0
        at = start + len(window)
        # Compressing hardly makes anything longer: no more than the rest of the entry is read.
        step = min(_STEP_BYTES, size + (size >> 8) + _LEAST_STEP)
        try:
            while not running.eof:
                piece = running.decompress(window, min(size + 1 - made, _STEP_BYTES))
                made += len(piece)
                if made > size:
                    raise ValueError("an entry is longer than it claims")
                if piece:
                    yield piece
                window = running.unconsumed_tail
                if not window and not running.eof:
                    window = os.pread(self.descriptor, step, at)
                    at += len(window)
                    if not window and not piece:
                        raise ValueError("the pack ends within an entry")
        except zlib.error as error:
            raise ValueError(f"an entry does not decompress ({error})") from None
        if made != size:
            raise ValueError("an entry is shorter than it claims")
        if not made:
            yield b""

    def _inflated(self, window: bytes, *, start: int, size: int) -> bytes | None:
        """Return a small content made at one go; None where it does not come out, whatever the reason.

        By ISA-L where that is loaded: it takes two thirds of the time, and has words of its own for damage.
        It takes some damaged streams that zlib refuses; their content is proven by its id like any other.
        """
        library = sys.modules.get("isal.isal_zlib") or zlib
        running = library.decompressobj()
        try:
            content: bytes = running.decompress(window, size + 1)
            if not running.eof and len(content) <= size:
                most = size + (size >> 8) + _LEAST_STEP
                rest = os.pread(self.descriptor, max(most - len(window), 0), start + len(window))
                content += running.decompress(running.unconsumed_tail + rest, size + 1 - len(content))
        except library.error:
            return None
        return content if running.eof and len(content) == size else None

    def _keep(self, offset: int, kind: int, content: bytes) -> None:
        if len(content) > _CACHED_LARGEST:
            return
        self._cached += len(content)
        if self._cached > _CACHED_BYTES:
            self._cache.clear()
            self._cached = len(content)
        self._cache[offset] = (kind, content)


def _distance(window: bytes, at: int) -> tuple[int, int]:
    byte = window[at]
    at += 1
    value = byte & 0x7F
    while byte & 0x80:
        byte = window[at]
        at += 1
        value = (value + 1) << 7 | byte & 0x7F
        if value > 1 << 62:
            raise ValueError("a delta's base lies outside the pack")
    return value, at


# --- Puts a finished pack where readers look, in an order that survives a power cut at any moment ---


def publish_draft(draft: PackDraft, layout: Layout, *, durable: bool) -> bytes:
    """Make a draft a pack of the repository and return its name; OSError."""
    file, trailer = draft.finish()
    index = TemporaryFile.create(layout.temporary, b".idx")
    try:
        write_whole(index.descriptor, encode_index(draft.entries, pack_checksum=trailer))
        return publish_files(file, index, layout, name=b"pack-" + trailer.hex().encode(), durable=durable)
    finally:
        index.discard()


def publish_files(
    pack: TemporaryFile, index: TemporaryFile, layout: Layout, *, name: bytes, durable: bool
) -> bytes:
    """Sync and rename the two files of a pack, and return its name; no other file is replaced."""
    name = vacant(layout, name, pack=pack)
    if durable:
        for error in sync_all((pack.descriptor, index.descriptor), sync=sync).values():
            raise error
    else:
        _mark(layout, name)
    stem = layout.packs + b"/" + name
    try:
        # What has its name stays, whatever happens then: others may rely on it by now.
        pack.place(stem + b".pack")
        index.place(stem + b".idx")
        if durable:
            sync_directory(layout.packs)
    finally:
        index.discard()
        pack.discard()
    if durable:
        sync_unsynced(layout)
    return name


def vacant(layout: Layout, name: bytes, *, pack: TemporaryFile) -> bytes:
    """Return the name, or one made from it if another pack bears it."""
    while not _is_vacant(layout.packs + b"/" + name + b".pack", pack):
        name = b"pack-" + sha1_for(len(name))(name).digest().hex().encode()
    return name


def _is_vacant(path: bytes, pack: TemporaryFile) -> bool:
    try:
        there = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link, which is none of ours
            return False
        raise
    try:
        size = os.fstat(pack.descriptor).st_size
        return os.fstat(there).st_size == size and all(
            one == other
            for one, other in zip(
                pieces(there, start=0, end=size), pieces(pack.descriptor, start=0, end=size), strict=True
            )
        )
    except (OSError, ValueError):
        return False
    finally:
        os.close(there)


def _mark(layout: Layout, name: bytes) -> None:
    mark = layout.unsynced + b"/" + name
    try:
        descriptor = os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    except FileNotFoundError:
        os.mkdir(layout.unsynced, DIRECTORY_MODE)
        descriptor = os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    os.close(descriptor)


def sync_unsynced(layout: Layout) -> None:
    """Make packs durable that were published without."""
    try:
        marks = os.listdir(layout.unsynced)
    except FileNotFoundError:
        return
    synced = [mark for mark in marks if _sync_pack(layout.packs + b"/" + mark)]
    if synced:
        sync_directory(layout.packs)
    for mark in synced:
        unlink_quietly(layout.unsynced + b"/" + mark)


def _sync_pack(stem: bytes) -> bool:
    for suffix in (b".pack", b".idx"):
        try:
            descriptor = os.open(stem + suffix, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            sync(descriptor)
        finally:
            os.close(descriptor)
    return True
