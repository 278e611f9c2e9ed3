"""The document of a report on what was done (rule K5)."""

from __future__ import annotations

from lastgood.documents import document, record, text_value
from lastgood.model.canonical import iso
from lastgood.redaction import redact_value
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.activity import Activity

    Document = dict[str, object]


def report_document(activity: Activity, *, detailed: bool) -> Document:
    """Return the document of a report; ``detailed`` adds every task, step and checkpoint.

    It is made to be passed on: known shapes of secrets are redacted (rule S17).
    """
    states = [one.report.state for one in activity.sessions]
    fields = record(activity) | {
        "period": {
            "name": activity.period,
            "from": None if activity.since is None else iso(activity.since),
            "to": iso(activity.until),
        },
        "sessions": {
            "total": len(states),
            **{state: states.count(state) for state in ("active", "ended", "incomplete")},
            "seconds": activity.seconds,
            "list": [record(one) for one in activity.sessions],
        },
        "features": {"completed": [text_value(one) for one in activity.features]},
    }
    if detailed:
        fields["tasks_list"] = [record(one) | {"id": text_value(one.task.id)} for one in activity.worked]
        fields["effects"] = [record(one) for one in activity.effects]
        fields["timeline"] = [record(one) for one in activity.marks]
    return document("report", cast("Document", redact_value(fields)))
