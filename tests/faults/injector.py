"""Stops or fails a verb of lastgood at its Nth change to a file (see ``shim.c``).

The verb runs in a child forked from a process that has imported lastgood and the shim already, so
that one point of a sweep costs milliseconds.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from struct import Struct
from typing import Self

from tools.values import not_none

HERE = Path(__file__).parent
SOURCES = HERE.parent.parent / "src"

_NUMBERS = Struct("<9q")
_ROOTS, _ROOT_SIZE, _HIT_SIZE, _TRACE_SIZE = 4, 512, 1024, 1 << 18
LONGEST = 20_000
_HIT_AT = _NUMBERS.size + _ROOTS * _ROOT_SIZE
_TRACE_AT = _HIT_AT + _HIT_SIZE
_KINDS_AT = _TRACE_AT + _TRACE_SIZE
_MAP_SIZE = _KINDS_AT + LONGEST + 2
_MODE_AT = 3 * 8
_CALLS_AT = 8
_REACHED_AT = 5 * 8


class Kind(IntEnum):
    """What a call does: whether it takes room, and whether a reader can see that it was."""

    STAYS = 0
    GROWS = 1
    WRITES = 2
    SYNCS = 3


# With a kind: files elsewhere were changed since the call before.
AFTER_OTHERS = 16


class Mode(IntEnum):
    """What happens at the Nth call."""

    KILL = 0
    FAIL = 1
    FAIL_FROM = 2
    SHORT = 3
    PAUSE = 4
    STOP = 5


@dataclass(frozen=True)
class Blow:
    """Which call is hit, and how. ``at`` 0 hits nothing and only counts.

    What only ``looks``, at the first of the roots, is a call as well where that is said.
    """

    at: int = 0
    mode: Mode = Mode.KILL
    error: int = errno.ENOSPC
    looks: bool = False

    def __str__(self) -> str:
        if self.mode in {Mode.FAIL, Mode.FAIL_FROM}:
            return (
                f"{errno.errorcode[self.error]}{'…' if self.mode is Mode.FAIL_FROM else ''} at call {self.at}"
            )
        return f"{self.mode.name} at call {self.at}"


@dataclass(frozen=True)
class Trial:
    """What became of one run: ``status`` is the exit code, negative for a signal.

    ``kinds`` has what each call did, by its number; those before the first one and after the last do nothing.
    """

    status: int
    lines: tuple[str, ...]
    calls: int
    reached: bool
    hit: str
    trace: str = ""
    kinds: bytes = b""

    @property
    def killed(self) -> bool:
        """Whether the run was ended by a signal."""
        return self.status < 0

    def said(self, word: str) -> str | None:
        """Return what followed a word at the beginning of a line, None if it was not said."""
        for line in self.lines:
            if line.split(" ", 1)[0] == word:
                return line.partition(" ")[2]
        return None


def build_shim(cache: Path) -> Path:
    """Compile the shim into a cache folder, once for each version of its source."""
    source = HERE / "shim.c"
    target = cache / f"fault-shim-{source.stat().st_mtime_ns:x}.so"
    if not target.exists():
        cache.mkdir(parents=True, exist_ok=True)
        fresh = target.with_suffix(f".{os.getpid()}")
        subprocess.run(["gcc", "-O1", "-Wall", "-shared", "-fPIC", "-o", fresh, source, "-ldl"], check=True)
        fresh.rename(target)
    return target


class Injector:
    """A process that forks one child a trial, and the plan which the shim of that child follows."""

    def __init__(self, *, cache: Path, scratch: Path) -> None:
        self._map_path = scratch / f"fault-map-{os.getpid()}-{id(self):x}"
        self._map_path.write_bytes(bytes(_MAP_SIZE))
        with self._map_path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _MAP_SIZE)
        # By these any other process follows the plan as well, which is armed by `arm`.
        self.variables = {
            "LD_PRELOAD": str(build_shim(cache)),
            "LASTGOOD_FAULT_MAP": str(self._map_path),
        }
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "zygote.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(SOURCES),
                "PYTHONDONTWRITEBYTECODE": "1",
                "HOME": str(scratch),
                "LC_ALL": "C.UTF-8",
                **self.variables,
            },
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def run(
        self,
        verb: str,
        parameters: Mapping[str, object],
        *,
        roots: Sequence[Path],
        blow: Blow,
        traced: bool = False,
    ) -> Trial:
        """Run one verb, with calls below the roots counted and one of them hit."""
        self.start(verb, parameters, roots=roots, blow=blow, traced=traced)
        return self.finish()

    def start(
        self,
        verb: str,
        parameters: Mapping[str, object],
        *,
        roots: Sequence[Path],
        blow: Blow,
        traced: bool = False,
    ) -> None:
        """Begin a verb; to be followed by `finish`."""
        self.arm(roots, blow, traced=traced)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"verb": verb, **parameters}).encode() + b"\n")
        self._process.stdin.flush()

    def paused(self) -> bool:
        """Wait until the call to pause at is reached; False if the run ended without."""
        assert self._process.stdout is not None
        while not self._number(_REACHED_AT):
            if select.select([self._process.stdout], [], [], 0.002)[0]:
                return bool(self._number(_REACHED_AT))
        return True

    def stopped(self) -> int:
        """Wait until the process that is to be stopped is, and return its number; 0 if the run ended."""
        if not self.paused():
            return 0
        pid = self._number(_REACHED_AT)
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.002)
        return pid

    def go_on(self, *, kill: bool = False) -> None:
        """Let a paused or stopped run continue, or kill a paused one where it stands."""
        pid = self._number(_REACHED_AT)
        if pid > 1:
            os.kill(pid, signal.SIGCONT)
            return
        if kill:
            self._map[_MODE_AT : _MODE_AT + 8] = int(Mode.KILL).to_bytes(8, "little")
        self._map[_REACHED_AT : _REACHED_AT + 8] = (2).to_bytes(8, "little")

    def finish(self) -> Trial:
        """Wait for the verb that was begun."""
        answer = json.loads(not_none(self._process.stdout).readline())
        _armed, calls, _at, _mode, _error, reached, _tracing, traced, _looks = _NUMBERS.unpack_from(self._map)
        hit = bytes(self._map[_HIT_AT:_TRACE_AT]).partition(b"\0")[0].decode(errors="replace")
        trace = bytes(self._map[_TRACE_AT : _TRACE_AT + min(traced, _TRACE_SIZE)]).decode(errors="replace")
        kinds = bytes(self._map[_KINDS_AT : _KINDS_AT + 1 + min(calls, LONGEST)])
        self.disarm()
        return Trial(answer["status"], tuple(answer["lines"]), calls, bool(reached), hit, trace, kinds)

    @property
    def reached(self) -> bool:
        """Whether the call that is to be hit was."""
        return bool(self._number(_REACHED_AT))

    @property
    def calls(self) -> int:
        """How many calls were made since the plan was armed."""
        return self._number(_CALLS_AT)

    def disarm(self) -> None:
        """Count and hit nothing more."""
        self._map[0:8] = bytes(8)

    def arm(self, roots: Sequence[Path], blow: Blow, *, traced: bool = False) -> None:
        """Count calls below some folders from now on, and hit one of them."""
        assert len(roots) <= _ROOTS
        names = b"".join(os.fsencode(root.resolve()).ljust(_ROOT_SIZE, b"\0") for root in roots)
        self._map[_NUMBERS.size : _HIT_AT] = names.ljust(_ROOTS * _ROOT_SIZE, b"\0")
        self._map[_HIT_AT:_TRACE_AT] = bytes(_HIT_SIZE)
        self._map[_MAP_SIZE - 1] = 0  # nothing was changed elsewhere
        numbers = (1, 0, blow.at, int(blow.mode), blow.error, 0, int(traced), 0, int(blow.looks))
        self._map[0 : _NUMBERS.size] = _NUMBERS.pack(*numbers)

    def close(self) -> None:
        """End the process."""
        not_none(self._process.stdin).close()
        self._process.wait()
        not_none(self._process.stdout).close()
        self._map.close()
        self._map_path.unlink()

    def _number(self, offset: int) -> int:
        return int.from_bytes(self._map[offset : offset + 8], "little")
