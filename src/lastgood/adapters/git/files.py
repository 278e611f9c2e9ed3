"""The few file operations that durability rests on, with failures told as `Storage`."""

from __future__ import annotations

import errno
import fcntl
import os

from lastgood.errors import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

COPY_BYTES = 1 << 20
FILE_MODE = 0o600
DIRECTORY_MODE = 0o700

_HINTS = {
    errno.EROFS: "the store's file system is read-only: mount it writable",
    errno.EIO: "the disk reports errors: copy the store elsewhere and replace the disk",
    errno.EFBIG: "raise the limit on file sizes (`ulimit -f`)",
}


def storage(error: OSError, *, doing: str, at: bytes = b"") -> Storage:
    """Return the `Storage` that says what a system call could not do, ``at`` a place on that disk."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        from lastgood.adapters.room import no_room  # lazily: a disk is seldom full

        return no_room(error, doing=doing, place=at)
    reason = error.strerror or str(error)
    code = error.errno or 0
    return Storage(
        f"{doing} failed: {reason}",
        hint=_HINTS.get(code, "look at the store's disk and permissions, then try again"),
        details={"errno": errno.errorcode.get(code, str(code))},
    )


def write_all(descriptor: int, content: bytes | memoryview) -> None:
    """Write every byte; OSError when that cannot be."""
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def pieces(descriptor: int, *, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of a file from ``start`` to ``end``, fewer when it is shorter."""
    while start < end:
        piece = os.pread(descriptor, min(COPY_BYTES, end - start), start)
        if not piece:
            return
        yield piece
        start += len(piece)


def sync(descriptor: int) -> None:
    """Make a file's bytes durable; after a failure nothing may be believed of them."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        os.fsync(descriptor)
    else:
        fcntl.fcntl(descriptor, full)


def sync_directory(path: bytes) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def unlink_quietly(path: bytes) -> None:
    """Delete a file if that can be; what stays is found later."""
    try:
        os.unlink(path)
    except OSError:
        return
