"""What the verbs about the work itself return."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.effect import Effect
    from lastgood.model.progress import Progress, Task
    from lastgood.model.report import SaveReport
    from lastgood.model.session import Session, SessionReport


class SessionStarted(Value):
    """A session that began; ``saved`` is its first checkpoint, None where settings want none.

    ``took_over`` is the living session that had to give way, ``unfinished`` are the ids of those that
    died before and wait to be continued or given up. One that was ``continued`` had stopped without
    finishing; ``unknown`` are steps of it of which nobody saw the end.
    """

    session: SessionReport
    saved: SaveReport | None = None
    took_over: Session | None = None
    unfinished: tuple[str, ...] = ()
    continued: bool = False
    unknown: tuple[Effect, ...] = ()


class SessionEnded(Value):
    """A session that ended; ``unknown`` are its steps of which nobody saw the end."""

    session: SessionReport
    saved: SaveReport | None = None
    unknown: tuple[Effect, ...] = ()


class ProgressReport(Value):
    """Progress as a verb left it: of a session, or of the workspace (``session`` is None).

    ``task`` is the one that changed. ``saved`` is the checkpoint that came of it, if any; ``unknown``
    are earlier attempts of which nobody saw the end.
    """

    progress: Progress
    session: str | None = None
    task: Task | None = None
    saved: SaveReport | None = None
    unknown: tuple[Effect, ...] = ()
