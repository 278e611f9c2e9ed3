"""Reading what is stored of a conversation: its segments, its lines, which of them are messages.

Claude Code keeps ``projects/FOLDER/SESSION.jsonl``, Codex ``sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl``,
Gemini CLI ``tmp/PROJECT/chats/session-TIME-ID.jsonl``; a line is one JSON object. Their makers call most of
it internal: only what stands here is relied on. opencode has a database (`lastgood.conversation.opencode`).
"""

from __future__ import annotations

from lastgood.conversation import opencode
from lastgood.errors import Damaged
from lastgood.model.tree import TreeId

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lastgood.engine import ObjectReader
    from lastgood.literals import ConversationForm


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
    "opencode": (b'{"part":', b'{"broken":'),
}
_GEMINI_ROLES = {"user": "user", "gemini": "assistant"}
# What to type so that a host goes on with a conversation, by the programs' own help.
_RESUMING = {
    "claude-code": "claude --resume",
    "codex": "codex resume",
    "gemini-cli": "gemini --resume",
    "opencode": "opencode --session",
}
# How many folders a host makes for a transcript, its own home counted.
FOLDERS = {"claude-code": 3, "codex": 5, "gemini-cli": 4, "opencode": 1}
# Where a host looks for its transcripts, as a person is told.
PLACES = {
    "claude-code": "a folder below `projects`",
    "codex": "a folder of a day below `sessions`",
    "gemini-cli": "a folder `tmp/PROJECT/chats`",
    "opencode": "a folder `opencode`",
}
# How much of a session's name Gemini CLI gives its file.
_SHORT = 8
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
        if record.get("host") == opencode.HOST and isinstance(record.get("session"), dict):
            return "opencode"
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
    if form == "opencode":
        return opencode.message_in(record)
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


def listed_anew(line: bytes, known: set[str]) -> Iterator[dict[str, object]]:
    """Yield what a line of Gemini CLI says that lists all messages anew; ``known`` are the ids of before.

    It does so whenever it goes on with a conversation, and with fewer and new ones when it sums one up.
    """
    record = (parsed(line) if len(line) <= LINE_BYTES else None) or {}
    changed = record.get("$set")
    listed = changed.get("messages") if isinstance(changed, dict) else None
    known.add(str(record.get("id")))
    for one in listed if isinstance(listed, list) else ():
        id = one.get("id") if isinstance(one, dict) else None
        if isinstance(id, str) and id not in known:
            known.add(id)
            message = None if _is_repeated(one.get("content")) else _gemini_message(one)
            if message is not None:
                yield message


def _is_repeated(content: object) -> bool:
    """Tell whether a listed message is no new one: where it works, or a result under another id."""
    first = content[0] if isinstance(content, list) and content else None
    if not isinstance(first, dict):
        return False
    return "functionResponse" in first or str(first.get("text")).startswith("<session_context>")


def session_in(form: str, path: bytes, *, head: bytes) -> str | None:
    """Return the session that a host's file is named after, None where it does not lie in a host's folder.

    A file elsewhere may have come from anybody: nothing is put beside it. ``head`` is the first line: of
    Gemini CLI only that has the whole name.
    """
    *folders, name = path.decode("utf-8", "surrogateescape").split("/")
    if form == "opencode":
        held = folders[-2:-1] == ["opencode"] and folders[-1].startswith("opencode")
        return name if held and folders[-1].endswith(".db") and opencode.is_session(name) else None
    stem = name.removesuffix(".jsonl")
    if stem == name:
        return None
    if form == "claude-code":
        return stem if len(folders) > 2 and folders[-2] == "projects" and is_uuid(stem) else None
    if form == "codex":
        dated = len(folders) > 4 and folders[-4] == "sessions" and all(map(str.isdigit, folders[-3:]))
        return stem[-36:] if dated and stem.startswith("rollout-") and is_uuid(stem[-36:]) else None
    session = str((parsed(head) or {}).get("sessionId"))
    placed = len(folders) > 3 and (folders[-3], folders[-1]) == ("tmp", "chats")
    fits = placed and stem.startswith("session-") and stem.endswith("-" + session[:_SHORT])
    return session if form == "gemini-cli" and fits and is_uuid(session) else None


