"""What the tests of sessions and progress share: the command, another process, a clock set by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.command import ROOT


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
