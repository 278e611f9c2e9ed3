"""Writes a pack out of entries of other packs, as they lie there: nothing is compressed anew.

Each entry is proven by the CRC-32 that the other pack's index names. What a delta rests on comes
along; where the distance to that is another one here, the entry's header is made anew.
"""

from __future__ import annotations

import os
import zlib
from _bisect import bisect_right
from _struct import pack

from lastgood.adapters.git.files import pieces, write_all
from lastgood.adapters.git.objects import BLOB, OFS_DELTA, REF_DELTA
from lastgood.adapters.git.pack_write import HEADER_BYTES, distance
from lastgood.adapters.git.scan import end_of_entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lastgood.adapters.git.idx import IndexEntry
    from lastgood.adapters.git.lenders import Lender
    from lastgood.adapters.git.objects import Digest
    from lastgood.adapters.git.pack_read import PackFile

    # Object id, CRC-32 in the other pack, place there, object id of the delta's base or b"".
    Item = tuple[bytes, int, int, bytes]

# Entries that lie together are read in one piece, gaps between them too if they are small.
_WRITE_BYTES = 1 << 20
_GAP_BYTES = 1 << 14
_LARGE_BYTES = 2 << 20
# More than the header of any entry.
_HEAD_BYTES = 64
# Above this number of objects a pack's offsets are not sorted in memory.
_SORTED_OBJECTS = 2_000_000
# Git itself makes chains of at most 4,095 deltas.
_DEEPEST = 4000
_CHANGED = "an entry is not what its index says"


class Copy:
    """The pack being written to a descriptor; ``entries`` are those of its index so far.

    ``pulse`` is called now and then, and may raise to end it.
    """

    def __init__(self, descriptor: int, *, begin: Digest, pulse: Callable[[], None]) -> None:
        self._pulse = pulse
        self._descriptor = descriptor
        self._running = begin
        self._pending: list[bytes | memoryview] = []
        self._pending_bytes = 0
        self._size = 0
        self._at: dict[bytes, int] = {}
        self.entries: list[IndexEntry] = []

    def run(self, lenders: Sequence[Lender]) -> tuple[bytes, int]:
        """Write all of it and return checksum and size; OSError, ValueError if anything is amiss."""
        taken: dict[bytes, int] = {}
        plans = [(lender.pack, list(_plan(lender, taken))) for lender in lenders]
        self._put(b"PACK" + pack(">II", 2, len(taken)))
        for source, items in plans:
            for item, end, raw in _pieces(source, items):
                if raw is None:
                    self._stream(source, item, end)
                else:
                    self._copy(item, raw)
            source.close()
        self._flush()
        trailer = self._running.digest()
        write_all(self._descriptor, trailer)
        return trailer, self._size + len(trailer)

    def _copy(self, item: Item, raw: memoryview) -> None:
        oid, crc, _, base = item
        if zlib.crc32(raw) != crc:
            raise ValueError(_CHANGED)
        place = self._size
        if base:
            head, length = _moved(raw, place - self._at[base])
            if head != raw[:length]:
                raw = raw[length:]
                crc = zlib.crc32(raw, zlib.crc32(head))
                self._put(head)
        self._put(raw)
        self._add(oid, crc, place)

    def _stream(self, source: PackFile, item: Item, end: int) -> None:
        """Copy a large entry in pieces."""
        oid, told, offset, base = item
        place, length, head = self._size, 0, b""
        if base:
            head, length = _moved(os.pread(source.descriptor, _HEAD_BYTES, offset), place - self._at[base])
        self._put(head)
        proof = zlib.crc32(os.pread(source.descriptor, length, offset))
        crc = zlib.crc32(head)
        for piece in pieces(source.descriptor, start=offset + length, end=end):
            proof, crc = zlib.crc32(piece, proof), zlib.crc32(piece, crc)
            self._put(piece)
        if proof != told:
            raise ValueError(_CHANGED)
        self._add(oid, crc, place)

    def _add(self, oid: bytes, crc: int, place: int) -> None:
        self._at[oid] = place
        self.entries.append((oid, crc, place))

    def _put(self, piece: bytes | memoryview) -> None:
        self._pending.append(piece)
        self._size += len(piece)
        self._pending_bytes += len(piece)
        if self._pending_bytes > _WRITE_BYTES:
            self._flush()

    def _flush(self) -> None:
        content = b"".join(self._pending)
        self._pending.clear()
        self._pending_bytes = 0
        self._pulse()
        self._running.update(content)
        write_all(self._descriptor, content)


