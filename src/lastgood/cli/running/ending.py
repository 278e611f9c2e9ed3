"""The end of a run: what came of it, in words and as the exit code."""

from __future__ import annotations

import time

from lastgood.cli.activity import duration
from lastgood.cli.grammar import quoted
from lastgood.cli.recovering import effect_words
from lastgood.cli.wording import count
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.cli.grammar import Call
    from lastgood.model.progress import TaskState
    from lastgood.model.running import RunReport

    Line = tuple[str, str]

OMISSIONS = 3
INTERRUPTED = 130
_SHOWN = 10
_STYLES = {"done": "green", "failed": "red", "interrupted": "yellow"}


def exit_code(report: RunReport) -> int:
    """Return the exit code of a run; that of one command is the command's own (128 and a signal's number)."""
    if report.state == "interrupted":
        return INTERRUPTED
    if report.state == "done":
        return 0
    if report.plan.command and report.exit_code:
        return 128 - report.exit_code if report.exit_code < 0 else report.exit_code
    return OMISSIONS


def end_lines(report: RunReport, call: Call) -> Iterator[Line]:
    """Yield what came of a run, and what to type next."""
    yield _STYLES[report.state], f"{report.state}: {_counted(report)} in {duration(report.seconds)}"
    for state in ("failed", "skipped", "running", "pending"):
        named = _named(report, state)
        if named:
            yield "", f"  {state}: {named}"
    yield from standing_lines(report, call)
    if report.state != "done":
        if report.outputs is not None:
            yield "", f"  what the tasks printed: {printable(report.outputs)}"
        yield "", f"  go on with it: {again(call, 'continue')}"


def standing_lines(report: RunReport, call: Call) -> Iterator[Line]:
    """Yield what a person has to look at before the run goes on."""
    for effect in report.unknown_effects:
        yield "yellow", f"Effect unknown: {effect_words(effect, now=time.time_ns())}."
        if effect.irreversible:
            task = quoted(printable(effect.task or effect.name))
            yield "", f"  it did happen: {again(call, f'done {task}')}"
            yield "", f"  do it again: {again(call, f'redo {task}')}"
    for living in report.live_processes[:_SHOWN]:
        yield "yellow", f"Still running: process {living.pid} ({printable(living.command) or '?'})."


def again(call: Call, option: str) -> str:
    """Return the same command with an option."""
    if call.paths is None:
        return call.command(f"run {quoted(call.argument(0) or 'PLAN')} --{option}")
    words = " ".join(quoted(printable(word)) for word in call.paths)
    return call.command(f"run --{option} -- {words}")


def _counted(report: RunReport) -> str:
    done = sum(task.state == "done" for task in report.tasks)
    total = len(report.tasks)
    if done == total:
        return count(total, "task")
    return f"{done} of {count(total, 'task')} done"


def _named(report: RunReport, state: TaskState) -> str:
    named = [printable(task.id) for task in report.tasks if task.state == state]
    more = f" and {len(named) - _SHOWN:,} more" if len(named) > _SHOWN else ""
    return ", ".join(named[:_SHOWN]) + more
