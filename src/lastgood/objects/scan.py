"""Walks a pack from its first byte, without an index: what each entry is, and where it ends."""

from __future__ import annotations

import os
import zlib

from lastgood.errors import CROWDED
from lastgood.objects import KIND_NAMES
from lastgood.objects.pack import HEADER_BYTES
from lastgood.objects.repository import pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.objects import Hasher
    from lastgood.objects.pack import IndexEntry, PackFile


# --- Proves stored objects by their ids ---


def prove_object(pack: PackFile, offset: int, *, oid: bytes, hasher: Hasher) -> str:
    """Return what is wrong with an object, empty when nothing is; in bounded memory but for deltas.

    OSError where nothing can be opened: that is no fault of the object.
    """
    try:
        found = object_at(pack, offset, hasher=hasher)
    except OSError as error:
        if error.errno in CROWDED:
            raise
        return str(error)
    except ValueError as error:
        return str(error)
    return "" if found == oid else "its bytes are not what they were"


def object_at(pack: PackFile, offset: int, *, hasher: Hasher) -> bytes:
    """Return the id that an entry's bytes give, in bounded memory but for deltas; OSError, ValueError."""
    streamed = pack.stream(offset)
    if streamed is None:
        return hasher.object_id(*pack.read(offset))
    kind, size, content = streamed
    running = hasher.begin(b"%b %d\0" % (KIND_NAMES[kind], size), size=size)
    for piece in content:
        running.update(piece)
    return running.digest()


# --- Walks a pack from its first byte, without an index: what each entry is, and where it ends ---

TRAILER_BYTES = 20
_STEP_BYTES = 1 << 16


def pack_checksum(pack: PackFile) -> bytes | None:
    """Return the checksum at the end of a pack, or None when it is not that of its bytes; OSError."""
    import hashlib

    size = os.fstat(pack.descriptor).st_size
    if size < HEADER_BYTES + TRAILER_BYTES or os.pread(pack.descriptor, 8, 0) != b"PACK\0\0\0\x02":
        return None
    running = hashlib.sha1(usedforsecurity=False)
    for piece in pieces(pack.descriptor, start=0, end=size - TRAILER_BYTES):
        running.update(piece)
    trailer = os.pread(pack.descriptor, TRAILER_BYTES, size - TRAILER_BYTES)
    return trailer if trailer == running.digest() else None


def walk_pack(pack: PackFile, hasher: Hasher) -> tuple[list[IndexEntry], str]:
    """Return the objects of a pack in front of the first fault, and the fault (empty when there is none)."""
    bounds, reason = _bounds(pack)
    pack.bases = {}
    entries: list[IndexEntry] = []
    while bounds:
        waiting = []
        for start, end in bounds:
            try:
                oid = object_at(pack, start, hasher=hasher)
            except (OSError, ValueError) as error:
                waiting.append((start, end))
                failed = str(error)
                continue
            pack.bases[oid] = start
            entries.append((oid, entry_crc(pack, start, end), start))
        if len(waiting) == len(bounds):
            reason = reason or failed
            break
        bounds = waiting
    pack.bases = None
    pack.close()
    return list({entry[0]: entry for entry in entries}.values()), reason


def _bounds(pack: PackFile) -> tuple[list[tuple[int, int]], str]:
    """Return where entries start and end; bases are looked for later."""
    bounds: list[tuple[int, int]] = []
    at = HEADER_BYTES
    try:
        last = os.fstat(pack.descriptor).st_size - TRAILER_BYTES
        while at < last:
            end = _end(pack.descriptor, _compressed_start(pack.descriptor, at), last)
            bounds.append((at, end))
            at = end
    except (OSError, ValueError, IndexError, zlib.error) as error:
        return bounds, str(error) or "an entry is cut short"
    return bounds, ""


def end_of_entry(descriptor: int, offset: int, last: int) -> int:
    """Return where an entry of a pack ends, which does so at ``last`` at the latest; ValueError."""
    try:
        return _end(descriptor, _compressed_start(descriptor, offset), last)
    except (IndexError, zlib.error) as error:
        raise ValueError(str(error) or "an entry is cut short") from error


def _compressed_start(descriptor: int, offset: int) -> int:
    window = os.pread(descriptor, 64, offset)
    kind = window[0] >> 4 & 7
    at = 1
    while window[at - 1] & 0x80:
        at += 1
    if kind == 7:
        at += 20
    if kind == 6:
        at += 1
        while window[at - 1] & 0x80:
            at += 1
    return offset + at


def _end(descriptor: int, start: int, last: int) -> int:
    running = zlib.decompressobj()
    window = b""
    while not running.eof:
        if not window:
            window = os.pread(descriptor, min(_STEP_BYTES, last - start), start)
            if not window:
                raise ValueError("the pack ends within an entry")
            start += len(window)
        running.decompress(window, _STEP_BYTES)
        window = running.unconsumed_tail
    return start - len(running.unused_data)


def entry_crc(pack: PackFile, start: int, end: int) -> int:
    """Return the CRC-32 of an entry's bytes."""
    crc = 0
    for piece in pieces(pack.descriptor, start=start, end=end):
        crc = zlib.crc32(piece, crc)
    return crc
