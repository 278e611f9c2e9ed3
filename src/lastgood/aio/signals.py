"""SIGTERM within an asynchronous session: a cancellation, so that the session can end honestly."""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


class Armed:
    """Has SIGTERM cancel something, unless the program has its own way with it."""

    def __init__(self, cancel: Callable[[], object]) -> None:
        self._cancel = cancel
        self._came = False

    @classmethod
    def here(cls, cancel: Callable[[], object]) -> Armed | None:
        """Return it armed; None outside the main thread, or where the signal is somebody's already."""
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return None
        armed = cls(cancel)
        try:
            signal.signal(signal.SIGTERM, armed._arrive)
        except ValueError:  # outside the main thread there are no signals to be had
            return None
        return armed

    def lift(self, _error: BaseException | None) -> bool:
        """Let the next SIGTERM kill, as it did before; tell whether one came."""
        if signal.getsignal(signal.SIGTERM) == self._arrive:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return self._came

    def _arrive(self, _number: int, _frame: FrameType | None) -> None:
        self._came = True
        self._cancel()
