"""Has command lines carried out in forks of a process that has loaded the command.

What does it is the program `tools.forkserver`.
"""

from __future__ import annotations

import atexit
import marshal
import os
import platform
import pty
import resource
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, Self

from tools.forkserver import CLONE

_PROGRAM = Path(__file__).parent / "forkserver.py"
_LENGTH_BYTES = 4
# What waits in a pipe though nobody reads.
_PIPE_BYTES = 65_536
# Variables that Python, the loader or the C library read when a process starts.
_READ_AT_START = (b"PYTHON", b"LC_", b"LANG", b"LD_", b"MALLOC_", b"GLIBC_")
_LIMITS = [number for name, number in vars(resource).items() if name.startswith("RLIMIT_")]


class Order(NamedTuple):
    """A command line, and what is given to its process."""

    words: list[bytes]
    folder: bytes
    environment: dict[bytes, bytes]
    umask: int
    stdin: bytes

    @classmethod
    def of(
        cls, words: Sequence[str | bytes], *, folder: Path, environment: Mapping[str, str], stdin: bytes
    ) -> Self:
        """Return what a new process of ours would be given."""
        os.umask(umask := os.umask(0o077))
        variables = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
        return cls([*map(os.fsencode, words)], os.fsencode(folder), variables, umask, stdin)


def read_at_start() -> dict[str, str]:
    """Return the variables of this process that a new one reads when it starts."""
    return {name: value for name, value in os.environ.items() if os.fsencode(name).startswith(_READ_AT_START)}


def _circumstances(environment: Mapping[bytes, bytes]) -> tuple[object, ...]:
    """Return what a fork has of its server, and a new process of whoever starts it."""
    return (
        os.getpid(),  # whoever was forked may have become another user, or live in a world of its own
        os.geteuid(),
        {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)},
        [resource.getrlimit(number) for number in _LIMITS],
        [number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN],
        signal.pthread_sigmask(signal.SIG_BLOCK, ()),
    )


class Forkserver:
    """A process that has loaded the command, and forks; on machines that it does not know it never starts."""

    def __init__(self, script: str) -> None:
        self._circumstances = _circumstances(os.environb) if platform.machine() in CLONE else None
        if self._circumstances is None:
            return
        self._owner = os.getpid()
        self._turn = threading.Lock()
        self._connection, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, _PROGRAM, str(theirs.fileno()), script],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self.close)

    def close(self) -> None:
        """End it, if it is ours."""
        self._connection.close()
        if self._owner == os.getpid():
            self._process.wait()

    def can_be(self, order: Order) -> bool:
        """Tell whether a fork would be what a new process is."""
        return len(order.stdin) <= _PIPE_BYTES and _circumstances(order.environment) == self._circumstances

    def run(self, order: Order, *, seconds: float) -> tuple[int, bytes, bytes]:
        """Carry out a command line; return its exit code, and what it wrote to its two streams."""
        given, to_it = os.pipe()
        out, its_out = os.pipe()
        err, its_err = os.pipe()
        os.write(to_it, order.stdin)
        os.close(to_it)
        child = self._forked(order, [given, its_out, its_err])
        try:
            said = _read([out, err], seconds)
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            raise
        finally:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return code, said[0], said[1]

    def on_terminal(self, order: Order, *, rows: int, columns: int) -> tuple[int, int]:
        """Begin a command line on a terminal of its own; return its process, and the terminal's other end."""
        seen, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (rows, columns))
        streams = [terminal, os.dup(terminal), os.dup(terminal)]
        return self._forked(order, streams, has_terminal=True), seen

    def _forked(self, order: Order, streams: Sequence[int], *, has_terminal: bool = False) -> int:
        """Begin a command line, with streams that are let go of here."""
        content = marshal.dumps((*order[:-1], has_terminal))
        with self._turn:
            length = len(content).to_bytes(_LENGTH_BYTES, "big")
            socket.send_fds(self._connection, [length], streams)
            self._connection.sendall(content)
            child = int.from_bytes(self._connection.recv(_LENGTH_BYTES), "big", signed=True)
        assert child > 0, "the forkserver has died, or cannot fork"
        for stream in streams:
            os.close(stream)
        return child


@cache
def forkserver(script: str) -> Forkserver:
    """Return the one that runs a script, started when it is first asked for."""
    return Forkserver(script)


def _read(streams: Sequence[int], seconds: float) -> list[bytes]:
    """Read until nobody has the other ends any more, and close ours."""
    ends = time.monotonic() + seconds
    content = dict.fromkeys(streams, b"")
    left = select.poll()
    for stream in streams:
        left.register(stream, select.POLLIN)
    try:
        open_ones = len(streams)
        while open_ones:
            found = left.poll(max(0.0, ends - time.monotonic()) * 1000)
            if not found:
                raise TimeoutError
            for stream, _ in found:
                part = os.read(stream, _PIPE_BYTES)
                content[stream] += part
                if not part:
                    left.unregister(stream)
                    open_ones -= 1
    finally:
        for stream in streams:
            os.close(stream)
    return list(content.values())
