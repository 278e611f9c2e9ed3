"""The conversation as a part of a restore: a new transcript beside the original, which stays (rule T11).

A host that runs has its conversation in memory and goes on writing its own file: to change that would
help nobody. A copy under a new session id, cut at the checkpoint, is what the host can resume.
"""

from __future__ import annotations

from lastgood.conversation import reader
from lastgood.conversation.reader import blobs
from lastgood.errors import Conflict, Invalid, LastgoodError, NotFound, Unsafe
from lastgood.model.canonical import path_value
from lastgood.model.operation import Part, PartOutcome
from lastgood.paths import to_bytes
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lastgood.context import Context
    from lastgood.model.checkpoint import Checkpoint, Conversation
    from lastgood.transaction import RestoreTransaction

_HOSTS = frozenset({"claude-code", "codex"})
_MOST_COPIES = 10_000
_NOTE = "a session that is running keeps its later messages; this one goes on from the checkpoint"


def plan(context: Context, target: Checkpoint) -> Part | None:
    """Return the transcript that would be written; None where there is none to write (see `remark`)."""
    found = _decide(context, target)
    return found if isinstance(found, Part) else None


def remark(context: Context, target: Checkpoint) -> str | None:
    """Return why a checkpoint's conversation takes no new transcript; None if it would take one."""
    found = _decide(context, target)
    return found if isinstance(found, str) else None


def refuse(context: Context, part: Part) -> None:
    """Refuse to write where there is something else by now, or no fit folder."""
    if not part.after:
        return  # what was continued since is kept when it comes to that
    path = _path(part.after)
    context.transcripts.beside(path)
    if _presence(context, part.after) == "different":
        raise Conflict(
            "something else lies where the conversation was to go",
            hint="plan the restore anew",
            details={"transcript": path_value(path)},
        )


def settle(restoring: RestoreTransaction, part: Part) -> PartOutcome:
    """Write the transcript, or take it away again unless somebody went on with it; can be repeated."""
    try:
        restoring.transcripts.tidy(_path(part.after or part.before))
        return _written(restoring, part.after) if part.after else _removed(restoring, part.before)
    except LastgoodError as error:
        return PartOutcome(scope="conversation", result="failed", reason=error.message)


def _decide(context: Context, target: Checkpoint) -> Part | str:
    held = target.manifest.conversation
    if held is None or held.form not in _HOSTS or held.source is None:
        return "it comes back as messages: it is no transcript of a host that is known"
    old = reader.session_in(held.form, held.source)
    if old is None:
        return "it comes back as messages: its file does not lie in its host's folder"
    try:
        folder = context.transcripts.beside(held.source)
    except (NotFound, Unsafe) as error:
        return f"it comes back as messages: {error.message}"
    original = folder + b"/" + held.source.rpartition(b"/")[2]
    if reader.session_in(held.form, original) is None:
        return "it comes back as messages: a link leads out of its host's folder"
    if _is_whole(context, held):
        return "the transcript holds just this already"
    return _copy(context, held, original=original, old=old, checkpoint=target.id)


def _is_whole(context: Context, held: Conversation) -> bool:
    """Tell whether the original is exactly what the checkpoint holds of it."""
    try:
        file = context.transcripts.open(held.source or b"")
    except (NotFound, Invalid):
        return False
    try:
        if file.place().size != held.size:
            return False
        offset = 0
        for oid in blobs(context.engine, held.tree):
            content = context.engine.read_blob(oid)
            if file.read(offset, len(content)) != content:
                return False
            offset += len(content)
    except Invalid:
        return False
    finally:
        file.close()
    return True


def _copy(context: Context, held: Conversation, *, original: bytes, old: str, checkpoint: str) -> Part:
    """Return the part that writes a copy; the same as long as nothing changes, so that plans have one id."""
    from hashlib import sha256

    for number in range(_MOST_COPIES):
        seed = sha256(b"%b\0%b\0%d" % (checkpoint.encode(), original, number)).digest()[:16]
        new = reader.fork_id(held.form, seed, old=old)
        path = reader.fork_name(held.form, original, old=old, new=new)
        if context.transcripts.present(path, size=-1, digest=b"") == "absent":
            break
    else:
        raise Unsafe("there are too many copies of this conversation", hint="remove those not needed")
    running, size = sha256(), 0
    for piece in _pieces(context, held.tree, old=old, new=new):
        running.update(piece)
        size += len(piece)
    return Part(
        scope="conversation",
        before={},
        after={
            "form": held.form,
            "tree": held.tree,
            "messages": held.messages,
            "old": old,
            "session": new,
            "transcript": path_value(path),
            "bytes": size,
            "sha256": running.hexdigest(),
            "resume_command": reader.resume_command(held.form, new),
            "note": _NOTE,
        },
    )


def _pieces(context: Context, tree: str, *, old: str, new: str) -> Iterator[bytes]:
    """Yield a conversation as it is, but for the name of its session; it ends with its last line."""
    rest = b""
    for oid in blobs(context.engine, tree):
        rest += context.engine.read_blob(oid)
        whole = rest.rfind(b"\n") + 1
        if whole:
            yield reader.renamed(rest[:whole], old=old, new=new)
            rest = rest[whole:]
    if rest:
        yield reader.renamed(rest, old=old, new=new) + b"\n"


def _written(restoring: RestoreTransaction, after: Mapping[str, object]) -> PartOutcome:
    context = restoring.context
    found = _presence(context, after)
    if found == "different":
        return PartOutcome(
            scope="conversation", result="failed", reason="something else lies where it was to go"
        )
    if found == "absent":
        path = _path(after)
        context.transcripts.beside(path)
        pieces = _pieces(context, str(after["tree"]), old=str(after["old"]), new=str(after["session"]))
        restoring.transcripts.place(path, pieces)
    details = {key: after[key] for key in ("messages", "transcript", "resume_command", "note")}
    return PartOutcome(scope="conversation", result="restored", details=details)


def _removed(restoring: RestoreTransaction, before: Mapping[str, object]) -> PartOutcome:
    details = {"transcript": before["transcript"]}
    found = _presence(restoring.context, before)
    if found == "different":
        return PartOutcome(
            scope="conversation",
            result="kept",
            reason="the transcript was continued since it was written, so it stays",
            details=details,
        )
    if found == "same":
        restoring.transcripts.remove(_path(before))
    return PartOutcome(scope="conversation", result="restored", details=details)


def _presence(context: Context, side: Mapping[str, object]) -> str:
    size, digest = side["bytes"], bytes.fromhex(str(side["sha256"]))
    return context.transcripts.present(_path(side), size=cast("int", size), digest=digest)


def _path(side: Mapping[str, object]) -> bytes:
    value = side["transcript"]
    if isinstance(value, dict):
        from binascii import a2b_base64

        return a2b_base64(str(value["bytes"]).encode("ascii"))
    return to_bytes(str(value))
