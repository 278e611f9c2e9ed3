"""What the commands of a run wrote, kept on disk: of each attempt the beginning and the end.

Full disks and failing ones are told, never raised: what a task wrote is worth less than its work.
"""

from __future__ import annotations

import os

from lastgood.catalogue import Query
from lastgood.files import PRIVATE_FILE, make_directories, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from lastgood.context import Context


# As much is kept of the beginning, and as much of the end.
KEPT_BYTES = 1 << 20
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
_NAME_BYTES = 180
_DIGEST_HEX = 16
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW


class Output:
    """The output of one attempt, in a file of mode 0600; one of the same number is replaced.

    The folder of the run is made when there is something to keep. While it grows, the file holds up to
    twice what is kept of the end. ``fault`` says why not all of it could be written, None if it could.
    """

    def __init__(self, folder: bytes, *, task: str, attempt: int) -> None:
        self.path: bytes = os.path.join(folder, b"%s.%d.log" % (safe_name(task), attempt))
        self.fault: str | None = None
        self._missing = 0
        self._beginning = 0
        self._end = 0
        self._descriptor: int | None = None
        try:
            make_directories(folder)
            self._descriptor = os.open(self.path, _FLAGS, PRIVATE_FILE)
        except OSError as error:
            self.fault = str(error.strerror)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def write(self, part: bytes) -> None:
        """Add what was written; never raises."""
        if self._descriptor is None or self.fault is not None:
            return
        try:
            self._write(self._descriptor, part)
        except OSError as error:
            self.fault = str(error.strerror)

    def close(self) -> None:
        """Cut the middle out, and carry the rest through to the disk; never raises."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            if self._end > KEPT_BYTES and self.fault is None:
                self._cut(descriptor)
            os.fsync(descriptor)
        except OSError as error:
            self.fault = self.fault or str(error.strerror)
        finally:
            os.close(descriptor)

    def _write(self, descriptor: int, part: bytes) -> None:
        room = KEPT_BYTES - self._beginning
        if room:
            write_whole(descriptor, part[:room])
            self._beginning += len(part[:room])
        rest = part[room:]
        if rest:
            write_whole(descriptor, rest)
            self._end += len(rest)
        if self._end > 2 * KEPT_BYTES:
            self._cut(descriptor)

    def _cut(self, descriptor: int) -> None:
        """Leave only the end of what follows the beginning, and say how much is missing."""
        size = os.fstat(descriptor).st_size
        kept = os.pread(descriptor, KEPT_BYTES, size - KEPT_BYTES)
        self._missing += self._end - len(kept)
        os.lseek(descriptor, self._beginning, os.SEEK_SET)
        write_whole(descriptor, b"\n[%d bytes are left out here]\n" % self._missing + kept)
        os.ftruncate(descriptor, os.lseek(descriptor, 0, os.SEEK_CUR))
        self._end = len(kept)


def safe_name(task: str) -> bytes:
    """Return a file name for a task: no two tasks have the same, and no name leads elsewhere."""
    plain = task.encode("utf-8", "surrogatepass")
    whole = b"".join(bytes([byte]) if byte in _PLAIN else b"%%%02X" % byte for byte in plain)
    if len(whole) <= _NAME_BYTES:
        return whole
    from hashlib import sha256

    digest = sha256(plain).hexdigest()[:_DIGEST_HEX].encode()
    return whole[: _NAME_BYTES - _DIGEST_HEX - 1] + b"~" + digest


# --- Where the outputs of runs are kept, and when they go ---

# The folder, beside a workspace's scan cache, in which runs keep what their tasks wrote.
RUNS = b"runs"


def outputs_of(store: bytes, key: str, session: str) -> bytes:
    """Return the folder in which a run keeps what its tasks wrote."""
    return os.path.join(store, b"workspaces", key.encode(), RUNS, session.encode())


def clear_outputs(context: Context) -> int:
    """Remove the outputs of sessions that have ended and have no checkpoint left; say of how many."""
    gone = 0
    for session, folder in _folders(context.store):
        found = context.work.session(session)
        if found is not None and found.state != "ended":
            continue
        if not context.catalogue.find(Query(session=session, deleted=True, limit=1)):
            gone += _remove(folder)
    return gone


def _folders(store: bytes) -> Iterator[tuple[str, bytes]]:
    place = os.path.join(store, b"workspaces")
    for key in _names(place):
        runs = os.path.join(place, key, RUNS)
        yield from ((os.fsdecode(name), os.path.join(runs, name)) for name in _names(runs))


def _names(folder: bytes) -> list[bytes]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _remove(folder: bytes) -> bool:
    """Remove a folder of outputs; tell whether it is gone."""
    try:
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
    except OSError:
        return False  # the next maintenance tries again
    return True
