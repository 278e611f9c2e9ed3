"""The documents of recoveries and of checks."""

from __future__ import annotations

from lastgood.codec.report.documents import document
from lastgood.codec.report.records import check_record, checkpoint_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.verdict import CheckReport

    Document = dict[str, object]


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
