"""A forked process that does one piece of work beside this one, and says what came of it.

It knows all that this process knew, holds none of its locks, and does not outlive it for long.
"""

from __future__ import annotations

import os
import sys
from _signal import SIG_BLOCK, SIG_SETMASK, pthread_sigmask, valid_signals  # type: ignore[import-not-found]  # the public module costs an enum
from _thread import _count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import NoReturn

    # Says so many bytes to the other side; OSError if that is gone.
    Tell = Callable[[bytes], None]

_LAST_DESCRIPTOR = 1 << 20
# As much as a pipe holds.
_PIECE_BYTES = 1 << 16


class Orphaned(OSError):
    """The process that wanted the work is gone."""


def is_sound(most_bytes: int) -> bool:
    """Tell whether forking is sound and cheap: Linux, one thread, two processors, not too much memory."""
    if sys.platform != "linux" or _count() or len(os.sched_getaffinity(0)) < 2:
        return False
    return resident_bytes() < most_bytes


def resident_bytes() -> int:
    """Return how much memory this process has, which forking has to account for; proc(5)."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return sys.maxsize


class Worker:
    """One such process, at work as soon as this is made; OSError if there can be none.

    ``work`` gets a function to say something with; of the open files it has those in ``keep`` only.
    """

    __slots__ = ("_child", "_receiving")

    def __init__(self, work: Callable[[Tell], None], *, keep: Iterable[int]) -> None:
        self._child = self._receiving = -1
        parent = os.getpid()
        mask = pthread_sigmask(SIG_BLOCK, ())
        self._receiving, sending = os.pipe()
        try:
            try:
                # A signal whose handler raises waits until the process is known, and can be ended.
                pthread_sigmask(SIG_BLOCK, valid_signals())
                self._child = os.fork()
                if self._child == 0:
                    _run(work, sending=sending, keep=keep, parent=parent)
            finally:
                os.close(sending)
                pthread_sigmask(SIG_SETMASK, mask)
        except BaseException:
            self.end()
            raise

    def hear(self, size: int, *, patience: float | None = None) -> bytes:
        """Return the next so many bytes that it says; fewer if it ends, or is silent for ``patience`` ms."""
        said = bytearray()  # bytes that grow are copied each time: 6 s for 42 MB
        while len(said) < size and self._receiving >= 0 and self._speaks(patience):
            piece = os.read(self._receiving, min(size - len(said), _PIECE_BYTES))
            if not piece:
                break
            said += piece
        return bytes(said)

    def _speaks(self, patience: float | None) -> bool:
        """Wait until there is something to hear; False if that takes too long, or nobody can wait."""
        if patience is None:
            return True
        try:
            from select import POLLIN, poll
        except ImportError:  # of a file: too many are open to open that
            return False

        waiting = poll()
        waiting.register(self._receiving, POLLIN)
        return bool(waiting.poll(patience))

    def end(self) -> None:
        """Make sure that the process is gone; harmless when it is."""
        if self._receiving >= 0:
            descriptor, self._receiving = self._receiving, -1
            os.close(descriptor)
        if self._child > 0:
            child, self._child = self._child, -1
            try:
                # As long as it is a child of ours nobody else can have its number.
                if not os.waitpid(child, os.WNOHANG)[0]:
                    os.kill(child, 9)
                    os.waitpid(child, 0)
            except (ProcessLookupError, ChildProcessError):  # somebody else waits for all children here
                return

    def __del__(self) -> None:
        # An interruption may come between its making and the name that it is to have.
        self.end()


def _run(work: Callable[[Tell], None], *, sending: int, keep: Iterable[int], parent: int) -> NoReturn:
    """Do the work and end without running anything of the caller's."""
    status = 1
    try:
        _close_all_but({*keep, sending})

        def tell(said: bytes) -> None:
            if os.getppid() != parent:
                raise Orphaned
            rest = memoryview(said)
            while rest:
                rest = rest[os.write(sending, rest) :]

        work(tell)
        status = 0
    finally:
        os._exit(status)


def _close_all_but(kept: set[int]) -> None:
    """Close what was inherited: a lock ends with the last process that has its file open."""
    start = 0
    for descriptor in sorted(kept):
        os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, _LAST_DESCRIPTOR)
