"""Threads for what a restore has the disk do beside its own work, which stay until it ends.

To start one takes three times as long as to have one go on, and a restore would start a dozen. They stay
no longer than that: whoever forks is to have no threads beside, and a scan that finds any may move to
another process.
"""

from __future__ import annotations

from _queue import SimpleQueue
from _thread import start_new_thread

from lastgood.files import Beside, sync_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    Work = Callable[[], None]


class Threads:
    """Those of one restore; a context manager, at whose end each of them ends with what it was told to do.

    Unless they ``stay`` each does one thing, and nobody has to end them.
    """

    __slots__ = ("_idle", "_started", "_stay")

    def __init__(self, *, stay: bool = True) -> None:
        self._stay = stay
        # By what each is told what to do; None ends it.
        self._started: list[SimpleQueue[Work | None]] = []
        self._idle: list[SimpleQueue[Work | None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for told in self._started:
            told.put(None)

    def begin(self, work: Work) -> None:
        """Do something beside what follows; RuntimeError where the system allows no more threads."""
        if not self._stay:
            start_new_thread(work, ())
            return
        try:
            told = self._idle.pop()
        except IndexError:
            told = SimpleQueue()
            start_new_thread(self._run, (told,))
            self._started.append(told)
        told.put(work)

    def _run(self, told: SimpleQueue[Work | None]) -> None:
        while (work := told.get()) is not None:
            work()  # whatever it raises ends this thread, which nobody tells anything any more
            self._idle.append(told)

    def beside(self, work: Work) -> Beside:
        """Do so, and return what waits for it."""
        return Beside(work, begin=self.begin)

    def sync_all(self, descriptors: Sequence[int]) -> dict[int, OSError]:
        """Sync files or directories, and return what went wrong by descriptor."""
        return sync_all(descriptors, begin=self.begin)
