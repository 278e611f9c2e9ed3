"""A pack in the making (version 2, gitformat-pack(5)): in memory while small, in a locked file beyond."""

from __future__ import annotations

import os
from _struct import pack

from lastgood.adapters.git.files import pieces, write_all
from lastgood.adapters.git.idx import checksum
from lastgood.adapters.git.temporary import HANDED_SUFFIX, TemporaryFile, fresh_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastgood.adapters.git.idx import IndexEntry

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


class Draft:
    """The entries of a pack so far. Its methods raise OSError.

    Of one that is not ``kept``, because it is never published, the bytes are dropped and no file is made.
    """

    __slots__ = ("_buffer", "_buffered", "_file", "_folder", "entries", "kept", "size")

    def __init__(self, folder: bytes, *, kept: bool = True) -> None:
        self._folder = folder
        self.kept = kept
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._file: TemporaryFile | None = None
        self.entries: list[IndexEntry] = []
        self.size = HEADER_BYTES

    def append(self, made: Sequence[tuple[bytes, int, bytes]]) -> None:
        """Add entries: id, CRC-32 and bytes of each."""
        for oid, crc, raw in made:
            self.entries.append((oid, crc, self.size))
            self._buffer.append(raw)
            self.size += len(raw)
            self._buffered += len(raw)
        if self._buffered > _MEMORY_BYTES:
            self.flush()

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
        content = b"".join(self._buffer)
        self._buffer.clear()
        self._buffered = 0
        write_all(self._file.descriptor, content)

    def finish(self) -> tuple[TemporaryFile, bytes]:
        """Complete the pack, and return its file (not yet synced) and its checksum."""
        header = b"PACK" + pack(">II", 2, len(self.entries))
        if self._file is None:
            content = header + b"".join(self._buffer)
            trailer = checksum(content)
            self._file = TemporaryFile.create(self._folder, PACK_SUFFIX)
            write_all(self._file.descriptor, content + trailer)
            return self._file, trailer
        import hashlib

        self.flush()
        descriptor = self._file.descriptor
        os.pwrite(descriptor, header, 0)
        running = hashlib.sha1(usedforsecurity=False)
        for piece in pieces(descriptor, start=0, end=self.size):
            running.update(piece)
        write_all(descriptor, running.digest())
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
    def resume(cls, folder: bytes, detached: Mapping[str, object]) -> Draft:
        """Go on with what `detach` returned."""
        draft = cls(folder, kept=bool(detached.get("kept", True)))
        path, memory, size, entries = (detached[key] for key in ("path", "memory", "size", "entries"))
        assert isinstance(path, bytes)
        assert isinstance(memory, bytes)
        assert isinstance(size, int)
        assert isinstance(entries, list)
        if path:
            draft._file = TemporaryFile.take_over(path)
            draft._file.rename(fresh_path(folder, PACK_SUFFIX))
            os.lseek(draft._file.descriptor, 0, os.SEEK_END)
        elif memory:
            draft._buffer.append(memory)
            draft._buffered = len(memory)
        draft.size = size
        draft.entries = list(entries)
        return draft