def _plan(lender: Lender, taken: dict[bytes, int]) -> Iterator[Item]:
    """Yield what is to be copied of one pack, bases before what rests on them.

    ``taken`` are the objects that the new pack has so far, with the length of their chain of deltas.
    """
    source = lender.pack
    known = {offset: (oid, crc) for oid, crc, offset in source.index.entries_of(lender.oids)}
    rests = _rests(source, known)
    strange = rests.keys() - known.keys()
    if strange:
        known |= {offset: (oid, crc) for oid, crc, offset in source.index.entries_at(strange)}
    pending = sorted(rests)
    while pending:
        later: list[int] = []
        for offset in pending:
            oid, crc = known[offset]
            at = rests[offset]
            base = known[at][0] if at >= 0 else b""
            if base and base not in taken:
                later.append(offset)
            elif oid not in taken:
                taken[oid] = _deeper(taken[base]) if base else 0
                yield oid, crc, offset, base
        if len(later) == len(pending):
            raise ValueError("deltas rest on each other")
        pending = later


def _deeper(chain: int) -> int:
    if chain == _DEEPEST:
        raise ValueError("a chain of deltas does not end")
    return chain + 1


def _rests(source: PackFile, offsets: Iterable[int]) -> dict[int, int]:
    """Return these places and those that they rest on, each with that of its base, -1 for a whole blob."""
    rests: dict[int, int] = {}
    descriptor = source.descriptor
    waiting = list(offsets)
    while waiting:
        offset = waiting.pop()
        if offset in rests:
            continue
        kind = os.pread(descriptor, 1, offset)[0] >> 4 & 7
        if kind == BLOB:
            rests[offset] = -1
        elif kind in {OFS_DELTA, REF_DELTA}:
            (_, _, base, _), _ = source.header(offset)
            rests[offset] = base
            waiting.append(base)
        else:
            raise ValueError("an object is no blob")
    return rests


def _pieces(source: PackFile, items: Sequence[Item]) -> Iterator[tuple[Item, int, memoryview | None]]:
    """Yield each entry with its end and its bytes, None in their place if there are many."""
    ends = _ends(source, [item[2] for item in items])
    start = stop = 0
    window = memoryview(b"")
    for number, item in enumerate(items):
        offset, end = item[2], ends[number]
        if end - offset > _LARGE_BYTES:
            yield item, end, None
            continue
        if not start <= offset <= end <= stop:
            start, stop = offset, _reach(items, ends, number)
            window = memoryview(os.pread(source.descriptor, stop - start, start))
        yield item, end, window[offset - start : end - start]


def _reach(items: Sequence[Item], ends: Sequence[int], number: int) -> int:
    """Return up to where the pack is read in one piece, from the entry of a number on."""
    start, stop = items[number][2], ends[number]
    for following in range(number + 1, len(items)):
        offset, end = items[following][2], ends[following]
        if not stop <= offset <= stop + _GAP_BYTES or end - start > _LARGE_BYTES:
            break
        stop = end
    return stop


def _ends(source: PackFile, offsets: Sequence[int]) -> list[int]:
    """Return where the entries at these places end."""
    last = source.end
    if source.index.count > _SORTED_OBJECTS:
        return [end_of_entry(source.descriptor, offset, last) for offset in offsets]
    places = sorted(offset for block in source.index.offsets() for offset in block)
    places.append(last)
    if places[0] < HEADER_BYTES or places[-2] >= last:
        raise ValueError("an offset lies outside the pack")
    return [places[bisect_right(places, offset)] for offset in offsets]


def _moved(raw: bytes | memoryview, way: int) -> tuple[bytes, int]:
    """Return a delta's header with another distance to its base, and the length of the one it has."""
    at = 0
    while raw[at] & 0x80:
        at += 1
    at += 1
    head = bytes((raw[0] & 0x8F | OFS_DELTA << 4,)) + bytes(raw[1:at])
    if raw[0] >> 4 & 7 == REF_DELTA:
        return head + distance(way), at + 20
    while raw[at] & 0x80:
        at += 1
    return head + distance(way), at + 1
