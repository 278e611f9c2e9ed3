"""The catalogue keeps facts: which checkpoints exist, and everything about them that may change."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from typing import Protocol, TypeVar

    from lastgood.model.checkpoint import Check, Checkpoint, Manifest, TreeRef
    from lastgood.model.operation import Operation
    from lastgood.model.run import PlannedRun
    from lastgood.model.session import Effect, EffectState, Progress, Session, SessionState
    from lastgood.value import Value

    Result = TypeVar("Result")
else:
    Protocol = object
    from lastgood.value import Value


class WorkspaceRow(Value):
    """A workspace known to the store. ``path`` is its real path, ``machine`` where that path counts."""

    key: str
    path: str
    machine: str
    created_at: int


class CheckpointFacts(Value):
    """What a save has to know of a checkpoint, without its manifest being read.

    ``tree`` and ``modes`` are in hex; ``gaps`` is the text that `encode_gaps` wrote.
    """

    id: str
    sequence: int
    kind: str
    created_at: int
    tree: str
    modes: str
    partial: bool
    gaps: str


class LatestFacts(Value):
    """The newest checkpoint of a workspace, and the newest complete one that is no guard."""

    newest: CheckpointFacts
    complete: CheckpointFacts | None


class Query(Value):
    """Which checkpoints to list, newest first. ``since`` is in nanoseconds.

    ``name`` is a glob (``*``, ``?``, ``[a-z]``); ``called`` is one name exactly. ``root`` is
    the tree of the files. In ``brief`` the checkpoints come without the tasks of their progress and the
    paths that git showed, which takes a fraction of the time where there are many.
    """

    workspace_key: str | None = None
    limit: int | None = None
    offset: int = 0
    kind: str | None = None
    session: str | None = None
    task: str | None = None
    moment: str | None = None
    step: int | None = None
    since: int | None = None
    until: int | None = None
    name: str | None = None
    called: str | None = None
    good: bool = False
    complete: bool = False
    guards: bool = True
    deleted: bool = False
    root: TreeRef | None = None
    brief: bool = False


class Arrival(Value):
    """A checkpoint that comes from another store, with the number that it is to get here if it can."""

    manifest: Manifest
    commit: str
    sequence: int
    name: str | None = None
    pinned: bool = False
    good: bool | None = None
    check: Check | None = None


class Arrivals(Value):
    """What an import brings; ``progress`` by key, with the workspace's. ``revived`` were deleted here."""

    workspaces: tuple[WorkspaceRow, ...] = ()
    checkpoints: tuple[Arrival, ...] = ()
    sessions: tuple[Session, ...] = ()
    progress: tuple[tuple[str, str, Progress], ...] = ()
    effects: tuple[Effect, ...] = ()
    runs: tuple[PlannedRun, ...] = ()
    revived: tuple[str, ...] = ()


class CatalogueReader(Protocol):
    """Facts, as of the moment of each call. Deleted checkpoints are not seen unless asked for."""

    def generation(self) -> str:
        """Return the engine generation: it changes whenever objects may have been freed."""

    def workspaces(self) -> Sequence[WorkspaceRow]:
        """Return every workspace, by path."""

    def workspace(self, key: str) -> WorkspaceRow | None:
        """Return one workspace."""

    def latest_facts(self, workspace_key: str) -> LatestFacts | None:
        """Return what a save has to know about the newest checkpoint; None before the first."""

    def find(self, query: Query) -> Sequence[Checkpoint]:
        """Return checkpoints, newest first by sequence."""

    def get(self, checkpoint: str) -> Checkpoint | None:
        """Return the checkpoint with exactly this id, deleted or not."""

    def with_prefix(self, digits: str) -> Sequence[Checkpoint]:
        """Return the checkpoints whose id begins with these hex digits, newest first, all workspaces."""

    def count(self, workspace_key: str | None = None) -> int:
        """Return how many checkpoints exist."""

    def count_loose(self, workspace_key: str) -> int:
        """Return how many checkpoints of a workspace are neither named nor pinned nor a feature."""

    def commits(self, *, deleted_after: int | None = None) -> Sequence[str]:
        """Return the commits that rows refer to; of deleted rows only those deleted after a time.

        Without a time, of all rows. Raises `Damaged` if a row was altered from outside: the commit
        that it really means might be left out, and its bytes freed.
        """

    def freed(self) -> Sequence[str]:
        """Return the commits whose rows were dropped and whose bytes may not be freed yet."""

    def operations(
        self, workspace_key: str, *, limit: int | None = None, offset: int = 0
    ) -> Sequence[Operation]:
        """Return the operations of a workspace, newest first: all, or so many after so many."""

    def next_sequence(self) -> int:
        """Return the number that the next checkpoint will probably get."""

    def accounted(self) -> Sequence[str]:
        """Return the commits of rows that nobody altered, and of those dropped whose bytes are not freed."""

    def faults(self) -> Sequence[str]:
        """Return what `fault` does, and what is wrong with the copies beside the catalogue."""

    def is_older(self) -> bool:
        """Tell whether a backup is ahead of the catalogue: an older copy of it was put back."""

    def fault(self) -> str | None:
        """Return what SQLite's own integrity check says, None if all is well."""

    def altered(self) -> Sequence[str]:
        """Return the commits of the rows that were altered from outside (`Catalogue.adopt` mends them)."""

    def swept(self) -> int | None:
        """Return when nothing was left to be freed, None where that is not known."""

    def spare_bytes(self, *, without: Collection[str] = ()) -> int:
        """Return about how many bytes `shrink` would give back if some checkpoints' rows were dropped."""


