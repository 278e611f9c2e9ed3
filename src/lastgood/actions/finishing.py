"""An interrupted restore, finished or taken back (rule T7)."""

from __future__ import annotations

from lastgood.actions import parts
from lastgood.actions.survey import Survey
from lastgood.model.plan import Outcome
from lastgood.model.tree import DIRECTORY
from lastgood.names import parent
from lastgood.rules.rebase import foreign, of_directories, rebase, turned
from lastgood.transaction.restoring import EFFECTIVE, Changed, Recovering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.operation import Journal
    from lastgood.model.plan import Step
    from lastgood.model.tree import Entry
    from lastgood.ports.context import Context


def finish(context: Context, *, roll_back: bool) -> Changed | None:
    """Finish an interrupted restore, or take it back; None if there is none.

    Paths that hold neither what the restore found nor what it wanted were changed by somebody
    since: they are kept and named.
    """
    if context.journal.read() is None:
        return None
    with Recovering(context) as recovering:
        journal = context.journal.read()
        return None if journal is None else _settle(recovering, journal, roll_back=roll_back)


def _settle(recovering: Recovering, journal: Journal, *, roll_back: bool) -> Changed:
    context = recovering.context
    steps = journal.plan.of("mkdir", "write", "chmod", "delete", "rmdir")
    context.applier.clear_temporaries(journal.operation, _directories(steps))
    touched = tuple(step.path for step in steps if not of_directories(step))
    with Survey(context, forced=touched) as survey:
        changed = {step.path for step in steps if foreign(step, survey.actual(step.path))}
        ours = tuple(step for step in steps if step.path not in changed)
        goal = tuple(turned(step) for step in ours) if roll_back else ours
        survey.guard(recovering, before=f"recovering {journal.operation}")
        remaining = rebase(goal, survey.actual)
        outcomes = recovering.carry_on(journal, remaining, scan=survey.scan)
    goals = journal.plan.parts
    settled = parts.settled(context, parts.turned(goals) if roll_back else goals)
    if roll_back:
        missed = {one.path for one in outcomes if one.result not in EFFECTIVE}
        left = (step for step in ours if step.path in missed and recovering.took_effect(step))
        recovering.withdraw(journal, tuple(left))
    else:
        done = (recovering.effect(step) for step in ours)
        recovering.settle(journal, tuple(step for step in done if step is not None), parts=settled)
    kept = tuple(_kept(step) for step in steps if step.path in changed)
    return Changed(outcomes=(*outcomes, *kept), parts=settled)


def _directories(steps: tuple[Step, ...]) -> list[bytes]:
    """Return every directory in which the restore may have left something temporary."""
    made = {step.path for step in steps if DIRECTORY in {_kind(step.have), _kind(step.want)}}
    return sorted({parent(step.path) for step in steps} | made)


def _kind(entry: Entry | None) -> str | None:
    return None if entry is None else entry.kind


def _kept(step: Step) -> Outcome:
    return Outcome(
        path=step.path, action="skip", result="skipped", reason="changed by somebody since the interruption"
    )
