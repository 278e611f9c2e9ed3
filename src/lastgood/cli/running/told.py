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

    from lastgood.model.running import RunEvent

    # A style of the console (empty: none), and one line of text.
    Line = tuple[str, str]

PATHS_SHOWN = 10
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


def told(event: RunEvent) -> Iterator[Line]:
    """Yield the lines that say what happened; none for output and for what is told by others."""
    say = _WORDS.get(event.type)
    if say is not None:
        yield from say(event)


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
    yield "", f"{_task(event)}: started{attempt}{back}"


def _checkpoint(event: RunEvent) -> Iterator[Line]:
    if event.checkpoint is not None:
        kind = "" if event.kind is None else f" ({event.kind})"
        yield "dim", f"checkpoint {short(event.checkpoint)}{kind}"


def _check_started(event: RunEvent) -> Iterator[Line]:
    yield "", f"{_task(event)}: checking"


def _attempt_failed(event: RunEvent) -> Iterator[Line]:
    yield "yellow", f"{_task(event)}: attempt {event.attempt or 1} failed{_after(event)}{_because(event)}"


def _rolled_back(event: RunEvent) -> Iterator[Line]:
    kept = "" if event.checkpoint is None else f"; what was there is in {short(event.checkpoint)}"
    of = "" if event.task is None else f"{_task(event)}: "
    yield "yellow", f"{of}{count(len(event.paths), 'path')} taken back{kept}"
    for path in event.paths[:PATHS_SHOWN]:
        yield "", f"    {printable(to_text(path))}"
    if len(event.paths) > PATHS_SHOWN:
        yield "", f"    and {len(event.paths) - PATHS_SHOWN:,} more"
    if event.reason:
        yield "yellow", f"    {printable(event.reason)}"


def _task_done(event: RunEvent) -> Iterator[Line]:
    at = "" if event.checkpoint is None else f", {short(event.checkpoint)}"
    good = " is good" if event.good else ""
    yield "green", f"{_task(event)}: done{_in(event)}{at}{good}"


def _task_failed(event: RunEvent) -> Iterator[Line]:
    yield "red", f"{_task(event)}: failed{_because(event)}"


def _task_skipped(event: RunEvent) -> Iterator[Line]:
    yield "dim", f"{_task(event)}: skipped{_because(event)}"


def _sprint_done(event: RunEvent) -> Iterator[Line]:
    at = "" if event.checkpoint is None else f", {short(event.checkpoint)}"
    yield "green", f"sprint {printable(event.sprint or '?')}: done{at}"


def _noticed(event: RunEvent) -> Iterator[Line]:
    of = "" if event.task is None else f"{_task(event)}: "
    yield "yellow", f"{of}{printable(event.reason or '?')}"
    for path in event.paths[:PATHS_SHOWN]:
        yield "", f"    {printable(to_text(path))}"
    if len(event.paths) > PATHS_SHOWN:
        yield "", f"    and {len(event.paths) - PATHS_SHOWN:,} more"


def _interrupted(event: RunEvent) -> Iterator[Line]:
    of = "" if event.task is None else f" {_task(event)}"
    at = "" if event.checkpoint is None else f", {short(event.checkpoint)}"
    yield "yellow", f"interrupted{of}{at}{_because(event)}"


def _task(event: RunEvent) -> str:
    return printable(event.task or "?")


def _in(event: RunEvent) -> str:
    return "" if event.seconds is None else f" in {duration(event.seconds)}"


def _after(event: RunEvent) -> str:
    return "" if event.seconds is None else f" after {duration(event.seconds)}"


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
