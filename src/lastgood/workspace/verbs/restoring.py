"""Restoring, and the ways back and forth."""

from __future__ import annotations

from lastgood.errors import Invalid, NotFound
from lastgood.ports.catalogue import Query
from lastgood.workspace.arguments import check_count, expect
from lastgood.workspace.paths import make_empty
from lastgood.workspace.verbs.door import Door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.plan import RestorePlan
    from lastgood.model.report import (
        RecoverReport,
        RestoreReport,
        UndoReport,
    )
    from lastgood.workspace.paths import PathLike


class Restores(Door):
    """Verbs that bring back."""

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

    def recover(self, *, roll_back: bool = False) -> RecoverReport:
        """Finish an interrupted restore, or take it back; with none, report the position."""
        from lastgood.actions.recover import recover

        return recover(self._context, self._view, roll_back=roll_back)

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
