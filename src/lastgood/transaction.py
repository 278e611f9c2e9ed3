"""What may write, while it holds its locks; and a checkpoint: pack durable, row committed."""

from __future__ import annotations

from lastgood.errors import Busy, Storage
from lastgood.ids import checkpoint_id, operation_id
from lastgood.model import checkpoint
from lastgood.model.checkpoint import Actor, Checkpoint, Manifest, Metrics, TreeRef
from lastgood.model.session import in_parts, lists_in_parts
from lastgood.model.tree import TreeId
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Any, Self

    from lastgood.catalogue import LatestFacts
    from lastgood.catalogue.rows import Row
    from lastgood.context import CatalogueMaintainer, CatalogueWriter, Context, Writers
    from lastgood.engine import EngineMaintainer, ObjectWriter
    from lastgood.host import ScanResult, SharedHold
    from lastgood.ledger import Ledgers
    from lastgood.literals import Kind, Moment, OperationType
    from lastgood.model.checkpoint import Conversation, GitState
    from lastgood.model.long_list import LongList
    from lastgood.model.operation import Operation, Part, Step
    from lastgood.model.session import CurrentWork, Effect, Progress
    from lastgood.model.tree import Counts
    from lastgood.worktree import Applier, JournalFile, ProjectGit, Transcripts


# As much of a pack in the making is in memory at most, and takes room only when it is published.
_UNWRITTEN_BYTES = 4 << 20


class Draft(Value):
    """What the caller says about a checkpoint that is about to be made.

    ``task`` is the task that it is for, ``moment`` whether it comes before or after that (or a turn).
    ``replaces`` is one whose place it takes if the workspace stands there, with the same files: it follows
    what that followed. ``digits`` are those of its id, where it may have been made before. A ``step`` of the
    work is recorded in the same commit: it begins there, or ends with it. One that ``gives_way`` is not made
    (`Conflict`) where another comes, or a session begins, while it looks: what it found was there before.
    """

    kind: Kind = "manual"
    message: str = ""
    name: str | None = None
    pinned: bool = False
    actor: Actor = Actor()
    metadata: Mapping[str, str] = {}
    task: str | None = None
    moment: Moment | None = None
    tokens: int | None = None
    replaces: Checkpoint | None = None
    digits: str | None = None
    step: Effect | None = None
    gives_way: bool = False


class Holdings(Value):
    """What a checkpoint holds beside the files that were scanned.

    ``state`` gives blob ids by name. ``git`` is what the project's repository said, in full.
    ``ignored_paths`` are what it does not hold, by rule. ``lists`` of progress are not its own: an operation
    needs them.
    """

    standing: CurrentWork
    conversation: Conversation | None = None
    state: Mapping[str, bytes] = {}
    git: GitState | None = None
    ignored_paths: tuple[bytes, ...] = ()
    lists: Mapping[str, LongList[Any]] = {}


# --- What holds locks; only meanwhile it has what changes something ---


class Transaction:
    """Holds the store beside others: nothing is freed meanwhile.

    Other locks than the store's are taken by what is derived from it. ``wait`` is for how long each is waited
    for, in seconds. What writes is there only while all are held.
    """

    def __init__(self, context: Context, *, wait: float | None = None) -> None:
        self.context = context
        self._wait = context.wait if wait is None else wait
        self._holds: list[AbstractContextManager[SharedHold]] = []
        self._given: Writers | None = None

    def __enter__(self) -> Self:
        try:
            for lock in self._locks():
                self._holds.append(lock)  # first: to let go of what is not held is harmless
                hold = lock.__enter__()
            self._given = self.context.writers(hold)
            self._admit()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def _locks(self) -> Iterator[AbstractContextManager[SharedHold]]:
        """Yield the locks in the order in which they are taken: maintenance, store, workspace."""
        yield self.context.locks.share_store(wait=self._wait)

    def _admit(self) -> None:
        """Raise what speaks against it now that the locks are held."""

    @property
    def _writers(self) -> Writers:
        assert self._given is not None, "a transaction writes only while it holds its locks"
        return self._given

    def _release(self) -> None:
        self._given = None
        while self._holds:
            self._holds.pop().__exit__(None, None, None)


