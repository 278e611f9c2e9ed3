"""Progress as a part of a restore: the record of the session (or workspace) is put back (rules T11, P2).

A side of it names its long lists by their trees (rule P8a). The checkpoint that the restore leads to has
those of one side, its guard those of the other, and whatever else neither has (`lists_beside`); a list that
is stored nowhere, or was written by an earlier release, stands there whole.
"""

from __future__ import annotations

from lastgood.errors import Conflict, Damaged, NotFound
from lastgood.lease import shares_progress, state_of, unfinished
from lastgood.model.canonical import Fields
from lastgood.model.operation import Part, PartOutcome
from lastgood.model.session import (
    COMMAND_TASK,
    PROGRESS_AS_STORED,
    encode_progress,
    lists_in_parts,
    read_from,
)
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from lastgood.context import Context, SessionTransaction
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.long_list import LongList
    from lastgood.model.session import CurrentWork, Progress
    from lastgood.transaction import RestoreTransaction

_CHANGED = "the progress went on since"


def plan(context: Context, target: Checkpoint, *, standing: CurrentWork) -> tuple[Part, ...] | PartOutcome:
    """Return the change from the progress in force to that of a checkpoint, and of each session that waits.

    Nothing if they are the same; that it stays, if that of the checkpoint cannot be read.
    """
    return context.catalogue.moment(lambda: _decide(context, target, present=standing))


def _decide(context: Context, target: Checkpoint, *, present: CurrentWork) -> tuple[Part, ...] | PartOutcome:
    try:
        return _change(context, target, present=present)
    except Damaged as error:
        reason = f"that of {target.short_id} cannot be read: {error.message}"
        return PartOutcome(scope="progress", result="kept", reason=reason)


def _change(context: Context, target: Checkpoint, *, present: CurrentWork) -> tuple[Part, ...]:
    made_by = target.manifest.session
    if present.session is not None:
        wanted = _reported(context, target, key=present.key)
        found = [_change_from(present.progress, present.key, wanted)]
    elif made_by is not None and _waits(context, made_by):
        found = [change_to(context, made_by, target.manifest.progress), *_from_before(context, target)]
    else:
        wanted = _reported(context, target, key=present.key)
        found = [_change_from(present.progress, present.key, wanted), *_from_before(context, target)]
    return tuple(part for part in found if part is not None)


def change_to(context: Context, key: str, wanted: Progress) -> Part | None:
    """Return the change of one record to some progress; None if that is what it has.

    Raises `Damaged` if a list that has to be put back cannot be read.
    """
    return _change_from(context.work.progress(key), key, wanted)


def _change_from(present: Progress, key: str, wanted: Progress) -> Part | None:
    if _same(present, wanted):
        return None
    _read(wanted, beside=present)
    return Part(scope="progress", before=_side(key, present), after=_side(key, wanted))


def _reported(context: Context, target: Checkpoint, *, key: str) -> Progress:
    """Return the progress of a checkpoint for one record: that of a single command belongs to its session."""
    progress, made_by = target.manifest.progress, target.manifest.session
    run = None if made_by in {None, key} else context.work.run(made_by or "")
    if run is None or not run.plan.command:
        return progress
    return progress.replace(goal=None, tasks=tuple(one for one in progress.tasks if one.id != COMMAND_TASK))


def _waits(context: Context, session: str) -> bool:
    """Tell whether a session waits to go on: it must not take for done whose files were taken back."""
    found = context.work.session(session)
    if found is None or found.workspace_key != context.key or shares_progress(context, found):
        return False
    return state_of(context, found) == "incomplete"


def _from_before(context: Context, target: Checkpoint) -> Iterator[Part | None]:
    """Yield the change of each session that waits to go on, to its start, if that came after a checkpoint."""
    from lastgood.catalogue import Query

    for waiting in _waiting(context):
        query = Query(workspace_key=context.key, session=waiting, kind="session-start", oldest=True, limit=1)
        started = next(iter(context.catalogue.find(query)), None)
        if started is not None and started.sequence >= target.sequence and waiting != target.session:
            yield change_to(context, waiting, started.manifest.progress)


def _waiting(context: Context) -> list[str]:
    """Return the sessions that wait to go on, each alone in the workspace."""
    return [one.id for one in unfinished(context) if one.session.exclusive]


