"""Which task of a session is at work: in each thread, and in each task of an event loop, its own."""

from __future__ import annotations

from contextvars import ContextVar

_AT_WORK: ContextVar[tuple[str, str | None] | None] = ContextVar("lastgood_task", default=None)


def task_of(session: str, *, otherwise: str | None) -> str | None:
    """Return the task that the caller works on in a session, ``otherwise`` if nothing here says so."""
    held = _AT_WORK.get()
    return held[1] if held is not None and held[0] == session else otherwise


def work_on(session: str, task: str | None) -> None:
    """Have the caller, and whatever it starts, work on a task of a session, or on none."""
    _AT_WORK.set((session, task))
