"""Signals that ask this process to end, kept until its work has come to an orderly stop."""

from __future__ import annotations

import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Self

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# The same one so soon after itself (seconds) is no second word: what sends it to a process and to the
# group of that, as timeout(1) does, sends it twice.
_ECHO = 0.1
# Who says it so often means it, whatever is under way.
_ENOUGH = 3


class CaughtSignals:
    """Catches what asks this process to end while a block lasts, and tells what came so far.

    What is ignored stays ignored (``nohup``), and what the program has its own way with stays so.
    Outside the main thread nothing can be caught. Call it to have the numbers in the order in which
    they came. The third of the same number ends this process at once.
    """

    def __init__(self) -> None:
        self._came: tuple[int, ...] = ()
        self._at: dict[int, float] = {}
        self._taken: list[int] = []

    def __call__(self) -> tuple[int, ...]:
        """Return the signals that came so far."""
        return self._came

    def __enter__(self) -> Self:
        for number in ENDING:
            if signal.getsignal(number) not in {signal.SIG_DFL, signal.default_int_handler}:
                continue
            try:
                signal.signal(number, self._catch)
            except ValueError:  # not the main thread
                break
            self._taken.append(number)
        return self

    def __exit__(self, *_error: object) -> None:
        while self._taken:
            number = self._taken.pop()
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)

    def _catch(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self._at.get(number, -_ECHO) < _ECHO:
            return
        self._at[number] = now
        self._came += (number,)
        if self._came.count(number) >= _ENOUGH:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
