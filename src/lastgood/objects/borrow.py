"""Copies blobs out of another repository's packs into a pack of ours, beside whoever scans meanwhile.

What its indexes name counts as stored at once, so that a scan compresses none of it; whether it
really is, `BlobImport.wait` says. Nothing is ever written to the other repository.

Packs and their indexes are read as files; nothing is written there, and none of its settings is read.

Each entry is proven by the CRC-32 that the other pack's index names. What a delta rests on comes
along; where the distance to that is another one here, the entry's header is made anew.
"""

from __future__ import annotations

import os
import stat
import zlib
from _bisect import bisect_right
from _struct import pack as struct_pack

from lastgood.files import write_whole
from lastgood.objects import BLOB, OFS_DELTA, REF_DELTA
from lastgood.objects.pack import (
    HEADER_BYTES,
    PACK_SUFFIX,
    PackFile,
    distance,
    encode_index,
    publish_files,
    vacant,
)
from lastgood.objects.repository import TemporaryFile, add_suspect, pieces
from lastgood.objects.scan import end_of_entry
from lastgood.worker import Worker, is_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Self

    from lastgood.ids import Digest
    from lastgood.objects.pack import IndexEntry
    from lastgood.objects.repository import Layout

    # Object id, CRC-32 in the other pack, place there, object id of the delta's base or b"".
    Item = tuple[bytes, int, int, bytes]


# --- Finds the packs in which another repository has objects, its alternates' packs among them ---

_IDX = b".idx"
_TRAILER_BYTES = 20
# As deep as git itself follows alternates of alternates.
_DEEPEST_ALTERNATES = 5
_ALTERNATES_BYTES = 1 << 20
# No more packs are kept open than this; the largest count.
_MOST_PACKS = 64


class Lender:
    """A pack, open, and which of the objects that are looked for it has."""

    __slots__ = ("oids", "pack")

    def __init__(self, pack: PackFile, oids: frozenset[bytes]) -> None:
        self.pack: PackFile = pack
        self.oids: frozenset[bytes] = oids


def find_lenders(objects: bytes, wanted: Collection[bytes]) -> list[Lender]:
    """Return packs that have objects of those wanted, none of them twice; what is damaged is passed over."""
    lenders: list[Lender] = []
    left = set(wanted)
    for folder in _folders(objects):
        for pack in _packs(folder + b"/pack"):
            if not left or len(lenders) == _MOST_PACKS:
                return lenders
            oids = _held(pack, left)
            if oids:
                left -= oids
                lenders.append(Lender(pack, oids))
    return lenders


def _held(pack: PackFile, wanted: Collection[bytes]) -> frozenset[bytes]:
    try:
        oids = frozenset(pack.index.among(wanted))
        if oids and _belongs(pack):
            return oids
    except (OSError, ValueError):
        oids = frozenset()
    pack.close()
    return frozenset()


def _belongs(pack: PackFile) -> bool:
    """Tell whether a pack is one of version 2, and its index the one made for it."""
    if not stat.S_ISREG(os.stat(pack.path + b".pack").st_mode):
        return False
    head = os.pread(pack.descriptor, 8, 0)
    trailer = os.pread(pack.descriptor, _TRAILER_BYTES, max(pack.end, 0))
    return head == b"PACK\0\0\0\x02" and trailer == pack.index.pack_checksum


def _packs(folder: bytes) -> list[PackFile]:
    """Return the packs of a folder that have an index, the largest index first."""
    try:
        indexes = [entry for entry in os.scandir(folder) if entry.name.endswith(_IDX) and entry.is_file()]
        indexes.sort(key=lambda entry: (-entry.stat().st_size, entry.name))
    except OSError:
        return []
    return [PackFile(folder, entry.name[: -len(_IDX)]) for entry in indexes]


def _folders(objects: bytes) -> Iterator[bytes]:
    """Yield an object directory and those that it borrows from (gitrepository-layout(5))."""
    seen: set[tuple[int, int]] = set()
    level = [objects]
    for _ in range(_DEEPEST_ALTERNATES + 1):
        below: list[bytes] = []
        for folder in level:
            try:
                found = os.stat(folder)
            except OSError:
                continue
            if (found.st_dev, found.st_ino) not in seen:
                seen.add((found.st_dev, found.st_ino))
                yield folder
                below += _alternates(folder)
        level = below