class MarkTransaction(Transaction):
    """Changes what is said of checkpoints and workspaces that exist."""

    @property
    def catalogue(self) -> CatalogueWriter:
        """The facts."""
        return self._writers.catalogue

    @property
    def ledgers(self) -> Ledgers:
        """The ledger of the store."""
        return self._writers.ledgers


class MaintenanceTransaction(Transaction):
    """Holds the lock of maintenance: one process at a time looks after the store, beside all others."""

    def _locks(self) -> Iterator[AbstractContextManager[SharedHold]]:
        yield self.context.locks.maintenance(wait=self._wait)

    @property
    def catalogue(self) -> CatalogueMaintainer:
        """The facts, but for the rows that only a sweep drops."""
        return self._writers.catalogue

    @property
    def ledgers(self) -> Ledgers:
        """The ledger of the store."""
        return self._writers.ledgers

    @property
    def engine(self) -> EngineMaintainer:
        """What keeps the bytes, and frees none."""
        return self._writers.engine_of()


class ReadTransaction(Transaction):
    """Holds the store and the workspace beside others: nothing is restored or freed meanwhile."""

    def _locks(self) -> Iterator[AbstractContextManager[SharedHold]]:
        yield from super()._locks()
        yield self._workspace_lock(self._wait)

    def _workspace_lock(self, wait: float) -> AbstractContextManager[SharedHold]:
        return self.context.locks.share_workspace(self.context.key, wait=wait)

    # Whether a restore may have left a journal, whole or not.
    _has_journals = True

    def _admit(self) -> None:
        """Refuse to work beside an interrupted restore (rule T7)."""
        self._has_journals = self.context.journal.has_any()
        if self._has_journals and self.context.journal.read() is not None:
            raise Busy(
                "a restore of this workspace was interrupted and is not finished",
                hint="finish it: lastgood recover\nor take it back: lastgood recover --rollback",
            )

    def left_by(self) -> tuple[str, ...]:
        """Return the restores that left something in the workspace before its lock was taken."""
        return self.context.journal.left_by() if self._has_journals else ()

    def writer(self) -> ObjectWriter:
        """Begin a pack that takes no room on the disk and becomes nothing."""
        return self.trial()

    def trial(self) -> ObjectWriter:
        """Begin such a pack, whatever the others become."""
        return self._writers.engine_of().writer(kept=False)

    def proven(self, generation: str, facts: LatestFacts | None) -> str:  # noqa: ARG002 - what a look finds is not stored
        """Return the generation of which a scan cache proves what is looked at, stored or not."""
        return generation


