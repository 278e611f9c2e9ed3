"""prune: let go what retention does not keep, or what was asked for, each with its reason (K1 to K3)."""

from __future__ import annotations

from lastgood.attribution import note_unseen
from lastgood.catalogue import Query
from lastgood.errors import Busy, Damaged, Invalid, NoRoom, NotFound, Storage, Usage
from lastgood.host import instant_of
from lastgood.ids import name_fault
from lastgood.model.report import DeleteReport
from lastgood.paths import printable
from lastgood.restore.parts.progress import is_in_parts
from lastgood.retention.policy import (
    GRACE,
    GUARD_LIFE,
    LEAST,
    Conditions,
    Decision,
    PrunePlan,
    PruneReport,
    StoreSizes,
    decide,
    eviction,
    explicit_decisions,
    permanent,
    refuse_pinned,
    without,
)
from lastgood.retention.sweep import SweepTransaction, inventory, kept_of, real_time, refuse_older, roots
from lastgood.sessions.progress import starts
from lastgood.sessions.rollback import left, rollback_target
from lastgood.transaction import MarkTransaction, SaveTransaction
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from lastgood.context import Context
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.report import StoreSize, VerifyReport
    from lastgood.retention.sweep import Inventory
    from lastgood.transaction import MaintenanceTransaction


# What a size limit takes of a workspace at a time, of the checkpoints that may go.
_SHARE = 10
# So many rows are dropped in one transaction.
_PORTION = 200


class PruneRequest(Value):
    """What a prune is asked for. Without ``keep`` and ``older_than`` (nanoseconds) the policy decides.

    ``now`` frees the bytes at once: then there is no undo.
    """

    keep: int | None = None
    older_than: int | None = None
    now: bool = False


def plan_prune(
    context: Context, request: PruneRequest, *, known: Sequence[Checkpoint] | None = None
) -> PrunePlan:
    """Return what a prune would do; nothing is touched.

    ``known`` are the workspace's checkpoints, deleted ones too, where the caller has them already.
    """
    if known is None:
        return _plan(context, request, of_workspace(context, context.key))
    standing = [one for one in known if one.deleted_at is None]
    return _plan(context, request, standing, every=_every(context, known))


def waiting(context: Context, known: Sequence[Checkpoint]) -> int:
    """Return what will be free when the grace time of what is deleted in the workspace is over.

    ``known`` are the workspace's checkpoints, deleted ones too.
    """
    gone = {one.id for one in known if one.deleted_at is not None}
    return _freed_by(context, gone, every=_every(context, known)) if gone else 0


def _every(context: Context, known: Sequence[Checkpoint]) -> Sequence[Checkpoint] | None:
    """Return all checkpoints of the store, if those of the workspace are."""
    return known if len(context.catalogue.workspaces()) == 1 else None


def prune(context: Context, request: PruneRequest, *, interrupted: Callable[[], bool]) -> PruneReport:
    """Carry out what `plan_prune` shows; undoable until the bytes are freed, which may be at once."""
    if not request.now:
        with SaveTransaction(context) as saving:
            report, removed = _record_prune(saving, request)
            if removed:
                _tidy(saving.catalogue.empty_log)
        return report
    if interrupted():
        raise _interrupted()
    given = context.reserve.make_room()
    try:
        before = context.measure()
        with SaveTransaction(context) as saving:
            if interrupted():
                raise _interrupted()
            refuse_older(context)
            report, removed = _record_prune(saving, request)
        waiting = _free_at_once(context, {*removed, *report.lost}, interrupted=interrupted)
        freed = _given_back(before, context.measure())
        return report.replace(freed_bytes=freed, operation=None, waiting_bytes=waiting)
    finally:
        context.reserve.lay_in(again=given)


def _record_prune(saving: SaveTransaction, request: PruneRequest) -> tuple[PruneReport, frozenset[str]]:
    """Record a prune and mark what goes; return the report, and what went."""
    context = saving.context
    checkpoints = of_workspace(context, context.key)
    plan = _plan(context, request, checkpoints)
    operation = None
    if plan.removed:
        operation = saving.record("prune", checkpoints=plan.removed)
    removed = _mark(saving, checkpoints, plan.decisions, portions=request.now)
    report = PruneReport(
        keep=plan.keep,
        remove=tuple(one for one in plan.remove if one.id in removed),
        freed_bytes=plan.freed_bytes,
        free_after=plan.free_after,
        operation=operation,
        lost=plan.lost,
    )
    return report, removed


def dry(plan: PrunePlan) -> PruneReport:
    """Return the report of a prune that was only planned."""
    return PruneReport(
        keep=plan.keep,
        remove=plan.remove,
        freed_bytes=plan.freed_bytes,
        free_after=plan.free_after,
        dry_run=True,
        lost=plan.lost,
    )


