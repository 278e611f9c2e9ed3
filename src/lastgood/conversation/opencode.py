"""The form in which a conversation of opencode is kept: lines of JSON, made of rows of its database.

A session is its head, then every message in order: a line that opens it, a line for each of its parts, and
for an assistant's one that ends it. What opencode still changes is no line yet: so what is said later only
adds lines, and the first lines are the conversation as it was. Beside them a checkpoint has the rest as it
stands: what may still change, the title, the to-do list. As a file for ``opencode import`` a conversation
gets ids of its own, as those in the database belong to the original.
"""

from __future__ import annotations

from itertools import chain

from lastgood.errors import Damaged, Invalid
from lastgood.model.canonical import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

HOST = "opencode"
# The order of ids is that of their first so many characters: a name, and the time in hex.
_ORDERED, _RANDOM = 16, 14
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# What an assistant's message is from its beginning; the rest comes while it is written, or at its end.
_OPENING = frozenset(
    {"role", "parentID", "agent", "mode", "modelID", "providerID", "path", "variant", "summary"}
)
_SETTLED = frozenset({"completed", "error"})
_TITLE = 60
PART_END = b"}\n"
# What a tool is said to have come to by opencode itself where its answer was broken off.
_ABORTED = "Tool execution aborted"
# Titles that opencode gives before it knows better.
_UNTITLED = ("New session - ", "Child session - ")
_TODO = ("content", "status", "priority")
# A word of a command can have 128 KiB on Linux, and less than a list of that length is ever read.
_LONGEST_STATEMENT = 120_000
_NO_TOKENS = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}


def is_session(name: str) -> bool:
    """Tell whether a text is what opencode calls a session."""
    return name.startswith("ses_") and name[4:].isascii() and name[4:].isalnum()


def head_line(session: Mapping[str, object]) -> bytes:
    """Return the first line: what a session is as long as it lives; not its title, which changes."""
    return _line({"host": HOST, "session": session})


def title_line(title: str) -> bytes:
    """Return the line of the rest that says what a conversation is called now."""
    return _line({"title": title})


def todo_line(todo: Iterable[Mapping[str, object]]) -> bytes:
    """Return the line of the rest that has the to-do list as it stands now."""
    return _line({"todo": list(todo)})


def opening_line(message: str, info: Mapping[str, object]) -> bytes:
    """Return the line that begins a message: what will not change of it.

    A person's message is whole from the start, but for a summary of what it led to.
    """
    if not is_assistant(info):
        return _line({"message": message, "info": {key: info[key] for key in info if key != "summary"}})
    opening = {key: info[key] for key in sorted(_OPENING & info.keys())}
    return _line({"message": message, "info": {**opening, "time": {"created": _time(info).get("created")}}})


def broken_line(message: str, content: bytes) -> bytes:
    """Return the line in the place of a message's beginning that is no JSON object: its bytes, as a text."""
    return _line({"broken": message, "content": content.decode("utf-8", "backslashreplace")})


def is_broken(record: Mapping[str, object]) -> bool:
    """Tell whether a line stands for a message that could not be read."""
    return isinstance(record.get("broken"), str)


def part_line(part: str, *, message: str, role: str | None) -> bytes:
    """Return how the line of a part begins; its own JSON as it is, and `PART_END`, make it whole."""
    return _line({"part": part, "of": message, "role": role}).removesuffix(PART_END) + b',"data":'


def ending_line(message: str, info: Mapping[str, object]) -> bytes:
    """Return the line that ends an assistant's message: what it came to."""
    return _line({"end": message, "info": {key: info[key] for key in info if key not in _OPENING}})


def is_assistant(info: Mapping[str, object]) -> bool:
    """Tell whether a message is an assistant's."""
    return info.get("role") == "assistant"


def has_ended(info: Mapping[str, object]) -> bool:
    """Tell whether a message will not be changed any more, as it says itself."""
    return not is_assistant(info) or "completed" in _time(info) or "error" in info


def is_settled(part: Mapping[str, object]) -> bool:
    """Tell whether a part of a message that goes on is as it will stay."""
    state, time = part.get("state"), part.get("time")
    if part.get("type") == "tool":
        return isinstance(state, dict) and state.get("status") in _SETTLED
    return not isinstance(time, dict) or "end" in time


def message_in(record: Mapping[str, object]) -> dict[str, object] | None:
    """Return what a line says: a text, a thought, the use of a tool with its result; None for the rest."""
    data = record.get("data")
    if not isinstance(data, dict):
        return None
    said = list(_said(data))
    return {"role": record.get("role"), "content": said} if said else None


