"""How sessions are written into a ledger: one book a session, an entry a line of its transcripts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from claude_agent_sdk import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    fold_session_summary,
)

from lastgood.errors import Damaged, Invalid, Usage
from lastgood.ledger import LedgerEntry, LedgerReader, LedgerWriter
from lastgood.value import Value, cast
from lastgood.workspace.arguments import expect

# --- Which files belong to which part of a session ---


class Batch(Value):
    """What was handed over at one time: the lines from one number on, up to the number in the key.

    ``files`` is the workspace's checkpoint made right after them, ``prompts`` those made before the
    prompts among them, by the prompts' ids. ``failure`` is None once the files are kept.
    """

    key: str
    first: int
    end: int
    files: str | None
    failure: str | None
    batch: bytes
    prompts: Mapping[str, str]


def moment_of(entry: LedgerEntry) -> Batch:
    """Read a moment's entry."""
    match entry.head:
        case {
            "from": int() as first,
            "files": files,
            "failure": failure,
            "batch": bytes() as batch,
            "prompts": dict() as prompts,
        }:
            return Batch(
                key=entry.key,
                first=first,
                end=int(entry.key.rpartition("\0")[2]),
                files=cast("str | None", files),
                failure=cast("str | None", failure),
                batch=batch,
                prompts=prompts,
            )
    raise _unreadable()


def files_at(moments: Sequence[Batch], place: int, line: SessionStoreEntry) -> str | None:
    """Return the files of a line: those before it for a prompt, else those at the end of its moment."""
    before: str | None = None
    for moment in moments:
        if moment.first <= place < moment.end:
            if said_by_a_person(line) is None:
                return moment.files
            return moment.prompts.get(str(line.get("uuid")), before)
        before = moment.files
    return None


def newest(moments: Sequence[Batch]) -> str | None:
    """Return the newest files of a session."""
    return next((one.files for one in reversed(moments) if one.files is not None), None)


def said_by_a_person(line: SessionStoreEntry) -> str | None:
    """Return what a person said in a line, None for lines that only look like that."""
    fields = cast("dict[str, object]", line)
    hidden = any(fields.get(name) for name in ("isMeta", "isCompactSummary", "isSidechain"))
    message = fields.get("message")
    if fields.get("type") != "user" or hidden or not isinstance(message, dict):
        return None
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    blocks = [one for one in content if isinstance(one, dict)]
    if any(one.get("type") == "tool_result" for one in blocks):
        return None
    return "\n".join(str(one.get("text")) for one in blocks if one.get("type") == "text")


class Prompt(Value):
    """What a person said in a session: the line's id, its text, and the id of the line that it follows."""

    id: str
    text: str
    after: str | None


def prompt_among(entries: Sequence[SessionStoreEntry], *, message: str | None) -> Prompt | None:
    """Return a prompt of a session by its id, the newest without one; None if there is none."""
    before: str | None = None
    found: Prompt | None = None
    known = set()
    for one in entries:
        fields = cast("dict[str, object]", one)
        id, parent, text = fields.get("uuid"), fields.get("parentUuid"), said_by_a_person(one)
        if not isinstance(id, str) or fields.get("isSidechain"):
            continue
        if text is not None and message in {None, id}:
            found = Prompt(
                id=id, text=text, after=parent if isinstance(parent, str) and parent in known else before
            )
        if fields.get("type") in {"user", "assistant"}:
            before = id
        known.add(id)
    return found


_LABEL = 200
# What tools say of what they are about, by the field of their input.
_ABOUT = ("file_path", "command", "path", "pattern", "url", "description")


def label_of(entries: Iterable[SessionStoreEntry]) -> str | None:
    """Return what the newest of some lines says that say something: a prompt, an answer, a tool's call."""
    said = (_said(one) for one in reversed([*entries]))
    return next((shortened(one) for one in said if one.strip()), None)


def ends_turn(entries: Iterable[SessionStoreEntry]) -> bool:
    """Tell whether the newest message among some lines is an answer after which nothing is done."""
    for line in reversed([*entries]):
        match cast("dict[str, object]", line):
            case {"isSidechain": True}:
                continue
            case {"type": "assistant", "message": {"content": [*blocks], **rest}}:
                calls = any(isinstance(one, dict) and one.get("type") == "tool_use" for one in blocks)
                return not calls and rest.get("stop_reason", "end_turn") not in {None, "tool_use"}
            case {"type": "user"}:
                return False
    return False


def shortened(text: str) -> str:
    """Return a text as one line that is not long."""
    line = " ".join(text.split())
    return line if len(line) <= _LABEL else line[: _LABEL - 1] + "…"


def _said(line: SessionStoreEntry) -> str:
    text = said_by_a_person(line)
    if text is not None:
        return text
    match cast("dict[str, object]", line):
        case {"type": "assistant", "message": {"content": [*blocks]}}:
            return next((said for said in map(_block_said, reversed(blocks)) if said), "")
    return ""


