"""The other workspaces of the store."""

from __future__ import annotations

from lastgood.workspace.verbs.door import Door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.report import (
        DeleteReport,
        WorkspaceSummary,
    )


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
