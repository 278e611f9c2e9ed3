"""A place for locks, and processes that hold them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

HOLDER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from lastgood.locks import FlockLocks
from lastgood.errors import Busy
locks = FlockLocks(os.fsencode(sys.argv[2]), command="lastgood restore")
kind, wait = sys.argv[3], float(sys.argv[4])
lock = {
    "share_store": lambda: locks.share_store(wait=wait),
    "hold_store": lambda: locks.hold_store(wait=wait),
    "share_workspace": lambda: locks.share_workspace("ab12", wait=wait),
    "hold_workspace": lambda: locks.hold_workspace("ab12", wait=wait),
    "maintenance": lambda: locks.maintenance(wait=wait),
}[kind]()
try:
    with lock:
        print("held", os.getpid(), flush=True)
        sys.stdin.read()
except Busy as error:
    print("busy", error.message, flush=True)
"""


@pytest.fixture
def place(tmp_path: Path) -> bytes:
    """Return the store that the locks belong to."""
    (tmp_path / "store").mkdir()
    return os.fsencode(tmp_path / "store")


@pytest.fixture
def start(place: bytes) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Return a function that starts a process which takes a lock; it lets go when its input ends."""
    started: list[subprocess.Popen[str]] = []

    def begin(kind: str, *, wait: float = 0.0, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*prefix, sys.executable, "-c", HOLDER, str(SOURCE), os.fsdecode(place), kind, str(wait)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()
