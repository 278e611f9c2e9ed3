"""What a path holds now, read anew and hashed as git hashes."""

from __future__ import annotations

import errno
import os
import stat
from _sha1 import sha1

from lastgood.adapters.apply.places import is_nowhere
from lastgood.errors import CROWDED
from lastgood.model.tree import DIRECTORY, FILE, LINK, Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class _Hash(Protocol):
        def update(self, content: bytes, /) -> None: ...
        def digest(self) -> bytes: ...


# From here on OpenSSL's import is paid back by its speed.
_LARGE = 1 << 20
_PIECE = 1 << 18
_TRIES = 3
_KEPT_FROM_US = frozenset({errno.EACCES, errno.EPERM})
_READ_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def entry_at(name: bytes, directory: int) -> Entry | None:
    """Return what a name in a directory holds, None if nothing.

    A directory's ``oid`` is empty, and so is that of anything whose content cannot be read as a
    whole: a socket, an unreadable file, one that will not hold still. OSError where nothing can be opened.
    """
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if is_nowhere(error):
            return None
        return Entry(name=name, kind=FILE, mode=0, oid=b"")
    if stat.S_ISDIR(found.st_mode):
        return Entry(name=name, kind=DIRECTORY, mode=stat.S_IMODE(found.st_mode), oid=b"")
    if stat.S_ISLNK(found.st_mode):
        return _link_at(name, directory)
    oid = _file_id(name, directory) if stat.S_ISREG(found.st_mode) else b""
    return Entry(name=name, kind=FILE, mode=stat.S_IMODE(found.st_mode), oid=oid)


def _link_at(name: bytes, directory: int) -> Entry:
    try:
        target = os.readlink(name, dir_fd=directory)
    except OSError:  # it became something else meanwhile: it will not hold still
        return Entry(name=name, kind=FILE, mode=0, oid=b"")
    return Entry(name=name, kind=LINK, mode=0, oid=blob_id(target))


def content_at(name: bytes, directory: int, entry: Entry) -> bytes | None:
    """Return a file's bytes, or a link's target; None unless they are those of an entry."""
    try:
        if entry.kind == LINK:
            content = os.readlink(name, dir_fd=directory)
        else:
            descriptor = open_regular(name, directory)
            with open(descriptor, "rb") as file:
                # One that grows has not the entry's bytes, however many it gets.
                content = file.read(os.fstat(descriptor).st_size + 1)
    except OSError as error:
        if error.errno in CROWDED:
            raise
        return None
    return content if blob_id(content) == entry.oid else None


def blob_id(content: bytes) -> bytes:
    """Return the id under which git would know some bytes."""
    digest = _hash(len(content))
    digest.update(content)
    return digest.digest()


def steady_id(descriptor: int) -> bytes:
    """Return the blob id of an open file, empty if it does not hold still."""
    for _ in range(_TRIES):
        oid = _whole_id(descriptor)
        if oid:
            return oid
        os.lseek(descriptor, 0, os.SEEK_SET)
    return b""


def is_unreadable(error: OSError) -> bool:
    """Tell whether an error means that a file is there, and that its owner keeps it from us."""
    return error.errno in _KEPT_FROM_US


def _file_id(name: bytes, directory: int) -> bytes:
    for _ in range(_TRIES):
        try:
            descriptor = open_regular(name, directory)
        except OSError as error:
            if error.errno in CROWDED:
                raise
            return b""
        try:
            oid = _whole_id(descriptor)
        except OSError:
            return b""
        finally:
            os.close(descriptor)
        if oid:
            return oid
    return b""


def open_regular(name: bytes, directory: int) -> int:
    """Open a regular file to read it; FileNotFoundError for anything else."""
    descriptor = os.open(name, _READ_FILE, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError
    return descriptor


def _whole_id(descriptor: int) -> bytes:
    """Return the blob id of a file, empty if it changed meanwhile."""
    before = os.fstat(descriptor)
    digest = _hash(before.st_size)
    left = before.st_size
    while left:
        piece = os.read(descriptor, min(left, _PIECE))
        if not piece:
            return b""
        digest.update(piece)
        left -= len(piece)
    after = os.fstat(descriptor)
    still = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    return digest.digest() if still else b""


def _hash(size: int) -> _Hash:
    header = b"blob %d\0" % size
    if size < _LARGE:
        digest: _Hash = sha1(header, usedforsecurity=False)
        return digest
    import hashlib

    return hashlib.sha1(header, usedforsecurity=False)
