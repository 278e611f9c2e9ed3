"""A runner dies between two of its records: whatever was done is known, or said to be unknown (P6, P7)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastgood.workspace import Workspace
from tools.command import ROOT
from tools.runs import Told, states

Die = Callable[..., None]

# Dies when the run tells of something for the Nth time; or, with a verb of the observers, of that.
PROGRAM = """
import lastgood, json, os, signal, sys
project, store, plan, where, count = sys.argv[1:]
left = int(count)

def die(event):
    global left
    if event.type == where:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

workspace = lastgood.open(project, store=store, maintenance="off")
workspace.subscribe(die)
workspace.run(plan, observer=die)
"""


@pytest.fixture
def die(project: Path, store: Path) -> Die:
    """Return a call that carries out a plan in a process that kills itself at some moment."""

    def run(plan: str, where: str, count: int = 1) -> None:
        words = [sys.executable, "-c", PROGRAM, str(project), str(store), plan, where, str(count)]
        environment = dict(os.environ) | {"PYTHONPATH": os.path.join(ROOT, "src")}
        done = subprocess.run(words, env=environment, capture_output=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()

    return run


MOMENTS = [
    ("check-started", 1),
    ("task_changed", 3),  # the first task is done and has its checkpoint; nothing is said of it yet
    ("attempt-failed", 1),  # what it left is kept; nothing is taken back yet
    ("restored", 1),  # it is taken back; nothing is said of it yet
    ("session_ended", 1),
]


@pytest.mark.parametrize(("where", "count"), MOMENTS)
def test_a_run_ends_as_if_nothing_had_happened_wherever_its_runner_dies(
    workspace: Workspace,
    project: Path,
    outside: Path,
    tmp_path: Path,
    die: Die,
    told: Told,
    where: str,
    count: int,
) -> None:
    """T7, P6: every effect comes once, or is reported as unknown."""
    flaky = f"echo x >> {outside}/B; ls > seen; test $(wc -l < {outside}/B) -ge 2"
    once = {"id": "C", "run": f"echo x >> {outside}/C; touch c", "irreversible": True}
    plan: dict[str, Any] = {
        "sprints": [
            {
                "id": "S1",
                "tasks": [{"id": "A", "run": f"echo x >> {outside}/A; touch a", "check": "test -f a"}],
            },
            {"id": "S2", "tasks": [{"id": "B", "run": flaky, "retries": 1, "on_failure": "rollback"}, once]},
        ]
    }
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    die(str(path), where, count)

    report = workspace.run(str(path), choice="continue", observer=told)
    unknown = {effect.task for effect in report.unknown_effects}
    if unknown == {"C"}:
        happened = (outside / "C").exists()
        report = workspace.run(str(path), done=["C"] * happened, redo=["C"] * (not happened))
    assert states(report) == {"A": "done", "B": "done", "C": "done"}
    assert sorted(os.listdir(project)) == (["a", "c", "seen"] if (outside / "C").exists() else ["a", "seen"])
    assert (project / "seen").read_text() == "a\nseen\n"
    counted = {task: len((outside / task).read_text().split()) for task in "ABC"}
    expected = {"A": 1, "B": 2, "C": 1}
    assert {task for task in counted if counted[task] != expected[task]} <= unknown
    assert counted["C"] == 1
    (session,) = workspace.sessions()
    assert (session.state, session.session.ended_by) == ("ended", "finished")
    kinds = [one.kind for one in workspace.list()]
    assert kinds.count("sprint") == 2
    assert all(workspace.get(f"task:{task}").kind == "task" for task in "ABC")
