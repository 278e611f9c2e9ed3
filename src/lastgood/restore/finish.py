"""An interrupted restore, finished or taken back (rule T7)."""

from __future__ import annotations

from lastgood.errors import Busy, NoRoom, NotFound
from lastgood.model.operation import Outcome
from lastgood.model.path_safety import link_faults
from lastgood.model.tree import is_directory
from lastgood.paths import parent
from lastgood.restore import parts
from lastgood.restore.execution import EFFECTIVE, PlanExecution, Prepared, took_effect
from lastgood.restore.steps import is_foreign, of_directories, retarget_steps, reversed_step
from lastgood.snapshot import WorkspaceSnapshot
from lastgood.transaction import RecoverTransaction
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from lastgood.context import Context
    from lastgood.literals import OperationType, Settled
    from lastgood.model.long_list import LongList
    from lastgood.model.operation import Journal, Operation, PartOutcome, Step
    from lastgood.restore.site import Threads

_ROOM_HINT = (
    "make room on that disk, then finish: lastgood recover\nor take it back: lastgood recover --rollback"
)


class SettledRestore(Value):
    """What became of a restore that was interrupted; ``done`` is None if there was none.

    ``target`` is the checkpoint that the whole workspace was brought to by that. Of what restores before
    it had left in the workspace, ``cleared`` went, and ``left`` tells of what could not just go.
    """

    done: Settled | None = None
    outcomes: tuple[Outcome, ...] = ()
    parts: tuple[PartOutcome, ...] = ()
    target: str | None = None
    left: tuple[Outcome, ...] = ()
    cleared: tuple[bytes, ...] = ()


def settle_restore(context: Context, *, roll_back: bool) -> SettledRestore:
    """Finish an interrupted restore or take it back, and clear away what earlier ones left.

    Paths that hold neither what the restore found nor what it wanted were changed by somebody
    since: they are kept and named.
    """
    earlier = context.journal.left()
    settled = _settle_interrupted(context, roll_back=roll_back)
    # Only then: what goes back to a path would be in the way of what is finished there.
    return _clear_left(context, earlier, settled)


def _settle_interrupted(context: Context, *, roll_back: bool) -> SettledRestore:
    if context.journal.read() is None:
        _clear_begun(context)
        return SettledRestore()
    given = context.reserve.make_room()
    try:
        with RecoverTransaction(context) as recovering:
            journal = context.journal.read()
            if journal is None:
                return SettledRestore()
            recovering.applier.make_root()  # else nothing could settle it, and all else waits for that
            return _go_on(recovering, journal, roll_back=roll_back)
    except NoRoom as error:  # no prune may free what the restore needs
        raise NoRoom(error.message, hint=_ROOM_HINT, details=error.details) from error
    finally:
        context.reserve.lay_in(again=given)


def _clear_begun(context: Context) -> None:
    """Take away what a kill left of a journal that was never opened, unless somebody is at work."""
    if not context.journal.is_begun():
        return
    try:
        with RecoverTransaction(context, wait=0):
            return
    except Busy:  # who restores writes one, and who saves has taken it away
        return


def _go_on(recovering: RecoverTransaction, journal: Journal, *, roll_back: bool) -> SettledRestore:
    """Apply what is left of the plan in a journal, or of the way back from it."""
    plan = journal.plan
    steps = plan.of("mkdir", "write", "chmod", "delete", "rmdir")
    found = _cleared(recovering, journal, steps)
    touched = tuple(step.path for step in steps if not of_directories(step))
    with WorkspaceSnapshot(recovering, forced=touched) as snapshot:
        execution = _remaining(
            snapshot, journal, recovering=recovering, steps=steps, found=found, roll_back=roll_back
        )
        result = execution.carry_out()
    ours = {step.path for step in execution.ours}
    edited = "changed by somebody since the interruption"
    kept = tuple(
        Outcome(path=step.path, action="skip", result="skipped", reason=edited)
        for step in steps
        if step.path not in ours
    )
    stands = not roll_back and journal.type == "restore" and plan.whole
    return SettledRestore(
        done="rolled-back-restore" if roll_back else "finished-restore",
        outcomes=(*result.outcomes, *kept),
        parts=result.parts,
        target=plan.target if stands else None,
    )


