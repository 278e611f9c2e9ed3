"""Cline: its events, its replies, its folder of hooks (programs named after events, in its documentation).

A hook is given one JSON object on standard input, and prints one or nothing. What Cline calls a task is a
session of one turn; it tells neither of a person's words nor of the end of its process.
"""

from __future__ import annotations

import os
import shlex

from lastgood.errors import Usage
from lastgood.hooks.event import HookEvent
from lastgood.hooks.host import Placed
from lastgood.hooks.payload import host_above, object_in, paths_in, text_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.hooks.event import EventKind

NAME = "cline"
TITLE = "Cline"
_KINDS: dict[str, EventKind] = {
    "agent_start": "prompt",
    "agent_resume": "prompt",
    "tool_call": "tool",
    "tool_result": "tool-end",
    "agent_end": "turn-end",
    "agent_abort": "turn-end",
    "agent_error": "turn-end",
    "pre_compact": "compaction",
    "session_shutdown": "session-end",
}
# The files that are entered, by what Cline calls its events there.
_FILES = (
    "TaskStart",
    "TaskResume",
    "PreToolUse",
    "TaskComplete",
    "TaskCancel",
    "TaskError",
    "PreCompact",
    "SessionShutdown",
)
_TEXT = """\
#!/bin/sh
# Makes checkpoints: entered by lastgood install cline, taken out by lastgood uninstall cline.
exec {line} hook cline
"""


def is_from_it(payload: Mapping[str, object]) -> bool:
    """Tell by its shape whether a payload comes from this host."""
    return "hookName" in payload and "workspaceRoots" in payload


def event_of(
    payload: Mapping[str, object], environment: Mapping[str, str], *, caller: int
) -> HookEvent | None:
    """Return what a payload tells of; None of what makes no checkpoint.

    What a sub-agent begins and ends is no turn.
    """
    kind = _KINDS.get(str(payload.get("hookName")))
    folders = payload.get("workspaceRoots")
    folder = folders[0] if isinstance(folders, list) and folders else None
    session = text_in(object_in(payload, "sessionContext"), "rootSessionId") or text_in(payload, "taskId")
    if kind is None or session is None or not isinstance(folder, str):
        return None
    agent = text_in(payload, "agent_id") if payload.get("parent_agent_id") else None
    if agent is not None and kind in {"prompt", "turn-end"}:
        kind = "agent-start" if kind == "prompt" else "agent-end"
    used = object_in(payload, "tool_result" if kind == "tool-end" else "tool_call")
    if kind == "tool-end" and _is_failure(used.get("output")):
        kind = "tool-failed"
    given = object_in(used, "input")
    kept = _kept(session, environment)
    return HookEvent(
        host=NAME,
        kind=kind,
        session=session,
        folder=folder,
        transcript=None if kept is None else f"{kept}.messages.json",
        owner=host_above(caller),
        text=_asked(f"{kept}.json") if kind == "prompt" else text_in(payload, "hookName") or "",
        tool=text_in(used, "name"),
        command=_command(given),
        call=text_in(used, "id"),
        paths=paths_in(given),
        agent=agent,
        is_cut=payload.get("hookName") == "agent_abort",
        is_last=kind == "turn-end",
        moment=text_in(payload, "timestamp"),
    )


def told(message: str) -> dict[str, object]:
    """Return the reply that shows a person a message and lets the agent go on."""
    return {"cancel": False, "errorMessage": message}


def refused(message: str) -> dict[str, object]:
    """Return the reply that keeps a tool from being used."""
    return {"cancel": True, "errorMessage": message}


def informed(kind: EventKind, text: str) -> None:
    """Return nothing: it takes nothing for its agent at a prompt."""


def placed(words: tuple[str, ...], environment: Mapping[str, str], *, project: str | None) -> Placed:
    """Return what starts a program by some words, for the user or a project; `Usage` without a home."""
    home = environment.get("HOME")
    if project is None and not home:
        raise Usage("HOME is not set, so nobody knows where Cline's hooks are", hint="set HOME")
    folder = f"{home}/.cline/hooks" if project is None else os.path.join(project, ".clinerules", "hooks")
    return Placed(
        file=folder,
        own=tuple(f"{folder}/{name}" for name in _FILES),
        text=_TEXT.format(line=shlex.join(words)),
        executable=True,
    )


def advice(*, project: bool) -> tuple[str, ...]:
    """Return what a person has to know, or to do, before the host takes the hooks."""
    if project:
        return ("Cline runs what is in that folder without asking: others who share it need lastgood too.",)
    return ()


def doubt(settings: Mapping[str, object]) -> str | None:  # noqa: ARG001 - it has none in that folder
    """Return why the host does not take the hooks that are in its settings, if so."""
    return None


def _kept(session: str, environment: Mapping[str, str]) -> str | None:
    """Return how the files begin that Cline keeps a session in; None for a name that is no file's."""
    folder = environment.get("CLINE_SESSION_DATA_DIR")
    home = environment.get("HOME")
    if folder is None and home:
        folder = f"{home}/.cline/data/sessions"
    return None if folder is None or "/" in session else f"{folder}/{session}/{session}"


def _asked(record: str) -> str:
    """Return what a person asked for, as the record of the session has it; "" if it has not."""
    import json  # it is loaded by now

    try:
        with open(record, "rb") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return ""
    return text_in(found, "prompt") or "" if isinstance(found, dict) else ""


def _is_failure(output: object) -> bool:
    """Tell whether a tool failed, or one of several things that it did."""
    each = output if isinstance(output, list) else [output]
    return any(isinstance(one, dict) and one.get("success") is False for one in each)


def _command(given: Mapping[str, object]) -> str | None:
    """Return what a shell is to carry out: one command, or several."""
    several = given.get("commands")
    if isinstance(several, list):
        return "; ".join(one for one in several if isinstance(one, str)) or None
    return text_in(given, "command")
