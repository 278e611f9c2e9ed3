"""Locks by ``flock``: held open by their owner, and gone with it however it ends (rule S16)."""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import time
from _thread import get_ident
from _weakref import ref
from io import FileIO

from lastgood.errors import FULL, Busy, Storage
from lastgood.files import PRIVATE_FILE, make_directories, path_exists, unlink_quietly, write_whole
from lastgood.host import ExclusiveHold, SharedHold
from lastgood.paths import printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_LEAST_SLEEP = 0.001
_MOST_SLEEP = 0.01
# For so long a lock is waited for whose holder is stopped: somebody may let it go on.
STOPPED_PATIENCE = 1.0
# How long newcomers let those go first who wait already. Not for ever: a process that a holder who
# shares has started, and waits for, would otherwise wait for one who waits for that holder.
_COURTESY = 1.0
# So often it is asked whether who goes first is stopped.
_STOPPED_COURTESY = 0.1
# Nobody makes a store, or brings its catalogue up, for longer (in seconds).
_LONGEST_TURN = 600.0
_TURN_SLEEP = 0.002
# So many bytes beside a lock say who holds it, whatever was said before.
_SAID = 1024
# Beside a lock, the file that whoever waits for it locks the same way, alone or beside others.
_TURN = b".turn"
_TAKEN = {errno.EAGAIN, errno.EACCES}
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


def _pause(seconds: float) -> None:
    """Sleep, unless asked to give up: by that module, or nobody; to load it may lack a descriptor."""
    getattr(sys.modules.get("lastgood.cancellation"), "pause", time.sleep)(seconds)


class FlockLocks:
    """The locks of one store. ``command`` is what a waiting process is told about a holder."""

    def __init__(self, store: bytes, *, command: str = "lastgood") -> None:
        self._store = store
        self._command = command

    def share_workspace(self, key: str, *, wait: float) -> SharedLock:
        """Keep restores out while saving."""
        return SharedLock(self._workspace(key), what="this workspace", wait=wait, store=self._store)

    def hold_workspace(self, key: str, *, wait: float) -> ExclusiveLock:
        """Keep saves and other restores out while restoring."""
        return self._alone(self._workspace(key), what="this workspace", wait=wait)

    def share_store(self, *, wait: float) -> SharedLock:
        """Keep sweeps out while reading or saving."""
        return SharedLock(self._file(b"store.lock"), what="the store", wait=wait, store=self._store)

    def hold_store(self, *, wait: float) -> ExclusiveLock:
        """Keep everyone out while bytes are freed."""
        return self._alone(self._file(b"store.lock"), what="the store", wait=wait)

    def recovery(self, key: str, *, wait: float) -> ExclusiveLock:
        """Let one process at a time settle what became of a workspace's runs."""
        path = self._workspace(key) + b".recovery"
        return self._alone(path, what="the recovery of this workspace", wait=wait)

    def running(self, key: str, *, wait: float) -> ExclusiveLock:
        """Let one runner at a time carry out a plan in a workspace."""
        path = self._workspace(key) + b".run"
        return self._alone(path, what="the run of a plan", wait=wait)

    def watching(self, key: str, *, wait: float) -> ExclusiveLock:
        """Let one process at a time make checkpoints of a workspace by itself."""
        return self._alone(self._workspace(key) + b".watch", what="the watch of this workspace", wait=wait)

    def is_watched(self, key: str) -> bool:
        """Tell whether a process watches a workspace just now."""
        return _is_held(self._workspace(key) + b".watch")

    def serving(self, *, wait: float) -> ExclusiveLock:
        """Let one process at a time carry out what commands ask for."""
        return self._alone(self._file(b"resident.lock"), what="the resident's socket", wait=wait)

    def is_served(self) -> bool:
        """Tell whether a process carries out what commands ask for."""
        return _is_held(self._file(b"resident.lock"))

    def server(self) -> int | None:
        """Return the process that carries out what commands ask for; None where nobody sees it."""
        from lastgood.lock_owner import holders  # lazily: only who asks for it pays

        return next(holders(self._file(b"resident.lock"), alone=True), None)

    def maintenance(self, *, wait: float) -> ExclusiveLock:
        """Let one process at a time consolidate, back up and tag."""
        return self._alone(self._file(b"maintenance.lock"), what="maintenance", wait=wait)

    def _alone(self, path: bytes, *, what: str, wait: float) -> ExclusiveLock:
        return ExclusiveLock(path, what=what, wait=wait, store=self._store, command=self._command)

    def _file(self, name: bytes) -> bytes:
        return b"/".join((self._store, b"locks", name))

    def _workspace(self, key: str) -> bytes:
        return b"/".join((self._store, b"workspaces", key.encode("ascii"), b"lock"))


# Those that may be held, each by a reference that does not keep it.
_held: set[ref[_Lock]] = set()


