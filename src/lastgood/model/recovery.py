"""What `recover` is asked for, what it found, and what it did about it (rules T7, P7)."""

from __future__ import annotations

from lastgood.model.progress import Progress
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.effect import Effect
    from lastgood.model.part import PartOutcome
    from lastgood.model.plan import Outcome
    from lastgood.model.progress import Position, Task
    from lastgood.model.report import HeadMoved, RestoreReport, State
    from lastgood.model.session import Living, Session, SessionReport
    from lastgood.model.tree import Counts

    Choice = Literal["continue", "fresh", "review"]
    Settled = Literal["finished-restore", "rolled-back-restore"]
    Recovered = Literal["continue", "fresh", "review", "finished-restore", "rolled-back-restore"]
    ArtifactState = Literal["present", "reloaded", "missing"]

CHOICES: tuple[Choice, ...] = ("continue", "fresh", "review")


class Artifact(Value):
    """A path that was being worked on. ``missing`` also means that no checkpoint at hand holds it."""

    path: bytes
    state: ArtifactState


class RecoverReport(Value):
    """Where work stands, and what was done to go on.

    ``session`` is the run that died (None: none did), with the progress that it has now; ``waiting``
    are others that died. ``checkpoint`` is its last one, the one that was asked for, or the one that the
    workspace stands at; ``returned`` says that this is not its last or the newest one. ``progress``
    is what counts: the session's, else the checkpoint's. ``interrupted_restore`` tells what
    became of one, ``restored`` what was brought back beside that: files of ``--rollback``, or
    artifacts that were missing. ``outcomes`` are the paths of both. ``irreversible`` are steps done after
    the checkpoint that files were taken back to. ``took_over`` is a session that lived, and has ended for
    this one to go on; ``beside`` one that lives and is at work, where nothing died.
    """

    state: State
    done: Recovered | None = None
    checkpoint: Checkpoint | None = None
    session: SessionReport | None = None
    progress: Progress = Progress()
    unknown_effects: tuple[Effect, ...] = ()
    irreversible: tuple[Effect, ...] = ()
    live_processes: tuple[Living, ...] = ()
    git_matches: bool | None = None
    head_moved: HeadMoved | None = None
    drift: Counts | None = None
    artifacts: tuple[Artifact, ...] = ()
    waiting: tuple[SessionReport, ...] = ()
    interrupted_restore: Settled | None = None
    restored: RestoreReport | None = None
    outcomes: tuple[Outcome, ...] = ()
    parts: tuple[PartOutcome, ...] = ()
    took_over: Session | None = None
    beside: Session | None = None
    returned: bool = False

    @property
    def position(self) -> Position | None:
        """Where the work stands; None if nobody said."""
        return None if self.progress.position.empty else self.progress.position

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks of the work, in the order in which they were first named."""
        return self.progress.tasks

    @property
    def guard(self) -> str | None:
        """The checkpoint that holds what was there before files were brought back."""
        return None if self.restored is None else self.restored.guard

    @property
    def operation(self) -> str | None:
        """What `undo` takes back, if files were brought back."""
        return None if self.restored is None else self.restored.operation

    @property
    def files(self) -> tuple[Outcome, ...]:
        """What became of each path."""
        return self.outcomes

    @property
    def omissions(self) -> tuple[Outcome, ...]:
        """The paths that were skipped or failed (exit code 3)."""
        return tuple(one for one in self.outcomes if one.result in {"skipped", "failed"})
