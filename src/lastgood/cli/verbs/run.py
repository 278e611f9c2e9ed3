"""run: carry out a plan of tasks, or one command (rules P1, P3, P6, P7)."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from lastgood.cli import opening
from lastgood.cli.faults import tell_interrupted
from lastgood.cli.opening import open_for
from lastgood.cli.running.display import Board, JsonLines
from lastgood.cli.running.ending import (
    SIGNALLED,
    again,
    end_lines,
    exit_code,
    review_lines,
    settled_before_run,
)
from lastgood.errors import LastgoodError, Storage, Usage
from lastgood.model.run import CHOICES
from lastgood.value import cast
from lastgood.workspace.running.context import Signals
from lastgood.workspace.running.resume import plan_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self, TypeVar

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.cli.running.display import Display
    from lastgood.literals import Choice, OnFailure
    from lastgood.model.run import RunEvent, RunReport, WorkPlan
    from lastgood.workspace import Workspace

    Shown = TypeVar("Shown")


# --- Which way a run is shown, and that showing it never stops it ---


# While a command has the terminal nothing is shown; the first of these says that it is the run's again.
_TERMINAL_IS_BACK = frozenset(
    {"check-started", "attempt-failed", "task-done", "task-failed", "interrupted", "finished"}
)


class Screen:
    """Shows a run by a display; output that cannot be written is told of when the run is over.

    What happens while a command has the terminal is shown afterwards.
    """

    def __init__(self, display: Display, board: Board, console: Console) -> None:
        self._console = console
        self._display = display
        self._board = board
        self.output: partial[None] = partial(self._show, display.output)
        self._fault: Storage | None = None
        self._waiting: list[RunEvent] | None = None

    def __enter__(self) -> Self:
        self._display.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._show_waiting()
            self._display.__exit__()
        except Storage as failure:
            self._fault = self._fault or failure
        if self._fault is not None and fault is None:
            # Nothing more can be said where the documents went.
            self._console.json = False
            raise self._fault

    def __call__(self, event: RunEvent) -> None:
        """Show one event."""
        if self._waiting is not None and event.type not in _TERMINAL_IS_BACK:
            self._waiting.append(event)
            return
        self._show_waiting()
        self._board.take(event)
        self._show(self._display, event)
        if event.terminal:
            self._waiting = []
            self._display.leave_terminal()

    def _show_waiting(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        self._display.enter_terminal()
        for event in waiting:
            self._board.take(event)
            self._show(self._display, event)

    def _show(self, show: Callable[[Shown], None], shown: Shown) -> None:
        if self._fault is None:
            try:
                show(shown)
            except Storage as failure:
                self._fault = failure


def display_for(console: Console, board: Board, *, command: str | None) -> Display:
    """Return the display that fits where the output goes; ``command`` is shown instead of a plan.

    One that has the terminal draws there by itself.
    """
    if can_draw(console) and not (command is not None and os.isatty(0)):
        from lastgood.cli.running.live import LiveDisplay

        return LiveDisplay(console, board, command=command)
    from lastgood.cli.running.display import CommandLines, PlanLines

    return PlanLines(console, board) if command is None else CommandLines(console, board)


def can_draw(console: Console) -> bool:
    """Tell whether lines can be drawn over: a terminal that moves its cursor, and rich to draw with."""
    if not console.out_is_terminal or console.quiet:
        return False
    if os.environ.get("TERM", "") in {"", "dumb", "unknown"}:
        return False
    from importlib.util import find_spec

    return find_spec("rich") is not None


# --- run: carry out a plan of tasks, or one command (rules P1, P3, P6, P7) ---

# Said only of a run that goes on.
_GOING_ON = ("rebase", "redo", "done")
_OF_A_COMMAND = frozenset({"check", "retries", "timeout", "on-failure", "goal"})


def run_verb(call: Call, console: Console) -> int:
    """Run; on a terminal a person is asked about sessions of other work that did not finish."""
    if call.has("schema"):
        return _schema(call, console)
    plan, choice = _plan(call), cast("Choice | None", opening.one_of(call, *CHOICES))
    plan_from(plan)  # one that is not there, or none, makes no store
    begun = choice in {"review", "continue"} or call.has("redo") or call.has("done")
    with open_for(call, purpose="find" if begun else "make") as workspace:
        if choice == "review":
            return _review(plan, call, console, workspace=workspace)
        asks = choice is None and console.can_ask and not any(call.has(option) for option in _GOING_ON)
        settled = settled_before_run(plan_from(plan), call, console, workspace=workspace) if asks else None
        if settled is not None:
            return settled
        Signals.outlast()
        try:
            report = _run(plan, choice, call, console, workspace=workspace)
        except KeyboardInterrupt as stop:
            code = tell_interrupted(console)
            return SIGNALLED + stop.args[0] if stop.args else code
        console.flush()
    if report.by_key and report.signal is not None:
        _let_pass(report.signal)
    return exit_code(report)


def _let_pass(number: int) -> None:
    """Let a key reach those beside us, which the command's own group kept from them: a script that ran us."""
    signal.signal(number, signal.SIG_IGN)
    os.kill(0, number)


