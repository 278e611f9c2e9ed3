"""undo, redo: operations taken back and brought again, in order (rule T8)."""

from __future__ import annotations

from contextlib import contextmanager
from os.path import commonpath

from lastgood.catalogue import Query
from lastgood.errors import Conflict, Damaged, NotFound, Unsafe, Unsupported, Usage
from lastgood.host import instant_of
from lastgood.ids import short
from lastgood.lease import named_session
from lastgood.model.operation import PartOutcome, RestorePlan, Step
from lastgood.model.report import UndoPlan, UndoReport, planned_outcomes
from lastgood.model.tree import DIRECTORY, is_content, same_content
from lastgood.paths import printable, to_text
from lastgood.restore import parts
from lastgood.restore.execution import PlanExecution
from lastgood.restore.plan import (
    Planner,
    conflicts,
    inverse,
    obstacles,
    occupied,
)
from lastgood.restore.restore import (
    evidence_of,
    part_details,
    refuse_changed,
    refuse_unheld,
    restored_words,
    with_id,
)
from lastgood.restore.steps import around, of_directories, retarget_steps, unsettled
from lastgood.retention.policy import refuse_pinned
from lastgood.snapshot import WorkspaceSnapshot
from lastgood.transaction import ReadTransaction, RestoreTransaction
from lastgood.trees import Files, tree_of
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Literal

    from lastgood.context import Context
    from lastgood.literals import Direction, OperationType
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Merged, Operation, Part

    # What becomes of changes since: by default they refuse it, forced they go, merged they stay.
    Way = Literal["force", "merge"]
    Find = Callable[[str], Operation | None]


# --- The way back from a restore, or forth again: what changed since refuses it, goes, or stays (rule T8)
# ---

_FORCE = (
    "to {type} all the same (the present state is saved first): lastgood {type} --force"
    "\nor keep what changed: lastgood {type} --merge"
)
_FORCE_PROGRESS = (
    "to {type} the files alone, and keep the progress as it is: lastgood {type} --merge"
    "\nor both, the progress too (the present state is saved first): lastgood {type} --force"
)
_LEAVE = "to {type} all the rest, and leave that as it is: lastgood {type} --merge"
_SHOWN = 3
_LIST = "see what was done: lastgood undo --list"
_NO_RESTORE = (
    "undo takes back a restore, a delete or a prune; what became of the files since: lastgood diff"
    "\nto bring them back as they were at the last checkpoint: lastgood restore @"
)


class _UndoRequest(Value):
    """One way back or forth, to what the steps and parts of an operation want.

    ``source`` is the checkpoint that holds what comes back.
    """

    operation: Operation
    type: OperationType
    way: Way | None
    steps: tuple[Step, ...]
    parts: tuple[Part, ...]
    source: str | None


def _revert(restoring: RestoreTransaction, request: _UndoRequest, *, planned: str | None) -> UndoReport:
    """Plan what is wanted from what is there now, and apply that like any other plan."""
    with _planned(restoring, request) as (plan, left, snapshot):
        _refuse_other_plan(plan, planned, type=request.type)
        result = PlanExecution(
            restoring=restoring,
            plan=plan,
            snapshot=snapshot,
            before=_before(restoring.context, request),
            type=request.type,
            of=request.operation,
        ).carry_out()
    assert result.operation is not None
    return UndoReport(
        operation=result.operation,
        guard=result.guard.id,
        outcomes=result.outcomes,
        parts=(*result.parts, *left),
    )


@contextmanager
def _planned(
    transaction: ReadTransaction, request: _UndoRequest
) -> Iterator[tuple[RestorePlan, tuple[PartOutcome, ...], WorkspaceSnapshot]]:
    """Plan what is wanted from what is there now, and say what is to be told of parts that stay."""
    request, purged = _without_purged(transaction.context, request)
    _refuse_freed(transaction.context, request)
    with WorkspaceSnapshot(transaction, forced=_touched(transaction.context, request)) as snapshot:
        plan, left = _plan(snapshot, request, purged=purged)
        yield plan, left, snapshot


def _before(context: Context, request: _UndoRequest) -> str:
    """Return in words what the guard is made before."""
    source = request.operation.target
    target = None if source is None else context.catalogue.get(source)
    what = short(source or "") if target is None else restored_words(target, ())
    return f"{request.type}ing the restore of {what}"


