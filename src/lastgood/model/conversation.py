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


class Stretch(Value):
    """How a file lies on the disk, ``size`` in bytes: with another device or inode it is another file."""

    device: int
    inode: int
    size: int
    modified_ns: int


class Evidence(Value):
    """What shows, without reading it all, that a file still begins with what is stored of it.

    ``segments`` are the stored blobs (id and size in bytes) in order, ``sums`` their CRC-32, ``folders``
    the trees of those folders in which no more of them have room. ``digest``
    is that of some windows of the file. ``proven`` tells whose turn it is to be read again and compared
    by id, ``summed`` the same for a comparison by sum. Derived: without it the next save reads all
    (rule K6).
    """

    generation: str
    place: Stretch
    form: ConversationForm
    messages: int
    segments: tuple[tuple[bytes, int], ...]
    sums: tuple[int, ...]
    folders: tuple[bytes, ...]
    digest: bytes
    proven: tuple[int, int] = (0, 0)
    summed: tuple[int, int] = (0, 0)

    @property
    def size(self) -> int:
        """How many bytes of the file are stored."""
        return sum(size for _, size in self.segments)
