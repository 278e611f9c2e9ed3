"""delete, pin, unpin, name, forget: changes to what exists, all but the pins undoable."""

from __future__ import annotations

from lastgood.actions.prune import needed
from lastgood.errors import Invalid, NotFound, Usage
from lastgood.ids import name_fault
from lastgood.model.report import DeleteReport
from lastgood.names import printable
from lastgood.ports.catalogue import Query
from lastgood.rules.retention import GRACE
from lastgood.transaction.saving import Saving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.ports.context import Context


def delete(context: Context, checkpoints: Sequence[Checkpoint]) -> DeleteReport:
    """Remove checkpoints; their bytes stay for the grace time, so that it can be undone."""
    ids = tuple(dict.fromkeys(one.id for one in checkpoints))
    if not ids:
        raise Usage("no checkpoint is named to be deleted", hint="see what there is: lastgood list")
    reasons = needed(context, context.key)
    with Saving(context) as saving:
        refuse_pinned([_again(context, one) for one in checkpoints])
        now = context.clock.now()
        operation = saving.record("delete", checkpoints=ids)
        context.catalogue.delete(ids, at=now)
    return DeleteReport(
        operation=operation,
        checkpoints=ids,
        free_after=now + GRACE,
        needed={one: reasons[one] for one in ids if one in reasons},
    )


def refuse_pinned(checkpoints: Sequence[Checkpoint]) -> None:
    """Refuse to delete what is pinned."""
    pinned = [one for one in checkpoints if one.pinned]
    if pinned:
        raise Invalid(
            f"{pinned[0].short_id} is pinned and is not deleted",
            hint=f"unpin it first: lastgood unpin {pinned[0].short_id}",
            details={"pinned": [one.id for one in pinned]},
        )


def pin(context: Context, checkpoint: Checkpoint, *, pinned: bool) -> Checkpoint:
    """Keep a checkpoint for ever, or no longer."""
    context.catalogue.set_pinned(checkpoint.id, pinned=pinned)
    return _again(context, checkpoint)


def rename(context: Context, checkpoint: Checkpoint, *, name: str) -> Checkpoint:
    """Name a checkpoint; of several that bear one name the newest counts."""
    fault = name_fault(name)
    if fault is not None:
        raise Invalid(f"'{printable(name)}' cannot be a name: {fault}", hint="choose another name")
    context.catalogue.set_name(checkpoint.id, name)
    return _again(context, checkpoint)


def of_workspace(context: Context, key: str) -> Sequence[Checkpoint]:
    """Return every checkpoint of a workspace: what `forget` would remove."""
    return context.catalogue.find(Query(workspace_key=key))


def forget(context: Context, key: str) -> DeleteReport:
    """Remove all checkpoints of a workspace, pinned ones too; undoable like any delete."""
    with Saving(context) as saving:
        now = context.clock.now()
        ids = tuple(one.id for one in of_workspace(context, key))
        operation = saving.record("delete", checkpoints=ids)
        context.catalogue.delete(ids, at=now)
    return DeleteReport(operation=operation, checkpoints=ids, free_after=now + GRACE)


def _again(context: Context, checkpoint: Checkpoint) -> Checkpoint:
    found = context.catalogue.get(checkpoint.id)
    if found is None:
        raise NotFound(f"{checkpoint.short_id} is gone", hint="see what there is: lastgood list")
    return found
