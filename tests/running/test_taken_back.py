"""What a person took back since a run stopped is not done any more (rules P2, P6, T11)."""

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
from tools.runs import Runner, Told, states, wait_for

Plan = Callable[..., str]


def stopped(workspace: Workspace, plan: str) -> str:
    """Carry out a plan whose second task fails, and return the checkpoint from before its first."""
    report = workspace.run(plan)
    assert states(report) == {"A": "done", "B": "failed"}
    return next(one.id for one in workspace.list() if one.kind == "session-start")


def plan_of(plan_file: Plan, outside: Path) -> str:
    return plan_file(
        {"id": "A", "run": f"echo a > made; echo a >> {outside}/effects"},
        {"id": "B", "run": f"test -e {outside}/ready"},
    )


def test_a_task_whose_files_were_taken_back_is_done_again(
    workspace: Workspace, plan_file: Plan, project: Path, outside: Path
) -> None:
    """T11: the progress of a run that waits goes with its files."""
    plan = plan_of(plan_file, outside)
    start = stopped(workspace, plan)
    workspace.restore(start)
    assert not (project / "made").exists()
    (status,) = workspace.status().incomplete
    assert [task.state for task in status.progress.tasks] == ["pending", "pending"]
    (outside / "ready").touch()
    report = workspace.run(plan)
    assert report.state == "done"
    assert (project / "made").read_text() == "a\n"
    assert (outside / "effects").read_text() == "a\na\n"
    assert [task.attempts for task in report.tasks] == [2, 2]


def test_what_was_taken_back_and_given_back_is_done(
    workspace: Workspace, plan_file: Plan, project: Path, outside: Path
) -> None:
    """T3, T11: an undo gives the progress back too."""
    plan = plan_of(plan_file, outside)
    start = stopped(workspace, plan)
    workspace.restore(start)
    workspace.undo()
    (outside / "ready").touch()
    report = workspace.run(plan)
    assert report.state == "done"
    assert (project / "made").read_text() == "a\n"
    assert (outside / "effects").read_text() == "a\n"


def test_where_only_files_are_taken_back_the_tasks_stay_done(
    workspace: Workspace, plan_file: Plan, project: Path, outside: Path
) -> None:
    """T11: each scope alone."""
    plan = plan_of(plan_file, outside)
    start = stopped(workspace, plan)
    workspace.restore(start, only=["files"])
    (outside / "ready").touch()
    assert workspace.run(plan).state == "done"
    assert not (project / "made").exists()
    assert (outside / "effects").read_text() == "a\n"


def test_a_restore_to_before_the_run_takes_back_what_it_has_done(
    workspace: Workspace, plan_file: Plan, project: Path, outside: Path
) -> None:
    """T11: whatever made the checkpoint, the files of the run's tasks are gone."""
    before = workspace.save().checkpoint.id
    plan = plan_of(plan_file, outside)
    stopped(workspace, plan)
    workspace.restore(before)
    (outside / "ready").touch()
    assert workspace.run(plan).state == "done"
    assert (project / "made").read_text() == "a\n"


def test_a_restore_to_after_the_run_leaves_its_tasks_done(
    workspace: Workspace, plan_file: Plan, project: Path, outside: Path
) -> None:
    """T11: what is put back holds what the run has done."""
    plan = plan_of(plan_file, outside)
    stopped(workspace, plan)
    (project / "more").write_text("")
    after = workspace.save().checkpoint.id
    (project / "more").unlink()
    workspace.restore(after)
    (outside / "ready").touch()
    assert workspace.run(plan).state == "done"
    assert (outside / "effects").read_text() == "a\n"


def test_that_nothing_had_to_be_taken_back_is_told_once(
    workspace: Workspace, runner: Callable[..., Runner], plan_file: Plan, outside: Path, told: Told
) -> None:
    """P7: of an attempt that was cut short before it wrote anything."""
    command = f"test -e {outside}/again || {{ touch {outside}/again; sleep 600; }}"
    plan = plan_file({"id": "A", "run": command, "on_failure": "rollback"})
    one = runner(plan)
    wait_for(outside / "again")
    one.kill()
    assert workspace.run(plan, observer=told).state == "done"
    assert [event.paths for event in told.of("rolled-back")] == [()]


def test_a_task_that_took_its_own_work_back_is_taken_back_as_any_other(
    workspace: Workspace, plan_file: Plan, project: Path
) -> None:
    """T17: what it did after that is not taken for what was taken back before."""
    seen: list[str] = []

    def rewound(part: bytes) -> None:
        seen.append(part.decode())
        start = next(one.id for one in workspace.list() if one.kind == "session-start")
        workspace.restore(start, only=["files"])
        (project / "rewound").touch()

    command = "echo 1 > made; echo now; until test -e rewound; do sleep 0.05; done; echo 2 > made; exit 1"
    report = workspace.run(plan_file({"id": "A", "run": command, "on_failure": "rollback"}), output=rewound)
    assert states(report) == {"A": "failed"}
    assert seen == ["now\n"]
    assert not (project / "made").exists()
    assert not (project / "rewound").exists()


def test_what_was_taken_back_is_not_again_though_its_checkpoint_was_deleted(
    workspace: Workspace, plan_file: Plan, project: Path, outside: Path
) -> None:
    """T17: what a person wrote since stays."""
    command = f"echo bad > bad; test -e {outside}/ready"
    plan = plan_file({"id": "A", "run": command, "on_failure": "rollback"})
    assert workspace.run(plan).state == "failed"
    (project / "mine").write_text("precious\n")
    workspace.delete(next(one.id for one in workspace.list() if one.kind == "error"))
    (outside / "ready").touch()
    assert workspace.run(plan).state == "done"
    assert (project / "mine").read_text() == "precious\n"


# A plan that was edited since its run began: refused, or gone on with by the ids of its tasks.


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
    assert "task A: its `run` was edited" in caught.value.message
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
