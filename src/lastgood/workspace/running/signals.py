"""Signals that ask a run to end: written down as they come, and heeded where nothing is half done."""

from __future__ import annotations

import signal

from lastgood.adapters.stopping import Listening, asker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType, TracebackType
    from typing import Self

    _Before = Callable[[int, FrameType | None], object] | int | None

_ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Interrupted(Exception):
    """The run was asked to end; ``signal`` is the number of the first signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


class Signals:
    """While entered, signals that ask for an end are written down.

    Those that the program ignores or takes care of itself stay as they are, and so do all of them
    outside the main thread: there a call is asked to give up by its caller (`lastgood.adapters.stopping`).
    """

    def __init__(self) -> None:
        self._heard: list[int] = []
        self._before: dict[signal.Signals, _Before] = {}
        self._caller: Callable[[], bool] | None = None
        self._deaf = Listening(_never)

    def __enter__(self) -> Self:
        self._caller = asker()
        self._deaf.__enter__()
        for number in _ASKING:
            if signal.getsignal(number) in {signal.SIG_DFL, signal.default_int_handler}:
                self._take(number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._deaf.__exit__(kind, error, trace)

    def asked(self) -> Sequence[int]:
        """Return the signals that came so far."""
        if self._caller is not None and not self._heard and self._caller():
            self._heard.append(signal.SIGINT)
        return self._heard

    def heed(self) -> None:
        """Raise `Interrupted` if the run was asked to end."""
        if self.asked():
            raise Interrupted(self._heard[0])

    def _take(self, number: signal.Signals) -> None:
        try:
            self._before[number] = signal.signal(number, self._hear)
        except ValueError:
            return  # outside the main thread there are no signals to be had

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        self._heard.append(number)


def name_of(number: int) -> str:
    """Return the name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _never() -> bool:
    return False
