"""The one write path. A transaction exists only while its locks are held.

Order of a save: objects into one new pack, manifest and commit, pack durable, **row committed: now
the checkpoint exists**. Order of a restore: guard, journal, workspace, journal closed, operation
recorded. The crash table of ARCHITECTURE.md tells what each interruption leaves behind.
"""

from __future__ import annotations

from lastgood.codec import manifest as manifests
from lastgood.errors import Busy, Storage
from lastgood.ids import checkpoint_id, operation_id
from lastgood.model.checkpoint import Actor, Checkpoint, Manifest, Metrics, TreeRef
from lastgood.model.operation import Operation
from lastgood.model.tree import DIRECTORY, LINK
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self

    from lastgood.model.checkpoint import Kind
    from lastgood.model.operation import Journal, OperationType
    from lastgood.model.plan import Outcome, Step
    from lastgood.model.scan import ScanResult
    from lastgood.model.tree import Counts, Entry
    from lastgood.ports.context import Context
    from lastgood.ports.engine import ObjectWriter
    from lastgood.ports.host import SharedHold
    from lastgood.ports.workspace import Scan


class Draft(Value):
    """What the caller says about a checkpoint that is about to be made."""

    kind: Kind = "manual"
    message: str = ""
    name: str | None = None
    pinned: bool = False
    actor: Actor = Actor()
    metadata: Mapping[str, str] = {}


class Saving:
    """Holds the store and the workspace beside other saves: nothing is restored or freed meanwhile."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._holds: list[AbstractContextManager[SharedHold]] = []

    def __enter__(self) -> Self:
        locks, wait = self.context.locks, self.context.wait
        try:
            self._hold(locks.share_store(wait=wait))
            self._hold(self._workspace_lock(wait))
            self._admit()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def add(
        self,
        draft: Draft,
        *,
        scan: ScanResult,
        writer: ObjectWriter,
        changes: Counts,
        previous: str | None,
        forced: tuple[bytes, ...] = (),
        started: float = 0.0,
    ) -> Checkpoint:
        """Make a checkpoint of what was scanned; durable when it returns (rule S13).

        Raises `Storage` when the disk is full or the checkpoint alone exceeds the store's limit.
        """
        context = self.context
        created_at = context.clock.now()
        manifest = Manifest(
            id=checkpoint_id(context.clock.random()),
            workspace=context.root.decode("utf-8", "surrogateescape"),
            workspace_key=context.key,
            kind=draft.kind,
            message=draft.message,
            name=draft.name,
            created_at=created_at,
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
            git=scan.git,
            ignore=scan.ignore,
            metrics=Metrics(
                save_ms=round((context.clock.monotonic() - started) * 1000, 1),
                stored_bytes=writer.stored_bytes,
            ),
            metadata=draft.metadata,
        )
        self._bounded(writer.stored_bytes)
        commit = writer.checkpoint(
            id=manifest.id,
            manifest=manifests.encode(manifest),
            workspace=scan.tree,
            state={},
            created_at=created_at,
        )
        writer.publish(durable=context.settings.durability == "full")
        return context.catalogue.add(manifest, commit=commit.hex(), name=draft.name, pinned=draft.pinned)

    def record(
        self,
        kind: OperationType,
        *,
        id: str | None = None,
        target: str | None = None,
        guard: str | None = None,
        steps: tuple[Step, ...] = (),
        checkpoints: tuple[str, ...] = (),
        of: str | None = None,
    ) -> Operation:
        """Record a change that `undo` can take back."""
        operation = Operation(
            id=self.new_operation() if id is None else id,
            workspace_key=self.context.key,
            type=kind,
            at=self.context.clock.now(),
            target=target,
            guard=guard,
            steps=steps,
            checkpoints=checkpoints,
            of=of,
        )
        self.context.catalogue.add_operation(operation)
        return operation

    def new_operation(self) -> str:
        """Return a fresh operation id."""
        return operation_id(self.context.clock.random())

    def _workspace_lock(self, wait: float) -> AbstractContextManager[SharedHold]:
        return self.context.locks.share_workspace(self.context.key, wait=wait)

    def _admit(self) -> None:
        """Refuse to work beside an interrupted restore (rule T7)."""
        if self.context.journal.read() is not None:
            raise Busy(
                "a restore of this workspace was interrupted and is not finished",
                hint="finish it: lastgood recover    or take it back: lastgood recover --rollback",
            )

    def _bounded(self, size: int) -> None:
        limit = self.context.settings.limits.max_store_size
        if size > limit:
            raise Storage(
                f"this checkpoint alone would take {size} bytes, more than the whole store may hold ({limit})",
                hint="exclude large files, or raise retention.max_store_size in the user's configuration",
                details={"size": size, "limit": limit},
            )

    def _hold(self, lock: AbstractContextManager[SharedHold]) -> None:
        lock.__enter__()
        self._holds.append(lock)

    def _release(self) -> None:
        while self._holds:
            self._holds.pop().__exit__(None, None, None)


class Restoring(Saving):
    """Holds the workspace alone: the only place from which its files can be changed."""

    def _workspace_lock(self, wait: float) -> AbstractContextManager[SharedHold]:
        return self.context.locks.hold_workspace(self.context.key, wait=wait)

    def change(self, journal: Journal, *, scan: Scan) -> Sequence[Outcome]:
        """Carry out a plan under its journal, and prove the outcome (invariant 3).

        If it stops half-way (disk full, killed) the journal stays, for `recover`.
        """
        context = self.context
        context.journal.open(journal)
        outcomes = self.carry_on(journal, journal.plan.steps, scan=scan)
        context.journal.close()
        return outcomes

    def carry_on(self, journal: Journal, steps: Sequence[Step], *, scan: Scan) -> Sequence[Outcome]:
        """Carry out steps of a journal that is open."""
        applier = self.context.applier
        outcomes = applier.apply(
            steps, token=journal.operation, objects=self.context.engine, stamp=scan.stamp
        )
        wanted = {step.path: step for step in steps}
        return tuple(self._proven(outcome, wanted[outcome.path]) for outcome in outcomes)

    def _proven(self, outcome: Outcome, step: Step) -> Outcome:
        if outcome.result not in {"restored", "removed"} or fits(
            self.context.applier.present(step.path), step.want
        ):
            return outcome
        return outcome.replace(result="failed", reason="changed while it was being restored")


class Recovering(Restoring):
    """Holds the workspace alone although a restore of it was interrupted."""

    def _admit(self) -> None:
        """Let an interrupted restore be."""


def fits(present: Entry | None, want: Entry | None) -> bool:
    """Tell whether what a path holds is what was wanted (bits that are never restored aside)."""
    if want is None or present is None:
        return want is present
    return (
        present.kind == want.kind
        and (want.kind == DIRECTORY or present.oid == want.oid)
        and (want.kind == LINK or present.mode & 0o777 == want.mode & 0o777)
    )


class Collecting:
    """Holds the store alone: the only place from which bytes can be freed."""

    def __init__(self, context: Context, *, wait: float) -> None:
        self._context = context
        self._lock = context.locks.hold_store(wait=wait)

    def __enter__(self) -> Self:
        self._lock.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.__exit__(kind, error, trace)

    def sweep(self, commits: Iterable[str]) -> int:
        """Free what no commit reaches, and return how many bytes that were (invariant 4)."""
        context = self._context
        context.catalogue.set_generation(context.clock.random().hex())
        return context.engine.sweep([bytes.fromhex(commit) for commit in commits])
