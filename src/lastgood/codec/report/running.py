"""What a run tells, one JSON document a line."""

from __future__ import annotations

from lastgood.codec.canonical import path_value
from lastgood.codec.moment import iso
from lastgood.codec.report.documents import document
from lastgood.codec.report.records import effect_record, folder_value, text_value
from lastgood.codec.report.working import task_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.running import RunEvent, RunReport

    Document = dict[str, object]

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
