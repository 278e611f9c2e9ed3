"""Runs a command in a session of its own, keeps the end of its output, and leaves nothing of it behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time

from lastgood.adapters.processes import content_of, pids
from lastgood.model.verdict import Ran

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TAIL = 4096
# Whatever a command starts bears this in its environment, also what leaves its process group.
MARK = "LASTGOOD_CHECK"
# How long a process that was asked to end may take, and how long we wait for one that was killed.
GRACE = 2.0
_LAST_WAIT = 5.0
_TICK = 0.05
_BLOCK = 1 << 16
_GROUP = 2  # the field of /proc/PID/stat after the name: state, parent, group
_GONE = {b"Z", b"X"}
# Ends the group when the pipe that it reads from closes.
_WATCH = f'read -r _; kill -s TERM -- "-$1"; sleep {GRACE:g}; kill -s KILL -- "-$1"'


class GuardedCommands:
    """Runs commands with the environment of the caller."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def run(
        self, words: Sequence[str], *, directory: bytes, variables: Mapping[str, str], timeout: float
    ) -> Ran:
        """Run a program; what it started, and did not end, is ended with it."""
        mark = os.urandom(8).hex()
        environment = {**self._environment, **variables, MARK: mark}
        started = time.monotonic()
        try:
            child = subprocess.Popen(  # noqa: S603 - the caller's own command
                words,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return Ran(ending="unstarted", code=0, seconds=0.0, tail=b"", fault=_told(error))
        running = _Running(child, mark)
        try:
            running.watch()
            in_time = running.follow(started + timeout)
        finally:
            running.end()
        seconds = time.monotonic() - started
        code = child.returncode
        if not in_time:
            return Ran(ending="stopped", code=0, seconds=seconds, tail=running.tail)
        if code < 0:
            return Ran(ending="killed", code=-code, seconds=seconds, tail=running.tail)
        return Ran(ending="exited", code=code, seconds=seconds, tail=running.tail)


class _Running:
    """A command that was started, and all that came of it."""

    def __init__(self, child: subprocess.Popen[bytes], mark: str) -> None:
        self.tail = b""
        self._child = child
        self._mark = f"{MARK}={mark}".encode()
        assert child.stdout is not None
        self._output = child.stdout.fileno()
        os.set_blocking(self._output, False)
        self._poll = select.poll()
        self._poll.register(self._output, select.POLLIN)
        self._open = True
        self._watch: subprocess.Popen[bytes] | None = None

    def watch(self) -> None:
        """Have the command ended too if this process is killed: a pipe closes then."""
        self._watch = subprocess.Popen(  # noqa: S603 - our own words
            ["/bin/sh", "-c", _WATCH, "sh", str(self._child.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def follow(self, deadline: float) -> bool:
        """Keep the end of the output until the command ends; False if its time is over before."""
        while self._child.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if self._open:
                self._poll.poll(min(left, _TICK) * 1000)
                self._read()
            else:
                self._wait(min(left, _TICK))
        return True

    def end(self) -> None:
        """End whatever is left, gently first, and take the rest of the output."""
        try:
            self._end(signal.SIGTERM, wait=GRACE)
        finally:
            self._end(signal.SIGKILL, wait=_LAST_WAIT)
            self._child.wait()
            while self._open and self._read():
                pass
            assert self._child.stdout is not None
            self._child.stdout.close()
            self._dismiss()

    def _dismiss(self) -> None:
        watch = self._watch
        if watch is None:
            return
        watch.kill()
        watch.wait()
        assert watch.stdin is not None
        watch.stdin.close()

    def _end(self, number: int, *, wait: float) -> None:
        deadline = time.monotonic() + wait
        told: set[int] = set()
        while left := set(self._living()):
            for pid in left - told:
                _signal(pid, number)
            told |= left
            if self._open:
                self._read()
            if time.monotonic() > deadline:
                return
            self._wait(_TICK)

    def _read(self) -> bool:
        try:
            part = os.read(self._output, _BLOCK)
        except BlockingIOError:
            return False
        self._open = bool(part)
        self.tail = (self.tail + part)[-TAIL:]
        return self._open

    def _wait(self, seconds: float) -> None:
        if self._child.poll() is not None:
            time.sleep(seconds)
            return
        try:
            self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return

    def _living(self) -> Iterator[int]:
        """Yield what still lives of the command: its group, and whatever bears its mark."""
        if self._child.poll() is None:
            yield self._child.pid
        group = str(self._child.pid).encode()
        for pid in pids():
            fields = content_of(pid, "stat").rpartition(b")")[2].split()
            if len(fields) <= _GROUP or fields[0] in _GONE or pid == self._child.pid:
                continue
            if fields[_GROUP] == group or self._mark in content_of(pid, "environ").split(b"\0"):
                yield pid


def _told(error: OSError) -> str:
    name = error.filename
    shown = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
    return f"{shown}: {error.strerror}" if shown else str(error.strerror)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return  # gone meanwhile, or another user's
