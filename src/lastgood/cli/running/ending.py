"""The end of a run: what came of it, in words and as the exit code."""

from __future__ import annotations

import time
from signal import SIGINT

from lastgood.cli.grammar import quoted
from lastgood.cli.opening import OMISSIONS
from lastgood.cli.wording import count, duration, effect_words
from lastgood.errors import NotFound
from lastgood.ids import short
from lastgood.model.run import CHOICES
from lastgood.model.session import TASK_STATES
from lastgood.paths import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.run import Choice, RunReport, WorkPlan
    from lastgood.model.session import Effect, TaskState
    from lastgood.workspace import Workspace

    Line = tuple[str, str]


SIGNALLED = 128
_SHOWN = 10
_STYLES = {"done": "green", "failed": "red", "interrupted": "yellow"}


def exit_code(report: RunReport) -> int:
    """Return the exit code of a run; that of one command is the command's own (128 and a signal's number)."""
    if report.state == "interrupted":
        return SIGNALLED + (report.signal or SIGINT)
    if report.state == "done":
        return 0
    return (report.plan.command and report.exit_code) or OMISSIONS


def end_lines(report: RunReport, call: Call, *, start: str | None, changed: int) -> Iterator[Line]:
    """Yield what came of a run, and what to type next.

    ``start`` is the checkpoint before its first task, ``changed`` how many files changed since.
    """
    yield _STYLES[report.state], f"{report.state}{_counted(report)}{_time(report)}{_because(report)}"
    for state in ("failed", "skipped", "running", "pending"):
        named = "" if report.plan.command else _named(report, state)
        if named:
            yield "", f"  {state}: {named}"
    yield from standing_lines(report, call)
    if report.state != "done" and report.outputs is not None and not report.plan.command:
        yield "", f"  what the tasks printed: {printable(report.outputs)}"
    if start is not None and changed:
        yield "", f"  {count(changed, 'file')} changed: {call.command(f'diff {short(start)}')}"
        yield "", f"  take it back: {call.command(f'restore {short(start)}')}"
    if report.state != "done" and report.conversation is not None and report.conversation.resume_command:
        yield "", f"  go on with its conversation: {report.conversation.resume_command}"
    if report.state == "interrupted" or (report.state == "failed" and not report.plan.command):
        yield "", f"  go on with it: {again(call, 'continue')}"


def standing_lines(report: RunReport, call: Call) -> Iterator[Line]:
    """Yield what a person has to look at before the run goes on."""
    for effect in _open_questions(report):
        yield "yellow", f"Effect unknown: {effect_words(effect, now=time.time_ns())}."
        if effect.irreversible:
            task = quoted(printable(effect.task or effect.name))
            yield "", f"  it did happen: {again(call, f'done {task}')}"
            yield "", f"  do it again: {again(call, f'redo {task}')}"
    for living in report.live_processes[:_SHOWN]:
        yield "yellow", f"Still running: process {living.pid} ({printable(living.command) or '?'})."


def _open_questions(report: RunReport) -> list[Effect]:
    """Return the steps of unknown effect that matter still, of each the last one.

    What could be repeated and has been done since is settled.
    """
    done = {task.id for task in report.tasks if task.state == "done"}
    left = [one for one in report.unknown_effects if one.irreversible or one.task not in done]
    return list({(one.task, one.name): one for one in left}.values())


def again(call: Call, option: str) -> str:
    """Return the same command with an option."""
    if call.paths is None:
        return call.command(f"run {quoted(call.argument(0) or 'PLAN')} --{option}")
    words = " ".join(quoted(printable(word)) for word in call.paths)
    return call.command(f"run --{option} -- {words}")


def _counted(report: RunReport) -> str:
    if report.plan.command:
        return ""
    done, total = sum(task.state == "done" for task in report.tasks), len(report.tasks)
    return f": {count(total, 'task')}" if done == total else f": {done} of {count(total, 'task')} done"


def _time(report: RunReport) -> str:
    return f" in {duration(report.seconds)}" if report.seconds else ""


def _because(report: RunReport) -> str:
    """Return the reason; that of one command has been told with its attempt."""
    if report.reason is None or (report.plan.command and report.state == "failed"):
        return ""
    return f": {printable(report.reason)}"


def _named(report: RunReport, state: TaskState) -> str:
    named = [printable(task.id) for task in report.tasks if task.state == state]
    more = f" and {len(named) - _SHOWN:,} more" if len(named) > _SHOWN else ""
    return ", ".join(named[:_SHOWN]) + more


# --- What a person is told of a run that did not finish, and asked about it (rule P7) ---

_ANSWERS = {word: choice for choice in CHOICES for word in (choice, choice[0])}
_SHOWN_TASKS = 5


def asked(
    plan: str | WorkPlan, call: Call, console: Console, *, workspace: Workspace
) -> tuple[Choice | None, bool]:
    """Return what is to become of a run that did not finish, and whether a person would rather leave."""
    try:
        report = workspace.run(plan, choice="review")
    except NotFound:
        return None, False  # nothing waits; if it is the plan that is missing, that will be told
    for _, line in (*_short_lines(report), *standing_lines(report, call)):
        console.warn(line)
    while True:
        answer = console.ask(
            "c to continue, f to end it and start fresh, r to review it, nothing to leave: "
        ).lower()
        choice = _ANSWERS.get(answer)
        if choice != "review":
            break
        for _, line in _task_lines(report):
            console.warn(line)
    if choice is None:
        console.warn("nothing was changed")
    return choice, choice is None


def review_lines(report: RunReport, call: Call) -> Iterator[Line]:
    """Yield where a run stood that did not finish."""
    yield from _short_lines(report)
    yield from _task_lines(report)
    yield from standing_lines(report, call)


def _short_lines(report: RunReport) -> Iterator[Line]:
    goal = f" ({printable(report.plan.goal)})" if report.plan.goal else ""
    yield "bold", f"Session {report.session}{goal} did not finish."
    yield "", f"Tasks: {', '.join(_counted_tasks(report))}."
    if report.checkpoint is not None:
        yield "", f"Its last checkpoint is {short(report.checkpoint)}."


def _counted_tasks(report: RunReport) -> Iterator[str]:
    for state in TASK_STATES:
        named = [printable(task.id) for task in report.tasks if task.state == state]
        if named:
            shown = ", ".join(named[:_SHOWN_TASKS]) + (", ..." if len(named) > _SHOWN_TASKS else "")
            yield f"{len(named)} {state}" + ("" if state in {"done", "pending"} else f" ({shown})")


def _task_lines(report: RunReport) -> Iterator[Line]:
    for task in report.tasks:
        tried = f", {count(task.attempts, 'attempt')}" if task.attempts else ""
        yield "", f"  {printable(task.id)}: {task.state}{tried}"
