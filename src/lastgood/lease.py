"""When a session still holds its workspace, decided from what is known of its owner (rule P1)."""

from __future__ import annotations

import os

from lastgood.catalogue import Query
from lastgood.errors import Ambiguous, Damaged, NotFound, Usage, count
from lastgood.model.session import CurrentWork, Owner, SessionReport
from lastgood.paths import join, printable, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lastgood.catalogue import WorkspaceRow
    from lastgood.context import CatalogueReader, Context
    from lastgood.literals import SessionState
    from lastgood.model.checkpoint import HealthNote
    from lastgood.model.session import Ancestry, Session


_NANO = 1_000_000_000
_SHOWN_OTHERS = 3


# A heartbeat younger than this needs no newer one: most saves of a session write none.
_FRESH = 60.0


def judge_lease(
    session: Session,
    *,
    alive: bool | None,
    now: int,
    expires_after: float,
    uptime: int | None = None,
    boot: str | None = None,
) -> SessionState:
    """Return the state of a session as it counts now.

    ``alive`` is None where nobody can tell; then the lease lives ``expires_after`` seconds from its
    last heartbeat. A living owner is never robbed, however old its heartbeat; a clock that is set
    forward or back within one run of the machine (``boot``) makes no lease expire.
    """
    if session.state != "active":
        return session.state
    if alive is not None:
        return "active" if alive else "incomplete"
    age = silence(session, now=now, uptime=uptime, boot=boot)
    return "active" if age <= expires_after * _NANO else "incomplete"


def silence(session: Session, *, now: int, uptime: int | None, boot: str | None) -> int:
    """Return the nanoseconds since the last heartbeat, by the clock that nobody sets where there is one."""
    if boot is not None and boot == session.heartbeat_boot:
        beaten = session.heartbeat_uptime
        if beaten is not None and uptime is not None and uptime >= beaten:
            return uptime - beaten
    return now - session.heartbeat_at


def wants_beat(
    session: Session, *, now: int, expires_after: float, uptime: int | None, boot: str | None
) -> bool:
    """Tell whether a session's heartbeat is so old, or so odd, that it should be renewed."""
    age = silence(session, now=now, uptime=uptime, boot=boot)
    return not 0 <= age < min(_FRESH, expires_after / 10) * _NANO


# --- Which session a verb belongs to, and how far its work has come ---


def current_work(context: Context) -> CurrentWork:
    """Return where the caller stands: in the session it names, else in the workspace's own, if any."""
    session = current_session(context)
    key = context.key if session is None or shares_progress(context, session) else session.id
    return CurrentWork(key=key, session=session, progress=context.work.progress(key))


def is_recorded(context: Context, work: CurrentWork) -> bool:
    """Tell whether the catalogue alone says where the caller stands: no owner's life decides it."""
    if context.passing:
        return False
    if work.session is not None:
        return work.session.id == context.session
    return not context.work.sessions(context.key, state="active")


def shares_progress(context: Context, session: Session) -> bool:
    """Tell whether a session has no progress but that of the workspace: it is one that hooks keep.

    What its agent types names no session, so its tasks are where a person, who takes files back, finds
    them. A goal alone says only by which prompt it began.
    """
    return _is_of_host(session) and context.work.progress(session.id, brief=True).replace(goal=None).empty


def current_session(context: Context) -> Session | None:
    """Return the session that counts: the one named by the caller, else the exclusive one that lives.

    A command below an agent's host, in which no exclusive one lives, is the agent's: it counts to the
    session that hooks keep there.
    """
    named = named_session(context)
    if named is not None:
        # One that lost its lease counts for nobody: least of all for the session that took over.
        return named if named.state == "active" else None
    known = context.work.sessions(context.key, state="active")
    held = next((one for one in known if one.exclusive), None)
    if held is not None and state_of(context, held) == "active":
        return held
    return _shared_session(context, known) if context.passing else None


def named_session(context: Context) -> Session | None:
    """Return the session that the caller names, whether it counts or not; None unless it is one of here."""
    named = None if context.session is None else context.work.session(context.session)
    return named if named is not None and named.workspace_key == context.key else None


def is_agents(context: Context) -> bool:
    """Tell whether the caller works below the host of an agent, in the session that hooks keep there."""
    session = current_session(context)
    return session is not None and not session.exclusive


