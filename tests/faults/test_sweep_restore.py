"""A restore, an undo and a recovery that are killed or failed at any call (rules T2, T5, T7, T8)."""

from __future__ import annotations

import shutil

import pytest

from faults.injector import Blow, Injector, Trial
from faults.scenes import (
    assert_nothing_lost,
    assert_settled,
    opened,
    recover,
    target_of,
    two_checkpoints,
)
from faults.stage import Stage, differences
from faults.sweep import FAILED, WAYS, sweep, sweep_both_ways
from lastgood.directories import MOST_OPEN

pytestmark = pytest.mark.faults


def test_a_restore_killed_at_any_call_is_finished_or_taken_back(injector: Injector, stage: Stage) -> None:
    stage.prepare(two_checkpoints)
    start, target = stage.tree(), target_of(stage)

    def check(trial: Trial, where: str, *, roll_back: bool) -> None:
        assert trial.killed or trial.said("restored"), f"{where}: {trial.lines}"
        assert_nothing_lost(stage, start, where)
        assert_settled(stage, trial, where, start=start, target=target, roll_back=roll_back)
        assert_nothing_lost(stage, start, where)

    sweep_both_ways(injector, stage, "restore", {"ref": "first"}, blow=Blow(), check=check, points=56)


def test_a_restore_of_more_folders_than_stay_open_killed_at_any_call_is_finished_or_taken_back(
    injector: Injector, stage: Stage
) -> None:
    """Some of them get their permissions before anything is written into them."""
    states = []

    def prepare(stage: Stage) -> None:
        for number in range(MOST_OPEN + 4):
            folder = stage.workspace / f"{number}" / "deep"
            folder.mkdir(parents=True)
            folder.chmod(0o750 if number % 4 else 0o550)
            folder.parent.chmod(0o711)
        (stage.workspace / "0" / "file").write_text("kept\n")
        (stage.workspace / "9" / "file").write_text("kept\n")
        with opened(stage) as workspace:
            states.append(stage.tree())
            workspace.save("the first state", name="first")
            shutil.rmtree(stage.workspace)
            stage.workspace.mkdir()
            workspace.save("the second state", name="second")

    stage.prepare(prepare)
    (target,) = states

    def check(trial: Trial, where: str, *, roll_back: bool) -> None:
        assert_settled(stage, trial, where, start={}, target=target, roll_back=roll_back)

    sweep_both_ways(injector, stage, "restore", {"ref": "first"}, blow=Blow(), check=check, points=16)


@FAILED
def test_a_restore_failed_at_any_call_is_finished_or_taken_back(
    injector: Injector, stage: Stage, blow: Blow
) -> None:
    stage.prepare(two_checkpoints)
    start, target = stage.tree(), target_of(stage)

    def check(trial: Trial, where: str, *, roll_back: bool) -> None:
        spoke = trial.said("restored") or trial.said("failed") or trial.said("incomplete")
        assert spoke, f"{where}: no typed answer: {trial.status} {trial.lines}"
        assert_nothing_lost(stage, start, where)
        assert_settled(stage, trial, where, start=start, target=target, roll_back=roll_back)

    sweep_both_ways(injector, stage, "restore", {"ref": "first"}, blow=blow, check=check, points=30)


def test_an_undo_killed_at_any_call_is_finished_or_taken_back(injector: Injector, stage: Stage) -> None:
    stage.prepare(two_checkpoints)
    target = stage.tree()
    with opened(stage) as workspace:
        workspace.restore("first")
    stage.keep()
    start = stage.tree()

    def check(trial: Trial, where: str, *, roll_back: bool) -> None:
        assert trial.killed or trial.said("undone"), f"{where}: {trial.lines}"
        assert_nothing_lost(stage, start, where)
        with opened(stage) as workspace:
            interrupted = workspace.status().state == "interrupted"
            recover(workspace, roll_back=roll_back)
            present = stage.tree()
            wanted = (start if roll_back else target) if interrupted else present
            assert present == wanted, f"{where}: {differences(present, wanted)}"
            assert present in (start, target), f"{where}: {differences(present, target)}"
            workspace.redo() if present == target else workspace.undo()
            wanted = start if present == target else target
            assert stage.tree() == wanted, f"{where}: {differences(stage.tree(), wanted)}"

    sweep_both_ways(injector, stage, "undo", {}, blow=Blow(), check=check, points=36)


@WAYS
def test_a_recovery_killed_at_any_call_can_be_run_again(
    injector: Injector, stage: Stage, *, roll_back: bool
) -> None:
    stage.prepare(two_checkpoints)
    start, target = stage.tree(), target_of(stage)
    order = {"workspace": str(stage.workspace), "store": str(stage.store)}
    clean = injector.run("restore", {"ref": "first", **order}, roots=stage.roots, blow=Blow(), traced=True)
    middle = next(number for number, line in enumerate(clean.trace.splitlines(), 1) if " renameat " in line)
    stage.reset()
    injector.run("restore", {"ref": "first", **order}, roots=stage.roots, blow=Blow(middle + 1))
    stage.keep()

    def check(trial: Trial, where: str) -> None:
        assert trial.killed or trial.said("recovered"), f"{where}: {trial.lines}"
        assert_nothing_lost(stage, start, where)
        with opened(stage) as workspace:
            recover(workspace, roll_back=roll_back)
            wanted = start if roll_back else target
            assert stage.tree() == wanted, f"{where}: {differences(stage.tree(), wanted)}"
            if not roll_back:
                workspace.undo()
                assert stage.tree() == start, f"{where}: {differences(stage.tree(), start)}"
            assert workspace.verify().ok, where

    sweep(injector, stage, "recover", {"roll_back": roll_back}, blow=Blow(), check=check, points=24)
