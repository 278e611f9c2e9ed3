"""What the kernel tells of directories that are watched: inotify(7), of which Python has no binding.

By ctypes, loaded only by who watches. Names come as bytes, and an overflow of the queue is told.
"""

from __future__ import annotations

import ctypes
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    # The watch of a directory, what happened in it, and to which names of files, or of one directory: none
    # where it is about itself.
    Event = tuple[int, int, Collection[bytes]]

MODIFY = 0x2
ATTRIBUTES = 0x4
CLOSED_WRITTEN = 0x8
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATED = 0x100
DELETED = 0x200
DELETED_SELF = 0x400
MOVED_SELF = 0x800
OVERFLOWED = 0x4000
ONLY_DIRECTORIES = 0x1000000
OF_DIRECTORY = 0x40000000

_CLOSE_ON_EXEC = os.O_CLOEXEC
_NON_BLOCKING = os.O_NONBLOCK
# Watch, events, cookie, length of the name.
_HEAD = struct.Struct("iIII")
_READ_BYTES = 1 << 16


class Inotify:
    """One queue of events; OSError where there is none, or no more."""

    descriptor: int = -1

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self.descriptor = self._said(self._library.inotify_init1(_CLOSE_ON_EXEC | _NON_BLOCKING))

    def add(self, descriptor: int, mask: int) -> int:
        """Watch what is open, whatever its name is by now, and return the watch's number; OSError."""
        path = b"/proc/self/fd/%d" % descriptor
        return self._said(self._library.inotify_add_watch(self.descriptor, path, ctypes.c_uint32(mask)))

    def remove(self, watch: int) -> None:
        """End a watch; one that has ended already is none of our business."""
        self._library.inotify_rm_watch(self.descriptor, watch)

    def read(self) -> Iterator[Event]:
        """Return what happened so far; waits for nothing.

        What happened to directories is told in its order. What happened to files is told once for each
        directory that they are in, whatever it was: of one that is replaced there are ten events.
        """
        unpack, size = _HEAD.unpack_from, _HEAD.size
        files: dict[int, set[bytes]] = {}
        while True:
            try:
                pending = os.read(self.descriptor, _READ_BYTES)
            except BlockingIOError:
                break
            start, end = 0, len(pending)
            while start < end:
                watch, mask, _, length = unpack(pending, start)
                at = start + size
                start = at + length
                if mask & (OF_DIRECTORY | OVERFLOWED):
                    yield watch, mask, _names(pending[at:start])
                elif watch in files:
                    files[watch].add(pending[at:start])
                else:
                    files[watch] = {pending[at:start]}
        for watch, names in files.items():
            yield watch, 0, () if b"" in names else {name.rstrip(b"\0") for name in names}

    def close(self) -> None:
        """End all watches; harmless when repeated."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()

    def _said(self, answer: int) -> int:
        if answer < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return answer


def _names(padded: bytes) -> Collection[bytes]:
    return (padded.rstrip(b"\0"),) if padded else ()