def _block_said(block: object) -> str:
    match block:
        case {"type": "text", "text": str() as text}:
            return text
        case {"type": "tool_use", "name": str() as name, **rest}:
            given = rest.get("input")
            about = [given[key] for key in _ABOUT if key in given] if isinstance(given, dict) else []
            return " ".join([name, *(one for one in about[:1] if isinstance(one, str))])
    return ""


def is_fork(entries: Iterable[SessionStoreEntry]) -> bool:
    """Tell whether lines are a copy of another session's: the present files are not theirs."""
    return any(origin_of(one) is not None for one in entries)


def origin_of(line: SessionStoreEntry) -> tuple[str, str] | None:
    """Return session and message of which a line is a copy."""
    match cast("dict[str, object]", line).get("forkedFrom"):
        case {"sessionId": str() as session, "messageUuid": str() as message}:
            return session, message
    return None


# --- How sessions are written into a ledger: one book a session, an entry a line of its transcripts ---

# Keys within a book: lines by transcript and number, the time of each transcript's last one, the
# session's summary, moments by the number of the main transcript's line that comes next, and what
# files lie before prompts that are not in the transcript yet.
_LINE, _TIME, _SUMMARY, _MOMENT, _PENDING = "e\0", "t\0", "s", "m\0", "p"

_PENDING_MOST = 20


def book_of(project: str, session: str) -> str:
    """Return the name of a session's book."""
    return f"{_sound(project)}\0{_sound(session)}"


def append(
    book: LedgerWriter, key: SessionKey, entries: Sequence[SessionStoreEntry], *, at: int, files: bool
) -> str | None:
    """Write lines, but those that are there already; return the key of the moment to add files to.

    ``at`` is in milliseconds. A batch that comes again because its files could not be kept is not
    written twice.
    """
    if not isinstance(entries, (list, tuple)) or not all(isinstance(one, dict) for one in entries):
        raise Usage("the lines of a session are no list of dicts", hint="hand over a list of dicts")
    name, part = _book(key), _part(key)
    batch = blake2b(_text(entries).encode(), digest_size=16).digest()
    open_moment = _last_moment(book, name) if files and not part else None
    if open_moment is not None and open_moment.failure is not None and open_moment.batch == batch:
        return open_moment.key
    begun = _count(book, name, part)
    number = begun
    for entry in _fresh(book, name, part, entries):
        id = entry.get("uuid")
        mark = id if isinstance(id, str) else None
        book.put(name, f"{_LINE}{part}\0{number:012}", mark=mark, body=_text(entry))
        number += 1
    at = max(at, _time(book, name, part) + 1)
    book.put(name, f"{_TIME}{part}", head={"mtime": at})
    if part:
        return None
    _put_summary(book, name, key, entries, at=at)
    if not files or is_fork(entries):
        return None
    moment = f"{_MOMENT}{number:012}"
    prompts = _bound(book, name, entries)
    book.put(
        name,
        moment,
        head={"from": begun, "files": None, "failure": "", "batch": batch, "prompts": prompts},
    )
    return moment


def load(book: LedgerReader, key: SessionKey) -> list[SessionStoreEntry] | None:
    """Return the lines of a transcript in their order, None if none was ever written."""
    name, part = _book(key), _part(key)
    if book.entry(name, f"{_TIME}{part}") is None:
        return None
    return [_line(book, one) for one in book.entries(name, prefix=f"{_LINE}{part}\0")]


def sessions(book: LedgerReader, project: str) -> list[SessionStoreListEntry]:
    """Return the sessions of a project whose main transcript has lines."""
    return [{"session_id": one["session_id"], "mtime": one["mtime"]} for one in summaries(book, project)]


def summaries(book: LedgerReader, project: str) -> list[SessionSummaryEntry]:
    """Return what the SDK wants to know of each session without reading it."""
    found: list[SessionSummaryEntry] = []
    for name in book.books(prefix=f"{_sound(project)}\0"):
        summary = _summary(book, name)
        if summary is not None:
            found.append(summary)
    return found


def subkeys(book: LedgerReader, key: SessionListSubkeysKey) -> list[str]:
    """Return the transcripts beside the main one."""
    found = book.entries(_book(key), prefix=_TIME)
    return [one.key.removeprefix(_TIME) for one in found if one.key != _TIME]


def delete(book: LedgerWriter, key: SessionKey) -> None:
    """Remove a session, or one of the transcripts beside its main one."""
    name, part = _book(key), _part(key)
    if key.get("subpath") == "":  # a program that lost a name does not mean all
        raise Usage(
            "the transcript to be removed has no name", hint="leave subpath out to remove the session"
        )
    if not part:
        book.drop_book(name)
        return
    below = book.entries(name, prefix=f"{_LINE}{part}\0")
    book.drop(name, [f"{_TIME}{part}", *(one.key for one in below)])


def expect_prompt(book: LedgerWriter, key: SessionKey, prompt: str, files: str) -> None:
    """Remember which files lie before a prompt that will be in the transcript."""
    name = _book(key)
    expected = [*_pending(book, name), [_digest(prompt), files]]
    book.put(name, _PENDING, head=expected[-_PENDING_MOST:])


