"""What is kept of runs, and for how long."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import lastgood as package
from lastgood.settings import Rungs, Settings
from lastgood.workspace import Workspace


def test_outputs_stay_as_long_as_their_session_has_checkpoints(workspace: Workspace) -> None:
    report = workspace.run({"tasks": [{"id": "A", "run": "echo said"}]})
    assert report.outputs is not None
    workspace.maintain()
    assert os.listdir(report.outputs) == ["A.1.log"]
    workspace.save("another", allow_empty=True)
    workspace.delete(*[one.id for one in workspace.list() if one.session == report.session])
    workspace.maintain()
    assert os.path.isdir(report.outputs)
    workspace.prune(keep=1, now=True)
    assert "outputs of runs removed: 1" in workspace.maintain()
    assert not os.path.exists(report.outputs)


def test_outputs_of_a_run_that_is_not_over_stay(workspace: Workspace) -> None:
    report = workspace.run({"tasks": [{"id": "A", "run": "echo said; exit 1"}]})
    assert report.outputs is not None
    workspace.delete(*[one.id for one in workspace.list()])
    workspace.save("another", allow_empty=True)
    workspace.prune(keep=1, now=True)
    workspace.maintain()
    assert os.listdir(report.outputs) == ["A.1.log"]


def test_a_prune_spares_what_an_attempt_may_be_taken_back_to(
    project: Path, store: Path, plan_file: Callable[..., str], outside: Path
) -> None:
    """K1, P7."""
    settings = Settings(retention={"auto": Rungs(last=0), "task": Rungs(last=0)})
    (project / "kept").write_text("before\n")
    run = f"echo half > kept; test -e {outside}/ready || sleep 600"
    tasks = [{"id": "A", "run": "true"}, {"id": "B", "run": run, "timeout": 0.3, "on_failure": "rollback"}]
    plan = plan_file(*tasks)
    with package.open(project, store=store, maintenance="off", settings=settings) as workspace:
        session = workspace.run(plan).session
        (start,) = {step.checkpoint for step in workspace.steps(session) if step.task == "B"}
        kept = {one.id: one.reason for one in workspace.prune().keep}
        assert kept[start or ""] == "task B may be taken back to it"
        (outside / "ready").touch()
        workspace.run(plan)
        assert start not in {one.id for one in workspace.prune().keep}
