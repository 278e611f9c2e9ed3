"""session: begin, end, list and renew the runs of a workspace (rule P1)."""

from __future__ import annotations

from functools import partial

from lastgood import tasks
from lastgood.errors import Ambiguous, Busy, Conflict, NotFound
from lastgood.ids import effect_id, session_id
from lastgood.lease import (
    current_session,
    is_callers,
    is_unattended,
    last_sign,
    placed,
    report_on,
    session_of,
    state_of,
    tells_owner,
    under,
    unfinished,
    uptime,
)
from lastgood.model.canonical import iso
from lastgood.model.checkpoint import Actor
from lastgood.model.report import SessionEnded, SessionStarted
from lastgood.model.session import Effect, Session
from lastgood.paths import printable
from lastgood.quantities import span
from lastgood.save import MESSAGE_LIMIT, mark
from lastgood.tasks import registered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lastgood.context import Context, SessionTransaction
    from lastgood.literals import EffectState, SessionState
    from lastgood.model.checkpoint import SaveReport
    from lastgood.model.run import PlannedRun, WorkPlan
    from lastgood.model.session import Owner, Progress, SessionReport


# --- Who holds a workspace, since when, and what ends that, in words for whoever is refused (rule P1) ---


def holding(context: Context, session: Session) -> str:
    """Return who holds a session, and since when; or that it is no process that is known."""
    if session.owner.pid is None:
        age = max(0, context.clock.now() - last_sign(context, report_on(context, session)))
        who = "no process is known to hold it" if is_unattended(context, session) else "a process is at it"
        return f"{who}; last sign of life {span(age / 1e9)} ago"
    return f"it is held by {_holder(session)}"


def _holder(session: Session) -> str:
    owner, since = session.owner, f"since {iso(session.started_at)}"
    host, beat = printable(owner.host), f"last heartbeat {iso(session.heartbeat_at)}"
    return f"process {owner.pid} ({printable(owner.command or '?')}) on {host}, {since}, {beat}"


def ways_on(context: Context, session: Session) -> str:
    """Return what can be done about a session that nobody is proven to be at."""
    words = _command(context, session)
    way = f"lastgood {words}" if words else f"export LASTGOOD_SESSION={session.id}"
    return f"go on with it: {way}\nor end it: lastgood recover {session.id} --fresh"


def way_to_end(context: Context, session: Session) -> str:
    """Return what ends a session that lives; a runner that is seen ends its own, with its task.

    One that nobody is proven to be at is gone on with, or given up.
    """
    if _is_run_in_sight(context, session):
        return f"ask it to end: kill {session.owner.pid}"
    if is_unattended(context, session):
        return ways_on(context, session)
    return f"end it: lastgood session end {session.id}"


def exclusive_conflict(context: Context, session: Session, *, by: Owner) -> Conflict:
    """Return the refusal of a second exclusive session."""
    if by.pid is not None and session.owner == by:
        return _conflict(
            session,
            f"this process ({by.pid}) has a session already: {session.id}, since {iso(session.started_at)}",
            hint=f"go on in it: export LASTGOOD_SESSION={session.id}\nor end it: lastgood session end",
        )
    first = f"join it: export LASTGOOD_SESSION={session.id}"
    if _is_run_in_sight(context, session):
        first = f"wait until its plan is carried out\nor {way_to_end(context, session)}"
    elif is_unattended(context, session):
        first = f"{first}\nor, if nobody is at it any more: lastgood recover {session.id}"
    whose = f"; {holding(context, session)}" if session.owner.pid is None else f" of {_holder(session)}"
    return _conflict(
        session,
        f"a session is already active: {session.id}{whose}",
        hint=f"{first}\nor take over: lastgood session start --force",
    )


def living_conflict(context: Context, session: Session, *, doing: str) -> Conflict:
    """Return the refusal of what cannot be done beside a session that lives; ``doing`` says what it does."""
    way = way_to_end(context, session)
    alone = session.owner.pid is None and is_unattended(context, session)
    return _conflict(
        session,
        f"session {session.id} {doing}: {holding(context, session)}",
        hint=way if alone else f"wait until it has ended\nor {way}",
    )


def refuse_run(context: Context, session: Session) -> None:
    """Refuse to end the session of a run under way: `Conflict`, with its runner named.

    Its task would go on outside any session; a runner that is asked to end ends both.
    """
    if session.state != "active" or not _is_run_in_sight(context, session):
        return
    words = _command(context, session)
    later = f"\nand go on with it later: lastgood {words}" if words else ""
    raise _conflict(
        session,
        f"session {session.id} is a run under way, held by {_holder(session)}",
        hint=f"{way_to_end(context, session)}{later}",
    )


