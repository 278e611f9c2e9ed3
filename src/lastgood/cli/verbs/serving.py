"""Carries out commands for other processes, which are of the workspace that this one watches."""

from __future__ import annotations

import os

from lastgood.cli.faults import tell_interrupted
from lastgood.cli.opening import Console, Streams
from lastgood.cli.reader import read
from lastgood.cli.started import Started
from lastgood.cli.verbs.save import save_verb
from lastgood.cli.verbs.status import status_verb
from lastgood.errors import Busy, LastgoodError
from lastgood.paths import to_bytes
from lastgood.resident import greeting
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
    """Answers at the socket of a workspace's store, as long as nobody else does.

    It ends for good when another lastgood is installed in the place of the one that runs.
    """

    def __init__(self, workspace: OpenWorkspace) -> None:
        self._workspace = workspace
        self._greeting = greeting()
        self._workspaces: ServedWorkspaces | None = None
        self._listener: Listener | None = None
        self._lock = workspace._context.locks.serving(wait=0)  # noqa: SLF001 - it is what is served

    @property
    def descriptor(self) -> int | None:
        """What can be waited for; None while there is nothing to wait for."""
        return None if self._listener is None else self._listener.descriptor

    def begin(self) -> None:
        """Begin to answer, unless that has begun, somebody else does, or it cannot be."""
        if self._listener is not None:
            return
        try:
            if greeting() != self._greeting:
                return
            self._workspaces = ServedWorkspaces(self._workspace)
            self._lock.__enter__()
        except (LastgoodError, OSError, Declined):
            return
        try:
            store = to_bytes(self._workspace.store)
            self._listener = Listener(store, greeting=self._greeting, answer=self._answer)
        except OSError:
            self._lock.__exit__(None, None, None)

    def serve(self) -> None:
        """Answer whoever connected first; close where clients ought to find another."""
        assert self._listener is not None
        assert self._workspaces is not None
        if self._listener.is_found and self._workspaces.is_current() and greeting() == self._greeting:
            self._listener.serve()
        else:
            self.close()

    def close(self) -> None:
        """Be found no longer; harmless when repeated."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
            self._lock.__exit__(None, None, None)

    def _answer(self, request: Request) -> Answer:
        here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _enter(request.folder)
            return self._carried_out(request)
        except Declined:
            raise
        except BaseException:
            self._workspace._state.doubt()  # noqa: SLF001 - it broke off in between
            raise
        finally:
            os.fchdir(here)
            os.close(here)

    def _carried_out(self, request: Request) -> Answer:
        assert self._workspaces is not None
        Started.name = request.program
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
            self._workspace._state.doubt()  # noqa: SLF001 - it broke off in between
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
