"""The form of a backup on the disk: a database compressed whole, as gzip does it (RFC 1952)."""

from __future__ import annotations

import os
import zlib

from lastgood.adapters.files import PRIVATE_FILE, write_private, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIX = ".gz"
_GZIP = 31
_LEVEL = 6
_PIECE_BYTES = 1 << 20


def pack(source: str, target: str) -> None:
    """Write a file compressed, private and durable; read again, it is proven by its checksum.

    Raises OSError, and ValueError when what is read is not what was written.
    """
    write_private(os.fsencode(target), b"")
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    descriptor = os.open(target, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        for piece in _read(source):
            write_whole(descriptor, deflate.compress(piece))
        write_whole(descriptor, deflate.flush())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    for _ in contents(target):
        pass


def unpack(source: str, target: str) -> None:
    """Write what a backup holds, compressed or not, into a private file; OSError, ValueError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(target, flags, PRIVATE_FILE)
    try:
        os.fchmod(descriptor, PRIVATE_FILE)
        for piece in contents(source):
            write_whole(descriptor, piece)
    finally:
        os.close(descriptor)


def contents(path: str) -> Iterator[bytes]:
    """Yield what a backup holds, compressed or not; ValueError when it is not whole."""
    if not path.endswith(SUFFIX):
        yield from _read(path)
        return
    inflate = zlib.decompressobj(_GZIP)
    pieces = _read(path)
    try:
        while not inflate.eof:
            packed = inflate.unconsumed_tail or next(pieces, b"")
            if not packed:
                raise ValueError("it ends too early")
            yield inflate.decompress(packed, _PIECE_BYTES)
        if inflate.unused_data or next(pieces, b""):
            raise ValueError("something follows its end")
    except zlib.error as error:
        raise ValueError(f"it does not decompress ({error})") from None


def _read(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece
