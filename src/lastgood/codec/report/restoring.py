"""The documents of the verbs that change the workspace."""

from __future__ import annotations

from lastgood.codec.report.documents import document
from lastgood.codec.report.records import checkpoint_record, folder_value, operation_record, outcome_record
from lastgood.model.plan import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.model.operation import Operation
    from lastgood.model.plan import RestorePlan
    from lastgood.model.report import (
        RecoverReport,
        RestoreReport,
        UndoReport,
    )

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
