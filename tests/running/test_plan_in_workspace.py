"""A plan that lies in the workspace: what a person writes into it after a crash is not taken back (T17)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from lastgood.workspace import Workspace
from tools.command import ROOT
from tools.runs import Told, states, wait_for

WAITING = "echo half > half.txt; touch {outside}/waiting; sleep 600"


def killed(project: Path, store: Path, outside: Path, *, run: str) -> str:
    """Have a runner killed in the one task of a plan in the project, and return the plan's path."""
    plan = project / "plan.json"
    task = {"id": "A", "run": run.format(outside=outside), "on_failure": "rollback"}
    plan.write_text(json.dumps({"tasks": [task]}))
    body = f"import lastgood; lastgood.open({str(project)!r}, store={str(store)!r}).run({str(plan)!r})"
    environment = dict(os.environ) | {"PYTHONPATH": os.path.join(ROOT, "src")}
    with subprocess.Popen([sys.executable, "-c", body], env=environment) as runner:
        wait_for(outside / "waiting")
        runner.kill()
    return str(plan)


def test_a_plan_edited_after_a_crash_stays_edited_when_the_task_is_taken_back(
    workspace: Workspace, project: Path, store: Path, outside: Path, told: Told
) -> None:
    """P7, T17: everything else of the attempt is taken back, deletions included."""
    (project / "old.txt").write_text("old\n")
    plan = killed(project, store, outside, run="rm old.txt; " + WAITING)
    edited = json.dumps({"tasks": [{"id": "A", "run": "echo whole > whole.txt", "on_failure": "rollback"}]})
    (project / "plan.json").write_text(edited)

    report = workspace.run(plan, rebase=True, observer=told)
    assert states(report) == {"A": "done"}
    assert (project / "plan.json").read_text() == edited
    assert not (project / "half.txt").exists()
    assert (project / "old.txt").read_text() == "old\n"
    assert (project / "whole.txt").exists()
    (back,) = told.of("rolled-back")
    assert sorted(back.paths) == [b"half.txt", b"old.txt"]


def test_where_only_the_plan_changed_since_nothing_is_taken_back(
    workspace: Workspace, project: Path, store: Path, outside: Path, told: Told
) -> None:
    """P7, T17."""
    plan = killed(project, store, outside, run="touch {outside}/waiting; sleep 600")
    edited = json.dumps({"tasks": [{"id": "A", "run": "true", "on_failure": "rollback"}]}, indent=1)
    (project / "plan.json").write_text(edited)
    assert workspace.run(plan, rebase=True, observer=told).state == "done"
    assert (project / "plan.json").read_text() == edited
    assert [event.paths for event in told.of("rolled-back")] in ([], [()])


def test_what_a_failed_task_itself_wrote_into_the_plan_is_taken_back(
    workspace: Workspace, project: Path, told: Told
) -> None:
    """T17."""
    plan = project / "plan.json"
    task = {"id": "A", "run": "echo '# junk' >> plan.json; false", "on_failure": "rollback"}
    plan.write_text(json.dumps({"tasks": [task]}))
    before = plan.read_text()
    assert workspace.run(str(plan), observer=told).state == "failed"
    assert plan.read_text() == before