def _plan(
    snapshot: WorkspaceSnapshot, request: _UndoRequest, *, purged: tuple[Step, ...]
) -> tuple[RestorePlan, tuple[PartOutcome, ...]]:
    """Return the plan from what is there now, and what is to be told of parts that stay."""
    with snapshot.looking():
        steps, merged = _towards(snapshot, request)
    able, left = _parts(snapshot.context, request)
    refuse_unheld(tuple(_held(step) for step in steps), snapshot)
    plan = RestorePlan(
        id="",
        target=request.source or "",
        workspace_key=snapshot.context.key,
        paths=(),
        steps=steps + purged,
        parts=able,
        merged=merged,
    )
    return with_id(plan), left


def _towards(
    snapshot: WorkspaceSnapshot, request: _UndoRequest
) -> tuple[tuple[Step, ...], tuple[Merged, ...]]:
    """Return the steps from what is there now, and what of them is merged."""
    if request.way == "merge":
        from lastgood.restore.merge import Reverted, taken_back

        reverted = tuple(Reverted(step=one) for one in request.steps)
        return taken_back(snapshot, reverted, source=request.source)
    steps, kept = _without_others(snapshot, request)
    if request.way == "force":  # what somebody changed since is in the guard; every touched path goes back
        return _forced(steps, snapshot, source=request.source) + kept, ()
    about = f"{request.type} is about the {_dated(request.operation)}\n"
    refuse_changed(steps, snapshot, hint=about + _FORCE.format(type=request.type))
    return steps + kept, ()


def _without_others(
    snapshot: WorkspaceSnapshot, request: _UndoRequest
) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Take out the steps for what another session changed since, and say that it stays (rule T14)."""
    steps = unsettled(request.steps, snapshot.actual)
    changed, full = conflicts(steps, snapshot.actual), occupied(steps, snapshot.scan)
    others = _changed_by_others(snapshot.context, request.operation, (*changed, *full.values()))
    others |= {path: others[inside] for path, inside in full.items() if inside in others}
    kept = tuple(
        Step(path=step.path, action="keep", reason=f"changed since by session {others[step.path]}")
        for step in steps
        if step.path in others
    )
    return tuple(step for step in steps if step.path not in others), kept


def _parts(context: Context, request: _UndoRequest) -> tuple[tuple[Part, ...], tuple[PartOutcome, ...]]:
    if request.way is not None:
        return parts.parts_possible(context, request.parts, forced=request.way == "force")
    for part in request.parts:
        try:
            parts.refuse(context, (part,))
        except (Conflict, Damaged, NotFound, Unsafe, Unsupported) as error:
            went_on = part.scope == "progress" and isinstance(error, Conflict)
            hint = (_FORCE_PROGRESS if went_on else _LEAVE).format(type=request.type)
            message = f"{error.message}, so nothing was {request.type}ne"
            raise type(error)(message, hint=hint, details=error.details) from error
    return request.parts, ()


def _touched(context: Context, request: _UndoRequest) -> tuple[bytes, ...]:
    """Return what the guard has to hold, whatever the ignore rules say by now."""
    touched = {step.path for step in request.steps if not of_directories(step)}
    if request.way == "force":  # what is where a directory has to be goes too
        with context.applier.looking() as present:
            found = obstacles((step.path for step in request.steps if step.want is not None), present)
            touched |= {path for path in found if present(path) is not None}
    return tuple(sorted(touched))


def _forced(steps: tuple[Step, ...], snapshot: WorkspaceSnapshot, *, source: str | None) -> tuple[Step, ...]:
    """Return the steps from what is there now, whatever that is, to what an undo or redo wants."""
    rebased = retarget_steps(steps, snapshot.actual)
    checkpoint = None if source is None else snapshot.context.catalogue.get(source)
    if checkpoint is None:
        return rebased
    files = Files(tree_of(checkpoint), snapshot.context.engine)
    planner = Planner(files, snapshot.scan, evidence=evidence_of(checkpoint, files, snapshot))
    return around(rebased, snapshot.actual, planner=planner)


def _without_purged(context: Context, request: _UndoRequest) -> tuple[_UndoRequest, tuple[Step, ...]]:
    """Take out the steps for what was purged since, and tell of them; without force or merge `NotFound`."""
    checkpoint = None if request.source is None else context.catalogue.get(request.source)
    gone = {gap.path for gap in (checkpoint.gaps if checkpoint else ()) if gap.reason == "purged"}
    wanted = {one.path: one.want.oid for one in request.steps if one.want and one.path in gone}
    missing = context.engine.missing(wanted.values()) if wanted else frozenset()
    lost = [path for path, oid in wanted.items() if oid in missing]
    if not lost:
        return request, ()
    if request.way is None:
        shown = ", ".join(printable(to_text(path)) for path in lost[:_SHOWN])
        more = f" and {len(lost) - _SHOWN:,} more" if len(lost) > _SHOWN else ""
        raise NotFound(
            f"what it would bring back was purged, and is nowhere any more: {shown}{more}",
            hint=f"to {request.type} all the rest (with a guard): lastgood {request.type} --force",
            details={"paths": [to_text(path) for path in lost]},
        )
    steps = tuple(one for one in request.steps if one.path not in lost)
    reason = "purged: no checkpoint holds it any more"
    kept = tuple(Step(path=path, action="keep", reason=reason) for path in lost)
    return request.replace(steps=steps), kept


def _refuse_freed(context: Context, request: _UndoRequest) -> None:
    """Say so if what would be brought back went with its checkpoint (rule K3): that is no damage."""
    source = request.source
    wanted = {step.path: step.want.oid for step in request.steps if step.want and step.want.kind != DIRECTORY}
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
    return step.replace(forced=is_content(step.have))


def _changed_by_others(context: Context, operation: Operation, paths: Iterable[bytes]) -> dict[bytes, str]:
    """Return which of some paths another session changed since an operation, and that session's id.

    Told by the checkpoints made in it, and by its own operations. An operation made outside any session
    has no others: whatever changed since is for a person to look at.
    """
    guard = None if operation.guard is None else context.catalogue.get(operation.guard)
    left = set(paths)
    if operation.session is None or guard is None or not left:
        return {}
    by: dict[bytes, str] = {}
    for session, touched in _operations_since(context, operation):
        by.update(dict.fromkeys(left & touched, session))
    known = {step.path: step.want for step in operation.steps}
    for checkpoint in _since(context, guard):
        files = Files(tree_of(checkpoint), context.engine)
        other = checkpoint.session
        for path in left:
            entry = files.entry(path)
            if same_content(entry, known.get(path)):
                continue
            known[path] = entry
            if other not in {None, operation.session}:
                by[path] = str(other)
    return by


def _operations_since(context: Context, operation: Operation) -> Iterable[tuple[str, set[bytes]]]:
    for one in context.catalogue.operations(context.key):
        if one.id == operation.id:
            return
        if one.session not in {None, operation.session}:
            yield str(one.session), {step.path for step in one.steps}


def _since(context: Context, guard: Checkpoint) -> list[Checkpoint]:
    """Return the checkpoints after an operation's guard, oldest first."""
    every = context.catalogue.find(Query(workspace_key=context.key))
    return [one for one in reversed(every) if one.sequence > guard.sequence and one.damaged is None]


