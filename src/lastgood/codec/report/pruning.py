"""What a prune decided and did, as the published JSON has it."""

from __future__ import annotations

from lastgood.codec.moment import iso
from lastgood.codec.report.documents import document
from lastgood.codec.report.records import operation_record, text_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.prune import Decision, PruneReport

    Document = dict[str, object]


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