def _shared_session(context: Context, known: Sequence[Session]) -> Session | None:
    """Return that of several at once whose owner is the nearest above the caller; None if nobody can tell.

    Of several conversations of one process it is that in the middle of a turn, if there is but one. What a
    person types in a terminal that their editor has below an agent's host is none of the agent's.
    """
    heights = [(context.processes.height(one.owner), one) for one in known if _is_of_host(one)]
    least = min((height for height, _ in heights if height is not None), default=None)
    nearest = [one for height, one in heights if height is not None and height == least]
    if len(nearest) > 1:
        running = {one.session for one in context.work.effects(context.key, state="running")}
        nearest = [one for one in nearest if one.id in running]
    if len(nearest) != 1 or context.processes.is_in_own_terminal(nearest[0].owner):
        return None
    return nearest[0]


def _is_of_host(session: Session) -> bool:
    """Tell whether a session is of several at once, and a process was named whose it is.

    Who began one without saying whose it is has its commands name it.
    """
    return not session.exclusive and session.ancestry is None and session.owner.pid is not None


def lost_session_note(context: Context) -> HealthNote | None:
    """Say so if the session that the caller names is over, or not known: what it does counts to another."""
    named = None if context.session is None else context.work.session(context.session)
    if context.session is None or (named is not None and named.workspace_key != context.key):
        return None
    if named is not None and named.state == "active":
        return None
    from lastgood.model.checkpoint import HealthNote

    fate = "is not known here"
    if named is not None:
        taken = named.ended_by == "taken over"
        fate = "has ended: another session took over" if taken else f"is {named.state}"
    return HealthNote(
        code="session-astray",
        message=f"session {printable(context.session)}, which LASTGOOD_SESSION names, {fate};"
        " this does not count to it",
        hint="unset LASTGOOD_SESSION\nor see what there is: lastgood session list",
    )


def session_at_hand(context: Context) -> str | None:
    """Return the id of the session that REFs are about: the caller's, or the last one if it died."""
    if context.session is not None:
        named = context.work.session(context.session)
        if named is not None and named.workspace_key == context.key:
            return named.id
    session = current_session(context)
    if session is None:
        newest = next(iter(context.work.sessions(context.key)), None)
        session = newest if newest is not None and state_of(context, newest) == "incomplete" else None
    return None if session is None else session.id


def state_of(context: Context, session: Session) -> SessionState:
    """Return the state of a session as it counts now: an active one may have died."""
    alive = lives(context, session) if session.state == "active" else None
    return judge_lease(
        session,
        alive=alive,
        now=context.clock.now(),
        expires_after=context.settings.session_expires_after,
        uptime=uptime(context),
        boot=context.processes.boot() if alive is None else None,
    )


def lives(context: Context, session: Session) -> bool | None:
    """Tell whether whoever is at work in a session lives; None where that cannot be told."""
    alive = None if session.owner.pid is None else context.processes.alive(session.owner)
    if session.ancestry is None or alive is True or (alive is None and session.ancestry.found):
        return alive
    return context.processes.lives(session.ancestry)


def is_callers(context: Context, session: Session) -> bool:
    """Tell whether the owner that was found is the caller or above it: that one refuses it nothing."""
    known = session.ancestry
    return known is not None and known.found and context.processes.encloses(session.owner)


def may_be_callers(context: Context, session: Session) -> bool:
    """Tell whether a session's owner is the caller or above it, as far as its verbs tell so far.

    It is nobody's else where none of those that may be at work lives but who is above the caller, too.
    """
    known = session.ancestry
    if known is None or known.found or not context.passing or not known.owners:
        return is_callers(context, session)
    return context.processes.are_own(known)


def uptime(context: Context) -> int:
    """Return nanoseconds by the clock that nobody sets."""
    return int(context.clock.monotonic() * 1_000_000_000)


def beat(context: Context, session: Session) -> None:
    """Record that a session lives, unless that was done a moment ago, and whose it is (rule P1)."""
    boot, now, up = context.processes.boot(), context.clock.now(), uptime(context)
    expires_after = context.settings.session_expires_after
    above = tells_owner(context, session)
    if above is None and not wants_beat(session, now=now, expires_after=expires_after, uptime=up, boot=boot):
        return

    def beaten(found: Session) -> Session:
        renewed = found.replace(heartbeat_at=now, heartbeat_uptime=up, heartbeat_boot=boot)
        return renewed if above is None else under(context, renewed, above)

    context.work.change(lambda work: work.change_session(session.id, beaten))


def tells_owner(context: Context, session: Session) -> Ancestry | None:
    """Return who is above this verb if that tells more of whose a session is; None if it does not.

    Only a verb of the session itself does, and only of one whose owner nobody named.
    """
    known = session.ancestry
    if not context.passing or context.session != session.id:
        return None
    if known is None and session.owner.pid is not None:
        return None
    if known is not None and known.found and lives(context, session):
        return None
    above = context.processes.ancestry()
    return None if above is None or under(context, session, above) == session else above


