"""What the tests of runs share: a workspace, plans in files, and what a run told."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.command import opening, started
from tools.runs import Runner, Told
from tools.values import not_none


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a folder outside the workspace, where effects are counted."""
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


@pytest.fixture
def plan_file(tmp_path: Path) -> Callable[..., str]:
    """Return a call that writes a plan into a file, always the same one, and returns its path."""

    def write(*tasks: dict[str, Any], **fields: Any) -> str:
        path = tmp_path / "plan.json"
        path.write_text(json.dumps({"tasks": list(tasks), **fields}))
        return str(path)

    return write


@pytest.fixture
def runner(project: Path, store: Path) -> Iterator[Callable[..., Runner]]:
    """Return a call that carries out a plan in a process of its own, which prints its report at the end."""
    running: list[subprocess.Popen[str]] = []

    def start(plan: str, **options: Any) -> Runner:
        body = (
            "import json, lastgood\n"
            f"{opening(project, store)}"
            f"report = workspace.run({plan!r}, **{options!r})\n"
            "print(json.dumps({'state': report.state, 'session': report.session, 'signal': report.signal,\n"
            "    'reason': report.reason, 'tasks': {one.id: one.state for one in report.tasks}}))\n"
        )
        running.append(started(body))
        return Runner(running[-1])

    yield start
    for one in running:
        one.kill()
        one.wait()
        not_none(one.stdout).close()
