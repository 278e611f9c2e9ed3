"""Restoring: guard, journal, workspace, journal closed, operation recorded."""

from __future__ import annotations

from lastgood.rules.evidence import alike
from lastgood.transaction.saving import Saving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from lastgood.model.operation import Journal
    from lastgood.model.plan import Outcome, Step
    from lastgood.ports.host import SharedHold
    from lastgood.ports.workspace import Scan


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
        if outcome.result not in {"restored", "removed"}:
            return outcome
        if alike(self.context.applier.present(step.path), step.want):
            return outcome
        return outcome.replace(result="failed", reason="changed while it was being restored")


class Recovering(Restoring):
    """Holds the workspace alone although a restore of it was interrupted."""

    def _admit(self) -> None:
        """Let an interrupted restore be."""
