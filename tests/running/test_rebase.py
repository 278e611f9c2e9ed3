"""A plan that was edited since its run began: refused, or gone on with by the ids of its tasks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lastgood as package
from lastgood.errors import Conflict
from lastgood.settings import AutoSettings, Settings
from lastgood.workspace import Workspace
from tools.runs import Told, states

Plan = Callable[..., str]


def test_an_edited_plan_is_refused_with_what_changed(
    workspace: Workspace, plan_file: Plan, outside: Path
) -> None:
    plan = plan_file({"id": "A", "run": f"touch {outside}/A"}, {"id": "B", "run": "exit 1"})
    session = workspace.run(plan).session
    plan_file({"id": "A", "run": "true"}, {"id": "C", "run": "true"})
    with pytest.raises(Conflict) as caught:
        workspace.run(plan)
    assert session in caught.value.message
    assert "task C is new" in caught.value.message
    assert "task B is gone" in caught.value.message
    assert "task A has another run" in caught.value.message
    assert "--rebase" in caught.value.hint
    assert workspace.get_session(session).state == "incomplete"


def test_a_rebase_keeps_what_is_done_and_drops_what_is_gone(
    workspace: Workspace, plan_file: Plan, outside: Path, told: Told
) -> None:
    log = outside / "log"
    plan = plan_file(
        {"id": "A", "run": f"echo A >> {log}"},
        {"id": "B", "run": f"echo B >> {log}; exit 1", "on_failure": "keep"},
        {"id": "gone", "run": "exit 1"},
    )
    first = workspace.run(plan)
    plan_file(
        {"id": "new", "run": f"echo new >> {log}"},
        {"id": "A", "run": f"echo another A >> {log}"},
        {"id": "B", "run": f"echo B again >> {log}"},
    )
    report = workspace.run(plan, rebase=True, observer=told)
    assert (report.state, report.session) == ("done", first.session)
    assert states(report) == {"new": "done", "A": "done", "B": "done"}
    assert log.read_text().splitlines() == ["A", "B", "new", "B again"]
    assert [task.id for task in workspace.get_session(report.session).progress.tasks] == ["new", "A", "B"]
    for note in ("task gone is gone", "task new is new", "task A was changed, and stays done"):
        assert note in told.notices


def test_a_rebase_lasts(workspace: Workspace, plan_file: Plan, outside: Path) -> None:
    plan = plan_file({"id": "A", "run": "exit 1"})
    workspace.run(plan)
    plan_file({"id": "A", "run": f"test -e {outside}/ready"})
    workspace.run(plan, rebase=True)
    (outside / "ready").touch()
    assert workspace.run(plan).state == "done"


@pytest.mark.parametrize("change", [{"retries": 3}, {"timeout": 60}, {"on_failure": "keep"}])
def test_how_a_task_is_looked_after_may_change_without_a_word(
    workspace: Workspace, plan_file: Plan, outside: Path, change: dict[str, Any]
) -> None:
    task = {"id": "A", "run": f"test -e {outside}/ready"}
    plan = plan_file(task, goal="one")
    workspace.run(plan)
    plan_file(task | change, goal="another")
    (outside / "ready").touch()
    report = workspace.run(plan)
    assert (report.state, report.continued) == ("done", True)


def test_an_edited_plan_may_begin_afresh(workspace: Workspace, plan_file: Plan) -> None:
    plan = plan_file({"id": "A", "run": "exit 1"})
    workspace.run(plan)
    plan_file({"id": "A", "run": "true"})
    report = workspace.run(plan, choice="fresh")
    assert (report.state, report.continued) == ("done", False)


def test_an_edited_plan_of_a_finished_run_is_not_taken_for_finished(
    workspace: Workspace, plan_file: Plan
) -> None:
    plan = plan_file({"id": "A", "run": "true"})
    workspace.run(plan)
    plan_file({"id": "A", "run": "true"}, {"id": "B", "run": "true"})
    with pytest.raises(Conflict, match="task B is new"):
        workspace.run(plan, choice="continue")


def test_an_unknown_effect_of_a_task_that_is_gone_is_said(
    workspace: Workspace, plan_file: Plan, outside: Path, told: Told
) -> None:
    """P6."""
    slow = {"id": "slow", "run": "sleep 600", "timeout": 0.3, "irreversible": True}
    plan = plan_file({"id": "A", "run": "true"}, slow)
    workspace.run(plan)
    plan_file({"id": "A", "run": "true"})
    report = workspace.run(plan, rebase=True, observer=told)
    assert report.state == "done"
    assert "nobody saw the end of task slow, which is gone from the plan" in told.notices


def test_a_policy_that_became_a_rollback_takes_nothing_of_others_back(
    project: Path, store: Path, plan_file: Plan, outside: Path, told: Told
) -> None:
    """T17: what an attempt left long ago cannot be told from what others did since."""
    settings = Settings(auto=AutoSettings(enabled=False))
    with package.open(project, store=store, maintenance="off", settings=settings) as workspace:
        first = {"id": "A", "run": f"touch half; test -e {outside}/ready", "on_failure": "keep"}
        others = [{"id": "B", "run": "touch made"}, {"id": "C", "run": f"test -e {outside}/ready"}]
        plan = plan_file(first, *others)
        workspace.run(plan)
        plan_file(first | {"on_failure": "rollback"}, *others)
        (outside / "ready").touch()
        assert workspace.run(plan, observer=told).state == "done"
        assert sorted(os.listdir(project)) == ["half", "made"]
        assert told.of("rolled-back") == []
