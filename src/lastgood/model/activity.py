"""What was done in a period: sessions, tasks, checkpoints, sizes, tokens (rule K5)."""

from __future__ import annotations

from lastgood.model.report import StoreSize
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.literals import CommandState, Period
    from lastgood.model.checkpoint import Checkpoint, HealthNote
    from lastgood.model.operation import Operation
    from lastgood.model.session import Effect, SessionReport, Task
    from lastgood.value import OsText, Text, Timestamp


# What a report can be on, in words.
SPANS: dict[Period, str] = {
    "day": "the last day",
    "week": "the last 7 days",
    "month": "the last 30 days",
    "all": "all time",
}
PERIODS: tuple[Period, ...] = tuple(SPANS)


class TaskCounts(Value):
    """How many tasks are in which state; ``seconds`` are those that the ended ones took."""

    done: int = 0
    failed: int = 0
    skipped: int = 0
    running: int = 0
    pending: int = 0
    attempts: int = 0
    seconds: float = 0.0

    @property
    def total(self) -> int:
        """How many there are."""
        return self.done + self.failed + self.skipped + self.running + self.pending

    @property
    def success_ratio(self) -> float | None:
        """The share of those done among those done and failed; None if there are neither."""
        ended = self.done + self.failed
        return self.done / ended if ended else None


class WorkedTask(Value):
    """A task with the session that it belongs to (None outside any); ``seconds`` is None until it ends."""

    task: Task
    session: str | None
    seconds: float | None


class RanCommand(Value):
    """What ``run -- COMMAND`` carried out, with the session in which it did.

    ``seconds`` are those of its last attempt, None until that ends.
    """

    command: Text
    session: str
    state: CommandState
    attempts: int = 0
    started_at: Timestamp | None = None
    ended_at: Timestamp | None = None
    seconds: float | None = None


class SessionActivity(Value):
    """What one session did. ``seconds`` run to its last sign of life, ``stored_bytes`` are its saves'.

    ``command`` is what it carried out where that was no plan, which is no task.
    """

    report: SessionReport
    seconds: float
    tasks: TaskCounts
    checkpoints: int = 0
    stored_bytes: int = 0
    tokens: int | None = None
    memory_bytes: int | None = None
    cpu_seconds: float | None = None
    command: RanCommand | None = None


class CheckpointCounts(Value):
    """How many checkpoints there are, and of which sort; ``by_kind`` has the kinds that occur.

    ``good`` and ``bad`` carry the verdict of a check, ``gaps`` are checkpoints that lack something.
    """

    total: int = 0
    by_kind: Mapping[str, int] = {}
    named: int = 0
    pinned: int = 0
    good: int = 0
    bad: int = 0
    partial: int = 0
    gaps: int = 0
    damaged: int = 0


class Saves(Value):
    """How long saves took, in milliseconds, and what they stored; zeros if there were none."""

    mean_ms: float = 0.0
    median_ms: float = 0.0
    slowest_ms: float = 0.0
    stored_bytes: int = 0


class Sizes(Value):
    """What takes room, in bytes, whatever the period.

    ``workspace`` is what the saves of this workspace stored, ``deleted`` the part of it whose
    checkpoints are deleted and not yet freed: both as they were when they were saved. ``waiting`` is what
    will be free when the grace time of deleted checkpoints is over, ``prunable`` what a prune by the
    policy would free (None where damage is in the way). ``store`` is what the store takes of the disk,
    with all that is in it, and ``store_parts`` says what that is.
    """

    workspace: int = 0
    deleted: int = 0
    store: int = 0
    prunable: int | None = None
    waiting: int | None = None
    store_parts: StoreSize = StoreSize()


class Mark(Value):
    """One checkpoint on the time line; ``at`` is its time as shown, in order whatever the clocks said."""

    id: str
    at: Timestamp
    kind: str
    title: Text


class Bucket(Value):
    """A stretch of time and what fell into it; ``tokens`` and ``stored_bytes`` are those added in it."""

    start: Timestamp
    end: Timestamp
    kinds: Mapping[str, int] = {}
    tasks_done: int = 0
    tasks_failed: int = 0
    tokens: int = 0
    stored_bytes: int = 0
    save_ms: float | None = None

    @property
    def checkpoints(self) -> int:
        """How many checkpoints fell into it."""
        return sum(self.kinds.values())


class Activity(Value):
    """A report on one workspace. Times are in nanoseconds; ``since`` is None for all time.

    ``tokens`` is None if nobody told any. ``operations`` counts restores, undos and so on by type.
    ``marks`` are all checkpoints in order. ``notes`` say what a person should look at.
    """

    workspace: OsText
    store: OsText
    period: Period
    since: int | None
    until: int
    session: str | None
    sessions: tuple[SessionActivity, ...]
    tasks: TaskCounts
    worked: tuple[WorkedTask, ...]
    features: tuple[str, ...]
    checkpoints: CheckpointCounts
    operations: Mapping[str, int]
    effects: tuple[Effect, ...]
    saves: Saves
    sizes: Sizes
    tokens: int | None
    buckets: tuple[Bucket, ...]
    marks: tuple[Mark, ...]
    notes: tuple[HealthNote, ...]
    commands: tuple[RanCommand, ...] = ()

    @property
    def seconds(self) -> float:
        """How long all sessions together were at work."""
        return sum(one.seconds for one in self.sessions)


class Records(Value):
    """What a report is made from: the facts of one workspace as the catalogue has them.

    ``checkpoints`` are newest first, deleted ones among them. ``outside`` is the progress that was
    recorded outside any session. ``commands`` are the ids of the sessions that carry out one command.
    """

    checkpoints: tuple[Checkpoint, ...]
    sessions: tuple[SessionReport, ...]
    outside: tuple[Task, ...] = ()
    outside_features: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()
    effects: tuple[Effect, ...] = ()
    commands: frozenset[str] = frozenset()


COMMAND_STATES: tuple[CommandState, ...] = (
    "done",
    "failed",
    "running",
    "interrupted",
    "taken-back",
    "given-up",
)


def command_states(activity: Activity) -> dict[CommandState, int]:
    """Return how many commands of a report are in which state."""
    states = [one.state for one in activity.commands]
    return {state: states.count(state) for state in COMMAND_STATES}


def session_states(activity: Activity) -> dict[str, int]:
    """Return how many sessions of a report are in which state."""
    states = [one.report.state for one in activity.sessions]
    return {state: states.count(state) for state in ("active", "ended", "incomplete")}
