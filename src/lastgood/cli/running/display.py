"""What happens in a run, in words for people; the same on a terminal and in a log."""

from __future__ import annotations

import re
import time
from collections import deque

from lastgood.cli.hints import completed, typable
from lastgood.cli.wording import duration
from lastgood.errors import count
from lastgood.ids import short
from lastgood.model.run import RunEvent
from lastgood.paths import printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

    from lastgood.cli.opening import Console
    from lastgood.literals import TaskState
    from lastgood.model.run import RunReport
    from lastgood.model.session import Task

    # A style of the console (empty: none), and one line of text.
    Line = tuple[str, str]


PATHS_SHOWN = 10
# What is said of a task that a run finds done when it goes on; how many those are is said at the start.
DONE_BEFORE = "it is done"
# Colours are told by nobody else's taste; every other control sequence is shown escaped.
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")


def output_line(line: str, *, limit: int | None = None) -> str:
    """Return one line of a task's output as a terminal would leave it, fit to be shown.

    Of what a carriage return overwrote only the last remains; ``limit`` cuts what is far too long.
    """
    rest = line.rstrip("\r")
    if limit is not None and len(rest) > 4 * limit:
        rest = rest.rpartition("\r")[2][: 4 * limit]
    rest = _COLOURS.sub("", rest.rpartition("\r")[2])
    return printable(rest.expandtabs(8))


def told(event: RunEvent, *, command: bool) -> Iterator[Line]:
    """Yield the lines that say what happened; none for output, nor for what other lines say.

    Of one command its task is not named, nor said what its end says.
    """
    if _is_said_elsewhere(event, command=command):
        return
    if command and event.type == "task-started" and event.attempt == 1 and event.checkpoint is not None:
        unseen = " (the command's output is not recorded)" if event.terminal else ""
        yield "dim", f"saved first: {short(event.checkpoint)}{unseen}"
        return
    name = "" if command or event.task is None else f"{printable(event.task)}: "
    for index, (style, text) in enumerate(_WORDS[event.type](event)):
        yield style, f"{name}{text}" if index == 0 else text


def told_late(board: Board, *, command: bool) -> Iterator[Line]:
    """Yield what is to be said of a checkpoint that was made while a task ran, before the next thing."""
    late = board.late
    if late is not None:
        name = "" if command or late.task is None else f"{printable(late.task)}: "
        for style, text in _checkpoint(late):
            yield style, f"{name}{text}"


def _is_said_elsewhere(event: RunEvent, *, command: bool) -> bool:
    if event.type not in _WORDS:
        return True
    if event.type == "checkpoint":
        # Others are named by what they were made for: a task's start, its end, a failure.
        return command or event.kind not in {"session-start", "session-end"}
    if event.type == "task-skipped":
        return event.reason == DONE_BEFORE
    if event.type == "started":
        return command and not event.continued
    return command and event.type in {"task-done", "task-failed", "check-started"}


def _started(event: RunEvent) -> Iterator[Line]:
    total = len(event.tasks)
    if event.continued:
        done = sum(task.state == "done" for task in event.tasks)
        yield "bold", f"going on with session {event.session}: {done} of {count(total, 'task')} done"
    else:
        yield "bold", f"started session {event.session}: {count(total, 'task')}"


def _task_started(event: RunEvent) -> Iterator[Line]:
    attempt = "" if (event.attempt or 1) == 1 else f", attempt {event.attempt}"
    back = "" if event.checkpoint is None else f", from {short(event.checkpoint)}"
    yield "", f"started{attempt}{back}{_lent(event)}"


def _lent(event: RunEvent) -> str:
    return "; it has the terminal, so its output is not recorded" if event.terminal else ""


def _checkpoint(event: RunEvent) -> Iterator[Line]:
    kind = "" if event.kind is None else f" ({event.kind})"
    yield "dim", f"checkpoint {'?' if event.checkpoint is None else short(event.checkpoint)}{kind}"


def _attempt_failed(event: RunEvent) -> Iterator[Line]:
    after = "" if event.seconds is None else f" after {duration(event.seconds)}"
    yield "yellow", f"attempt {event.attempt or 1} failed{after}{_at(event)}{_because(event)}"


def _rolled_back(event: RunEvent) -> Iterator[Line]:
    kept = "" if event.checkpoint is None else f"; what was there is in {short(event.checkpoint)}"
    back = f"{count(len(event.paths), 'path')} taken back" if event.paths else "nothing had to be taken back"
    yield "yellow", f"{back}{kept}"
    yield from _paths(event)
    if event.reason is not None:
        yield "", f"  {printable(event.reason)}"


def _task_done(event: RunEvent) -> Iterator[Line]:
    time = "" if event.seconds is None else f" in {duration(event.seconds)}"
    good = " is good" if event.good else ""
    yield "green", f"done{time}{_at(event)}{good}{_because(event)}"


def _task_failed(event: RunEvent) -> Iterator[Line]:
    attempts = "" if event.attempt is None else f" at attempt {event.attempt}"
    yield "red", f"failed{attempts}"


def _noticed(event: RunEvent) -> Iterator[Line]:
    yield "yellow", printable(event.reason or "?")
    yield from _paths(event)


