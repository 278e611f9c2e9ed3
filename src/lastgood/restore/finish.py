"""An interrupted restore, finished or taken back (rule T7)."""

from __future__ import annotations

from lastgood.errors import NoRoom
from lastgood.model.operation import Outcome
from lastgood.model.path_safety import link_faults
from lastgood.model.tree import DIRECTORY
from lastgood.paths import parent
from lastgood.restore import parts
from lastgood.restore.plan import is_foreign, of_directories, retarget_steps, reversed_step
from lastgood.restore.transaction import EFFECTIVE, Changed, Recovering
from lastgood.snapshot import WorkspaceSnapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.context import Context
    from lastgood.model.operation import Journal, Step
    from lastgood.model.tree import Entry

_ROOM_HINT = (
    "make room on that disk, then finish: lastgood recover    or take it back: lastgood recover --rollback"
)


def finish(context: Context, *, roll_back: bool) -> Changed | None:
    """Finish an interrupted restore, or take it back; None if there is none.

    Paths that hold neither what the restore found nor what it wanted were changed by somebody
    since: they are kept and named.
    """
    if context.journal.read() is None:
        return None
    given = context.reserve.make_room()
    try:
        with Recovering(context) as recovering:
            journal = context.journal.read()
            return None if journal is None else _settle(recovering, journal, roll_back=roll_back)
    except NoRoom as error:  # no prune may free what the restore needs
        raise NoRoom(error.message, hint=_ROOM_HINT, details=error.details) from error
    finally:
        context.reserve.lay_in(again=given)


def _settle(recovering: Recovering, journal: Journal, *, roll_back: bool) -> Changed:
    context = recovering.context
    steps = journal.plan.of("mkdir", "write", "chmod", "delete", "rmdir")
    found = recovering.applier.clear_temporaries(journal.operation, _directories(steps), steps=steps)
    touched = tuple(step.path for step in steps if not of_directories(step))
    with WorkspaceSnapshot(recovering, forced=touched) as snapshot:
        with snapshot.looking():
            changed = {step.path for step in steps if is_foreign(step, snapshot.actual(step.path))}
        ours = tuple(step for step in steps if step.path not in changed)
        goal = tuple(reversed_step(step) for step in ours) if roll_back else ours
        snapshot.guard(recovering, before=f"recovering {journal.operation}")
        with snapshot.looking():
            remaining = retarget_steps(goal, snapshot.actual)
        # A release that did not look may have begun with what nothing can hold: the rest goes on without it.
        unfit = {fault.path: fault.reason for fault in link_faults(remaining, context.engine)}
        feasible = tuple(step for step in remaining if step.path not in unfit)
        failed = tuple(_failed(step, unfit[step.path]) for step in remaining if step.path in unfit)
        outcomes = _with_leftovers(
            (*recovering.carry_on(journal, feasible, scan=snapshot.scan), *failed), found
        )
    goals = journal.plan.parts
    settled = parts.settled(recovering, parts.reversed_parts(goals) if roll_back else goals)
    if roll_back:
        missed = {one.path for one in outcomes if one.result not in EFFECTIVE}
        with context.applier.looking() as present:
            left = tuple(
                step for step in ours if step.path in missed and recovering.took_effect(step, present)
            )
        recovering.withdraw(journal, left, outcomes=outcomes)
    else:
        with context.applier.looking() as present:
            done = [recovering.effect(step, present) for step in ours]
        effective = tuple(step for step in done if step is not None)
        recovering.settle(journal, effective, parts=settled, outcomes=outcomes)
    kept = tuple(_kept(step) for step in steps if step.path in changed)
    stands = not roll_back and journal.type == "restore" and journal.plan.whole
    return Changed(outcomes=(*outcomes, *kept), parts=settled, target=journal.plan.target if stands else None)


def clear_left(context: Context, restores: Sequence[Journal]) -> tuple[Outcome, ...]:
    """Take away what restores that are done left in the workspace because it could not go (rule T12b)."""
    if not restores:
        return ()
    outcomes: list[Outcome] = []
    with Recovering(context) as recovering:
        for journal in restores:
            steps = journal.plan.steps
            found = recovering.applier.clear_temporaries(journal.operation, _directories(steps), steps=steps)
            outcomes += found
            if not any(one.left is not None for one in found):
                recovering.journal.forget(journal.operation)
    return tuple(outcomes)


def _with_leftovers(outcomes: tuple[Outcome, ...], found: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """Add what was found of an interrupted apply to what became of its paths."""
    by_path = {one.path: one for one in found}
    told = [
        one
        if (was := by_path.pop(one.path, None)) is None
        else one.replace(reason=was.reason, kept=one.kept or was.kept, left=one.left or was.left)
        for one in outcomes
    ]
    return (*told, *(one for one in by_path.values() if one.kept is not None or one.left is not None))


def _directories(steps: tuple[Step, ...]) -> list[bytes]:
    """Return every directory in which the restore may have left something temporary."""
    made = {step.path for step in steps if DIRECTORY in {_kind(step.have), _kind(step.want)}}
    return sorted({parent(step.path) for step in steps} | made)


def _kind(entry: Entry | None) -> str | None:
    return None if entry is None else entry.kind


def _failed(step: Step, reason: str) -> Outcome:
    return Outcome(path=step.path, action=step.action, result="failed", reason=reason)


def _kept(step: Step) -> Outcome:
    return Outcome(
        path=step.path, action="skip", result="skipped", reason="changed by somebody since the interruption"
    )
