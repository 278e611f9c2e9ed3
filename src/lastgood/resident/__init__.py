"""The resident: the process that watches a workspace, and carries out commands for those who ask it.

Here is what it and its clients say to each other; a client loads nothing else of the house (decision 038),
and nothing that is not built in: annotations are not postponed, which would load `__future__`.
"""

import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Receiver(Protocol):
        """The end of a connection that is read from."""

        def recv(self, size: int, /) -> bytes:
            """Return at most so many bytes, none at the end."""


PROTOCOL = 4
HEAD = b"lastgood resident "
# Why it runs: somebody started it by hand, or work did, which does as well with another.
BY_HAND, ON_DEMAND = b"h", b"d"
SOCKET = "resident.sock"
LENGTH_BYTES = 8
# No request is longer.
LARGEST = 4 << 20
# What an answer begins with: nothing was done, the client has to; it was done; nobody knows how far it came.
DECLINED, DONE, BROKEN = b"d", b"a", b"b"
# Before what is said on a stream: which one, and how many bytes.
STREAM_BYTES, SIZE_BYTES = 1, 4


def build() -> bytes:
    """Return what tells one installed lastgood, with its Python, from another; OSError where nothing does."""
    package = sys.modules["lastgood"]
    seen = posix.stat(package.__path__[0])
    version: bytes = package.__version__.encode()
    return b"%s %d %d %d %d" % (version, sys.hexversion, seen.st_dev, seen.st_ino, seen.st_mtime_ns)


def greeting() -> bytes:
    """Return what a resident says first to whoever connects; why it runs follows, as one byte."""
    return b"%s%d %s\n" % (HEAD, PROTOCOL, build())


def question(words: bytes, given: bytes) -> bytes:
    """Return a request: what is asked for, and what comes on standard input."""
    return framed(len(words).to_bytes(LENGTH_BYTES, "big"), words, given)


def framed(*parts: bytes) -> bytes:
    """Return what is said at once: its length, and it."""
    content = b"".join(parts)
    return len(content).to_bytes(LENGTH_BYTES, "big") + content


def received(connection: "Receiver", length: int) -> bytes:
    """Return so many bytes; OSError if fewer come."""
    found = b""
    while len(found) < length:
        part = connection.recv(length - len(found))
        if not part:
            raise OSError(length)
        found += part
    return found
