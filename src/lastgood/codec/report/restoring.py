"""The documents of the verbs that change the workspace."""

from __future__ import annotations

from lastgood.codec.canonical import path_value
from lastgood.codec.progress import shown_progress
from lastgood.codec.report.documents import document
from lastgood.codec.report.records import (
    effect_record,
    folder_value,
    operation_record,
    outcome_record,
    plain_value,
    text_value,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.model.operation import Operation
    from lastgood.model.part import PartOutcome
    from lastgood.model.report import (
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
