"""What an object is to git: a kind, a size, bytes, and the SHA-1 over all three."""

from __future__ import annotations

from _sha1 import sha1 as _builtin_sha1

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Digest(Protocol):
        """A running SHA-1."""

        def update(self, piece: bytes, /) -> None:
            """Go on over more bytes."""

        def digest(self) -> bytes:
            """Return the 20 bytes over all so far."""


COMMIT = 1
TREE = 2
BLOB = 3
TAG = 4
OFS_DELTA = 6
REF_DELTA = 7

KIND_NAMES = {COMMIT: b"commit", TREE: b"tree", BLOB: b"blob", TAG: b"tag"}

OID_BYTES = 20

# The built-in SHA-1 is there at once but slow; OpenSSL's is eight times faster behind a slow import.
_SWITCH_BYTES = 1 << 20
# Above this, hashing header and content apart beats joining them first.
_JOIN_BYTES = 1 << 16


class Hasher:
    """Computes object ids; turns to OpenSSL's SHA-1 once there was much to hash."""

    __slots__ = ("_left", "_new")

    def __init__(self) -> None:
        self._new: Callable[[bytes], Digest] = _builtin_sha1
        self._left = _SWITCH_BYTES

    def begin(self, head: bytes, *, size: int) -> Digest:
        """Start a SHA-1 over ``head``; about ``size`` bytes are going to follow."""
        if self._left > 0:
            self._left -= size
            if self._left <= 0:
                self._new = _openssl_sha1()
        return self._new(head)

    def object_id(self, kind: int, content: bytes) -> bytes:
        """Return the id of an object."""
        size = len(content)
        head = b"%b %d\0" % (KIND_NAMES[kind], size)
        if size <= _JOIN_BYTES:
            return self.begin(head + content, size=size).digest()
        running = self.begin(head, size=size)
        running.update(content)
        return running.digest()


def _openssl_sha1() -> Callable[[bytes], Digest]:
    import hashlib

    def begin(head: bytes) -> Digest:
        return hashlib.sha1(head, usedforsecurity=False)

    return begin