def _command(context: Context, session: Session) -> str:
    """Return what carries out the run of a session, after `lastgood`; empty for other work."""
    from shlex import join  # lazily: only what is refused pays for it

    return printable(join(report_on(context, session).words))


def _is_run_in_sight(context: Context, session: Session) -> bool:
    """Tell whether a session carries out a plan, and the process that does it is seen to live."""
    if session.owner.pid is None or context.work.run(session.id) is None:
        return False
    return context.processes.alive(session.owner) is True


def _conflict(session: Session, message: str, *, hint: str) -> Conflict:
    owner = session.owner
    details: dict[str, object] = {
        "session": session.id,
        "sessions": [session.id],
        "pid": owner.pid,
        "host": owner.host,
    }
    return Conflict(message, hint=hint, details=details)


# --- Steps of the work, recorded before they start and after they end (rule P6) ---


def begin(
    context: Context,
    name: str,
    *,
    session: str | None,
    task: str | None = None,
    irreversible: bool = False,
    digits: str | None = None,
) -> Effect:
    """Record a step that is about to start; one of these ``digits`` that is recorded stays as it is."""
    effect = planned(context, name, session=session, task=task, irreversible=irreversible)
    if digits is not None:
        effect = effect.replace(id=effect_id(bytes.fromhex(digits)))
        known = context.work.effects(context.key, session=session, state="running")
        found = next((one for one in known if one.id == effect.id), None)
        if found is not None:
            return found

    def begun(work: SessionTransaction) -> Effect:
        work.add_workspace(context.row)
        work.put_effect(effect)
        return effect

    return context.work.change(begun)


def planned(
    context: Context,
    name: str,
    *,
    session: str | None,
    task: str | None = None,
    attempt: int = 1,
    irreversible: bool = False,
) -> Effect:
    """Return the record of a step that is about to start."""
    facts = context.catalogue.latest_facts(context.key)
    return Effect(
        id=effect_id(context.clock.random()),
        workspace_key=context.key,
        name=name,
        started_at=context.clock.now(),
        session=session,
        task=task,
        attempt=attempt,
        irreversible=irreversible,
        after=0 if facts is None else facts.newest.sequence,
        stood=None if facts is None or facts.at is None else facts.at.id,
    )


def planned_at_save(context: Context, name: str, *, digits: str | None = None) -> Effect:
    """Return the record of a step that begins with a checkpoint, which says the rest of it."""
    session = working_session(context)
    return Effect(
        id=effect_id(context.clock.random() if digits is None else bytes.fromhex(digits)),
        workspace_key=context.key,
        name=tasks.check_text(name, what="the step"),
        started_at=context.clock.now(),
        session=None if session is None else session.id,
    )


def finish(context: Context, effect: Effect, *, state: EffectState) -> Effect:
    """Record what became of a step."""
    finished = ended(context, effect, state=state)
    context.work.change(lambda work: work.put_effect(finished))
    return finished


def go_on(context: Context, effect: Effect) -> None:
    """Record that a step is under way still, or again, whatever was told of its end."""
    begun = effect.replace(state="running", ended_at=None)
    context.work.change(lambda work: work.put_effect(begun))


def ended(context: Context, effect: Effect, *, state: EffectState) -> Effect:
    """Return the record of a step that ended; of an unknown end nobody knows the time."""
    return effect.replace(state=state, ended_at=None if state == "unknown" else context.clock.now())


def running(context: Context, *, session: str | None, task: str | None = None) -> tuple[Effect, ...]:
    """Return the steps under way: of a session (None: outside any), of one task only if given."""
    found = context.work.effects(context.key, session=session, state="running")
    return tuple(one for one in found if one.session == session and (task is None or _is_of(one, task)))


def abandon_steps(context: Context, session: str) -> tuple[Effect, ...]:
    """Record that nobody will see the end of a session's running steps, and return them."""
    return tuple(finish(context, one, state="unknown") for one in running(context, session=session))


def _is_of(effect: Effect, task: str) -> bool:
    """Tell whether a step is a task itself, rather than something done within it."""
    return effect.task == effect.name == task


# --- session: begin, end, list and renew the runs of a workspace (rule P1) ---


