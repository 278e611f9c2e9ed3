"""The commit of a checkpoint: no parents, a fixed author, the checkpoint's id as its message."""

from __future__ import annotations

_IDENTITY = b"lastgood <lastgood@localhost>"
_MESSAGE = b"checkpoint "

MANIFEST = b"checkpoint.json"
WORKSPACE = b"workspace"
MODES = b"modes"
STATE = b"state"
CONVERSATION = b"conversation"


def encode_commit(*, tree: bytes, id: str, created_at: int) -> bytes:
    """Return a commit object; ``created_at`` is in nanoseconds."""
    seconds = max(created_at // 1_000_000_000, 0)
    return b"tree %b\nauthor %b %d +0000\ncommitter %b %d +0000\n\n%b%b\n" % (
        tree.hex().encode(),
        _IDENTITY,
        seconds,
        _IDENTITY,
        seconds,
        _MESSAGE,
        id.encode(),
    )


def commit_tree(content: bytes) -> bytes:
    """Return the tree of a checkpoint's commit; ValueError when it is something else."""
    head, _, message = content.partition(b"\n\n")
    first, _, rest = head.partition(b"\n")
    label, _, tree = first.partition(b" ")
    if label != b"tree" or len(tree) != 40 or not message.startswith(_MESSAGE) or b"parent " in rest:
        raise ValueError("it is not the commit of a checkpoint")
    return bytes.fromhex(tree.decode("ascii"))


def commit_time(content: bytes) -> int:
    """Return when a commit was made, in seconds; 0 where it does not say."""
    head = content.partition(b"\n\n")[0]
    words = head.rpartition(b"\ncommitter ")[2].split()
    return int(words[-2]) if len(words) > 1 and words[-2].isdigit() else 0


def commit_id(content: bytes) -> bytes:
    """Return the id of the checkpoint that a commit is of; empty where it does not say."""
    message = content.partition(b"\n\n")[2]
    return message.removeprefix(_MESSAGE).removesuffix(b"\n") if message.startswith(_MESSAGE) else b""
