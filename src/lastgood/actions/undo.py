"""undo, redo: operations taken back and brought again, in order (rule T8)."""

from __future__ import annotations

from lastgood.actions.carrying import carry_out, refuse_changed, refuse_unheld
from lastgood.actions.delete import refuse_pinned
from lastgood.actions.restore import evidence_of
from lastgood.actions.survey import Survey
from lastgood.errors import NotFound
from lastgood.ids import short
from lastgood.model.plan import RestorePlan
from lastgood.model.report import UndoReport
from lastgood.model.tree import DIRECTORY
from lastgood.rules.history import to_redo, to_undo
from lastgood.rules.planner import Planner
from lastgood.rules.rebase import around, obstacles, of_directories, rebase, unsettled
from lastgood.rules.restore import identify, inverse
from lastgood.transaction.restoring import Restoring
from lastgood.view import Files, tree_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.operation import Operation, OperationType
    from lastgood.model.plan import Step
    from lastgood.ports.context import Context

_FORCE = "to {type} all the same (the present state is saved first): lastgood {type} --force"
_LIST = "see what was done: lastgood undo --list"
_DELETIONS = frozenset({"delete", "prune"})


def undo(context: Context, *, force: bool = False) -> UndoReport:
    """Take back the last restore or delete that was asked for.

    A delete whose checkpoints were freed after the grace time is passed over. Raises `Conflict` if
    a path has changed since, unless forced (a guard is taken all the same).
    """
    with Restoring(context) as restoring:
        operations = context.catalogue.operations(context.key)
        found = to_undo(one for one in operations if not _is_freed(context, one))
        if found is None:
            raise NotFound("there is nothing to undo", hint=_LIST)
        if found.type in _DELETIONS:
            return _deletion(restoring, found, undone=True)
        return _restore(restoring, found, inverse(found.steps), type="undo", force=force)


def redo(context: Context, *, force: bool = False) -> UndoReport:
    """Bring again what the last undo took back."""
    with Restoring(context) as restoring:
        found = to_redo(context.catalogue.operations(context.key))
        if found is None:
            raise NotFound("there is nothing to redo", hint=_LIST)
        if found.type in _DELETIONS:
            return _deletion(restoring, found, undone=False)
        return _restore(restoring, found, found.steps, type="redo", force=force)


def _is_freed(context: Context, operation: Operation) -> bool:
    """Tell whether nothing is left of what an operation deleted."""
    return operation.type in _DELETIONS and all(
        context.catalogue.get(one) is None for one in operation.checkpoints
    )


def _deletion(restoring: Restoring, operation: Operation, *, undone: bool) -> UndoReport:
    catalogue = restoring.context.catalogue
    known = [one for id in operation.checkpoints if (one := catalogue.get(id)) is not None]
    ids = tuple(one.id for one in known)
    if undone:
        catalogue.undelete(ids)
    else:
        refuse_pinned(known)
        catalogue.delete(ids, at=restoring.context.clock.now())
    record = restoring.record("undo" if undone else "redo", checkpoints=ids, of=operation.id)
    catalogue.set_undone(operation.id, undone=undone)
    return UndoReport(operation=record)


def _restore(
    restoring: Restoring, operation: Operation, steps: tuple[Step, ...], *, type: OperationType, force: bool
) -> UndoReport:
    context = restoring.context
    source = operation.guard if type == "undo" else operation.target
    _refuse_freed(context, steps, source=source)
    touched = {step.path for step in steps if not of_directories(step)}
    if force:
        touched |= _in_the_way(context, steps)
    with Survey(context, forced=tuple(sorted(touched))) as survey:
        if force:  # what somebody changed since is in the guard; every touched path goes back
            steps = _forced(steps, survey, source=source)
        else:
            steps = unsettled(steps, survey.actual)
            refuse_changed(steps, survey, hint=_FORCE.format(type=type))
        refuse_unheld(tuple(_held(step) for step in steps), survey)
        what = "undoing" if type == "undo" else "redoing"
        guard = survey.guard(restoring, before=f"{what} the restore of {short(operation.target or '')}")
        plan = _plan(context, operation, steps)
        id, changed = carry_out(restoring, plan, survey, guard=guard, type=type, of=operation.id)
    record = next(one for one in context.catalogue.operations(context.key) if one.id == id)
    return UndoReport(operation=record, guard=guard, outcomes=changed.outcomes, parts=changed.parts)


def _in_the_way(context: Context, steps: tuple[Step, ...]) -> set[bytes]:
    """Return what is where a directory has to be, for the guard to hold."""
    present = context.applier.present
    found = obstacles((step.path for step in steps if step.want is not None), present)
    return {path for path in found if present(path) is not None}


def _forced(steps: tuple[Step, ...], survey: Survey, *, source: str | None) -> tuple[Step, ...]:
    """Return the steps from what is there now, whatever that is, to what an undo or redo wants."""
    rebased = rebase(steps, survey.actual)
    checkpoint = None if source is None else survey.context.catalogue.get(source)
    if checkpoint is None:
        return rebased
    files = Files(tree_of(checkpoint), survey.context.engine)
    planner = Planner(files, survey.scan, evidence=evidence_of(checkpoint, files, survey))
    return around(rebased, survey.actual, planner=planner)


def _refuse_freed(context: Context, steps: tuple[Step, ...], *, source: str | None) -> None:
    """Say so if what would be brought back went with its checkpoint (rule K3): that is no damage."""
    if source is None or context.catalogue.get(source) is not None:
        return
    wanted = (step.want.oid for step in steps if step.want is not None and step.want.kind != DIRECTORY)
    if context.engine.missing(wanted):
        raise NotFound(
            f"what it would bring back was in {short(source)}, which was deleted and freed",
            hint=_LIST,
            details={"checkpoint": source},
        )


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
