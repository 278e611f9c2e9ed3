"""A run as JSON Lines: one document for each thing that happens."""

from __future__ import annotations

import time

from lastgood.codec.report.running import event_document
from lastgood.model.running import RunEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from lastgood.cli.console import Console
    from lastgood.model.progress import Task
    from lastgood.model.running import RunReport


class JsonLines:
    """Tells a run to a program; each line is written as soon as it is known.

    The first line says how all tasks stand, the later ones those that stand otherwise: a plan may have
    thousands. The report at the end has all again.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._standing: dict[str, Task] = {}
        self._last: RunEvent | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._console.flush()

    def __call__(self, event: RunEvent) -> None:
        """Tell one event; the last is kept back for the report that belongs to it."""
        before = self._standing.get
        # Nearly all of thousands are the very same: to compare them field by field would be felt.
        changed = tuple([one for one in event.tasks if before(one.id) is not one and before(one.id) != one])
        self._standing.update((task.id, task) for task in changed)
        event = event.replace(tasks=changed)
        if event.type == "finished":
            self._last = event
            return
        self._console.document(event_document(event))
        self._console.flush()

    def output(self, part: bytes) -> None:
        """Show nothing: lines are shown."""

    def end(self, report: RunReport) -> None:
        """Write the last line."""
        last = self._last
        if last is None:
            # The run had finished before: nothing happened that could have been told.
            last = RunEvent(type="finished", at=time.time_ns(), session=report.session, reason=report.reason)
        self._console.document(event_document(last, report))
        self._console.flush()
