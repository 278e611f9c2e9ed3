"""When a session still holds its workspace, decided from what is known of its owner (rule P1)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.session import Session, SessionState

_NANO = 1_000_000_000


def standing(session: Session, *, alive: bool | None, now: int, expires_after: float) -> SessionState:
    """Return the state of a session as it counts now.

    ``alive`` is None where nobody can tell; then the lease lives ``expires_after`` seconds from its
    last heartbeat. A living owner is never robbed, however old its heartbeat; a clock that went back
    makes no lease expire.
    """
    if session.state != "active":
        return session.state
    if alive is not None:
        return "active" if alive else "incomplete"
    return "active" if now - session.heartbeat_at <= expires_after * _NANO else "incomplete"
