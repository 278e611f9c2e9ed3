"""maintain: everything that no save waits for, done by one owner at a time."""

from __future__ import annotations

from lastgood.actions.delete import GRACE
from lastgood.errors import Busy
from lastgood.model.settings import PACKS_DUE
from lastgood.ports.catalogue import Query
from lastgood.rules.limits import over_count, over_size
from lastgood.transaction.collecting import Collecting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.ports.context import Context


def maintain(context: Context) -> tuple[str, ...]:
    """Apply the limits, free bytes, consolidate, back up, tag; return what was done.

    Returns at once if another owner is at it. Safe to kill at any moment.
    """
    try:
        hold = context.locks.maintenance(wait=0)
        hold.__enter__()
    except Busy:
        return ()
    try:
        return tuple(_work(context))
    finally:
        hold.__exit__(None, None, None)


def _work(context: Context) -> list[str]:
    done: list[str] = []
    _note(done, "checkpoints over the limit removed: {}", _limit(context))
    _note(done, "bytes freed: {}", _free(context))
    _note(done, "bytes of left-over files collected: {}", context.engine.collect_leftovers())
    if context.engine.packs() >= PACKS_DUE and context.engine.consolidate():
        done.append("packs consolidated")
    if context.catalogue.back_up():
        done.append("catalogue backed up")
    context.engine.write_tags(_tags(context))
    return done


def _note(done: list[str], text: str, amount: int) -> None:
    if amount:
        done.append(text.format(amount))


def _limit(context: Context) -> int:
    limits = context.settings.limits
    large = context.engine.stored_bytes() > limits.max_store_size
    removed = 0
    for workspace in context.catalogue.workspaces():
        checkpoints = context.catalogue.find(Query(workspace_key=workspace.key))
        ids = over_count(checkpoints, limit=limits.max_checkpoints)
        if large:
            ids = tuple(dict.fromkeys(ids + over_size(checkpoints)))
        if ids:
            context.catalogue.delete(ids, at=context.clock.now())
            removed += len(ids)
    return removed


def _free(context: Context) -> int:
    """Free the bytes of checkpoints whose deletion can no longer be undone (rule K3)."""
    horizon = context.clock.now() - GRACE
    try:
        with Collecting(context, wait=0) as collecting:
            if not context.catalogue.forget(deleted_before=horizon):
                return 0
            return collecting.sweep(context.catalogue.commits(deleted_after=horizon))
    except Busy:
        return 0  # somebody saves right now; the next maintenance frees


def _tags(context: Context) -> dict[str, bytes]:
    return {one.id: bytes.fromhex(one.commit) for one in context.catalogue.find(Query()) if not one.damaged}
