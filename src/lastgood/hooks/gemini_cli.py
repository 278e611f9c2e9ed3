"""Gemini CLI: its events, its replies, its settings (the hooks reference of its documentation).

A hook is given one JSON object on standard input, and prints one or nothing. Times are in milliseconds.
"""

from __future__ import annotations

import os

from lastgood.errors import Usage
from lastgood.hooks.entries import command_line
from lastgood.hooks.event import HookEvent
from lastgood.hooks.host import Placed
from lastgood.hooks.payload import context_reply, host_above, object_in, paths_in, text_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.hooks.event import EventKind

NAME = "gemini-cli"
TITLE = "Gemini CLI"
_KINDS: dict[str, EventKind] = {
    "SessionStart": "session-start",
    "BeforeAgent": "prompt",
    "BeforeTool": "tool",
    "AfterTool": "tool-end",
    "BeforeModel": "batch-end",
    "AfterAgent": "turn-end",
    "PreCompress": "compaction",
    "SessionEnd": "session-end",
}
# Which of them are entered, and for which tools.
_ENTERED = {
    "SessionStart": None,
    "BeforeAgent": None,
    "BeforeTool": "run_shell_command",
    "AfterAgent": None,
    "PreCompress": "manual",
    "SessionEnd": None,
}
_ONLY_HERE = frozenset({"BeforeAgent", "AfterAgent", "BeforeModel", "AfterModel", "BeforeTool", "AfterTool"})
_MILLISECONDS = 60_000
# A session's first eight digits end the name of its file.
_NAME_END = len("-01234567.jsonl")
# At which it takes something for its agent.
_INFORMED: dict[EventKind, str] = {"session-start": "SessionStart", "prompt": "BeforeAgent"}


def is_from_it(payload: Mapping[str, object]) -> bool:
    """Tell by its shape whether a payload comes from this host."""
    return "timestamp" in payload or payload.get("hook_event_name") in _ONLY_HERE | {"PreCompress"}


def event_of(
    payload: Mapping[str, object], environment: Mapping[str, str], *, caller: int
) -> HookEvent | None:
    """Return what a payload tells of; None of what makes no checkpoint.

    Before every request to the model it says that it may compress ("auto"): that is no compaction.
    """
    kind = _KINDS.get(str(payload.get("hook_event_name")))
    session, folder = text_in(payload, "session_id"), text_in(payload, "cwd")
    if kind is None or session is None or folder is None:
        return None
    if kind == "compaction" and payload.get("trigger") != "manual":
        return None
    given = object_in(payload, "tool_input")
    if kind == "tool-end" and "error" in object_in(payload, "tool_response"):
        kind = "tool-failed"
    transcript = text_in(payload, "transcript_path")
    return HookEvent(
        host=NAME,
        kind=kind,
        session=session,
        folder=environment.get("GEMINI_PROJECT_DIR") or folder,
        transcript=None if transcript is None else _first_file(transcript),
        owner=host_above(caller),
        text=text_in(payload, "prompt", "source", "trigger", "reason") or "",
        tool=text_in(payload, "tool_name"),
        command=text_in(given, "command"),
        paths=paths_in(given),
        goes_on=payload.get("stop_hook_active") is True,
        moment=text_in(payload, "timestamp"),
    )


def told(message: str) -> dict[str, object]:
    """Return the reply that shows a person a message and lets the agent go on."""
    return {"systemMessage": message}


def refused(message: str) -> dict[str, object]:
    """Return the reply that keeps a tool from being used."""
    return {"decision": "deny", "reason": message}


def informed(kind: EventKind, text: str) -> dict[str, object] | None:
    """Return the reply that tells an agent something at an event; None where it takes nothing then."""
    name = _INFORMED.get(kind)
    return None if name is None else context_reply(name, text)


def placed(words: tuple[str, ...], environment: Mapping[str, str], *, project: str | None) -> Placed:
    """Return what starts a program by some words, for the user or a project; `Usage` without a home."""
    from lastgood.conversation.hosts import gemini_home  # lazily: a hook does not ask

    home = os.path.join(project, ".gemini") if project is not None else gemini_home(environment)
    if home is None:
        raise Usage("HOME is not set, so nobody knows where Gemini CLI's settings are", hint="set HOME")
    handler = {
        "type": "command",
        "command": command_line(words, NAME),
        "name": "lastgood",
        "timeout": _MILLISECONDS,
    }
    return Placed(
        file=os.path.join(home, "settings.json"),
        entries={
            name: ({} if matcher is None else {"matcher": matcher}) | {"hooks": [handler]}
            for name, matcher in _ENTERED.items()
        },
    )


def advice(*, project: bool) -> tuple[str, ...]:
    """Return what a person has to know, or to do, before the host takes the hooks."""
    if project:
        return ("It takes a project's hooks only once you trust the folder, and says so when they are new.",)
    return ()


def doubt(settings: Mapping[str, object]) -> str | None:
    """Return why the host does not take the hooks that are in its settings, if so."""
    told_of = object_in(settings, "hooksConfig")
    if told_of.get("enabled") is False:
        return "hooksConfig.enabled is false in that file"
    disabled = told_of.get("disabled")
    if isinstance(disabled, list) and "lastgood" in disabled:
        return "hooksConfig.disabled in that file names lastgood"
    return None


def _first_file(transcript: str) -> str:
    """Return where a conversation is kept: resumed in another minute it tells of a second file.

    It goes on in the first all the same, which is the longer one.
    """
    folder, end = os.path.dirname(transcript), transcript[-_NAME_END:]
    try:
        files = [f"{folder}/{name}" for name in os.listdir(folder) if name.endswith(end)]
        return max(files, key=lambda one: os.stat(one).st_size, default=transcript)
    except OSError:
        return transcript
