"""The other workspaces of the store."""

from __future__ import annotations

from lastgood.workspace.verbs.door import Door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.exchange import ExportReport, ImportReport
    from lastgood.model.report import (
        DeleteReport,
        WorkspaceSummary,
    )
    from lastgood.workspace.paths import PathLike


class Neighbours(Door):
    """Verbs that reach beyond this workspace."""

    def workspaces(self) -> tuple[WorkspaceSummary, ...]:
        """Return every workspace that the store knows."""
        from lastgood.workspace.neighbours import workspaces

        return workspaces(self._context)

    def attach(self, old: str) -> WorkspaceSummary:
        """Give this folder the checkpoints of a workspace that was moved here (its path or key)."""
        from lastgood.workspace.neighbours import attach

        attached = attach(self._context, old)
        self._use(self._commons.recompose())
        return attached

    def plan_forget(self, path: str) -> tuple[Checkpoint, ...]:
        """Return what `forget` would remove."""
        from lastgood.workspace.neighbours import plan_forget

        return plan_forget(self._context, path)

    def forget(self, path: str) -> DeleteReport:
        """Remove all checkpoints of a workspace; undoable like any delete."""
        from lastgood.workspace.neighbours import forget

        return self._told("deleted", lambda: forget(self._context, path))

    def export(
        self,
        file: PathLike,
        *refs: str,
        private: bool = False,
        conversation: bool = True,
        exact: bool = False,
        allow_secrets: bool = False,
    ) -> ExportReport:
        """Write checkpoints, by default all of this workspace, into one new file, whole or not at all.

        Left out unless asked for: ``private`` files, those that only a guard holds, and the books of
        the ledger (which leave neither without ``conversation``). Texts and
        ``conversation`` leave without secrets of known shapes, unless ``exact``. Raises `Unsafe`
        with a list if files show secrets and ``allow_secrets`` is not given. What is known to be
        damaged is left out where no checkpoint is named.
        """
        from lastgood.model.exchange import Choices
        from lastgood.ports.catalogue import Query
        from lastgood.workspace.exchange import export
        from lastgood.workspace.paths import plain

        chosen = {one.id: one for one in map(self._view.resolve, refs)}
        damaged: tuple[str, ...] = ()
        if not refs:
            found = self._view.find(Query(workspace_key=self._context.key))
            damaged = tuple(one.id for one in found if one.damaged is not None)
            chosen = {one.id: one for one in found if one.damaged is None}
        choices = Choices(private=private, conversation=conversation, exact=exact, secrets=allow_secrets)
        report = export(self._context, plain(file), tuple(chosen.values()), choices)
        return report.replace(damaged=damaged)

    def import_file(self, file: PathLike, *, attach: bool = False) -> ImportReport:
        """Take in an export: proven whole first, then all of it or nothing.

        What is here already stays as it is. ``attach`` gives this folder the one workspace that the
        file holds; where it cannot have that, nothing is imported.
        """
        from lastgood.workspace.exchange import import_file
        from lastgood.workspace.neighbours import admit_arrival
        from lastgood.workspace.paths import plain

        report = import_file(self._context, plain(file), admit=admit_arrival if attach else None)
        if not attach:
            return report
        if report.workspaces[0].key != self._context.key:
            self.attach(report.workspaces[0].key)
        return report.replace(attached=self.path)
