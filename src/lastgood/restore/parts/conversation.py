"""The conversation as a part of a restore: a new transcript beside the original, which stays (rule T11).

A host that runs has its conversation in memory and goes on writing its own file: to change that would
help nobody. A copy under a new session id, cut at the checkpoint, is what the host can resume.
"""

from __future__ import annotations

from lastgood.conversation import copies, reader
from lastgood.conversation.capture import stands_as_kept
from lastgood.conversation.copies import Copying
from lastgood.conversation.reader import blobs
from lastgood.errors import Conflict, Damaged, Invalid, LastgoodError, NotFound, Unsafe
from lastgood.model.canonical import PATH, path_value
from lastgood.model.operation import Part, PartOutcome
from lastgood.paths import printable, to_text
from lastgood.value import Value, cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.context import Context
    from lastgood.conversation.copies import Copy
    from lastgood.literals import ConversationForm
    from lastgood.model.checkpoint import Checkpoint, Conversation
    from lastgood.transaction import RestoreTransaction

_MOST_COPIES = 10_000
_NOTE = "a session that is running keeps its later messages; this one goes on from the checkpoint"


class Remark(Value):
    """Why a checkpoint's conversation takes no new transcript, with what to do then.

    ``resume_command`` goes on with the one that is there, if that holds just what the checkpoint does.
    """

    note: str
    hint: str | None = None
    resume_command: str | None = None


def plan(context: Context, target: Checkpoint) -> tuple[Part, ...] | PartOutcome:
    """Return the transcript that would be written.

    Nothing where there is none to write (see `remark`); that it stays, if what is to be in it cannot be read.
    """
    found = _decide(context, target)
    if isinstance(found, PartOutcome):
        return found
    return (found,) if isinstance(found, Part) else ()


def remark(context: Context, target: Checkpoint) -> Remark | None:
    """Return why a checkpoint's conversation takes no new transcript; None if it would take one."""
    found = _decide(context, target)
    return found if isinstance(found, Remark) else None


def refuse(context: Context, part: Part) -> None:
    """Refuse to write where there is something else by now, or no fit folder."""
    if not part.after:
        return  # what was continued since is kept when it comes to that
    _folder(context, str(part.after["form"]), _path(part.after))
    for one in _files(part.after):
        if _presence(context, one, of=part.after) == "different":
            raise Conflict(
                "something else lies where the conversation was to go",
                hint="plan the restore anew",
                details={"transcript": path_value(_path(one))},
            )


def settle(restoring: RestoreTransaction, part: Part) -> PartOutcome:
    """Write the transcript, or take it away again unless somebody went on with it; can be repeated."""
    try:
        for one in _files(part.after or part.before):
            restoring.transcripts.tidy(_path(one))
        return _written(restoring, part.after) if part.after else _removed(restoring, part.before)
    except LastgoodError as error:
        return PartOutcome(scope="conversation", result="failed", reason=error.message)


def _decide(context: Context, target: Checkpoint) -> Part | Remark | PartOutcome:
    try:
        return _copy_or_remark(context, target)
    except Damaged as error:
        reason = f"that of {target.short_id} cannot be read: {error.message}"
        return PartOutcome(scope="conversation", result="kept", reason=reason)


def _copy_or_remark(context: Context, target: Checkpoint) -> Part | Remark:
    held = target.manifest.conversation
    if held is None or held.form not in reader.FOLDERS or held.source is None:
        return _as_messages(target, "lastgood writes no conversations for that agent")
    head = reader.first_line(context.engine, held.tree)
    old = reader.session_in(held.form, held.source, head=head)
    if old is None:
        file = printable(to_text(reader.file_of(held.form, held.source)))
        return _as_messages(target, f"{file} is not in {reader.PLACES[held.form]}, where {held.form} looks")
    try:
        source = context.transcripts.where(held.form, held.source)
        original = _original(context, held.form, source)
        if reader.session_in(held.form, original, head=head) is None:
            return _as_messages(target, "a link leads out of that agent's folder")
        if _is_whole(context, held, source):
            return Remark(
                note="it is just as it was then",
                resume_command=reader.resume_command(held.form, old),
            )
        return _copy(context, held, original=original, old=old, checkpoint=target.id)
    except (NotFound, Unsafe, Invalid) as error:
        return _as_messages(target, error.message, mend=error.details.get("mend"))


def _original(context: Context, form: str, source: bytes) -> bytes:
    """Return where a transcript really lies, in a folder that is fit for another one."""
    kept = reader.file_of(form, source)
    return _folder(context, form, kept) + source.removeprefix(kept.rpartition(b"/")[0])


def _as_messages(target: Checkpoint, why: str, *, mend: object = None) -> Remark:
    read = f"read what was said: lastgood show {target.short_id} --conversation"
    return Remark(
        note=f"is not taken back: {why}",
        hint=read if mend is None else f"fix that, and restore again: {mend}\n{read}",
    )


def _is_whole(context: Context, held: Conversation, source: bytes) -> bool:
    """Tell whether the original, with what lies beside it, is exactly what the checkpoint holds of it."""
    try:
        file = context.transcripts.open(source)
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
        return stands_as_kept(context.engine, held, file)
    except Invalid:
        return False
    finally:
        file.close()


