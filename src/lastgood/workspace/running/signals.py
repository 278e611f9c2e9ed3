"""What asks a run to end: signals, or a caller in another thread; heeded where nothing is half done."""

from __future__ import annotations

import signal

from lastgood.adapters.signals import CaughtSignals
from lastgood.adapters.stopping import Listening, asker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self


class Interrupted(Exception):
    """The run was asked to end; ``signal`` is the number of the first signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


class Signals:
    """While entered, what asks for an end is written down, and interrupts nothing by itself.

    A call that its caller gives up (`lastgood.adapters.stopping`) counts as one that got SIGINT. The
    third signal of the same number ends this process, whatever it does.
    """

    _outlast = False

    @classmethod
    def outlast(cls) -> None:
        """Go on so until the process ends, which has nothing to do but to say what came of its run."""
        cls._outlast = True

    def __init__(self) -> None:
        self._caught = CaughtSignals()
        self._caller: Callable[[], bool] | None = None
        self._given_up = False
        self._heard: list[int] = []
        self._counted = 0
        self._deaf = Listening(_never)

    def __enter__(self) -> Self:
        self._caller = asker()
        self._deaf.__enter__()
        self._caught.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._outlast:
            self._caught.__exit__(kind, error, trace)
        self._deaf.__exit__(kind, error, trace)

    def asked(self) -> Sequence[int]:
        """Return the signals that came so far, in their order."""
        came = self._caught()
        self._heard += came[self._counted :]
        self._counted = len(came)
        if not self._given_up and self._caller is not None and self._caller():
            self._given_up = True
            self._heard.append(signal.SIGINT)
        return self._heard

    def heed(self) -> None:
        """Raise `Interrupted` if the run was asked to end."""
        came = self.asked()
        if came:
            raise Interrupted(came[0])


def name_of(number: int) -> str:
    """Return the name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _never() -> bool:
    return False
