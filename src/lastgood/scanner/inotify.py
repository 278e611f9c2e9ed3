"""What the kernel tells of directories that are watched: inotify(7), of which Python has no binding.

By ctypes, loaded only by who watches. Names come as bytes, and an overflow of the queue is told.
"""

from __future__ import annotations

import ctypes
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    # The watch of a directory, what happened in it, and to which name: empty where it is about itself.
    Event = tuple[int, int, bytes]

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
        """Return what happened so far, in its order; waits for nothing.

        What happened to files is told once for each directory, whatever it was, without a name: of one that
        is replaced there are ten events.
        """
        unpack, size = _HEAD.unpack_from, _HEAD.size
        told: set[int] = set()
        while True:
            try:
                pending = os.read(self.descriptor, _READ_BYTES)
            except BlockingIOError:
                return
            start, end = 0, len(pending)
            while start < end:
                watch, mask, _, length = unpack(pending, start)
                start += size + length
                if mask & OF_DIRECTORY:
                    yield watch, mask, pending[start - length : start].rstrip(b"\0")
                elif watch not in told:
                    told.add(watch)
                    yield watch, mask, b""

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
