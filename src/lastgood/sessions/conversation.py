"""What the host of a session said: kept to its last whole line, and how it goes on (rule P7c)."""

from __future__ import annotations

from itertools import chain, islice

from lastgood.catalogue import Query
from lastgood.conversation import reader
from lastgood.conversation.capture import GivenConversation
from lastgood.errors import LastgoodError
from lastgood.model.run import LastConversation
from lastgood.save import save
from lastgood.transaction import Draft

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.context import Context
    from lastgood.model.checkpoint import Conversation
    from lastgood.model.session import Session

# Guards of other sessions' restores may lie above the newest one that holds it.
_LOOKED_AT = 20
_PIECE = 1 << 20
_HEAD_LINES = 20


def last_conversation(context: Context, session: Session) -> LastConversation | None:
    """Return what the checkpoints of a session hold of its conversation, and how its host goes on with it."""
    if session.transcript is None:
        return None
    held, host = _held(context, session), session.transcript_host
    name = session.transcript_session
    if name is None and held is not None:
        host, name = held.form, reader.session_in(held.form, held.source or b"")
    return LastConversation(
        messages=_messages(context, session, held),
        transcript=session.transcript,
        host=host,
        resume_command=None if host is None or name is None else reader.resume_command(host, name),
    )


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
    try:
        return path is not None and _size(context, path) != _held_size(context, session)
    except LastgoodError:
        return False


def _messages(context: Context, session: Session, held: Conversation | None) -> int:
    """Return how many messages were said: as its file has them, else as a checkpoint holds them."""
    kept = 0 if held is None else held.messages
    path = _path(session)
    if path is None or not has_rest(context, session):
        return kept
    try:
        lines = _whole_lines(context, path)
        head = list(islice(lines, _HEAD_LINES))
        form = reader.form_of([reader.parsed(line) for line in head])
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


def _held_size(context: Context, session: Session) -> int:
    held = _held(context, session)
    return 0 if held is None else held.size


def _held(context: Context, session: Session) -> Conversation | None:
    """Return the conversation in the newest checkpoint of a session that holds it."""
    found = context.catalogue.find(Query(workspace_key=context.key, session=session.id, limit=_LOOKED_AT))
    held = (one.manifest.conversation for one in found)
    return next((one for one in held if one is not None and one.source == _path(session)), None)