def _schema(call: Call, console: Console) -> int:
    """Print the schema as a document of its own: it is what editors read."""
    from json import dumps

    from lastgood.workplan.schema import plan_schema

    if call.argument(0) is not None or call.paths is not None:
        raise Usage("--schema carries nothing out", hint="write: lastgood run --schema")
    console.line(dumps(plan_schema(), indent=2))
    return 0


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
            key = option.replace("-", "_")
            raise Usage(f"--{option} is for one command", hint=f"a plan says it itself, as `{key}:`")
    return _found(file, call.text("directory"))


def _found(file: str, directory: str | None) -> str:
    """Return the path of a plan: from the current folder on, or else from the one of -C."""
    path = os.path.abspath(file)
    if directory is None or os.path.lexists(path):
        return path
    beside = os.path.abspath(os.path.join(directory, file))
    return beside if os.path.lexists(beside) else path


def _command_plan(call: Call, words: tuple[str, ...]) -> WorkPlan:
    from lastgood.workplan.form import checked_plan
    from lastgood.workplan.plan import command_plan

    plan = command_plan(words)
    task = plan.tasks[0].replace(
        check=call.text("check"),
        retries=opening.count_option(call, "retries") or 0,
        timeout=opening.seconds_option(call, "timeout"),
        on_failure=cast("OnFailure", call.text("on-failure") or "stop"),
        terminal=True,
    )
    return checked_plan(plan.replace(tasks=(task,), goal=call.text("goal")))


def _run(
    plan: str | WorkPlan, choice: Choice | None, call: Call, console: Console, *, workspace: Workspace
) -> RunReport:
    board = Board(time.monotonic)
    lines = JsonLines(console, board) if console.json else None
    if lines is not None and os.isatty(0):
        plan = _without_terminal(plan)  # that is where the documents go
    command = None if call.paths is None else " ".join(call.paths)
    as_it_is = command is not None and lines is None and not console.out_is_terminal
    with Screen(lines or display_for(console, board, command=command), board, console) as screen:
        report = workspace.run(
            plan,
            choice=choice,
            rebase=call.has("rebase"),
            again=call.has("again"),
            redo=call.texts("redo"),
            done=call.texts("done"),
            transcript=call.text("transcript"),
            observer=screen,
            output=screen.output if as_it_is else None,
        )
    if lines is not None:
        lines.end(report)
        return report
    changed = _changed(report.start, report.checkpoint, workspace=workspace)
    for style, text in end_lines(report, call, changed=changed):
        if command is None:
            console.line(console.styled(text, style) if style else text)
        else:
            console.note(text)
    return report


def _without_terminal(plan: str | WorkPlan) -> WorkPlan:
    found = plan_from(plan)
    return found.replace(tasks=tuple(task.replace(terminal=False) for task in found.tasks))


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
        from lastgood.documents import reviewed_document

        console.document(reviewed_document(report, at=time.time_ns()))
        return 0
    for style, text in review_lines(report, call):
        console.line(console.styled(text, style) if style else text)
    console.note(f"go on with it: {again(call, 'continue')}")
    console.note(f"end it and start anew: {again(call, 'fresh')}")
    return 0
