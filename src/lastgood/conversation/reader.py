"""Reading what is stored of a conversation: its segments, its lines, which of them are messages.

Claude Code keeps ``projects/FOLDER/SESSION.jsonl``, Codex ``sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl``,
Gemini CLI ``tmp/PROJECT/chats/session-TIME-ID.jsonl``; a line is one JSON object. Their makers call most of
it internal: only what stands here is relied on.
"""

from __future__ import annotations

from lastgood.errors import Damaged
from lastgood.model.tree import TreeId

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lastgood.engine import ObjectReader
    from lastgood.model.checkpoint import ConversationForm


# --- The forms of transcripts: whose they are, what counts as a message, and how a copy gets a name of its
# own ---

# How much of a file is looked at to tell its form.
HEAD_BYTES = 1 << 18
# Longer lines are kept like others, but nobody looks into them.
LINE_BYTES = 1 << 25

_SPOKEN = frozenset({"user", "assistant"})
_ITEMS = frozenset(
    {
        "message",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
    }
)
_HINTS = {
    "claude-code": (b'"user"', b'"assistant"'),
    "codex": (b'"response_item"',),
    "gemini-cli": (b'"user"', b'"gemini"'),
}
_GEMINI_ROLES = {"user": "user", "gemini": "assistant"}
# What to type so that a host goes on with a conversation, by the programs' own help.
_RESUMING = {
    "claude-code": "claude --resume",
    "codex": "codex resume",
    "gemini-cli": "gemini --resume",
    "opencode": "opencode -s",
}
_HEX = frozenset("0123456789abcdef")
_GROUPS = (8, 4, 4, 4, 12)


def form_of(records: Sequence[Mapping[str, object] | None]) -> ConversationForm:
    """Return the form that the first lines of a transcript show; None stands for what is no JSON object."""
    for record in records:
        if record is None:
            continue
        if record.get("type") == "session_meta" and isinstance(record.get("payload"), dict):
            return "codex"
        if isinstance(record.get("sessionId"), str) and isinstance(record.get("type"), str):
            return "claude-code"
        if isinstance(record.get("sessionId"), str) and isinstance(record.get("projectHash"), str):
            return "gemini-cli"
    said = all(record is not None and "role" in record and "content" in record for record in records)
    return "messages" if records and said else "lines"


def may_be_message(form: ConversationForm, line: bytes) -> bool | None:
    """Tell by its bytes whether a line is a message; None if one has to look into it."""
    if not line or line.isspace():
        return False
    hints = _HINTS.get(form)
    if hints is None:
        return True
    if len(line) > LINE_BYTES or not any(hint in line for hint in hints):
        return False
    return None


def message_in(form: ConversationForm, record: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return the message that a line of a host's transcript holds, None if it is something else."""
    kind = record.get("type")
    if form == "claude-code":
        message = record.get("message")
        return message if kind in _SPOKEN and isinstance(message, dict) else None
    if form == "gemini-cli":
        return _gemini_message(record)
    payload = record.get("payload")
    if kind != "response_item" or not isinstance(payload, dict):
        return None
    return payload if payload.get("type") in _ITEMS else None


def _gemini_message(record: Mapping[str, object]) -> dict[str, object] | None:
    """Return what a line says, with the tools that are used; None if it says nothing yet."""
    role = _GEMINI_ROLES.get(str(record.get("type")))
    said, calls = record.get("content"), record.get("toolCalls")
    parts = list(said) if isinstance(said, list) else [{"text": said}] if said else []
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            parts.append({"type": "tool_use", "name": call.get("name"), "input": call.get("args")})
    return {"role": role, "content": parts} if role is not None and parts else None


def session_in(form: ConversationForm, path: bytes) -> str | None:
    """Return the session that a host's file is named after, None where it does not lie in a host's folder.

    A file elsewhere may have come from anybody: nothing is put beside it.
    """
    parts = path.decode("utf-8", "surrogateescape").split("/")
    name = parts[-1]
    if not name.endswith(".jsonl"):
        return None
    stem = name.removesuffix(".jsonl")
    if form == "claude-code":
        return stem if len(parts) > 3 and parts[-3] == "projects" and is_uuid(stem) else None
    dated = len(parts) > 5 and parts[-5] == "sessions" and all(part.isdigit() for part in parts[-4:-1])
    fits = dated and stem.startswith("rollout-") and is_uuid(stem[-36:])
    return stem[-36:] if form == "codex" and fits else None


def is_uuid(text: str) -> bool:
    """Tell whether a text is a UUID in lower case, as the hosts write them."""
    groups = text.split("-")
    return tuple(map(len, groups)) == _GROUPS and all(_HEX.issuperset(group) for group in groups)


def fork_name(form: ConversationForm, path: bytes, *, old: str, new: str) -> bytes:
    """Return the path that a copy under another session's id has to bear for its host to find it."""
    folder, _, name = path.rpartition(b"/")
    if form == "claude-code":
        return folder + b"/" + new.encode() + b".jsonl"
    return folder + b"/" + name.replace(old.encode(), new.encode())


def fork_id(form: ConversationForm, seed: bytes, *, old: str) -> str:
    """Return a new session id made of 16 bytes; of the form that the host gives its own.

    Codex orders threads by the time that the first 48 bits of theirs tell: a copy keeps that of its
    original.
    """
    digits = seed.hex()
    version = old[14] if form == "codex" else "4"
    head = old.replace("-", "")[:12] if form == "codex" else digits[:12]
    text = head + version + digits[13:16] + "89ab"[int(digits[16], 16) % 4] + digits[17:32]
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def resume_command(host: str, session: str) -> str | None:
    """Return what to type so that a host goes on with a session; None for one that nobody knows."""
    words = _RESUMING.get(host)
    return None if words is None else f"{words} {session}"


def renamed(line: bytes, *, old: str, new: str) -> bytes:
    """Return a line in which every JSON string that is exactly one id is another; all else as it was."""
    if old.encode() not in line:
        return line
    import re  # lazily: a save has no use for it

    # A quote after a backslash is no end of a JSON string.
    return re.sub(rb'(?<!\\)"' + re.escape(old.encode()) + rb'"', b'"' + new.encode() + b'"', line)


# --- Reading what is stored of a conversation: its segments, its lines, which of them are messages ---


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
    sure = may_be_message(form, line)
    if sure is not None:
        return sure
    record = parsed(line)
    return record is not None and message_in(form, record) is not None


def parsed(line: bytes) -> dict[str, object] | None:
    """Return the JSON object that a line is, None if it is none."""
    from lastgood.model.canonical import loads

    try:
        return loads(line, what="a line")
    except Damaged:
        return None
