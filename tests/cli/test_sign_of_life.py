"""What a person sees on a terminal while a verb takes longer than half a second."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tools.terminal import Terminal

# One long call into C: no alarm is heard in it, and of those that were due one is heard after it.
DEAF = """
import signal, time
from lastgood.cli.opening import Console
from lastgood.cli.opening import ProgressLine as Progress
alarms = {signal.SIGALRM}
with Progress(Console({}), "looking"):
    signal.pthread_sigmask(signal.SIG_BLOCK, alarms)
    time.sleep(1.1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, alarms)
"""


def test_the_seconds_shown_are_those_of_the_clock_however_few_alarms_were_heard(tmp_path: Path) -> None:
    with Terminal([sys.executable, "-c", DEAF], cwd=tmp_path, environment={}) as terminal:
        assert terminal.end() == 0
        shown = re.findall(rb"looking \[.{16}\] (\d+) s", terminal.written)

    assert shown
    assert all(int(seconds) >= 1 for seconds in shown)
    assert terminal.shown == []
