"""The process that watches in the background: how it is started, and how it ends (decision 051)."""

from __future__ import annotations

import os
import signal
import sys
import time

from lastgood.errors import Busy, Storage
from lastgood.ids import SESSION_VARIABLE
from lastgood.workspace.detached import PACKAGE_FOLDER, spawn, take_turn
from lastgood.workspace.residence import greeted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.context import Context
    from lastgood.host import Locks
    from lastgood.workspace.opened import OpenWorkspace

# What it is told of the environment: where things are, and what is ours. No secret of anybody's is among it.
_NAMES = frozenset({"PATH", "HOME", "TZ", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE"})
_NAMES_OF_PLACES = frozenset({"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"})
_OF_THE_CALL = frozenset({SESSION_VARIABLE, "LASTGOOD_WORKSPACE", "LASTGOOD_STORE"})
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TURN = b"/locks/resident.turn"
_PROGRAM = (
    "import os, sys; os.closerange(3, 1 << 20); os.chdir('/'); sys.path.insert(0, sys.argv.pop(1)); "
    "from lastgood.cli.verbs.watch import run; run(*sys.argv[1:])"
)
# How long one that is asked to end is waited for, and one that was started, in seconds.
_ENDS_WITHIN = 30.0
_STARTS_WITHIN = 20.0
_LOOK = 0.02


def start_on_demand(workspace: OpenWorkspace, environment: Mapping[str, str]) -> None:
    """Start a process that watches a workspace from now on, unless one does, or has just been started.

    That none can be started harms nothing: the next command does its work by itself, as this one did.
    """
    context = workspace._context  # noqa: SLF001 - it is what is to be watched
    if sys.platform != "linux" or "LASTGOOD_TRACE" in environment or not os.path.isdir(context.store):
        return
    if context.locks.is_served() and not is_outdated(context):
        return
    turn = take_turn(context.store + _TURN)
    if turn is None:
        return
    os.close(turn)
    try:
        _started(workspace, environment, rest=None)
    except OSError:
        return


def is_outdated(context: Context) -> bool:
    """Tell whether who answers is of an earlier lastgood, and runs for nobody's wish."""
    found = greeted(context.store)
    return found is not None and not found.is_by_hand and found.version < own_version()


def own_version() -> tuple[int, ...]:
    """Return the version of this lastgood, the protocol's first."""
    from lastgood.resident import greeting
    from lastgood.workspace.residence import version_of

    return version_of(greeting())


def start_by_hand(workspace: OpenWorkspace, environment: Mapping[str, str], *, rest: float) -> int:
    """Start such a process, wait until it watches, and return its process id.

    Raises `Busy` where another is in the way, and `Storage` where it ended at once.
    """
    context = workspace._context  # noqa: SLF001 - it is what is to be watched
    locks = context.locks
    if locks.is_watched(context.key) or locks.is_served():
        make_room(context.store, locks)
    if locks.is_watched(context.key) or locks.is_served():
        raise Busy(
            "another process watches: of another lastgood, busy, or in a terminal of its own",
            hint="to end it: lastgood watch --stop",
        )
    pid = _started(workspace, environment, rest=rest)
    if pid is None:
        raise Storage("no Python is known that could be started", hint="lastgood watch, in a terminal")
    began = time.monotonic()
    while time.monotonic() - began < _STARTS_WITHIN:
        if locks.is_watched(context.key) and locks.is_served():
            return pid
        if os.waitpid(pid, os.WNOHANG)[0]:
            break
        time.sleep(_LOOK)
    raise Storage(
        "the process that was to watch has ended, or does not come to it", hint="see why: lastgood watch"
    )


def _started(workspace: OpenWorkspace, environment: Mapping[str, str], *, rest: float | None) -> int | None:
    handed = {
        name: value
        for name, value in environment.items()
        if name in _NAMES
        or name in _NAMES_OF_PLACES
        or (name.startswith("LASTGOOD_") and name not in _OF_THE_CALL)
    }
    words = (PACKAGE_FOLDER, workspace.path, workspace.store, "" if rest is None else str(rest))
    return spawn(_PROGRAM, words, environment=handed)


def make_room(store: bytes, locks: Locks) -> None:
    """Have a process end that watches for nobody's wish, and wait until it has."""
    found = greeted(store)
    if found is not None and not found.is_by_hand:
        _end(found.pid)
        _wait_for(locks, seconds=_ENDS_WITHIN)


def stop(locks: Locks, store: bytes) -> int | None:
    """Have the process end that answers at a store's socket, and return its id; None where there is none."""
    if not locks.is_served():
        return None
    found = greeted(store)
    pid = locks.server() if found is None else found.pid
    if pid is None:
        raise Busy("the process that watches cannot be seen from here", hint="end it where it was started")
    _end(pid)
    if not _wait_for(locks, seconds=_ENDS_WITHIN):
        raise Busy(f"process {pid} was asked to end, and goes on", hint=f"to end it at once: kill -9 {pid}")
    return pid


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)  # one that is stopped hears nothing else
    except ProcessLookupError:
        return


def _wait_for(locks: Locks, *, seconds: float) -> bool:
    """Wait until nobody answers any more, and tell whether that came to be."""
    began = time.monotonic()
    while locks.is_served():
        if time.monotonic() - began > seconds:
            return False
        time.sleep(_LOOK)
    return True


def stopping() -> int:
    """Heed the signals that end a watch, and return what can be read once one came; a second kills."""
    stop, ending = os.pipe()
    os.set_blocking(ending, False)

    def end(number: int, _frame: object) -> None:
        for each in heeded:
            signal.signal(each, signal.SIG_DFL)
        os.write(ending, bytes((number,)))

    # Who starts it with nohup, or beside other work in a script, wants it to go on.
    heeded = [one for one in ENDING if signal.getsignal(one) is not signal.SIG_IGN]
    for number in heeded:
        signal.signal(number, end)
    return stop
