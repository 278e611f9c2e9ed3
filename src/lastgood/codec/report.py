"""What the verbs return, as the published JSON documents (one document a verb).

Fields that sessions, progress and conversations will fill are there and null (or empty), so that a
reader written today goes on working.
"""

from __future__ import annotations

from lastgood.codec.canonical import path_value
from lastgood.codec.manifest import gap_record, git_record
from lastgood.codec.moment import iso
from lastgood.model.plan import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lastgood.errors import LastgoodError
    from lastgood.model.checkpoint import Actor, Check, Checkpoint
    from lastgood.model.operation import Operation
    from lastgood.model.plan import RestorePlan
    from lastgood.model.report import (
        DeleteReport,
        DiffReport,
        FileDiff,
        ListedEntry,
        RecoverReport,
        RestoreReport,
        SaveReport,
        StatusReport,
        UndoReport,
        VerifyReport,
        WorkspaceSummary,
    )

    Document = dict[str, object]


def document(verb: str, fields: Document) -> Document:
    """Return the document of a verb: its fields under the schema ``lastgood.VERB/1``."""
    return {"schema": f"lastgood.{verb}/1", **fields}


def error_document(error: LastgoodError) -> Document:
    """Return the document of a failure."""
    return document(
        "error",
        {
            "error": {
                "code": error.code,
                "message": text_value(error.message),
                "hint": text_value(error.hint),
                "details": error.details,
            }
        },
    )


