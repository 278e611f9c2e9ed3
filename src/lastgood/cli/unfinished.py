"""Sessions that did not finish: where they stood, and what is to become of them (rules P7, P8b)."""

from __future__ import annotations

import time

from lastgood.cli.opening import DECLINED, NO_ANSWER
from lastgood.cli.plans import (
    artifact_line,
    conversation_lines,
    going_on,
    owner,
    passed_over_lines,
    resuming_lines,
    run_lines,
    standing_lines,
)
from lastgood.cli.wording import moment
from lastgood.paths import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Literal

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.run import RecoverReport
    from lastgood.model.session import Session, SessionReport
    from lastgood.workspace import Workspace

    Way = Literal["continue", "start", "fresh"]

_WAYS: dict[Way, str] = {
    "continue": "continue it",
    "start": "start beside it",
    "fresh": "end it, and start fresh",
}


def settled(
    sessions: Iterable[SessionReport],
    call: Call,
    console: Console,
    *,
    workspace: Workspace,
    go_on: Callable[[SessionReport], None] | None = None,
) -> int | None:
    """Ask what becomes of each session that did not finish before other work begins; None if that may begin.

    Else the exit code. ``go_on`` continues one, and nothing else begins; where that cannot be done here, work
    may begin beside them.
    """
    ended = False
    for one in sessions:
        way = _asked(one, call, console, workspace=workspace, first="start" if go_on is None else "continue")
        if way is None:
            console.warn("nothing was started" if ended else "nothing was changed")
            return DECLINED
        if way == "start":
            return None
        if way == "continue" and go_on is not None:
            go_on(one)
            return 0
        workspace.recover(one.id, choice="fresh")
        console.warn(ended_line(one))
        ended = True
    return None


def ended_line(session: SessionReport) -> str:
    """Return what is said of a session that was given up."""
    return f"Session {session.id} was ended; its checkpoints stay, and no file was touched."


def _asked(
    session: SessionReport, call: Call, console: Console, *, workspace: Workspace, first: Way
) -> Way | None:
    """Return what a person wants to become of a session; None to leave all as it is."""
    for line in run_lines(session, now=time.time_ns()):
        console.warn(line)
    if first == "start":
        console.warn(f"  {going_on(session, call)}")
    ways: tuple[Way, ...] = (first, "fresh")
    answers = {word: way for way in ways for word in (way, way[0])}
    console.warn("\n".join((*(f"  {way[0]}: {_WAYS[way]}" for way in ways), "  r: see where it stood")))
    while True:
        answer = console.ask(f"What now? [{first[0]}/f/r/N] ").lower()
        if answer in {"r", "review"}:
            review(workspace.recover(session.id, choice="review"), call, console)
        elif answer in answers or answer in NO_ANSWER:
            return answers.get(answer)
        else:
            console.warn(f"please answer {first[0]}, f or r, or Enter to quit")


def review(report: RecoverReport, call: Call, console: Console, *, asks: bool = False) -> None:
    """Say where a run stood and, unless it ``asks`` what is to be done, what can be."""
    now = time.time_ns()
    if report.state == "interrupted":
        console.sentence(f"A restore was interrupted; finish it: {call.command('recover')}")
    if report.session is None and report.beside is not None:
        tell_living(report, report.beside, call, console)
        return
    if report.session is None and not report.elsewhere:
        console.sentence("No run died.")
    elif report.session is None:
        tell_elsewhere(report, console)
    else:
        console.sentences(run_lines(report.session, now=now))
    if report.checkpoint is not None:
        console.sentence(f"Checkpoint {report.checkpoint.short_id}, {report.checkpoint.kind}.")
    console.sentences((*resuming_lines(report, call, verb="It stood at"), *standing_lines(report, now=now)))
    console.sentences(conversation_lines(report, call))
    if report.session is not None:
        ways = ("", "", "") if asks else _ways(report.session, call)
        for line in (*ways[:2], *passed_over_lines(report, call), *ways[2:]):
            if line:
                console.note(line)
    tell_waiting(report, call, console)


def _ways(run: SessionReport, call: Call) -> tuple[str, str, str]:
    """Return how to go on with a run, to take its files back, and to end it."""
    id = run.id
    return (
        going_on(run, call) if run.words else f"go on: {call.command(f'recover {id} --continue')}",
        f"take its files back: {call.command(f'recover {id} --rollback')}",
        f"end it: {call.command(f'recover {id} --fresh')}",
    )


def tell_living(report: RecoverReport, living: Session, call: Call, console: Console) -> None:
    """Say who is at work: whoever recovers then has mistaken the moment, or waits for it to end."""
    goal = f" ({printable(living.goal)})" if living.goal else ""
    console.sentence(
        f"Session {living.id}{goal} is at work: {owner(living)}, since {moment(living.started_at)}."
    )
    for artifact in report.artifacts:
        console.sentence(artifact_line(artifact, report, call))
    if report.operation is not None:
        console.note(f"take the reloading back with: {call.command('undo')}")
    tell_waiting(report, call, console)
    if not report.waiting:
        console.sentence("There is nothing to recover.")
    console.note(f"see what it does: {call.command('status')}")


def tell_elsewhere(report: RecoverReport, console: Console) -> None:
    """Name what is unfinished of folders that are not here: this may be one of them, checked out anew."""
    for note in report.elsewhere:
        console.sentence(printable(note.message))
        for line in console.hints(note.hint):
            console.note(f"  {line}")


def tell_waiting(report: RecoverReport, call: Call, console: Console) -> None:
    """Name the other sessions that did not finish."""
    for run in report.waiting:
        goal = f" ({printable(run.session.goal)})" if run.session.goal else ""
        console.note(f"session {run.id}{goal} did not finish: {call.command(f'recover {run.id}')}")
