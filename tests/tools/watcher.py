"""`lastgood watch` as a real process, beside the test."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from typing import Any

from tools.command import COMMAND, PATIENCE, Command
from tools.living import eventually


class Watcher:
    """`lastgood watch` as a process; what was there when it began is saved."""

    def __init__(
        self,
        command: Command,
        *,
        interval: str | None = "15m",
        rest: str = "100ms",
        ahead: tuple[str, ...] = (),
        settings: tuple[str, ...] = (),
    ) -> None:
        words = [*ahead, sys.executable, COMMAND]
        for one in (*settings, *([] if interval is None else [f"auto.interval={interval}"])):
            words += ["--set", one]
        words += ["watch", "--json", "--rest", rest]
        self.store = command.store
        self.process = subprocess.Popen(
            words,
            cwd=command.project,
            env=command.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.said = self.process.stderr.readline()

    def next(self) -> dict[str, Any]:
        """Wait for the next checkpoint."""
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())["checkpoint"]
        return found

    def greets(self) -> None:
        """Wait until it answers at its socket: what it did before is done."""
        assert eventually(self._has_greeted), "it does not answer"

    def _has_greeted(self) -> bool:
        assert self.process.poll() is None, "it has ended"
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            try:
                client.connect(str(self.store / "resident.sock"))
            except OSError:  # it has not begun
                return False
            return client.recv(9) == b"lastgood "

    def end(self, number: int = signal.SIGINT) -> tuple[int, str, str]:
        """Send a signal, and return the exit code and what else was printed."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err
