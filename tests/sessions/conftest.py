"""What the tests of sessions and progress share: the command, another process, a clock set by hand."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.command import opening, started


@pytest.fixture
def program(project: Path, store: Path) -> Callable[..., subprocess.Popen[str]]:
    """Return a call that runs Python in a process of its own, with `workspace` opened."""

    def run(body: str) -> subprocess.Popen[str]:
        return started("import lastgood, os, signal, sys, time\n" + opening(project, store) + body)

    return run
