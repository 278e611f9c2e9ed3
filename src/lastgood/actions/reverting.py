"""The way back from a restore, or forth again: what changed since refuses it, goes, or stays (rule T8)."""

from __future__ import annotations

from lastgood.actions import parts
from lastgood.actions.carrying import carry_out, refuse_changed, refuse_unheld
from lastgood.actions.restore import evidence_of
from lastgood.actions.rivals import changed_by_others
from lastgood.actions.survey import Survey
from lastgood.codec.canonical import dumps
from lastgood.codec.records import part_record
from lastgood.errors import Conflict, Damaged, NotFound, Unsafe, Unsupported
from lastgood.ids import short
from lastgood.model.plan import RestorePlan, Step
from lastgood.model.report import UndoReport
from lastgood.model.tree import DIRECTORY
from lastgood.names import to_text
from lastgood.rules.planner import Planner
from lastgood.rules.rebase import around, obstacles, occupied, of_directories, rebase, unsettled
from lastgood.rules.restore import conflicts, identify
from lastgood.value import Value
from lastgood.view import Files, tree_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from lastgood.model.operation import Operation, OperationType
    from lastgood.model.part import Part, PartOutcome
    from lastgood.model.plan import Merged
    from lastgood.ports.context import Context
    from lastgood.transaction.restoring import Restoring

    # What becomes of changes since: by default they refuse it, forced they go, merged they stay.
    Way = Literal["force", "merge"]
    Goal = tuple[tuple[Step, ...], tuple[Part, ...]]

_FORCE = (
    "to {type} all the same (the present state is saved first): lastgood {type} --force"
    "    or keep what changed: lastgood {type} --merge"
)
_LIST = "see what was done: lastgood undo --list"


class _Turn(Value):
    """One way back or forth; ``source`` is the checkpoint that holds what comes back."""

    operation: Operation
    type: OperationType
    way: Way | None
    source: str | None

    @property
    def hint(self) -> str:
        """What to type to go on all the same."""
        return _FORCE.format(type=self.type)


def revert(
    restoring: Restoring, operation: Operation, goal: Goal, *, type: OperationType, way: Way | None
) -> UndoReport:
    """Bring about what the steps and parts of an operation want."""
    context, (steps, wanted) = restoring.context, goal
    source = operation.guard if type == "undo" else operation.target
    turn = _Turn(operation=operation, type=type, way=way, source=source)
    _refuse_freed(context, steps, source=source)
    touched = {step.path for step in steps if not of_directories(step)}
    if way == "force":
        touched |= _in_the_way(context, steps)
    with Survey(context, forced=tuple(sorted(touched))) as survey:
        with survey.looking():
            steps, merged = _towards(steps, survey, turn)
        able, left = _parts(context, wanted, turn)
        refuse_unheld(tuple(_held(step) for step in steps), survey)
        plan = _plan(context, turn, steps=steps, parts=able, merged=merged)
        if merged:
            from lastgood.actions.merging import hold

            hold(survey, plan)
        what = "undoing" if type == "undo" else "redoing"
        guard = survey.guard(restoring, before=f"{what} the restore of {short(operation.target or '')}")
        done, changed = carry_out(restoring, plan, survey, guard=guard, type=type, of=operation.id)
    return UndoReport(operation=done, guard=guard, outcomes=changed.outcomes, parts=(*changed.parts, *left))


def _towards(
    steps: tuple[Step, ...], survey: Survey, turn: _Turn
) -> tuple[tuple[Step, ...], tuple[Merged, ...]]:
    """Return the steps from what is there now, and what of them is merged."""
    if turn.way == "merge":
        from lastgood.actions.merging import taken_back

        return taken_back(survey, steps, source=turn.source)
    steps, kept = _without_others(unsettled(steps, survey.actual), survey, turn)
    if turn.way == "force":  # what somebody changed since is in the guard; every touched path goes back
        return _forced(steps, survey, source=turn.source) + kept, ()
    refuse_changed(steps, survey, hint=turn.hint)
    return steps + kept, ()


def _without_others(
    steps: tuple[Step, ...], survey: Survey, turn: _Turn
) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Take out the steps for what another session changed since, and say that it stays (rule T14)."""
    changed, full = conflicts(steps, survey.actual), occupied(steps, survey.scan)
    others = changed_by_others(survey.context, turn.operation, (*changed, *full.values()))
    others |= {path: others[inside] for path, inside in full.items() if inside in others}
    kept = tuple(
        Step(path=step.path, action="keep", reason=f"changed since by session {others[step.path]}")
        for step in steps
        if step.path in others
    )
    return tuple(step for step in steps if step.path not in others), kept


def _parts(
    context: Context, wanted: tuple[Part, ...], turn: _Turn
) -> tuple[tuple[Part, ...], tuple[PartOutcome, ...]]:
    if turn.way is not None:
        return parts.able(context, wanted, forced=turn.way == "force")
    try:
        parts.refuse(context, wanted)
    except Conflict as error:
        raise Conflict(error.message, hint=turn.hint, details=error.details) from error
    except (Damaged, NotFound, Unsafe, Unsupported) as error:
        raise type(error)(error.message, hint=turn.hint, details=error.details) from error
    return wanted, ()


def _in_the_way(context: Context, steps: tuple[Step, ...]) -> set[bytes]:
    """Return what is where a directory has to be, for the guard to hold."""
    with context.applier.looking() as present:
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
    wanted = {step.path: step.want.oid for step in steps if step.want and step.want.kind != DIRECTORY}
    missing = context.engine.missing(wanted.values())
    if source is None or not missing:
        return
    checkpoint = context.catalogue.get(source)
    if checkpoint is None:
        raise NotFound(
            f"what it would bring back was in {short(source)}, which was deleted and freed",
            hint=_LIST,
            details={"checkpoint": source},
        )
    files = Files(tree_of(checkpoint), context.engine)
    lost = [path for path, oid in wanted.items() if oid in missing]
    if all((entry := files.entry(path)) is None or entry.oid != wanted[path] for path in lost):
        raise NotFound(
            "what a merge had made was only in a guard, which was let go and freed",
            hint=f"merge again: lastgood restore {short(source)} --merge",
            details={"paths": [to_text(path) for path in lost]},
        )


def _held(step: Step) -> Step:
    """Have the guard hold a present file whatever the ignore rules say by now."""
    return step.replace(forced=step.have is not None and step.have.kind != DIRECTORY)


def _plan(
    context: Context,
    turn: _Turn,
    *,
    steps: tuple[Step, ...],
    parts: tuple[Part, ...],
    merged: tuple[Merged, ...],
) -> RestorePlan:
    target = turn.operation.guard or ""
    return RestorePlan(
        id=identify(
            steps,
            target=target,
            workspace_key=context.key,
            beside=tuple(dumps(part_record(part)) for part in parts),
        ),
        target=target,
        workspace_key=context.key,
        paths=(),
        steps=steps,
        parts=parts,
        merged=merged,
    )
