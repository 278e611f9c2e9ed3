"""Tells an observer of a run what happens; its faults harm nothing."""

from __future__ import annotations

from lastgood.model.running import RunEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.progress import Task
    from lastgood.model.report import SaveReport
    from lastgood.model.running import RunEventType, RunObserver
    from lastgood.model.workplan import WorkPlan
    from lastgood.workspace.running.hands import Hands


class Telling:
    """The voice of one run; ``last`` is the newest checkpoint that it made or found equal."""

    def __init__(
        self,
        hands: Hands,
        plan: WorkPlan,
        *,
        observer: RunObserver | None,
        output: Callable[[bytes], object] | None = None,
    ) -> None:
        self._hands = hands
        self._plan = plan
        self._observer = observer
        self._output = output
        self.last: str | None = None
        self._recorded: tuple[Task, ...] | None = None
        self._tasks: tuple[Task, ...] = ()

    def tell(self, type: RunEventType, **fields: object) -> None:
        """Tell of one thing."""
        if self._observer is None:
            return
        event = RunEvent(type=type, at=self._hands.now(), session=self._hands.own).replace(**fields)
        try:  # noqa: SIM105 - contextlib costs start-up time
            self._observer(event)
        except Exception:  # noqa: BLE001, S110 - an observer's fault never harms the run
            pass

    @property
    def passes_on(self) -> bool:
        """Whether somebody gets all output as it is."""
        return self._output is not None

    def pass_on(self, part: bytes) -> None:
        """Give on what a task's command wrote, as it is."""
        if self._output is None:
            return
        try:  # noqa: SIM105 - contextlib costs start-up time
            self._output(part)
        except Exception:  # noqa: BLE001, S110 - the same
            pass

    def changed(self, type: RunEventType, **fields: object) -> None:
        """Tell of something that changed how the tasks stand."""
        if self._observer is not None:
            self.tell(type, tasks=self.tasks(), **fields)

    def saved(self, report: SaveReport | None, **fields: object) -> None:
        """Tell of a checkpoint, if one was made."""
        if report is None:
            return
        self.last = report.checkpoint.id
        if report.created:
            self.checkpoint(report.checkpoint, **fields)

    def checkpoint(self, checkpoint: Checkpoint, **fields: object) -> None:
        """Tell of a checkpoint."""
        self.last = checkpoint.id
        self.tell(
            "checkpoint", checkpoint=checkpoint.id, kind=checkpoint.kind, good=checkpoint.good, **fields
        )

    def notice(self, reason: str, **fields: object) -> None:
        """Tell something that a person should know."""
        self.tell("noticed", reason=reason, **fields)

    def tasks(self) -> tuple[Task, ...]:
        """Return how every task of the plan stands."""
        from lastgood.model.progress import Task

        recorded = self._hands.stands().tasks
        if recorded is not self._recorded:
            known = {task.id: task for task in recorded}
            self._recorded = recorded
            self._tasks = tuple([known.get(task.id) or Task(id=task.id) for task in self._plan.tasks])
        return self._tasks
