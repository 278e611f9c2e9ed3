"""A session: one run of autonomous work, and the lease by which its owner holds the workspace (P1)."""

from __future__ import annotations

from lastgood.model.progress import Progress
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    SessionState = Literal["active", "ended", "incomplete"]

SESSION_STATES: tuple[SessionState, ...] = ("active", "ended", "incomplete")


class Owner(Value):
    """The process on whose life a lease depends; without ``pid`` the lease lives by heartbeat.

    ``started`` is the process's start time as the kernel counts it, ``boot`` the id of the machine's
    run, and ``namespace`` the space in which ``pid`` counts: together they tell a process from a
    later one, or one elsewhere, of the same number.
    """

    host: str
    pid: int | None = None
    command: str | None = None
    started: str | None = None
    boot: str | None = None
    namespace: str | None = None


class Living(Value):
    """A process that still runs."""

    pid: int
    command: str


class Usage(Value):
    """What some processes use: resident memory in bytes, processor time in seconds."""

    memory_bytes: int
    cpu_seconds: float


class Session(Value):
    """One run. Times are in nanoseconds since the epoch.

    ``state`` is what was recorded; an active one whose owner is dead or whose heartbeat is too old
    counts as incomplete (`lastgood.rules.lease`). ``exclusive`` is False for sessions that hosts
    open by hooks. ``transcript`` is the file that the conversation is captured from at every
    checkpoint. ``took_over`` names the session that this one pushed aside by force, ``ended_by`` says
    why an ended one ended (``finished``, ``interrupted``, ``taken over``, ``fresh``, ``error``, or
    ``failed``: its start did). ``heartbeat_uptime`` is when the last heartbeat was by a clock that nobody
    sets, in nanoseconds of the machine's run ``heartbeat_boot``.
    """

    id: str
    workspace_key: str
    owner: Owner
    started_at: int
    heartbeat_at: int
    state: SessionState = "active"
    goal: str | None = None
    sprint: str | None = None
    exclusive: bool = True
    ended_at: int | None = None
    ended_by: str | None = None
    transcript: str | None = None
    took_over: str | None = None
    heartbeat_uptime: int | None = None
    heartbeat_boot: str | None = None


class SessionReport(Value):
    """A session as it stands now: ``state`` is the one that counts, whatever was recorded.

    ``words`` are what to give to ``lastgood`` so that a plan goes on that the session carries out; none
    where there is no plan, or nothing left to do.
    """

    session: Session
    state: SessionState
    progress: Progress
    words: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The session's id."""
        return self.session.id


class Standing(Value):
    """The session that a verb belongs to (None outside one), and how far its work has come.

    ``key`` is where that progress is kept: the session's id, or the workspace's key.
    """

    key: str
    session: Session | None = None
    progress: Progress = Progress()
