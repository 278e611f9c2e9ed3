"""undo, redo: operations taken back and brought again, in order (rule T8)."""

from __future__ import annotations

from lastgood.actions.carrying import carry_out, refuse_changed, refuse_unheld
from lastgood.actions.survey import Survey
from lastgood.errors import NotFound
from lastgood.ids import short
from lastgood.model.plan import RestorePlan
from lastgood.model.report import UndoReport
from lastgood.model.tree import DIRECTORY
from lastgood.rules.history import to_redo, to_undo
from lastgood.rules.rebase import rebase
from lastgood.rules.restore import identify, inverse
from lastgood.transaction.restoring import Restoring
from lastgood.transaction.saving import Saving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.operation import Operation, OperationType
    from lastgood.model.plan import Step
    from lastgood.ports.context import Context

_FORCE = "to {type} all the same (the present state is saved first): lastgood {type} --force"


def undo(context: Context, *, force: bool = False) -> UndoReport:
    """Take back the last restore or delete that was asked for.

    Raises `Conflict` if a path has changed since, unless forced (a guard is taken all the same).
    """
    found = to_undo(context.catalogue.operations(context.key))
    if found is None:
        raise NotFound("there is nothing to undo", hint="see what was done: lastgood undo --list")
    if found.type in {"delete", "prune"}:
        return _deletion(context, found, undone=True)
    return _restore(context, found, inverse(found.steps), type="undo", force=force)


def redo(context: Context, *, force: bool = False) -> UndoReport:
    """Bring again what the last undo took back."""
    found = to_redo(context.catalogue.operations(context.key))
    if found is None:
        raise NotFound("there is nothing to redo", hint="see what was done: lastgood undo --list")
    if found.type in {"delete", "prune"}:
        return _deletion(context, found, undone=False)
    return _restore(context, found, found.steps, type="redo", force=force)


def _deletion(context: Context, operation: Operation, *, undone: bool) -> UndoReport:
    with Saving(context) as saving:
        known = [one for one in operation.checkpoints if context.catalogue.get(one) is not None]
        if undone and not known:
            raise NotFound(
                "the deleted checkpoints are gone: their bytes were freed after the grace time",
                hint="see what there is: lastgood list",
            )
        if undone:
            context.catalogue.undelete(known)
        else:
            context.catalogue.delete(known, at=context.clock.now())
        context.catalogue.set_undone(operation.id, undone=undone)
        record = saving.record("undo" if undone else "redo", checkpoints=tuple(known), of=operation.id)
    return UndoReport(operation=record)


def _restore(
    context: Context, operation: Operation, steps: tuple[Step, ...], *, type: OperationType, force: bool
) -> UndoReport:
    touched = tuple(step.path for step in steps if not _of_directories(step))
    with Restoring(context) as restoring, Survey(context, forced=touched) as survey:
        if force:  # what somebody changed since is in the guard; every touched path goes back
            steps = rebase(steps, survey.actual)
        else:
            refuse_changed(steps, survey, hint=_FORCE.format(type=type))
        refuse_unheld(tuple(_held(step) for step in steps), survey)
        what = "undoing" if type == "undo" else "redoing"
        guard = survey.guard(restoring, before=f"{what} the restore of {short(operation.target or '')}")
        plan = _plan(context, operation, steps)
        id, outcomes = carry_out(restoring, plan, survey, guard=guard, type=type, of=operation.id)
    record = next(one for one in context.catalogue.operations(context.key) if one.id == id)
    return UndoReport(operation=record, guard=guard, outcomes=outcomes)


def _of_directories(step: Step) -> bool:
    """Tell whether a step is about a directory alone: nothing of it could be lost."""
    return all(entry is None or entry.kind == DIRECTORY for entry in (step.have, step.want))


def _held(step: Step) -> Step:
    """Have the guard hold a present file whatever the ignore rules say by now."""
    return step.replace(forced=step.have is not None and step.have.kind != DIRECTORY)


def _plan(context: Context, operation: Operation, steps: tuple[Step, ...]) -> RestorePlan:
    target = operation.guard or ""
    return RestorePlan(
        id=identify(steps, target=target, workspace_key=context.key),
        target=target,
        workspace_key=context.key,
        paths=(),
        steps=steps,
    )