class SaveTransaction(ReadTransaction, MarkTransaction):
    """Adds checkpoints and operations, and marks what exists."""

    _since: Row | None = None

    def give_way(self) -> None:
        """Have no checkpoint be made (`Conflict`) where another comes, or a session begins, from now on."""
        self._since = self.context.catalogue.latest_numbers(self.context.key)

    def _admit(self) -> None:
        super()._admit()
        if self._has_journals:
            # It names paths. Who writes one holds the workspace alone, so nobody does at this moment.
            self._writers.journal.clear()

    def writer(self) -> ObjectWriter:
        """Begin a pack."""
        return self._writers.engine_of().writer()

    def proven(self, generation: str, facts: LatestFacts | None) -> str:
        """Return the engine's generation, or a new one, of no scan cache, if a tree that counts is lost.

        Those that count are the newest and the one at which the workspace stands.
        """
        counting = () if facts is None else (facts.newest, facts.at)
        trees = {bytes.fromhex(one.tree) for one in counting if one is not None}
        if self.context.engine.missing(trees):
            generation = self.context.clock.random().hex()
            self.catalogue.set_generation(generation)
        return generation

    def add(
        self,
        draft: Draft,
        *,
        scan: ScanResult,
        writer: ObjectWriter,
        changes: Counts,
        previous: str | None,
        holdings: Holdings,
        forced: tuple[bytes, ...] = (),
        started: float = 0.0,
    ) -> Checkpoint:
        """Make a checkpoint of what was scanned; durable when it returns (rule S13).

        Raises `Storage` when the disk is full or the checkpoint alone exceeds the store's limit.
        """
        context = self.context
        progress = in_parts(holdings.standing.progress)
        kept = {**lists_in_parts(progress), **holdings.lists}
        parts = _StoredParts(context, writer=writer, lists=kept.values())
        self._make_sure_of_room(writer.stored_bytes)
        manifest = self._manifest(
            draft,
            scan=scan,
            changes=changes,
            previous=previous,
            forced=forced,
            metrics=self._metrics(draft, holdings, started=started, stored=writer.stored_bytes),
            holdings=holdings,
            progress=progress,
        )
        spoken, text = manifest.conversation, checkpoint.encode(manifest)
        commit = writer.checkpoint(
            id=manifest.id,
            manifest=text,
            workspace=scan.tree,
            state=holdings.state,
            created_at=manifest.created_at,
            conversation=None if spoken is None else TreeId(tree=bytes.fromhex(spoken.tree)),
            progress={name: items.oid for name, items in kept.items()},
        )
        writer.publish(durable=context.settings.durability == "full")
        made = self._added(manifest, draft, commit=commit, text=text)
        parts.remember(made.id)
        return made

    def _added(self, manifest: Manifest, draft: Draft, *, commit: bytes, text: bytes) -> Checkpoint:
        """Commit its row, with that of a new workspace and that of a step that begins or ends with it."""
        return self.catalogue.add(
            manifest,
            commit=commit.hex(),
            name=draft.name,
            pinned=draft.pinned,
            text=text,
            step=draft.step and self._at(draft.step, manifest),
            workspace=self.context.row,
            since=self._since,
        )

    def _at(self, step: Effect, manifest: Manifest) -> Effect:
        """Return a step that begins at a checkpoint, or ends with it, as it is to be recorded."""
        now = self.context.clock.now()
        if step.state != "running":
            return step.replace(ended_at=now)
        return step.replace(started_at=now, stood=manifest.previous if manifest.partial else manifest.id)

    def _metrics(self, draft: Draft, holdings: Holdings, *, started: float, stored: int) -> Metrics:
        """Return what the moment cost and how the session stands (rule P4)."""
        context = self.context
        session, progress = holdings.standing.session, holdings.standing.progress
        done, failed = progress.count("done"), progress.count("failed")
        now = context.clock.now()
        usage = None if session is None else context.processes.usage(session.owner)
        return Metrics(
            save_ms=round((context.clock.monotonic() - started) * 1000, 1),
            stored_bytes=stored,
            session_seconds=None if session is None else max(0.0, (now - session.started_at) / 1e9),
            tasks_done=done,
            tasks_failed=failed,
            tasks_total=len(progress.tasks),
            success_ratio=done / (done + failed) if done + failed else None,
            tokens=draft.tokens,
            memory_bytes=None if usage is None else usage.memory_bytes,
            cpu_seconds=None if usage is None else usage.cpu_seconds,
        )

    def _manifest(
        self,
        draft: Draft,
        *,
        scan: ScanResult,
        changes: Counts,
        previous: str | None,
        forced: tuple[bytes, ...],
        metrics: Metrics,
        holdings: Holdings,
        progress: Progress,
    ) -> Manifest:
        context, standing = self.context, holdings.standing
        return Manifest(
            id=checkpoint_id(bytes.fromhex(draft.digits) if draft.digits else context.clock.random()),
            workspace=context.root.decode("utf-8", "surrogateescape"),
            workspace_key=context.key,
            kind=draft.kind,
            message=draft.message,
            name=draft.name,
            created_at=context.clock.now(),
            sequence=context.catalogue.next_sequence(),
            previous=previous,
            root=TreeRef(tree=scan.tree.tree.hex(), modes=scan.tree.modes.hex()),
            changes=changes,
            files=scan.files,
            size=scan.size,
            ignored=scan.ignored,
            gaps=scan.gaps,
            partial=scan.partial,
            private=scan.private,
            forced=forced,
            actor=draft.actor,
            git=holdings.git,
            ignore=scan.ignore,
            metrics=metrics,
            metadata=draft.metadata,
            session=None if standing.session is None else standing.session.id,
            task=draft.task,
            moment=draft.moment,
            progress=progress,
            conversation=holdings.conversation,
            state={name: oid.hex() for name, oid in holdings.state.items()},
            ignored_paths=holdings.ignored_paths,
        )

    def record(  # noqa: PLR0913 - what an operation says, by keyword alone
        self,
        kind: OperationType,
        *,
        id: str | None = None,
        target: str | None = None,
        guard: str | None = None,
        steps: tuple[Step, ...] = (),
        checkpoints: tuple[str, ...] = (),
        of: str | None = None,
        parts: tuple[Part, ...] = (),
        session: str | None = None,
        stands: str | None = None,
        stood: str | None = None,
    ) -> Operation:
        """Record a change that `undo` can take back; of the caller's session if none is given.

        ``stands`` is the checkpoint at which the workspace stands from now on, None where it did not move.
        ``stood`` is where it was found to stand: the operation says where it stands when that is recorded.
        """
        from lastgood.host import instant_of  # lazily: no save records an operation
        from lastgood.model.operation import Operation

        now = instant_of(self.context.clock)
        operation = Operation(
            id=self.new_operation() if id is None else id,
            workspace_key=self.context.key,
            type=kind,
            at=now.at,
            target=target,
            guard=guard,
            steps=steps,
            checkpoints=checkpoints,
            of=of,
            parts=parts,
            session=self.context.session if session is None else session,
            stands=stands,
            stood=None if stands is None else stood,
            boot=now.boot,
            uptime=now.uptime,
        )
        return self.catalogue.add_operation(operation, workspace=self.context.row)

    def new_operation(self) -> str:
        """Return a fresh operation id."""
        return operation_id(self.context.clock.random())

    def _make_sure_of_room(self, size: int) -> None:
        """Refuse what the limit, or the disk, does not take: else it would leave a pack that no row names."""
        self._bounded(size)
        self.catalogue.demand_room(beside=min(size, _UNWRITTEN_BYTES))

    def _bounded(self, size: int) -> None:
        limit = self.context.settings.limits.max_store_size
        if size > limit:
            raise Storage(
                f"this checkpoint alone would take {size} bytes, over the store's limit of {limit}",
                hint="exclude large files, or raise retention.max_store_size in the user's configuration",
                details={"size": size, "limit": limit},
            )