def _paths(event: RunEvent) -> Iterator[Line]:
    for path in event.paths[:PATHS_SHOWN]:
        yield "", f"    {printable(to_text(path))}"
    if len(event.paths) > PATHS_SHOWN:
        yield "", f"    and {len(event.paths) - PATHS_SHOWN:,} more"


def _at(event: RunEvent) -> str:
    return "" if event.checkpoint is None else f", {short(event.checkpoint)}"


def _because(event: RunEvent) -> str:
    return f": {printable(event.reason)}" if event.reason else ""


_WORDS: dict[str, Callable[[RunEvent], Iterable[Line]]] = {
    "started": _started,
    "task-started": _task_started,
    "checkpoint": _checkpoint,
    "check-started": lambda _event: [("", "checking")],
    "attempt-failed": _attempt_failed,
    "rolled-back": _rolled_back,
    "task-done": _task_done,
    "task-failed": _task_failed,
    "task-skipped": lambda event: [("dim", f"skipped{_because(event)}")],
    "sprint-done": lambda event: [("green", f"sprint {printable(event.sprint or '?')}: done{_at(event)}")],
    "noticed": _noticed,
    "interrupted": lambda event: [("yellow", f"{printable(event.reason or 'interrupted')}{_at(event)}")],
}


# --- What a display knows of a run: how each task stands, and what is going on ---

TAIL = 10
_ENDED: dict[str, TaskState] = {"task-done": "done", "task-failed": "failed", "task-skipped": "skipped"}


class Board:
    """Follows the events of a run; ``clock`` counts seconds and is never set back.

    ``late`` is a checkpoint made
    while a task ran, to be told with the event after it: only that shows whether it was for the check.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._attempt_began = self._began
        self.states: dict[str, TaskState] = {}
        self.task: str | None = None
        self.sprint: str | None = None
        self.attempt: int = 0
        self.checking: bool = False
        self.checkpoints: int = 0
        self.late: RunEvent | None = None
        self._waiting: RunEvent | None = None
        self.line: str = ""
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


class Display:
    """Shows a run while it is entered; called with each event, which the board has taken in."""

    def __init__(self, console: Console, board: Board) -> None:
        self._console = console
        self._board = board

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._console.flush()

    def __call__(self, event: RunEvent) -> None:
        """Show one event."""

    def told(self, event: RunEvent, *, command: bool) -> Iterator[Line]:
        """Yield the lines that say what happened, a command in them for the same workspace and store."""
        if event.reason is not None:
            event = event.replace(reason=typable(completed(event.reason, self._console.call)))
        return told(event, command=command)

    def output(self, part: bytes) -> None:
        """Show what a command wrote, if it is shown as it is."""

    def leave_terminal(self) -> None:
        """Show nothing more until the next event: a command has the terminal."""
        self._console.flush()

    def enter_terminal(self) -> None:
        """Go on showing: the terminal is the run's again."""


# --- A run as plain lines: for logs, pipes and terminals that cannot do more ---

# What --quiet leaves out: it is kept with the session all the same.
_ROUTINE = frozenset({"started", "task-started", "checkpoint", "check-started", "output"})


class PlanLines(Display):
    """Tells a run of a plan on standard output."""

    def __call__(self, event: RunEvent) -> None:
        """Tell one event."""
        if self._console.quiet and event.type in _ROUTINE:
            return
        late = () if self._console.quiet else told_late(self._board, command=False)
        for style, text in (*late, *self.told(event, command=False)):
            self._console.line(self._console.styled(text, style) if style else text)
        if event.type == "output":
            self._console.line(f"  | {output_line(event.line or '')}")
        self._console.flush()


class CommandLines(Display):
    """Passes the output of one command on to standard output; all else goes to standard error."""

    def __call__(self, event: RunEvent) -> None:
        """Tell one event."""
        if event.type == "output" and self._board.checking:
            self._console.note(f"  | {output_line(event.line or '')}")
        elif event.type == "output" and self._console.out_is_terminal:
            self._console.line(output_line(event.line or ""))
            self._console.flush()
        late = told_late(self._board, command=True)
        for style, text in (*late, *self.told(event, command=True)):
            say = self._console.warn if style in {"yellow", "red"} else self._console.note
            say(text)

    def output(self, part: bytes) -> None:
        """Pass on what the command wrote, as it is."""
        self._console.send(part)
        self._console.flush()


# --- A run as JSON Lines: one document for each thing that happens ---


class JsonLines(Display):
    """Tells a run to a program; each line is written as soon as it is known.

    The first line says how all tasks stand, the later ones those that stand otherwise: a plan may have
    thousands. The report at the end has all again.
    """

    def __init__(self, console: Console, board: Board) -> None:
        super().__init__(console, board)
        from lastgood.documents import event_document  # lazily: only programs are told so

        self._document = event_document
        self._standing: dict[str, Task] = {}
        self._last: RunEvent | None = None

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
        self._console.document(self._document(event))
        self._console.flush()

    def end(self, report: RunReport) -> None:
        """Write the last line."""
        last = self._last
        if last is None:
            # The run had finished before: nothing happened that could have been told.
            last = RunEvent(type="finished", at=time.time_ns(), session=report.session, reason=report.reason)
        self._console.document(self._document(last, report))
        self._console.flush()
