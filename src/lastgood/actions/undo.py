"""undo, redo: operations taken back and brought again, in order (rule T8)."""

from __future__ import annotations

from lastgood.actions.delete import refuse_pinned
from lastgood.actions.parts import turned
from lastgood.actions.reverting import revert
from lastgood.actions.rivals import inside
from lastgood.errors import NotFound
from lastgood.model.report import UndoReport
from lastgood.rules.history import to_redo, to_undo
from lastgood.rules.restore import inverse
from lastgood.transaction.restoring import Restoring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.actions.reverting import Way
    from lastgood.model.operation import Operation
    from lastgood.ports.context import Context

_LIST = "see what was done: lastgood undo --list"
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
        steps, parts = inverse(found.steps), turned(found.parts)
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
    catalogue = restoring.context.catalogue
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
