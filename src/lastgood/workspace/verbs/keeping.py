"""What is kept, for how long, and whether it is sound."""

from __future__ import annotations

from lastgood.ports.catalogue import Query
from lastgood.workspace.arguments import expect
from lastgood.workspace.verbs.door import Door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.prune import PrunePlan, PruneReport, Sizes
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

        mended: tuple[str, ...] = ()
        if repair:
            mended = (*self._commons.rescued, *proof.repair(self._context))
            self._commons.rescued = ()  # told
        chosen = self._view.find(Query()) if ref is None else [self._view.resolve(ref)]
        return proof.verify(self._context, chosen, deep=deep).replace(repaired=mended)

    def plan_prune(
        self, *, keep: int | None = None, older_than: str | float | None = None, now: bool = False
    ) -> PrunePlan:
        """Return what `prune` would do, each decision with its reason."""
        from lastgood.actions.prune import plan_prune
        from lastgood.workspace.pruning import wish

        return plan_prune(self._context, wish(keep=keep, older_than=older_than, now=now))

    def prune(
        self,
        *,
        keep: int | None = None,
        older_than: str | float | None = None,
        now: bool = False,
        verify: bool = False,
    ) -> PruneReport:
        """Let go what retention does not keep; `undo` takes it back for a day.

        ``keep`` is a number of checkpoints, ``older_than`` a number of days or a text such as
        ``12h``: then only what is named, pinned, a feature or needed by an operation is spared
        beside what they keep. ``now`` frees the bytes at once, and cannot be undone. ``verify``
        removes nothing: it checks everything, and marks what cannot be restored.
        """
        from lastgood.actions.prune import proven, prune
        from lastgood.workspace.pruning import refuse_more, wish

        if verify:
            refuse_more(keep=keep, older_than=older_than, now=now)
            return self._told("pruned", lambda: proven(self._context, self.verify()))
        wanted = wish(keep=keep, older_than=older_than, now=now)
        return self._told(
            "pruned", lambda: prune(self._context, wanted, interrupted=lambda: bool(self._interrupted()))
        )

    def let_go(self, *refs: str) -> tuple[str, ...]:
        """Let go what a policy of your own does not keep, and return the ids of what went.

        What is named, pinned, a feature or needed by an operation stays. `undo` does not take it back.
        """
        from lastgood.actions.prune import let_go

        return let_go(self._context, [self._view.resolve(ref) for ref in refs])

    def sizes(self) -> Sizes:
        """Return how many bytes each workspace and session added to the store."""
        from lastgood.actions.prune import sizes

        return sizes(self._context)

    def maintain(self) -> tuple[str, ...]:
        """Apply retention, free bytes, consolidate and back up, unless another owner is at it.

        What the tasks of runs wrote goes when nothing else of their sessions is left.
        """
        from lastgood.actions.maintain import maintain
        from lastgood.workspace.outputs import clear_outputs

        done = maintain(self._context, interrupted=self._interrupted)
        gone = clear_outputs(self._context)
        return (*done, f"outputs of runs removed: {gone}") if gone else done

    def _interrupted(self) -> frozenset[str]:
        from lastgood.workspace.journals import interrupted_workspaces

        return interrupted_workspaces(self._context.store)
