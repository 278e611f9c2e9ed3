"""A terminal with a program on it: what is typed goes in, what a person would see comes out."""

from __future__ import annotations

import os
import select
import signal
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte

from tools.command import on_terminal

_WAIT = 90.0
# What draws several lines in one go has them between these two (no wrapping, wrapping).
_BEGINS, _ENDS = b"\x1b[?7l", b"\x1b[?7h"


class Terminal:
    """A screen of some columns and rows; everything that scrolled off is kept.

    The command is on it in a fork as by `tools.command`, unless a new process ``starts``.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        cwd: Path,
        environment: dict[str, str],
        columns: int = 80,
        rows: int = 24,
        starts: bool = False,
    ) -> None:
        self._screen = pyte.HistoryScreen(columns, rows, history=100_000)
        self._stream = pyte.ByteStream(self._screen)
        self.written = b""
        self.code: int | None = None
        self.pid, self._descriptor = on_terminal(
            words,
            folder=cwd,
            environment={"TERM": "xterm-256color", **environment},
            rows=rows,
            columns=columns,
            starts=starts,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._descriptor)

    @property
    def shown(self) -> list[str]:
        """What is on the screen, without empty lines."""
        return [line.rstrip() for line in self._screen.display if line.strip()]

    @property
    def everything(self) -> list[str]:
        """What scrolled off, and what is on the screen."""
        columns = range(self._screen.columns)
        over = ["".join(row[x].data for x in columns).rstrip() for row in self._screen.history.top]
        return [*over, *self.shown]

    @property
    def edits_lines(self) -> bool:
        """Whether it is set as a shell leaves it: keys are shown, and a line can be edited."""
        modes = int(termios.tcgetattr(self._descriptor)[3])
        return modes & (termios.ECHO | termios.ICANON) == termios.ECHO | termios.ICANON

    def type(self, text: str) -> None:
        """Type something; a line ends with a newline."""
        os.write(self._descriptor, text.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Give the window another size."""
        termios.tcsetwinsize(self._descriptor, (rows, columns))
        self._screen.resize(rows, columns)

    def hang_up(self) -> None:
        """Close the window; the program's end is awaited."""
        os.close(self._descriptor)
        self._descriptor = os.open(os.devnull, os.O_RDWR)
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def until(self, seen: str | Callable[[], bool]) -> None:
        """Read on until something is to be seen on the screen."""
        ends = time.monotonic() + _WAIT
        while not self._sees(seen):
            assert time.monotonic() < ends, self.everything
            assert self._read() or self._sees(seen), self.everything

    def end(self) -> int:
        """Read on to the end, and return the exit code."""
        ends = time.monotonic() + _WAIT
        while self._read():
            assert time.monotonic() < ends, self.everything
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code

    def _sees(self, seen: str | Callable[[], bool]) -> bool:
        if self.written.rfind(_BEGINS) > self.written.rfind(_ENDS):
            return False  # the rest of it is under way
        return any(seen in line for line in self.shown) if isinstance(seen, str) else seen()

    def _read(self) -> bool:
        """Take in what has been written meanwhile; False when the program has closed the terminal."""
        wait = 0.05
        while select.select([self._descriptor], [], [], wait)[0]:
            try:
                part = os.read(self._descriptor, 65536)
            except OSError:
                return False
            if not part:
                return False
            self.written += part
            self._stream.feed(part)
            wait = 0.005  # what is drawn in one go may come in pieces
        return True


class Shell(Terminal):
    """An interactive bash with job control, and what a person does at it."""

    def __init__(self, *, cwd: Path, environment: dict[str, str]) -> None:
        words = ["bash", "--norc", "--noprofile", "-i"]
        prompts = {"PS1": "$ ", "PS2": ""}
        super().__init__(words, cwd=cwd, environment=environment | prompts, columns=200)
        self.at_prompt()

    def says(self, line: str) -> None:
        """Read on until a line says just that."""
        self.until(lambda: line in self.shown)

    def at_prompt(self) -> None:
        """Read on until the shell has the terminal again."""
        self.until(lambda: bool(self.shown) and self.shown[-1] == "$")

    def settings(self, file: Path) -> str:
        """Return how the terminal is set, as the shell's own programs find it."""
        self.type(f"stty -a > {file}; echo set $((1 + 1)) {file.name}\n")
        self.says(f"set 2 {file.name}")
        return file.read_text()

    def has_stopped(self) -> None:
        """Read on until the shell knows of a job that stopped."""
        self.type("until jobs -s | grep -q Stopped; do sleep 0.1; done; clear; jobs\n")
        self.until("Stopped")