def start(
    context: Context,
    *,
    owner: Owner,
    goal: str | None = None,
    sprint: str | None = None,
    transcript: str | None = None,
    transcript_host: str | None = None,
    exclusive: bool = True,
    force: bool = False,
    plan: WorkPlan | None = None,
) -> SessionStarted:
    """Open a session, with the plan that it carries out, and make its first checkpoint.

    Raises `Conflict` if another exclusive session lives, unless ``force``; then that one is recorded
    as taken over. Those that died stay incomplete, to be continued or given up by `recover`.
    """
    goal = None if goal is None else tasks.check_text(goal, what="the goal") or None
    if sprint is not None:
        tasks.check_id(sprint, what="a sprint")
    _refuse_interrupted(context)
    replacing: Sequence[Session] = ()
    evicted: Session | None = None
    if exclusive:
        refused = partial(exclusive_conflict, context, by=owner)
        replacing, evicted = exclusive_rivals(context, refused, force=force)
    now = context.clock.now()
    session = Session(
        id=session_id(context.clock.random()),
        workspace_key=context.key,
        owner=owner,
        started_at=now,
        heartbeat_at=now,
        goal=goal,
        sprint=sprint,
        exclusive=exclusive,
        transcript=transcript,
        transcript_host=transcript_host,
        took_over=None if evicted is None else evicted.id,
        heartbeat_uptime=uptime(context),
        heartbeat_boot=context.processes.boot(),
    )
    inside = context.replace(session=session.id)
    saved = _opened(context, placed(inside, session), replacing=replacing, evicted=evicted, plan=plan)
    return SessionStarted(
        session=report_on(inside, context.work.session(session.id) or session),
        saved=saved,
        took_over=evicted,
        unfinished=tuple(one.id for one in unfinished(context)),
    )


def _opened(
    context: Context,
    session: Session,
    *,
    replacing: Sequence[Session],
    evicted: Session | None,
    plan: WorkPlan | None,
) -> SaveReport | None:
    """Record a session and make its first checkpoint; without that it has not begun."""
    inside = context.replace(session=session.id)

    def begin(found: Progress) -> Progress:
        begun = tasks.move(found, goal=session.goal)
        if plan is not None:
            begun = registered(begun, [task.id for task in plan.tasks])
        return begun if session.sprint is None else tasks.start_sprint(begun, session.sprint)

    def opened(work: SessionTransaction) -> None:
        run = None if plan is None else planned_run(session, plan)
        work.add_workspace(context.row)
        work.open_session(session, replacing=replacing, run=run)
        if session.goal is not None or session.sprint is not None or plan is not None:
            work.change_progress(session.id, begin, workspace_key=context.key)

    try:
        context.work.change(opened)
        if evicted is not None:
            abandon_steps(context, evicted.id)
        begins = session.goal or "session start"
        if plan is not None and plan.command:
            begins = command_words("before", begins)
        # A host knows that its agent is not at work yet; of all else nobody knows who was.
        before = None if session.exclusive else Actor(type="person")
        return mark(inside, "session-start", message=begins, actor=before)
    except BaseException:  # also if the caller is interrupted: nobody will end what never began
        if inside.work.session(session.id) is not None:
            close(inside, session, finished=True, by="failed")
        raise


def planned_run(session: Session, plan: WorkPlan) -> PlannedRun:
    """Return a plan as it is kept with the session that carries it out."""
    from lastgood.model.run import PlannedRun
    from lastgood.workplan.plan import fingerprint

    return PlannedRun(
        session=session.id,
        workspace_key=session.workspace_key,
        fingerprint=fingerprint(plan),
        plan=plan,
    )


def command_of(context: Context, session: str) -> str | None:
    """Return the words of the one command that a session carries out, None if it does something else."""
    run = context.work.run(session)
    found = context.work.session(session) if run is not None and run.plan.command else None
    return None if found is None else found.goal


def command_words(moment: str, command: str) -> str:
    """Return the message of a checkpoint of one command: before, after, or at the end of it."""
    return f"{moment}: {command}"[:MESSAGE_LIMIT]


def resumable(context: Context, goal: str | None) -> Session | None:
    """Return the exclusive session of a goal that ended without finishing; `Ambiguous` if there are several.

    One that carries out a plan is for `run` to go on with.
    """
    dead = [one.session for one in unfinished(context) if one.session.exclusive]
    fit = [one for one in dead if one.goal == (goal or None) and context.work.run(one.id) is None]
    if len(fit) > 1:
        raise Ambiguous(
            f"{len(fit)} sessions of this goal did not finish",
            hint=f"say which is to go on: lastgood recover {fit[0].id} --continue",
            details={"candidates": [one.id for one in fit]},
        )
    return fit[0] if fit else None


