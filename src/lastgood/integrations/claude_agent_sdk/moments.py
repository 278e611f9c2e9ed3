"""Which files belong to which part of a session."""

from __future__ import annotations

from lastgood.errors import Damaged
from lastgood.value import Value, cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from claude_agent_sdk import SessionStoreEntry

    from lastgood.ports.ledger import LedgerEntry


class Moment(Value):
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


def moment_of(entry: LedgerEntry) -> Moment:
    """Read a moment's entry."""
    match entry.head:
        case {
            "from": int() as first,
            "files": files,
            "failure": failure,
            "batch": bytes() as batch,
            "prompts": dict() as prompts,
        }:
            return Moment(
                key=entry.key,
                first=first,
                end=int(entry.key.rpartition("\0")[2]),
                files=cast("str | None", files),
                failure=cast("str | None", failure),
                batch=batch,
                prompts=prompts,
            )
    raise Damaged("what is kept of a session cannot be read", hint="run: lastgood verify")


def files_at(moments: Sequence[Moment], place: int, line: SessionStoreEntry) -> str | None:
    """Return the files of a line: those before it for a prompt, else those at the end of its moment."""
    before: str | None = None
    for moment in moments:
        if moment.first <= place < moment.end:
            if said_by_a_person(line) is None:
                return moment.files
            return moment.prompts.get(str(line.get("uuid")), before)
        before = moment.files
    return None


def newest(moments: Sequence[Moment]) -> str | None:
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


def is_fork(entries: Iterable[SessionStoreEntry]) -> bool:
    """Tell whether lines are a copy of another session's: the present files are not theirs."""
    return any(origin_of(one) is not None for one in entries)


def origin_of(line: SessionStoreEntry) -> tuple[str, str] | None:
    """Return session and message of which a line is a copy."""
    match cast("dict[str, object]", line).get("forkedFrom"):
        case {"sessionId": str() as session, "messageUuid": str() as message}:
            return session, message
    return None
