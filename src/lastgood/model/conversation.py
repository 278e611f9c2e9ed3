"""A conversation as a checkpoint holds it (rule P5)."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    # What the bytes are: messages given by the caller, one JSON object a line; a host's transcript
    # in its own form; or lines of JSON of nobody known.
    ConversationForm = Literal["messages", "claude-code", "codex", "lines"]

CONVERSATION_FORMS: tuple[ConversationForm, ...] = ("messages", "claude-code", "codex", "lines")


class Conversation(Value):
    """Where a conversation's bytes are, and how much of it there is.

    ``tree`` is the git tree of its segments in hex: subtrees of blobs whose bytes, joined in the order of
    their names, are the transcript up to the moment of the checkpoint (``size`` bytes, exactly as
    they were). ``source`` is the file that it was read from, None for messages. ``messages`` counts
    messages as the form defines them.
    """

    tree: str
    form: ConversationForm
    size: int
    messages: int
    source: bytes | None = None
