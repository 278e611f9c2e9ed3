"""Telling an event that a host tells of twice, since hooks of ours are in two of its places.

Whoever is told of an event carries it out alone: another one that is told the same meanwhile waits, and then
reads in a small file beside the workspace's caches whether it was done. Of one that failed, or was killed,
nothing stands there. The file may go at any time: then one event may count twice, as without it.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import time
from _blake2 import blake2b

from lastgood.cancellation import pause
from lastgood.locks import STOPPED_PATIENCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from lastgood.context import Context
    from lastgood.hooks.event import HookEvent

_FILE = b"/events"
# A host gives a hook a minute: what it tells of twice begins within that.
_WITHIN = 60_000_000_000
# So long another one is waited for, in seconds: it looks for less, and the host goes on waiting.
_PATIENCE, _STRIDE = 20.0, 0.005
# When the file is longer than that, what it says of before is let go.
_MOST = 1 << 14
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_BLANKS = 3
# These happen once until the other one does, whatever a host calls them.
_ONCE = frozenset({"session-start", "session-end"})
# A lock on one byte that is of the open file, so that threads exclude each other too. macOS has one by the
# same name, and lays out otherwise what it is told in.
_OF_FILE = getattr(fcntl, "F_OFD_SETLK", None) if sys.platform == "linux" else None
_DIGITS = 15


class Telling:
    """Entered while an event is carried out that a process, the ``caller``, was told of.

    ``again`` tells that another one was told the same, and carried it out. ``said`` is what the host sent.
    What nothing tells from another event of its kind was told by none before.
    """

    def __init__(self, context: Context, event: HookEvent, said: bytes, *, caller: int) -> None:
        self.again: bool = False
        self._context = context
        self._caller = caller
        self._is_noted = event.moment is not None or event.kind in _ONCE
        self._patience = event.seconds or _PATIENCE
        self._digest = _digest(event, said)
        self._subject = _subject(event)
        self._path = b"/".join((context.store, b"workspaces", context.key.encode())) + _FILE
        self._descriptor = -1

    def __enter__(self) -> Self:
        if not self._is_noted:
            return self
        try:
            self._descriptor = self._opened()
            self._wait()
            content = os.pread(self._descriptor, 2 * _MOST, 0)
            callers = _callers(content, self._digest, subject=self._subject, now=self._context.clock.now())
        except OSError:
            return self  # to keep something twice is better than not at all
        except BaseException:  # asked to give up while it waits
            os.close(self._descriptor)
            raise
        # A hook that is carried out anew, since who did that was killed, is the same one.
        self.again = any(one != self._caller for one in callers)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor < 0:
            return
        try:
            if not (kind or self.again):
                self._note()
            _let_go(self._descriptor, self._digest)
        except OSError:
            return  # as when the file went
        finally:
            os.close(self._descriptor)

    def _opened(self) -> int:
        try:
            return os.open(self._path, _FLAGS, 0o600)
        except FileNotFoundError:  # as nothing was kept of the workspace yet
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            return os.open(self._path, _FLAGS, 0o600)

    def _wait(self) -> None:
        """Wait for another one that was told the same, but not for ever: it may hang, or be stopped."""
        started = looked = time.monotonic()
        while not _locked(self._descriptor, self._digest):
            now = time.monotonic()
            if now - started >= self._patience:
                return
            if now - looked >= STOPPED_PATIENCE:
                looked = now
                if self._is_stopped():
                    return
            pause(_STRIDE)

    def _is_stopped(self) -> bool:
        from lastgood.lock_owner import stopped_holder  # lazily: hardly anybody is stopped

        at = None if _OF_FILE is None else _place(self._digest)
        return stopped_holder((self._path,), at=at) is not None

    def _note(self) -> None:
        line = b"%s %d %d %s\n" % (self._digest, self._caller, self._context.clock.now(), self._subject)
        if os.fstat(self._descriptor).st_size > _MOST:
            os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, line)


def _digest(event: HookEvent, said: bytes) -> bytes:
    head = f"{event.kind} {event.owner} ".encode()
    return blake2b(head + said, digest_size=16).hexdigest().encode()


def _subject(event: HookEvent) -> bytes:
    """Return what begins or ends by an event: a host may leave a conversation and come back to it at once."""
    if event.kind not in _ONCE:
        return b"-"
    text = f"{event.owner} {event.session}".encode("utf-8", "surrogateescape")
    return blake2b(text, digest_size=8).hexdigest().encode()


def _locked(descriptor: int, digest: bytes) -> bool:
    """Try to get the lock of one event; where a system has none of bytes, that of all."""
    try:
        if _OF_FILE is None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            fcntl.fcntl(descriptor, _OF_FILE, _byte(fcntl.F_WRLCK, digest))
    except (BlockingIOError, PermissionError):
        return False
    return True


def _let_go(descriptor: int, digest: bytes) -> None:
    """Let the lock go, also where a process that was forked meanwhile has the file open still."""
    if _OF_FILE is None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    else:
        fcntl.fcntl(descriptor, _OF_FILE, _byte(fcntl.F_UNLCK, digest))


def _byte(kind: int, digest: bytes) -> bytes:
    """Return a `struct flock` (fcntl(2)) of the byte that stands for an event."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, _place(digest), 1, 0)


def _place(digest: bytes) -> int:
    return int(digest[:_DIGITS], 16)


def _callers(content: bytes, digest: bytes, *, subject: bytes, now: int) -> list[int]:
    """Return which processes carried an event out a moment ago, since the same began or ended."""
    found: list[int] = []
    if digest not in content:  # as of nearly all events
        return found
    for line in content.splitlines():
        one, *numbers, of = line.split() if line.count(b" ") == _BLANKS else (b"", b"")
        if one != digest and of == subject != b"-":
            found = []
        if one == digest and all(number.isdigit() for number in numbers):
            caller, then = map(int, numbers)
            if abs(now - then) < _WITHIN:
                found.append(caller)
    return found
