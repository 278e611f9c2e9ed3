"""session: start, end, list, show or renew the runs of a workspace (rule P1)."""

from __future__ import annotations

import os
import time

from lastgood.cli import opening
from lastgood.cli.opening import OMISSIONS, STATES, ProgressLine, open_at_work, open_for
from lastgood.cli.plans import owner
from lastgood.cli.progress import progress_facts, standing
from lastgood.cli.wording import (
    ago,
    called,
    moment,
    pairs,
    place_cell,
    table,
    where_it_stands,
)
from lastgood.errors import Invalid, Usage
from lastgood.model.session import is_command
from lastgood.paths import printable, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.checkpoint import SaveReport
    from lastgood.model.report import ProgressReport, SessionEnded, SessionStarted
    from lastgood.model.session import SessionReport
    from lastgood.workspace import Workspace


# --- task, feature, sprint: tell what starts and ends (rule P2) ---

_TASK_TAKES = {
    ("task", "start"): frozenset({"risky", "irreversible"}),
    ("task", "fail"): frozenset({"reason"}),
}
_SAYS = {
    ("task", "start"): "started task",
    ("task", "done"): "completed task",
    ("task", "fail"): "recorded the failure of task",
    ("task", "skip"): "skipped task",
    ("feature", "start"): "started feature",
    ("feature", "done"): "completed feature",
    ("sprint", "start"): "started sprint",
    ("sprint", "done"): "completed sprint",
}


def task_verb(call: Call, console: Console) -> int:
    """Record it, and tell of the checkpoint that came of it."""
    verb, (action, id) = call.verb.name, call.arguments
    opening.only(call, takes=_TASK_TAKES.get((verb, action), frozenset()))
    if action == "start" and (".." in id or id.startswith(("/", "."))):
        raise Invalid(f"'{printable(id)}' is a path, not the id of a {verb}", hint="for example T01")
    opened = open_for if action in {"done", "fail"} else open_at_work
    with opened(call) as workspace, ProgressLine(console, "saving"):
        report = _carried_out(workspace, call)
    if not console.answer(verb, report) and not console.quiet:
        attempt = f", attempt {report.task.attempts}" if report.task and action == "start" else ""
        console.sentence(f"{_SAYS[verb, action]} {printable(id)}{attempt}{_where(report)}")
        tell_saved(report, console)
    return _code(report.saved)


def _carried_out(workspace: Workspace, call: Call) -> ProgressReport:
    verb, (action, id) = call.verb.name, call.arguments
    if verb == "task" and action == "start":
        return workspace.task_start(id, risky=call.has("risky"), irreversible=call.has("irreversible"))
    if verb == "task" and action == "fail":
        return workspace.task_fail(id, reason=call.text("reason") or "")
    carried_out = {
        ("task", "done"): workspace.task_done,
        ("task", "skip"): workspace.task_skip,
        ("feature", "start"): workspace.feature_start,
        ("feature", "done"): workspace.feature_done,
        ("sprint", "start"): workspace.sprint_start,
        ("sprint", "done"): workspace.sprint_done,
    }
    return carried_out[verb, action](id)


def _where(report: ProgressReport) -> str:
    return "" if report.session is None else f" in session {report.session}"


def tell_saved(report: ProgressReport, console: Console) -> None:
    """Tell of the checkpoint that came of a change of progress, and of steps with an unknown end."""
    for effect in report.unknown:
        console.warn(
            f"nobody saw the end of attempt {effect.attempt} of {printable(effect.name)}:"
            " its effect is unknown"
        )
    if report.saved is None:
        return
    said = "checkpoint" if report.saved.created else "unchanged since"
    console.sentence(f"{said} {called(report.saved.checkpoint)}")
    tell_lacks(report.saved, console)


def tell_lacks(saved: SaveReport, console: Console) -> None:
    """Tell what a checkpoint that came by itself does not hold (rule S7)."""
    for note in saved.notes:
        console.warn(printable(note.message))
    if saved.new_gaps:
        shown = saved.checkpoint.short_id
        console.warn(f"it lacks paths that the one before it did not lack: lastgood show {shown}")


# --- session: start, end, list, show or renew the runs of a workspace (rule P1) ---

_HEADER = ("ID", "State", "Goal", "Started", "Owner", "Tasks", "Phase / Step")
_GOAL, _PLACE = 2, 6
_SESSION_TAKES = {
    "start": frozenset({"goal", "sprint", "owner-pid", "transcript", "shared", "force"}),
    "end": frozenset({"incomplete"}),
}