# --- The order of undo and redo, decided from the operations alone (rule T8) ---

_ASKED_FOR = ("restore", "delete", "prune")


def to_undo(operations: Iterable[Operation], *, session: str | None = None) -> Operation | None:
    """Return the operation that `undo` takes back: the newest that still stands.

    ``operations`` are newest first. Within a session its own count alone (rule T14).
    """
    return next(
        (
            one
            for one in operations
            if one.type in _ASKED_FOR and not one.undone and session in {None, one.session}
        ),
        None,
    )


def to_redo(operations: Iterable[Operation], *, find: Find, session: str | None = None) -> Operation | None:
    """Return the operation that `redo` brings again: the last one undone."""
    return next(iter(redo_line(operations, find=find, session=session)), None)


def redo_line(operations: Iterable[Operation], *, find: Find, session: str | None = None) -> list[Operation]:
    """Return the operations that `redo` brings again, in its order: the last one undone first.

    ``operations`` are newest first, as far as they are asked for; ``find`` looks one up. A new operation ends
    the line of those undone before it; within a session its own count alone. An undo or redo of which nothing
    succeeded is among them, and its operation as it was before.
    """
    line: dict[str, Operation | None] = {}
    for one in operations:
        if one.type in _ASKED_FOR and session in {None, one.session}:
            break
        if one.type == "undo" and one.of is not None and one.of not in line:
            line[one.of] = find(one.of)
    return [one for one in line.values() if one and one.undone and session in {None, one.session}]


# --- undo, redo: operations taken back and brought again, in order (rule T8) ---

_PAGE = 16
_DELETIONS = frozenset({"delete", "prune"})


