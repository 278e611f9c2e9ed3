"""Reads a pack that a stranger may have made: every size bounded, every id made from the bytes.

Only whole objects are taken, no deltas: an export has none, and what has none cannot grow.
"""

from __future__ import annotations

import os
import zlib

from lastgood.adapters.git.objects import KIND_NAMES
from lastgood.adapters.git.pack_write import HEADER_BYTES
from lastgood.adapters.git.scan import TRAILER_BYTES, pack_checksum
from lastgood.errors import Damaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.adapters.git.idx import IndexEntry
    from lastgood.adapters.git.objects import Digest, Hasher
    from lastgood.adapters.git.pack_read import PackFile
    from lastgood.model.exchange import Bounds

_STEP_BYTES = 1 << 18


def entries_of(pack: PackFile, *, bounds: Bounds, hasher: Hasher) -> list[IndexEntry]:
    """Return every object of a pack with its place; `Damaged` if anything is not as it was announced."""
    try:
        return _walk(pack, bounds, hasher)
    except (OSError, ValueError, zlib.error, IndexError) as error:
        raise Damaged(
            f"the objects of the export cannot be taken: {error}", hint="export again; nothing was imported"
        ) from error


def _walk(pack: PackFile, bounds: Bounds, hasher: Hasher) -> list[IndexEntry]:
    if pack_checksum(pack) is None:
        raise ValueError("its checksum is wrong")
    last = os.fstat(pack.descriptor).st_size - TRAILER_BYTES
    announced = int.from_bytes(os.pread(pack.descriptor, 4, 8), "big")
    if announced != bounds.objects:
        raise ValueError("the number of objects is not the one announced")
    entries: list[IndexEntry] = []
    at, total = HEADER_BYTES, 0
    while at < last:
        (kind, size, _, start), _ = pack.header(at)
        total += size
        if kind not in KIND_NAMES:
            raise ValueError("it has deltas, which no export has")
        if size > bounds.largest or total > bounds.total or len(entries) >= announced:
            raise ValueError("it holds more than was announced")
        running = hasher.begin(b"%b %d\0" % (KIND_NAMES[kind], size), size=size)
        end = _inflate(pack.descriptor, start, size=size, last=last, feed=running)
        entries.append((running.digest(), _crc(pack.descriptor, at, end), at))
        at = end
    if at != last or len(entries) != announced:
        raise ValueError("it holds less than was announced")
    if len({oid for oid, _, _ in entries}) != announced:
        raise ValueError("it holds an object twice")
    return entries


def _inflate(descriptor: int, start: int, *, size: int, last: int, feed: Digest) -> int:
    """Feed an entry's content to a hash and return where the entry ends."""
    running = zlib.decompressobj()
    made, at, window = 0, start, b""
    while not running.eof:
        if not window:
            window = os.pread(descriptor, min(_STEP_BYTES, last - at), at)
            at += len(window)
            if not window:
                raise ValueError("it ends within an entry")
        piece = running.decompress(window, _STEP_BYTES)
        window = running.unconsumed_tail
        made += len(piece)
        if made > size:
            raise ValueError("an entry is longer than it claims")
        feed.update(piece)
    if made != size:
        raise ValueError("an entry is shorter than it claims")
    return at - len(running.unused_data)


def _crc(descriptor: int, start: int, end: int) -> int:
    crc = 0
    while start < end:
        piece = os.pread(descriptor, min(_STEP_BYTES, end - start), start)
        crc = zlib.crc32(piece, crc)
        start += len(piece) or end
    return crc