def _remaining(
    snapshot: WorkspaceSnapshot,
    journal: Journal,
    *,
    recovering: RecoverTransaction,
    steps: tuple[Step, ...],
    found: Sequence[Outcome],
    roll_back: bool,
) -> ResumedExecution:
    """Plan, from what is there now, what leads on or back, but for paths that somebody else changed since."""
    context, plan = recovering.context, journal.plan
    with snapshot.looking():
        ours = tuple(step for step in steps if not is_foreign(step, snapshot.actual(step.path)))
        remaining = retarget_steps(
            (reversed_step(step) for step in ours) if roll_back else ours, snapshot.actual
        )
    # A release that did not look may have begun with what nothing can hold: the rest goes on without it.
    unfit = {fault.path: fault.reason for fault in link_faults(remaining, context.engine)}
    left = plan.replace(
        steps=tuple(step for step in remaining if step.path not in unfit),
        parts=parts.reversed_parts(plan.parts) if roll_back else plan.parts,
        merged=(),
    )
    return (RollBack if roll_back else ResumedExecution)(
        restoring=recovering,
        plan=left,
        snapshot=snapshot,
        before=f"recovering {journal.operation}",
        of=None if journal.of is None else context.catalogue.operation(journal.of),
        closed=journal.closed,
        unsynced=_places(steps),
        journal=journal,
        ours=ours,
        failed=_failed(remaining, unfit),
        found=found,
    )


def _failed(steps: Iterable[Step], unfit: Mapping[bytes, str]) -> tuple[Outcome, ...]:
    """Return what becomes of the steps that nothing can hold, by their paths with the reason."""
    return tuple(
        Outcome(path=step.path, action=step.action, result="failed", reason=unfit[step.path])
        for step in steps
        if step.path in unfit
    )