def undo(
    context: Context, *, way: Way | None = None, of: str | None = None, planned: str | None = None
) -> UndoReport:
    """Take back the last restore or delete that was asked for; within a session, that session's last.

    A delete whose checkpoints were freed after the grace time is passed over. Raises `Conflict` if
    a path or a part has changed since, unless forced (a guard is taken all the same) or merged; and if
    the last operation is not the one that is meant, ``of``, or the plan not the one that was looked at.
    """
    with RestoreTransaction(context) as restoring:
        found = _found(context, "undo", of=of)
        return _undo_or_redo(restoring, found, type="undo", way=way, planned=planned)


def redo(
    context: Context, *, way: Way | None = None, of: str | None = None, planned: str | None = None
) -> UndoReport:
    """Bring again what the last undo took back; `Conflict` as for that."""
    with RestoreTransaction(context) as restoring:
        found = _found(context, "redo", of=of)
        return _undo_or_redo(restoring, found, type="redo", way=way, planned=planned)


def plan(context: Context, type: Direction, *, way: Way | None = None, of: str | None = None) -> UndoPlan:
    """Return what `undo` or `redo` would do, and refuse what they would; nothing is touched."""
    with ReadTransaction(context) as reading:
        found = _found(context, type, of=of)
        if found.type in _DELETIONS:
            known = _known(context, found, undone=type == "undo")
            return UndoPlan(
                direction=type,
                operation=found,
                planned=_plan_of_checkpoints(context, found),
                checkpoints=tuple(one.id for one in known),
            )
        with _planned(reading, _request(found, type=type, way=way)) as (made, left, _snapshot):
            awaited = tuple(
                PartOutcome(scope=part.scope, result="planned", details=part_details(part.after))
                for part in made.parts
            )
            return UndoPlan(
                direction=type,
                operation=found,
                planned=made,
                outcomes=planned_outcomes(made),
                parts=(*awaited, *left),
            )


def _found(context: Context, type: Direction, *, of: str | None) -> Operation:
    """Return what an undo or redo takes; `NotFound` if nothing, `Conflict` if another than is meant."""
    found = context.catalogue.moment(lambda: _next(context, type))
    _refuse_other(found, of, type=type)
    if found is None:
        raise _nothing(context, type)
    return found


def _next(context: Context, type: Direction) -> Operation | None:
    session = _inside(context)
    if type == "undo":
        operations = (one for one in _newest_first(context) if not _is_freed(context, one))
        return to_undo(operations, session=session)
    return to_redo(_newest_first(context), find=context.catalogue.operation, session=session)


def _plan_of_checkpoints(context: Context, operation: Operation) -> RestorePlan:
    """Return the plan of a delete or prune that is taken back, by an id of its own: no file changes."""
    empty = RestorePlan(id="", target=operation.id, workspace_key=context.key, paths=(), steps=())
    return with_id(empty).replace(target="")


def _refuse_other_plan(found: RestorePlan, planned: str | None, *, type: OperationType) -> None:
    """Refuse a plan that is not the one that was looked at (rule T1)."""
    if planned is not None and planned != found.id:
        raise Conflict(
            f"the plan is now {found.id}, not {printable(planned)}: something has changed since",
            hint=f"look again: lastgood {type} --dry-run",
            details={"planned": planned, "plan": found.id},
        )


def _refuse_other(found: Operation | None, of: str | None, *, type: Direction) -> None:
    if of is None or (found is not None and found.id == of):
        return
    now = "nothing" if found is None else found.id
    raise Conflict(
        f"{type} would now take {now}, not {printable(of)}: something was done since",
        hint="look again at what was done: lastgood undo --list",
        details={"of": of, "now": None if found is None else found.id},
    )


def within_reach(context: Context, type: Direction) -> tuple[Operation, ...]:
    """Return what `undo` or `redo` would take one after the other, as far as what they need is kept.

    A delete whose checkpoints were freed is passed over; what a restore would need and is gone ends it.
    """
    session = _inside(context)
    if type not in {"undo", "redo"}:
        raise Usage(f"nothing can be {printable(str(type))}", hint="say `undo` or `redo`")
    if type == "undo":
        found = (one for one in _newest_first(context) if not _is_freed(context, one))
        line = [one for one in found if to_undo((one,), session=session)]
    else:
        line = redo_line(_newest_first(context), find=context.catalogue.operation, session=session)
    end = next((place for place, one in enumerate(line) if _is_lost(context, one, type=type)), len(line))
    return tuple(line[:end])