def _copy(context: Context, held: Conversation, *, original: bytes, old: str, checkpoint: str) -> Part:
    """Return the part that writes a copy; the same as long as nothing changes, so that plans have one id."""
    from hashlib import sha256

    for number in range(_MOST_COPIES):
        seed = sha256(b"%b\0%b\0%d" % (checkpoint.encode(), original, number)).digest()[:16]
        new = reader.fork_id(held.form, seed, old=old)
        path = reader.fork_name(held.form, original, old=old, new=new)
        taken = reader.taken_name(held.form, original, new=new)
        free = context.transcripts.present(path, size=-1, digest=b"") == "absent"
        if not free or _has_taken(context, taken):
            continue
        copying = Copying(context.engine, held.form, held.tree, path=path, ids=(old, new))
        files = copying.copies()
        if all(_is_free(context, held.form, one, first=one is files[0]) for one in files):
            break
    else:
        raise Unsafe("there are too many copies of this conversation", hint="remove those not needed")
    first, *others = [_as_written(one) for one in files]
    return Part(
        scope="conversation",
        before={},
        after={
            "form": held.form,
            "tree": held.tree,
            "messages": held.messages,
            "old": old,
            "session": new,
            **first,
            **({} if taken is None else {"taken": path_value(taken)}),
            **({"beside": others} if others else {}),
            "resume_command": copying.resume_command(files),
            "note": _NOTE,
        },
    )


def _is_free(context: Context, form: str, copy: Copy, *, first: bool) -> bool:
    folders = copies.folders_of(form, first=first)
    return context.transcripts.present(copy.path, size=-1, digest=b"", folders=folders) == "absent"


def _as_written(copy: Copy) -> dict[str, object]:
    """Return what tells a file that is written, or would be, from any other."""
    from hashlib import sha256

    running, size = sha256(), 0
    for piece in copy.pieces():
        running.update(piece)
        size += len(piece)
    return {"transcript": path_value(copy.path), "bytes": size, "sha256": running.hexdigest()}


def _files(side: Mapping[str, object]) -> list[Mapping[str, object]]:
    """Return what is known of each file of a copy, the transcript's first."""
    return [side, *cast("list[Mapping[str, object]]", side.get("beside", []))]


def _written(restoring: RestoreTransaction, after: Mapping[str, object]) -> PartOutcome:
    context = restoring.context
    path = _path(after)
    form, ids = cast("ConversationForm", after["form"]), (str(after["old"]), str(after["session"]))
    copying = Copying(context.engine, form, str(after["tree"]), path=path, ids=ids)
    there = {copy.path: copy for copy in copying.copies()}
    # The transcript last: what makes the others come along is there before it.
    for one in reversed(_files(after)):
        found = _presence(context, one, of=after)
        if found == "different":
            return PartOutcome(
                scope="conversation", result="failed", reason="something else lies where it was to go"
            )
        if found == "absent":
            _folder(context, form, path)
            restoring.transcripts.place(_path(one), there[_path(one)].pieces())
    details = {key: after[key] for key in ("messages", "transcript", "resume_command", "note")}
    return PartOutcome(scope="conversation", result="restored", details=details)


def _removed(restoring: RestoreTransaction, before: Mapping[str, object]) -> PartOutcome:
    details = {"transcript": before["transcript"]}
    files = _files(before)
    found = [_presence(restoring.context, one, of=before) for one in files]
    if "different" in found:
        return PartOutcome(
            scope="conversation",
            result="kept",
            reason="the transcript was continued since it was written, so it stays",
            details=details,
        )
    for one, presence in zip(files, found, strict=True):
        if presence == "same":
            folders = copies.folders_of(str(before["form"]), first=one is before)
            restoring.transcripts.remove(_path(one), folders=folders)
    if "taken" in before and _has_taken(restoring.context, _path(before, "taken")):
        return PartOutcome(
            scope="conversation",
            result="kept",
            reason=f"{before['form']} has taken it in by now, and keeps it until it is told to delete it",
            details=details,
        )
    return PartOutcome(scope="conversation", result="restored", details=details)


def _has_taken(context: Context, path: bytes | None) -> bool:
    """Tell whether a host that takes a copy into its database has done so; False where nobody can tell."""
    if path is None:
        return False
    try:
        context.transcripts.open(path).close()
    except (NotFound, Invalid):
        return False
    return True


def _presence(context: Context, one: Mapping[str, object], *, of: Mapping[str, object]) -> str:
    size, digest = cast("int", one["bytes"]), bytes.fromhex(str(one["sha256"]))
    folders = copies.folders_of(str(of["form"]), first=one is of)
    return context.transcripts.present(_path(one), size=size, digest=digest, folders=folders)


def _folder(context: Context, form: str, path: bytes) -> bytes:
    """Return the folder of a host's transcript; what the host itself makes, its home too, may be missing."""
    return context.transcripts.beside(path, missing=reader.FOLDERS[form])


def _path(side: Mapping[str, object], key: str = "transcript") -> bytes:
    return cast("bytes", PATH.read(side[key]))
