"""Which session a verb belongs to, and how far its work has come."""

from __future__ import annotations

from lastgood.model.session import Standing
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
        if named is not None and named.workspace_key == context.key and named.state == "active":
            return named
    for session in context.work.sessions(context.key):
        if session.exclusive and session.state == "active":
            return session if state_of(context, session) == "active" else None
    return None


def state_of(context: Context, session: Session) -> SessionState:
    """Return the state of a session as it counts now: an active one may have died."""
    alive = context.processes.alive(session.owner) if session.state == "active" else None
    return lease.standing(
        session,
        alive=alive,
        now=context.clock.now(),
        expires_after=context.settings.session_expires_after,
    )
