"""hook: a checkpoint because of what happens in the host of a coding agent (decision 049)."""

from __future__ import annotations

import json
import os

from lastgood.errors import Invalid, LastgoodError, Unsafe
from lastgood.hooks.risk import is_risky
from lastgood.hooks.table import host_named, host_of
from lastgood.ids import SESSION_VARIABLE
from lastgood.paths import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.hooks.event import HookEvent
    from lastgood.hooks.host import Host
    from lastgood.hooks.respond import Reply

# What makes no checkpoint: the state before a turn and after it bound these. Calls of tools do if asked for.
_UNKEPT = frozenset({"agent-start", "agent-end"})
_OF_TOOLS = frozenset({"tool", "tool-end", "tool-failed", "batch-end"})


def hook_verb(call: Call, console: Console) -> int:
    """Make the checkpoint that an event of a host is worth; end with 0 whatever happens, and say what did."""
    console.take(call)
    name = call.argument(0)
    host, event = None if name is None else host_named(name), None
    try:
        payload = _payload(call, console)
        host = host or _recognised(payload)
        event = host.event_of(payload, console.environment, caller=console.caller)
        reply = None if event is None else _respond(call, event, console)
    except LastgoodError as error:
        if console.is_served:
            raise
        message = f"{error.message} ({error.hint.partition(chr(10))[0]})"
    except Exception as error:
        if console.is_served:
            raise
        message = f"{type(error).__name__}: {error}"  # whatever it is, the agent's work goes on
    else:
        if reply is not None and event is not None:
            _answer(reply, event, console, host=host)
        return 0
    blocks = call.has("block") and event is not None and event.kind == "tool"
    _tell(f"lastgood made no checkpoint: {printable(message)}", console, host=host, blocks=blocks)
    return 0


def _answer(reply: Reply, event: HookEvent, console: Console, *, host: Host) -> None:
    """Tell a host what there is to be told, in one object: its agent, and a person."""
    said = dict((reply.message and host.told(reply.message)) or {})
    said |= (reply.context and host.informed(event.kind, reply.context)) or {}
    if said:
        console.line(json.dumps(said))


def _tell(message: str, console: Console, *, host: Host | None, blocks: bool) -> None:
    """Tell a host in its own way that nothing was kept, or say it as an error where it has none."""
    reply = None if host is None else host.refused(message) if blocks else host.told(message)
    if reply is None:
        console.warn(message)
    else:
        console.line(json.dumps(reply))


def _recognised(payload: dict[str, object]) -> Host:
    found = host_of(payload)
    if found is None:
        raise Invalid("nobody knows which host says such things", hint="name it: lastgood hook HOST")
    return found


def _payload(call: Call, console: Console) -> dict[str, object]:
    try:
        payload = json.loads(console.input())
    except (ValueError, RecursionError) as error:
        raise _unreadable(str(error)) from error
    if not isinstance(payload, dict):
        raise _unreadable("it is no object")
    named = call.argument(1)
    return {"hook_event_name": named, **payload} if named else payload


def _unreadable(why: str) -> Invalid:
    return Invalid(
        f"what the host said is no JSON: {why}",
        hint="lastgood hook is called by a host: lastgood install HOST",
    )


def _respond(call: Call, event: HookEvent, console: Console) -> Reply | None:
    risky = event.kind == "tool" and event.command is not None and is_risky(event.command)
    if event.kind in _UNKEPT or (event.kind in _OF_TOOLS and not risky and not call.has("tools")):
        return None
    folder = call.text("directory") or event.folder
    here = call.replace(options={**call.options, "directory": (folder,)})
    try:
        from lastgood.workspace import Workspace  # lazily: most events of a tool end before

        workspace = console.open(here, Workspace, purpose="make")
    except Unsafe:
        if event.kind == "session-start" or call.has("block") or _may_be_kept(folder, console.environment):
            raise
        return None  # told when the session began
    with workspace:
        from lastgood.hooks import way_back  # lazily: as above
        from lastgood.hooks.repeated import Telling  # lazily: as above
        from lastgood.hooks.respond import respond
        from lastgood.workspace.opened import Proposal

        workspace.proposal = Proposal(console.proposed)
        session = console.environment.get(SESSION_VARIABLE) or None
        context = workspace._context  # noqa: SLF001 - beside its caches that is noted
        with Telling(context, event, console.input(), caller=console.caller) as telling:
            reply = respond(workspace, event, session=session, again=telling.again)
            if not telling.again and way_back.asks_for_it(event):
                said = way_back.words(here.command("").rstrip())
                reply = reply.replace(context=" ".join(filter(None, (reply.context, said))))
        console.have_watched(workspace, call)
        return reply


def _may_be_kept(folder: str, environment: Mapping[str, str]) -> bool:
    """Tell whether a folder may be a workspace (rule S11)."""
    from lastgood.workspace.arguments import admit

    try:
        admit(os.path.realpath(folder), environment, allow_root=False)
    except Unsafe:
        return False
    return True