def placed(context: Context, session: Session) -> Session:
    """Return a session with what this verb tells of its owner."""
    above = tells_owner(context, session)
    return session if above is None else under(context, session, above)


def under(context: Context, session: Session, above: Ancestry) -> Session:
    """Return a session with what one more verb, which was below some processes, tells of its owner."""
    from lastgood.ancestry import follow

    known = follow(session.ancestry, above, alive=lives(context, session))
    owner = context.processes.ancestor(known) if known.found else Owner(host=known.host)
    return session.replace(ancestry=known, owner=owner)


def report_on(context: Context, session: Session, *, brief: bool = False) -> SessionReport:
    """Return a session as it stands now; in ``brief`` its tasks are proven when they are asked for."""
    state = state_of(context, session)
    alive = lives(context, session) if session.state == "active" else None
    return SessionReport(
        session=session,
        state=state,
        owner_state="unknown" if alive is None else "alive" if alive else "dead",
        progress=context.work.progress(session.id, brief=brief),
        words=() if state == "ended" else run_command(context, session),
    )


def last_sign(context: Context, run: SessionReport) -> int:
    """Return when a run gave its last sign of life, in nanoseconds: what it told, saved or renewed."""
    newest = context.catalogue.find(Query(workspace_key=context.key, session=run.id, limit=1, brief=True))
    told = [moment or 0 for one in run.progress.tasks for moment in (one.started_at, one.ended_at)]
    saved = [one.manifest.created_at for one in newest]
    return max((run.session.heartbeat_at, *told, *saved))


def unfinished(context: Context, *, brief: bool = False) -> tuple[SessionReport, ...]:
    """Return the sessions that ended without finishing and wait to be dealt with (rule P8)."""
    work = context.work
    found = (*work.sessions(context.key, state="active"), *work.sessions(context.key, state="incomplete"))
    dead = _in_state("incomplete", context, found, brief=brief)
    return tuple(sorted(dead, key=lambda one: one.session.started_at, reverse=True))


def unattended(context: Context) -> tuple[SessionReport, ...]:
    """Return the sessions under way that nobody is proven to be at, but for the caller (rule P7a)."""
    living = living_sessions(context)
    return tuple(one for one in living if is_unattended(context, one.session))


def is_unattended(context: Context, session: Session) -> bool:
    """Tell whether nobody, but for the caller, is proven to be at a session under way."""
    return lives(context, session) is not True or is_callers(context, session)


def run_command(context: Context, session: Session) -> tuple[str, ...]:
    """Return what carries out the run of a session again, after `lastgood`; nothing for other work."""
    run = context.work.run(session.id)
    if run is None:
        return ()
    if run.plan.source is not None:
        return ("run", run.plan.source)
    task = run.plan.tasks[0]
    if not run.plan.command or isinstance(task.run, str):
        return ()
    given = {
        "--check": task.check if isinstance(task.check, str) else None,
        "--retries": str(task.retries) if task.retries else None,
        "--timeout": None if task.timeout is None else f"{task.timeout:g}s",
        "--on-failure": None if task.on_failure == "stop" else task.on_failure,
    }
    options = [word for name, value in given.items() if value is not None for word in (name, value)]
    return ("run", *options, "--", *task.run)


_LEAST_DIGITS = 4
_PREFIX = "sess_"


def session_of(context: Context, name: str) -> Session:
    """Return the session of an id, or of at least 4 of its hex digits; `NotFound`, `Ambiguous`."""
    if not isinstance(name, str):
        raise Usage(f"a session is named by a text, not by {type(name).__name__}", hint="give its id")
    digits = name.removeprefix(_PREFIX)
    found = []
    if len(digits) >= _LEAST_DIGITS:
        known = context.work.sessions(context.key)
        found = [one for one in known if one.id.removeprefix(_PREFIX).startswith(digits)]
    if len(found) > 1:
        raise Ambiguous(
            f"'{printable(name)}' fits {len(found)} sessions",
            hint="give more digits of the id",
            details={"candidates": [one.id for one in found]},
        )
    if not found:
        raise NotFound(
            f"no session '{printable(name)}' in this workspace",
            hint="see what there is: lastgood session list",
        )
    return found[0]


