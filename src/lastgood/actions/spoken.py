"""Reading what is stored of a conversation: its segments, its lines, which of them are messages."""

from __future__ import annotations

from lastgood.errors import Damaged
from lastgood.model.tree import TreeId
from lastgood.rules import transcript as forms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.model.conversation import ConversationForm
    from lastgood.ports.engine import ObjectReader


def blobs(objects: ObjectReader, tree: str) -> Iterator[bytes]:
    """Yield the segments of a conversation in order."""
    for folder in objects.directory(TreeId(tree=bytes.fromhex(tree))):
        for entry in objects.directory(folder.tree_id):
            yield entry.oid


def lines_of(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines that pieces of a transcript make up, each with its end."""
    rest: list[bytes] = []
    for piece in pieces:
        lines = piece.split(b"\n")
        for line in lines[:-1]:
            yield b"".join((*rest, line, b"\n"))
            rest = []
        if lines[-1]:
            rest.append(lines[-1])
    if rest:
        yield b"".join(rest)


def is_message(form: ConversationForm, line: bytes) -> bool:
    """Tell whether a line of a transcript is a message, as its form defines it."""
    sure = forms.may_be_message(form, line)
    if sure is not None:
        return sure
    record = parsed(line)
    return record is not None and forms.message_in(form, record) is not None


def parsed(line: bytes) -> dict[str, object] | None:
    """Return the JSON object that a line is, None if it is none."""
    from lastgood.codec.canonical import loads

    try:
        return loads(line, what="a line")
    except Damaged:
        return None
