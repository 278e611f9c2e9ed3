"""The verbs, synchronous: each is one call of an action, told to the observers afterwards."""

from __future__ import annotations

import os

from lastgood.errors import Invalid, LastgoodError, NotFound
from lastgood.model.event import Event
from lastgood.ports.catalogue import Query
from lastgood.view import View
from lastgood.workspace.arguments import check_budget, check_count, check_draft, expect, pairs
from lastgood.workspace.paths import inside, make_empty, scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Self, TypeVar

    from lastgood.model.checkpoint import Actor, Checkpoint, Kind
    from lastgood.model.event import EventType, Observer
    from lastgood.model.operation import Operation
    from lastgood.model.plan import RestorePlan
    from lastgood.model.report import (
        DeleteReport,
        DiffReport,
        ListedEntry,
        RecoverReport,
        RestoreReport,
        SaveReport,
        StatusReport,
        UndoReport,
        VerifyReport,
        WorkspaceSummary,
    )
    from lastgood.model.settings import Settings
    from lastgood.ports.context import Context
    from lastgood.workspace.upkeep import Upkeep

    Report = TypeVar("Report")
    from lastgood.workspace.paths import PathLike


class Workspace:
    """A folder whose states are kept, and can be had back.

    Made by `lastgood.open`; a context manager. One instance may be used by several threads. Failures
    are the exceptions of `lastgood.errors`.

    >>> with lastgood.open(project, store=store) as workspace:
    ...     before = workspace.save("before the refactor").checkpoint
    ...     (project / "notes.txt").write_text("ruined")
    ...     report = workspace.restore(before.id)
    ...     report.omissions
    6
    ()
    """

    def __init__(
        self,
        context: Context,
        *,
        upkeep: Upkeep,
        recompose: Callable[[], Context],
        rescued: tuple[str, ...] = (),
    ) -> None:
        self._upkeep = upkeep
        self._rescued = rescued
        self._recompose = recompose
        self._observers: list[Observer] = []
        self._use(context)

    def _use(self, context: Context) -> None:
        self._context = context
        self._view = View(
            catalogue=context.catalogue, objects=context.engine, key=context.key, clock=context.clock
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def path(self) -> str:
        """The workspace's real path."""
        return os.fsdecode(self._context.root)

    @property
    def store(self) -> str:
        """The store's real path."""
        return os.fsdecode(self._context.store)

    @property
    def settings(self) -> Settings:
        """What configuration decided."""
        return self._context.settings

    def close(self) -> None:
        """Let go of the store; harmless when repeated."""
        self._context.catalogue.close()
        self._context.engine.close()

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        """Tell an observer what happened, after the fact; return the call that ends it.

        An exception of an observer never harms the operation.
        """
        self._observers.append(observer)
        return lambda: self._observers.remove(observer) if observer in self._observers else None

    def save(
        self,
        message: str = "",
        *,
        name: str | None = None,
        kind: Kind = "manual",
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
        budget: float | None = None,
        pin: bool = False,
        actor: Actor | None = None,
    ) -> SaveReport:
        """Make a checkpoint; when it returns, the checkpoint survives a power cut.

        ``budget`` bounds the scan, in seconds; past it the checkpoint is partial. An unchanged
        workspace makes no checkpoint unless something is said about it, or ``allow_empty``.
        """
        from lastgood.actions.save import save
        from lastgood.transaction.saving import Draft

        draft = Draft(
            kind=kind, message=message, name=name, pinned=pin, metadata=pairs(metadata), **_given(actor)
        )
        check_draft(draft)
        if budget is not None:
            check_budget(budget)
        report = self._told(
            "saved", lambda: save(self._context, draft, allow_empty=allow_empty, budget=budget)
        )
        self._upkeep.after_save(self._context)
        return report

    def list(
        self,
        *,
        limit: int | None = None,
        kind: Kind | None = None,
        session: str | None = None,
        since: int | None = None,
        name: str | None = None,
        good: bool = False,
        all_workspaces: bool = False,
    ) -> tuple[Checkpoint, ...]:
        """Return checkpoints, newest first. ``since`` is in nanoseconds, ``name`` a glob."""
        if limit is not None:
            check_count(limit, least=0, what="the limit")
        query = Query(
            workspace_key=None if all_workspaces else self._context.key,
            limit=limit,
            kind=kind,
            session=session,
            since=since,
            name=name,
            good=good,
        )
        return tuple(self._view.find(query))

    def get(self, ref: str) -> Checkpoint:
        """Return the checkpoint that a REF names."""
        return self._view.resolve(ref)

    def previous(self, ref: str) -> Checkpoint | None:
        """Return the newest complete checkpoint before the one that a REF names."""
        return self._view.previous(self._view.resolve(ref))

    def entries(self, ref: str) -> tuple[ListedEntry, ...]:
        """Return every path that a checkpoint holds."""
        from lastgood.actions.show import entries

        return entries(self._context, self._view, self._view.resolve(ref))

    def read(self, ref: str, path: PathLike) -> bytes:
        """Return the content of one file of a checkpoint (of a link, its target)."""
        from lastgood.actions.show import content

        wanted = inside(path, self._context.root)
        return content(self._context, self._view, self._view.resolve(ref), path=wanted)

    def diff(
        self,
        a: str | None = None,
        b: str | None = None,
        *,
        paths: Sequence[PathLike] = (),
        patch: bool = True,
    ) -> DiffReport:
        """Compare two checkpoints, or one (the latest, if none is named) with the workspace."""
        from lastgood.actions import diff

        before = self._view.resolve("@" if a is None else a)
        chosen = self._paths(paths)
        if b is not None:
            after = self._view.resolve(b)
            return diff.between(self._context, self._view, before, after, paths=chosen, patch=patch)
        return diff.with_workspace(self._context, self._view, before, paths=chosen, patch=patch)

    def plan_restore(
        self, ref: str, *, paths: Sequence[PathLike] = (), discard: bool = False, force: bool = False
    ) -> RestorePlan:
        """Return what a restore would do, path by path; nothing is touched."""
        from lastgood.actions.restore import Wish, plan_restore

        wish = Wish(target=self._view.resolve(ref), paths=self._paths(paths), discard=discard, force=force)
        return plan_restore(self._context, self._view, wish)

    def apply(self, plan: RestorePlan) -> RestoreReport:
        """Carry out a plan; `Conflict` if one of its own paths has changed since."""
        from lastgood.actions.restore import apply
        from lastgood.model.plan import RestorePlan

        expect(plan, RestorePlan, what="the plan")
        return self._told("restored", lambda: apply(self._context, self._view, plan))

    def restore(
        self,
        ref: str,
        *,
        paths: Sequence[PathLike] = (),
        to: PathLike | None = None,
        discard: bool = False,
        force: bool = False,
    ) -> RestoreReport:
        """Bring a checkpoint back, all of it or some paths; the present state is saved first.

        ``to`` writes it into a new or empty folder instead and touches nothing else. ``discard``
        goes on where something present cannot be copied. Every restore can be undone.
        """
        from lastgood.actions.restore import Wish, restore

        target = self._view.resolve(ref)
        if to is not None:
            return self._aside(target, to, paths)
        wish = Wish(target=target, paths=self._paths(paths), discard=discard, force=force)
        return self._told("restored", lambda: restore(self._context, self._view, wish))

    def plan_rewind(self, turns: int = 1, *, paths: Sequence[PathLike] = ()) -> RestorePlan:
        """Return what `rewind` would do."""
        return self.plan_restore(self._before(turns).id, paths=paths)

    def rewind(self, turns: int = 1, *, paths: Sequence[PathLike] = ()) -> RestoreReport:
        """Go back to before the Nth last turn; where there are no turns, N checkpoints back."""
        return self.restore(self._before(turns).id, paths=paths)

    def undo(self, *, force: bool = False) -> UndoReport:
        """Take back the last restore or delete; `Conflict` if its paths changed since."""
        from lastgood.actions.undo import undo

        return self._told("undone", lambda: undo(self._context, force=force))

    def redo(self, *, force: bool = False) -> UndoReport:
        """Bring again what the last undo took back."""
        from lastgood.actions.undo import redo

        return self._told("undone", lambda: redo(self._context, force=force))

    def operations(self) -> tuple[Operation, ...]:
        """Return what was restored, deleted, undone and redone, newest first."""
        return tuple(self._context.catalogue.operations(self._context.key))

    def delete(self, *refs: str) -> DeleteReport:
        """Remove checkpoints; their bytes stay for a day, so that it can be undone."""
        from lastgood.actions.delete import delete

        found = [self._view.resolve(ref) for ref in refs]
        return self._told("deleted", lambda: delete(self._context, found))

    def pin(self, ref: str) -> Checkpoint:
        """Keep a checkpoint for ever."""
        from lastgood.actions.delete import pin

        return pin(self._context, self._view.resolve(ref), pinned=True)

    def unpin(self, ref: str) -> Checkpoint:
        """Keep a checkpoint no longer than others."""
        from lastgood.actions.delete import pin

        return pin(self._context, self._view.resolve(ref), pinned=False)

    def name(self, ref: str, name: str) -> Checkpoint:
        """Name a checkpoint; of several that bear one name the newest counts."""
        from lastgood.actions.delete import rename

        expect(name, str, what="the name")
        return rename(self._context, self._view.resolve(ref), name=name)

    def verify(self, ref: str | None = None, *, deep: bool = False, repair: bool = False) -> VerifyReport:
        """Prove that what is kept can be had back; ``deep`` restores each checkpoint aside.

        ``repair`` mends what can be mended and sets damage aside; nothing good is removed.
        """
        from lastgood.workspace import proof

        mended = (*self._rescued, *proof.repair(self._context)) if repair else ()
        chosen = self._view.find(Query()) if ref is None else [self._view.resolve(ref)]
        return proof.verify(self._context, chosen, deep=deep).replace(repaired=mended)

    def recover(self, *, roll_back: bool = False) -> RecoverReport:
        """Finish an interrupted restore, or take it back; with none, report the position."""
        from lastgood.actions.recover import recover

        return recover(self._context, self._view, roll_back=roll_back)

    def status(self) -> StatusReport:
        """Return where the workspace stands."""
        from lastgood.actions.status import status

        return status(self._context, self._view)

    def maintain(self) -> tuple[str, ...]:
        """Apply limits, free bytes, consolidate and back up, unless another owner is at it."""
        from lastgood.actions.maintain import maintain
        from lastgood.workspace.journals import is_interrupted_anywhere

        store = self._context.store
        return maintain(self._context, interrupted=lambda: is_interrupted_anywhere(store))

    def workspaces(self) -> tuple[WorkspaceSummary, ...]:
        """Return every workspace that the store knows."""
        from lastgood.workspace.neighbours import workspaces

        return workspaces(self._context)

    def attach(self, old: str) -> WorkspaceSummary:
        """Give this folder the checkpoints of a workspace that was moved here (its path or key)."""
        from lastgood.workspace.neighbours import attach

        attached = attach(self._context, old)
        self._use(self._recompose())
        return attached

    def plan_forget(self, path: str) -> tuple[Checkpoint, ...]:
        """Return what `forget` would remove."""
        from lastgood.workspace.neighbours import plan_forget

        return plan_forget(self._context, path)

    def forget(self, path: str) -> DeleteReport:
        """Remove all checkpoints of a workspace; undoable like any delete."""
        from lastgood.workspace.neighbours import forget

        return self._told("deleted", lambda: forget(self._context, path))

    def _before(self, turns: int) -> Checkpoint:
        from lastgood.rules.history import before_turn

        check_count(turns, least=1, what="how many turns to rewind")
        line = self._view.find(Query(workspace_key=self._context.key, complete=True, guards=False))
        found = before_turn(line, turns=turns)
        if found is None:
            raise NotFound(
                f"cannot rewind {turns}: there is no checkpoint that far back", hint="see: lastgood list"
            )
        return found

    def _aside(self, target: Checkpoint, to: PathLike, paths: Sequence[PathLike]) -> RestoreReport:
        from lastgood.actions.restore import restore_aside

        if paths:
            raise Invalid("a restore aside writes the whole checkpoint", hint="leave the paths out")
        directory = make_empty(to, store=self._context.store)
        return restore_aside(self._context, target, directory=directory, tree=self._view.tree(target))

    def _paths(self, paths: Sequence[PathLike]) -> tuple[bytes, ...]:
        return scope(paths, self._context.root)

    def _told(self, type: EventType, work: Callable[[], Report]) -> Report:
        try:
            report = work()
        except LastgoodError as error:
            self._tell(Event(type="failed", workspace=self.path, report=error))
            raise
        self._tell(Event(type=type, workspace=self.path, report=report))
        return report

    def _tell(self, event: Event) -> None:
        for observer in tuple(self._observers):
            try:  # noqa: SIM105 - contextlib costs start-up time
                observer(event)
            except Exception:  # noqa: BLE001, S110 - an observer's fault never harms the operation
                pass


def _given(actor: Actor | None) -> dict[str, Actor]:
    return {} if actor is None else {"actor": actor}
