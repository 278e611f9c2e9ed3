"""How far the work has come: position, tasks, features, and whatever else the caller keeps (rule P2)."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    TaskState = Literal["pending", "running", "done", "failed", "skipped"]

TASK_STATES: tuple[TaskState, ...] = ("pending", "running", "done", "failed", "skipped")


class Position(Value):
    """Where in a workflow the work stands; ``step`` is the present one of ``steps``.

    ``artifacts`` are the paths, relative to the workspace, of what is being worked on.
    """

    phase: str | None = None
    iteration: int | None = None
    step: int | None = None
    steps: int | None = None
    sprint: str | None = None
    artifacts: tuple[bytes, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing is known."""
        return self == Position()


class Task(Value):
    """One piece of work. Times are in nanoseconds since the epoch; ``attempts`` counts its starts."""

    id: str
    state: TaskState = "pending"
    attempts: int = 0
    started_at: int | None = None
    ended_at: int | None = None


class Features(Value):
    """The feature being built, and those that are complete."""

    current: str | None = None
    completed: tuple[str, ...] = ()


class Progress(Value):
    """Everything said about how far the work has come.

    ``tasks`` are in the order in which they were first named. ``state`` is a JSON object of the
    caller's own.
    """

    goal: str | None = None
    position: Position = Position()
    tasks: tuple[Task, ...] = ()
    features: Features = Features()
    state: Mapping[str, object] = {}

    @property
    def empty(self) -> bool:
        """Whether nothing was ever said."""
        return self == Progress()

    def count(self, *states: TaskState) -> int:
        """Return how many tasks are in some states."""
        return len([None for task in self.tasks if task.state in states])
