"""What the verbs return, as the published JSON documents (one document a verb)."""

from __future__ import annotations

from lastgood.codec.canonical import path_value
from lastgood.codec.manifest import gap_record
from lastgood.codec.moment import iso
from lastgood.codec.progress import position_record
from lastgood.codec.report.records import (
    checkpoint_record,
    file_diff_record,
    folder_value,
    operation_record,
    plain_value,
    session_record,
    text_value,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lastgood.errors import LastgoodError
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.report import (
        DeleteReport,
        DiffReport,
        ListedEntry,
        SaveReport,
        StatusReport,
        VerifyReport,
    )
    from lastgood.model.session import SessionReport

    Document = dict[str, object]


def document(verb: str, fields: Document) -> Document:
    """Return the document of a verb: its fields under the schema ``lastgood.VERB/1``."""
    return {"schema": f"lastgood.{verb}/1", **fields}


def error_document(error: LastgoodError) -> Document:
    """Return the document of a failure."""
    return document(
        "error",
        {
            "error": {
                "code": error.code,
                "message": text_value(error.message),
                "hint": text_value(error.hint),
                "details": plain_value(error.details),
            }
        },
    )


def save_document(report: SaveReport) -> Document:
    """Return the document of a save."""
    return document(
        "save",
        {
            "checkpoint": checkpoint_record(report.checkpoint),
            "created": report.created,
            "reason": report.reason,
            "unchanged_since": report.unchanged_since,
            "new_gaps": [gap_record(gap) for gap in report.new_gaps],
            "notes": [note.as_dict() for note in report.notes],
        },
    )


def list_document(checkpoints: Iterable[Checkpoint]) -> Document:
    """Return the document of a list."""
    return document("list", {"checkpoints": [checkpoint_record(one) for one in checkpoints]})


def show_document(
    checkpoint: Checkpoint,
    *,
    entries: Sequence[ListedEntry] | None,
    messages: Sequence[Document] | None = None,
) -> Document:
    """Return the document of one checkpoint, with its entries and messages where they were asked for.

    Messages have to be redacted already (rule S17).
    """
    fields: Document = {"checkpoint": checkpoint_record(checkpoint)}
    if entries is not None:
        fields["entries"] = [{**entry.as_dict(), "path": path_value(entry.path)} for entry in entries]
    if messages is not None:
        fields["messages"] = list(messages)
    return document("show", fields)


def diff_document(report: DiffReport) -> Document:
    """Return the document of a comparison."""
    fields: Document = {
        "from": report.from_,
        "to": report.to,
        "files": [file_diff_record(one) for one in report.files],
    }
    if report.patch is not None:
        fields["patch"] = path_value(report.patch)
    fields["unmatched"] = [
        {
            "path": path_value(one.path),
            "left_out": one.left_out,
            "near": None if one.near is None else path_value(one.near),
        }
        for one in report.unmatched
    ]
    return document("diff", fields)


def status_document(report: StatusReport) -> Document:
    """Return the document of a status."""
    return document(
        "status",
        {
            "workspace": folder_value(report.workspace),
            "store": folder_value(report.store),
            "state": report.state,
            "session": None if report.session is None else _session(report.session),
            "position": None if report.position is None else position_record(report.position),
            "sessions": [_session(one) for one in report.sessions],
            "incomplete": [_session(one) for one in report.incomplete],
            "latest": None if report.latest is None else checkpoint_record(report.latest),
            "drift": None if report.drift is None else report.drift.as_dict(),
            "gaps": [gap_record(gap) for gap in report.gaps],
            "durability": report.durability,
            "resident": report.resident,
            "checkpoints": report.checkpoints,
            "store_bytes": report.store_bytes,
            "store_parts": report.store_parts.as_dict(),
            "health": [note.as_dict() for note in report.health],
        },
    )


def _session(report: SessionReport) -> Document:
    return session_record(report.session, report.progress, state=report.state)


def verify_document(report: VerifyReport) -> Document:
    """Return the document of a verification."""
    return document(
        "verify",
        {
            "ok": report.ok,
            "checkpoints": report.checkpoints,
            "damaged": [
                {"id": one.id, "files": [path_value(path) for path in one.files], "reason": one.reason}
                for one in report.damaged
            ],
            "repaired": [text_value(one) for one in report.repaired],
            "faults": [text_value(one) for one in report.faults],
            "unreferenced_bytes": report.unreferenced_bytes,
            "unlisted": report.unlisted,
        },
    )


def delete_document(verb: str, report: DeleteReport) -> Document:
    """Return the document of a delete (or of forgetting a workspace)."""
    return document(
        verb,
        {
            "operation": operation_record(report.operation),
            "deleted": list(report.checkpoints),
            "free_after": iso(report.free_after),
            "needed": dict(report.needed),
        },
    )
