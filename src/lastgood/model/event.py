"""What observers are told, after the fact."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    EventType = Literal[
        "saved",
        "restored",
        "undone",
        "deleted",
        "pruned",
        "session_started",
        "session_ended",
        "task_changed",
        "failed",
    ]
    Observer = Callable[["Event"], None]


class Event(Value):
    """Something that happened; ``report`` is what the verb returned, or the error it raised.

    ``began`` and ``ended`` are in nanoseconds since the epoch. ``attempted`` says of a failure what it
    would have been.
    """

    type: EventType
    workspace: str
    report: object
    began: int | None = None
    ended: int | None = None
    attempted: EventType | None = None
