"""session: start, end, list, show or renew the runs of a workspace (rule P1)."""

from __future__ import annotations

import time

from lastgood.cli import values
from lastgood.cli.columns import pairs, table
from lastgood.cli.opening import open_existing, open_for
from lastgood.cli.progress import Progress
from lastgood.cli.verbs.task import tell_lacks
from lastgood.cli.wording import ago, artifacts, called, count, moment, place, place_cell
from lastgood.codec.manifest import gap_record
from lastgood.codec.report.documents import document
from lastgood.codec.report.records import checkpoint_record, effect_record, session_record
from lastgood.errors import Usage
from lastgood.model.progress import TASK_STATES
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call
    from lastgood.model.report import SaveReport
    from lastgood.model.session import Session, SessionReport
    from lastgood.model.working import SessionEnded, SessionStarted

_HEADER = ("ID", "State", "Goal", "Started", "Owner", "Tasks", "Phase / Step")
_GOAL = 2
_OMISSIONS = 3
_TAKES = {
    "start": frozenset({"goal", "sprint", "owner-pid", "transcript", "shared", "force"}),
    "end": frozenset({"incomplete"}),
}


def carry_out(call: Call, console: Console) -> int:
    """Do what the action says."""
    action, id = call.arguments[0], call.argument(1)
    values.only(call, takes=_TAKES.get(action, frozenset()))
    if id is not None and action in {"start", "list"}:
        raise Usage(f"`session {action}` takes no ID", hint=f"write: lastgood session {action}")
    return _ACTIONS[action](call, console)


def _start(call: Call, console: Console) -> int:
    pid = values.number_option(call, "owner-pid")
    with open_for(call) as workspace, Progress(console, "saving"):
        report = workspace.session_start(
            goal=call.text("goal"),
            sprint=call.text("sprint"),
            owner_pid=pid,
            transcript=call.text("transcript"),
            exclusive=not call.has("shared"),
            force=call.has("force"),
        )
    if console.json:
        console.document(_started(report))
    elif console.quiet:
        console.line(report.session.id)
    else:
        _tell_start(report, call, console)
    return _code(report.saved)


def _started(report: SessionStarted) -> dict[str, object]:
    took_over = report.took_over
    return document(
        "session",
        {
            "session": _record(report.session),
            "checkpoint": _saved(report.saved),
            "new_gaps": _new_gaps(report.saved),
            "took_over": None if took_over is None else took_over.id,
            "unfinished": list(report.unfinished),
        },
    )


def _tell_start(report: SessionStarted, call: Call, console: Console) -> None:
    session = report.session
    if report.took_over is not None:
        console.warn(f"took over from {report.took_over.id}: {owner(report.took_over)}")
    console.line(f"started session {console.styled(session.id, 'green')}: {owner(session.session)}")
    if report.saved is not None:
        console.line(f"first checkpoint {called(report.saved.checkpoint)}")
        tell_lacks(report.saved, console)
    console.line(f"for every process that works in it: export LASTGOOD_SESSION={session.id}")
    for id in report.unfinished:
        console.warn(f"session {id} did not finish: {call.command('recover')}")


def _new_gaps(saved: SaveReport | None) -> list[object]:
    return [] if saved is None else [gap_record(gap) for gap in saved.new_gaps]


def _code(saved: SaveReport | None) -> int:
    """Return the exit code of a checkpoint that came by itself (rule S7)."""
    return _OMISSIONS if saved is not None and saved.new_gaps else 0


def _end(call: Call, console: Console) -> int:
    with open_existing(call) as workspace, Progress(console, "saving"):
        report = workspace.session_end(call.argument(1), finished=not call.has("incomplete"))
    if console.json:
        fields: dict[str, object] = {
            "session": _record(report.session),
            "checkpoint": _saved(report.saved),
            "new_gaps": _new_gaps(report.saved),
            "unknown_effects": [effect_record(one) for one in report.unknown],
        }
        console.document(document("session", fields))
    else:
        _tell_end(report, console)
    return _code(report.saved)


