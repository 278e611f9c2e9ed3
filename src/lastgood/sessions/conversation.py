"""What the host of a session said: kept to its last whole line, and how it goes on (rule P7c)."""

from __future__ import annotations

from itertools import chain, islice

from lastgood.catalogue import Query
from lastgood.conversation import reader
from lastgood.conversation.capture import GivenConversation, stands_as_kept
from lastgood.errors import LastgoodError
from lastgood.model.canonical import PATH
from lastgood.model.run import LastConversation
from lastgood.paths import to_text
from lastgood.save import save
from lastgood.transaction import Draft
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.context import Context
    from lastgood.model.checkpoint import Checkpoint, Conversation
    from lastgood.model.session import Session

# Guards of other sessions' restores may lie above the newest one that holds it.
_LOOKED_AT = 20
# How far back a restore may lie that brought a transcript back.
_OPERATIONS = 100
_PIECE = 1 << 20
_HEAD_LINES = 20


def last_conversation(context: Context, session: Session) -> LastConversation | None:
    """Return what is known of a session's conversation, and how its host goes on with it.

    Where its own transcript is gone and a restore has brought it back as a copy, that is the one.
    """
    path = _path(session)
    if path is None:
        return None
    newest = _holder(context, session)
    held = None if newest is None else newest.manifest.conversation
    host, name = session.transcript_host, session.transcript_session
    if name is None and held is not None:
        head = reader.first_line(context.engine, held.tree)
        host, name = held.form, reader.session_in(held.form, held.source or b"", head=head)
    elif name is None and host is not None:  # it died before anything was kept of what it said
        name = reader.session_in(host, path, head=b"")
    readable = _is_readable(context, path)
    known = readable and host is not None and name is not None
    command = reader.resume_command(str(host), str(name)) if known else None
    copy = None if readable else _copy(context, name)
    if copy is not None:
        path, command = copy
    return LastConversation(
        messages=_messages(context, path, held),
        transcript=to_text(path),
        host=host,
        resume_command=command,
        readable=readable or copy is not None,
        checkpoint=None if newest is None else newest.id,
    )


def _copy(context: Context, name: str | None) -> tuple[bytes, str | None] | None:
    """Return the newest copy of a transcript that a restore wrote and that is there, and how it goes on."""
    for operation in context.catalogue.operations(context.key, limit=_OPERATIONS):
        for part in operation.parts:
            if part.scope != "conversation" or operation.undone or part.after.get("old") != name:
                continue
            host, session = str(part.after["form"]), str(part.after["session"])
            if "taken" in part.after and _is_readable(context, taken := PATH.read(part.after["taken"])):
                return taken, reader.resume_command(host, session)
            path = PATH.read(part.after["transcript"])
            if _is_readable(context, path):
                return path, cast("str | None", part.after.get("resume_command"))
    return None


def keep_rest(context: Context, session: Session) -> None:
    """Make a checkpoint of what a run said after its newest one; that this fails does no harm to others.

    What cannot be read or stored now lies in the host's own file as before.
    """
    path = _path(session)
    if path is None or not context.settings.auto.wants("interrupt"):
        return
    if not has_rest(context, session):
        return
    try:
        save(
            context.replace(session=session.id),
            Draft(kind="interrupt", message="what was said before the run died"),
            given=GivenConversation(transcript=path),
        )
    except LastgoodError:
        return


def has_rest(context: Context, session: Session) -> bool:
    """Tell whether more was said than the checkpoints of a session hold; False if that cannot be read."""
    path = _path(session)
    newest = _holder(context, session)
    return path is not None and _goes_on(
        context, path, None if newest is None else newest.manifest.conversation
    )


def _goes_on(context: Context, path: bytes, held: Conversation | None) -> bool:
    try:
        file = context.transcripts.open(path)
        try:
            if file.place().size != (0 if held is None else held.size):
                return True
            return held is not None and not stands_as_kept(context.engine, held, file)
        finally:
            file.close()
    except LastgoodError:
        return False


def _messages(context: Context, path: bytes, held: Conversation | None) -> int:
    """Return how many messages were said: as a file has them, else as a checkpoint holds them."""
    kept = 0 if held is None else held.messages
    if not _goes_on(context, path, held):
        return kept
    try:
        lines = _whole_lines(context, path)
        head = list(islice(lines, _HEAD_LINES))
        form = reader.form_of([reader.parsed(line) for line in head])
        if held is not None and form == "lines" != held.form:  # a file that its host has to take in first
            return kept
        return sum(reader.is_message(form, line) for line in chain(head, lines))
    except LastgoodError:
        return kept


def _whole_lines(context: Context, path: bytes) -> Iterator[bytes]:
    file = context.transcripts.open(path)
    try:
        size = file.place().size
        pieces = (file.read(offset, _PIECE) for offset in range(0, size, _PIECE))
        yield from (line for line in reader.lines_of(pieces) if line.endswith(b"\n"))
    finally:
        file.close()


def _path(session: Session) -> bytes | None:
    return None if session.transcript is None else session.transcript.encode("utf-8", "surrogateescape")


def _size(context: Context, path: bytes) -> int:
    file = context.transcripts.open(path)
    try:
        return file.place().size
    finally:
        file.close()


def _is_readable(context: Context, path: bytes) -> bool:
    """Tell whether a host would still find what it wrote down."""
    try:
        return _size(context, path) >= 0
    except LastgoodError:
        return False


def _holder(context: Context, session: Session) -> Checkpoint | None:
    """Return the newest checkpoint that holds a session's conversation: of the session, or of none.

    What is kept of one that nobody is at work in is of none.
    """
    path, of = _path(session), {session.id, None}
    for within in (None, session.id):
        query = Query(workspace_key=context.key, session=within, limit=_LOOKED_AT)
        for one in context.catalogue.find(query):
            held = one.manifest.conversation
            if one.session in of and held is not None and held.source == path:
                return one
    return None
