"""Work that is put off until nobody has worked for a while, in a program that does not wait itself."""

from __future__ import annotations

import time
from _thread import allocate_lock, start_new_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# After so long without work, or with it, in seconds, it is done.
_REST, _MOST = 2.0, 60.0
# Those that wait: none of their threads wants the interpreter.
_waiting: set[RestThread] = set()


class RestThread:
    """Does some work two seconds after it was put off last, by a thread that ends with it.

    Nothing may rest on it: where no thread can begin, or the process is killed, it is not done. No call waits
    for another, which a signal may have broken in upon.
    """

    def __init__(self) -> None:
        self._begun = allocate_lock()
        self._ended = allocate_lock()
        self._ended.acquire()
        self._due = self._latest = 0.0

    @staticmethod
    def count() -> int:
        """Return how many such threads there are."""
        return len(_waiting)

    def put_off(self, work: Callable[[], None]) -> None:
        """Have it be done later."""
        begins, now = self._begun.acquire(blocking=False), time.monotonic()
        if begins:
            self._latest = now + _MOST
        self._due = min(now + _REST, self._latest)
        if begins:
            try:
                start_new_thread(self._wait, (work,))
            except RuntimeError:  # there can be no more of them
                self._begun.release()

    def end(self) -> None:
        """Have nothing be done any more; harmless when repeated."""
        try:  # noqa: SIM105 - contextlib costs start-up time
            self._ended.release()
        except RuntimeError:  # it has ended
            pass

    def _wait(self, work: Callable[[], None]) -> None:
        _waiting.add(self)
        try:
            self._work_at_rest(work)
        finally:
            _waiting.discard(self)

    def _work_at_rest(self, work: Callable[[], None]) -> None:
        while (left := self._due - time.monotonic()) > 0:
            if self._ended.acquire(timeout=left):
                return  # and nothing begins any more
        self._begun.release()  # first: what is put off while the work is done has another thread begin
        work()
