"""Which session a verb belongs to, and how far its work has come."""

from __future__ import annotations

from lastgood.model.session import SessionReport, Standing
from lastgood.rules import lease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.session import Session, SessionState
    from lastgood.ports.context import Context


def standing(context: Context) -> Standing:
    """Return where the caller stands: in the session it names, else in the workspace's own, if any."""
    session = current_session(context)
    key = context.key if session is None else session.id
    return Standing(key=key, session=session, progress=context.work.progress(key))


def current_session(context: Context) -> Session | None:
    """Return the session that counts: the one named by the caller, else the exclusive one that lives."""
    if context.session is not None:
        named = context.work.session(context.session)
        if named is not None and named.workspace_key == context.key:
            # One that lost its lease counts for nobody: least of all for the session that took over.
            return named if named.state == "active" else None
    for session in context.work.sessions(context.key, state="active"):
        if session.exclusive:
            return session if state_of(context, session) == "active" else None
    return None


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
    alive = context.processes.alive(session.owner) if session.state == "active" else None
    return lease.standing(
        session,
        alive=alive,
        now=context.clock.now(),
        expires_after=context.settings.session_expires_after,
        uptime=uptime(context),
        boot=context.processes.boot() if alive is None else None,
    )


def uptime(context: Context) -> int:
    """Return nanoseconds by the clock that nobody sets."""
    return int(context.clock.monotonic() * 1_000_000_000)


def beat(context: Context, session: Session) -> None:
    """Record that a session lives, unless that was done a moment ago (rule P1)."""
    boot, now, up = context.processes.boot(), context.clock.now(), uptime(context)
    expires_after = context.settings.session_expires_after
    if lease.wants_beat(session, now=now, expires_after=expires_after, uptime=up, boot=boot):
        context.work.change_session(
            session.id,
            lambda found: found.replace(heartbeat_at=now, heartbeat_uptime=up, heartbeat_boot=boot),
        )


def report_on(context: Context, session: Session) -> SessionReport:
    """Return a session as it stands now."""
    return SessionReport(
        session=session, state=state_of(context, session), progress=context.work.progress(session.id)
    )
