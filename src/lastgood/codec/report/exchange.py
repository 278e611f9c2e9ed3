"""Exports and imports, as the published JSON has them."""

from __future__ import annotations

from lastgood.codec.canonical import path_value
from lastgood.codec.report.documents import document
from lastgood.codec.report.records import folder_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.exchange import ExportReport, ImportReport

    Document = dict[str, object]


def export_document(report: ExportReport) -> Document:
    """Return the document of an export."""
    return document(
        "export",
        {
            "file": folder_value(report.file),
            "bytes": report.size,
            "checkpoints": list(report.checkpoints),
            "workspaces": [folder_value(path) for path in report.workspaces],
            "sessions": report.sessions,
            "damaged": list(report.damaged),
            "books": report.books,
            "books_withheld": report.books_withheld,
            "withheld": [
                {
                    "id": one.id,
                    "paths": [path_value(path) for path in one.paths],
                    "conversation": one.conversation,
                    "redacted": one.redacted,
                }
                for one in report.withheld
            ],
        },
    )


def import_document(report: ImportReport) -> Document:
    """Return the document of an import."""
    return document(
        "import",
        {
            "file": folder_value(report.file),
            "added": list(report.checkpoints),
            "known": list(report.known),
            "reduced": list(report.reduced),
            "workspaces": [{"key": one.key, "path": folder_value(one.path)} for one in report.workspaces],
            "sessions": report.sessions,
            "books": report.books,
            "attached": None if report.attached is None else folder_value(report.attached),
        },
    )