def text_value(text: str) -> str:
    """Return text without lone surrogates (which stand for bytes that are not UTF-8)."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def folder_value(path: str) -> object:
    """Return the path of a folder as JSON."""
    return path_value(path.encode("utf-8", "surrogateescape"))


def save_document(report: SaveReport) -> Document:
    """Return the document of a save."""
    return document(
        "save",
        {
            "checkpoint": checkpoint_record(report.checkpoint),
            "created": report.created,
            "reason": report.reason,
            "unchanged_since": report.unchanged_since,
            "new_gaps": [gap_record(gap) for gap in report.new_gaps],
        },
    )


def list_document(checkpoints: Iterable[Checkpoint]) -> Document:
    """Return the document of a list."""
    return document("list", {"checkpoints": [checkpoint_record(one) for one in checkpoints]})


def show_document(checkpoint: Checkpoint, *, entries: Sequence[ListedEntry] | None) -> Document:
    """Return the document of one checkpoint, with its entries where they were asked for."""
    fields: Document = {"checkpoint": checkpoint_record(checkpoint)}
    if entries is not None:
        fields["entries"] = [{**entry.as_dict(), "path": path_value(entry.path)} for entry in entries]
    return document("show", fields)


def diff_document(report: DiffReport) -> Document:
    """Return the document of a comparison."""
    fields: Document = {
        "from": report.from_,
        "to": report.to,
        "files": [file_diff_record(one) for one in report.files],
    }
    if report.patch is not None:
        fields["patch"] = path_value(report.patch)
    return document("diff", fields)


def restore_document(verb: str, report: RestoreReport) -> Document:
    """Return the document of a restore or rewind, carried out or only planned."""
    moved = report.head_moved
    return document(
        verb,
        {
            "plan": report.plan,
            "target": report.target,
            "guard": report.guard,
            "operation": report.operation,
            "dry_run": report.dry_run,
            "scopes": list(report.scopes),
            "counts": report.counts,
            "files": [outcome_record(outcome) for outcome in report.outcomes],
            "head_moved": None
            if moved is None
            else {"commits": moved.commits, "from": moved.from_, "to": moved.to},
            "irreversible": [],
            "conversation": None,
            "progress": None,
            "directory": None if report.directory is None else folder_value(report.directory),
        },
    )


def planned_outcomes(plan: RestorePlan) -> tuple[Outcome, ...]:
    """Return the lines of a report on a plan that is not carried out."""
    return tuple(
        Outcome(
            path=step.path,
            action=step.action,
            result="kept" if step.action == "keep" else "skipped" if step.action == "skip" else "planned",
            reason=step.reason,
        )
        for step in plan.steps
    )


def undo_document(
    verb: str, report: UndoReport | None, *, operations: Sequence[Operation] | None = None
) -> Document:
    """Return the document of an undo or redo, or of the list of operations."""
    fields: Document = {
        "operation": None if report is None else operation_record(report.operation),
        "guard": None if report is None else report.guard,
        "files": [] if report is None else [outcome_record(one) for one in report.outcomes],
    }
    if operations is not None:
        fields["operations"] = [operation_record(one) for one in operations]
    return document(verb, fields)


def delete_document(verb: str, report: DeleteReport) -> Document:
    """Return the document of a delete (or of forgetting a workspace)."""
    return document(
        verb,
        {
            "operation": operation_record(report.operation),
            "deleted": list(report.checkpoints),
            "free_after": iso(report.free_after),
        },
    )


def status_document(report: StatusReport) -> Document:
    """Return the document of a status."""
    return document(
        "status",
        {
            "workspace": folder_value(report.workspace),
            "store": folder_value(report.store),
            "state": report.state,
            "session": None,
            "position": None,
            "latest": None if report.latest is None else checkpoint_record(report.latest),
            "drift": None if report.drift is None else report.drift.as_dict(),
            "gaps": [gap_record(gap) for gap in report.gaps],
            "durability": report.durability,
            "resident": report.resident,
            "checkpoints": report.checkpoints,
            "store_bytes": report.store_bytes,
            "health": [note.as_dict() for note in report.health],
        },
    )


def recover_document(report: RecoverReport) -> Document:
    """Return the document of a recovery."""
    return document(
        "recover",
        {
            "state": report.state,
            "session": None,
            "checkpoint": None if report.checkpoint is None else checkpoint_record(report.checkpoint),
            "position": None,
            "tasks": [],
            "unknown_effects": [],
            "live_processes": [],
            "git_matches": report.git_matches,
            "done": report.done,
            "files": [outcome_record(one) for one in report.outcomes],
        },
    )


def verify_document(report: VerifyReport) -> Document:
    """Return the document of a verification."""
    return document(
        "verify",
        {
            "ok": report.ok,
            "checkpoints": report.checkpoints,
            "damaged": [
                {"id": one.id, "files": [path_value(path) for path in one.files], "reason": one.reason}
                for one in report.damaged
            ],
            "repaired": [text_value(one) for one in report.repaired],
            "faults": [text_value(one) for one in report.faults],
            "unreferenced_bytes": report.unreferenced_bytes,
        },
    )


def workspace_record(summary: WorkspaceSummary) -> Document:
    """Return a workspace of the store."""
    return {
        "key": summary.key,
        "path": folder_value(summary.path),
        "checkpoints": summary.checkpoints,
        "present": summary.present,
        "latest": None if summary.latest is None else checkpoint_record(summary.latest),
    }


def checkpoint_record(checkpoint: Checkpoint) -> Document:
    """Return a checkpoint."""
    manifest = checkpoint.manifest
    return {
        "id": checkpoint.id,
        "short_id": checkpoint.short_id,
        "name": checkpoint.name,
        "message": text_value(manifest.message),
        "kind": manifest.kind,
        "created_at": iso(manifest.created_at),
        "sequence": checkpoint.sequence,
        "workspace": folder_value(manifest.workspace),
        "session": None,
        "previous": manifest.previous,
        "commit": checkpoint.commit,
        "tree": manifest.root.tree,
        "changes": manifest.changes.as_dict(),
        "files": manifest.files,
        "bytes": manifest.size,
        "ignored": manifest.ignored,
        "gaps": [gap_record(gap) for gap in manifest.gaps],
        "partial": manifest.partial,
        "good": checkpoint.good,
        "check": None if checkpoint.check is None else _check_record(checkpoint.check),
        "pinned": checkpoint.pinned,
        "actor": _actor_record(manifest.actor),
        "position": None,
        "progress": None,
        "git": None if manifest.git is None else git_record(manifest.git),
        "metrics": manifest.metrics.as_dict(),
        "conversation": None,
        "metadata": {text_value(key): text_value(value) for key, value in manifest.metadata.items()},
        "damaged": checkpoint.damaged,
        "recovered": checkpoint.recovered,
    }


def operation_record(operation: Operation) -> Document:
    """Return an operation, without its steps."""
    record: Document = {
        "id": operation.id,
        "type": operation.type,
        "at": iso(operation.at),
        "target": operation.target,
        "guard": operation.guard,
        "undone": operation.undone,
    }
    if operation.checkpoints:
        record["checkpoints"] = list(operation.checkpoints)
    if operation.of is not None:
        record["of"] = operation.of
    return record


def outcome_record(outcome: Outcome) -> Document:
    """Return what became of one path."""
    record: Document = {
        "path": path_value(outcome.path),
        "action": outcome.action,
        "result": outcome.result,
    }
    if outcome.reason is not None:
        record["reason"] = text_value(outcome.reason)
    return record


def file_diff_record(difference: FileDiff) -> Document:
    """Return one path that differs."""
    record: Document = {**difference.as_dict(), "path": path_value(difference.path)}
    if difference.old_path is None:
        del record["old_path"]
    else:
        record["old_path"] = path_value(difference.old_path)
    return record


def _actor_record(actor: Actor) -> Document:
    record: Document = {"type": actor.type}
    if actor.name is not None:
        record["name"] = text_value(actor.name)
    if actor.call is not None:
        record["call"] = text_value(actor.call)
    return record


def _check_record(check: Check) -> Document:
    return {**check.as_dict(), "output_tail": text_value(check.output_tail)}
