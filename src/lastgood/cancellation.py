"""Lets a thread be asked to give up where it waits: how a cancelled asynchronous call ends early."""

from __future__ import annotations

import sys
import time
from _thread import _local, allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    class _Here(_local):
        asked: Callable[[], bool] | None


# How soon a request is heard, in seconds.
STRIDE = 0.02

_here: _Here = _local()  # type: ignore[assignment]


class Cancelled(KeyboardInterrupt):
    """The caller asked for an end before the work was done; goes the way of Ctrl-C."""


class CancelWhen:
    """While entered, this thread gives up as soon as it is ``asked``, where nothing is half done then."""

    def __init__(self, asked: Callable[[], bool]) -> None:
        self._asked = asked
        self._outer: Callable[[], bool] | None = None

    def __enter__(self) -> None:
        self._outer = cancel_check()
        _here.asked = self._asked

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _here.asked = self._outer


def cancel_check() -> Callable[[], bool] | None:
    """Return what tells whether this thread is asked to give up; None if nobody could."""
    return getattr(_here, "asked", None)


def check_cancelled() -> None:
    """Give up, if that was asked for: raises `Cancelled`."""
    asked = cancel_check()
    if asked is not None and asked():
        raise Cancelled


def pause(seconds: float) -> None:
    """Sleep, unless asked to give up; then that is heard soon."""
    if cancel_check() is None:
        time.sleep(seconds)
        return
    check_cancelled()
    time.sleep(seconds)
    check_cancelled()


# --- Short turns of the interpreter, for work with many system calls beside busy threads ---

_PART = 10


class ShortSwitchInterval:
    """While entered, threads take the interpreter from each other after a tenth of the usual time.

    Each system call of ours gives a busy thread a turn; at 5 ms each, those turns would take longer
    than the work. The setting is the whole interpreter's; the last to leave puts it back.
    """

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._entered = 0
        self._usual = 0.0

    def __enter__(self) -> None:
        with self._lock:
            self._entered += 1
            if self._entered == 1:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(self._usual / _PART)

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._entered -= 1
            if not self._entered:
                sys.setswitchinterval(self._usual)


SHORT_SWITCH_INTERVAL = ShortSwitchInterval()
