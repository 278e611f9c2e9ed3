"""Goes through folders however deep they are, to delete them.

Two descriptors are open at once, and no path is longer than a name: no depth stops it.
"""

from __future__ import annotations

import errno
import os
import stat

from lastgood.adapters.apply.places import OPEN_DIRECTORY, change_mode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    # Does something in an open directory, and returns the directories in it to go on with.
    Enter = Callable[[int], list[bytes]]

_OWNER = 0o700


def remove_tree(path: bytes) -> int:
    """Delete a folder of ours with all that is in it, links as links, and return the bytes of its files.

    What its owner may not change is made accessible first. OSError where something cannot be deleted.
    """
    above, name = os.path.split(path)
    directory = os.open(above or b".", OPEN_DIRECTORY)
    try:
        return remove_below(name, directory)
    finally:
        os.close(directory)


def remove_below(name: bytes, directory: int) -> int:
    """Delete what a name in an open directory stands for, as `remove_tree` does."""
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=directory)
        return found.st_size
    freed = 0

    def empty(descriptor: int) -> list[bytes]:
        nonlocal freed
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if mode & _OWNER != _OWNER:
            os.fchmod(descriptor, mode | _OWNER)
        directories = _directories(descriptor)
        for one in set(_names(descriptor)).difference(directories):
            freed += os.stat(one, dir_fd=descriptor, follow_symlinks=False).st_size
            os.unlink(one, dir_fd=descriptor)
        return directories

    _walk(name, directory, enter=empty, remove=True)
    os.rmdir(name, dir_fd=directory)
    return freed


def holds(wanted: bytes, name: bytes, directory: int) -> bool:
    """Tell whether a directory holds a name, at whatever depth; False for what is no directory."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        return False
    found = False

    def look(descriptor: int) -> list[bytes]:
        nonlocal found
        found = found or wanted in _names(descriptor)
        return [] if found else _directories(descriptor)

    _walk(name, directory, enter=look, remove=False)
    return found


def _walk(name: bytes, directory: int, *, enter: Enter, remove: bool) -> None:
    """Enter a directory and those below it; with ``remove`` each of these is deleted when it is left.

    OSError EXDEV where another file system begins, ESTALE where a directory was moved away meanwhile.
    """
    descriptor = _open(name, directory)
    try:
        # By directory on the way: those in it that have not been left, and how to know it again.
        way = [(enter(descriptor), _identity(descriptor))]
        while True:
            inside, identity = way[-1]
            if inside:
                below = _open(inside[-1], descriptor)
                os.close(descriptor)
                descriptor = below
                if _identity(descriptor)[0] != identity[0]:
                    raise OSError(errno.EXDEV, "another file system is mounted in it")
                way.append((enter(descriptor), _identity(descriptor)))
                continue
            way.pop()
            if not way:
                return
            above = os.open(b"..", OPEN_DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = above
            inside, identity = way[-1]
            if _identity(descriptor) != identity:
                raise OSError(errno.ESTALE, "a directory in it was moved meanwhile")
            left = inside.pop()
            if remove:
                os.rmdir(left, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def _names(descriptor: int) -> list[bytes]:
    return [os.fsencode(name) for name in os.listdir(descriptor)]


def _directories(descriptor: int) -> list[bytes]:
    with os.scandir(descriptor) as entries:
        return [os.fsencode(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)]


def _open(name: bytes, directory: int) -> int:
    try:
        return os.open(name, OPEN_DIRECTORY, dir_fd=directory)
    except PermissionError:
        change_mode(name, directory, lambda mode: mode | _OWNER, only=os.O_DIRECTORY)
        return os.open(name, OPEN_DIRECTORY, dir_fd=directory)


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
