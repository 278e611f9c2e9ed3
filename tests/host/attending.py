"""A program that attends a command, for tests that kill it: ``attending.py FOLDER COMMAND TIMEOUT [stops]``.

With ``stops`` it stops itself as soon as the command has written its number, where it gives a sign of life.
"""

from __future__ import annotations

import os
import signal
import sys

from lastgood.command import GuardedCommands
from lastgood.workspace.running.context import CaughtSignals

PATIENCE = 30.0


def say(part: bytes) -> None:
    sys.stdout.buffer.write(part)


def tick() -> None:
    sys.stdout.flush()
    if stops and os.path.exists(os.path.join(folder, "pid")):
        stops.pop()
        os.kill(os.getpid(), signal.SIGSTOP)


if __name__ == "__main__":
    folder, command, timeout, *stops = sys.argv[1:]
    with CaughtSignals() as asked:
        ran = GuardedCommands(dict(os.environ), patience=PATIENCE).attend(
            command,
            directory=os.fsencode(folder),
            variables={},
            timeout=float(timeout or 1000),
            output=say,
            tick=tick,
            asked=asked,
        )
    print(ran.ending, ran.code)