def settle(
    book: LedgerWriter, key: SessionKey, moment: str, *, files: str | None, failure: str | None
) -> None:
    """Record which files belong to a moment, or why none could be kept."""
    name = _book(key)
    entry = book.entry(name, moment)
    if entry is not None:  # the session may have been deleted since
        head = cast("dict[str, object]", entry.head)
        book.put(name, moment, head={**head, "files": files, "failure": failure})


def moments(book: LedgerReader, key: SessionKey) -> list[Batch]:
    """Return the moments of a session, in their order."""
    name = _book(key)
    return [moment_of(one) for one in book.entries(name, prefix=_MOMENT)]


def place_of(book: LedgerReader, key: SessionKey, message: str) -> tuple[int, SessionStoreEntry] | None:
    """Return the number and content of the line of the main transcript that bears an id."""
    name = _book(key)
    for _, line in book.marked(message, book=name):
        entry = book.entry(name, line) if line.startswith(f"{_LINE}\0") else None
        if entry is not None:
            return int(line.rpartition("\0")[2]), _line(book, entry)
    return None


def _fresh(
    book: LedgerReader, name: str, part: str, entries: Iterable[SessionStoreEntry]
) -> Iterable[SessionStoreEntry]:
    """Yield the entries that are not there yet, by their ids; those without one are always new."""
    seen: set[str] = set()
    for entry in entries:
        id = entry.get("uuid")
        if isinstance(id, str):
            here = f"{_LINE}{part}\0"
            if id in seen or any(line.startswith(here) for _, line in book.marked(id, book=name)):
                continue
            seen.add(id)
        yield entry


def _put_summary(
    book: LedgerWriter, name: str, key: SessionKey, entries: Sequence[SessionStoreEntry], *, at: int
) -> None:
    known = _summary(book, name)
    folded = fold_session_summary(known, key, list(entries))
    book.put(name, _SUMMARY, head={"id": key["session_id"], "mtime": at, "summary": _text(folded["data"])})


def _summary(book: LedgerReader, name: str) -> SessionSummaryEntry | None:
    entry = book.entry(name, _SUMMARY)
    match None if entry is None else entry.head:
        case None:
            return None
        case {"id": str() as id, "mtime": int() as mtime, "summary": str() as text}:
            return {"session_id": id, "mtime": mtime, "data": json.loads(text)}
    raise _unreadable()


def _bound(book: LedgerWriter, name: str, entries: Iterable[SessionStoreEntry]) -> dict[str, str]:
    """Return the files before each prompt among some lines; they are not expected any longer."""
    pending = _pending(book, name)
    if not pending:
        return {}
    found: dict[str, str] = {}
    for entry in entries:
        said = said_by_a_person(entry)
        place = next(
            (at for at, one in enumerate(pending) if said is not None and one[0] == _digest(said)), None
        )
        if place is not None:
            found[str(entry.get("uuid"))] = pending[place][1]
            pending = pending[place + 1 :]
    book.put(name, _PENDING, head=list(pending))
    return found


def _pending(book: LedgerReader, name: str) -> list[Any]:
    entry = book.entry(name, _PENDING)
    return [] if entry is None else cast("list[Any]", entry.head)


def _last_moment(book: LedgerReader, name: str) -> Batch | None:
    newest = book.entries(name, prefix=_MOMENT, newest_first=True, limit=1)
    return moment_of(newest[0]) if newest else None


def _count(book: LedgerReader, name: str, part: str) -> int:
    last = book.entries(name, prefix=f"{_LINE}{part}\0", newest_first=True, limit=1)
    return int(last[0].key.rpartition("\0")[2]) + 1 if last else 0


def _time(book: LedgerReader, name: str, part: str) -> int:
    entry = book.entry(name, f"{_TIME}{part}")
    match None if entry is None else entry.head:
        case {"mtime": int() as at}:
            return at
    return 0


def _line(book: LedgerReader, entry: LedgerEntry) -> SessionStoreEntry:
    text = book.body(entry)
    if not isinstance(text, str):
        raise _unreadable()
    line: SessionStoreEntry = json.loads(text)
    return line


def _text(value: object) -> str:
    try:
        return json.dumps(value, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(
            f"a line of a session cannot be written as JSON ({error})", hint="hand over what JSON can hold"
        ) from error


def _digest(prompt: str) -> bytes:
    return blake2b(prompt.strip().encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _book(key: SessionKey | SessionListSubkeysKey) -> str:
    """Return the book of a session's key; `Usage` for what is no key."""
    expect(key, Mapping, what="the key of a session")
    return book_of(key.get("project_key"), key.get("session_id"))


def _part(key: SessionKey) -> str:
    """Return which transcript a key means; nothing but an empty or missing one stands for the session."""
    part = key.get("subpath")
    return "" if part is None else _sound(part)


def _sound(name: str) -> str:
    expect(name, str, what="a name of the key")
    if "\0" in name:
        raise Invalid(f"{name!r} holds a NUL", hint="name projects and sessions without one")
    return name


def _unreadable() -> Damaged:
    return Damaged("what is kept of a session cannot be read", hint="run: lastgood verify")
