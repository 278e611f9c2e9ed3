"""A session that finished, and whether what it left is still there (rules T15, P7)."""

from __future__ import annotations

from lastgood.errors import Damaged
from lastgood.ports.catalogue import Query
from lastgood.rules.compare import compare
from lastgood.rules.evidence import alike
from lastgood.value import Value
from lastgood.view import Files, tree_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Operation
    from lastgood.model.plan import Step
    from lastgood.model.session import Session
    from lastgood.ports.context import Context


class TakenBack(Value):
    """Paths that a session changed, and that a restore took back to before its end; ``last`` holds them."""

    operation: Operation
    paths: tuple[bytes, ...]
    last: Checkpoint


def taken_back_since(context: Context, session: Session) -> TakenBack | None:
    """Return the newest restore that took back what a session left at its end; None if it is all there.

    A restore that was undone took nothing back, nor did one that a later restore made good.
    """
    later = [one for one in context.catalogue.operations(context.key) if _may_have(one)]
    own = _complete(context, session) if later else []
    if len(own) < 2:  # without its beginning and its end nobody can tell what it changed
        return None
    last = own[0]
    began, left = (Files(tree_of(one), context.engine) for one in (own[-1], last))
    try:
        changed = {one.path for one in compare(began, left)}
        seen: set[bytes] = set()
        for operation in later:
            if not _is_after(context, operation, session, last=last):
                continue
            fresh = [step for step in operation.steps if step.path not in seen]
            seen.update(step.path for step in fresh)
            lost = [one.path for one in fresh if one.path in changed and _is_other(one, left)]
            if lost and _leads_before(context, operation, last):
                return TakenBack(operation=operation, paths=tuple(lost), last=last)
    except Damaged:
        return None  # of what is lost nobody can tell what changed
    return None


def _may_have(operation: Operation) -> bool:
    return operation.type == "restore" and not operation.undone


def _complete(context: Context, session: Session) -> list[Checkpoint]:
    """Return the checkpoints of a session that show all of its files, newest first."""
    query = Query(workspace_key=context.key, session=session.id, complete=True)
    return [one for one in context.catalogue.find(query) if one.damaged is None]


def _is_after(context: Context, operation: Operation, session: Session, *, last: Checkpoint) -> bool:
    """Tell whether an operation came after the end of a session: by its guard, whatever the clocks said."""
    guard = None if operation.guard is None else context.catalogue.get(operation.guard)
    if guard is None:
        return operation.at > (session.ended_at or 0)
    return guard.sequence >= last.sequence


def _is_other(step: Step, left: Files) -> bool:
    return not alike(step.want, left.entry(step.path))


def _leads_before(context: Context, operation: Operation, last: Checkpoint) -> bool:
    """Tell whether a restore went to before a checkpoint, rather than to what came after it."""
    target = None if operation.target is None else context.catalogue.get(operation.target)
    return target is None or target.sequence < last.sequence
