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
    from collections.abc import Callable

    from lastgood.ports.context import Context


def maintain(context: Context, *, interrupted: Callable[[], bool]) -> tuple[str, ...]:
    """Apply the limits, free bytes, consolidate, back up, tag; return what was done.

    Returns at once if another owner is at it. Safe to kill at any moment. Nothing is freed while a
    restore of any workspace waits to be finished (``interrupted``): it may need it (rule T15).
    """
    try:
        hold = context.locks.maintenance(wait=0)
        hold.__enter__()
    except Busy:
        return ()
    try:
        return tuple(_work(context, interrupted=interrupted))
    finally:
        hold.__exit__(None, None, None)


def _work(context: Context, *, interrupted: Callable[[], bool]) -> list[str]:
    done: list[str] = []
    _note(done, "checkpoints over the limit removed: {}", _limit(context))
    _note(done, "bytes freed: {}", _free(context, interrupted=interrupted))
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
    large = _lasting_bytes(context) > limits.max_store_size
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


def _lasting_bytes(context: Context) -> int:
    """Return the store's size without what is deleted already and freed after the grace time."""
    going = (one for one in context.catalogue.find(Query(deleted=True)) if one.deleted_at is not None)
    return context.engine.stored_bytes() - sum(one.manifest.metrics.stored_bytes for one in going)


def _free(context: Context, *, interrupted: Callable[[], bool]) -> int:
    """Free the bytes of checkpoints whose deletion can no longer be undone (rule K3)."""
    horizon = context.clock.now() - GRACE
    try:
        with Collecting(context, wait=0) as collecting:
            # Asked under the lock: a restore that runs now holds it too.
            if interrupted() or not context.catalogue.forget(deleted_before=horizon):
                return 0
            return collecting.sweep(context.catalogue.commits(deleted_after=horizon))
    except Busy:
        return 0  # somebody saves right now; the next maintenance frees


def _tags(context: Context) -> dict[str, bytes]:
    return {one.id: bytes.fromhex(one.commit) for one in context.catalogue.find(Query()) if not one.damaged}
