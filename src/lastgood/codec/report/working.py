"""What the verbs about the work return, as the published JSON documents."""

from __future__ import annotations

from lastgood.codec.moment import iso
from lastgood.codec.progress import shown_progress
from lastgood.codec.report.documents import document
from lastgood.codec.report.records import checkpoint_record, effect_record, position_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.progress import Task
    from lastgood.model.working import ProgressReport

    Document = dict[str, object]


def progress_document(verb: str, report: ProgressReport) -> Document:
    """Return the document of a verb that changes or shows progress."""
    fields: Document = {
        "session": report.session,
        "position": position_value(report.progress),
        "progress": shown_progress(report.progress),
        "checkpoint": None if report.saved is None else checkpoint_record(report.saved.checkpoint),
        "unknown_effects": [effect_record(one) for one in report.unknown],
    }
    if report.task is not None:
        fields["task"] = task_record(report.task)
    return document(verb, fields)


def task_record(task: Task) -> Document:
    """Return a task of the work."""
    return {
        **task.as_dict(),
        "started_at": None if task.started_at is None else iso(task.started_at),
        "ended_at": None if task.ended_at is None else iso(task.ended_at),
    }
