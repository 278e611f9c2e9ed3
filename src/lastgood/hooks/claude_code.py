"""Claude Code: its events, its replies, its settings (the hooks reference of its documentation).

A hook is given one JSON object on standard input. What it prints is one JSON object or nothing, and it ends
with 0: 2 would block what the agent does.
"""

from __future__ import annotations

import os

from lastgood.errors import Usage
from lastgood.hooks.event import HookEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.hooks.event import EventKind

NAME = "claude-code"
_KINDS: dict[str, EventKind] = {
    "SessionStart": "session-start",
    "UserPromptSubmit": "prompt",
    "PreToolUse": "tool",
    "Stop": "turn-end",
    "StopFailure": "turn-end",
    "PreCompact": "compaction",
    "SessionEnd": "session-end",
}
# Of the tools only those run what may take away more than it says.
_MATCHERS = {"PreToolUse": "Bash|PowerShell"}
# What says why an event happens, by the first of these fields that it has.
_REASONS = ("prompt", "source", "trigger", "reason", "error")
_SECONDS = 60


def event_of(payload: Mapping[str, object], environment: Mapping[str, str]) -> HookEvent | None:
    """Return what a payload tells of; None of what makes no checkpoint."""
    kind = _KINDS.get(str(payload.get("hook_event_name")))
    session, folder = payload.get("session_id"), payload.get("cwd")
    if kind is None or not isinstance(session, str) or not isinstance(folder, str):
        return None
    given = payload.get("tool_input")
    command = given.get("command") if isinstance(given, dict) else None
    owner = environment.get("CLAUDE_PID", "")
    reason = next((payload[one] for one in _REASONS if isinstance(payload.get(one), str)), "")
    return HookEvent(
        host=NAME,
        kind=kind,
        session=session,
        folder=environment.get("CLAUDE_PROJECT_DIR") or folder,
        transcript=_text(payload.get("transcript_path")),
        owner=int(owner) if owner.isdecimal() else None,
        text=str(reason),
        tool=_text(payload.get("tool_name")),
        command=_text(command),
    )


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


def settings_file(environment: Mapping[str, str], *, project: str | None) -> str:
    """Return the file that hooks are entered into, the user's or a project's; `Usage` without a home."""
    if project is not None:
        return os.path.join(project, ".claude", "settings.json")
    from lastgood.conversation.hosts import claude_home  # lazily: a hook does not ask

    home = claude_home(environment)
    if home is None:
        raise Usage("HOME is not set, so nobody knows where Claude Code's settings are", hint="set HOME")
    return os.path.join(home, "settings.json")


def groups(words: tuple[str, ...]) -> dict[str, dict[str, object]]:
    """Return what belongs under ``hooks`` for each event, for a program that is started by some words."""
    command, *arguments = words
    handler = {
        "type": "command",
        "command": command,
        "args": [*arguments, "hook", NAME],
        "timeout": _SECONDS,
    }
    return {
        name: ({"matcher": _MATCHERS[name]} if name in _MATCHERS else {}) | {"hooks": [handler]}
        for name in _KINDS
    }


def is_ours(group: object) -> bool:
    """Tell whether an element under an event is an entry of this program, wherever that was then."""
    handlers = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(handlers, list) or len(handlers) != 1 or not isinstance(handlers[0], dict):
        return False
    handler = handlers[0]
    arguments = handler.get("args")
    if not isinstance(arguments, list) or arguments[-2:] != ["hook", NAME]:
        return False
    return any("lastgood" in str(word) for word in (handler.get("command"), *arguments[:-2]))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