class _Lock:
    """An open lock file. `flock` belongs to the open file: two threads exclude each other too.

    A signal may break off whoever takes it or lets it go, between any two steps of that; in a process that
    lives on, a lock that nobody knows of would keep others out for ever. So its file stands here before the
    kernel locks it, and closes by itself once nobody refers to this any more.
    """

    def __init__(self, path: bytes, *, what: str, wait: float, store: bytes) -> None:
        self._path = path
        self._store = store
        self._what = what
        self._wait = wait
        self._file: FileIO | None = None
        # Its path, and the thread that took it.
        self.taken: tuple[bytes, int] = (b"", 0)
        self._waits = False
        self._ref = ref(self)

    def take(self, mode: int) -> None:
        """Take the lock; `Busy` once ``wait`` seconds are over, and earlier for a holder that is stopped."""
        if self._wait <= 0:
            if not self._try(mode):
                raise self._busy()
        # Who has ever waited for it has made this file: without it nobody is to go first.
        elif path_exists(self._path + _TURN) or not self._try(mode):
            self._take_in_turn(mode)

    def _take_in_turn(self, mode: int) -> None:
        """Look again and again whether this one's turn has come, and if so whether the lock is free."""
        turn = _Turn(self._path, what=self._what, wait=self._wait, store=self._store)
        started = looked = time.monotonic()
        sleep = _LEAST_SLEEP
        try:
            while not (turn.has_come(mode) and self._try(mode)):
                now = time.monotonic()
                left = started + self._wait - now
                if left <= 0:
                    raise self._busy()
                if self._is_own():
                    return self._take_beside_own(mode)
                self._say_waiting()
                if now - looked >= STOPPED_PATIENCE:
                    looked = now
                    self._refuse_stopped(mode)
                _pause(min(sleep, left))
                sleep = min(sleep * 2, _MOST_SLEEP)
        finally:
            turn.release()

    def _say_waiting(self) -> None:
        """Log, once, for what this waits."""
        if not self._waits and "logging" in sys.modules:
            from logging import getLogger

            self._waits = True
            getLogger("lastgood").info("waiting for %s", self._what)

    def _is_own(self) -> bool:
        """Tell whether this thread itself holds what it would wait for."""
        mine = (self._path, get_ident())
        return any(one.taken == mine for one in _all_held())

    def _take_beside_own(self, mode: int) -> None:
        """Share what this thread shares, whoever waits for that; `Busy` else: nobody would let go of it."""
        if not self._try(mode):
            raise Busy(
                f"{self._what} is held by the verb that asks this here, until that has ended",
                hint="ask before it begins, or when it has ended; a consent is told the plan",
                details={"owner": f"pid {os.getpid()}", "lock": printable(to_text(self._path)), "own": True},
            )

    def _refuse_stopped(self, mode: int) -> None:
        from lastgood.lock_owner import (
            stopped_holder,  # lazily: hardly anybody is stopped
            suspended,  # lazily: hardly anybody is stopped
        )

        # Of those who share, one that is stopped keeps out only whoever wants the lock alone.
        pid = stopped_holder((self._path,), alone=mode == fcntl.LOCK_SH)
        if pid is not None:
            raise suspended(self._what, pid)

    def _try(self, mode: int) -> bool:
        try:
            self._file = file = FileIO(_open(self._path, store=self._store))
        except OSError as error:
            raise self._failed(error) from error
        self.taken = (self._path, get_ident())
        _held.add(self._ref)
        locked = False
        try:
            locked = _flock(file.fileno(), mode) and _is_still(file.fileno(), self._path)
        except OSError as error:
            self.abandon()
            raise self._failed(error) from error
        finally:
            if not locked:
                self.release()
        return locked

    def release(self) -> None:
        """Let go; harmless when nothing is held, or when it is repeated because a signal broke it off."""
        file = self._file
        if file is None:
            return
        _held.discard(self._ref)
        # Explicitly, because a child between fork and exec may have the open file too.
        fcntl.flock(file, fcntl.LOCK_UN)
        self._file = None
        file.close()

    def abandon(self) -> None:
        """Close the inherited descriptor in a forked child, leaving the parent's lock alone."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _busy(self) -> Busy:
        from lastgood.lock_owner import describe  # lazily: who shares a lock never signs

        owner = describe(self._path + b".owner")
        return Busy(
            f"{self._what} is held by {owner or 'another lastgood command'}",
            hint="wait until it has finished, then try again",
            details={"owner": owner, "lock": printable(to_text(self._path))},
        )

    def _failed(self, error: OSError) -> Storage:
        if error.errno in FULL:
            from lastgood.disk import no_room

            return no_room(error, doing=f"locking {self._what}", place=self._store)
        if error.errno == errno.ENOENT and not os.path.isdir(self._store):
            return Storage(
                f"the store {printable(to_text(self._store))} is not there any more",
                hint="put the store back to where it was",
            )
        return Storage(
            f"{self._what} cannot be locked: {printable(to_text(self._path))}: {error.strerror}",
            hint="check that the store can be written, has room, and is on a file system with locks",
        )


class _Turn(_Lock):
    """The turn of whoever waits for a lock, held until he has it: those who come later find it taken.

    Those who want to share have theirs together. It is a courtesy: one that does not come is passed over,
    soon if who has it is stopped, and it dies with its owner like any lock.
    """

    def __init__(self, path: bytes, *, what: str, wait: float, store: bytes) -> None:
        super().__init__(path + _TURN, what=what, wait=wait, store=store)
        self._begun = self._looked = time.monotonic()
        self._is_stopped = False

    def has_come(self, mode: int) -> bool:
        """Tell whether it has come, or is not to be waited for any more."""
        try:
            if self._file is not None or self._try(mode):
                return True
        except Storage:  # it cannot be locked; whether the lock itself can is told by that
            return True
        now = time.monotonic()
        if now - self._looked >= _STOPPED_COURTESY:
            from lastgood.lock_owner import stopped_holder  # lazily: hardly anybody waits for long

            self._looked = now
            self._is_stopped = stopped_holder((self._path,)) is not None
        return self._is_stopped or now - self._begun >= min(self._wait, _COURTESY)


class SharedLock(_Lock):
    """A lock held beside others who share it."""

    def __enter__(self) -> SharedHold:
        try:
            self.take(fcntl.LOCK_SH)
            return SharedHold()
        except BaseException:  # a signal's, above all
            self.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class ExclusiveLock(_Lock):
    """A lock held alone."""

    def __init__(self, path: bytes, *, what: str, wait: float, store: bytes, command: str) -> None:
        super().__init__(path, what=what, wait=wait, store=store)
        self._command = command

    def __enter__(self) -> ExclusiveHold:
        try:
            self.take(fcntl.LOCK_EX)
            self._sign()
            return ExclusiveHold()
        except BaseException:  # a signal's, above all
            self.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None and not self._say(b""):
            unlink_quietly(self._path + b".owner")  # else it would name who holds it no more
        self.release()

    def _sign(self) -> None:
        """Say who holds the lock; a store that is full or read-only does not need it."""
        from lastgood.lock_owner import record

        self._say(record(self._command))

    def _say(self, words: bytes) -> bool:
        """Write who holds the lock, or nobody, over what was said before; tell whether that could be.

        The file stays: to make and to delete one takes ten times as long.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self._path + b".owner", flags, PRIVATE_FILE)
        except OSError:
            return False
        try:
            write_whole(descriptor, words[:_SAID].ljust(_SAID, b"\n"))
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True


