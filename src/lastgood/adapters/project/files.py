"""Reading files that may be hostile: links to devices, pipes, folders, far too large ones."""

from __future__ import annotations

import os
import stat

from lastgood.rules.ignore import UNREADABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.rules.ignore import Text, Unreadable

_ABSENT = (FileNotFoundError, NotADirectoryError)
_CHUNK = 1 << 20


def open_file(path: bytes, *, follow: bool = True) -> int | Unreadable | None:
    """Open a regular file for reading; None if there is none, `UNREADABLE` if it cannot be known."""
    try:
        # Asked first, because merely opening a device can have effects.
        if not stat.S_ISREG(os.stat(path, follow_symlinks=follow).st_mode):
            return UNREADABLE
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    except _ABSENT:
        return None
    except (OSError, ValueError):
        return UNREADABLE


def read_file(path: bytes, *, limit: int, follow: bool = True) -> Text:
    """Return what a file holds; None if there is none, `UNREADABLE` if it cannot be known.

    Whatever is no regular file, or larger than ``limit`` bytes, is unreadable; never waits on a pipe.
    """
    descriptor = open_file(path, follow=follow)
    if not isinstance(descriptor, int):
        return descriptor
    try:
        return read_descriptor(descriptor, limit=limit)
    finally:
        os.close(descriptor)


def read_descriptor(descriptor: int, *, limit: int) -> Text:
    """Return what an open file holds, `UNREADABLE` if it is no regular file or too large."""
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > limit:
            return UNREADABLE
        chunks = []
        size = 0
        while chunk := os.read(descriptor, max(_CHUNK, facts.st_size + 1)):
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                return UNREADABLE
    except OSError:
        return UNREADABLE
    return b"".join(chunks)


def read_known(path: bytes, *, limit: int) -> bytes | None:
    """Return what a file holds, None if that cannot be known."""
    text = read_file(path, limit=limit)
    return text if isinstance(text, bytes) else None


def kind_of(path: bytes) -> int:
    """Return the file type bits of what a path leads to, 0 if nothing."""
    try:
        return stat.S_IFMT(os.stat(path).st_mode)
    except (OSError, ValueError):
        return 0
