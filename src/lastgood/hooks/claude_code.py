"""Claude Code: its events, its replies, its settings (the hooks reference of its documentation).

A hook is given one JSON object on standard input. What it prints is one JSON object or nothing, and it ends
with 0: 2 would block what the agent does.
"""

from __future__ import annotations

import os
import re

from lastgood.errors import Usage
from lastgood.hooks.event import HookEvent
from lastgood.hooks.host import Placed
from lastgood.hooks.payload import context_reply, object_in, paths_in, text_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lastgood.hooks.event import EventKind

NAME = "claude-code"
TITLE = "Claude Code"
_KINDS: dict[str, EventKind] = {
    "SessionStart": "session-start",
    "UserPromptSubmit": "prompt",
    "PreToolUse": "tool",
    "PostToolUse": "tool-end",
    "PostToolUseFailure": "tool-failed",
    "PostToolBatch": "batch-end",
    "Stop": "turn-end",
    "StopFailure": "turn-end",
    "PreCompact": "compaction",
    "SessionEnd": "session-end",
}
# Of the tools only those run what may take away more than it says.
_MATCHERS = {"PreToolUse": "Bash|PowerShell"}
# Those that may change files. What each of the calls changed that ran beside each other nobody can tell; it
# tells them together when the last is over, also where there was but one.
_CHANGING = "Bash|PowerShell|Write|Edit|MultiEdit|NotebookEdit|mcp__.*"
_CHANGES = re.compile(_CHANGING)
_MATCHERS_WITH_TOOLS = {"PreToolUse": _CHANGING}
# Those of them that change the file that they are told of, and nothing else.
_EDITORS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_ALONE, _BATCH = frozenset({"PostToolUse", "PostToolUseFailure"}), "PostToolBatch"
_OF_CALLS = frozenset({"tool", "tool-end", "tool-failed"})
# What says why an event happens, by the first of these fields that it has.
_REASONS = ("prompt", "source", "trigger", "reason", "error")
# What it tells an agent, as if a person did, when what goes on in the background is over.
_NOTIFICATION = re.compile(r"<task-notification>.*?<summary>(.*?)</summary>", re.DOTALL)
_SECONDS = 60
# At which it takes something for its agent.
_INFORMED: dict[EventKind, str] = {"session-start": "SessionStart", "prompt": "UserPromptSubmit"}


def is_from_it(payload: Mapping[str, object]) -> bool:
    """Tell by its shape whether a payload comes from this host."""
    return "hook_event_name" in payload and "session_id" in payload


def event_of(
    payload: Mapping[str, object],
    environment: Mapping[str, str],
    *,
    caller: int,  # noqa: ARG001 - it names its own
) -> HookEvent | None:
    """Return what a payload tells of; None of what makes no checkpoint."""
    kind = _KINDS.get(str(payload.get("hook_event_name")))
    session, folder = payload.get("session_id"), payload.get("cwd")
    if kind is None or not isinstance(session, str) or not isinstance(folder, str):
        return None
    calls: Sequence[Mapping[str, object]] = (payload,)
    if kind == "batch-end":
        calls = _changing(payload.get("tool_calls"))
        if not calls:
            return None
        payload = {**payload, **calls[0]} if len(calls) == 1 else payload
    given, text = object_in(payload, "tool_input"), text_in(payload, *_REASONS) or ""
    summary = _NOTIFICATION.match(text)
    owner = environment.get("CLAUDE_PID", "")
    return HookEvent(
        host=NAME,
        kind=kind,
        session=session,
        folder=environment.get("CLAUDE_PROJECT_DIR") or folder,
        transcript=text_in(payload, "transcript_path"),
        owner=int(owner) if owner.isdecimal() else None,
        text=text if summary is None else summary[1],
        is_hosts=summary is not None,
        tool=text_in(payload, "tool_name"),
        command=text_in(given, "command"),
        call=text_in(payload, "tool_use_id"),
        paths=paths_in(given),
        changes=_edited(calls),
        agent=text_in(payload, "agent_id"),
        goes_on=payload.get("stop_hook_active") is True,
        moment=text_in(payload, "tool_use_id" if kind in _OF_CALLS else "prompt_id"),
    )


def _changing(calls: object) -> list[dict[str, object]]:
    """Return the calls of tools that may change files."""
    found = [one for one in calls if isinstance(one, dict)] if isinstance(calls, list) else []
    return [one for one in found if _CHANGES.fullmatch(str(one.get("tool_name")))]


def _edited(calls: Sequence[Mapping[str, object]]) -> tuple[str, ...] | None:
    """Return the files that calls changed, if each says which and changes no others."""
    named = [paths_in(object_in(one, "tool_input")) for one in calls if str(one.get("tool_name")) in _EDITORS]
    if len(named) < len(calls) or not all(named):
        return None
    return tuple(path for paths in named for path in paths)


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
    from lastgood.conversation.hosts import claude_home  # lazily: a hook does not ask

    home = os.path.join(project, ".claude") if project is not None else claude_home(environment)
    if home is None:
        raise Usage("HOME is not set, so nobody knows where Claude Code's settings are", hint="set HOME")
    command, *arguments = words
    handler = {
        "type": "command",
        "command": command,
        "args": [*arguments, "hook", NAME],
        "timeout": _SECONDS,
    }
    telling = handler | {"args": [*arguments, "hook", NAME, "--tools"]}
    return Placed(
        file=os.path.join(home, "settings.json"),
        entries=_entries(handler, _MATCHERS, beside={*_ALONE, _BATCH}),
        with_tools=_entries(telling, _MATCHERS_WITH_TOOLS, beside=_ALONE),
    )


def _entries(
    handler: Mapping[str, object], matchers: Mapping[str, str], *, beside: Collection[str]
) -> dict[str, object]:
    """Return what belongs under ``hooks`` for each event but for some."""
    return {
        name: ({"matcher": matchers[name]} if name in matchers else {}) | {"hooks": [handler]}
        for name in _KINDS
        if name not in beside
    }


def advice(*, project: bool) -> tuple[str, ...]:
    """Return what a person has to know, or to do, before the host takes the hooks."""
    if project:
        return ("It asks once whether you trust the folder, and takes its hooks only then.",)
    return ()


def doubt(settings: Mapping[str, object]) -> str | None:
    """Return why the host does not take the hooks that are in its settings, if so."""
    return "disableAllHooks is set in that file" if settings.get("disableAllHooks") else None
