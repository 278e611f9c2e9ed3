"""What an attempt left: kept before anything of it is taken back, and taken back (rule T17)."""

from __future__ import annotations

import os

from lastgood.errors import Conflict, LastgoodError
from lastgood.ids import short
from lastgood.names import to_bytes, within
from lastgood.rules.attempts import ATTEMPT
from lastgood.workspace.running.stage import said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.effect import Effect
    from lastgood.model.report import HeadMoved, RestoreReport
    from lastgood.model.workplan import PlannedTask
    from lastgood.workspace.running.stage import Stage

# Somebody may save a file in the very moment in which it is merged.
_TRIES = 3
_CAUSES_SHOWN = 3
_INTERRUPTED = "it was interrupted"


def keep_start(stage: Stage, task: PlannedTask) -> str | None:
    """Return the checkpoint of what is there before an attempt, made unless an equal one is there.

    None where the settings want none and nothing is going to be taken back to it.
    """
    risky = task.risky or task.irreversible
    if task.on_failure != "rollback" and not stage.hands.wants("risky" if risky else "task"):
        return None
    report = stage.hands.keep(
        "risky" if risky else "auto", f"before task {task.id}", task=task.id, moment="before"
    )
    stage.telling.saved(report, task=task.id)
    stage.rested()
    return report.checkpoint.id


def keep_leftover(stage: Stage, task: PlannedTask, attempt: Effect, *, reason: str) -> Checkpoint | None:
    """Return a new checkpoint of what an attempt left.

    None where the settings want none and nothing is going to be taken back.
    """
    if task.on_failure != "rollback" and not stage.hands.wants("error"):
        return None
    report = stage.hands.keep(
        "error",
        f"Task {task.id} failed: {reason}",
        task=task.id,
        moment="after",
        metadata={ATTEMPT: str(attempt.attempt)},
    )
    stage.telling.saved(report, task=task.id)
    stage.rested()
    return report.checkpoint


def keep_once(stage: Stage, task: PlannedTask, attempt: Effect) -> Checkpoint:
    """Return the checkpoint of what an attempt left of which nobody saw the end, made unless it is there."""
    left = stage.hands.left_by(attempt) or keep_leftover(stage, task, attempt, reason=_INTERRUPTED)
    assert left is not None
    return left


def take_back(stage: Stage, task: PlannedTask, attempt: Effect) -> str | None:
    """Take the files back to where an attempt began; return why that could not be done, None if it was.

    What changed since the attempt ended is somebody else's, and stays. What the attempt left is in a
    checkpoint before anything is touched. Safe to be repeated: what was taken back is not again.
    """
    hands = stage.hands
    try:
        left = hands.left_by(attempt)
        before = hands.taken_back(attempt, left)
        if left is None and before is not None:
            return None  # somebody deleted the checkpoint of what it left since
        if left is None and not hands.is_newest(attempt):
            stage.telling.notice(
                "what it left is not taken back: it cannot be told from later work", task=task.id
            )
            return None
        if left is None:
            left = keep_leftover(stage, task, attempt, reason=_INTERRUPTED)
            assert left is not None
        start = hands.kept_start(attempt)
        limit = _beside_the_plan(stage, start, left) if attempt.state == "unknown" else ()
        if before is not None:
            limit = _missed(stage, start, left, before=before, limit=limit)
        if limit is None:
            return None
        report = _merged(stage, start, left, limit)
    except LastgoodError as error:
        return f"the files of task {task.id} could not be taken back: {said(error)}"
    _name_gaps(stage, task, start, left)
    _name_repositories(stage, task, start, left)
    return _told(stage, task, report, left=left)


def _name_gaps(stage: Stage, task: PlannedTask, start: Checkpoint, left: Checkpoint) -> None:
    """Name what an attempt made or took away that no checkpoint holds: it stays as it is (rule T4)."""
    before, after = ({gap.path: gap.reason for gap in one.gaps} for one in (start, left))
    changed = sorted(before.keys() ^ after.keys())
    if changed:
        reasons = ", ".join(sorted({(before | after)[path] for path in changed}))
        stage.telling.notice(
            f"not taken back, as no checkpoint holds it: {reasons}", task=task.id, paths=tuple(changed)
        )


