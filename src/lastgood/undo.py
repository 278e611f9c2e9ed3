"""undo, redo: operations taken back and brought again, in order (rule T8)."""

from __future__ import annotations

from lastgood.errors import Conflict, Damaged, NotFound, Unsafe, Unsupported
from lastgood.ids import short
from lastgood.model.canonical import dumps
from lastgood.model.operation import RestorePlan, Step
from lastgood.model.records import part_record
from lastgood.model.report import UndoReport
from lastgood.model.tree import DIRECTORY
from lastgood.paths import to_text
from lastgood.restore import parts
from lastgood.restore.parts import reversed_parts
from lastgood.restore.plan import (
    Planner,
    around,
    conflicts,
    identify,
    inverse,
    obstacles,
    occupied,
    of_directories,
    retarget_steps,
    unsettled,
)
from lastgood.restore.restore import (
    carry_out,
    changed_by_others,
    evidence_of,
    inside,
    refuse_changed,
    refuse_unheld,
)
from lastgood.restore.transaction import Restoring
from lastgood.retention.prune import refuse_pinned
from lastgood.snapshot import WorkspaceSnapshot
from lastgood.value import Value
from lastgood.view import Files, tree_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Literal

    from lastgood.context import Context
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Merged, Operation, OperationType, Part, PartOutcome

    # What becomes of changes since: by default they refuse it, forced they go, merged they stay.
    Way = Literal["force", "merge"]
    Goal = tuple[tuple[Step, ...], tuple[Part, ...]]


# --- The way back from a restore, or forth again: what changed since refuses it, goes, or stays (rule T8)
# ---

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
    with WorkspaceSnapshot(restoring, forced=tuple(sorted(touched))) as snapshot:
        with snapshot.looking():
            steps, merged = _towards(steps, snapshot, turn)
        able, left = _parts(context, wanted, turn)
        refuse_unheld(tuple(_held(step) for step in steps), snapshot)
        plan = _plan(context, turn, steps=steps, parts=able, merged=merged)
        if merged:
            from lastgood.restore.merge import hold_merged

            hold_merged(snapshot, plan)
        what = "undoing" if type == "undo" else "redoing"
        guard = snapshot.guard(restoring, before=f"{what} the restore of {short(operation.target or '')}")
        done, changed = carry_out(restoring, plan, snapshot, guard=guard, type=type, of=operation.id)
    return UndoReport(operation=done, guard=guard, outcomes=changed.outcomes, parts=(*changed.parts, *left))


def _towards(
    steps: tuple[Step, ...], snapshot: WorkspaceSnapshot, turn: _Turn
) -> tuple[tuple[Step, ...], tuple[Merged, ...]]:
    """Return the steps from what is there now, and what of them is merged."""
    if turn.way == "merge":
        from lastgood.restore.merge import taken_back

        return taken_back(snapshot, steps, source=turn.source)
    steps, kept = _without_others(unsettled(steps, snapshot.actual), snapshot, turn)
    if turn.way == "force":  # what somebody changed since is in the guard; every touched path goes back
        return _forced(steps, snapshot, source=turn.source) + kept, ()
    refuse_changed(steps, snapshot, hint=turn.hint)
    return steps + kept, ()


