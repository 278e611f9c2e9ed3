"""run: carry out a plan of tasks, or one command (rules P1, P3, P6, P7)."""

from __future__ import annotations

import os
import time

from lastgood.cli import values
from lastgood.cli.faults import tell_interrupted
from lastgood.cli.opening import open_for
from lastgood.cli.restoring import DECLINED
from lastgood.cli.running.asking import asked, review_lines
from lastgood.cli.running.board import Board
from lastgood.cli.running.ending import SIGNALLED, again, end_lines, exit_code
from lastgood.cli.running.lines import JsonLines
from lastgood.cli.running.screen import Screen, display_for
from lastgood.codec.report.running import reviewed_document
from lastgood.errors import LastgoodError, Usage
from lastgood.value import cast
from lastgood.workspace.running.plans import plan_from
from lastgood.workspace.running.signals import Signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call
    from lastgood.model.recovery import Choice
    from lastgood.model.running import RunReport
    from lastgood.model.workplan import OnFailure, WorkPlan
    from lastgood.workspace import Workspace

_CHOICES = ("continue", "fresh", "review")
# Said only of a run that goes on.
_GOING_ON = ("rebase", "redo", "done")
_OF_A_COMMAND = frozenset({"check", "retries", "timeout", "on-failure", "goal"})


def carry_out(call: Call, console: Console) -> int:
    """Run; on a terminal a person is asked what to do about a run that did not finish."""
    if call.has("schema"):
        return _schema(call, console)
    plan, choice = _plan(call), _choice(call)
    plan_from(plan)  # one that is not there, or none, makes no store
    begun = choice in {"review", "continue"} or call.has("redo") or call.has("done")
    with open_for(call, purpose="find" if begun else "make") as workspace:
        if choice == "review":
            return _review(plan, call, console, workspace=workspace)
        if choice is None and console.can_ask and not any(call.has(option) for option in _GOING_ON):
            choice, declined = asked(plan, call, console, workspace=workspace)
            if declined:
                return DECLINED
        Signals.outlast()
        try:
            report = _run(plan, choice, call, console, workspace=workspace)
        except KeyboardInterrupt as stop:
            code = tell_interrupted(console)
            return SIGNALLED + stop.args[0] if stop.args else code
        console.flush()
    return exit_code(report)


def _schema(call: Call, console: Console) -> int:
    """Print the schema as a document of its own: it is what editors read."""
    from json import dumps

    from lastgood.codec.workplan_schema import plan_schema

    if call.argument(0) is not None or call.paths is not None:
        raise Usage("--schema carries nothing out", hint="write: lastgood run --schema")
    console.line(dumps(plan_schema(), indent=2))
    return 0


def _choice(call: Call) -> Choice | None:
    given = [name for name in _CHOICES if call.has(name)]
    if len(given) > 1:
        raise Usage(f"--{given[0]} and --{given[1]} do not go together", hint="give one of them")
    return cast("Choice", given[0]) if given else None


def _plan(call: Call) -> str | WorkPlan:
    """Return what is to be carried out: a file's path, or the plan of one command."""
    file = call.argument(0)
    if file is not None and call.paths is not None:
        raise Usage("a plan and a command do not go together", hint=f"write: lastgood {call.verb.usage}")
    if call.paths is not None:
        return _command_plan(call, call.paths)
    if not file:
        raise Usage("`run` needs a plan or a command", hint=f"write: lastgood {call.verb.usage}")
    for option in call.options:
        if option in _OF_A_COMMAND:
            raise Usage(f"--{option} is for one command", hint=f"a plan says it itself, as `{_key(option)}:`")
    return _found(file, call.text("directory"))


def _found(file: str, directory: str | None) -> str:
    """Return the path of a plan: from the current folder on, or else from the one of -C."""
    path = os.path.abspath(file)
    if directory is None or os.path.lexists(path):
        return path
    beside = os.path.abspath(os.path.join(directory, file))
    return beside if os.path.lexists(beside) else path


def _command_plan(call: Call, words: tuple[str, ...]) -> WorkPlan:
    from lastgood.codec.workplan import checked_plan
    from lastgood.rules.workplan import command_plan

    plan = command_plan(words)
    task = plan.tasks[0].replace(
        check=call.text("check"),
        retries=values.count_option(call, "retries") or 0,
        timeout=values.seconds_option(call, "timeout"),
        on_failure=cast("OnFailure", call.text("on-failure") or "stop"),
    )
    return checked_plan(plan.replace(tasks=(task,), goal=call.text("goal")))


def _key(option: str) -> str:
    return option.replace("-", "_")


def _run(
    plan: str | WorkPlan, choice: Choice | None, call: Call, console: Console, *, workspace: Workspace
) -> RunReport:
    board = Board(time.monotonic)
    lines = JsonLines(console) if console.json else None
    command = None if call.paths is None else " ".join(call.paths)
    as_it_is = command is not None and lines is None and not console.out_is_terminal
    with Screen(lines or display_for(console, board, command=command), board, console) as screen:
        report = workspace.run(
            plan,
            choice=choice,
            rebase=call.has("rebase"),
            redo=call.texts("redo"),
            done=call.texts("done"),
            observer=screen,
            output=screen.output if as_it_is else None,
        )
    if lines is not None:
        lines.end(report)
        return report
    changed = _changed(board.start, report.checkpoint, workspace=workspace)
    for style, text in end_lines(report, call, start=board.start, changed=changed):
        if command is None:
            console.line(console.styled(text, style) if style else text)
        else:
            console.note(text)
    return report


def _changed(start: str | None, end: str | None, *, workspace: Workspace) -> int:
    """Return how many files a run changed, as far as its checkpoints tell."""
    if start is None or end is None:
        return 0
    try:
        return len(workspace.diff(start, end, patch=False).files)
    except LastgoodError:
        return 0  # nothing that the end of a run could be denied for


def _review(plan: str | WorkPlan, call: Call, console: Console, *, workspace: Workspace) -> int:
    report = workspace.run(plan, choice="review")
    if console.json:
        console.document(reviewed_document(report, at=time.time_ns()))
        return 0
    for style, text in review_lines(report, call):
        console.line(console.styled(text, style) if style else text)
    console.note(f"go on with it: {again(call, 'continue')}")
    console.note(f"end it and start anew: {again(call, 'fresh')}")
    return 0
