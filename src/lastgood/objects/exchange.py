"""A small repository beside the store, for objects that leave it or are not yet let in.

Only whole objects are taken, no deltas: an export has none, and what has none cannot grow.
"""

from __future__ import annotations

import os
import zlib

from lastgood.errors import Damaged, Internal
from lastgood.files import write_whole
from lastgood.model.exchange import Bounds
from lastgood.objects import KIND_NAMES, Hasher
from lastgood.objects.pack import HEADER_BYTES, PackFile, encode_index
from lastgood.objects.read import GitReader, Packs
from lastgood.objects.repository import DIRECTORY_MODE, FILE_MODE, Layout, TemporaryFolder, storage
from lastgood.objects.scan import TRAILER_BYTES, entry_crc, pack_checksum
from lastgood.objects.write import Compressor, GitWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from lastgood.ids import Digest
    from lastgood.objects.pack import IndexEntry


# --- Reads a pack that a stranger may have made: every size bounded, every id made from the bytes ---

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
        entries.append((running.digest(), entry_crc(pack, at, end), at))
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


# --- A small repository beside the store, for objects that leave it or are not yet let in ---

_TAKEN = b"pack-taken"


class GitAnnex(GitReader):
    """Objects of one export, as one pack in a folder that goes with its owner; `Storage`."""

    __slots__ = ("_folder", "_layout")

    def __init__(self, temporary: bytes) -> None:
        try:
            self._folder = TemporaryFolder(temporary)
            self._layout = Layout(self._folder.path, temporary=temporary)
            for folder in (os.path.dirname(self._layout.packs), self._layout.packs):
                os.mkdir(folder, DIRECTORY_MODE)
        except OSError as error:
            raise storage(error, doing="making room for an export", at=temporary) from error
        super().__init__(Packs(self._layout.packs), Hasher())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stored.close()
        self._folder.discard()

    def writer(self) -> GitWriter:
        """Begin the pack; it takes in whatever it is given, also what the store has."""
        return GitWriter(self._layout, packs=self.stored, hasher=self.hasher, compressor=Compressor())

    def pack(self) -> tuple[bytes, Bounds]:
        """Return the path of the pack that was published, and what it says of itself."""
        self.stored.refresh()
        found = list(self.stored.all())
        if len(found) != 1:
            raise Internal("an export is no single pack", hint="report this")
        sizes = [found[0].header(offset)[0][1] for _, _, offset in found[0].index.entries()]
        bounds = Bounds(objects=len(sizes), largest=max(sizes, default=0), total=sum(sizes))
        return found[0].path + b".pack", bounds

    def take(self, pieces: Iterator[bytes], *, bounds: Bounds) -> None:
        """Take in the pack of an export; `Damaged` if it is not what it says."""
        stem = self._layout.packs + b"/" + _TAKEN
        try:
            _write(stem + b".pack", pieces)
            entries = entries_of(PackFile(self._layout.packs, _TAKEN), bounds=bounds, hasher=self.hasher)
            _write(stem + b".idx", iter([encode_index(entries, pack_checksum=bytes(20))]))
        except OSError as error:
            raise storage(error, doing="taking in an export", at=self._layout.temporary) from error
        self.stored.refresh()


def _write(path: bytes, pieces: Iterator[bytes]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        for piece in pieces:
            write_whole(descriptor, piece)
    finally:
        os.close(descriptor)
