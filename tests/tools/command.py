"""The command as a real process, in a project and a store of the test."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.forking import Order, forkserver

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMAND = os.path.join(ROOT, "lastgood")
SOURCE = os.path.join(ROOT, "src")


# How long anything at all may take on a busy machine, in seconds.
PATIENCE = 600

CODES = {2: "usage", 10: "not-found", 11: "ambiguous", 12: "invalid", 15: "unsafe", 16: "damaged"}


def with_source() -> dict[str, str]:
    """Return an environment in which Python finds lastgood."""
    return os.environ | {"PYTHONPATH": SOURCE}


def started(program: str, *words: object, stderr: int | None = None) -> subprocess.Popen[str]:
    """Start a Python program that finds lastgood; what it prints is in a pipe."""
    command = [sys.executable, "-c", program, *map(str, words)]
    return subprocess.Popen(command, env=with_source(), stdout=subprocess.PIPE, stderr=stderr, text=True)


def opening(project: Path, store: Path) -> str:
    """Return the line of a Python program that opens a workspace."""
    return f"workspace = lastgood.open({str(project)!r}, store={str(store)!r}, maintenance='off')\n"


def module(project: Path, store: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a module, from anywhere."""
    return subprocess.run(
        [sys.executable, "-m", "lastgood", "-C", project, "--store", store, *words],
        env=with_source(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


class Done:
    """What came of a run."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.out_bytes = out
        self.err_bytes = err
        self.out = out.decode("utf-8", "replace")
        self.err = err.decode("utf-8", "replace")

    @property
    def json(self) -> Any:
        return json.loads(self.out)


# What ends a question, and the list to choose from when it is drawn.
_PROMPTS = (b"N]", b"\x1b[?7h")


def command(
    words: Sequence[str | bytes],
    *,
    folder: Path,
    environment: Mapping[str, str],
    stdin: bytes = b"",
) -> Done:
    """Run the command: in a fork of a process that has loaded it, where that is what a new one would be."""
    order = Order.of(words, folder=folder, environment=environment, stdin=stdin)
    server = forkserver(COMMAND)
    if not server.can_be(order):
        return started_command(words, folder=folder, environment=environment, stdin=stdin)
    return Done(*server.run(order, seconds=PATIENCE))


def started_command(
    words: Sequence[str | bytes],
    *,
    folder: Path,
    environment: Mapping[str, str],
    stdin: bytes = b"",
) -> Done:
    """Run the command in a new process."""
    done = subprocess.run(
        [sys.executable, COMMAND, *words],
        cwd=folder,
        env=environment,
        input=stdin,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def on_terminal(
    words: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    rows: int = 24,
    columns: int = 80,
    starts: bool = False,
) -> tuple[int, int]:
    """Begin a program on a terminal of its own; return its process, and the terminal's other end.

    The command is begun in a fork as by `command`, unless a new process ``starts``.
    """
    if list(words[:2]) == [sys.executable, COMMAND] and not starts:
        order = Order.of(words[2:], folder=folder, environment=environment, stdin=b"")
        server = forkserver(COMMAND)
        if server.can_be(order):
            return server.on_terminal(order, rows=rows, columns=columns)
    pid, seen = pty.fork()
    if pid == 0:
        termios.tcsetwinsize(0, (rows, columns))
        os.chdir(folder)
        os.execvpe(words[0], list(words), dict(environment))
    return pid, seen


class Command:
    """Runs the command in the project, each time in a new process if it ``starts``."""

    def __init__(self, project: Path, store: Path, *, starts: bool = False) -> None:
        self.project = project
        self.store = store
        self.starts = starts
        self.environment = dict(os.environ) | {"LASTGOOD_STORE": str(store)}

    def __call__(
        self,
        *words: str | bytes,
        cwd: Path | None = None,
        stdin: bytes = b"",
        env: dict[str, str] | None = None,
        expect: int | None = 0,
    ) -> Done:
        run = started_command if self.starts else command
        result = run(
            words, folder=cwd or self.project, environment=self.environment | (env or {}), stdin=stdin
        )
        assert expect is None or result.code == expect, (result.code, result.out, result.err)
        return result

    def terminal(self, *words: str, answers: str = "", expect: int | None = 0) -> Done:
        """Run it on a terminal (80 columns), with a person's answers typed one after the other."""
        environment = {"PAGER": "cat"} | self.environment | {"TERM": "xterm", "COLUMNS": "80"}
        pid, terminal = on_terminal(
            [sys.executable, COMMAND, *words],
            folder=self.project,
            environment=environment,
            starts=self.starts,
        )
        out = b""
        pending = answers
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            if not select.select([terminal], [], [], 0.1)[0]:
                continue
            try:
                part = os.read(terminal, 65536)
            except OSError:
                break
            if not part:
                break
            out += part
            if pending and out.rstrip(b" ").endswith(_PROMPTS):
                line, _, pending = pending.partition("\n")
                os.write(terminal, line.encode() + b"\n")
        os.close(terminal)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        result = Done(code, out.replace(b"\r\n", b"\n"), b"")
        assert expect is None or code == expect, (code, result.out)
        return result

    def save(self, *words: str) -> str:
        """Save and return the id."""
        saved: str = self("save", "--json", *words).json["checkpoint"]["id"]
        return saved


def told(done: Done, code: int) -> None:
    """Assert that a failure is told with what, why and what to do, and nothing else."""
    assert done.code == code, (done.code, done.out, done.err)
    assert done.out == ""
    first, *rest = done.err.rstrip("\n").split("\n")
    assert first.startswith("lastgood: ")
    assert rest, "no hint"
    assert "Traceback" not in done.err


def told_as_document(done: Done, code: int) -> None:
    """Assert the same of a failure told as JSON."""
    assert done.code == code, (done.code, done.out, done.err)
    document = done.json
    assert document["schema"] == "lastgood.error/1"
    assert set(document["error"]) == {"code", "message", "hint", "details"}
    assert document["error"]["message"]
    assert document["error"]["hint"]
    assert document["error"]["code"] == CODES.get(code, document["error"]["code"])
    assert done.err == ""


def killed_restore(lastgood: Command, ref: str, *, path: str = ".lastgood-") -> None:
    """Have a restore be killed at its first rename in the workspace."""
    kill = (
        "import sys\nfrom tools.forks import die_before\nimport lastgood\n"
        f"die_before('os.rename', path={path!r})\n"
        f"lastgood.open(maintenance='off').restore({ref!r}, only=('files',), force=True)\n"
    )
    tests = Path(COMMAND).parent / "tests"
    subprocess.run(
        [sys.executable, "-c", kill],
        cwd=lastgood.project,
        env=lastgood.environment | {"PYTHONPATH": f"{tests}:{tests.parent}/src"},
        capture_output=True,
        check=False,
    )
    assert lastgood("status", "--json").json["state"] == "interrupted"