class FolderTurn:
    """The turn of whoever makes something in a folder, one at a time; held by the folder itself.

    Raises OSError where the folder cannot be locked, and `Busy` for one held too long.
    """

    def __init__(self, folder: bytes | str, *, what: str) -> None:
        self._folder = folder
        self._what = what
        self._held = -1

    def __enter__(self) -> Self:
        self._held = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._stand()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        held, self._held = self._held, -1
        os.close(held)

    def _stand(self) -> None:
        started = looked = time.monotonic()
        while not _flock(self._held, fcntl.LOCK_EX):
            now = time.monotonic()
            if now - looked >= STOPPED_PATIENCE:
                looked = now
                self._give_up(tired=now - started >= _LONGEST_TURN)
            _pause(_TURN_SLEEP)

    def _give_up(self, *, tired: bool) -> None:
        from lastgood.lock_owner import stopped_holder, suspended

        pid = stopped_holder((os.fsencode(self._folder),))
        if pid is not None:
            raise suspended(self._what, pid)
        if tired:
            raise Busy(
                f"{self._what} is held by another lastgood command",
                hint="wait until it has finished, then try again",
            )


def _open(path: bytes, *, store: bytes) -> int:
    flags = os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, os.O_RDWR | flags, PRIVATE_FILE)
    except FileNotFoundError:
        if not os.path.isdir(store):  # what is made in its place would stand in the way of who brings it back
            raise
        make_directories(os.path.dirname(path))
        return os.open(path, os.O_RDWR | flags, PRIVATE_FILE)
    except OSError as error:
        if error.errno in _READ_ONLY:
            try:
                return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except FileNotFoundError:  # nobody has held it yet, and it cannot be made
                raise error from None
        if error.errno in FULL and (os.path.lexists(path) or _spared(store, path)):
            return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        raise


def _spared(store: bytes, path: bytes) -> bool:
    from lastgood.reserve import take_spare  # lazily: a disk is seldom full

    return take_spare(store, path)


def _is_held(path: bytes) -> bool:
    """Tell whether somebody holds a lock alone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return not _flock(descriptor, fcntl.LOCK_SH)
    except OSError:
        return False
    finally:
        os.close(descriptor)


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


def _all_held() -> list[_Lock]:
    return [lock for one in tuple(_held) if (lock := one()) is not None]


def _abandon_all() -> None:
    for lock in _all_held():
        lock.abandon()
    _held.clear()


os.register_at_fork(after_in_child=_abandon_all)
