"""What a person is told of a run that did not finish, and asked about it (rule P7)."""

from __future__ import annotations

from lastgood.cli.running.ending import standing_lines
from lastgood.cli.wording import count
from lastgood.errors import NotFound
from lastgood.ids import short
from lastgood.model.progress import TASK_STATES
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call
    from lastgood.model.recovery import Choice
    from lastgood.model.running import RunReport
    from lastgood.model.workplan import WorkPlan
    from lastgood.workspace import Workspace

    Line = tuple[str, str]

_ANSWERS: dict[str, Choice] = {
    "c": "continue",
    "continue": "continue",
    "f": "fresh",
    "fresh": "fresh",
    "r": "review",
    "review": "review",
}
_SHOWN = 5


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
    yield "", f"Tasks: {', '.join(_counted(report))}."
    if report.checkpoint is not None:
        yield "", f"Its last checkpoint is {short(report.checkpoint)}."


def _counted(report: RunReport) -> Iterator[str]:
    for state in TASK_STATES:
        named = [printable(task.id) for task in report.tasks if task.state == state]
        if named:
            shown = ", ".join(named[:_SHOWN]) + (", ..." if len(named) > _SHOWN else "")
            yield f"{len(named)} {state}" + ("" if state in {"done", "pending"} else f" ({shown})")


def _task_lines(report: RunReport) -> Iterator[Line]:
    for task in report.tasks:
        tried = f", {count(task.attempts, 'attempt')}" if task.attempts else ""
        yield "", f"  {printable(task.id)}: {task.state}{tried}"