def session_verb(call: Call, console: Console) -> int:
    """Do what the action says."""
    action, id = call.arguments[0], call.argument(1)
    opening.only(call, takes=_SESSION_TAKES.get(action, frozenset()))
    if id is not None and action in {"start", "list"}:
        goal = f" --goal {quoted(id)}" if action == "start" and not id.startswith("sess_") else ""
        raise Usage(
            f"`session {action}` takes no ID", hint=f"write: {call.command(f'session {action}{goal}')}"
        )
    return _ACTIONS[action](call, console)


def _start(call: Call, console: Console) -> int:
    pid = opening.number_option(call, "owner-pid")
    with open_for(call, purpose="make") as workspace:
        if console.can_ask and not (call.has("force") or call.has("shared")):
            from lastgood.cli.verbs.recover import settled_before_start

            settled = settled_before_start(workspace, call, console, owner_pid=pid)
            if settled is not None:
                return settled
        with ProgressLine(console, "saving"):
            report = workspace.session_start(
                goal=call.text("goal"),
                sprint=call.text("sprint"),
                owner_pid=pid,
                transcript=call.text("transcript"),
                exclusive=not call.has("shared"),
                force=call.has("force"),
            )
    if console.answer("session", report):
        return _code(report.saved)
    if console.quiet:
        console.line(report.session.id)
    else:
        _tell_start(report, call, console)
    return _code(report.saved)


def _tell_start(report: SessionStarted, call: Call, console: Console) -> None:
    session = report.session
    if report.took_over is not None:
        console.warn(f"took over from {report.took_over.id}: {owner(report.took_over)}")
    of = "" if session.session.owner.pid is None else f": {owner(session.session)}"
    console.sentence(f"started session {console.styled(session.id, 'green')}{of}")
    if report.saved is not None:
        console.sentence(f"first checkpoint {called(report.saved.checkpoint)}")
        tell_lacks(report.saved, console)
    console.sentence(f"for every process that works in it: export LASTGOOD_SESSION={session.id}")
    if session.session.owner.pid is None:
        console.sentence(f"when the work is over: {call.command('session end')}")
    for id in report.unfinished:
        console.warn(
            f"session {id} did not finish; see where it stood: {call.command(f'recover {id} --review')}"
        )


def _code(saved: SaveReport | None) -> int:
    """Return the exit code of a checkpoint that came by itself (rule S7)."""
    return OMISSIONS if saved is not None and saved.new_gaps else 0


def _end(call: Call, console: Console) -> int:
    with open_for(call) as workspace, ProgressLine(console, "saving"):
        report = workspace.session_end(call.argument(1), finished=not call.has("incomplete"))
    if not console.answer("session", report):
        _tell_end(report, call, console)
    return _code(report.saved)


def _tell_end(report: SessionEnded, call: Call, console: Console) -> None:
    session = report.session
    how = "ended" if session.state == "ended" else "left incomplete"
    console.sentence(f"{how}: session {session.id}")
    for line in standing(session):
        console.sentence(f"  {line}")
    if session.session.ended_by == "unfinished":
        console.warn(f"tasks are left; go on with it, or end it: {call.command(f'recover {session.id}')}")
    if report.saved is not None:
        console.sentence(f"last checkpoint {called(report.saved.checkpoint)}")
        tell_lacks(report.saved, console)
    for effect in report.unknown:
        console.warn(f"nobody saw the end of {printable(effect.name)}: its effect is unknown")


def _list(call: Call, console: Console) -> int:
    with open_for(call) as workspace:
        reports = workspace.sessions()
    if console.answer("session", {"sessions": reports}):
        return 0
    if not reports:
        console.note(f"no sessions yet; start one: {call.command('session start')}")
        return 0
    oldest = min(one.session.started_at for one in reports)
    rows = [_HEADER, *(_row(one, console.moment(one.session.started_at, oldest=oldest)) for one in reports)]
    paint = console.painter({0: "yellow", 1: STATES})
    limit, optional = console.columns(), (5, _PLACE)
    lines = table(
        rows, flexible=(_PLACE, _GOAL), limit=limit, optional=optional, expendable=(4, 3), paint=paint
    )
    console.lines(lines)
    return 0


def _row(report: SessionReport, started: str) -> tuple[str, ...]:
    session, progress = report.session, report.progress
    pid = session.owner.pid
    has_tasks = bool(progress.tasks) and not is_command(progress)
    return (
        report.id,
        report.state,
        printable((session.goal or "-").partition("\n")[0]),
        started,
        "-" if pid is None else str(pid),
        f"{progress.count('done')}/{len(progress.tasks)}" if has_tasks else "-",
        place_cell(None if progress.position.empty else progress.position),
    )


