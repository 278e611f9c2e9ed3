"""Restoring, and the ways back and forth."""

from __future__ import annotations

from lastgood.errors import Invalid, NotFound, Usage
from lastgood.ports.catalogue import Query
from lastgood.workspace.arguments import check_count, expect
from lastgood.workspace.paths import make_empty
from lastgood.workspace.verbs.door import Door
from lastgood.workspace.wishes import Extent, way_of, wish_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.part import Scope
    from lastgood.model.plan import Favour, RestorePlan
    from lastgood.model.report import (
        RestoreReport,
        UndoReport,
    )
    from lastgood.workspace.paths import PathLike
    from lastgood.workspace.wishes import Options


class Restores(Door):
    """Verbs that bring back."""

    def plan_restore(
        self,
        ref: str,
        *,
        paths: Sequence[PathLike] = (),
        only: Sequence[Scope] | None = None,
        git: bool = False,
        merge: bool = False,
        base: str | None = None,
        conflict: Favour | None = None,
        discard: bool = False,
        force: bool = False,
    ) -> RestorePlan:
        """Return what `restore` would do, path by path; nothing is touched."""
        from lastgood.actions.restore import plan_restore

        extent = Extent(only=only, git=git, merge=merge, base=base, conflict=conflict)
        wish = wish_of(self._view, ref, paths=self._paths(paths), extent=extent, discard=discard, force=force)
        return plan_restore(self._context, self._view, wish)

    def preview(self, plan: RestorePlan) -> RestoreReport:
        """Return what is to be known of a plan before it is carried out, as a report of a dry run."""
        from lastgood.actions.restore import preview
        from lastgood.model.plan import RestorePlan

        expect(plan, RestorePlan, what="the plan")
        return preview(self._context, self._view, plan)

    def apply(self, plan: RestorePlan) -> RestoreReport:
        """Carry out a plan; `Conflict` if one of its own paths has changed since."""
        from lastgood.actions.restore import apply
        from lastgood.model.plan import RestorePlan

        expect(plan, RestorePlan, what="the plan")
        return self._told("restored", lambda: apply(self._context, self._view, plan))

    def restore(  # noqa: PLR0913 - each is an option of its own, by keyword alone
        self,
        ref: str,
        *,
        paths: Sequence[PathLike] = (),
        to: PathLike | None = None,
        only: Sequence[Scope] | None = None,
        git: bool = False,
        merge: bool = False,
        base: str | None = None,
        conflict: Favour | None = None,
        discard: bool = False,
        force: bool = False,
    ) -> RestoreReport:
        """Bring a checkpoint back: files, conversation and progress, or ``only`` some of them.

        The present state is saved first, and every restore can be undone. ``paths`` limit it to
        some files; ``git`` puts the project's HEAD and index back too; ``to`` writes the files into
        a new or empty folder instead and touches nothing else. ``merge`` keeps what changed since
        ``base`` (by default the newest complete checkpoint), ``conflict`` settles what both sides
        changed. ``discard`` goes on where something present cannot be copied, ``force`` although
        another session is at work.
        """
        from lastgood.actions.restore import restore

        extent = Extent(only=only, git=git, merge=merge, base=base, conflict=conflict)
        if to is not None:
            return self._aside(self._view.resolve(ref), to, limited=bool(paths), extent=extent)
        wish = wish_of(self._view, ref, paths=self._paths(paths), extent=extent, discard=discard, force=force)
        return self._told("restored", lambda: restore(self._context, self._view, wish))

    def rewound(self, turns: int = 1) -> Checkpoint:
        """Return the checkpoint that `rewind` goes back to."""
        return self._before(turns)

    def plan_rewind(self, turns: int = 1, **options: Unpack[Options]) -> RestorePlan:
        """Return what `rewind` would do; the options are those of `plan_restore`."""
        return self.plan_restore(self._before(turns).id, **options)

    def rewind(self, turns: int = 1, **options: Unpack[Options]) -> RestoreReport:
        """Go back to before the Nth last turn; where there are no turns, N checkpoints back.

        The options are those of `restore`.
        """
        return self.restore(self._before(turns).id, **options)

    def undo(self, *, force: bool = False, merge: bool = False) -> UndoReport:
        """Take back the last restore or delete; `Conflict` if its paths changed since.

        ``force`` takes it back all the same (the present state is saved first), ``merge`` keeps
        what changed since.
        """
        from lastgood.actions.undo import undo

        way = way_of(force=force, merge=merge)
        return self._told("undone", lambda: undo(self._context, way=way))

    def redo(self, *, force: bool = False, merge: bool = False) -> UndoReport:
        """Bring again what the last undo took back."""
        from lastgood.actions.undo import redo

        way = way_of(force=force, merge=merge)
        return self._told("undone", lambda: redo(self._context, way=way))

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

    def _aside(self, target: Checkpoint, to: PathLike, *, limited: bool, extent: Extent) -> RestoreReport:
        from lastgood.actions.restore import restore_aside

        if limited:
            raise Invalid("a restore aside writes the whole checkpoint", hint="leave the paths out")
        if extent.replace(only=None).given or tuple(extent.only or ("files",)) != ("files",):
            raise Usage(
                "a restore aside writes files, and touches nothing else",
                hint="leave out the rest; a conversation is printed by: lastgood show REF --conversation",
            )
        directory = make_empty(to, store=self._context.store)
        return restore_aside(self._context, target, directory=directory, tree=self._view.tree(target))
