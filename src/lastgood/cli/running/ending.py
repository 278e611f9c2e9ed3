"""The end of a run: what came of it, in words and as the exit code."""

from __future__ import annotations

import time
from signal import SIGINT

from lastgood.cli.opening import OMISSIONS
from lastgood.cli.plans import going_on_with
from lastgood.cli.unfinished import settled
from lastgood.cli.wording import ago, duration, effect_words
from lastgood.errors import count
from lastgood.ids import short
from lastgood.model.session import TASK_STATES
from lastgood.paths import printable, quoted
from lastgood.workspace.running.resume import unfinished_beside
from lastgood.workspace.running.workspace import RunWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.literals import TaskState
    from lastgood.model.run import RunReport, WorkPlan
    from lastgood.model.session import Effect
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


def end_lines(report: RunReport, call: Call, *, changed: int) -> Iterator[Line]:
    """Yield what came of a run, and what to type next; ``changed`` counts the files that it changed."""
    if report.finished_at is not None:
        yield from _finished_lines(report, call, finished_at=report.finished_at)
        return
    yield _STYLES[report.state], f"{report.state}{_counted(report)}{_time(report)}{_because(report)}"
    for state in ("failed", "skipped", "running", "pending"):
        named = "" if report.plan.command else _named(report, state)
        if named:
            yield "", f"  {'interrupted' if state == 'running' else state}: {named}"
    yield from standing_lines(report, call)
    if report.state != "done" and report.outputs is not None and not report.plan.command:
        yield "", f"  what the tasks printed: {printable(report.outputs)}"
    if report.start is not None and changed:
        start = short(report.start)
        yield "", f"  {count(changed, 'file')} changed: {call.command(f'diff {start}')}"
        yield "", f"  take it back: {call.command(f'restore {start}')}"
    if report.state != "done" and report.conversation is not None:
        for line in going_on_with(report.conversation, call, what="its conversation"):
            yield "", f"  {line}"
    if report.state == "interrupted" or (report.state == "failed" and not report.plan.command):
        yield "", f"  go on with it: {again(call, 'continue')}"


def _finished_lines(report: RunReport, call: Call, *, finished_at: int) -> Iterator[Line]:
    """Yield that a plan had been carried out before, and what to type to have that done again."""
    at = "" if report.checkpoint is None else f", {short(report.checkpoint)}"
    when = ago(finished_at, now=time.time_ns())
    yield _STYLES["done"], f"nothing to do: this plan finished {when}{at} (session {report.session})"
    named = [printable(task.id) for task in report.plan.tasks if task.irreversible]
    if named:
        yield "yellow", f"  irreversible, and done again by that: {', '.join(named[:_SHOWN])}"
    yield "", f"  carry it out again: {again(call, 'again')}"


def standing_lines(report: RunReport, call: Call) -> Iterator[Line]:
    """Yield what a person has to look at before the run goes on."""
    questions = _open_questions(report)
    for effect in questions[:_SHOWN]:
        yield "yellow", f"Effect unknown: {effect_words(effect, now=time.time_ns())}."
        if effect.irreversible:
            task = quoted(printable(effect.task or effect.name))
            yield "", f"  it did happen: {again(call, f'done {task}')}"
            yield "", f"  do it again: {again(call, f'redo {task}')}"
    if len(questions) > _SHOWN:
        yield "yellow", f"Effect unknown: and {len(questions) - _SHOWN:,} more; --json names all."
    for living in report.live_processes[:_SHOWN]:
        yield "yellow", f"Still running: process {living.pid} ({printable(living.command) or '?'})."


def _open_questions(report: RunReport) -> list[Effect]:
    """Return the steps of unknown effect that matter still, of each the last one.

    What could be repeated and has been done since is settled.
    """
    done = {task.id for task in report.tasks if task.state == "done"}
    left = [one for one in report.unknown_effects if one.irreversible or one.task not in done]
    return list({(one.task, one.name): one for one in left}.values())


# Which way a run goes, which the next command says anew; and what stands before its verb.
_NOT_SAID_AGAIN = frozenset(
    {"continue", "fresh", "again", "review", "rebase", "redo", "done", "directory", "store"}
)


def again(call: Call, option: str) -> str:
    """Return the same command, its options too, with another way to go."""
    valued = {one.name for one in call.verb.options if one.value}
    given = [
        f"--{name} {quoted(value)}" if name in valued else f"--{name}"
        for name, values in call.options.items()
        if name not in _NOT_SAID_AGAIN
        for value in values or ("",)
    ]
    options = " ".join([f"--{option}", *given])
    if call.paths is None:
        return call.command(f"run {quoted(call.argument(0) or 'PLAN')} {options}")
    words = " ".join(quoted(printable(word)) for word in call.paths)
    return call.command(f"run {options} -- {words}")


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

_SHOWN_TASKS = 5


def settled_before_run(plan: WorkPlan, call: Call, console: Console, *, workspace: Workspace) -> int | None:
    """Ask about each session that did not finish and that a run would leave waiting; None if it may begin."""
    left = unfinished_beside(RunWorkspace(workspace), plan, again=call.has("again"))
    return settled(left, call, console, workspace=workspace)


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
