"""Pack indexes, version 2 (gitformat-pack(5)): written whole, read by fan-out and bisection."""

from __future__ import annotations

import mmap
import os
from _sha1 import sha1
from _struct import Struct, pack, unpack, unpack_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    # (object id, CRC-32 of the entry's bytes, offset in the pack)
    IndexEntry = tuple[bytes, int, int]

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
    total = 0
    for first in range(256):
        total += counts[first]
        counts[first] = total
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
            _FANOUT.pack(*counts),
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
    if len(body) < _MAPPED_FROM_BYTES:
        return bytes(sha1(body, usedforsecurity=False).digest())
    import hashlib

    return hashlib.sha1(body, usedforsecurity=False).digest()


class Index:
    """One index file; its structure is checked on opening, its checksum only by `sound`."""

    __slots__ = ("_bytes", "_fanout", "_large", "count")

    def __init__(self, content: bytes | mmap.mmap) -> None:
        """Read an index; ValueError when its structure is not one."""
        if len(content) < _HEAD_BYTES + _TRAILER_BYTES or content[:8] != _MAGIC:
            raise ValueError("it is not a pack index of version 2")
        self._bytes = content
        self._fanout: tuple[int, ...] = _FANOUT.unpack(content[8:_HEAD_BYTES])
        self.count = self._fanout[255]
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
