"""Who holds a workspace, since when, and what ends that, in words for whoever is refused (rule P1)."""

from __future__ import annotations

from lastgood.actions.standing import report_on
from lastgood.codec.moment import iso
from lastgood.errors import Conflict
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.session import Owner, Session
    from lastgood.ports.context import Context


def holder(session: Session) -> str:
    """Return who holds a session, and since when."""
    owner, since = session.owner, f"since {iso(session.started_at)}"
    host, beat = printable(owner.host), f"last heartbeat {iso(session.heartbeat_at)}"
    if owner.pid is None:
        return f"no process named on {host}, {since}, {beat}"
    return f"process {owner.pid} ({printable(owner.command or '?')}) on {host}, {since}, {beat}"


def way_to_end(context: Context, session: Session) -> str:
    """Return what ends a session that lives; a runner that is seen ends its own, with its task."""
    if _is_run_in_sight(context, session):
        return f"ask it to end: kill {session.owner.pid}"
    return f"end it: lastgood session end {session.id}"


def held(context: Context, session: Session, *, by: Owner) -> Conflict:
    """Return the refusal of a second exclusive session."""
    if by.pid is not None and session.owner == by:
        return _conflict(
            session,
            f"this process ({by.pid}) has a session already: {session.id}, since {iso(session.started_at)}",
            hint=f"go on in it: export LASTGOOD_SESSION={session.id}    or end it: lastgood session end",
        )
    first = f"join it: export LASTGOOD_SESSION={session.id}"
    if _is_run_in_sight(context, session):
        first = f"wait until its plan is carried out    or {way_to_end(context, session)}"
    return _conflict(
        session,
        f"a session is already active: {session.id} of {holder(session)}",
        hint=f"{first}    or take over: lastgood session start --force",
    )


def living(context: Context, session: Session, *, doing: str) -> Conflict:
    """Return the refusal of what cannot be done beside a session that lives; ``doing`` says what it does."""
    return _conflict(
        session,
        f"session {session.id} {doing}: it is held by {holder(session)}",
        hint=f"wait until it has ended    or {way_to_end(context, session)}",
    )


def refuse_run(context: Context, session: Session) -> None:
    """Refuse to end the session of a run under way: `Conflict`, with its runner named.

    Its task would go on outside any session; a runner that is asked to end ends both.
    """
    if session.state != "active" or not _is_run_in_sight(context, session):
        return
    from shlex import join

    words = printable(join(report_on(context, session).words))
    later = f"    and go on with it later: lastgood {words}" if words else ""
    raise _conflict(
        session,
        f"session {session.id} is a run under way, held by {holder(session)}",
        hint=f"{way_to_end(context, session)}{later}",
    )


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