def left_elsewhere(context: Context) -> tuple[HealthNote, ...]:
    """Say what is kept of a workspace that may have been this one: it was moved, or a checkout made anew.

    Nothing where this folder has something of its own in the store.
    """
    if context.catalogue.count(context.key) or context.work.sessions(context.key):
        return ()
    from lastgood.model.checkpoint import HealthNote

    notes = [*gone_below(context.catalogue, os.fsdecode(context.root), machine=context.row.machine)]
    for row in _lookalikes(context):
        place = printable(row.path)
        hint = f"if this is that project: lastgood workspace attach {quoted(row.path)}"
        there = context.replace(key=row.key, row=row, session=None)
        for one in (left := (*unfinished(there), *unattended(there))):
            goal = "" if one.session.goal is None else f" ({printable(one.session.goal)})"
            message = f"session {one.id}{goal} of {place}, which is not here, is incomplete"
            notes.append(HealthNote(code="left-elsewhere", message=message, hint=hint))
        if not left and (number := context.catalogue.count(row.key, guards=False)):
            notes.append(HealthNote(code="moved-here", message=_held_there(context, row, number), hint=hint))
    return tuple(notes)


def gone_below(catalogue: CatalogueReader, folder: str, *, machine: str) -> tuple[HealthNote, ...]:
    """Say which workspaces in a folder are gone and have checkpoints, the newest first, with the way back."""
    from lastgood.model.checkpoint import HealthNote

    found = []
    for row in catalogue.workspaces():
        if not row.path.startswith(f"{folder.rstrip('/')}/") or row.machine != machine:
            continue
        newest = catalogue.find(Query(workspace_key=row.key, guards=False, limit=1, brief=True))
        if newest and not os.path.lexists(row.path):
            found.append((newest[0].manifest.created_at, row))
    found.sort(key=lambda one: one[0], reverse=True)
    notes = []
    for _, row in found[:_SHOWN_OTHERS]:
        number = catalogue.count(row.key, guards=False)
        name = printable(os.path.relpath(row.path, folder))
        notes.append(
            HealthNote(
                code="gone-below",
                message=f"{name}, in this folder, is gone and has {count(number, 'checkpoint')}",
                hint=f"bring it back: lastgood -C {quoted(row.path)} restore @",
            )
        )
    return tuple(notes)


def begun_beside(context: Context) -> tuple[HealthNote, ...]:
    """Say after a workspace's first save which other one it may be, moved here."""
    from lastgood.model.checkpoint import HealthNote

    return tuple(
        HealthNote(
            code="moved-here",
            message=_held_there(context, row, number),
            hint="if it was moved here, forget the checkpoint just made: lastgood workspace forget ."
            f"\nthen take the others over: lastgood workspace attach {quoted(row.path)}",
        )
        for row in _lookalikes(context)
        if (number := context.catalogue.count(row.key, guards=False))
    )


def _held_there(context: Context, row: WorkspaceRow, number: int) -> str:
    here = row.machine == context.row.machine
    where = "which is not there any more" if here else "of another machine"
    return f"{printable(row.path)}, {where}, has {count(number, 'checkpoint')}"


def _lookalikes(context: Context) -> list[WorkspaceRow]:
    """Return the workspaces whose folder is not here, and that may be this one by name or by content.

    First come those of the same name: worktrees of one project are all alike.
    """
    rows = context.catalogue.workspaces()
    root = os.fsdecode(context.root)
    name, below = os.path.basename(root), f"{root.rstrip('/')}/"
    gone = [
        row
        for row in rows
        if row.key != context.key
        and not (
            row.machine == context.row.machine and (os.path.isdir(row.path) or row.path.startswith(below))
        )
    ]
    others = [row for row in rows if row.key != context.key]
    alike = [
        row
        for row in gone
        if os.path.basename(row.path) == name or len(others) == 1 or _is_alike(context, row)
    ]
    return sorted(alike, key=lambda row: os.path.basename(row.path) != name)[:_SHOWN_OTHERS]


def _is_alike(context: Context, row: WorkspaceRow) -> bool:
    """Tell whether this folder has most of what was topmost in the newest checkpoint of a workspace."""
    from lastgood.trees import tree_of  # lazily: only where a folder may have been moved

    found = context.catalogue.find(Query(workspace_key=row.key, complete=True, guards=False, limit=1))
    try:
        names = [entry.name for one in found for entry in context.engine.directory(tree_of(one))]
    except Damaged:
        return False
    here = sum(os.path.lexists(join(context.root, name)) for name in names)
    return here > 1 and here * 2 > len(names)


def living_sessions(context: Context, *, brief: bool = False) -> tuple[SessionReport, ...]:
    """Return the sessions under way, newest first."""
    known = context.work.sessions(context.key, state="active")
    return tuple(_in_state("active", context, known, brief=brief))


def _in_state(
    state: SessionState, context: Context, sessions: Sequence[Session], *, brief: bool
) -> Iterator[SessionReport]:
    """Yield reports on those sessions that are in a state: of no others is the progress read."""
    for one in sessions:
        if state_of(context, one) == state:
            yield report_on(context, one, brief=brief).replace(state=state)