def _tell_end(report: SessionEnded, console: Console) -> None:
    session = report.session
    how = "ended" if session.state == "ended" else "left incomplete"
    console.line(f"{how}: session {session.id}")
    for line in standing(session):
        console.line(f"  {line}")
    if report.saved is not None:
        console.line(f"last checkpoint {called(report.saved.checkpoint)}")
        tell_lacks(report.saved, console)
    for effect in report.unknown:
        console.warn(f"nobody saw the end of {printable(effect.name)}: its effect is unknown")


def _list(call: Call, console: Console) -> int:
    with open_existing(call) as workspace:
        reports = workspace.sessions()
    if console.json:
        console.document(document("session", {"sessions": [_record(one) for one in reports]}))
        return 0
    if not reports:
        console.note(f"no sessions yet; start one: {call.command('session start')}")
        return 0
    for line in table(
        [_HEADER, *map(_row, reports)], flexible=_GOAL, limit=console.columns(), optional=(5, 6)
    ):
        console.line(line)
    return 0


def _row(report: SessionReport) -> tuple[str, ...]:
    session, progress = report.session, report.progress
    pid = session.owner.pid
    return (
        report.id,
        report.state,
        printable((session.goal or "-").partition("\n")[0]),
        moment(session.started_at),
        "-" if pid is None else str(pid),
        f"{progress.count('done')}/{len(progress.tasks)}" if progress.tasks else "-",
        place_cell(None if progress.position.empty else progress.position),
    )


def _show(call: Call, console: Console) -> int:
    with open_existing(call) as workspace:
        report = workspace.get_session(call.argument(1))
    if console.json:
        console.document(document("session", {"session": _record(report)}))
        return 0
    for line in pairs(_facts(report), limit=console.columns()):
        console.line(line)
    return 0


def _facts(report: SessionReport) -> list[tuple[str, str]]:
    session, now = report.session, time.time_ns()
    facts = [
        ("session", session.id),
        ("state", report.state),
        ("goal", printable(session.goal or "-")),
        ("owner", f"{owner(session)} on {printable(session.owner.host)}"),
        ("started", moment(session.started_at)),
        ("heartbeat", ago(session.heartbeat_at, now=now)),
    ]
    if session.ended_at is not None:
        facts.append(("ended", f"{moment(session.ended_at)}, {session.ended_by}"))
    if session.took_over is not None:
        facts.append(("took over", session.took_over))
    facts.append(("exclusive", "yes" if session.exclusive else "no"))
    facts += [("" if index else "progress", line) for index, line in enumerate(standing(report))]
    return facts


def _heartbeat(call: Call, console: Console) -> int:
    with open_existing(call) as workspace:
        report = workspace.session_heartbeat(call.argument(1))
    if console.json:
        console.document(document("session", {"session": _record(report)}))
    else:
        console.line(f"session {report.id} lives")
    return 0


def owner(session: Session) -> str:
    """Return whose a session is."""
    who = session.owner
    if who.pid is None:
        return "it lives by heartbeat"
    return f"process {who.pid} ({printable(who.command or '?')})"


def standing(report: SessionReport) -> list[str]:
    """Return how far the work of a session has come, in lines."""
    progress = report.progress
    lines = [] if progress.goal is None else [f"goal: {printable(progress.goal)}"]
    if place(progress.position):
        lines.append(f"position: {place(progress.position)}")
    if progress.position.artifacts:
        lines.append(f"in-progress artifacts: {artifacts(progress.position)}")
    if progress.tasks:
        counted = [f"{progress.count(state)} {state}" for state in TASK_STATES if progress.count(state)]
        lines.append(f"{count(len(progress.tasks), 'task')}: {', '.join(counted)}")
    return lines


def _record(report: SessionReport) -> dict[str, object]:
    return session_record(report.session, report.progress, state=report.state)


def _saved(report: SaveReport | None) -> dict[str, object] | None:
    return None if report is None else checkpoint_record(report.checkpoint)


_ACTIONS: dict[str, Callable[[Call, Console], int]] = {
    "start": _start,
    "end": _end,
    "list": _list,
    "show": _show,
    "heartbeat": _heartbeat,
}
