"""What a display knows of a run: how each task stands, and what is going on."""

from __future__ import annotations

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.model.progress import TaskState
    from lastgood.model.running import RunEvent

TAIL = 10
_ENDED: dict[str, TaskState] = {"task-done": "done", "task-failed": "failed", "task-skipped": "skipped"}


class Board:
    """Follows the events of a run; ``clock`` counts seconds and is never set back.

    ``start`` is the checkpoint that leads back to before the first task. ``late`` is a checkpoint made
    while a task ran, to be told with the event after it: only that shows whether it was for the check.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._attempt_began = self._began
        self.states: dict[str, TaskState] = {}
        self.task: str | None = None
        self.start: str | None = None
        self.sprint: str | None = None
        self.attempt = 0
        self.checking = False
        self.checkpoints = 0
        self.late: RunEvent | None = None
        self._waiting: RunEvent | None = None
        self.line = ""
        self.tail: deque[str] = deque(maxlen=TAIL)

    def take(self, event: RunEvent) -> None:
        """Take in what happened."""
        self._wait(event)
        if event.type == "output":
            self.line = event.line or ""
            self.tail.append(self.line)
            return
        for task in event.tasks:
            self.states[task.id] = task.state
        if event.type == "task-started" and event.task is not None:
            self.start = self.start or event.checkpoint
            self.sprint = event.sprint
            self._start(event.task, event.attempt or 1)
        elif event.type == "check-started":
            self.checking = True
        elif event.type == "checkpoint":
            self.checkpoints += 1
        elif event.type == "attempt-failed":
            self.task = None
        elif event.type in _ENDED and event.task is not None:
            self._end(event.task, _ENDED[event.type])

    def _wait(self, event: RunEvent) -> None:
        late, self._waiting = self._waiting, None
        checks = late is not None and event.type == "check-started" and event.checkpoint == late.checkpoint
        self.late = None if checks else late
        if event.type == "checkpoint" and event.kind == "auto" and self.task is not None:
            self._waiting = event

    def _start(self, task: str, attempt: int) -> None:
        self.states[task] = "running"
        self.task, self.attempt, self.checking = task, attempt, False
        self.line = ""
        self.tail.clear()
        self._attempt_began = self._clock()

    def _end(self, task: str, state: TaskState) -> None:
        if self.states.get(task) != "done":
            self.states[task] = state
        if task == self.task:
            self.task = None

    @property
    def elapsed(self) -> float:
        """How long the run has been shown, in seconds."""
        return self._clock() - self._began

    @property
    def attempt_elapsed(self) -> float:
        """How long the attempt under way has taken, in seconds."""
        return self._clock() - self._attempt_began

    def count(self, state: TaskState) -> int:
        """Return how many tasks are in a state."""
        return sum(one == state for one in self.states.values())

    def pending(self) -> list[str]:
        """Return the tasks that have not begun, in order."""
        return [id for id, state in self.states.items() if state == "pending"]