def _is_lost(context: Context, operation: Operation, *, type: Direction) -> bool:
    """Tell whether what a restore's way back, or forth again, needs went with its checkpoint."""
    source = operation.guard if type == "undo" else operation.target
    if operation.type in _DELETIONS or source is None or context.catalogue.get(source) is not None:
        return False
    wanted_parts = parts.reversed_parts(operation.parts) if type == "undo" else operation.parts
    if parts.are_lost(context, wanted_parts):
        return True
    steps = inverse(operation.steps) if type == "undo" else operation.steps
    wanted = [step.want.oid for step in steps if step.want and step.want.kind != DIRECTORY]
    return bool(context.engine.missing(wanted))


def _undo_or_redo(
    restoring: RestoreTransaction,
    found: Operation,
    *,
    type: Direction,
    way: Way | None,
    planned: str | None,
) -> UndoReport:
    if found.type in _DELETIONS:
        _refuse_other_plan(_plan_of_checkpoints(restoring.context, found), planned, type=type)
        return _deletion(restoring, found, undone=type == "undo")
    return _revert(restoring, _request(found, type=type, way=way), planned=planned)


def _request(found: Operation, *, type: Direction, way: Way | None) -> _UndoRequest:
    back = type == "undo"
    return _UndoRequest(
        operation=found,
        type=type,
        way=way,
        steps=inverse(found.steps) if back else found.steps,
        parts=parts.reversed_parts(found.parts) if back else found.parts,
        source=found.guard if back else found.target,
    )


def restore_words(operation: Operation, *, source: str) -> str:
    """Return in words which restore an operation was: of what, where it was of some paths only."""
    touched = [one.path for one in operation.steps if one.action not in {"keep", "skip"}]
    if operation.type != "restore" or operation.stands is not None or not touched:
        return f"{operation.type} of {source}"
    common = commonpath(touched)
    what = printable(to_text(common)) if common else f"{len(touched):,} paths"
    return f"restore of {what} from {source}"


def _dated(operation: Operation) -> str:
    from time import localtime, strftime

    at = strftime("%Y-%m-%d %H:%M:%S", localtime(operation.at // 1_000_000_000))
    return f"{restore_words(operation, source=short(operation.target or ''))} of {at}"


def _nothing(context: Context, type: Direction) -> NotFound:
    """Return what is said where there is nothing to undo or redo; outside a session there may be."""
    session = _inside(context)
    if session is None:
        return NotFound(f"there is nothing to {type}", hint=_NO_RESTORE if type == "undo" else _LIST)
    beyond = within_reach(context.replace(session=None), type)
    hint = f"what was done outside it: env -u LASTGOOD_SESSION lastgood {type}\n" if beyond else ""
    return NotFound(f"there is nothing to {type} in session {session}", hint=hint + _LIST)


def _inside(context: Context) -> str | None:
    """Return the id of the session that the caller says it is in, which no process is looked at for.

    None outside any that counts.
    """
    named = named_session(context)
    return named.id if named is not None and named.state == "active" else None


def _newest_first(context: Context) -> Iterator[Operation]:
    """Yield the workspace's operations; of those before the one that is looked for hardly any are read.

    Most often that is the newest.
    """
    offset, page = 0, 1
    while found := context.catalogue.operations(context.key, limit=page, offset=offset):
        yield from found
        offset += len(found)
        page = min(2 * page, _PAGE)


def _is_freed(context: Context, operation: Operation) -> bool:
    """Tell whether nothing is left of what an operation deleted."""
    return operation.type in _DELETIONS and all(
        context.catalogue.get(one) is None for one in operation.checkpoints
    )


def _known(context: Context, operation: Operation, *, undone: bool) -> list[Checkpoint]:
    """Return the checkpoints of a delete or prune that come back, or go again, which pins refuse."""
    get = context.catalogue.get
    known = [one for id in operation.checkpoints if (one := get(id)) is not None]
    if operation.type == "prune" and not undone:  # retention spares what was named since (rule K1)
        known = [one for one in known if one.name is None and not one.pinned]
    if not undone:
        refuse_pinned(known)
    return known


def _deletion(restoring: RestoreTransaction, operation: Operation, *, undone: bool) -> UndoReport:
    catalogue = restoring.catalogue
    ids = tuple(one.id for one in _known(restoring.context, operation, undone=undone))
    if undone:
        catalogue.undelete(ids)
    else:
        catalogue.delete(ids, at=instant_of(restoring.context.clock))
    record = restoring.record("undo" if undone else "redo", checkpoints=ids, of=operation.id)
    catalogue.set_undone(operation.id, undone=undone)
    return UndoReport(operation=record)
