"""When a session still holds its workspace, decided from what is known of its owner (rule P1)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.session import Session, SessionState

_NANO = 1_000_000_000


# A heartbeat younger than this needs no newer one: most saves of a session write none.
_FRESH = 60.0


def standing(
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
