"""Codex: its events, its replies, its hooks.json (the schemas of its hooks, which allow no other fields).

A hook is given one JSON object on standard input, and prints one or nothing.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime

from lastgood.errors import Usage
from lastgood.hooks.entries import command_line
from lastgood.hooks.event import HookEvent
from lastgood.hooks.host import Placed
from lastgood.hooks.payload import context_reply, host_above, object_in, paths_in, text_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.hooks.event import EventKind

NAME = "codex"
TITLE = "Codex"
_KINDS: dict[str, EventKind] = {
    "SessionStart": "session-start",
    "UserPromptSubmit": "prompt",
    "PreToolUse": "tool",
    "PostToolUse": "tool-end",
    "PreModelRequest": "batch-end",
    "Stop": "turn-end",
    "Interrupt": "turn-end",
    "PreCompact": "compaction",
    "SubagentStart": "agent-start",
    "SubagentStop": "agent-end",
    "SessionEnd": "session-end",
}
# Which of them are entered, and for which tools.
_ENTERED = {
    "SessionStart": None,
    "UserPromptSubmit": None,
    "PreToolUse": "Bash",
    "Stop": None,
    "Interrupt": None,
    "PreCompact": None,
    "SessionEnd": None,
}
# What a sub-agent's events are, which tells of its conversation as of one between a person and an agent.
_OF_AGENTS: dict[str, EventKind] = {
    "session-start": "agent-start",
    "prompt": "agent-start",
    "compaction": "agent-start",
    "turn-end": "agent-end",
    "session-end": "agent-end",
}
_ONLY_HERE = frozenset({"PreModelRequest", "PostModelRequest", "Interrupt"})
_SECONDS = 60
# These two it gives three seconds, whatever is asked for; a look may take so much of them.
_HURRIED = frozenset({"SessionEnd", "Interrupt"})
_LIMIT, _LOOK = 3, 1.5
_PATCH = "apply_patch"
# How much of a session's id tells when it began, in milliseconds; a day has so many seconds.
_TIME_DIGITS, _DAY = 12, 86_400
# How a patch is handed over in a shell, and which lines of it name a file.
_HANDED_OVER = re.compile(rf"(?:cd +[\w./~-]+ *&& *)?{_PATCH}\s*<<\s*(['\"]?)(\w+)\1\s*")
_NAMED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE)
# At which it takes something for its agent.
_INFORMED: dict[EventKind, str] = {"session-start": "SessionStart", "prompt": "UserPromptSubmit"}


def is_from_it(payload: Mapping[str, object]) -> bool:
    """Tell by its shape whether a payload comes from this host."""
    transcript = text_in(payload, "transcript_path") or ""
    is_rollout = "/rollout-" in transcript and transcript.endswith(".jsonl")
    return is_rollout or "turn_id" in payload or payload.get("hook_event_name") in _ONLY_HERE


def event_of(
    payload: Mapping[str, object],
    environment: Mapping[str, str],  # noqa: ARG001 - it tells nothing there
    *,
    caller: int,
) -> HookEvent | None:
    """Return what a payload tells of; None of what makes no checkpoint.

    A sub-agent tells of a prompt of its own, in a conversation of its own, and all the same of the session
    of who began it: that is no turn of a person's, and its session is that of the first conversation.
    """
    name = str(payload.get("hook_event_name"))
    kind = _KINDS.get(name)
    session, folder = text_in(payload, "session_id"), text_in(payload, "cwd")
    if kind is None or session is None or folder is None:
        return None
    given = object_in(payload, "tool_input")
    transcript, agent = text_in(payload, "transcript_path"), text_in(payload, "agent_id")
    if agent is not None:
        kind = _OF_AGENTS.get(kind, kind)
        transcript = transcript and _begun(transcript, session)
    tool, command = text_in(payload, "tool_name"), text_in(given, "command")
    patch = None if command is None else command if tool == _PATCH else _patch_in(command)
    return HookEvent(
        host=NAME,
        kind=kind,
        session=session,
        folder=folder,
        transcript=transcript,
        owner=host_above(caller),
        text=text_in(payload, "prompt", "source", "trigger", "reason") or "",
        tool=tool if patch is None else _PATCH,
        command=command if patch is None else None,
        call=text_in(payload, "tool_use_id"),
        paths=paths_in(given) if patch is None else tuple(_NAMED.findall(patch)),
        agent=agent,
        is_cut=name == "Interrupt",
        seconds=_LOOK if name in _HURRIED else None,
        goes_on=payload.get("stop_hook_active") is True,
        moment=text_in(payload, "tool_use_id" if kind in {"tool", "tool-end"} else "turn_id"),
    )


def _begun(transcript: str, session: str) -> str:
    """Return where the first conversation of a session is kept, given another of it; that if it is gone."""
    end, folder = f"-{session}.jsonl", os.path.dirname(transcript)
    if transcript.endswith(end):
        return transcript
    # The same day first, as it nearly always is.
    for place in (folder, *_days(os.path.dirname(os.path.dirname(os.path.dirname(folder))), session)):
        try:
            found = next((name for name in os.listdir(place) if name.endswith(end)), None)
        except OSError:
            continue
        if found is not None:
            return f"{place}/{found}"
    return transcript


def _days(above: str, session: str) -> list[str]:
    """Return the folders in which a session may have begun: its id (a UUIDv7) begins with when that was."""
    digits = session.replace("-", "")[:_TIME_DIGITS]
    try:
        began = int(digits, 16) // 1000
        days = [datetime.fromtimestamp(began + shift * _DAY, tz=UTC) for shift in (0, -1, 1)]
    except (ValueError, OverflowError, OSError):
        return []
    return [f"{above}/{day:%Y/%m/%d}" for day in days]  # by the clock of wherever it was


def _patch_in(command: str) -> str | None:
    """Return the patch that a command hands over, and does nothing else; it is an edit, as by any tool."""
    first, _, rest = command.strip().partition("\n")
    begun = _HANDED_OVER.fullmatch(first)
    if begun is None:
        return None
    lines = rest.split("\n")
    patch = "\n".join(lines[:-1])
    # What a shell would put in there may be anything, and so may what follows.
    is_literal = bool(begun[1]) or not set("$`\\") & set(patch)
    is_all = begun[2] == lines[-1] and lines.count(begun[2]) == 1
    return patch if is_literal and is_all else None


def told(message: str) -> dict[str, object]:
    """Return the reply that shows a person a message and lets the agent go on."""
    return {"systemMessage": message}


def refused(message: str) -> dict[str, object]:
    """Return the reply that keeps a tool from being used."""
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": message,
        }
    }


def informed(kind: EventKind, text: str) -> dict[str, object] | None:
    """Return the reply that tells an agent something at an event; None where it takes nothing then."""
    name = _INFORMED.get(kind)
    return None if name is None else context_reply(name, text)


def placed(words: tuple[str, ...], environment: Mapping[str, str], *, project: str | None) -> Placed:
    """Return what starts a program by some words, for the user or a project; `Usage` without a home."""
    from lastgood.conversation.hosts import home_of  # lazily: a hook does not ask

    home = os.path.join(project, ".codex") if project is not None else home_of(NAME, environment)
    if home is None:
        raise Usage("HOME is not set, so nobody knows where Codex's settings are", hint="set HOME")
    line = command_line(words, NAME)
    return Placed(
        file=os.path.join(home, "hooks.json"),
        entries={
            name: ({} if matcher is None else {"matcher": matcher})
            | {"hooks": [_handler(line, seconds=_LIMIT if name in _HURRIED else _SECONDS)]}
            for name, matcher in _ENTERED.items()
        },
    )


def advice(*, project: bool) -> tuple[str, ...]:
    """Return what a person has to know, or to do, before the host takes the hooks."""
    review = "Codex skips hooks that you have not reviewed: type /hooks in it, and trust these."
    if project:
        return ("It takes a project's hooks only once you trust the folder.", review)
    return (review,)


def doubt(settings: Mapping[str, object]) -> str | None:  # noqa: ARG001 - nothing is switched off there
    """Return why the host does not take the hooks that are in its settings, if so."""
    return None


def _handler(line: str, *, seconds: int) -> dict[str, object]:
    return {"type": "command", "command": line, "timeout": seconds}
