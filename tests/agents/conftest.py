"""A place for agents to work in, and how they are run and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.judge import git_faults

HERE = Path(__file__).parent
SOURCE = HERE.parent.parent / "src"


class Site:
    """A project with a store, and what an agent leaves outside both."""

    def __init__(self, folder: Path, *, project: Path | None = None, store: Path | None = None) -> None:
        self.project = folder / "project" if project is None else project
        self.store = folder / "store" if store is None else store
        self.outside = folder / "outside"
        for made in (self.project, self.outside):
            made.mkdir(parents=True, exist_ok=True)

    def start(self, *, tag: str, mode: str) -> subprocess.Popen[bytes]:
        places = (self.project, self.store, self.outside)
        return subprocess.Popen(
            [sys.executable, HERE / "agent.py", *places, tag, mode],
            env=os.environ | {"PYTHONPATH": str(SOURCE)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, *, tag: str, mode: str) -> float:
        """Let an agent work to its end, and return how many seconds that took."""
        began = time.monotonic()
        agent = self.start(tag=tag, mode=mode)
        said, _ = agent.communicate(timeout=300)
        assert agent.returncode == 0, said.decode()
        return time.monotonic() - began

    def run_and_kill(self, *, tag: str, mode: str, after: float) -> bool:
        """Kill an agent after some seconds, and tell whether it was still at work."""
        agent = self.start(tag=tag, mode=mode)
        try:
            said, _ = agent.communicate(timeout=after)
        except subprocess.TimeoutExpired:
            agent.send_signal(signal.SIGKILL)
            said, _ = agent.communicate()
        assert agent.returncode in {0, -signal.SIGKILL}, said.decode()
        return agent.returncode != 0

    def tree(self) -> dict[str, tuple[int, bytes]]:
        files = (path for path in self.project.rglob("*") if path.is_file() and ".git" not in path.parts)
        return {
            str(path.relative_to(self.project)): (path.stat().st_mode & 0o777, path.read_bytes())
            for path in files
        }

    def lines(self, name: str) -> list[str]:
        file = self.outside / name
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """Return a maker of sites; at the end git judges their stores."""
    made: list[Site] = []

    def make(name: str, **places: Path) -> Site:
        made.append(Site(tmp_path / name, **places))
        return made[-1]

    yield make
    for one in made:
        assert git_faults(one.store) == ""
