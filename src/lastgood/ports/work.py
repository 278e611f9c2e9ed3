"""Facts about the work: its sessions, how far it has come, and what was done that cannot be undone."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Protocol

    from lastgood.model.effect import Effect, EffectState
    from lastgood.model.progress import Progress
    from lastgood.model.running import PlannedRun
    from lastgood.model.session import Session, SessionState
else:
    Protocol = object


class WorkReader(Protocol):
    """Facts as of the moment of each call."""

    def sessions(
        self, workspace_key: str | None = None, *, state: SessionState | None = None
    ) -> Sequence[Session]:
        """Return sessions as they were recorded, newest first: of one workspace, or of all.

        Only those recorded in one state, if given: of what ended there may be thousands.
        """

    def session(self, session: str) -> Session | None:
        """Return the session with exactly this id."""

    def progress(self, key: str) -> Progress:
        """Return the progress of a session, or (by its key) of a workspace outside any; empty if none."""

    def effects(
        self,
        workspace_key: str,
        *,
        session: str | None = None,
        state: EffectState | None = None,
        name: str | None = None,
    ) -> Sequence[Effect]:
        """Return the steps of a workspace in the order of their start.

        Of one session only, in one state only, or of one name only, if given.
        """

    def run(self, session: str) -> PlannedRun | None:
        """Return the plan that a session carries out; None if it has none."""

    def runs(self, workspace_key: str, *, limit: int) -> Sequence[PlannedRun]:
        """Return the plans that the sessions of a workspace carry out, newest first, so many at most."""


class Work(WorkReader, Protocol):
    """Facts that may be changed. Every method is one transaction, durable when it returns.

    The workspace has to be known to the catalogue (`Catalogue.add_workspace`).
    """

    def open_session(
        self, session: Session, *, replacing: Sequence[Session] = (), run: PlannedRun | None = None
    ) -> None:
        """Add a session, with the plan that it carries out, and record others anew, together.

        Raises `Conflict` if the session is exclusive and another exclusive one of the workspace is
        recorded as active and not among those replaced: it opened in between; or if one that is to be
        recorded as incomplete has beaten since.
        """

    def settle_session(
        self,
        session: Session,
        *,
        was: Session,
        replacing: Sequence[Session] = (),
        progress: Callable[[Progress], Progress],
        steps: Sequence[Effect],
    ) -> Progress:
        """Record a session that died anew, others, its progress and its steps, all or nothing.

        Raises `Conflict` if it is not recorded as it ``was`` any more, or if it would be active and
        exclusive beside another one that is not among those replaced.
        """

    def put_session(self, session: Session) -> None:
        """Record a session anew; `NotFound` if there is none of its id."""

    def change_session(self, session: str, change: Callable[[Session], Session]) -> Session:
        """Replace a session by what a function makes of it, and return that; others wait meanwhile.

        `NotFound` if there is no such session. What the function raises leaves everything as it was.
        """

    def beat(self, session: str, *, at: int) -> None:
        """Record that a session's owner lives; `NotFound` if there is no such session."""

    def change_progress(
        self,
        key: str,
        change: Callable[[Progress], Progress],
        *,
        workspace_key: str,
        steps: Callable[[Progress], Iterable[Effect]] | None = None,
    ) -> Progress:
        """Replace progress by what a function makes of it, and return that; others wait meanwhile.

        ``steps`` gives the steps of the work to be recorded with it, all or nothing. What either
        raises leaves everything as it was; both may ask for facts.
        """

    def put_run(self, run: PlannedRun, *, progress: Callable[[Progress], Progress]) -> Progress:
        """Give a session another plan, and replace its progress, together."""

    def put_effect(self, effect: Effect) -> None:
        """Record a step of the work, or record it anew."""
