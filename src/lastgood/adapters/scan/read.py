"""Reads files as one whole version each (rule S8)."""

from __future__ import annotations

import os
from _blake2 import blake2b

from lastgood.adapters.scan.form import (
    CAPTURED,
    FORMAT_FILE,
    FORMAT_LINK,
    FORMAT_MASK,
    RACY,
    TOO_LARGE,
    UNSTABLE,
    evidence,
)
from lastgood.adapters.scan.opening import open_file, state_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from lastgood.adapters.scan.form import Evidence
    from lastgood.ports.engine import ObjectWriter
    from lastgood.ports.host import Clock

TRIES = 3
# A change within this time of a reading may have left the very same stat data behind (nanoseconds):
# ticks of the kernel's clock are up to 10 ms, and some file systems count whole or even seconds only.
FINE_WINDOW = 50_000_000
COARSE_WINDOW = 2_000_000_000
SECOND = 1_000_000_000

# Larger files than this are never held in memory.
WHOLE_BYTES: Final = 32 << 20
_PIECE_BYTES = 1 << 20


class Reading:
    """What came of reading one entry.

    ``stat`` is None if the entry is gone. ``content`` is None for a large file, and for what could
    not be read; ``mark`` is a digest of the bytes, b"" unless they have to be compared later.
    """

    __slots__ = ("content", "mark", "stat", "state")

    def __init__(
        self, state: int, stat: Evidence | None, *, content: bytes | None = None, mark: bytes = b""
    ) -> None:
        self.state = state
        self.stat = stat
        self.content = content
        self.mark = mark


def is_racy(stat: Evidence, now: int) -> bool:
    """Tell whether a file read at a time could have changed since without a trace in its stat data."""
    newest = max(stat[2], stat[3])
    return newest > now - (FINE_WINDOW if newest % SECOND else COARSE_WINDOW)


class FileReader:
    """Reads entries of open directories and hands their bytes to the writer."""

    def __init__(self, writer: ObjectWriter, *, clock: Clock, cap: int) -> None:
        self._writer = writer
        self._clock = clock
        self._cap = cap

    def read(self, name: bytes, stat: Evidence, *, directory: int, forced: bool = False) -> Reading:
        """Read a file or link; ``stat`` is what was known of it before. Never raises for the entry."""
        if stat[0] & FORMAT_MASK == FORMAT_LINK:
            return self._link(name, stat, directory=directory)
        reading = Reading(UNSTABLE, stat)
        for _ in range(TRIES):
            try:
                reading = self._attempt(name, stat, directory=directory, forced=forced)
            except OSError as error:
                state = state_of(error)
                return Reading(UNSTABLE, None) if state is None else Reading(state, stat)
            if reading.state != UNSTABLE:
                break
        return reading

    def store(self, reading: Reading, name: bytes, *, directory: int) -> bytes | None:
        """Add what was read to the writer and return its id; None if it is another content by now."""
        if reading.content is not None:
            return self._writer.blob(reading.content)
        assert reading.stat is not None
        try:
            descriptor = open_file(name, directory=directory)
        except OSError as error:
            state_of(error)
            return None
        try:
            oid = self._writer.blob_from(descriptor, reading.stat[1])
            after = evidence(os.fstat(descriptor))
        except EOFError:
            return None
        finally:
            os.close(descriptor)
        return oid if after == reading.stat else None

    def _link(self, name: bytes, stat: Evidence, *, directory: int) -> Reading:
        now = self._clock.now()
        try:
            target = os.readlink(name, dir_fd=directory)
            after = evidence(os.stat(name, dir_fd=directory, follow_symlinks=False))
        except OSError as error:
            state = state_of(error)
            if state is None:
                return Reading(UNSTABLE, None)
            # readlink says EINVAL of what is no link any more
            return Reading(UNSTABLE, stat)
        if after != stat and after[0] & FORMAT_MASK != FORMAT_LINK:
            return Reading(UNSTABLE, stat)
        return Reading(RACY if is_racy(after, now) else CAPTURED, after, content=target, mark=_mark(target))

    def _attempt(self, name: bytes, stat: Evidence, *, directory: int, forced: bool) -> Reading:
        now = self._clock.now()
        descriptor = open_file(name, directory=directory)
        try:
            before = evidence(os.fstat(descriptor))
            if before[0] & FORMAT_MASK != FORMAT_FILE:
                return Reading(UNSTABLE, stat)
            size = before[1]
            if size > self._cap and not forced:
                return Reading(TOO_LARGE, before)
            if size > WHOLE_BYTES:
                content, mark = None, _digest(descriptor, size)
            else:
                content, mark = _whole(descriptor, size), b""
            after = evidence(os.fstat(descriptor))
        finally:
            os.close(descriptor)
        if (
            after != before
            or (content is None and not mark)
            or (content is not None and len(content) != size)
        ):
            return Reading(UNSTABLE, before)
        if not is_racy(before, now):
            return Reading(CAPTURED, before, content=content, mark=mark)
        return Reading(RACY, before, content=content, mark=mark or _mark(content or b""))


def mark_of(reading: Reading) -> bytes:
    """Return the digest of what was read."""
    return reading.mark or _mark(reading.content or b"")


def _mark(content: bytes) -> bytes:
    return blake2b(content, digest_size=32).digest()


def _whole(descriptor: int, size: int) -> bytes:
    """Read as many bytes as a file should have (that it grew, stat will say)."""
    content = os.read(descriptor, size)
    if len(content) == size:
        return content
    pieces = [content]
    left = size - len(content)
    while left > 0 and content:
        content = os.read(descriptor, left)
        pieces.append(content)
        left -= len(content)
    return b"".join(pieces)


def _digest(descriptor: int, size: int) -> bytes:
    """Return the digest of a large file, b"" if it has another size than it said."""
    running = blake2b(digest_size=32)
    while piece := os.read(descriptor, _PIECE_BYTES):
        running.update(piece)
        size -= len(piece)
    return running.digest() if size == 0 else b""
