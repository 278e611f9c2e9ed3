"""Where hosts keep the conversations of sub-agents: found by whose they are, never by what they say.

Claude Code has ``SESSION/subagents/agent-ID.jsonl`` beside ``SESSION.jsonl``, Gemini CLI
``chats/SESSION/NAME.jsonl`` beside ``chats/session-TIME-ID.jsonl``. Codex has them among all others: the
first line of each names its parent. opencode's lie in its database.
"""

from __future__ import annotations

import os

from lastgood.conversation import reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LINES = b".jsonl"
# What Claude Code notes of a sub-agent, without which nobody goes on with it.
_META = b".meta.json"
_ID = 36
# Codex writes what tells whose a transcript is before anything that is long.
_HEAD_BYTES = 1 << 13
# So many days a conversation is taken to go on; what a sub-agent says later is not looked for.
_DAYS = 31


def agents_beside(form: str, path: bytes, head: Callable[[], bytes]) -> Iterator[bytes]:
    """Yield the transcripts of a conversation's sub-agents; ``head`` is its first line."""
    if form == "claude-code":
        yield from _in_folder(path.removesuffix(_LINES) + b"/subagents")
    elif form == "gemini-cli":
        session = str((reader.parsed(head()) or {}).get("sessionId"))
        if reader.is_uuid(session):
            yield from _in_folder(b"%b/%b" % (os.path.dirname(path), session.encode()))
    elif form == "codex":
        yield from _of_codex(path)


def _in_folder(folder: bytes) -> Iterator[bytes]:
    for name in _names(folder):
        if name.endswith((_LINES, _META)) and reader.agent_name(name.decode("ascii", "replace")) is not None:
            yield b"%b/%b" % (folder, name)


def _of_codex(path: bytes) -> Iterator[bytes]:
    """Yield the rollouts whose parent is that of a path, or one of these: by their ids, which grow."""
    family = [path.removesuffix(_LINES)[-_ID:]]
    for folder in _days(os.path.dirname(path)):
        for other in _in_folder(folder):
            one = other.removesuffix(_LINES)[-_ID:]
            if one > family[0] and _parent(other) in family:
                family.append(one)
                yield other


def _days(first: bytes) -> Iterator[bytes]:
    """Yield the folder of a day and those of the days after it."""
    from datetime import date, timedelta  # lazily: of other hosts no save needs it

    sessions, *parts = first.rsplit(b"/", 3)
    try:
        begins = date(*map(int, parts))
    except (TypeError, ValueError):
        return
    for number in range(_DAYS):
        day = begins + timedelta(days=number)
        yield b"%b/%04d/%02d/%02d" % (sessions, day.year, day.month, day.day)


def _parent(path: bytes) -> bytes | None:
    """Return the thread that spawned that of a rollout, as it says of itself; None if nobody did."""
    try:
        with open(path, "rb") as file:
            _, _, rest = file.read(_HEAD_BYTES).partition(b'"parent_thread_id":"')
    except OSError:
        return None
    return rest.partition(b'"')[0] or None


def _names(folder: bytes) -> list[bytes]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
