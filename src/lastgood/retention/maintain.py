"""maintain: everything that no save waits for, done by one owner at a time."""

from __future__ import annotations

from contextlib import contextmanager

from lastgood.catalogue import Query
from lastgood.elapsed import is_news, look
from lastgood.errors import Busy, Damaged, NoRoom
from lastgood.host import instant_of
from lastgood.retention.prune import prune_quietly
from lastgood.retention.sweep import SweepTransaction, past_grace, real_time, roots
from lastgood.settings import PACKS_DUE, PACKS_WHEN_IDLE
from lastgood.transaction import MaintenanceTransaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from lastgood.context import Context
    from lastgood.errors import LastgoodError
    from lastgood.literals import Consolidation

# Operations stay for ninety days (in nanoseconds), and always the newest of each workspace.
OPERATION_LIFE = 90 * 24 * 3600 * 1_000_000_000
OPERATIONS_KEPT = 1000
# How long (in nanoseconds) it is believed that nothing is left to be freed: to look means to read every tree.
SWEPT_LIFE = 24 * 3600 * 1_000_000_000


def maintain(
    context: Context, *, interrupted: Callable[[], Collection[str]], extent: Consolidation = "due"
) -> tuple[str, ...]:
    """Apply retention, free bytes, consolidate to an extent, back up, tag; return what was done.

    Returns at once if another owner is at it. Safe to kill at any moment. Nothing is freed while a
    restore of any workspace waits to be finished (``interrupted`` gives their keys): it may need it
    (rule T15).
    """
    upkeep = MaintenanceTransaction(context, wait=0)
    try:
        upkeep.__enter__()
    except Busy:
        return ()
    try:
        given = context.reserve.make_room()
        try:
            return tuple(_work(upkeep, interrupted=interrupted, extent=extent))
        finally:
            context.reserve.lay_in(again=given)
    finally:
        upkeep.__exit__(None, None, None)


def _work(
    upkeep: MaintenanceTransaction, *, interrupted: Callable[[], Collection[str]], extent: Consolidation
) -> list[str]:
    context, catalogue, engine = upkeep.context, upkeep.catalogue, upkeep.engine
    done: list[str] = []
    with _telling(done):
        _look_at_the_time(upkeep)
    with _telling(done):
        _note(done, "checkpoints pruned: {}", prune_quietly(upkeep, busy=interrupted()))
    with _telling(done, Damaged):
        _note(done, "bytes freed: {}", _free(upkeep, interrupted=interrupted))
    with _telling(done):
        _note(done, "old operations forgotten: {}", _forget_operations(upkeep))
    with _telling(done):
        _note(done, "bytes of left-over files collected: {}", engine.collect_leftovers())
    _note(
        done,
        "packs that are not what they were, and are left as they are: {} (lastgood verify --repair)",
        engine.doubted(),
    )
    with _telling(done, Damaged):
        enough = PACKS_WHEN_IDLE if extent == "idle" else PACKS_DUE
        if engine.packs() >= enough and engine.consolidate(extent):
            done.append("packs consolidated")
    with _telling(done, Busy):
        _note(done, "bytes of the catalogue given back: {}", catalogue.shrink())
        catalogue.empty_log()
    with _telling(done, Busy):
        if catalogue.back_up():
            done.append("catalogue backed up")
    with _telling(done, Busy, Damaged):  # its owner is told when it is read, or verified
        if upkeep.ledgers.back_up():
            done.append("ledger backed up")
    with _telling(done):
        engine.write_tags(_tags(context))
        catalogue.empty_log()
    return done


@contextmanager
def _telling(done: list[str], *others: type[LastgoodError]) -> Iterator[None]:
    """Tell what a full disk, or some other errors, put off: what else there is to do helps all the same."""
    kinds: tuple[type[LastgoodError], ...] = (NoRoom, *others)
    try:
        yield
    except kinds as error:
        if error.message not in done:
            done.append(error.message)


def _note(done: list[str], text: str, amount: int) -> None:
    if amount:
        done.append(text.format(amount))


def _look_at_the_time(upkeep: MaintenanceTransaction) -> None:
    """Remember what the clock says: only what two looks agree upon makes old what is of another boot."""
    seen = upkeep.catalogue.time_seen()
    found = look(seen, instant_of(upkeep.context.clock))
    if found is not None and is_news(seen, found):
        upkeep.catalogue.set_time_seen(found)


def _free(upkeep: MaintenanceTransaction, *, interrupted: Callable[[], Collection[str]]) -> int:
    """Free the bytes of checkpoints whose deletion can no longer be undone (rule K3)."""
    context = upkeep.context
    if not _is_due(upkeep):
        return 0
    try:
        with SweepTransaction(context, wait=0) as collecting:
            # Asked under the lock: a restore that runs now holds it too.
            if interrupted():
                return 0
            forgotten = collecting.catalogue.forget(past_grace(context))
            kept = roots(context)
            freed = 0
            # Bytes may be left of a sweep that was killed; what a save published just then is not among them.
            if forgotten or context.engine.unreached_bytes(kept.live, wounded=kept.wounded):
                freed = collecting.sweep(kept)
            collecting.catalogue.clear_freed()
            collecting.catalogue.set_swept(context.clock.now())
            return freed
    except Busy:
        return 0  # somebody saves right now; the next maintenance frees


def _is_due(upkeep: MaintenanceTransaction) -> bool:
    """Tell, beside saves, whether there is something to forget or to free."""
    context = upkeep.context
    due = past_grace(context)
    if any(due(deleted) for _, deleted in context.catalogue.deletions()) or context.catalogue.freed():
        return True
    now, swept = context.clock.now(), context.catalogue.swept()
    if swept is not None and 0 <= now - swept < SWEPT_LIFE:
        return False
    kept = roots(context)
    if context.engine.unreached_bytes(kept.live, wounded=kept.wounded):
        return True
    upkeep.catalogue.set_swept(now)
    return False


def _forget_operations(upkeep: MaintenanceTransaction) -> int:
    real = real_time(upkeep.context)
    return upkeep.catalogue.forget_operations(
        is_old=lambda done: real.age(done) > OPERATION_LIFE, keep=OPERATIONS_KEPT
    )


def _tags(context: Context) -> dict[str, bytes]:
    return {one.id: bytes.fromhex(one.commit) for one in context.catalogue.find(Query()) if not one.damaged}