def proven(context: Context, report: VerifyReport) -> PruneReport:
    """Return what a verification makes of a workspace: the damaged are set aside, nothing is removed."""
    hit = {one.id: one.reason for one in report.damaged}
    return PruneReport(
        keep=tuple(
            Decision(id=one.id, keep=True, reason=f"damaged: {hit[one.id]}" if one.id in hit else "whole")
            for one in of_workspace(context, context.key)
        ),
        set_aside=tuple(hit),
        faults=report.faults,
    )


def prune_quietly(upkeep: MaintenanceTransaction, *, busy: Collection[str]) -> int:
    """Apply the policy and the limits to every workspace of the store, and return how many went.

    Not on the undo stack (rule T8). ``busy`` are workspaces with a restore that waits to be
    finished: they are left alone (rule T15).
    """
    context, known = upkeep.context, {}
    for row in context.catalogue.workspaces():
        if row.key not in busy:
            checkpoints = of_workspace(context, row.key)
            conditions = _conditions(context, row.key).replace(believed=real_time(context).believed)
            known[row.key] = checkpoints, decide(checkpoints, conditions)
    settled = _within_size(context, known)
    return sum(
        _prune_beside_saves(upkeep, key, known[key][0], decisions) for key, decisions in settled.items()
    )


def delete_unkept(context: Context, checkpoints: Sequence[Checkpoint]) -> tuple[str, ...]:
    """Mark checkpoints as deleted that a policy of the caller's own does not keep; return those that went.

    What is permanent or needed stays, and so does what somebody named or pinned meanwhile. Like other
    automatic prunes it is not on the undo stack (rule T8).
    """
    with SaveTransaction(context) as saving:
        spared = {*needed(context, context.key), context.catalogue.stands_at(context.key)}
        going = [one for one in checkpoints if permanent(one) is None and one.id not in spared]
        note_unseen(context, [one for one in going if one.partial])
        return tuple(saving.catalogue.delete_unchanged(going, at=instant_of(context.clock)))


def sizes(context: Context) -> StoreSizes:
    """Return how many bytes the checkpoints of each workspace and session added to the store."""
    workspaces: dict[str, int] = {}
    sessions: dict[str, int] = {}
    deleted = 0
    for one in context.catalogue.find(Query(deleted=True)):
        added, manifest = one.manifest.metrics.stored_bytes, one.manifest
        if one.deleted_at is not None:
            deleted += added
            continue
        workspaces[manifest.workspace_key] = workspaces.get(manifest.workspace_key, 0) + added
        if manifest.session is not None:
            sessions[manifest.session] = sessions.get(manifest.session, 0) + added
    size = context.measure()
    return StoreSizes(store=size.total, workspaces=workspaces, sessions=sessions, deleted=deleted, parts=size)


def needed(context: Context, key: str) -> dict[str, str]:
    """Return the checkpoints that operations and runs of a workspace need, with the reason.

    For as long as a guard lives by default: the guard of a restore that can be undone, and the
    target of one that was undone and can be done again. And what a session that is not over, or an attempt
    of it, may be taken back to.
    """
    found = {id: f"task {task} may be taken back to it" for id, task in starts(context, key).items()}
    for session in left(context, key):
        target = rollback_target(context, session)
        if target is not None:
            found.setdefault(target.id, f"recover --rollback of {session.id} leads to it")
    real = real_time(context)
    for one in context.catalogue.operations(key):
        if one.type != "restore" or real.age(one) > GUARD_LIFE:
            continue
        # A list of progress that is put back and forth again needs both; files that are gone say so.
        both = any(part.scope == "progress" and is_in_parts(context, part) for part in one.parts)
        if one.guard is not None and (both or not one.undone):
            found.setdefault(one.guard, f"needed to undo {one.id}")
        if one.target is not None and (both or one.undone):
            found.setdefault(one.target, f"needed to redo {one.id}")
    return found


def _plan(
    context: Context,
    request: PruneRequest,
    checkpoints: Sequence[Checkpoint],
    *,
    every: Sequence[Checkpoint] | None = None,
) -> PrunePlan:
    now = context.clock.now()
    conditions = _conditions(context, context.key)
    if request.keep is None and request.older_than is None:
        decisions = decide(checkpoints, conditions)
        decisions = _within_size(context, {context.key: (checkpoints, decisions)})[context.key]
    else:
        decisions = explicit_decisions(
            checkpoints, keep=request.keep, older_than=request.older_than, conditions=conditions
        )
    removed = tuple(one.id for one in decisions if not one.keep)
    lost = _deleted(context) if request.now else ()
    return PrunePlan(
        workspace_key=context.key,
        decisions=decisions,
        freed_bytes=_freed_by(context, {*removed, *lost}, every=every) if removed or lost else 0,
        free_after=None if request.now or not removed else now + GRACE,
        now=request.now,
        lost=lost,
    )


