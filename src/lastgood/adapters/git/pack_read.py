"""Reads one pack: entries by offset, deltas resolved, and nothing believed that the bytes do not prove.

A pack may be damaged or made to harm: sizes can lie, deltas can refer to each other in circles.
Whatever is wrong raises ValueError with a reason; the caller knows which object it was after.
"""

from __future__ import annotations

import os
import zlib

from lastgood.adapters.git.delta import apply_delta, result_size
from lastgood.adapters.git.idx import Index, encode_index
from lastgood.adapters.git.objects import KIND_NAMES, OFS_DELTA, OID_BYTES, REF_DELTA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lastgood.adapters.git.idx import IndexEntry

    # (kind, size before compression, offset of the delta's base or -1, offset of the compressed bytes)
    Header = tuple[int, int, int, int]

_WINDOW_BYTES = 4096
_HEADER_WINDOW = 1
_STEP_BYTES = 1 << 18
# Git itself makes chains of at most 4,095.
_DEEPEST = 4096
_CACHED_BYTES = 16 << 20
_CACHED_LARGEST = 1 << 20


class PackFile:
    """A pack and its index, opened when first needed. OSError when a file cannot be read."""

    __slots__ = ("_cache", "_cached", "_descriptor", "_index", "bases", "name", "path")

    def __init__(self, folder: bytes, name: bytes) -> None:
        self.name = name
        self.path = folder + b"/" + name
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

    def stand_in(self, entries: list[IndexEntry]) -> None:
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

    def header(self, offset: int) -> tuple[Header, bytes]:
        """Return an entry's header, and the first of its compressed bytes."""
        window = os.pread(self.descriptor, _WINDOW_BYTES, offset)
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

    def stream(self, offset: int) -> tuple[int, int, Iterator[bytes]] | None:
        """Return an object's kind, size and pieces, or None when it is a delta."""
        (kind, size, _, start), window = self.header(offset)
        if kind in {OFS_DELTA, REF_DELTA}:
            return None
        return kind, size, self._inflate(window, start=start, size=size)

    def _inflate(self, window: bytes, *, start: int, size: int) -> Iterator[bytes]:
        running = zlib.decompressobj()
        made = 0
        at = start + len(window)
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
                    window = os.pread(self.descriptor, _STEP_BYTES, at)
                    at += len(window)
                    if not window and not piece:
                        raise ValueError("the pack ends within an entry")
        except zlib.error as error:
            raise ValueError(f"an entry does not decompress ({error})") from None
        if made != size:
            raise ValueError("an entry is shorter than it claims")
        if not made:
            yield b""

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
