"""watch: make checkpoints by itself, until stopped."""

from __future__ import annotations

import os
import signal
import time

from lastgood.cli import opening
from lastgood.cli.background import ENDING, is_outdated, make_room, start_by_hand, stop, stopping
from lastgood.cli.opening import open_group
from lastgood.cli.verbs.save import counted
from lastgood.cli.verbs.serving import Service, rest_of, tell_background
from lastgood.cli.wording import beside_or_below, duration
from lastgood.errors import Busy, LastgoodError, count
from lastgood.paths import printable
from lastgood.workspace import open_as
from lastgood.workspace.opened import OpenWorkspace
from lastgood.workspace.residence import tell_failure
from lastgood.workspace.watching import LEAST_APART, Watches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.checkpoint import HealthNote, SaveReport


def watch_verb(call: Call, console: Console) -> int:
    """Watch until a signal ends it; a second one ends also the last save."""
    opening.one_of(call, "background", "stop")
    rest = rest_of(call)
    if call.has("stop"):
        return _stopped(call, console)
    with open_group(call, OpenWorkspace, purpose="make") as workspace:
        if call.has("background"):
            pid = start_by_hand(workspace, console.environment, rest=rest)
            return tell_background(console, workspace.path, pid=pid)
        return _watched(workspace, console, rest=rest)


def _watched(workspace: OpenWorkspace, console: Console, *, rest: float) -> int:
    context = workspace._context  # noqa: SLF001 - it is what is watched
    teller = _Teller(console, place=printable(workspace.path), rest=rest)
    if context.locks.is_served():
        make_room(context.store, context.locks)
    stop = stopping()
    watches = Watches()
    service = Service(watches, store=workspace.store, locks=context.locks, environment=console.environment)
    try:
        watches.add(workspace, rest=rest, teller=teller)
        watches.run(stop, service=service)
    finally:
        service.close()
        watches.close()
    console.note(f"watched no longer: {count(teller.made, 'checkpoint')} made")
    return 0


def _stopped(call: Call, console: Console) -> int:
    with open_group(call, OpenWorkspace, purpose="find", anywhere=True) as workspace:
        context = workspace._context  # noqa: SLF001 - what is ended is of its store
        pid = stop(context.locks, context.store)
    if not console.answer("watch", {"stopped": pid}):
        console.note("no process watches" if pid is None else f"process {pid} watches no longer")
    return 0


class _Teller:
    def __init__(self, console: Console, *, place: str, rest: float) -> None:
        self.made = 0
        self._console = console
        self._place = place
        self._rest = rest

    def begun(self) -> None:
        moments = f"whenever nothing has changed for {duration(self._rest)}"
        apart = f"one every {duration(LEAST_APART)} at most"
        self._console.note(f"watching {self._place}: a checkpoint {moments}, {apart}")
        self._console.note("Ctrl-C ends it, after a last one")

    def saved(self, report: SaveReport) -> None:
        self.made += 1
        console, checkpoint = self._console, report.checkpoint
        if console.answer("save", report):
            console.flush()
            return
        if console.quiet:
            console.line(checkpoint.id)
        else:
            at = console.moment(time.time_ns())
            short = console.styled(checkpoint.short_id, "green")
            figures = counted(checkpoint.manifest)
            console.lines(beside_or_below(f"{at}  saved {short}:", figures, limit=console.columns()))
            for note in report.notes:
                console.warn(printable(note.message))
        console.flush()

    def failed(self, error: LastgoodError) -> None:
        at = self._console.moment(time.time_ns())
        self._console.warn(f"{at}  not saved, tried again soon: {printable(error.message)}")

    def turned(self, *, on: bool) -> None:
        at = self._console.moment(time.time_ns())
        said = (
            "checkpoints again" if on else "no more such checkpoints: auto.enabled, or 'interval' in auto.on"
        )
        self._console.note(f"{at}  the configuration wants {said}")

    def remarked(self, note: HealthNote) -> None:
        console = self._console
        at = console.moment(time.time_ns())
        console.warn(f"{at}  {printable(note.message)}")
        for line in console.hints(note.hint):
            console.warn(f"  {line}")


# --- The process in the background, which has no terminal ---


def run(root: str, store: str, rest: str) -> NoReturn:
    """Be the process that watches in the background, beginning with one workspace."""
    for number in ENDING:  # whoever started it may have ignored them
        signal.signal(number, signal.SIG_DFL)
    stop = stopping()
    try:
        _watch_here(root, store, rest=float(rest) if rest else None, stop=stop)
    except (LastgoodError, OSError):
        os._exit(1)
    os._exit(0)


def _watch_here(root: str, store: str, *, rest: float | None, stop: int) -> None:
    environment = dict(os.environ)
    workspace = open_as(OpenWorkspace, root, store=store, environment=environment, passing=True)
    watches = Watches()
    context = workspace._context  # noqa: SLF001 - it is what is watched
    service = Service(watches, store=workspace.store, locks=context.locks, environment=environment)
    try:
        if context.locks.is_served() and rest is None and is_outdated(context):
            make_room(context.store, context.locks)
        try:
            watches.add(workspace, rest=rest)
        except LastgoodError as error:
            if not isinstance(error, Busy):
                tell_failure(context, error)
            raise
        context.engine_of()  # a new store has no repository before the first save, and is known by it
        service.begin()
        if service.descriptor is not None:
            watches.run(stop, service=service, idle=workspace.settings.watch.idle)
    finally:
        service.close()
        watches.close()