def _deleted(context: Context) -> tuple[str, ...]:
    every = context.catalogue.find(Query(workspace_key=context.key, deleted=True))
    return tuple(one.id for one in every if one.deleted_at is not None)


def _conditions(context: Context, key: str) -> Conditions:
    return Conditions(
        now=context.clock.now(),
        retention=context.settings.retention,
        limit=context.settings.limits.max_checkpoints,
        needed=needed(context, key),
        stands=context.catalogue.stands_at(key),
    )


def _within_size(
    context: Context, known: dict[str, tuple[Sequence[Checkpoint], tuple[Decision, ...]]]
) -> dict[str, tuple[Decision, ...]]:
    """Return decisions by which the store is within its limit, so far as anything may go.

    A tenth of what may go is taken of each workspace until what stays fits.
    """
    limit = context.settings.limits.max_store_size
    settled = {key: decisions for key, (_, decisions) in known.items()}
    reason = f"over the limit of {limit} bytes for the store"
    while _lasting_bytes(context, settled) > limit:
        before = settled
        settled = {key: _taken(checkpoints, settled[key], reason) for key, (checkpoints, _) in known.items()}
        if settled == before:
            break
    return settled


def _taken(
    checkpoints: Sequence[Checkpoint], decisions: tuple[Decision, ...], reason: str
) -> tuple[Decision, ...]:
    by_hand = [one.id for one in checkpoints if one.kind == "manual"][:LEAST]
    order = [id for id in eviction(checkpoints, decisions) if id not in by_hand]
    going = order[: max(1, len(order) // _SHARE)]
    return without(checkpoints, decisions, going=going, reason=reason)


def _lasting_bytes(context: Context, settled: dict[str, tuple[Decision, ...]]) -> int:
    """Return what the store will hold when everything deleted is freed."""
    stored = context.engine.stored_bytes()
    if stored <= context.settings.limits.max_store_size:
        return stored
    going = {one.id for decisions in settled.values() for one in decisions if not one.keep}
    every = context.catalogue.find(Query(deleted=True))
    gone = going | {one.id for one in every if one.deleted_at is not None}
    try:
        return stored - _unreached(context, inventory(context, checkpoints=every), gone)
    except Damaged:
        return stored - _added_by(context, gone)


def _freed_by(context: Context, ids: Collection[str], *, every: Sequence[Checkpoint] | None) -> int:
    """Return how many bytes only some checkpoints need; about, where damage is in the way."""
    try:
        stock = inventory(context, checkpoints=every)
        all_, kept = kept_of(stock), kept_of(stock, without=ids)
        objects = context.engine.needed_bytes(
            set(all_.live) - set(kept.live),
            live=kept.live,
            wounded=kept.wounded,
            hurt=set(all_.wounded) - set(kept.wounded),
        )
    except Damaged:
        objects = _added_by(context, ids)
    return objects + context.catalogue.spare_bytes(without=ids)


def _unreached(context: Context, stock: Inventory, ids: Collection[str]) -> int:
    """Return how many bytes a sweep would free if some checkpoints were gone; `Damaged`."""
    kept = kept_of(stock, without=ids)
    return context.engine.unreached_bytes(kept.live, wounded=kept.wounded)


def _added_by(context: Context, ids: Collection[str]) -> int:
    known = (context.catalogue.get(id) for id in ids)
    return sum(one.manifest.metrics.stored_bytes for one in known if one is not None)


def _prune_beside_saves(
    upkeep: MaintenanceTransaction,
    key: str,
    checkpoints: Sequence[Checkpoint],
    decisions: tuple[Decision, ...],
) -> int:
    if all(one.keep for one in decisions):
        return 0
    try:
        with upkeep.context.locks.share_workspace(key, wait=0):
            return len(_mark(upkeep, checkpoints, decisions))
    except Busy:
        return 0  # a restore runs there; the next maintenance prunes


def _mark(
    transaction: SaveTransaction | MaintenanceTransaction,
    checkpoints: Sequence[Checkpoint],
    decisions: Iterable[Decision],
    *,
    portions: bool = False,
) -> frozenset[str]:
    """Mark what goes as deleted, unless somebody named, pinned or judged it meanwhile; say what went.

    In ``portions`` where nothing is to be taken back: no disk may have room for the log of all.
    """
    going = {one.id for one in decisions if not one.keep}
    if not going:
        return frozenset()
    decided = [one for one in checkpoints if one.id in going]
    step = _PORTION if portions else len(decided)
    at, marked = instant_of(transaction.context.clock), set[str]()
    for start in range(0, len(decided), step):
        marked.update(transaction.catalogue.delete_unchanged(decided[start : start + step], at=at))
    return frozenset(marked)


def _free_at_once(context: Context, ids: Collection[str], *, interrupted: Callable[[], bool]) -> int:
    """Free bytes, and return how many could not be freed yet because the disk is full."""
    with SweepTransaction(context, wait=context.wait) as collecting:
        # Asked under the lock: a restore that runs now holds it too.
        if interrupted():
            raise _interrupted()
        for some in _portions(sorted(ids)):
            collecting.catalogue.drop(some)
        waiting = 0
        try:
            collecting.sweep(roots(context))
        except NoRoom as error:
            freed, left = error.details.get("freed_bytes"), error.details.get("waiting_bytes")
            if not isinstance(freed, int) or not isinstance(left, int) or freed <= 0:
                raise
            waiting = left
        _tidy(collecting.catalogue.shrink, collecting.catalogue.empty_log)
        return waiting


def _portions(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield ids so many at a time that the log of a change stays small: the disk may be full."""
    for start in range(0, len(ids), _PORTION):
        yield ids[start : start + _PORTION]


def _given_back(before: StoreSize, after: StoreSize) -> int:
    """Return what the disk got back of what checkpoints take."""
    return max(0, before.objects + before.catalogue - after.objects - after.catalogue)


def _tidy(*ways: Callable[[], object]) -> None:
    """Give back what changes of many rows left in the catalogue's log, and in the catalogue itself."""
    try:
        for give_back in ways:
            give_back()
    except (Busy, Storage):
        return  # somebody is at it, or the disk is full: maintenance does it another time


def _interrupted() -> Busy:
    return Busy(
        "a restore was interrupted, and may need what would be freed",
        hint="finish it first: lastgood recover\nor prune without --now",
    )


# --- delete, pin, unpin, name, forget: changes to what exists, all but the pins undoable ---


def delete(context: Context, checkpoints: Sequence[Checkpoint]) -> DeleteReport:
    """Remove checkpoints; their bytes stay for the grace time, so that it can be undone."""
    ids = tuple(dict.fromkeys(one.id for one in checkpoints))
    if not ids:
        raise Usage("no checkpoint is named to be deleted", hint="see what there is: lastgood list")
    reasons = needed(context, context.key)
    with SaveTransaction(context) as saving:
        refuse_pinned([_again(context, one) for one in checkpoints])
        note_unseen(context, [one for one in checkpoints if one.partial])
        now = instant_of(context.clock)
        operation = saving.record("delete", checkpoints=ids)
        saving.catalogue.delete(ids, at=now)
    return DeleteReport(
        operation=operation,
        checkpoints=ids,
        free_after=now.at + GRACE,
        needed={one: reasons[one] for one in ids if one in reasons},
    )


def pin(context: Context, checkpoint: Checkpoint, *, pinned: bool) -> Checkpoint:
    """Keep a checkpoint for ever, or no longer."""
    with MarkTransaction(context) as marking:
        marking.catalogue.set_pinned(checkpoint.id, pinned=pinned)
    return _again(context, checkpoint)


def rename(context: Context, checkpoint: Checkpoint, *, name: str) -> Checkpoint:
    """Name a checkpoint; of several that bear one name the newest counts."""
    fault = name_fault(name)
    if fault is not None:
        raise Invalid(f"'{printable(name)}' cannot be a name: {fault}", hint="choose another name")
    with MarkTransaction(context) as marking:
        marking.catalogue.set_name(checkpoint.id, name)
    return _again(context, checkpoint)


def of_workspace(context: Context, key: str) -> Sequence[Checkpoint]:
    """Return every checkpoint of a workspace that is not deleted: what `forget` would remove."""
    return context.catalogue.find(Query(workspace_key=key))


def forget(context: Context, key: str) -> DeleteReport:
    """Remove all checkpoints of a workspace, pinned ones too; undoable like any delete."""
    with SaveTransaction(context) as saving:
        now = instant_of(context.clock)
        ids = tuple(one.id for one in of_workspace(context, key))
        operation = saving.record("delete", checkpoints=ids)
        saving.catalogue.delete(ids, at=now)
    return DeleteReport(operation=operation, checkpoints=ids, free_after=now.at + GRACE)


def _again(context: Context, checkpoint: Checkpoint) -> Checkpoint:
    found = context.catalogue.get(checkpoint.id)
    if found is None:
        raise NotFound(f"{checkpoint.short_id} is gone", hint="see what there is: lastgood list")
    return found