def refuse(context: Context, part: Part) -> None:
    """Refuse if the progress is no longer what the plan was made from, nor what it wants, or that is lost."""
    key, present = _key(part), context.work.progress(_key(part))
    before, wanted = (_of(context, side) for side in (part.before, part.after))
    if _same(present, wanted):
        return
    if not _same(present, before):
        raise Conflict(
            _CHANGED,
            hint="look again: lastgood progress show\nor leave it: --only files",
            details={"progress": key},
        )
    if is_lost(context, part):
        raise NotFound("the progress to put back is in no checkpoint any more", hint="leave it: --only files")
    _read(wanted, beside=present)


def is_lost(context: Context, part: Part) -> bool:
    """Tell whether a list that the part would put back is not stored any more."""
    wanted = lists_in_parts(_of(context, part.after))
    return bool(context.engine.missing(items.oid for items in wanted.values()))


def settle(restoring: RestoreTransaction, part: Part) -> PartOutcome:
    """Put the progress in force, unless it is neither what was planned from nor what is wanted."""
    context = restoring.context
    before, wanted = (_of(context, side) for side in (part.before, part.after))
    unread: list[str] = []

    def change(present: Progress) -> Progress:
        unread.clear()
        if _same(present, wanted) or not _same(present, before):
            return present
        try:
            _read(wanted, beside=present)
        except Damaged as error:
            unread.append(error.message)
            return present
        return wanted

    def settled(work: SessionTransaction) -> Progress:
        work.add_workspace(context.row)
        return work.change_progress(_key(part), change, workspace_key=context.key)

    if _same(context.work.change(settled), wanted):
        return PartOutcome(scope="progress", result="restored")
    if unread:
        reason = f"what was to be put back cannot be read: {unread[0]}"
        return PartOutcome(scope="progress", result="failed", reason=reason)
    return PartOutcome(scope="progress", result="kept", reason=_CHANGED)


def lists_beside(
    context: Context, parts: Iterable[Part], *, target: Checkpoint | None
) -> dict[str, LongList[Any]]:
    """Return the lists that a guard has to hold so that some parts can be brought about, and taken back.

    Those before are with the guard whatever the target has, for that alone is kept for an undo; those after
    only if the target lacks them. What is lost already is left out.
    """
    there = () if target is None else lists_in_parts(target.manifest.progress).values()
    held = {items.oid for items in there}
    found = {}
    for place, part in enumerate(parts):
        which = f"-{place}" if place else ""
        for name, items in _named(context, part.before).items():
            found[f"before-{name}{which}"] = items
        for name, items in _named(context, part.after).items():
            if items.oid not in held:
                found[f"after-{name}{which}"] = items
    return found


def _named(context: Context, side: Mapping[str, object]) -> dict[str, LongList[Any]]:
    """Return the lists that a side names: those in force, or else stored."""
    in_force = lists_in_parts(context.work.progress(str(side["key"]))).values()
    at_hand = {items.oid: items for items in in_force}
    named = lists_in_parts(_of(context, side))
    lost = context.engine.missing({items.oid for items in named.values()} - at_hand.keys())
    return {name: at_hand.get(items.oid, items) for name, items in named.items() if items.oid not in lost}


def is_in_parts(context: Context, part: Part) -> bool:
    """Tell whether a part names lists that checkpoints have."""
    return any(lists_in_parts(_of(context, side)) for side in (part.before, part.after))


def renewed(context: Context, part: Part) -> Part:
    """Return the part that leads to the same end from the progress that is in force now."""
    key = _key(part)
    return Part(scope="progress", before=_side(key, context.work.progress(key)), after=part.after)


def _side(key: str, progress: Progress) -> dict[str, object]:
    return {"key": key, "progress": PROGRESS_AS_STORED.write(progress)}


def _key(part: Part) -> str:
    return Fields(dict(part.after), what="a part of a restore").text("key")


def _of(context: Context, side: Mapping[str, object]) -> Progress:
    read = Fields(dict(side), what="a part of a restore").read("progress", PROGRESS_AS_STORED)
    return read_from(cast("Progress", read), context.engine_of)


def _read(wanted: Progress, *, beside: Progress) -> None:
    """Read what has to be put back of lists; `Damaged` if that cannot be."""
    present = lists_in_parts(beside)
    for name, items in lists_in_parts(wanted).items():
        items.read(beside=present.get(name))


def _same(one: Progress, other: Progress) -> bool:
    if _is_nothing(one) and _is_nothing(other):
        return True
    # By their texts: to Python 1 and true are the same.
    return encode_progress(one) == encode_progress(other)


def _is_nothing(progress: Progress) -> bool:
    return not lists_in_parts(progress) and progress.empty
