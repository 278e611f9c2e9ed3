"""watch: make checkpoints by itself, until stopped."""

from __future__ import annotations

import os
import signal
import time

from lastgood.cli import opening
from lastgood.cli.opening import open_group
from lastgood.cli.verbs.save import counted
from lastgood.cli.verbs.serving import Service
from lastgood.cli.wording import beside_or_below, count, duration
from lastgood.errors import LastgoodError, Usage
from lastgood.paths import printable
from lastgood.workspace.watching import LEAST_APART, REST, WatchedWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.checkpoint import HealthNote, SaveReport

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LONGEST_REST = 3600.0


def watch_verb(call: Call, console: Console) -> int:
    """Watch until a signal ends it; a second one ends also the last save."""
    rest = opening.seconds_option(call, "rest")
    rest = REST if rest is None else rest
    if not 0 < rest <= _LONGEST_REST:
        raise Usage("--rest is a time of at most an hour", hint="for example: --rest 5s")
    with open_group(call, WatchedWorkspace, purpose="make") as workspace:
        teller = _Teller(console, place=printable(workspace.path), rest=rest)
        stop, ending = os.pipe()
        os.set_blocking(ending, False)

        def end(number: int, _frame: object) -> None:
            for each in heeded:
                signal.signal(each, signal.SIG_DFL)
            os.write(ending, bytes((number,)))

        # Who starts it with nohup, or beside other work in a script, wants it to go on.
        heeded = [one for one in _ENDING if signal.getsignal(one) is not signal.SIG_IGN]
        for number in heeded:
            signal.signal(number, end)
        service = Service(workspace)
        try:
            workspace.watch(stop=stop, rest=rest, service=service, teller=teller)
        finally:
            service.close()
    console.note(f"watched no longer: {count(teller.made, 'checkpoint')} made")
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