def _without_others(
    steps: tuple[Step, ...], snapshot: WorkspaceSnapshot, turn: _Turn
) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Take out the steps for what another session changed since, and say that it stays (rule T14)."""
    changed, full = conflicts(steps, snapshot.actual), occupied(steps, snapshot.scan)
    others = changed_by_others(snapshot.context, turn.operation, (*changed, *full.values()))
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
        return parts.parts_possible(context, wanted, forced=turn.way == "force")
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


def _forced(steps: tuple[Step, ...], snapshot: WorkspaceSnapshot, *, source: str | None) -> tuple[Step, ...]:
    """Return the steps from what is there now, whatever that is, to what an undo or redo wants."""
    rebased = retarget_steps(steps, snapshot.actual)
    checkpoint = None if source is None else snapshot.context.catalogue.get(source)
    if checkpoint is None:
        return rebased
    files = Files(tree_of(checkpoint), snapshot.context.engine)
    planner = Planner(files, snapshot.scan, evidence=evidence_of(checkpoint, files, snapshot))
    return around(rebased, snapshot.actual, planner=planner)


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


def to_redo(operations: Sequence[Operation], *, session: str | None = None) -> Operation | None:
    """Return the operation that `redo` brings again: the last one undone.

    A new operation ends the line of those undone before it. Within a session its own count alone.
    """
    line: list[str] = []
    own = {one.id for one in operations if session in {None, one.session}}
    for one in reversed(operations):
        if (one.of or one.id) not in own:
            continue
        if one.type in _ASKED_FOR:
            line.clear()
        elif one.type == "undo" and one.of is not None:
            line.append(one.of)
        elif one.of in line:
            line.remove(one.of)
    undone = {one.id: one for one in operations if one.undone}
    return next((undone[id] for id in reversed(line) if id in undone), None)


def before_turn(checkpoints: Sequence[Checkpoint], *, turns: int) -> Checkpoint | None:
    """Return the state before the Nth last turn; without turns, N checkpoints back.

    ``checkpoints`` are a workspace's complete ones without guards, newest first. A turn's checkpoint
    holds the state after the turn unless its moment, or a note ``moment``, says before (rule S20);
    where there are any of before, they are the ones that count.
    """
    befores = [one for one in checkpoints if one.kind == "turn" and _moment(one) == "before"]
    if befores:
        return befores[turns - 1] if turns <= len(befores) else None
    ends = [index for index, one in enumerate(checkpoints) if one.kind == "turn"]
    if not ends:
        return checkpoints[turns] if turns < len(checkpoints) else None
    if turns > len(ends):
        return None
    before = ends[turns - 1] + 1
    return checkpoints[before] if before < len(checkpoints) else None


def _moment(checkpoint: Checkpoint) -> str | None:
    return checkpoint.moment or checkpoint.manifest.metadata.get("moment")


# --- undo, redo: operations taken back and brought again, in order (rule T8) ---

_PAGE = 16
_DELETIONS = frozenset({"delete", "prune"})


def undo(context: Context, *, way: Way | None = None) -> UndoReport:
    """Take back the last restore or delete that was asked for; within a session, that session's last.

    A delete whose checkpoints were freed after the grace time is passed over. Raises `Conflict` if
    a path or a part has changed since, unless forced (a guard is taken all the same) or merged.
    """
    with Restoring(context) as restoring:
        session, operations = inside(context), _newest_first(context)
        found = to_undo((one for one in operations if not _is_freed(context, one)), session=session)
        if found is None:
            raise _nothing("undo", session)
        if found.type in _DELETIONS:
            return _deletion(restoring, found, undone=True)
        steps, parts = inverse(found.steps), reversed_parts(found.parts)
        return revert(restoring, found, (steps, parts), type="undo", way=way)


def redo(context: Context, *, way: Way | None = None) -> UndoReport:
    """Bring again what the last undo took back."""
    with Restoring(context) as restoring:
        session = inside(context)
        found = to_redo(context.catalogue.operations(context.key), session=session)
        if found is None:
            raise _nothing("redo", session)
        if found.type in _DELETIONS:
            return _deletion(restoring, found, undone=False)
        return revert(restoring, found, (found.steps, found.parts), type="redo", way=way)


def _nothing(verb: str, session: str | None) -> NotFound:
    where = "" if session is None else f" in session {session}"
    return NotFound(f"there is nothing to {verb}{where}", hint=_LIST)


def _newest_first(context: Context) -> Iterator[Operation]:
    """Yield the workspace's operations; those before the one that is looked for are not even read."""
    offset = 0
    while found := context.catalogue.operations(context.key, limit=_PAGE, offset=offset):
        yield from found
        offset += len(found)


def _is_freed(context: Context, operation: Operation) -> bool:
    """Tell whether nothing is left of what an operation deleted."""
    return operation.type in _DELETIONS and all(
        context.catalogue.get(one) is None for one in operation.checkpoints
    )


def _deletion(restoring: Restoring, operation: Operation, *, undone: bool) -> UndoReport:
    catalogue = restoring.catalogue
    known = [one for id in operation.checkpoints if (one := catalogue.get(id)) is not None]
    if operation.type == "prune" and not undone:  # retention spares what was named since (rule K1)
        known = [one for one in known if one.name is None and not one.pinned]
    ids = tuple(one.id for one in known)
    if undone:
        catalogue.undelete(ids)
    else:
        refuse_pinned(known)
        catalogue.delete(ids, at=restoring.context.clock.now())
    record = restoring.record("undo" if undone else "redo", checkpoints=ids, of=operation.id)
    catalogue.set_undone(operation.id, undone=undone)
    return UndoReport(operation=record)