def end(
    context: Context, name: str | None = None, *, finished: bool = True, by: str | None = None
) -> SessionEnded:
    """End a session after its last checkpoint; not ``finished``, it waits to be continued.

    ``by`` says why it ended, if not as one would think.

    One that died is ended only by its name, and without a checkpoint: it is given up. Raises
    `Conflict` if it has ended already, `NotFound` if there is none.
    """
    session = session_of(context, name) if name is not None else _at_hand(context)
    state = state_of(context, session)
    if session.state == "ended" or (state == "incomplete" and name is None):
        raise _lost(session, state=state)
    inside = context.replace(session=session.id)
    saved = None
    if state == "active":
        ends = "session end" if finished else "session left"
        command = command_of(context, session.id)
        said = ends if command is None else command_words(ends, command)
        since = None if session.exclusive else Actor(type="person")
        saved = mark(inside, "session-end", message=said, actor=since)
    ended = close(
        context,
        session,
        finished=finished,
        by=by or ("fresh" if state == "incomplete" else "finished" if finished else "interrupted"),
    )
    return SessionEnded(
        session=report_on(context, ended), saved=saved, unknown=abandon_steps(context, session.id)
    )


def end_asked(context: Context, name: str | None = None, *, finished: bool = True) -> SessionEnded:
    """End a session as anybody may ask for it; `Conflict` for that of a run under way.

    One with tasks that run or wait has not finished: it is left incomplete, whatever was said.
    """
    session = session_of(context, name) if name is not None else _at_hand(context)
    refuse_run(context, session)
    left = tasks.unfinished_tasks(context.work.progress(session.id))
    by = "unfinished" if finished and left and state_of(context, session) == "active" else None
    asked = None if name is None else session.id
    return end(context, asked, finished=finished and by is None, by=by)


def break_off(context: Context, name: str, *, reason: str, interrupted: bool, save: bool) -> SessionEnded:
    """Leave a session incomplete, whether or not its last checkpoint can be made.

    `Conflict` if it has ended: another session took over, or somebody ended it.
    """
    session = session_of(context, name)
    inside = context.replace(session=session.id)
    saved = None
    try:
        if save:
            saved = mark(inside, "interrupt" if interrupted else "error", message=reason)
    finally:
        ended = close(inside, session, finished=False, by="interrupted" if interrupted else "error")
        unknown = abandon_steps(inside, session.id)
    return SessionEnded(session=report_on(context, ended), saved=saved, unknown=unknown)


def close(context: Context, session: Session, *, finished: bool, by: str) -> Session:
    """Record the end of a session; `Conflict` if it lost its lease meanwhile."""
    now = context.clock.now()

    def ended(found: Session) -> Session:
        if found.state == "ended" or found.state != session.state:
            raise _lost(found, state=found.state)
        return found.replace(state="ended" if finished else "incomplete", ended_at=now, ended_by=by)

    return context.work.change(lambda work: work.change_session(session.id, ended))


def session_reports(context: Context) -> tuple[SessionReport, ...]:
    """Return every session of the workspace, newest first."""
    return tuple(report_on(context, one) for one in context.work.sessions(context.key))


def sessions_of(context: Context, transcript: str) -> tuple[SessionReport, ...]:
    """Return the sessions with a transcript that were not ended, newest first."""
    return tuple(report_on(context, one) for one in going_on_in(context, transcript))


def going_on_in(context: Context, transcript: str) -> list[Session]:
    """Return the sessions with a transcript that were not ended, as they were recorded, newest first."""
    states: tuple[SessionState, ...] = ("active", "incomplete")
    found = [one for state in states for one in context.work.sessions(context.key, state=state)]
    return sorted((one for one in found if one.transcript == transcript), key=lambda one: -one.started_at)


def sessions_above(context: Context) -> tuple[SessionReport, ...]:
    """Return the sessions under way whose owner is the caller or above it, newest first."""
    found = [
        one
        for one in context.work.sessions(context.key, state="active")
        if context.processes.encloses(one.owner)
    ]
    return tuple(report_on(context, one) for one in sorted(found, key=lambda one: -one.started_at))


def session_report(context: Context, name: str | None = None) -> SessionReport:
    """Return one session: that of a name, else the caller's, else the newest."""
    if name is not None:
        return report_on(context, session_of(context, name))
    if context.session is not None:
        return report_on(context, session_of(context, context.session))
    session = current_session(context) or next(iter(context.work.sessions(context.key)), None)
    if session is None:
        raise _none()
    return report_on(context, session)