class ResumedExecution(PlanExecution):
    """What is left of a plan that was interrupted, under the journal that it left.

    ``ours`` are the steps of the whole plan whose paths nobody else changed since. ``failed`` cannot be
    carried out, ``found`` is what the interruption had left in the workspace.
    """

    journal: Journal
    ours: tuple[Step, ...]
    failed: tuple[Outcome, ...]
    found: Sequence[Outcome]

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the whole plan, what was carried out before the interruption included."""
        return self.ours

    def lists_beside(self) -> dict[str, LongList[Any]]:
        """Return none: the guard that the journal names has them."""
        return {}

    def prepare(
        self,
        contents: dict[bytes, bytes],  # noqa: ARG002 - nothing is read
        threads: Threads,  # noqa: ARG002 - nothing is written beside
    ) -> Prepared:
        """Have a guard hold what is there now; the journal is open, and names the guard of before."""
        guard = self.snapshot.guard(self.restoring, before=self.before, lists=self.lists_beside())
        return Prepared(journal=self.journal, guard=guard.hold(), wait=lambda: None)

    def abandon(self) -> None:
        """Leave the journal: some of the plan was carried out before."""

    def all_outcomes(self, outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
        """Add what failed without an attempt, and what was found of the interrupted one."""
        by_path = {one.path: one for one in self.found}
        told = [
            one
            if (was := by_path.pop(one.path, None)) is None
            else one.replace(reason=was.reason, kept=one.kept or was.kept, left=one.left or was.left)
            for one in (*outcomes, *self.failed)
        ]
        return (*told, *(one for one in by_path.values() if one.kept is not None or one.left is not None))

    def is_recorded(self, journal: Journal) -> bool:
        """Tell whether the operation was recorded before the interruption."""
        known = self.restoring.catalogue.operations(self.restoring.context.key)
        return any(one.id == journal.operation for one in known)


class RollBack(ResumedExecution):
    """The way back from a plan that was interrupted."""

    def effective_steps(self, outcomes: Sequence[Outcome]) -> tuple[Step, ...]:
        """Return the steps of the plan that could not be taken back, and still hold."""
        missed = {one.path for one in outcomes if one.result not in EFFECTIVE}
        with self.restoring.context.applier.looking() as present:
            return tuple(step for step in self.steps if step.path in missed and took_effect(step, present))

    def stands(self, journal: Journal) -> str | None:
        """Return None: the workspace did not move."""

    def record(
        self, journal: Journal, done: tuple[Step, ...], _settled: tuple[PartOutcome, ...]
    ) -> Operation | None:
        """Record what could not be taken back: it stays an operation that `undo` can take back.

        One that had been recorded before it was rolled back is marked as undone (or an undo as brought
        again), as if that had been asked for.
        """
        if done and journal.of is None:
            return super().record(journal, done, ())
        if not done and self.is_recorded(journal):
            what = journal.operation if journal.of is None else journal.of
            back: OperationType = "redo" if journal.type == "undo" else "undo"
            self.restoring.record(
                back, guard=journal.guard, of=what, session=journal.session, stands=self._stood(what, back)
            )
            self.restoring.catalogue.set_undone(what, undone=back == "undo")
        return None

    def _stood(self, operation: str, back: OperationType) -> str | None:
        about = self.restoring.context.catalogue.operation(operation)
        if about is None:
            return None
        return about.stood if back == "undo" else about.stands


def _clear_left(context: Context, restores: Sequence[Journal], settled: SettledRestore) -> SettledRestore:
    """Take away what restores that are done left in the workspace because it could not go (rule T12b).

    So, too, names that had gone, and that a file system brought back after a power cut.
    """
    if not restores and not _returned(context, _left_over(context)):  # by far the most: nobody waits
        return settled
    outcomes: list[Outcome] = []
    with RecoverTransaction(context) as recovering:
        before = _left_over(context)
        for journal in restores:
            found = _cleared(recovering, journal, journal.plan.steps)
            outcomes += found
            if not any(one.left is not None for one in found):
                recovering.journal.forget(journal.operation)
        outcomes += clear_unplanned(recovering, _returned(context, before))
        after = _left_over(context)
    gone = {path for paths in before.values() for path in paths}
    gone.difference_update(*after.values())
    return settled.replace(left=tuple(outcomes), cleared=tuple(sorted(gone)))


def _returned(context: Context, left: Mapping[str, Sequence[bytes]]) -> Mapping[str, Sequence[bytes]]:
    """Return what is there of restores of this workspace that are done and left nothing."""
    waiting = context.journal.left_by()
    known = {id: context.catalogue.operation(id) for id in left if id not in waiting}
    ours = {id for id, one in known.items() if one is not None and one.workspace_key == context.key}
    return {id: paths for id, paths in left.items() if id in ours}


def _left_over(context: Context) -> Mapping[str, Sequence[bytes]]:
    try:
        return context.applier.left_over()
    except NotFound:  # whoever needs the folder says so, or makes it again
        return {}


def clear_unplanned(
    recovering: RecoverTransaction, left: Mapping[str, Sequence[bytes]]
) -> tuple[Outcome, ...]:
    """Clear what restores left whose steps are not known, or not what counts any more.

    What the store has goes; anything else leaves for the store, and takes the place of nothing.
    """
    engine = recovering.context.engine

    def stored(oid: bytes) -> bool:
        return bool(oid) and not engine.missing((oid,))

    return tuple(
        outcome
        for operation, paths in left.items()
        for outcome in recovering.applier.clear_temporaries(operation, places_of(paths), stored=stored)
    )


def places_of(paths: Iterable[bytes]) -> Sequence[bytes]:
    """Return the directories of some paths."""
    return sorted({parent(path) for path in paths})


def _cleared(recovering: RecoverTransaction, journal: Journal, steps: tuple[Step, ...]) -> Sequence[Outcome]:
    """Clear what a restore left, also where somebody has moved a directory of its by now (rule T12b)."""
    applier, token = recovering.applier, journal.operation
    places = _places(steps)
    found = applier.clear_temporaries(token, sorted(places), steps=steps)
    moved = set(places_of(applier.left_over().get(token, ()))) - places
    return (*found, *applier.clear_temporaries(token, sorted(moved), steps=steps)) if moved else found


def _places(steps: Sequence[Step]) -> set[bytes]:
    """Return the directories in which steps change names, or which they are about."""
    made = {step.path for step in steps if is_directory(step.have) or is_directory(step.want)}
    return {parent(step.path) for step in steps} | made
