"""`lastgood watch` as a real process beside the test, and commands that it carries out, or does not."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.command import COMMAND, PATIENCE, SOURCE, Command, Done
from tools.living import eventually

_IMPORT = re.compile(r"import time:.*\n")
_LOADED = "lastgood.cli.main"


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


class Call(Done):
    """What came of a run, and whether the resident carried it out."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        super().__init__(code, out, err)
        self.served = _LOADED not in self.err
        self.err = _IMPORT.sub("", self.err)

    @property
    def said(self) -> tuple[int, str, str]:
        """All that a user sees, but how long ago something was and how long it took."""
        return self.code, timeless(self.out), timeless(self.err)


def timeless(text: str) -> str:
    text = re.sub(r"\d+ seconds? ago|just now|\d+(\.\d+)? ms", "T", text)
    text = re.sub(
        r'"(heartbeat_at|store_bytes|session_seconds|caches|catalogue|store_parts)":[^,}]*', "", text
    )
    return re.sub(r"\(\d.* [KM]iB\)", "SIZE", text)


# Starts the command as ever, but it waits to be greeted.
WAITING = (
    f"import sys; sys.path[0] = {SOURCE!r}; from lastgood import client; "
    f"client._GREETING_SECONDS = {PATIENCE}; client.run_for([sys.executable, {COMMAND!r}])"
)


def called(command: Command, *words: str, cwd: Path | None = None, **env: str) -> Call:
    """Run the command; however busy the machine is, a resident greets in time."""
    return _run(command, "-c", WAITING, *words, cwd=cwd, env=env)


def hurried(command: Command, *words: str) -> Call:
    """Run the command, which does its work itself unless it is greeted at once."""
    return _run(command, COMMAND, *words)


def _run(
    command: Command, *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Call:
    done = subprocess.run(
        [sys.executable, "-Ximporttime", *words],
        cwd=cwd or command.project,
        env=command.environment | dict(env or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    return Call(done.returncode, done.stdout, done.stderr)


def alone(command: Command, *words: str, cwd: Path | None = None, **env: str) -> Call:
    """Run the command in its own process."""
    done = called(command, *words, cwd=cwd, **env, LASTGOOD_TRACE="1")
    assert not done.served
    return done


@contextmanager
def answering(
    command: Command, *, rest: str = "1h", ahead: tuple[str, ...] = (), settings: tuple[str, ...] = ()
) -> Iterator[Watcher]:
    """Have a resident that answers; none is left behind, whether it came to answer or not."""
    started = Watcher(command, rest=rest, ahead=ahead, settings=settings)
    try:
        started.greets()
        yield started
    finally:
        if started.process.poll() is None:
            started.process.send_signal(signal.SIGCONT)
            started.end(signal.SIGKILL)


def asked(command: Command, *words: str) -> bytes:
    """Return what the resident has the command print, asked from a process that forks for it."""
    ask = "from lastgood import client; client._GREETING_SECONDS = client._BUSY_SECONDS = 60; client.run()"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", ask, *words],
        cwd=command.project,
        env=command.environment | {"PYTHONPATH": SOURCE},
        capture_output=True,
        check=True,
    )
    assert _LOADED.encode() not in done.stderr
    return done.stdout
