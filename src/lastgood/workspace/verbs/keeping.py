"""What is kept, for how long, and whether it is sound."""

from __future__ import annotations

from lastgood.ports.catalogue import Query
from lastgood.workspace.arguments import expect
from lastgood.workspace.verbs.door import Door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.report import (
        DeleteReport,
        VerifyReport,
    )


class Keeps(Door):
    """Verbs about what exists."""

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

    def maintain(self) -> tuple[str, ...]:
        """Apply limits, free bytes, consolidate and back up, unless another owner is at it."""
        from lastgood.actions.maintain import maintain
        from lastgood.workspace.journals import is_interrupted_anywhere

        store = self._context.store
        return maintain(self._context, interrupted=lambda: is_interrupted_anywhere(store))
