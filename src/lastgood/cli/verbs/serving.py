"""Carries out commands for other processes, which are of the workspace that this one watches."""

from __future__ import annotations

import os

from lastgood.cli.faults import tell_interrupted
from lastgood.cli.opening import Console, Streams
from lastgood.cli.reader import read
from lastgood.cli.verbs.save import save_verb
from lastgood.cli.verbs.status import status_verb
from lastgood.errors import Busy, LastgoodError
from lastgood.resident.server import Answer, Declined, Listener
from lastgood.workspace.serving import ServedWorkspaces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call
    from lastgood.resident.server import Request
    from lastgood.workspace import Opened, Purpose
    from lastgood.workspace.opened import OpenWorkspace

# What is carried out here, with the options that mean the same here and there.
_EVERYWHERE = frozenset({"directory", "store", "json", "quiet"})
_SAVE = frozenset({"name", "kind", "message", "meta", "task", "tokens", "allow-empty", "pin", "budget"})
_SERVED = {
    "save": (save_verb, _EVERYWHERE | _SAVE),
    "status": (status_verb, _EVERYWHERE | {"ignored"}),
}


class Service:
    """Answers at the socket of a workspace's store, until it is closed or the store or program changes.

    OSError, `Busy` or `Declined` where that cannot be.
    """

    def __init__(self, workspace: OpenWorkspace) -> None:
        self._workspaces = ServedWorkspaces(workspace)
        context = workspace._context  # noqa: SLF001 - it is what is served
        self._lock = context.locks.serving(wait=0)
        self._lock.__enter__()
        try:
            self._listener = Listener(context.store, answer=self._answer)
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        self._is_open = True

    @property
    def descriptor(self) -> int | None:
        """What can be waited for; None once there is nothing to wait for any more."""
        return self._listener.descriptor if self._is_open else None

    def serve(self) -> None:
        """Answer whoever connected first; close where clients ought to find another."""
        if not self._listener.is_found or not self._workspaces.is_current():
            self.close()
            return
        self._listener.serve()

    def close(self) -> None:
        """Be found no longer; harmless when repeated."""
        if self._is_open:
            self._is_open = False
            self._listener.close()
            self._lock.__exit__(None, None, None)

    def _answer(self, request: Request) -> Answer:
        here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _enter(request.folder)
            return self._carried_out(request)
        except Declined:
            raise
        except BaseException:
            self._workspaces.doubt()
            raise
        finally:
            os.fchdir(here)
            os.close(here)

    def _carried_out(self, request: Request) -> Answer:
        console = _ServedConsole(request, self._workspaces)
        try:
            call = read(request.words)
        except LastgoodError:
            raise Declined from None
        if call is None or call.help or call.verb.name not in _SERVED:
            raise Declined
        verb, options = _SERVED[call.verb.name]
        if not call.options.keys() <= options:
            raise Declined
        console.take(call)
        try:
            code = verb(call, console)
        except KeyboardInterrupt:
            self._workspaces.doubt()
            code = tell_interrupted(console)
        console.flush()
        if not self._workspaces.is_current():
            raise Busy("the store was replaced meanwhile")
        return Answer(code=code, said=tuple(console.said))


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError:
        raise Declined from None


class _Collected(Streams):
    """The standard streams of a client, to which is written when all is done."""

    is_live = False

    def __init__(self, widths: tuple[int, ...]) -> None:
        self._widths = widths
        self.said: list[tuple[int, bytes]] = []

    def is_terminal(self, descriptor: int) -> bool:
        """Tell whether a stream is a terminal there."""
        return self._widths[descriptor] >= 0

    def columns(self, descriptor: int) -> int | None:
        """Return the width of a terminal there, None where there is none."""
        return max(0, self._widths[descriptor]) or None

    def write(self, descriptor: int, content: bytes) -> None:
        """Keep what is to be written."""
        self.said.append((descriptor, content))


class _ServedConsole(Console):
    def __init__(self, request: Request, workspaces: ServedWorkspaces) -> None:
        streams = _Collected(request.widths)
        super().__init__(request.environment, streams=streams)
        self.proposed = request.id
        self.said = streams.said
        self._request = request
        self._workspaces = workspaces

    def open(self, call: Call, group: type[Opened], *, purpose: Purpose) -> Opened:
        return self._workspaces.open(
            self._request,
            group,
            directory=call.text("directory"),
            store=call.text("store"),
            purpose=purpose,
        )
