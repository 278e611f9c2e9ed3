"""A sign of life on a terminal, shown only when something takes longer than half a second."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from lastgood.cli.console import Console

_AFTER = 0.5
_EVERY = 0.1
_BAR = 16
_BLOCK = 4


class Progress:
    """Shows a moving bar while a verb works.

    Driven by the interval timer rather than by a thread: beside a second thread the scan would have
    to leave the process.
    """

    def __init__(self, console: Console, doing: str) -> None:
        self._console = console
        self._doing = doing
        self._began = 0.0
        self._shown = False
        self._on = console.err_is_terminal and not console.quiet and not console.json

    def __enter__(self) -> None:
        if self._on:
            import signal  # lazily: only a terminal pays for it

            self._began = time.monotonic()
            signal.signal(signal.SIGALRM, self._tick)
            signal.setitimer(signal.ITIMER_REAL, _AFTER, _EVERY)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._on:
            import signal

            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            if self._shown:
                self._console.overwrite("")

    def _tick(self, _number: int, _frame: FrameType | None) -> None:
        # By the clock: while one long call into C runs, no alarm is heard, however many are due.
        seconds = time.monotonic() - self._began
        self._shown = True
        self._console.overwrite(f"{self._doing} {bar(int(seconds / _EVERY))} {int(seconds)} s")


def bar(tick: int) -> str:
    """Return a bar of which a block has moved on by a number of ticks, to and fro."""
    way = _BAR - _BLOCK
    place = tick % (2 * way)
    place = min(place, 2 * way - place)
    return "[" + " " * place + "=" * _BLOCK + " " * (way - place) + "]"
