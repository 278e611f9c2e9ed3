"""Progress as a part of a restore: the record of the session (or workspace) is put back (rules T11, P2)."""

from __future__ import annotations

from lastgood.actions.standing import standing, state_of
from lastgood.codec.canonical import Fields
from lastgood.codec.progress import encode_progress, progress_of, progress_record
from lastgood.errors import Conflict
from lastgood.model.part import Part, PartOutcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.progress import Progress
    from lastgood.ports.context import Context

_CHANGED = "the progress went on since"


def plan(context: Context, target: Checkpoint) -> Part | None:
    """Return the change from the progress in force to that of a checkpoint; None if they are the same."""
    key = _whose(context, target)
    present = context.work.progress(key)
    if _same(present, target.manifest.progress):
        return None
    return Part(
        scope="progress",
        before=_side(key, present),
        after=_side(key, target.manifest.progress),
    )


def _whose(context: Context, target: Checkpoint) -> str:
    """Return under which key the progress stands that a checkpoint is about.

    Outside any session it is that of the one that made the checkpoint, if that waits to go on: what goes on
    must not take for done whose files were taken back.
    """
    present = standing(context)
    made_by = target.manifest.session
    if present.session is not None or made_by is None:
        return present.key
    waiting = context.work.session(made_by)
    if waiting is None or waiting.workspace_key != context.key or state_of(context, waiting) != "incomplete":
        return present.key
    return waiting.id


def refuse(context: Context, part: Part) -> None:
    """Refuse if the progress is no longer what the plan was made from, nor what it wants."""
    key, present = _key(part), context.work.progress(_key(part))
    if not any(_same(present, _of(side)) for side in (part.before, part.after)):
        raise Conflict(
            _CHANGED,
            hint="look again: lastgood progress show    or leave it: --only files",
            details={"progress": key},
        )


def settle(context: Context, part: Part) -> PartOutcome:
    """Put the progress in force, unless it is neither what was planned from nor what is wanted."""
    wanted = _of(part.after)
    known = (_of(part.before), wanted)

    def change(present: Progress) -> Progress:
        return wanted if any(_same(present, one) for one in known) else present

    context.catalogue.add_workspace(context.row)
    made = context.work.change_progress(_key(part), change, workspace_key=context.key)
    if _same(made, wanted):
        return PartOutcome(scope="progress", result="restored")
    return PartOutcome(scope="progress", result="kept", reason=_CHANGED)


def renewed(context: Context, part: Part) -> Part:
    """Return the part that leads to the same end from the progress that is in force now."""
    key = _key(part)
    return Part(scope="progress", before=_side(key, context.work.progress(key)), after=part.after)


def _side(key: str, progress: Progress) -> dict[str, object]:
    return {"key": key, "progress": progress_record(progress)}


def _key(part: Part) -> str:
    return Fields(dict(part.after), what="a part of a restore").text("key")


def _of(side: Mapping[str, object]) -> Progress:
    return progress_of(Fields(dict(side), what="a part of a restore").sub("progress"))


def _same(one: Progress, other: Progress) -> bool:
    return encode_progress(one) == encode_progress(other)
