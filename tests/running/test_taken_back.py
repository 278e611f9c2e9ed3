"""What a person took back since a run stopped is not done any more (rules P2, P6, T11)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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