def _said(data: Mapping[str, object]) -> Iterator[dict[str, object]]:
    kind, state = data.get("type"), data.get("state")
    text = data.get("prompt") if kind == "subtask" else data.get("text")
    if kind in {"text", "subtask"} and text:
        yield {"type": "text", "text": text}
    elif kind == "reasoning" and text:
        yield {"type": "thinking", "thinking": text}
    elif kind == "file":
        yield {"type": "document", "title": data.get("filename"), "source": data.get("url")}
    elif kind == "tool" and isinstance(state, dict):
        yield {"type": "tool_use", "name": data.get("tool"), "input": state.get("input")}
        result = state.get("output", state.get("error"))
        if result is not None:
            yield {"type": "tool_result", "content": result}


# --- A conversation as a file that opencode takes in, under ids that nothing else has ---


def fork_id(seed: bytes, *, old: str) -> str:
    """Return another id than one of opencode's, that keeps its place in the order."""
    number = int.from_bytes(seed, "big")
    letters = []
    for _ in range(_RANDOM):
        number, rest = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[rest])
    return old[:_ORDERED] + "".join(letters)


def importable(
    lines: Iterable[bytes], rest: Iterable[bytes] = (), *, old: str, new: str, agents: Iterable[str] = ()
) -> Iterator[bytes]:
    """Yield the JSON that ``opencode import`` reads: the lines of a session, as it comes under a new id.

    ``new`` is that of session ``old``, which is this one, or that to which it belongs as one of its
    sub-``agents``. What went on is closed as opencode does where an answer is broken off. What is no JSON
    object, as what became broken in the database, is left out. Raises `Invalid` if the first line is none
    of a session.
    """
    records = map(_record, lines)
    session = next(records, {}).get("session")
    if not isinstance(session, dict):
        raise Invalid("it begins with no session of opencode", hint="restore without: --only files")
    ids = _Ids(old, new, agents)
    standing = [_record(line) for line in rest]
    title, time = _titled(session, *standing), _time(session)
    yield b'{"messages":['
    for place, (info, parts) in enumerate(_messages(chain(records, standing))):
        title, time = title or _title(parts), {**time, "updated": _latest(info, time)}
        for one in (info, *parts):
            one["sessionID"] = session["id"]
        said = {"info": _ended(info), "parts": [_closed(one, info) for one in parts if not _is_unsaid(one)]}
        yield b"," * bool(place) + ids.renewed(_line(said).rstrip(b"\n"))
    info = {**session, "title": title or "Brought back", "time": {"updated": time.get("created"), **time}}
    yield b'],"info":' + ids.renewed(_line(info).rstrip(b"\n")) + b"}\n"


def todo_statement(head: bytes, rest: Iterable[bytes], *, session: str) -> bytes | None:
    """Return the SQL that ``opencode db`` gives a session its to-do list by; None where there is none.

    Texts are written in hex, so that none ends its own. Of a list too long for a command its first items.
    """
    found = _record(head).get("session")
    created = _time(found).get("created") if isinstance(found, dict) else None
    now = created if isinstance(created, int) else 0
    todo = next((found["todo"] for found in map(_record, rest) if "todo" in found), None)
    rows = [
        ", ".join([_text(session), *(_text(str(one.get(key))) for key in _TODO), f"{place}, {now}, {now}"])
        for place, one in enumerate(todo if isinstance(todo, list) else ())
        if isinstance(one, dict)
    ]
    room = _LONGEST_STATEMENT
    fitting = [f"({row})" for row in rows if (room := room - len(row) - 4) > 0]
    if not fitting:
        return None
    columns = ", ".join(("session_id", *_TODO, "position", "time_created", "time_updated"))
    values = ", ".join(fitting)
    statement = f"INSERT OR IGNORE INTO todo ({columns}) VALUES {values}\n"  # noqa: S608 - texts are in hex
    return statement.encode("ascii")


def _text(text: str) -> str:
    return f"CAST(X'{text.encode('utf-8', 'replace').hex()}' AS TEXT)"


def copied_id(new: str, *, old: str) -> str:
    """Return the id in a copy of what has another one in the original; ``new`` is that of the copy."""
    from hashlib import sha256

    return fork_id(sha256(f"{new} {old}".encode()).digest()[:16], old=old)


