"""Where goes what somebody may still be writing to: out of the workspace, into the store (rule T12b)."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count

from lastgood.directories import OPEN_DIRECTORY, remove_below
from lastgood.model.tree import DIRECTORY, LINK, same_content
from lastgood.paths import join, parent
from lastgood.renames import is_there, take
from lastgood.restore.look import discard, entry_at, open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.directories import Directories
    from lastgood.model.tree import Entry

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
        if self._folder is None:
            return None
        with _made(self._folder) as target:
            to = _free(called, target)
            if not _move(directories, path, to, target):
                return None
            with suppress(OSError):  # it is there: to say so counts more than a disk that fails
                _sync_names(self._folder, target)
            return join(self._folder, to)

    def copy(self, directories: Directories, path: bytes, *, called: bytes) -> tuple[bytes | None, bool]:
        """Copy a path into the folder and delete it; return where it is, and whether all of it could go.

        Nothing is deleted before the whole copy is on the disk. What somebody has open for writing stays:
        what they write would go to the file that is deleted.
        """
        if self._folder is None:
            return None, False
        with _made(self._folder) as target:
            to = _free(called, target)
            copy = _Copy(directories, target)
            try:
                copy.take_in(path, to)
                copy.sync()
                _sync_names(self._folder, target)
            except OSError:
                with suppress(OSError):
                    remove_below(to, target)
                raise
            gone = copy.discard_original()
            return (join(self._folder, to) if is_there(to, target) else None), gone


class _Copy:
    """A copy of a file or a directory on another disk, whose original goes when that is safe."""

    def __init__(self, directories: Directories, target: int) -> None:
        self._directories = directories
        self._target = target
        # Directories, outer ones first, with their copies.
        self._folders: list[tuple[bytes, bytes]] = []
        # Files and links, with their copies and what those hold.
        self._files: list[tuple[bytes, bytes, Entry | None]] = []
        self._whole = True

    def take_in(self, path: bytes, to: bytes) -> None:
        """Copy a path, but for what cannot be read."""
        if not self._is_directory(path):
            self._copy_file(path, to)
            return
        self._folders.append((path, to))
        for place, copy in self._folders:  # grows
            os.mkdir(copy, _PRIVATE, dir_fd=self._target)
            for name in self._directories.names(place):
                inside, inside_copy = join(place, name), join(copy, name)
                if self._is_directory(inside):
                    self._folders.append((inside, inside_copy))
                else:
                    self._copy_file(inside, inside_copy)

    def sync(self) -> None:
        """Carry the names in the copies of directories through to the disk."""
        for _, copy in self._folders:
            _sync(copy, self._target)

    def discard_original(self) -> bool:
        """Delete what was copied, and tell whether all of the original is gone.

        A copy that is not what the original holds by now, or that somebody may still be writing to, goes.
        """
        for path, copy, entry in self._files:
            try:
                if discard(_last(path), self._above(path), expected=partial(same_content, entry)) == "gone":
                    continue
                os.unlink(copy, dir_fd=self._target)
            except OSError:  # rather twice than never
                pass
            self._whole = False
        if self._whole:
            self._remove_folders()
        else:
            self._drop_empty()
        return self._whole

    def _drop_empty(self) -> None:
        """Remove the copies of directories of which nothing but directories was kept."""
        for _, copy in reversed(self._folders):
            with suppress(OSError):
                os.rmdir(copy, dir_fd=self._target)

    def _remove_folders(self) -> None:
        for place, _ in reversed(self._folders):
            self._directories.forget(place)
            try:
                os.rmdir(_last(place), dir_fd=self._above(place))
            except OSError:  # something came into it meanwhile
                self._whole = False
                return

    def _copy_file(self, path: bytes, to: bytes) -> None:
        name, directory = _last(path), self._above(path)
        entry = entry_at(name, directory)
        if entry is None:
            return
        if entry.kind == LINK:
            os.symlink(os.readlink(name, dir_fd=directory), to, dir_fd=self._target)
        elif entry.kind == DIRECTORY or not entry.oid:
            self._whole = False
            return
        else:
            _copy_bytes(name, directory, to=to, mode=entry.mode, target=self._target)
        self._files.append((path, to, entry_at(to, self._target)))

    def _is_directory(self, path: bytes) -> bool:
        found = os.stat(_last(path), dir_fd=self._above(path), follow_symlinks=False)
        return stat.S_ISDIR(found.st_mode)

    def _above(self, path: bytes) -> int:
        return self._directories.open_to_change(parent(path))


@contextmanager
def _made(folder: bytes) -> Iterator[int]:
    """Make a folder, and the one that holds it, where they are missing, and open it."""
    for one in (parent(folder), folder):
        with suppress(FileExistsError):
            os.mkdir(one, _PRIVATE)
    descriptor = os.open(folder, OPEN_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _sync_names(folder: bytes, descriptor: int) -> None:
    """Carry through to the disk the names in an open folder, its own, and that of the one that holds it."""
    os.fsync(descriptor)
    for above in (parent(folder), parent(parent(folder))):
        _sync(above, descriptor)


def _sync(path: bytes, directory: int) -> None:
    descriptor = os.open(path, OPEN_DIRECTORY, dir_fd=directory)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _free(called: bytes, target: int) -> bytes:
    return next(name for name in _names(called) if not is_there(name, target))


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