class CatalogueWriter(CatalogueReader, Protocol):
    """Facts that saves, restores and marks change, each durably and in one step of its own."""

    def add_workspace(self, row: WorkspaceRow) -> None:
        """Add a workspace, or leave the one that is there."""

    def attach(self, key: str, *, path: str, machine: str | None = None) -> None:
        """Give a workspace another path, and another machine if one is given."""

    def take_in(self, arrivals: Arrivals) -> Arrivals:
        """Add what comes from another store, all of it or nothing, and return what was not here yet."""

    def demand_room(self, *, beside: int) -> None:
        """Refuse with `NoRoom` where the disk would not take a change any more after so many bytes."""

    def add(self, manifest: Manifest, *, commit: str, name: str | None, pinned: bool) -> Checkpoint:
        """Add a checkpoint: from now on it exists. Several may bear one name; the newest counts."""

    def set_name(self, checkpoint: str, name: str | None) -> None:
        """Name a checkpoint."""

    def set_pinned(self, checkpoint: str, *, pinned: bool) -> None:
        """Pin or unpin a checkpoint."""

    def set_verdict(self, checkpoint: str, *, good: bool | None, check: Check) -> None:
        """Record what came of a check command; the last verdict counts. `NotFound` without the checkpoint."""

    def delete(self, checkpoints: Iterable[str], *, at: int) -> None:
        """Mark checkpoints as deleted; their bytes stay until a sweep after the grace time."""

    def delete_unchanged(self, checkpoints: Iterable[Checkpoint], *, at: int) -> Sequence[str]:
        """Mark those as deleted whose name and pin are what they were when they were read; say which."""

    def undelete(self, checkpoints: Iterable[str]) -> None:
        """Take deletions back."""

    def add_operation(self, operation: Operation) -> None:
        """Record an operation."""

    def set_undone(self, operation: str, *, undone: bool) -> None:
        """Mark an operation as undone, or as standing again."""

    def set_generation(self, generation: str) -> None:
        """Declare that objects may have been freed."""

    def empty_log(self) -> None:
        """Give back the room that a log of changes takes, where that is possible just now."""


class CatalogueMaintainer(CatalogueWriter, Protocol):
    """Facts that maintenance changes beside others."""

    def adopt(self, manifest: Manifest, *, commit: str) -> Checkpoint | None:
        """Add a checkpoint found in the engine, marked as recovered, with the name it was born with.

        None if a sound row of it is there. It gets the number that its manifest expected, or the
        next free one: called in the order of those numbers, a rebuild keeps the order of the saves.
        A row that was altered from outside is written anew, and keeps its mutable facts.
        """

    def set_damaged(self, faults: dict[str, str | None]) -> None:
        """Mark checkpoints as damaged, with the reason, or as sound again."""

    def set_swept(self, at: int) -> None:
        """Remember that at a time (in nanoseconds) nothing was left to be freed."""

    def forget_operations(self, *, before: int, keep: int) -> int:
        """Drop operations older than a time, but the newest ``keep`` of each workspace; say how many."""

    def mend(self) -> Sequence[str]:
        """Mend what was altered from outside (operations, the work, workspaces), and say what was done.

        Operations and facts about the work that no backup has are dropped.
        """

    def mend_copies(self) -> Sequence[str]:
        """Set copies aside that are not sound, write one anew, and say so; nothing if all are."""

    def back_up(self) -> bool:
        """Write a sound copy beside the catalogue; False when nothing changed since the last one.

        `Damaged`, and no copy, if the catalogue itself is not sound.
        """

    def shrink(self) -> int:
        """Give back the room that dropped rows left, where that is worthwhile; return the bytes."""


class Catalogue(CatalogueMaintainer, Protocol):
    """All facts: rows are dropped by who holds the store alone."""

    def forget(self, *, deleted_before: int) -> Sequence[str]:
        """Drop the rows of checkpoints deleted before a time, and return their ids."""

    def drop(self, checkpoints: Iterable[str]) -> Sequence[str]:
        """Drop the rows of those that are marked as deleted, and return their ids: no undo from now on."""

    def clear_freed(self) -> None:
        """Declare that the bytes of all dropped rows are freed."""

    def close(self) -> None:
        """Close the database."""


# --- Facts about the work: its sessions, how far it has come, and what was done that cannot be undone ---


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

    def change(self, work: Callable[[SessionTransaction], Result]) -> Result:
        """Change facts in one transaction, durable on return; nothing is changed if it raises.

        It holds the catalogue's own lock, and nothing else: neither a restore nor a sweep is waited for.
        """


class SessionTransaction(Protocol):
    """Changes sessions, progress, steps and plans while the catalogue's own lock is held; others wait."""

    def add_workspace(self, row: WorkspaceRow) -> None:
        """Add a workspace, or leave the one that is there: facts about the work need it."""

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
        """Record a session that died anew, others, its progress and its steps.

        Raises `Conflict` if it is not recorded as it ``was`` any more, or if it would be active and
        exclusive beside another one that is not among those replaced.
        """

    def change_session(self, session: str, change: Callable[[Session], Session]) -> Session:
        """Replace a session by what a function makes of it, and return that; `NotFound` if there is none."""

    def change_progress(
        self,
        key: str,
        change: Callable[[Progress], Progress],
        *,
        workspace_key: str,
        steps: Callable[[Progress], Iterable[Effect]] | None = None,
    ) -> Progress:
        """Replace progress by what a function makes of it, and return that.

        ``steps`` gives the steps of the work to be recorded with it. Both may ask for facts.
        """

    def put_run(self, run: PlannedRun, *, progress: Callable[[Progress], Progress]) -> Progress:
        """Give a session another plan, and replace its progress, together."""

    def put_effect(self, effect: Effect) -> None:
        """Record a step of the work, or record it anew."""