def heartbeat(context: Context, name: str | None = None) -> SessionReport:
    """Record that a session lives; `Conflict` if it does not hold its lease any more."""
    session = session_of(context, name) if name is not None else _at_hand(context)
    now, up, boot = context.clock.now(), uptime(context), context.processes.boot()
    above = tells_owner(context.replace(session=session.id), session)

    def beaten(found: Session) -> Session:
        if found.state != "active":
            raise _lost(found, state=found.state)
        renewed = found.replace(heartbeat_at=now, heartbeat_uptime=up, heartbeat_boot=boot)
        return renewed if above is None else under(context, renewed, above)

    return report_on(context, context.work.change(lambda work: work.change_session(session.id, beaten)))


def lacks_named_owner(session: Session) -> bool:
    """Tell whether nobody named whose a session is: its owner was found out, or is not known."""
    return session.ancestry is not None or session.owner.pid is None


def name_owner(context: Context, session: Session, *, pid: int) -> None:
    """Record whose process is at a session, unless that is gone or somebody named another meanwhile."""
    try:
        owner = context.processes.owner(pid)
    except NotFound:  # what its host told last counts all the same
        return

    def named(found: Session) -> Session:
        return found.replace(owner=owner, ancestry=None) if lacks_named_owner(found) else found

    context.work.change(lambda work: work.change_session(session.id, named))


def working_session(context: Context) -> Session | None:
    """Return the session that a change of progress belongs to, None outside any and for what an agent types.

    Raises `Conflict` if the caller names one that does not hold its lease any more, `NotFound` if it
    names one that nobody knows.
    """
    if context.session is None:
        held = current_session(context)
        return held if held is not None and held.exclusive else None
    session = context.work.session(context.session)
    if session is None:
        raise NotFound(
            f"the store knows no session {printable(context.session)}, which LASTGOOD_SESSION names",
            hint="unset LASTGOOD_SESSION\nor see what there is: lastgood session list",
        )
    if session.workspace_key != context.key:
        return working_session(context.replace(session=None))
    if session.state != "active":
        raise _lost(session, state=session.state)
    return session


def _at_hand(context: Context) -> Session:
    """Return the session that the caller means without naming it."""
    if context.session is not None:
        return session_of(context, context.session)
    known = context.work.sessions(context.key, state="active")
    found = next((one for one in known if one.exclusive), None)
    if found is not None:
        return found
    dead = unfinished(context)
    raise _lost(dead[0].session, state="incomplete") if dead else _none()


def _none() -> NotFound:
    return NotFound("no session is under way", hint="start one: lastgood session start")


def exclusive_rivals(
    context: Context,
    refusal: Callable[[Session], Conflict],
    *,
    force: bool,
    besides: str | None = None,
    is_own: Callable[[Context, Session], bool] = is_callers,
) -> tuple[Sequence[Session], Session | None]:
    """Return the other exclusive sessions as they are to be recorded, and the living one among them.

    Those that died unnoticed, and the caller's own (``is_own``), are incomplete. A living one is refused, or
    with ``force`` taken over from.
    """
    changed, evicted = [], None
    for session in context.work.sessions(context.key, state="active"):
        if not session.exclusive or session.id == besides:
            continue
        if state_of(context, session) != "active":
            changed.append(session.replace(state="incomplete"))
            continue
        if is_own(context, session) and not force:
            changed.append(session.replace(state="incomplete", ended_by="set aside"))
            continue
        if not force:
            raise refusal(session)
        evicted = session.replace(state="ended", ended_at=context.clock.now(), ended_by="taken over")
        changed.append(evicted)
    return changed, evicted


def _lost(session: Session, *, state: str) -> Conflict:
    details: dict[str, object] = {"session": session.id, "state": state, "ended_by": session.ended_by}
    if session.state == "ended":
        why = {"taken over": "another session took over", "fresh": "it was given up"}
        return Conflict(
            f"session {session.id} has ended: {why.get(session.ended_by or '', 'it was finished')}",
            hint="start another: lastgood session start (unset LASTGOOD_SESSION)",
            details=details,
        )
    return Conflict(
        f"session {session.id} is incomplete: it stopped without finishing",
        hint=f"see where it stood, and go on with it: lastgood recover {session.id}",
        details=details,
    )


def _refuse_interrupted(context: Context) -> None:
    if context.journal.read() is not None:
        raise Busy(
            "a restore of this workspace was interrupted and is not finished",
            hint="finish it: lastgood recover\nor take it back: lastgood recover --rollback",
        )
