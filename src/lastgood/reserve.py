"""A reserve of room in the store, for the day on which its disk is full (decision 024).

To free bytes takes some first: a database's log, the files of a new pack. So a store keeps a few files
that hold nothing, and gives them up to whoever comes to free room or to finish a restore.
"""

from __future__ import annotations

import os

from lastgood.disk import LEAST_BYTES, free, shortage
from lastgood.errors import Storage
from lastgood.files import (
    PRIVATE_DIRECTORY,
    PRIVATE_FILE,
    RESERVE,
    sync_directory,
    unlink_quietly,
    write_whole,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Several files: each is room for another where there are no inodes left. The first is made last.
_NAMES = tuple(b"%02d" % number for number in range(16))
_PAGE = 4096
# renameat2(2): AT_FDCWD, RENAME_NOREPLACE.
_HERE = -100
_NO_REPLACE = 1
# A part of what is free, in bytes: enough for the log of a large change and to write a small pack anew,
# and too little to be missed.
_SHARE = 8
_MOST = 4 << 20


class StoreReserve:
    """The reserve of one store; ``collect`` deletes what killed processes left in it."""

    __slots__ = ("_collect", "_folder", "_store")

    def __init__(self, store: bytes, *, collect: Callable[[], object]) -> None:
        self._store = store
        self._collect = collect
        self._folder = store + os.path.dirname(RESERVE)

    def lay_in(self, *, again: int = 0) -> None:
        """Make the reserve where there is plenty of room and it is not whole; failing to harms nothing.

        ``again`` is what was given up of it: that much need not leave plenty.
        """
        if os.path.lexists(self._store + RESERVE):
            return
        bytes_free, files_free = free(self._store)
        size = min(_MOST, max(bytes_free // _SHARE, min(again, bytes_free // 2)))
        if size < LEAST_BYTES or files_free < len(_NAMES) * (2 if again else _SHARE):
            return
        each = size // len(_NAMES) // _PAGE * _PAGE
        try:
            os.makedirs(self._folder, PRIVATE_DIRECTORY, exist_ok=True)
            for name in reversed(_NAMES):
                _fill(self._folder + b"/" + name, each)
        except OSError:
            self._give_up()

    def make_room(self) -> int:
        """See that there is some room, and return how many bytes of the reserve were given up for it.

        What killed processes left goes first, then the reserve, then the caches of scans, which can be
        made again (rule K6). If all that is not enough, whoever needs room says so.
        """
        if not os.path.isdir(self._store) or not self._is_short():
            return 0
        try:  # noqa: SIM105 - contextlib costs start-up time
            self._collect()
        except Storage:
            pass
        given = 0
        if self._is_short():
            given = self._size()
            self._give_up()
        if self._is_short():
            self._drop_caches()
        return given

    def _is_short(self) -> bool:
        return shortage(self._store, size=max(LEAST_BYTES, self._size())) is not None

    def _size(self) -> int:
        try:
            return sum(entry.stat().st_size for entry in os.scandir(self._folder))
        except OSError:
            return 0

    def _give_up(self) -> None:
        for name in _NAMES:
            unlink_quietly(self._folder + b"/" + name)
        _settle(self._folder)

    def _drop_caches(self) -> None:
        workspaces = self._store + b"/workspaces"
        for key in _listed(workspaces):
            folder = workspaces + b"/" + key
            for name in _listed(folder):
                if name.startswith(b"scan.") and name != b"scan.lock":
                    unlink_quietly(folder + b"/" + name)
        _settle(workspaces)


def take_spare(store: bytes, path: bytes) -> bool:
    """Make an empty file out of one of the reserve, for what no inode is left; False if there is none."""
    folder = store + os.path.dirname(RESERVE)
    # A new link would be counted like another file on some file systems; a plain rename might take
    # the place of a lock that somebody holds.
    if any(_rename_new(folder + b"/" + name, path) for name in _NAMES):
        _empty(path)
    return os.path.lexists(path)


def _rename_new(path: bytes, to: bytes) -> bool:
    """Give a file another name that nothing has; False if that cannot be."""
    from ctypes import CDLL, c_char_p, c_int, c_uint

    rename = getattr(CDLL(None), "renameat2", None)
    if rename is None:
        return False
    rename.argtypes = (c_int, c_char_p, c_int, c_char_p, c_uint)
    return bool(rename(_HERE, path, _HERE, to, _NO_REPLACE) == 0)


def _empty(path: bytes) -> None:
    try:
        os.truncate(path, 0)
    except OSError:
        return  # its room is not missed


def _fill(path: bytes, size: int) -> None:
    # It may be there already, of a process that was killed over it.
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, PRIVATE_FILE)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            write_whole(descriptor, bytes(size))
    finally:
        os.close(descriptor)


def _listed(folder: bytes) -> list[bytes]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _settle(folder: bytes) -> None:
    """Have a file system that gives room back with its next commit make one."""
    try:
        sync_directory(folder)
    except OSError:
        return
