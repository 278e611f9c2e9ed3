"""The documents of the verbs that change the workspace."""

from __future__ import annotations

from lastgood.documents import (
    check_record,
    checkpoint_record,
    document,
    effect_record,
    folder_value,
    operation_record,
    outcome_record,
    plain_value,
    session_record,
    text_value,
)
from lastgood.model.canonical import iso, path_value
from lastgood.model.session import position_record, shown_progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.model.checkpoint import CheckReport
    from lastgood.model.exchange import ExportReport, ImportReport
    from lastgood.model.operation import Operation, PartOutcome
    from lastgood.model.report import RestoreReport, UndoReport
    from lastgood.model.run import RecoverReport
    from lastgood.model.session import SessionReport
    from lastgood.retention.policy import Decision, PruneReport

    Document = dict[str, object]


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
            "irreversible": [effect_record(effect) for effect in report.irreversible],
            "conversation": None if report.conversation is None else dict(report.conversation),
            "progress": None if report.progress is None else shown_progress(report.progress),
            "parts": [part_outcome_record(part) for part in report.parts],
            "conflicts": [path_value(path) for path in report.conflicts],
            "directory": None if report.directory is None else folder_value(report.directory),
        },
    )


def part_outcome_record(part: PartOutcome) -> Document:
    """Return what became of a part."""
    record: Document = {"scope": part.scope, "result": part.result}
    if part.reason is not None:
        record["reason"] = text_value(part.reason)
    if part.details:
        record["details"] = plain_value(dict(part.details))
    return record


def undo_document(
    verb: str, report: UndoReport | None, *, operations: Sequence[Operation] | None = None
) -> Document:
    """Return the document of an undo or redo, or of the list of operations."""
    fields: Document = {
        "operation": None if report is None else operation_record(report.operation),
        "guard": None if report is None else report.guard,
        "files": [] if report is None else [outcome_record(one) for one in report.outcomes],
        "parts": [] if report is None else [part_outcome_record(one) for one in report.parts],
    }
    if operations is not None:
        fields["operations"] = [operation_record(one) for one in operations]
    return document(verb, fields)


# --- The documents of recoveries and of checks ---


def recover_document(report: RecoverReport) -> Document:
    """Return the document of a recovery."""
    moved, restored, position = report.head_moved, report.restored, report.progress.position
    return document(
        "recover",
        {
            "state": report.state,
            "session": None if report.session is None else _session(report.session),
            "checkpoint": None if report.checkpoint is None else checkpoint_record(report.checkpoint),
            "returned": report.returned,
            "position": None if position.empty else position_record(position),
            "progress": None if report.progress.empty else shown_progress(report.progress),
            "tasks": shown_progress(report.progress)["tasks"],
            "unknown_effects": [effect_record(one) for one in report.unknown_effects],
            "irreversible": [effect_record(one) for one in report.irreversible],
            "live_processes": [
                {"pid": one.pid, "command": text_value(one.command)} for one in report.live_processes
            ],
            "git_matches": report.git_matches,
            "head_moved": None
            if moved is None
            else {"commits": moved.commits, "from": moved.from_, "to": moved.to},
            "drift": None if report.drift is None else report.drift.as_dict(),
            "artifacts": [{"path": path_value(one.path), "state": one.state} for one in report.artifacts],
            "waiting": [_session(one) for one in report.waiting],
            "done": report.done,
            "interrupted_restore": report.interrupted_restore,
            "guard": None if restored is None else restored.guard,
            "operation": None if restored is None else restored.operation,
            "files": [outcome_record(one) for one in report.outcomes],
            "parts": [part_outcome_record(one) for one in report.parts],
            "took_over": None if report.took_over is None else report.took_over.id,
            "beside": None if report.beside is None else report.beside.id,
        },
    )


def check_document(report: CheckReport) -> Document:
    """Return the document of a check."""
    return document(
        "check",
        {
            "checkpoint": checkpoint_record(report.checkpoint),
            "good": report.good,
            "check": check_record(report.check),
            "aside": report.aside,
        },
    )


def _session(report: SessionReport) -> Document:
    return session_record(report.session, report.progress, state=report.state)


# --- What a prune decided and did, as the published JSON has it ---


def prune_document(report: PruneReport) -> Document:
    """Return the document of a prune."""
    return document(
        "prune",
        {
            "dry_run": report.dry_run,
            "keep": [_decision(one) for one in report.keep],
            "remove": [_decision(one) for one in report.remove],
            "set_aside": list(report.set_aside),
            "freed_bytes": report.freed_bytes,
            "waiting_bytes": report.waiting_bytes,
            "free_after": None if report.free_after is None else iso(report.free_after),
            "operation": None if report.operation is None else operation_record(report.operation),
            "beyond_undo": list(report.lost),
            "faults": [text_value(one) for one in report.faults],
        },
    )


def _decision(decision: Decision) -> Document:
    return {"id": decision.id, "reason": text_value(decision.reason)}


# --- Exports and imports, as the published JSON has them ---


def export_document(report: ExportReport) -> Document:
    """Return the document of an export."""
    return document(
        "export",
        {
            "file": folder_value(report.file),
            "bytes": report.size,
            "checkpoints": list(report.checkpoints),
            "workspaces": [folder_value(path) for path in report.workspaces],
            "sessions": report.sessions,
            "damaged": list(report.damaged),
            "books": report.books,
            "books_withheld": report.books_withheld,
            "withheld": [
                {
                    "id": one.id,
                    "paths": [path_value(path) for path in one.paths],
                    "conversation": one.conversation,
                    "redacted": one.redacted,
                }
                for one in report.withheld
            ],
        },
    )


def import_document(report: ImportReport) -> Document:
    """Return the document of an import."""
    return document(
        "import",
        {
            "file": folder_value(report.file),
            "added": list(report.checkpoints),
            "known": list(report.known),
            "reduced": list(report.reduced),
            "workspaces": [{"key": one.key, "path": folder_value(one.path)} for one in report.workspaces],
            "sessions": report.sessions,
            "books": report.books,
            "attached": None if report.attached is None else folder_value(report.attached),
        },
    )
