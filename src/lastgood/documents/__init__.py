"""What the verbs return, as the published JSON documents (one document a verb).

Each verb loads only the module of its own documents.
"""

from __future__ import annotations

from lastgood.model.canonical import iso, path_value
from lastgood.model.checkpoint import gap_record, git_record
from lastgood.model.session import position_record, shown_progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lastgood.errors import LastgoodError
    from lastgood.model.checkpoint import Actor, Check, Checkpoint, Conversation
    from lastgood.model.operation import Operation, Outcome
    from lastgood.model.report import (
        DeleteReport,
        DiffReport,
        FileDiff,
        ListedEntry,
        SaveReport,
        StatusReport,
        VerifyReport,
        WorkspaceSummary,
    )
    from lastgood.model.session import Effect, Progress, Session, SessionReport, SessionState

    Document = dict[str, object]


# --- Checkpoints, operations and paths as the published JSON has them ---


def text_value(text: str) -> str:
    """Return text without lone surrogates (which stand for bytes that are not UTF-8)."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def plain_value(value: object) -> object:
    """Return a value with every text in it that is not UTF-8 as its bytes."""
    if isinstance(value, str):
        if value.isascii():
            return value
        try:
            return path_value(value.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:  # a surrogate that stands for no byte
            return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key: plain_value(one) for key, one in value.items()}
    return [plain_value(one) for one in value] if isinstance(value, list | tuple) else value


def folder_value(path: str) -> object:
    """Return the path of a folder as JSON."""
    return path_value(path.encode("utf-8", "surrogateescape"))


def checkpoint_record(checkpoint: Checkpoint) -> Document:
    """Return a checkpoint."""
    manifest = checkpoint.manifest
    return {
        "id": checkpoint.id,
        "short_id": checkpoint.short_id,
        "name": checkpoint.name,
        "message": text_value(manifest.message),
        "kind": manifest.kind,
        "created_at": iso(manifest.created_at),
        "sequence": checkpoint.sequence,
        "workspace": folder_value(manifest.workspace),
        "session": manifest.session,
        "previous": manifest.previous,
        "commit": checkpoint.commit,
        "tree": manifest.root.tree,
        "changes": manifest.changes.as_dict(),
        "files": manifest.files,
        "bytes": manifest.size,
        "ignored": manifest.ignored,
        "gaps": [gap_record(gap) for gap in manifest.gaps],
        "partial": manifest.partial,
        "good": checkpoint.good,
        "check": None if checkpoint.check is None else check_record(checkpoint.check),
        "pinned": checkpoint.pinned,
        "actor": _actor_record(manifest.actor),
        "task": manifest.task,
        "moment": manifest.moment,
        "position": position_value(manifest.progress),
        "progress": None if manifest.progress.empty else shown_progress(manifest.progress),
        "git": None if manifest.git is None else plain_value(git_record(manifest.git)),
        "metrics": manifest.metrics.as_dict(),
        "conversation": None if manifest.conversation is None else conversation_record(manifest.conversation),
        "metadata": {text_value(key): text_value(value) for key, value in manifest.metadata.items()},
        "damaged": checkpoint.damaged,
        "recovered": checkpoint.recovered,
    }


def position_value(progress: Progress) -> Document | None:
    """Return where in its workflow the work stands; None if nobody said."""
    return None if progress.position.empty else position_record(progress.position)


def conversation_record(conversation: Conversation) -> Document:
    """Return how much of a conversation a checkpoint holds."""
    record: Document = {"messages": conversation.messages, "bytes": conversation.size}
    if conversation.source is not None:
        record["source"] = path_value(conversation.source)
    return record


def session_record(session: Session, progress: Progress, *, state: SessionState) -> Document:
    """Return a session; ``state`` is the one that counts now."""
    owner = session.owner
    return {
        "id": session.id,
        "state": state,
        "goal": None if session.goal is None else text_value(session.goal),
        "sprint": session.sprint,
        "owner": {"host": owner.host, "pid": owner.pid, "command": owner.command},
        "started_at": iso(session.started_at),
        "heartbeat_at": iso(session.heartbeat_at),
        "ended_at": None if session.ended_at is None else iso(session.ended_at),
        "ended_by": session.ended_by,
        "exclusive": session.exclusive,
        "took_over": session.took_over,
        "position": position_value(progress),
        "progress": shown_progress(progress),
    }


def effect_record(effect: Effect) -> Document:
    """Return a step of the work."""
    return {
        "id": effect.id,
        "name": text_value(effect.name),
        "task": effect.task,
        "attempt": effect.attempt,
        "irreversible": effect.irreversible,
        "state": effect.state,
        "session": effect.session,
        "started_at": iso(effect.started_at),
        "ended_at": None if effect.ended_at is None else iso(effect.ended_at),
    }


def operation_record(operation: Operation) -> Document:
    """Return an operation, without its steps."""
    record: Document = {
        "id": operation.id,
        "type": operation.type,
        "at": iso(operation.at),
        "target": operation.target,
        "guard": operation.guard,
        "undone": operation.undone,
    }
    if operation.checkpoints:
        record["checkpoints"] = list(operation.checkpoints)
    if operation.of is not None:
        record["of"] = operation.of
    return record


def outcome_record(outcome: Outcome) -> Document:
    """Return what became of one path."""
    record: Document = {
        "path": path_value(outcome.path),
        "action": outcome.action,
        "result": outcome.result,
    }
    if outcome.reason is not None:
        record["reason"] = text_value(outcome.reason)
    if outcome.kept is not None:
        record["kept"] = path_value(outcome.kept)
    if outcome.left is not None:
        record["left"] = path_value(outcome.left)
    return record


def file_diff_record(difference: FileDiff) -> Document:
    """Return one path that differs."""
    record: Document = {**difference.as_dict(), "path": path_value(difference.path)}
    if difference.old_path is None:
        del record["old_path"]
    else:
        record["old_path"] = path_value(difference.old_path)
    return record


def workspace_record(summary: WorkspaceSummary) -> Document:
    """Return a workspace of the store."""
    return {
        "key": summary.key,
        "path": folder_value(summary.path),
        "checkpoints": summary.checkpoints,
        "present": summary.present,
        "stored_bytes": summary.stored_bytes,
        "latest": None if summary.latest is None else checkpoint_record(summary.latest),
    }


def _actor_record(actor: Actor) -> Document:
    record: Document = {"type": actor.type}
    if actor.name is not None:
        record["name"] = text_value(actor.name)
    if actor.call is not None:
        record["call"] = text_value(actor.call)
    return record


def check_record(check: Check) -> Document:
    """Return what came of a check command."""
    return {
        **check.as_dict(),
        "command": text_value(check.command),
        "output_tail": text_value(check.output_tail),
    }


# --- What the verbs return, as the published JSON documents (one document a verb) ---


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
