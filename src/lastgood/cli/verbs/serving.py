"""Carries out commands for other processes, which are of the workspaces that this one watches."""

from __future__ import annotations

import os

from lastgood.cli import opening
from lastgood.cli.faults import tell_interrupted
from lastgood.cli.grammar import serve
from lastgood.cli.opening import Console, Streams
from lastgood.cli.reader import read
from lastgood.cli.verbs.hook import hook_verb
from lastgood.cli.verbs.save import save_verb
from lastgood.cli.verbs.status import status_verb
from lastgood.errors import Busy, LastgoodError, Usage
from lastgood.paths import printable, to_bytes
from lastgood.resident import BY_HAND, ON_DEMAND, greeting
from lastgood.resident.server import Answer, Declined, Listener
from lastgood.workspace.serving import ServedWorkspaces
from lastgood.workspace.watching import REST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lastgood.cli.grammar import Call
    from lastgood.host import Locks
    from lastgood.resident.server import Request
    from lastgood.workspace import Opened, Purpose
    from lastgood.workspace.watching import Watches

_LONGEST_REST = 3600.0


def rest_of(call: Call) -> float:
    """Return how long nothing must have changed, in seconds; `Usage`."""
    rest = opening.seconds_option(call, "rest")
    rest = REST if rest is None else rest
    if not 0 < rest <= _LONGEST_REST:
        raise Usage("--rest is a time of at most an hour", hint="for example: --rest 5s")
    return rest


def tell_background(console: Console, place: str, *, pid: int) -> int:
    """Tell that a workspace is watched in the background from now on."""
    if not console.answer("watch", {"workspace": place, "pid": pid}):
        console.note(f"watching {printable(place)} in the background: process {pid}")
        console.note("it leaves when nothing happens; to end it: lastgood watch --stop")
    return 0


def _watch_verb(call: Call, console: Console) -> int:
    """Watch one more workspace in the background, or leave one to who wants to watch it in a terminal."""
    assert isinstance(console, _ServedConsole)
    if not call.has("background"):
        console.release(call)
        raise Declined
    place = console.begin(call, rest=rest_of(call))
    return tell_background(console, place, pid=os.getpid())


# What is carried out here, with the options that mean the same here and there.
_EVERYWHERE = frozenset({"directory", "store", "json", "quiet"})
_SAVE = frozenset({"name", "kind", "message", "meta", "task", "tokens", "allow-empty", "pin", "budget"})
_SERVED: dict[str, tuple[Callable[[Call, Console], int], frozenset[str]]] = {
    "save": (save_verb, _EVERYWHERE | _SAVE),
    "status": (status_verb, _EVERYWHERE | {"ignored"}),
    "hook": (hook_verb, frozenset({"directory", "store", "block", "tools"})),
    "watch": (_watch_verb, _EVERYWHERE | {"rest", "background"}),
}


class Service:
    """Answers at the socket of a store, as long as nobody else does.

    It ends for good when another lastgood is installed in the place of the one that runs.
    """

    def __init__(self, watches: Watches, *, store: str, locks: Locks, environment: Mapping[str, str]) -> None:
        self._watches = watches
        self._greeting = greeting()
        self._store = to_bytes(store)
        self._environment = environment
        self._workspaces: ServedWorkspaces | None = None
        self._listener: Listener | None = None
        self._lock = locks.serving(wait=0)

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
            self._workspaces = ServedWorkspaces(
                self._watches, store=self._store, environment=self._environment
            )
            self._lock.__enter__()
        except (LastgoodError, OSError, Declined):
            return
        try:
            self._listener = Listener(self._store, greeting=self._greets, answer=self._answer)
        except OSError:
            self._lock.__exit__(None, None, None)

    def serve(self) -> None:
        """Answer whoever connected first; close where clients ought to find another."""
        assert self._listener is not None
        if self.is_found():
            self._listener.serve()
        else:
            self.close()

    def is_found(self) -> bool:
        """Tell whether clients find this process, and ought to."""
        if self._listener is None or self._workspaces is None or not self._listener.is_found:
            return False
        try:
            return self._workspaces.is_current() and greeting() == self._greeting
        except OSError:  # the package is gone
            return False

    def close(self) -> None:
        """Be found no longer; harmless when repeated."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
            self._lock.__exit__(None, None, None)

    def _greets(self) -> bytes:
        return self._greeting + (BY_HAND if self._watches.is_by_hand else ON_DEMAND)

    def _answer(self, request: Request) -> Answer:
        here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _enter(request.folder)
            return self._carried_out(request)
        except Declined:
            raise
        except BaseException:
            self._doubt()
            raise
        finally:
            os.fchdir(here)
            os.close(here)

    def _doubt(self) -> None:
        """Believe nothing of what was heard: some work broke off in between."""
        self._watches.last_used.state.doubt()

    def _carried_out(self, request: Request) -> Answer:
        assert self._workspaces is not None
        serve(request.started, request.environment.get("PATH", ""), python=request.python)
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
            self._doubt()
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
    is_served = True

    def __init__(self, request: Request, workspaces: ServedWorkspaces) -> None:
        streams = _Collected(request.widths)
        super().__init__(request.environment, streams=streams)
        self.proposed = request.id
        self.given, self.caller = request.given, request.pid
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
            verb=call.verb.name,
        )

    def begin(self, call: Call, *, rest: float) -> str:
        """Have the workspace of a call be watched, and return where it is."""
        place = self._place(call)
        self._workspaces.begin(place, rest=rest)
        return place

    def release(self, call: Call) -> None:
        """Have the workspace of a call be watched no longer, unless somebody wanted that."""
        self._workspaces.release(self._place(call))

    def _place(self, call: Call) -> str:
        directory, store = call.text("directory"), call.text("store")
        return self._workspaces.find(self._request, directory=directory, store=store, purpose="make")[0]