class _Ids:
    """The ids of a copy: of its session the one that was chosen, of the rest such as follow from that."""

    def __init__(self, old: str, new: str, agents: Iterable[str]) -> None:
        import re  # lazily: a save has no use for it

        # Every JSON string that is exactly an id; a quote after a backslash is no end of one. An agent is
        # told those of its sub-agents in the middle of a text.
        within = b"|".join(one.encode() for one in agents if is_session(one))
        whole = rb"%b|(?:msg|prt)_[0-9a-f]{12}[0-9A-Za-z]{14}" % old.encode()
        pattern = rb'(?<=(?<!\\)")(?:%b)(?=")' % whole
        if within:
            pattern += rb"|(?<![0-9A-Za-z_])(?:%b)(?![0-9A-Za-z_])" % within
        self._id = re.compile(pattern)
        self._old, self._new = old, new

    def renewed(self, text: bytes) -> bytes:
        return self._id.sub(lambda found: self._other(found[0].decode()).encode(), text)

    def _other(self, one: str) -> str:
        return self._new if one == self._old else copied_id(self._new, old=one)


def _titled(*records: Mapping[str, object]) -> str:
    """Return the title that is told last, "" where opencode gave none yet."""
    told = [str(one["title"]) for one in records if one.get("title")]
    return "" if not told or told[-1].startswith(_UNTITLED) else told[-1]


def _ended(info: dict[str, object]) -> dict[str, object]:
    """Return a message that is over: else what was asked after it would be shown as waiting for it."""
    if has_ended(info):
        return info
    return {**info, "time": {**_time(info), "completed": _time(info).get("created")}}


def _is_unsaid(part: Mapping[str, object]) -> bool:
    """Tell whether a part is a text or thought of which nothing came in yet."""
    return part.get("type") in {"text", "reasoning"} and not part.get("text") and not is_settled(part)


def _closed(part: dict[str, object], info: Mapping[str, object]) -> dict[str, object]:
    """Return a part that does not go on: a tool that ran failed, and keeps what it had put out so far."""
    if is_settled(part):
        return part
    state, time = part.get("state"), _time(part)
    if part.get("type") != "tool":
        return {**part, "time": {**time, "end": time.get("start")}}
    if not isinstance(state, dict):
        return part
    began = _time(state).get("start", _time(info).get("created"))
    kept = state.get("input")
    aborted = {
        "status": "error",
        "input": kept if isinstance(kept, dict) else {},
        "error": _ABORTED,
        # Not as ``interrupted``: then its output so far, empty perhaps, would pass for its result.
        **({"metadata": state["metadata"]} if isinstance(state.get("metadata"), dict) else {}),
        "time": {"start": began, "end": began},
    }
    return {**part, "state": aborted}


def _record(line: bytes) -> dict[str, object]:
    try:
        return loads(line, what="a line of the conversation")
    except Damaged:
        return {}


def _messages(
    records: Iterable[Mapping[str, object]],
) -> Iterator[tuple[dict[str, object], list[dict[str, object]]]]:
    """Yield each message with its parts; one that was cut short has cost nothing yet."""
    message: dict[str, object] = {}
    parts: list[dict[str, object]] = []
    for record in records:
        info, data = record.get("info"), record.get("data")
        if is_broken(record):  # with its parts: nothing says whose it is
            if message:
                yield message, parts
            message, parts = {}, []
        elif isinstance(data, dict):
            parts.append({**data, "id": _given(record, "part"), "messageID": _given(record, "of")})
        elif "end" in record and isinstance(info, dict):
            message |= info
        elif isinstance(info, dict):
            if message:
                yield message, parts
            nothing = {"cost": 0, "tokens": _NO_TOKENS} if is_assistant(info) else {}
            message, parts = {**nothing, **info, "id": _given(record, "message")}, []
    if message:
        yield message, parts


def _given(record: Mapping[str, object], key: str) -> str:
    found = record.get(key)
    if not isinstance(found, str):
        raise Invalid("a line of the conversation has no id", hint="restore without: --only files")
    return found


def _title(parts: Iterable[Mapping[str, object]]) -> str:
    """Return what the first text of a message begins with."""
    said = next((str(one["text"]) for one in parts if one.get("type") == "text" and one.get("text")), "")
    return " ".join(said[: _TITLE * 4].split())[:_TITLE]


def _time(record: Mapping[str, object]) -> dict[str, object]:
    time = record.get("time")
    return dict(time) if isinstance(time, dict) else {}


def _latest(info: Mapping[str, object], before: Mapping[str, object]) -> object:
    time = _time(info)
    return time.get("completed", time.get("created", before.get("updated")))


def _line(record: Mapping[str, object]) -> bytes:
    import json  # lazily: only a conversation of opencode needs it

    return json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"