class _StoredParts:
    """The parts of some long lists, stored: those that are known to be need not be looked for."""

    def __init__(self, context: Context, *, writer: ObjectWriter, lists: Collection[LongList[Any]]) -> None:
        self._generation: str | None = None
        self._known: tuple[frozenset[bytes], ...] = ()
        self._oids: frozenset[bytes] = frozenset()
        if not lists:
            return
        from lastgood.model.long_list import stored_in

        self._generation = context.catalogue.generation()
        self._known = stored_in(self._generation, has=context.catalogue.has)
        known = frozenset().union(*self._known)
        self._oids = frozenset().union(*[items.store(writer, known=known) for items in lists])

    def remember(self, checkpoint: str) -> None:
        """Spare the next save the looking, now that a checkpoint has them."""
        if self._generation is not None:
            from lastgood.model.long_list import remember_stored

            remember_stored(self._generation, checkpoint, known=self._known, oids=self._oids)


class RestoreTransaction(SaveTransaction):
    """Holds the workspace alone: only meanwhile is anything in it changed."""

    def _workspace_lock(self, wait: float) -> AbstractContextManager[SharedHold]:
        return self.context.locks.hold_workspace(self.context.key, wait=wait)

    def writer(self) -> ObjectWriter:
        """Begin the pack of a guard: nothing is changed before what it holds was written and read again."""
        return self._writers.engine_of().writer(compressed=False)

    @property
    def applier(self) -> Applier:
        """What changes the workspace's files."""
        return self._writers.applier_of()

    @property
    def journal(self) -> JournalFile:
        """The journal of the one plan that can be under way."""
        return self._writers.journal

    @property
    def project(self) -> ProjectGit:
        """The project's own git."""
        return self._writers.project_of()

    @property
    def transcripts(self) -> Transcripts:
        """The files of conversations."""
        return self._writers.transcripts_of()


class RecoverTransaction(RestoreTransaction):
    """Holds the workspace alone although a restore of it was interrupted."""

    def _admit(self) -> None:
        """Let an interrupted restore be; what is left of one that never began goes."""
        self._writers.journal.clear()
