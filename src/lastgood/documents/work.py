"""What the verbs about the work return, as the published JSON documents."""

from __future__ import annotations

from lastgood.documents import (
    checkpoint_record,
    document,
    effect_record,
    folder_value,
    position_value,
    text_value,
)
from lastgood.model.canonical import iso, path_value
from lastgood.model.session import shown_progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.report import ProgressReport
    from lastgood.model.run import RunEvent, RunReport
    from lastgood.model.session import Task

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


# --- What a run tells, one JSON document a line ---

_PLAIN = ("attempt", "checkpoint", "kind", "good", "exit_code", "seconds")
_TEXTS = ("task", "sprint", "line", "reason")


def event_document(event: RunEvent, report: RunReport | None = None) -> Document:
    """Return one line: what happened, with those of its fields that are set.

    The last line carries the report, too.
    """
    fields: Document = {"event": event.type, "at": iso(event.at), "session": event.session}
    fields |= {name: value for name in _PLAIN if (value := getattr(event, name)) is not None}
    fields |= {name: text_value(value) for name in _TEXTS if (value := getattr(event, name)) is not None}
    if event.paths:
        fields["paths"] = [path_value(path) for path in event.paths]
    if event.continued:
        fields["continued"] = True
    if event.tasks:
        fields["tasks"] = [task_record(task) for task in event.tasks]
    if report is not None:
        fields["report"] = report_record(report)
    return document("run", fields)


def reviewed_document(report: RunReport, *, at: int) -> Document:
    """Return the line of a run that was looked at and not carried out."""
    return document("run", {"event": "reviewed", "at": iso(at), "report": report_record(report)})


def report_record(report: RunReport) -> Document:
    """Return what came of a run."""
    return {
        "session": report.session,
        "state": report.state,
        "goal": None if report.plan.goal is None else text_value(report.plan.goal),
        "continued": report.continued,
        "tasks": [task_record(task) for task in report.tasks],
        "checkpoint": report.checkpoint,
        "seconds": report.seconds,
        "exit_code": report.exit_code,
        "signal": report.signal,
        "reason": None if report.reason is None else text_value(report.reason),
        "unknown_effects": [effect_record(one) for one in report.unknown_effects],
        "live_processes": [
            {"pid": one.pid, "command": text_value(one.command)} for one in report.live_processes
        ],
        "outputs": None if report.outputs is None else folder_value(report.outputs),
    }
