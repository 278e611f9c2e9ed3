"""Where goes what somebody may still be writing to: out of the workspace, into the store (rule T12b)."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from itertools import count

from lastgood.adapters.apply.discarding import discard
from lastgood.adapters.apply.places import OPEN_DIRECTORY
from lastgood.adapters.apply.reading import entry_at, open_regular
from lastgood.adapters.apply.renaming import is_there, take
from lastgood.model.tree import DIRECTORY, LINK
from lastgood.names import join, parent
from lastgood.rules.evidence import alike

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lastgood.adapters.apply.places import Directories

    # Brings a path to a name in an open directory, and tells whether all of it is gone from where it was.
    Way = Callable[[Directories, bytes, bytes, int], bool]

_PRIVATE = 0o700
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 20
# So much of a name is kept where a number has to be added.
_LONGEST = 200


class Kept:
    """The folder for what one operation keeps, made when it is first needed; None where there is none."""

    def __init__(self, folder: bytes | None, *, token: str) -> None:
        self._folder = None if folder is None else join(folder, token.encode())

    def move(self, directories: Directories, path: bytes, *, called: bytes) -> bytes | None:
        """Move a path into the folder, and return where it is; None if that lies on another disk.

        Whoever has it open goes on writing to the very same file.
        """
        where, gone = self._place(directories, path, called=called, by=_move)
        return where if gone else None

    def copy(self, directories: Directories, path: bytes, *, called: bytes) -> tuple[bytes | None, bool]:
        """Copy a path into the folder and delete it; return where it is, and whether all of it could go.

        What somebody has open for writing stays: what they write would go to the file that is deleted.
        """
        return self._place(directories, path, called=called, by=_copy)

    def _place(
        self, directories: Directories, path: bytes, *, called: bytes, by: Way
    ) -> tuple[bytes | None, bool]:
        if self._folder is None:
            return None, False
        for folder in (parent(self._folder), self._folder):
            with suppress(FileExistsError):
                os.mkdir(folder, _PRIVATE)
        target = os.open(self._folder, OPEN_DIRECTORY)
        try:
            for to in _names(called):
                if not is_there(to, target):
                    gone = by(directories, path, to, target)
                    with suppress(OSError):  # it is there: to say so counts more than a disk that fails
                        os.fsync(target)
                    return (join(self._folder, to) if is_there(to, target) else None), gone
        finally:
            os.close(target)
        return None, False


def _names(called: bytes) -> Iterator[bytes]:
    yield called
    for number in count(2):
        yield b"%b.%d" % (called[:_LONGEST], number)


def _move(directories: Directories, path: bytes, to: bytes, target: int) -> bool:
    directories.forget(path)
    directory = directories.open_to_change(parent(path))
    try:
        take(_last(path), directory, to=to, target=target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return False
    return True


def _copy(directories: Directories, path: bytes, to: bytes, target: int) -> bool:
    name, directory = _last(path), directories.open_to_change(parent(path))
    if not stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        return _copy_file(name, directory, to=to, target=target)
    order, whole = [(path, to)], True
    for place, copy in order:  # grows
        os.mkdir(copy, _PRIVATE, dir_fd=target)
        for inside in directories.names(place):
            directory = directories.open_to_change(place)
            if stat.S_ISDIR(os.stat(inside, dir_fd=directory, follow_symlinks=False).st_mode):
                order.append((join(place, inside), join(copy, inside)))
            elif not _copy_file(inside, directory, to=join(copy, inside), target=target):
                whole = False
    for place, _ in reversed(order if whole else ()):
        directories.forget(place)
        os.rmdir(_last(place), dir_fd=directories.open_to_change(parent(place)))
    return whole


def _copy_file(name: bytes, directory: int, *, to: bytes, target: int) -> bool:
    entry = entry_at(name, directory)
    if entry is None:
        return True
    if entry.kind == LINK:
        os.symlink(os.readlink(name, dir_fd=directory), to, dir_fd=target)
    elif entry.kind == DIRECTORY or not entry.oid:
        return False
    else:
        _copy_bytes(name, directory, to=to, mode=entry.mode, target=target)
    copied = entry_at(to, target)
    if discard(name, directory, expected=lambda found: alike(found, copied)) == "gone":
        return True
    os.unlink(to, dir_fd=target)
    return False


def _copy_bytes(name: bytes, directory: int, *, to: bytes, mode: int, target: int) -> None:
    source = open_regular(name, directory)
    try:
        descriptor = os.open(to, _CREATE, mode, dir_fd=target)
        try:
            while piece := os.read(source, _PIECE):
                rest = memoryview(piece)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    finally:
        os.close(source)


def _last(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]
