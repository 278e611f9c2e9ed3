"""A program that attends a command, for tests that kill it: ``attending.py FOLDER COMMAND TIMEOUT``."""

from __future__ import annotations

import os
import sys

from lastgood.adapters.command import GuardedCommands
from lastgood.adapters.signals import CaughtSignals


def say(part: bytes) -> None:
    sys.stdout.buffer.write(part)


if __name__ == "__main__":
    folder, command, timeout = sys.argv[1:]
    with CaughtSignals() as asked:
        ran = GuardedCommands(dict(os.environ), patience=1.0).attend(
            command,
            directory=os.fsencode(folder),
            variables={},
            timeout=float(timeout or 1000),
            output=say,
            tick=sys.stdout.flush,
            asked=asked,
        )
    print(ran.ending, ran.code)
