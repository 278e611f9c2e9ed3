"""opencode: what our plugin in it tells, its replies, where plugins lie (its documentation of plugins).

The plugin (``opencode_plugin.js``) has this command carry out what happens, one at a time. It sends one
JSON object on standard input; of what comes back ``told`` is shown, ``refused`` keeps a tool from use, and
``context`` is said to the model for as long as the turn lasts.
"""

from __future__ import annotations

import os

from lastgood.errors import Usage
from lastgood.hooks.event import HookEvent
from lastgood.hooks.host import Placed
from lastgood.hooks.payload import host_above, object_in, paths_in, text_in
from lastgood.hooks.risk import is_risky

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.hooks.event import EventKind

NAME = "opencode"
TITLE = "opencode"
_KINDS: dict[str, EventKind] = {
    "session.start": "session-start",
    "chat.message": "prompt",
    "tool.execute.before": "tool",
    "tool.execute.after": "tool-end",
    "session.idle": "turn-end",
    "session.compacting": "compaction",
    "dispose": "session-end",
}
_PLUGIN = "opencode_plugin.js"
# These change the file that they are told of, and nothing else.
_EDITORS = frozenset({"write", "edit"})


def is_from_it(payload: Mapping[str, object]) -> bool:
    """Tell by its shape whether a payload comes from our plugin."""
    return "sessionID" in payload and "directory" in payload


def event_of(
    payload: Mapping[str, object], environment: Mapping[str, str], *, caller: int
) -> HookEvent | None:
    """Return what a payload tells of; None of what makes no checkpoint."""
    kind = _KINDS.get(str(payload.get("event")))
    session, folder = text_in(payload, "sessionID"), text_in(payload, "directory")
    if kind is None or session is None or folder is None:
        return None
    given = object_in(payload, "args")
    tool, command, paths = text_in(payload, "tool"), text_in(given, "command"), paths_in(given)
    is_beside = payload.get("beside") is True
    if is_beside and kind == "tool" and not (command and is_risky(command)):
        return None  # what is there now is what another one is at
    if kind == "tool-end" and (is_beside or payload.get("failed") is True):
        kind, tool = ("batch-end", None) if is_beside else ("tool-failed", tool)
    return HookEvent(
        host=NAME,
        kind=kind,
        session=session,
        folder=folder,
        transcript=_transcript(session, environment),
        owner=host_above(caller),
        text=_as_typed(text_in(payload, "text") or ""),
        tool=tool,
        command=command,
        call=text_in(payload, "callID"),
        paths=paths,
        changes=paths if tool in _EDITORS and paths else None,
        agent=text_in(payload, "agent"),
        is_cut=payload.get("cut") is True,
        moment=text_in(payload, "callID", "messageID"),
    )


def told(message: str) -> dict[str, object]:
    """Return the reply that shows a person a message and lets the agent go on."""
    return {"told": message}


def refused(message: str) -> dict[str, object]:
    """Return the reply that keeps a tool from being used."""
    return {"refused": message}


def informed(kind: EventKind, text: str) -> dict[str, object] | None:
    """Return the reply that tells an agent something at an event; None where it takes nothing then."""
    return {"context": text} if kind == "prompt" else None


def placed(words: tuple[str, ...], environment: Mapping[str, str], *, project: str | None) -> Placed:
    """Return what starts a program by some words, for the user or a project; `Usage` without a home."""
    import json

    home = environment.get("HOME")
    settings = environment.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else None)
    folder = f"{settings}/opencode" if project is None else os.path.join(project, ".opencode")
    if project is None and settings is None:
        raise Usage("HOME is not set, so nobody knows where opencode's plugins are", hint="set HOME")
    with open(os.path.join(os.path.dirname(__file__), _PLUGIN), encoding="utf-8") as file:
        text = file.read()
    file_name = f"{folder}/plugin/lastgood.js"
    command = [*words, "hook", NAME]
    texts = [
        text.replace('["lastgood", "hook", "opencode"]', json.dumps(one, ensure_ascii=False))
        for one in (command, [*command, "--tools"])
    ]
    return Placed(file=file_name, own=(file_name,), text=texts[0], text_with_tools=texts[1])


def advice(*, project: bool) -> tuple[str, ...]:
    """Return what a person has to know, or to do, before the host takes the hooks."""
    if project:
        return (
            "opencode runs what is in that folder without asking: others who share it need lastgood too.",
        )
    return ()


def doubt(settings: Mapping[str, object]) -> str | None:  # noqa: ARG001 - it has none in a plugin
    """Return why the host does not take the hooks that are in its settings, if so."""
    return None


def _as_typed(text: str) -> str:
    """Return a prompt without the quotes that `opencode run` puts around a word that has blanks."""
    inner = text[1:-1]
    is_quoted = f'"{inner}"' == text and " " in inner and '"' not in inner.replace('\\"', "")
    return inner.replace('\\"', '"') if is_quoted else text


def _transcript(session: str, environment: Mapping[str, str]) -> str | None:
    """Return where a conversation is kept: in opencode's database, by its name."""
    home = environment.get("HOME")
    data = environment.get("XDG_DATA_HOME") or (f"{home}/.local/share" if home else None)
    return None if data is None else f"{data}/opencode/opencode.db/{session}"
