"""Cursor: its events, its replies, its hooks.json (the hooks page of its documentation).

A hook is given one JSON object on standard input, and prints one or nothing. A person reads what a hook
writes as an error in Cursor's panel of hooks: a reply that allows would overrule what they are asked.
"""

from __future__ import annotations

import os

from lastgood.errors import Usage
from lastgood.hooks.entries import command_line
from lastgood.hooks.event import HookEvent
from lastgood.hooks.host import Placed
from lastgood.hooks.payload import host_above, object_in, paths_in, text_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.hooks.event import EventKind

NAME = "cursor"
TITLE = "Cursor"
_KINDS: dict[str, EventKind] = {
    "sessionStart": "session-start",
    "beforeSubmitPrompt": "prompt",
    "beforeShellExecution": "tool",
    "afterShellExecution": "tool-end",
    "preToolUse": "tool",
    "postToolUse": "tool-end",
    "postToolUseFailure": "tool-failed",
    "afterFileEdit": "tool-end",
    "subagentStart": "agent-start",
    "subagentStop": "agent-end",
    "preCompact": "compaction",
    "stop": "turn-end",
    "sessionEnd": "session-end",
}
_ENTERED = (
    "sessionStart",
    "beforeSubmitPrompt",
    "beforeShellExecution",
    "preCompact",
    "stop",
    "sessionEnd",
)
_OF_CALLS = frozenset({"tool", "tool-end", "tool-failed"})


def is_from_it(payload: Mapping[str, object]) -> bool:
    """Tell by its shape whether a payload comes from this host."""
    return "conversation_id" in payload and "workspace_roots" in payload


def event_of(
    payload: Mapping[str, object], environment: Mapping[str, str], *, caller: int
) -> HookEvent | None:
    """Return what a payload tells of; None of what makes no checkpoint."""
    kind = _KINDS.get(str(payload.get("hook_event_name")))
    folders = payload.get("workspace_roots")
    folder = folders[0] if isinstance(folders, list) and folders else environment.get("CURSOR_PROJECT_DIR")
    session = text_in(payload, "conversation_id")
    if kind is None or session is None or not isinstance(folder, str):
        return None
    given = object_in(payload, "tool_input")
    return HookEvent(
        host=NAME,
        kind=kind,
        session=session,
        folder=folder,
        transcript=text_in(payload, "transcript_path"),
        owner=host_above(caller),
        text=text_in(payload, "prompt", "trigger", "reason", "status") or "",
        tool=text_in(payload, "tool_name"),
        command=text_in(payload, "command") or text_in(given, "command"),
        call=text_in(payload, "tool_use_id"),
        paths=paths_in(given) or paths_in(payload),
        is_cut=kind == "turn-end" and payload.get("status") == "aborted",
        moment=text_in(payload, "tool_use_id" if kind in _OF_CALLS else "generation_id"),
    )


def told(message: str) -> None:
    """Return nothing: what is an error is shown."""


def refused(message: str) -> dict[str, object]:
    """Return the reply that keeps a tool from being used."""
    return {"permission": "deny", "user_message": message, "agent_message": message}


def informed(kind: EventKind, text: str) -> None:
    """Return nothing: it takes nothing for its agent at a prompt."""


def placed(words: tuple[str, ...], environment: Mapping[str, str], *, project: str | None) -> Placed:
    """Return what starts a program by some words, for the user or a project; `Usage` without a home."""
    home = environment.get("HOME") if project is None else project
    if not home:
        raise Usage("HOME is not set, so nobody knows where Cursor's settings are", hint="set HOME")
    entry = {"command": command_line(words, NAME)}
    return Placed(
        file=os.path.join(home, ".cursor", "hooks.json"),
        entries=dict.fromkeys(_ENTERED, entry),
        empty='{\n  "version": 1\n}\n',
    )


def advice(*, project: bool) -> tuple[str, ...]:
    """Return what a person has to know, or to do, before the host takes the hooks."""
    if project:
        return ("Cursor runs a project's hooks only in a workspace that you trust.",)
    return ()


def doubt(settings: Mapping[str, object]) -> str | None:
    """Return why the host does not take the hooks that are in its settings, if so."""
    return None if settings.get("version") == 1 else 'that file does not say "version": 1, as Cursor wants'
