"""What the tests of sessions and progress share: the command, another process, a clock set by hand."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.command import ROOT


@pytest.fixture
def sleeper() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Return a call that starts a process that does nothing until it is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        one = subprocess.Popen(["sleep", "600"])
        started.append(one)
        while not Path(f"/proc/{one.pid}/cmdline").read_bytes().startswith(b"sleep\0"):
            time.sleep(0.001)  # the kernel knows its words a moment after it started
        return one

    yield start
    for one in started:
        one.kill()
        one.wait()


@pytest.fixture
def program(project: Path, store: Path) -> Callable[..., subprocess.Popen[str]]:
    """Return a call that runs Python in a process of its own, with `workspace` opened."""

    def run(body: str) -> subprocess.Popen[str]:
        opening = (
            "import lastgood, os, signal, sys, time\n"
            f"workspace = lastgood.open({str(project)!r}, store={str(store)!r}, maintenance='off')\n"
        )
        environment = dict(os.environ) | {"PYTHONPATH": os.path.join(ROOT, "src")}
        return subprocess.Popen(
            [sys.executable, "-c", opening + body], env=environment, stdout=subprocess.PIPE, text=True
        )

    return run