def _alternates(objects: bytes) -> list[bytes]:
    """Return what an object directory names; quoted names, which git writes for odd paths, are left out."""
    try:
        descriptor = os.open(objects + b"/info/alternates", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        text = os.read(descriptor, _ALTERNATES_BYTES)
    except OSError:
        return []
    finally:
        os.close(descriptor)
    lines = [line for line in text.split(b"\n") if line and line[:1] not in b'#"' and b"\0" not in line]
    return [os.path.join(objects, line) for line in lines]


# --- Writes a pack out of entries of other packs, as they lie there: nothing is compressed anew ---

# Entries that lie together are read in one piece, gaps between them too if they are small.
_WRITE_BYTES = 1 << 20
_GAP_BYTES = 1 << 14
_LARGE_BYTES = 2 << 20
# More than the header of any entry.
_HEAD_BYTES = 64
# Above this number of objects a pack's offsets are not sorted in memory.
_SORTED_OBJECTS = 2_000_000
# Git itself makes chains of at most 4,095 deltas.
_DEEPEST_CHAIN = 4000
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
        self._put(b"PACK" + struct_pack(">II", 2, len(taken)))
        for source, items in plans:
            for item, end, raw in _pieces(source, items):
                if raw is None:
                    self._stream(source, item, end)
                else:
                    self._copy(item, raw)
            source.close()
        self._flush()
        trailer = self._running.digest()
        write_whole(self._descriptor, trailer)
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
        write_whole(self._descriptor, content)


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
    if chain == _DEEPEST_CHAIN:
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


# --- Copies blobs out of another repository's packs into a pack of ours, beside whoever scans meanwhile ---

_CHECKSUM_BYTES = 20
_SIZE_BYTES = 8
# Forking copies page tables: for each object copied, this much memory of ours is worth it.
_RESIDENT_BYTES = 16 << 10


class BlobImport:
    """One import. ``oids`` are the blobs that it copies, ``size`` is that of their pack once written."""

    __slots__ = ("_companion", "_files", "_layout", "_lenders", "_name", "oids", "size")

    def __init__(
        self, layout: Layout, lenders: list[Lender], files: tuple[TemporaryFile, TemporaryFile]
    ) -> None:
        self._layout = layout
        self._lenders = lenders
        self._files = files
        self._companion: Worker | None = None
        self._name = b""
        self.size: int = 0
        self.oids: frozenset[bytes] = frozenset().union(*[lender.oids for lender in lenders])

    @classmethod
    def begin(cls, layout: Layout, *, objects: bytes, oids: Collection[bytes]) -> Self | None:
        """Begin to copy those of the blobs that lie in packs; None if none does. OSError of our own files."""
        lenders = find_lenders(objects, oids)
        if not lenders:
            return None
        pack = TemporaryFile.create(layout.temporary, PACK_SUFFIX)
        try:
            index = TemporaryFile.create(layout.temporary, b".idx")
        except OSError:
            pack.discard()
            raise
        begun = cls(layout, lenders, (pack, index))
        begun._start()
        return begun

    def wait(self) -> bool:
        """Wait until all is copied; False if it is not, which leaves nothing behind."""
        said = b"" if self._companion is None else self._companion.hear(_CHECKSUM_BYTES + _SIZE_BYTES)
        if self._companion is not None:
            self._companion.end()
            self._companion = None
            self._take(said)
        if not self._name:
            self.discard()
        return bool(self._name)

    def publish(self, *, durable: bool) -> None:
        """Make the copies readable, but doubted until proven; OSError."""
        pack, index = self._files
        name = vacant(self._layout, self._name, pack=pack)
        add_suspect(self._layout, name, durable=durable)
        publish_files(pack, index, self._layout, name=name, durable=durable)

    def discard(self) -> None:
        """Forget everything; harmless after `publish`."""
        if self._companion is not None:
            self._companion.end()
            self._companion = None
        for file in self._files:
            file.discard()
        self._let_go()

    def _start(self) -> None:
        ours = [file.descriptor for file in self._files]
        theirs = [lender.pack.descriptor for lender in self._lenders]
        if is_sound(len(self.oids) * _RESIDENT_BYTES):
            try:
                self._companion = Worker(self._work, keep=[*ours, *theirs])
            except OSError:
                self._companion = None
        if self._companion is None:
            try:
                self._work(self._take)
            except (OSError, ValueError, LookupError):
                self._name = b""
        self._let_go()

    def _work(self, tell: Callable[[bytes], None]) -> None:
        import hashlib

        pack, index = (file.descriptor for file in self._files)
        copy = Copy(pack, begin=hashlib.sha1(usedforsecurity=False), pulse=lambda: tell(b""))
        checksum, size = copy.run(self._lenders)
        if not self.oids.issubset([oid for oid, _, _ in copy.entries]):
            raise ValueError("two objects are said to lie in one place")
        write_whole(index, encode_index(copy.entries, pack_checksum=checksum))
        if hasattr(os, "posix_fadvise"):
            # Has the kernel begin to write, so that there is less to wait for when the pack is synced.
            os.posix_fadvise(pack, 0, 0, os.POSIX_FADV_DONTNEED)
        tell(checksum + size.to_bytes(_SIZE_BYTES, "big"))

    def _take(self, said: bytes) -> None:
        if len(said) == _CHECKSUM_BYTES + _SIZE_BYTES:
            self._name = b"pack-" + said[:_CHECKSUM_BYTES].hex().encode()
            self.size = int.from_bytes(said[_CHECKSUM_BYTES:], "big")

    def _let_go(self) -> None:
        for lender in self._lenders:
            lender.pack.close()
            lender.pack.index.close()
        self._lenders = []
