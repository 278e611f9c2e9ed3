"""Going on with a run that finished: done is what it did, as long as that is there (rules P7, T8, T15)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lastgood as package
from lastgood.errors import Conflict, Usage
from lastgood.settings import Rungs, Settings
from lastgood.workspace import Workspace
from tools.command import Command
from tools.values import not_none

Plan = Callable[..., str]


@pytest.fixture
def plan(plan_file: Plan, outside: Path) -> str:
    make = f"mkdir -p sub; echo a > sub/made; echo b > old; rm gone; echo x >> {outside}/effects"
    return plan_file({"id": "A", "run": make}, {"id": "B", "run": "true"})


@pytest.fixture
def finished(workspace: Workspace, project: Path, plan: str) -> str:
    """Return the checkpoint from before a run that has finished."""
    for name in ("old", "gone", "other"):
        (project / name).write_text("before\n")
    before = workspace.save("before").checkpoint.id
    assert workspace.run(plan).state == "done"
    return before


def goes_on(workspace: Workspace, plan: str) -> tuple[str, str | None]:
    report = workspace.run(plan, choice="continue")
    return report.state, report.reason


FINISHED = ("done", "it has finished already")


def test_a_finished_run_whose_files_were_taken_back_is_not_called_done(
    workspace: Workspace, plan: str, finished: str
) -> None:
    """P7: the restore is named, and both ways on."""
    restored = workspace.restore(finished)
    with pytest.raises(Conflict) as caught:
        workspace.run(plan, choice="continue")
    error = caught.value
    assert f"was taken back by the restore of {finished[:13]} at 20" in error.message
    assert error.message.endswith(": gone, old, sub/made")
    assert error.hint is not None
    assert "--again" in error.hint
    assert error.details["operation"] == restored.operation
    workspace.restore(error.hint.split()[-1])
    assert goes_on(workspace, plan) == FINISHED


def test_what_was_taken_back_and_given_back_is_done(workspace: Workspace, plan: str, finished: str) -> None:
    """T8."""
    workspace.restore(finished)
    workspace.undo()
    assert goes_on(workspace, plan) == FINISHED
    workspace.redo()
    with pytest.raises(Conflict):
        workspace.run(plan, choice="continue")


def test_one_path_that_was_taken_back_is_enough(workspace: Workspace, plan: str, finished: str) -> None:
    workspace.restore(finished, paths=["old"])
    with pytest.raises(Conflict, match=r": old\n"):
        workspace.run(plan, choice="continue")


def test_what_the_run_did_not_change_may_come_back_from_any_time(
    workspace: Workspace, project: Path, plan: str, finished: str
) -> None:
    (project / "other").write_text("after\n")
    workspace.restore(finished, paths=["other"])
    assert (project / "other").read_text() == "before\n"
    assert goes_on(workspace, plan) == FINISHED


def test_what_came_after_the_run_may_be_taken_back_to_its_end(
    workspace: Workspace, project: Path, plan: str, finished: str
) -> None:
    """T15: also to a later checkpoint, whatever that holds."""
    assert finished
    (project / "old").write_text("mine\n")
    later = workspace.save("mine").checkpoint.id
    (project / "old").write_text("worse\n")
    workspace.restore(later)
    assert goes_on(workspace, plan) == FINISHED
    workspace.restore(workspace.list(kind="session-end")[0].id)
    assert goes_on(workspace, plan) == FINISHED


def test_a_restore_before_the_run_takes_nothing_from_it(
    workspace: Workspace, project: Path, plan: str
) -> None:
    for name in ("old", "gone"):
        (project / name).write_text("before\n")
    before = workspace.save("before").checkpoint.id
    (project / "old").write_text("between\n")
    workspace.restore(before)
    assert workspace.run(plan).state == "done"
    assert goes_on(workspace, plan) == FINISHED


def test_a_plan_is_carried_out_anew_after_it_was_taken_back(
    workspace: Workspace, project: Path, plan: str, finished: str, outside: Path
) -> None:
    """P7, P8b: on a word only."""
    orders: tuple[dict[str, Any], ...] = ({"choice": "fresh"}, {"again": True})
    for order in orders:
        workspace.restore(finished)
        with pytest.raises(Conflict, match="was taken back"):
            workspace.run(plan)
        assert workspace.run(plan, **order).state == "done"
        assert (project / "sub" / "made").read_text() == "a\n"
    assert goes_on(workspace, plan) == FINISHED
    assert (outside / "effects").read_text() == "x\nx\nx\n"


def test_nothing_of_a_finished_run_is_done_again(workspace: Workspace, plan: str, finished: str) -> None:
    """P6: it is refused rather than left out without a word."""
    assert finished
    for orders in ({"redo": ["A"]}, {"done": ["A"]}):
        with pytest.raises(Usage, match="has finished: nothing of it is done again") as caught:
            workspace.run(plan, choice="continue", **orders)  # type: ignore[arg-type]
        assert "--again" in (caught.value.hint or "")


def test_the_command_says_so_with_a_code_of_its_own(
    project: Path, store: Path, workspace: Workspace, plan: str, finished: str
) -> None:
    workspace.restore(finished)
    lastgood = Command(project, store)
    refused = lastgood("run", plan, "--continue", expect=13)
    assert refused.out == ""
    assert "finished; but what it did was taken back by the restore" in refused.err
    document = lastgood("run", plan, "--continue", "--json", expect=13).json
    assert document["error"]["details"]["paths"] == ["gone", "old", "sub/made"]


# A plan that finished is not carried out again unasked.


def effects(outside: Path) -> str:
    return (outside / "effects").read_text()


def test_a_finished_plan_is_not_carried_out_again(
    workspace: Workspace, plan: str, finished: str, outside: Path
) -> None:
    """P8b: the report says when it finished, and shows where."""
    assert finished
    before = len(workspace.list())
    report = workspace.run(plan)
    assert (report.state, report.reason) == FINISHED
    assert report.finished_at == workspace.get_session(report.session).session.ended_at
    assert report.checkpoint == workspace.list(kind="session-end")[0].id
    assert effects(outside) == "x\n"
    assert len(workspace.list()) == before


def test_a_finished_plan_is_carried_out_again_on_request(
    workspace: Workspace, project: Path, plan: str, finished: str, outside: Path
) -> None:
    """P8b."""
    assert finished
    (project / "gone").touch()
    report = workspace.run(plan, again=True)
    assert (report.state, report.finished_at) == ("done", None)
    assert effects(outside) == "x\nx\n"


def test_what_is_irreversible_is_named_before_and_when_it_is_done_again(
    lastgood: Command, plan_file: Plan, outside: Path
) -> None:
    """P8b."""
    plan = plan_file(
        {"id": "deploy", "run": f"echo x >> {outside}/effects", "irreversible": True},
        {"id": "other", "run": "true"},
    )
    lastgood("run", plan)
    done = lastgood("run", plan)
    first, named, way_on = done.out.splitlines()
    assert first.startswith("nothing to do: this plan finished just now, ckpt_")
    assert named == "  irreversible, and done again by that: deploy"
    assert way_on == f"  carry it out again: lastgood run {plan} --again"
    assert effects(outside) == "x\n"
    again = lastgood("run", plan, "--again")
    assert "done before, irreversible, and done again now: deploy" in again.out
    assert effects(outside) == "x\nx\n"


def test_a_program_is_told_that_nothing_was_done(lastgood: Command, plan_file: Plan) -> None:
    """P8b."""
    plan = plan_file({"id": "A", "run": "true"})
    lastgood("run", plan)
    document = lastgood("run", plan, "--json").json
    assert (document["event"], document["report"]["state"]) == ("finished", "done")
    assert document["report"]["finished_at"].endswith("Z")


def test_a_finished_plan_that_was_edited_is_not_carried_out_unasked(
    workspace: Workspace, plan_file: Plan, outside: Path
) -> None:
    """P8b: what it did before would be done again."""
    deploy = {"id": "deploy", "run": f"echo x >> {outside}/effects"}
    workspace.run(plan_file(deploy))
    edited = plan_file(deploy, {"id": "more", "run": "true"})
    with pytest.raises(Conflict, match=r"edited since its run .* finished: task more is new") as caught:
        workspace.run(edited)
    assert caught.value.hint == "carry out all that it says now: --again"
    assert workspace.run(edited, again=True).state == "done"
    assert effects(outside) == "x\nx\n"


def test_a_file_with_other_tasks_by_now_is_another_plan(workspace: Workspace, plan_file: Plan) -> None:
    """P8b."""
    workspace.run(plan_file({"id": "A", "run": "true"}))
    report = workspace.run(plan_file({"id": "B", "run": "true"}))
    assert (report.state, report.finished_at) == ("done", None)


def test_one_command_runs_as_often_as_it_is_given(workspace: Workspace, outside: Path) -> None:
    """P8b: it is no plan."""
    for _ in range(2):
        workspace.run(["sh", "-c", f"echo x >> {outside}/effects"])
    assert effects(outside) == "x\nx\n"


def test_again_does_not_go_with_going_on(workspace: Workspace, plan: str) -> None:
    """P8b."""
    with pytest.raises(Usage):
        workspace.run(plan, again=True, choice="continue")


# What is kept of runs, and for how long.


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
    workspace.delete(*[one.id for one in workspace.list()])
    workspace.save("another", allow_empty=True)
    workspace.prune(keep=1, now=True)
    workspace.maintain()
    assert os.listdir(not_none(report.outputs)) == ["A.1.log"]


def test_a_prune_spares_what_an_attempt_may_be_taken_back_to(
    project: Path, store: Path, plan_file: Callable[..., str], outside: Path
) -> None:
    """K1, P7."""
    settings = Settings(retention={"auto": Rungs(last=0), "task": Rungs(last=0)})
    (project / "kept").write_text("before\n")
    run = f"echo half > kept; test -e {outside}/ready || sleep 600"
    first, second = {"id": "A", "run": "true"}, {"id": "B", "run": run, "on_failure": "rollback"}
    plan = plan_file(first, second | {"timeout": 0.3})
    with package.open(project, store=store, maintenance="off", settings=settings) as workspace:
        session = workspace.run(plan).session
        (start,) = {step.checkpoint for step in workspace.steps(session) if step.task == "B"}
        kept = {one.id: one.reason for one in workspace.prune().keep}
        assert kept[start or ""] == "task B may be taken back to it"
        (outside / "ready").touch()
        plan_file(first, second)  # as long as a slow machine takes
        assert workspace.run(plan).state == "done"
        assert start not in {one.id for one in workspace.prune().keep}


def test_a_finished_plan_is_known_however_many_runs_came_after_it(
    workspace: Workspace, plan: str, finished: str, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8b."""
    assert finished
    monkeypatch.setattr("lastgood.workspace.running.workspace._RUNS_A_PAGE", 1)
    for _ in range(2):
        assert workspace.run(["true"]).state == "done"
    report = workspace.run(plan)
    assert (report.state, report.reason) == FINISHED
    assert effects(outside) == "x\n"


def test_fresh_names_what_is_irreversible_and_needs_again(
    lastgood: Command, plan_file: Plan, outside: Path
) -> None:
    """P8b."""
    plan = plan_file({"id": "deploy", "run": f"echo x >> {outside}/effects", "irreversible": True})
    lastgood("run", plan)
    refused = lastgood("run", plan, "--fresh", expect=13)
    assert "irreversible, and done again by --fresh: deploy" in refused.err
    assert "--again" in refused.err
    assert effects(outside) == "x\n"
    lastgood("run", plan, "--fresh", "--again")
    assert effects(outside) == "x\nx\n"
