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
    plan_counts,
    resuming_lines,
    run_line,
    standing_lines,
)
from lastgood.cli.progress import asked_last
from lastgood.cli.wording import UNTITLED, ago, called, label, moment, paths_named, quoted_words, shortened
from lastgood.errors import LastgoodError
from lastgood.paths import printable
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Literal

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.run import RecoverReport
    from lastgood.model.session import Effect, Session, SessionReport
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
    for line in known_of(session, workspace):
        console.warn(line)
    if first == "start":
        console.warn(f"  {going_on(session, call)}")
    ways: tuple[Way, ...] = (first, "fresh")
    answers = {word: way for way in ways for word in (way, way[0])}
    console.warn("\n".join((*(f"  {way[0]}: {_WAYS[way]}" for way in ways), "  r: see where it stood")))
    while True:
        answer = console.ask(f"What now? [{first[0]}/f/r/N] ").lower()
        if answer in {"r", "review"}:
            report = workspace.recover(session.id, choice="review")
            review(report, call, console, workspace=workspace)
        elif answer in answers or answer in NO_ANSWER:
            return answers.get(answer)
        else:
            console.warn(f"please answer {first[0]}, f or r, or Enter to quit")


def review(
    report: RecoverReport, call: Call, console: Console, *, workspace: Workspace, asks: bool = False
) -> None:
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
        console.sentences(known_of(report.session, workspace))
    if report.checkpoint is not None:
        console.sentence(_last_words(report.checkpoint, now=now))
    console.sentences((*resuming_lines(report, call, verb="It stood at"), *standing_lines(report, now=now)))
    console.sentences(conversation_lines(report, call))
    if report.session is not None:
        ways = ("", "", "") if asks else _ways(report.session, call)
        for line in (*ways[:2], *passed_over_lines(report, call), *ways[2:]):
            if line:
                console.note(line)
    tell_waiting(report, call, console)


# So much of a checkpoint's title is shown.
_TITLE = 48


def _last_words(checkpoint: Checkpoint, *, now: int) -> str:
    title = "" if label(checkpoint) == UNTITLED else f" ({shortened(label(checkpoint), _TITLE)})"
    made = ago(checkpoint.manifest.created_at, now=now)
    return f"Checkpoint {checkpoint.short_id}{title}, {checkpoint.kind}, made {made}."


# What is kept as a session, or a turn of it, begins: what is new there came before.
_BEFORE = frozenset({"session-start", "auto"})
# What a host is called of which nobody knows which it is.
_SOME_HOST = "an agent"


# --- What tells a session from others: who was at it, what it was asked last, and which files changed ---


def known_of(run: SessionReport, workspace: Workspace) -> list[str]:
    """Return what is known of a session that did not finish, by which somebody knows it again."""
    now, host = time.time_ns(), host_of(run.session, workspace)
    lines = [run_line(run, now=now, host=host)]
    turn = last_turn(run.session, workspace)
    if turn is not None:
        lines.append(f"  {asked_last(turn, now=now)}")
    changed = _changed_in(run.session, workspace)
    if changed:
        lines.append(f"  changed in it: {changed}")
    return lines


def host_of(session: Session, workspace: Workspace) -> str | None:
    """Return what the host is called whose hooks keep a session; None where it was begun otherwise."""
    if session.exclusive:
        return None
    from lastgood.cli.table_of_work import HOSTS  # lazily: most often nothing is left
    from lastgood.hooks.table import host_named

    name = session.transcript_host
    if name not in HOSTS:
        actors = (one.actor.name for one in workspace.list(session=session.id, brief=True))
        name = next((one for one in actors if one in HOSTS), None)
    if name is None:
        return _SOME_HOST if session.transcript or last_turn(session, workspace) is not None else None
    return host_named(name).TITLE


def last_turn(session: Session, workspace: Workspace) -> Effect | None:
    """Return the turn of a host's session that began last; None where it has none."""
    if session.exclusive:
        return None
    return next((one for one in reversed(workspace.steps(session.id)) if one.task is None), None)


def _changed_in(session: Session, workspace: Workspace) -> str:
    """Return which files came changed with a session's checkpoints, without what a person had changed."""
    made = workspace.list(session=session.id, guards=False, brief=True)
    own = [one for one in made if one.actor.type != "person" and one.kind not in _BEFORE]
    try:
        found = workspace.changed_paths(own, patient=False)
    except LastgoodError:  # it is known by the rest
        return ""
    return paths_named(list(dict.fromkeys(path for one in own for path in found.get(one.id, ()))))


# --- Where its files can be taken back to, in the words of what it was asked ---


class WayBack(Value):
    """Where the files of a session would be taken back to (``where``), and ``what`` changes then.

    Nothing where they are as they were there already.
    """

    where: str
    what: str


def way_back(run: SessionReport, workspace: Workspace) -> WayBack | None:
    """Return where a rollback of a session leads, and what it changes; None where it has nowhere to go."""
    try:
        seen = workspace.recover(run.id, choice="review", roll_back=True)
        if seen.rolled_back_to is None:
            return None
        target = workspace.get(seen.rolled_back_to)
    except LastgoodError:  # which is told when it is tried
        return None
    return WayBack(where=_where(target, run, workspace), what=_what(seen))


def _where(target: Checkpoint, run: SessionReport, workspace: Workspace) -> str:
    now, turn = time.time_ns(), last_turn(run.session, workspace)
    if turn is not None and turn.state in {"running", "unknown"} and turn.stood == target.id:
        asked = ago(turn.started_at, now=now)
        return f"before {quoted_words(turn.name)} (asked {asked}; {target.short_id})"
    return called(target, made=True)


def _what(seen: RecoverReport) -> str:
    """Return what a rollback would do to files, in the words of its plan; nothing where it changes none."""
    plan = None if seen.restored is None else seen.restored.planned
    if plan is None or not any(plan.of("write", "delete", "chmod", "mkdir", "rmdir")):
        return ""
    others = len(seen.changed_beside)
    return plan_counts(plan) + (f", {others:,} of them saved by other sessions" if others else "")


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