def _show_session(call: Call, console: Console) -> int:
    with open_for(call) as workspace:
        report = workspace.get_session(call.argument(1))
    if not console.answer("session", {"session": report}):
        console.lines(console.facts(_session_facts(report)))
    return 0


def _session_facts(report: SessionReport) -> list[tuple[str, str]]:
    session, now = report.session, time.time_ns()
    facts = [
        ("session", session.id),
        ("state", report.state),
        ("goal", printable(session.goal or "-")),
        ("owner", f"{owner(session).removeprefix('owner ')} on {printable(session.owner.host)}"),
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
    with open_for(call) as workspace:
        report = workspace.session_heartbeat(call.argument(1))
    if not console.answer("session", {"session": report}):
        console.line(f"session {report.id} lives")
    return 0


_ACTIONS: dict[str, Callable[[Call, Console], int]] = {
    "start": _start,
    "end": _end,
    "list": _list,
    "show": _show_session,
    "heartbeat": _heartbeat,
}


# --- progress: say or show how far the work has come (rule P2) ---

_SET = frozenset({"goal", "phase", "iteration", "step", "artifact", "no-artifacts", "state"})


def progress_verb(call: Call, console: Console) -> int:
    """Set what is given, or show what is known."""
    if call.argument(0) != "set":
        opening.only(call, takes=frozenset())
        return _show_progress(call, console)
    opening.only(call, takes=_SET)
    if not _SET.intersection(call.options):
        raise Usage("`progress set` sets nothing", hint="give for example --phase Construction --step 12/15")
    step, steps = _step(call)
    with open_at_work(call) as workspace, ProgressLine(console, "saving"):
        report = workspace.progress_set(
            goal=call.text("goal"),
            phase=call.text("phase"),
            iteration=opening.count_option(call, "iteration"),
            step=step,
            steps=steps,
            artifacts=_artifacts(call),
            state=_state(call),
        )
        missing = _missing(workspace, call)
    for path in missing:
        console.warn(f"lastgood: there is no {printable(path)} yet; it is recorded all the same")
    if not console.answer("progress", report) and not console.quiet:
        console.sentence(where_it_stands(report.progress.position) or "Recorded.")
        tell_saved(report, console)
    return _code(report.saved)


def _missing(workspace: Workspace, call: Call) -> list[str]:
    """Return the artifacts that were named and are not there."""
    named = call.texts("artifact")
    return [path for path in named if not os.path.lexists(os.path.join(workspace.path, path))]


def _show_progress(call: Call, console: Console) -> int:
    with open_for(call) as workspace:
        report = workspace.progress_report()
    if console.answer("progress", report):
        return 0
    facts = _report_facts(report)
    if not facts:
        console.note(f"no progress recorded; say for example: {call.command('task start T01')}")
    console.lines(pairs(facts, limit=console.columns()))
    return 0


def _report_facts(report: ProgressReport) -> list[tuple[str, str]]:
    if report.progress.empty:
        return []
    facts = [] if report.session is None else [("session", report.session)]
    return facts + progress_facts(report.progress)


def _step(call: Call) -> tuple[int | None, int | None]:
    """Return ``12/15`` as two numbers."""
    text = call.text("step")
    if text is None:
        return None, None
    step, slash, steps = text.partition("/")
    numbers = (step, steps) if slash else (step,)
    if not all(one.isascii() and one.isdigit() and len(one) <= 9 for one in numbers):
        raise Usage(f"--step takes N or N/M, not '{printable(text)}'", hint="for example --step 12/15")
    return int(step), int(steps) if slash else None


def _artifacts(call: Call) -> tuple[str, ...] | None:
    if call.has("no-artifacts"):
        if call.has("artifact"):
            raise Usage("--artifact and --no-artifacts contradict each other", hint="give one of them")
        return ()
    return call.texts("artifact") or None


def _state(call: Call) -> Mapping[str, object] | None:
    text = call.text("state")
    if text is None:
        return None
    import json  # lazily: only this option pays for it

    hint = """write for example --state '{"retries": 2}'"""
    try:
        made = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Usage(f"--state is not JSON ({error})", hint=hint) from None
    if not isinstance(made, dict):
        raise Usage("--state is not a JSON object", hint=hint)
    return made
