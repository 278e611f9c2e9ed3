"""What happens in a run, in words for people; the same on a terminal and in a log."""

from __future__ import annotations

import re

from lastgood.cli.activity import duration
from lastgood.cli.wording import count
from lastgood.ids import short
from lastgood.names import printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lastgood.cli.running.board import Board
    from lastgood.model.running import RunEvent

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
        yield "dim", f"before the command: {short(event.checkpoint)}"
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
    yield "", f"started{attempt}{back}"


def _checkpoint(event: RunEvent) -> Iterator[Line]:
    kind = "" if event.kind is None else f" ({event.kind})"
    yield "dim", f"checkpoint {_short(event) or '?'}{kind}"


def _check_started(_event: RunEvent) -> Iterator[Line]:
    yield "", "checking"


def _attempt_failed(event: RunEvent) -> Iterator[Line]:
    after = "" if event.seconds is None else f" after {duration(event.seconds)}"
    yield "yellow", f"attempt {event.attempt or 1} failed{after}{_at(event)}{_because(event)}"


def _rolled_back(event: RunEvent) -> Iterator[Line]:
    kept = "" if event.checkpoint is None else f"; what was there is in {_short(event)}"
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


def _task_skipped(event: RunEvent) -> Iterator[Line]:
    yield "dim", f"skipped{_because(event)}"


def _sprint_done(event: RunEvent) -> Iterator[Line]:
    yield "green", f"sprint {printable(event.sprint or '?')}: done{_at(event)}"


def _noticed(event: RunEvent) -> Iterator[Line]:
    yield "yellow", printable(event.reason or "?")
    yield from _paths(event)


def _interrupted(event: RunEvent) -> Iterator[Line]:
    yield "yellow", f"{printable(event.reason or 'interrupted')}{_at(event)}"


def _paths(event: RunEvent) -> Iterator[Line]:
    for path in event.paths[:PATHS_SHOWN]:
        yield "", f"    {printable(to_text(path))}"
    if len(event.paths) > PATHS_SHOWN:
        yield "", f"    and {len(event.paths) - PATHS_SHOWN:,} more"


def _short(event: RunEvent) -> str:
    return "" if event.checkpoint is None else short(event.checkpoint)


def _at(event: RunEvent) -> str:
    return "" if event.checkpoint is None else f", {short(event.checkpoint)}"


def _because(event: RunEvent) -> str:
    return f": {printable(event.reason)}" if event.reason else ""


_WORDS: dict[str, Callable[[RunEvent], Iterator[Line]]] = {
    "started": _started,
    "task-started": _task_started,
    "checkpoint": _checkpoint,
    "check-started": _check_started,
    "attempt-failed": _attempt_failed,
    "rolled-back": _rolled_back,
    "task-done": _task_done,
    "task-failed": _task_failed,
    "task-skipped": _task_skipped,
    "sprint-done": _sprint_done,
    "noticed": _noticed,
    "interrupted": _interrupted,
}
