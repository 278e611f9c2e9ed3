"""Opens what lies in a workspace without following links, below or above."""

from __future__ import annotations

import errno
import os

from lastgood.adapters.scan.form import UNREADABLE, UNSTABLE
from lastgood.errors import NotFound, Unsafe, crowded
from lastgood.names import printable, to_text

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_ATIME: int = getattr(os, "O_NOATIME", 0)

# The path led somewhere, and now it does not: the entry is gone.
GONE = frozenset({errno.ENOENT, errno.ESTALE})
# Something else has taken the entry's place.
_REPLACED = frozenset({errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.ENXIO, errno.EISDIR})


def open_root(root: bytes) -> int:
    """Open a workspace; `NotFound` if it is gone, `Unsafe` if it cannot be read as a directory."""
    shown = printable(to_text(root))
    try:
        return os.open(root, DIRECTORY_FLAGS)
    except FileNotFoundError as error:
        raise NotFound(
            f"the workspace {shown} does not exist (any more)",
            hint="if it was moved: lastgood workspace attach",
        ) from error
    except OSError as error:
        raise crowded(error) or Unsafe(
            f"the workspace {shown} cannot be read as a directory: {error.strerror}",
            hint="look at what lies there, and at its permissions",
        ) from error


def descend(root: int, path: bytes) -> int:
    """Open a directory of a workspace from its top, name by name; OSError if the way is barred."""
    descriptor = os.open(b".", DIRECTORY_FLAGS, dir_fd=root)
    for name in path.split(b"/") if path else ():
        above = descriptor
        try:
            descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=above)
        finally:
            os.close(above)
    return descriptor


def names_in(root: bytes, path: bytes) -> list[bytes]:
    """Return the names in a directory of a workspace; OSError if the way is barred."""
    top = os.open(root, DIRECTORY_FLAGS)
    try:
        descriptor = descend(top, path)
    finally:
        os.close(top)
    try:
        return [os.fsencode(name) for name in os.listdir(descriptor)]
    finally:
        os.close(descriptor)


def open_file(name: bytes, *, directory: int) -> int:
    """Open a file for reading without leaving a trace of it; never waits for a FIFO's other end."""
    try:
        return os.open(name, _FILE_FLAGS | _NO_ATIME, dir_fd=directory)
    except PermissionError:  # another user's file: only its owner may spare the access time
        return os.open(name, _FILE_FLAGS, dir_fd=directory)


def state_of(error: OSError) -> int | None:
    """Return the state of an entry that could not be opened or read; None if it is gone.

    Raises `Busy` where nothing can be opened: that is no gap, it says nothing of the entry.
    """
    busy = crowded(error)
    if busy is not None:
        raise busy from error
    if error.errno in GONE:
        return None
    return UNSTABLE if error.errno in _REPLACED else UNREADABLE
