"""Locks by ``flock``: held open by their owner, and gone with it however it ends (rule S16)."""

from __future__ import annotations

import errno
import fcntl
import os
import time

from lastgood.adapters.files import PRIVATE_FILE, make_directories, write_whole
from lastgood.adapters.stopping import pause
from lastgood.errors import Busy, Storage
from lastgood.names import printable, to_text
from lastgood.ports.host import ExclusiveHold, SharedHold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

_LEAST_SLEEP = 0.001
_MOST_SLEEP = 0.05
# How long those who share let one who wants the lock alone go first. Not for ever: a holder that
# asks again, for a nested piece of work, would otherwise wait for one who waits for it.
_COURTESY = 1.0
_TAKEN = {errno.EAGAIN, errno.EACCES}
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


class FlockLocks:
    """The locks of one store. ``command`` is what a waiting process is told about a holder."""

    def __init__(self, store: bytes, *, command: str = "lastgood") -> None:
        self._store = store
        self._command = command

    def share_workspace(self, key: str, *, wait: float) -> SharedLock:
        """Keep restores out while saving."""
        return SharedLock(self._workspace(key), what="this workspace", wait=wait)

    def hold_workspace(self, key: str, *, wait: float) -> ExclusiveLock:
        """Keep saves and other restores out while restoring."""
        return ExclusiveLock(self._workspace(key), what="this workspace", wait=wait, command=self._command)

    def share_store(self, *, wait: float) -> SharedLock:
        """Keep sweeps out while reading or saving."""
        return SharedLock(self._file(b"store.lock"), what="the store", wait=wait)

    def hold_store(self, *, wait: float) -> ExclusiveLock:
        """Keep everyone out while bytes are freed."""
        return ExclusiveLock(self._file(b"store.lock"), what="the store", wait=wait, command=self._command)

    def recovery(self, key: str, *, wait: float) -> ExclusiveLock:
        """Let one process at a time settle what became of a workspace's runs."""
        path = self._workspace(key) + b".recovery"
        return ExclusiveLock(path, what="the recovery of this workspace", wait=wait, command=self._command)

    def running(self, key: str, *, wait: float) -> ExclusiveLock:
        """Let one runner at a time carry out a plan in a workspace."""
        path = self._workspace(key) + b".run"
        return ExclusiveLock(path, what="the run of a plan", wait=wait, command=self._command)

    def maintenance(self, *, wait: float) -> ExclusiveLock:
        """Let one process at a time consolidate, back up and tag."""
        return ExclusiveLock(
            self._file(b"maintenance.lock"), what="maintenance", wait=wait, command=self._command
        )

    def _file(self, name: bytes) -> bytes:
        return b"/".join((self._store, b"locks", name))

    def _workspace(self, key: str) -> bytes:
        return b"/".join((self._store, b"workspaces", key.encode("ascii"), b"lock"))


class _Lock:
    """An open lock file. `flock` belongs to the open file: two threads exclude each other too."""

    def __init__(self, path: bytes, *, what: str, wait: float) -> None:
        self._path = path
        self._what = what
        self._wait = wait
        self._descriptor = -1

    def acquire(self, mode: int, *, wait: float) -> None:
        """Take the lock, looking again and again until ``wait`` seconds are over."""
        deadline = time.monotonic() + wait
        sleep = _LEAST_SLEEP
        while not self._try(mode):
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._busy()
            pause(min(sleep, left))
            sleep = min(sleep * 2, _MOST_SLEEP)

    def _try(self, mode: int) -> bool:
        try:
            descriptor = _open(self._path)
        except OSError as error:
            raise self._failed(error) from error
        try:
            locked = _flock(descriptor, mode) and _is_still(descriptor, self._path)
        except OSError as error:
            os.close(descriptor)
            raise self._failed(error) from error
        if not locked:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        _held.add(self)
        return True

    def release(self) -> None:
        """Let go; harmless when nothing is held."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        _held.discard(self)
        # Explicitly, because a child between fork and exec may have the open file too.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)

    def forsake(self) -> None:
        """Close the inherited descriptor in a forked child, leaving the parent's lock alone."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _busy(self) -> Busy:
        from lastgood.adapters.owner import describe  # lazily: who shares a lock never signs

        owner = describe(self._path + b".owner")
        return Busy(
            f"{self._what} is held by {owner or 'another lastgood command'}",
            hint="wait until it has finished, then try again",
            details={"owner": owner, "lock": printable(to_text(self._path))},
        )

    def _failed(self, error: OSError) -> Storage:
        return Storage(
            f"{self._what} cannot be locked: {printable(to_text(self._path))}: {error.strerror}",
            hint="check that the store can be written, has room, and is on a file system with locks",
        )


class SharedLock(_Lock):
    """A lock held beside others who share it."""

    def __enter__(self) -> SharedHold:
        gate = _Lock(self._path + b".turn", what=self._what, wait=self._wait)
        try:
            gate.acquire(fcntl.LOCK_SH, wait=min(self._wait, _COURTESY))
        except Busy:
            pass  # the one who waits waits for too long, perhaps for us
        else:
            gate.release()
        self.acquire(fcntl.LOCK_SH, wait=self._wait)
        return SharedHold()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class ExclusiveLock(_Lock):
    """A lock held alone; while waiting, newcomers who would share it are kept back."""

    def __init__(self, path: bytes, *, what: str, wait: float, command: str) -> None:
        super().__init__(path, what=what, wait=wait)
        self._command = command

    def __enter__(self) -> ExclusiveHold:
        if not self._try(fcntl.LOCK_EX):
            self._queue()
        self._sign()
        return ExclusiveHold()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor >= 0:
            _remove(self._path + b".owner")
        self.release()

    def _queue(self) -> None:
        if self._wait <= 0:
            raise self._busy()
        started = time.monotonic()
        gate = _Lock(self._path + b".turn", what=self._what, wait=self._wait)
        try:
            gate.acquire(fcntl.LOCK_EX, wait=self._wait)
            self.acquire(fcntl.LOCK_EX, wait=self._wait - (time.monotonic() - started))
        except Busy as error:
            raise self._busy() from error
        finally:
            gate.release()

    def _sign(self) -> None:
        """Say who holds the lock; a store that is full or read-only does not need it."""
        from lastgood.adapters.owner import record

        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self._path + b".owner", flags, PRIVATE_FILE)
        except OSError:
            return
        try:
            write_whole(descriptor, record(self._command))
        except OSError:
            return
        finally:
            os.close(descriptor)


def _open(path: bytes) -> int:
    flags = os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, os.O_RDWR | flags, PRIVATE_FILE)
    except FileNotFoundError:
        make_directories(os.path.dirname(path))
        return os.open(path, os.O_RDWR | flags, PRIVATE_FILE)
    except OSError as error:
        if error.errno not in _READ_ONLY:
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)


def _flock(descriptor: int, mode: int) -> bool:
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def _is_still(descriptor: int, path: bytes) -> bool:
    """Tell whether a locked file is the one that others will find under its name."""
    try:
        named = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    mine = os.fstat(descriptor)
    return (mine.st_dev, mine.st_ino) == (named.st_dev, named.st_ino)


def _remove(path: bytes) -> None:
    try:
        os.unlink(path)
    except OSError:
        return  # it only explains


_held: set[_Lock] = set()


def _forsake_all() -> None:
    for lock in _held:
        lock.forsake()
    _held.clear()


os.register_at_fork(after_in_child=_forsake_all)
