"""watch: make checkpoints by itself, until stopped."""

from __future__ import annotations

import os
import signal
import time

from lastgood.cli import opening
from lastgood.cli.opening import open_group
from lastgood.cli.verbs.save import counted
from lastgood.cli.verbs.serving import Service
from lastgood.cli.wording import count, duration
from lastgood.errors import LastgoodError, Usage
from lastgood.paths import printable
from lastgood.workspace.watching import LEAST_APART, REST, WatchedWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.checkpoint import SaveReport

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LONGEST_REST = 3600.0


def watch_verb(call: Call, console: Console) -> int:
    """Watch until a signal ends it; a second one ends also the last save."""
    rest = opening.seconds_option(call, "rest")
    rest = REST if rest is None else rest
    if not 0 < rest <= _LONGEST_REST:
        raise Usage("--rest is a time of at most an hour", hint="for example: --rest 5s")
    with open_group(call, WatchedWorkspace, purpose="make") as workspace:
        teller = _Teller(console)
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
        place = printable(workspace.path)

        def begun() -> None:
            apart = f"one every {duration(LEAST_APART)} at most"
            console.note(
                f"watching {place}: a checkpoint whenever nothing has changed for {duration(rest)}, {apart}"
            )
            console.note("Ctrl-C ends it, after a last one")

        service = Service(workspace)
        try:
            workspace.watch(
                stop=stop, rest=rest, service=service, begun=begun, saved=teller.saved, failed=teller.failed
            )
        finally:
            service.close()
    console.note(f"watched no longer: {count(teller.made, 'checkpoint')} made")
    return 0


class _Teller:
    def __init__(self, console: Console) -> None:
        self.made = 0
        self._console = console

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
            console.sentence(f"{at}  saved {short}: {counted(checkpoint.manifest)}")
            for note in report.notes:
                console.warn(printable(note.message))
        console.flush()

    def failed(self, error: LastgoodError) -> None:
        at = self._console.moment(time.time_ns())
        self._console.warn(f"{at}  not saved, tried again soon: {printable(error.message)}")