def _name_repositories(stage: Stage, task: PlannedTask, start: Checkpoint, left: Checkpoint) -> None:
    """Name the nested repositories that an attempt took away, and those whose HEAD it moved (rule T9)."""
    before, after = ((one.manifest.git and one.manifest.git.nested) or () for one in (start, left))
    heads = {one.path: one.head for one in after}
    there = {one.path for one in before if os.path.lexists(b"/".join((stage.hands.root, one.path, b".git")))}
    gone = tuple(sorted(one.path for one in before if one.path not in there))
    if gone:
        stage.telling.notice(
            "a nested repository is gone, and no checkpoint holds it", task=task.id, paths=gone
        )
    moved = tuple(one.path for one in before if one.path in there and heads.get(one.path) != one.head)
    if moved:
        stage.telling.notice(
            "the HEAD of a nested repository is not taken back", task=task.id, paths=tuple(sorted(moved))
        )


def _beside_the_plan(stage: Stage, start: Checkpoint, left: Checkpoint) -> Sequence[bytes] | None:
    """Return what to take back of an attempt that nobody saw the end of: nothing means all, None nothing.

    The plan itself may have been edited since the crash, to go on with what it says now.
    """
    source = None if stage.plan.source is None else to_bytes(stage.plan.source)
    if source is None or not within(source, stage.hands.root):
        return ()
    plan = source.removeprefix(stage.hands.root + b"/")
    changed = _changed(stage, start, left)
    if plan not in changed:
        return ()
    return sorted(changed - {plan}) or None


def _missed(
    stage: Stage,
    start: Checkpoint,
    left: Checkpoint,
    *,
    before: frozenset[bytes],
    limit: Sequence[bytes] | None,
) -> Sequence[bytes] | None:
    """Return what could not be taken back when that was tried: it is still as the attempt left it."""
    if limit is None:
        return None
    missed = _changed(stage, start, left) - before
    if limit:
        missed &= set(limit)
    if missed:
        missed -= _changed(stage, left)
    return sorted(missed) or None


def _changed(stage: Stage, one: Checkpoint, other: Checkpoint | None = None) -> set[bytes]:
    """Return the paths of files that differ between two checkpoints, or one and the workspace."""
    files = stage.hands.diff(one.id, None if other is None else other.id, patch=False).files
    return {path for file in files for path in (file.path, file.old_path) if path is not None}


def _merged(stage: Stage, start: Checkpoint, left: Checkpoint, paths: Sequence[bytes]) -> RestoreReport:
    for _ in range(_TRIES - 1):
        try:
            return stage.hands.restore(start.id, paths=paths, only=["files"], merge=True, base=left.id)
        except Conflict as error:
            if not error.details.get("paths"):
                raise
    return stage.hands.restore(start.id, paths=paths, only=["files"], merge=True, base=left.id)


def _told(stage: Stage, task: PlannedTask, report: RestoreReport, *, left: Checkpoint) -> str | None:
    back = tuple(one.path for one in report.outcomes if one.result in {"restored", "removed"})
    # What a person edited while the task ran cannot be told from what the task did.
    yours = f"an edit of yours among them comes back with: lastgood restore {short(left.id)} -- PATH"
    stage.telling.tell(
        "rolled-back", task=task.id, checkpoint=left.id, paths=back, reason=yours if back else None
    )
    failed = [one for one in report.outcomes if one.result == "failed"]
    kept = [one for one in report.outcomes if one.result in {"kept", "skipped"}]
    if kept:
        reasons = ", ".join(sorted({one.reason or "?" for one in kept})[:_CAUSES_SHOWN])
        stage.telling.notice(
            f"not taken back: {reasons}", task=task.id, paths=tuple(one.path for one in kept)
        )
    for effect in report.irreversible:
        stage.telling.notice(f"no restore takes back {effect.name}: it is irreversible", task=task.id)
    if report.head_moved is not None:
        stage.telling.notice(_head_words(report.head_moved), task=task.id)
    if not failed:
        return None
    stage.telling.notice(
        f"could not be taken back: {failed[0].reason}", task=task.id, paths=tuple(one.path for one in failed)
    )
    return (
        f"{len(failed)} path(s) of task {task.id} could not be taken back: {failed[0].reason}"
        f" (what the attempt left is in {short(left.id)})"
    )


def _head_words(moved: HeadMoved) -> str:
    """Say that the project's HEAD stays where an attempt left it (rule T9)."""
    to = "no commit" if moved.to is None else moved.to[:12]
    by = "" if moved.commits is None else f", {moved.commits} commit{'' if moved.commits == 1 else 's'} on"
    return f"the project's HEAD is not taken back: it stands at {to}{by}"
