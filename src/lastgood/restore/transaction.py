"""Restoring: guard, journal, workspace, operation recorded, journal closed."""

from __future__ import annotations

from lastgood.deletion_policy import same_content
from lastgood.errors import Busy, Unsafe
from lastgood.model.tree import DIRECTORY
from lastgood.restore.plan import is_barred
from lastgood.transaction import RestoreTransaction
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lastgood.host import Scan
    from lastgood.model.operation import Journal, Operation, OperationType, Outcome, Part, PartOutcome, Step
    from lastgood.model.tree import Entry

    Look = Callable[[bytes], Entry | None]

EFFECTIVE = frozenset({"restored", "removed"})


class Changed(Value):
    """What became of each path, and of each part.

    ``target`` is the checkpoint that the whole workspace was brought to by what a recovery finished.
    """

    outcomes: tuple[Outcome, ...]
    parts: tuple[PartOutcome, ...] = ()
    target: str | None = None


class Restoring(RestoreTransaction):
    """Holds the workspace alone: the only place from which its files can be changed."""

    def change(
        self, journal: Journal, *, scan: Scan, settle_parts: Callable[[], tuple[PartOutcome, ...]]
    ) -> tuple[Operation, Changed]:
        """Carry out a plan under its new journal, prove the outcome and record it (invariant 3).

        The parts come when the files are proven. If it stops half-way (disk full, killed) the
        journal stays, for `recover`.
        """
        self.journal.open(journal)
        steps = journal.plan.steps
        try:
            applied = self._apply(journal, steps, scan=scan)
        except (Unsafe, Busy):  # by the applier's promise nothing has been written
            self.journal.close()
            raise
        outcomes = self._prove(applied, steps)
        results = {outcome.path: outcome.result for outcome in outcomes}
        with self.context.applier.looking() as present:
            done = [step if results[step.path] in EFFECTIVE else self.effect(step, present) for step in steps]
        effective = tuple(step for step in done if step is not None)
        parts = settle_parts()
        operation = self._write_down(journal, effective, parts=parts)
        self._end(journal, effective, parts=parts, outcomes=outcomes)
        return operation, Changed(outcomes=outcomes, parts=parts)

    def carry_on(self, journal: Journal, steps: Sequence[Step], *, scan: Scan) -> tuple[Outcome, ...]:
        """Carry out steps of a journal that is open, and prove what came of them."""
        return self._prove(self._apply(journal, steps, scan=scan, closed=journal.closed), steps)

    def _apply(
        self, journal: Journal, steps: Sequence[Step], *, scan: Scan, closed: Mapping[bytes, int] = {}
    ) -> Sequence[Outcome]:
        return self.applier.apply(
            steps, token=journal.operation, objects=self.context.engine, stamp=scan.stamp, closed=closed
        )

    def _prove(self, outcomes: Sequence[Outcome], steps: Sequence[Step]) -> tuple[Outcome, ...]:
        wanted = {step.path: step for step in steps}
        with self.context.applier.looking() as present:
            return tuple(_proven(outcome, wanted[outcome.path], present) for outcome in outcomes)

    def settle(
        self,
        journal: Journal,
        done: tuple[Step, ...],
        *,
        outcomes: tuple[Outcome, ...],
        parts: tuple[PartOutcome, ...] = (),
    ) -> None:
        """Record the operation with the steps and parts that took effect, then close the journal.

        In this order a crash between the two leaves a journal, and with it a way to go on; the
        operation is recorded once however often this is repeated.
        """
        if not self._is_recorded(journal):
            self._write_down(journal, done, parts=parts)
        self._end(journal, done, parts=parts, outcomes=outcomes)

    def _write_down(
        self, journal: Journal, done: tuple[Step, ...], *, parts: tuple[PartOutcome, ...]
    ) -> Operation:
        return self.record(
            journal.type,
            id=journal.operation,
            target=journal.plan.target,
            guard=journal.guard,
            steps=done,
            of=journal.of,
            parts=_restored(journal, parts),
            session=journal.session,
        )

    def _end(
        self,
        journal: Journal,
        done: tuple[Step, ...],
        *,
        parts: tuple[PartOutcome, ...],
        outcomes: tuple[Outcome, ...],
    ) -> None:
        # An undo of which nothing succeeded can be tried again.
        if journal.of is not None and (done or _restored(journal, parts) or _is_met(journal)):
            self.catalogue.set_undone(journal.of, undone=journal.type == "undo")
        self._close(journal, outcomes)

    def _close(self, journal: Journal, outcomes: tuple[Outcome, ...]) -> None:
        """Close a journal; where something could not be taken away, keep what is known of it."""
        if any(outcome.left is not None for outcome in outcomes):
            self.journal.leave(journal.operation)
        else:
            self.journal.close()

    def withdraw(
        self, journal: Journal, standing: tuple[Step, ...], *, outcomes: tuple[Outcome, ...]
    ) -> None:
        """Close the journal of what was rolled back; ``standing`` are the steps that could not be.

        They stay an operation that `undo` can take back. One that had been recorded before it was
        rolled back is marked as undone (or an undo as brought again), as if that had been asked for.
        """
        if standing and journal.of is None:
            self.settle(journal, standing, outcomes=outcomes)
            return
        if not standing and self._is_recorded(journal):
            what = journal.operation if journal.of is None else journal.of
            back: OperationType = "redo" if journal.type == "undo" else "undo"
            self.record(back, guard=journal.guard, of=what, session=journal.session)
            self.catalogue.set_undone(what, undone=back == "undo")
        self._close(journal, outcomes)

    def _is_recorded(self, journal: Journal) -> bool:
        known = self.context.catalogue.operations(self.context.key)
        return any(one.id == journal.operation for one in known)

    def took_effect(self, step: Step, present: Look) -> bool:
        """Tell whether a path holds what a step wants, whatever its outcome: then `undo` takes it back."""
        if step.action in {"keep", "skip"}:
            return False
        return same_content(present(step.path), step.want)

    def effect(self, step: Step, present: Look) -> Step | None:
        """Return what became true of a step, None if nothing did."""
        if self.took_effect(step, present):
            return step
        if step.action != "mkdir" or step.want is None:
            return None
        found = present(step.path)
        if found is None or found.kind != DIRECTORY:
            return None
        # Made, though its permissions could not be set.
        return step.replace(want=step.want.replace(mode=found.mode))


def _proven(outcome: Outcome, step: Step, present: Look) -> Outcome:
    if outcome.result not in EFFECTIVE:
        return outcome
    if same_content(present(step.path), step.want):
        return outcome
    return outcome.replace(result="failed", reason="changed while it was being restored")


def _restored(journal: Journal, outcomes: tuple[PartOutcome, ...]) -> tuple[Part, ...]:
    """Return the parts of a plan that took effect."""
    restored = {outcome.scope for outcome in outcomes if outcome.result == "restored"}
    return tuple(part for part in journal.plan.parts if part.scope in restored)


def _is_met(journal: Journal) -> bool:
    """Tell whether nothing was to be done, and nothing was in the way of it either."""
    return journal.plan.empty and not is_barred(journal.plan.steps)


class Recovering(Restoring):
    """Holds the workspace alone although a restore of it was interrupted."""

    def _admit(self) -> None:
        """Let an interrupted restore be."""
