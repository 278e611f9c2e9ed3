"""The documents of recoveries and of checks."""

from __future__ import annotations

from lastgood.codec.canonical import path_value
from lastgood.codec.progress import position_record, shown_progress
from lastgood.codec.report.documents import document
from lastgood.codec.report.records import (
    check_record,
    checkpoint_record,
    effect_record,
    outcome_record,
    session_record,
    text_value,
)
from lastgood.codec.report.restoring import part_outcome_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.recovery import RecoverReport
    from lastgood.model.session import SessionReport
    from lastgood.model.verdict import CheckReport

    Document = dict[str, object]


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
