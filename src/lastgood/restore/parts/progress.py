"""Progress as a part of a restore: the record of the session (or workspace) is put back (rules T11, P2)."""

from __future__ import annotations

from lastgood.errors import Conflict, Damaged
from lastgood.lease import current_work, state_of, unfinished
from lastgood.model.canonical import Fields
from lastgood.model.operation import Part, PartOutcome
from lastgood.model.session import PROGRESS, encode_progress
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.context import Context, SessionTransaction
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.session import Progress
    from lastgood.transaction import RestoreTransaction

_CHANGED = "the progress went on since"


def plan(context: Context, target: Checkpoint) -> Part | None:
    """Return the change from the progress in force to that of a checkpoint.

    None if they are the same, or if that of the checkpoint cannot be read (see `unreadable`).
    """
    found = _decide(context, target)
    return found if isinstance(found, Part) else None


def unreadable(context: Context, target: Checkpoint) -> PartOutcome | None:
    """Return that progress stays because that of a checkpoint cannot be read; None where it can."""
    found = _decide(context, target)
    return found if isinstance(found, PartOutcome) else None


def _decide(context: Context, target: Checkpoint) -> Part | PartOutcome | None:
    try:
        return _change(context, target)
    except Damaged as error:
        reason = f"that of {target.short_id} cannot be read: {error.message}"
        return PartOutcome(scope="progress", result="kept", reason=reason)


def _change(context: Context, target: Checkpoint) -> Part | None:
    present = current_work(context)
    if present.session is not None:
        return change_to(context, present.key, target.manifest.progress)
    made_by = target.manifest.session
    if made_by is not None and _waits(context, made_by):
        return change_to(context, made_by, target.manifest.progress)
    return change_to(context, present.key, target.manifest.progress) or _from_before(context, target)


def change_to(context: Context, key: str, wanted: Progress) -> Part | None:
    """Return the change of one record to some progress; None if that is what it has."""
    present = context.work.progress(key)
    if _same(present, wanted):
        return None
    return Part(scope="progress", before=_side(key, present), after=_side(key, wanted))


def _waits(context: Context, session: str) -> bool:
    """Tell whether a session waits to go on: it must not take for done whose files were taken back."""
    found = context.work.session(session)
    return (
        found is not None and found.workspace_key == context.key and state_of(context, found) == "incomplete"
    )


def _from_before(context: Context, target: Checkpoint) -> Part | None:
    """Return the change of a session that waits to go on, to its start, if that came after a checkpoint."""
    from lastgood.catalogue import Query

    waiting = next((one.id for one in unfinished(context) if one.session.exclusive), None)
    if waiting is None:
        return None
    query = Query(workspace_key=context.key, session=waiting, kind="session-start", oldest=True, limit=1)
    started = next(iter(context.catalogue.find(query)), None)
    if started is None or started.sequence < target.sequence:
        return None
    return change_to(context, waiting, started.manifest.progress)


def refuse(context: Context, part: Part) -> None:
    """Refuse if the progress is no longer what the plan was made from, nor what it wants."""
    key, present = _key(part), context.work.progress(_key(part))
    if not any(_same(present, _of(side)) for side in (part.before, part.after)):
        raise Conflict(
            _CHANGED,
            hint="look again: lastgood progress show\nor leave it: --only files",
            details={"progress": key},
        )


def settle(restoring: RestoreTransaction, part: Part) -> PartOutcome:
    """Put the progress in force, unless it is neither what was planned from nor what is wanted."""
    context, wanted = restoring.context, _of(part.after)
    known = (_of(part.before), wanted)

    def change(present: Progress) -> Progress:
        return wanted if any(_same(present, one) for one in known) else present

    def settled(work: SessionTransaction) -> Progress:
        work.add_workspace(context.row)
        return work.change_progress(_key(part), change, workspace_key=context.key)

    if _same(context.work.change(settled), wanted):
        return PartOutcome(scope="progress", result="restored")
    return PartOutcome(scope="progress", result="kept", reason=_CHANGED)


def renewed(context: Context, part: Part) -> Part:
    """Return the part that leads to the same end from the progress that is in force now."""
    key = _key(part)
    return Part(scope="progress", before=_side(key, context.work.progress(key)), after=part.after)


def _side(key: str, progress: Progress) -> dict[str, object]:
    return {"key": key, "progress": PROGRESS.write(progress)}


def _key(part: Part) -> str:
    return Fields(dict(part.after), what="a part of a restore").text("key")


def _of(side: Mapping[str, object]) -> Progress:
    return cast("Progress", Fields(dict(side), what="a part of a restore").read("progress", PROGRESS))


def _same(one: Progress, other: Progress) -> bool:
    return encode_progress(one) == encode_progress(other)
