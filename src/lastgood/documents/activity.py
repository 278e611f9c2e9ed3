"""The document of a report on what was done (rule K5)."""

from __future__ import annotations

from lastgood.documents import document, effect_record, folder_value, session_record, text_value
from lastgood.model.canonical import iso
from lastgood.redaction import redact_value
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.activity import Activity, Bucket, Mark, SessionActivity, TaskCounts, WorkedTask

    Document = dict[str, object]


def report_document(activity: Activity, *, detailed: bool) -> Document:
    """Return the document of a report; ``detailed`` adds every task, step and checkpoint.

    It is made to be passed on: known shapes of secrets are redacted (rule S17).
    """
    fields: Document = {
        "workspace": folder_value(activity.workspace),
        "store": folder_value(activity.store),
        "period": {
            "name": activity.period,
            "from": None if activity.since is None else iso(activity.since),
            "to": iso(activity.until),
        },
        "session": activity.session,
        "sessions": {
            "total": len(activity.sessions),
            **{
                state: sum(one.report.state == state for one in activity.sessions)
                for state in ("active", "ended", "incomplete")
            },
            "seconds": activity.seconds,
            "list": [_session(one) for one in activity.sessions],
        },
        "tasks": _tasks(activity.tasks),
        "features": {"completed": [text_value(one) for one in activity.features]},
        "checkpoints": {
            **activity.checkpoints.as_dict(),
            "by_kind": dict(activity.checkpoints.by_kind),
        },
        "operations": dict(activity.operations),
        "tokens": activity.tokens,
        "saves": activity.saves.as_dict(),
        "sizes": activity.sizes.as_dict() | {"store_parts": activity.sizes.store_parts.as_dict()},
        "buckets": [_bucket(one) for one in activity.buckets],
        "notes": [note.as_dict() for note in activity.notes],
    }
    if detailed:
        fields["tasks_list"] = [_worked(one) for one in activity.worked]
        fields["effects"] = [effect_record(one) for one in activity.effects]
        fields["timeline"] = [_mark(one) for one in activity.marks]
    return document("report", cast("Document", redact_value(fields)))


def _session(one: SessionActivity) -> Document:
    report = one.report
    return {
        **session_record(report.session, report.progress, state=report.state),
        "seconds": one.seconds,
        "tasks": _tasks(one.tasks),
        "checkpoints": one.checkpoints,
        "stored_bytes": one.stored_bytes,
        "tokens": one.tokens,
        "memory_bytes": one.memory_bytes,
        "cpu_seconds": one.cpu_seconds,
    }


def _tasks(tasks: TaskCounts) -> Document:
    return {"total": tasks.total, **tasks.as_dict(), "success_ratio": tasks.success_ratio}


def _worked(one: WorkedTask) -> Document:
    task = one.task
    return {
        "id": text_value(task.id),
        "session": one.session,
        "state": task.state,
        "attempts": task.attempts,
        "started_at": None if task.started_at is None else iso(task.started_at),
        "ended_at": None if task.ended_at is None else iso(task.ended_at),
        "seconds": one.seconds,
    }


def _bucket(one: Bucket) -> Document:
    return {
        **one.as_dict(),
        "start": iso(one.start),
        "end": iso(one.end),
        "kinds": dict(one.kinds),
        "checkpoints": one.checkpoints,
    }


def _mark(one: Mark) -> Document:
    return {"id": one.id, "at": iso(one.at), "kind": one.kind, "title": text_value(one.title)}
