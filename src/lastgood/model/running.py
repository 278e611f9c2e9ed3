"""What `run` tells while it carries out a plan, and what came of it."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from lastgood.model.effect import Effect
    from lastgood.model.progress import Task
    from lastgood.model.session import Living
    from lastgood.model.workplan import WorkPlan

    RunEventType = Literal[
        "started",  # a session began, or goes on (``continued``)
        "task-started",  # an attempt of a task begins; ``checkpoint`` is where it can be taken back to
        "output",  # the task wrote a line
        "checkpoint",  # a checkpoint was made: at the start, by interval, after a task, …
        "check-started",  # the task's check runs
        "attempt-failed",  # ``reason`` says why; it may be tried again
        "rolled-back",  # files were taken back; ``paths`` names them, ``checkpoint`` holds what was there
        "task-done",
        "task-failed",  # no attempt is left
        "task-skipped",  # what it needs is not done, or it was done before
        "sprint-done",
        "noticed",  # something that a person should know: ``reason``
        "interrupted",
        "finished",  # the last one
    ]
    RunState = Literal["done", "failed", "interrupted"]
    RunObserver = Callable[["RunEvent"], None]

RUN_STATES: tuple[RunState, ...] = ("done", "failed", "interrupted")


class PlannedRun(Value):
    """The plan that a session carries out, as it is kept; ``fingerprint`` tells it from an edited one."""

    session: str
    workspace_key: str
    fingerprint: str
    plan: WorkPlan


class RunEvent(Value):
    """One thing that happened in a run; ``at`` is in nanoseconds since the epoch.

    ``checkpoint`` is an id, ``line`` one line of output without its end, ``seconds`` how long an attempt
    or the run took. ``tasks`` is how every task of the plan stands; only the first event and those that
    change it have them.
    """

    type: RunEventType
    at: int
    session: str
    task: str | None = None
    sprint: str | None = None
    attempt: int | None = None
    checkpoint: str | None = None
    kind: str | None = None
    good: bool | None = None
    exit_code: int | None = None
    seconds: float | None = None
    line: str | None = None
    reason: str | None = None
    paths: tuple[bytes, ...] = ()
    continued: bool = False
    tasks: tuple[Task, ...] = ()


class RunReport(Value):
    """What came of a run. ``tasks`` are in the plan's order.

    ``state`` is ``done`` if every task is; a run that is not can be continued by the same command.
    ``unknown_effects`` are steps of which nobody saw the end, ``live_processes`` what an earlier runner
    left running. ``exit_code`` is that of the last command that ran, as a shell would say it; None if
    none did, or if it was stopped because its time was over. ``signal`` is the number of the one that
    interrupted the run. ``outputs`` is the folder where each attempt's output is kept.
    """

    session: str
    state: RunState
    plan: WorkPlan
    tasks: tuple[Task, ...] = ()
    checkpoint: str | None = None
    continued: bool = False
    seconds: float = 0.0
    exit_code: int | None = None
    reason: str | None = None
    unknown_effects: tuple[Effect, ...] = ()
    live_processes: tuple[Living, ...] = ()
    outputs: str | None = None
    signal: int | None = None

    @property
    def goal(self) -> str | None:
        """What the run is for, if its plan says so."""
        return self.plan.goal