def is_uuid(text: str) -> bool:
    """Tell whether a text is a UUID in lower case, as the hosts write them."""
    groups = text.split("-")
    return tuple(map(len, groups)) == _GROUPS and all(_HEX.issuperset(group) for group in groups)


def file_of(form: str, path: bytes) -> bytes:
    """Return the file that holds a transcript: that itself, or the database that it lies in."""
    return path.rpartition(b"/")[0] if form == "opencode" else path


def taken_name(form: ConversationForm, path: bytes, *, new: str) -> bytes | None:
    """Return the path of a copy that its host has taken into its database; None if it has none."""
    return file_of(form, path) + b"/" + new.encode() if form == "opencode" else None


def fork_name(form: ConversationForm, path: bytes, *, old: str, new: str) -> bytes:
    """Return the path that a copy under another session's id has to bear for its host to find it.

    What opencode is to take in lies beside its database.
    """
    if form == "opencode":
        return file_of(form, path).rpartition(b"/")[0] + b"/" + new.encode() + b".json"
    if form == "gemini-cli":
        old, new = old[:_SHORT], new[:_SHORT]
    return path.removesuffix(old.encode() + b".jsonl") + new.encode() + b".jsonl"


def fork_id(form: ConversationForm, seed: bytes, *, old: str) -> str:
    """Return a new session id made of 16 bytes; of the form that the host gives its own.

    Codex orders threads by the time that the first 48 bits of theirs tell: a copy keeps that of its
    original.
    """
    if form == "opencode":
        return opencode.fork_id(seed, old=old)
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


# What is kept beside a transcript lies below its segments' folders, which have numbers for names: what of
# it may still change, and of each sub-agent its own conversation, under the name that the host gives it.
REST = "rest"
AGENT = "agent."
_NAME = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz._-")
_NAME_BYTES = 200


def agent_name(name: str) -> str | None:
    """Return under which name a sub-agent's conversation is kept; None of what no host calls one."""
    said = name.strip(".")  # an import may bring one that leads out
    return AGENT + name if said and len(name) <= _NAME_BYTES and _NAME.issuperset(name) else None


def blobs(objects: ObjectReader, tree: str) -> Iterator[bytes]:
    """Yield the segments of a conversation in order."""
    for folder in objects.directory(TreeId(tree=bytes.fromhex(tree))):
        if folder.name.isdigit():
            yield from (entry.oid for entry in objects.directory(folder.tree_id))


def beside(objects: ObjectReader, tree: str) -> dict[str, tuple[bytes, ...]]:
    """Return the blobs of what is kept beside a conversation, by its names."""
    return {
        folder.name.decode("ascii", "replace"): tuple(one.oid for one in objects.directory(folder.tree_id))
        for folder in objects.directory(TreeId(tree=bytes.fromhex(tree)))
        if not folder.name.isdigit()
    }


def first_line(objects: ObjectReader, tree: str) -> bytes:
    """Return the first line of a conversation, as far as its first segment has it; b"" if that is damaged."""
    try:
        first = next(blobs(objects, tree), None)
        return b"" if first is None else objects.read_blob(first).partition(b"\n")[0]
    except Damaged:
        return b""


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
    return judged(form, line) is True


def judged(form: ConversationForm, line: bytes) -> bool | None:
    """Tell whether a line is a message; None if it ought to be one of its host's, and is broken."""
    sure = may_be_message(form, line)
    if sure is not None:
        return sure
    record = parsed(line)
    if record is None or (form == "opencode" and opencode.is_broken(record)):
        return None
    return message_in(form, record) is not None


def parsed(line: bytes) -> dict[str, object] | None:
    """Return the JSON object that a line is, None if it is none."""
    from lastgood.model.canonical import loads

    try:
        return loads(line, what="a line")
    except Damaged:
        return None
