"""A restore into a folder that is gone, killed or failed at any call (rules T7, T12a)."""

from __future__ import annotations

import shutil

import pytest

from faults.injector import Blow, Injector, Trial
from faults.scenes import IGNORED, opened, target_of, two_checkpoints
from faults.stage import Stage, differences, tree_of
from faults.sweep import FAILED, sweep
from lastgood.errors import Busy

pytestmark = pytest.mark.faults


def two_checkpoints_of_a_folder_that_is_gone(stage: Stage) -> None:
    two_checkpoints(stage)
    shutil.rmtree(stage.workspace)


def assert_comes_back(stage: Stage, where: str, *, restored: bool) -> None:
    """What it left is settled, and the restore leads to the end then."""
    (stage.template / "workspace").mkdir(exist_ok=True)
    (stage.template / "workspace" / IGNORED.decode()).touch()
    wanted = target_of(stage)
    del wanted[IGNORED]  # no checkpoint holds it
    shutil.rmtree(stage.template / "workspace")
    if restored:
        assert stage.tree() == wanted, f"{where}: {differences(stage.tree(), wanted)}"
    with opened(stage) as workspace:
        if workspace.status().state == "interrupted":
            workspace.recover()
        workspace.restore("first")
        assert tree_of(stage.workspace) == wanted, f"{where}: {differences(stage.tree(), wanted)}"
        assert workspace.verify().ok, where
        workspace.undo()


def test_a_restore_of_a_folder_that_is_gone_is_killed_at_any_call(injector: Injector, stage: Stage) -> None:
    """T12a, T7: the folder may be there empty by then; nothing of it stands in the way."""
    stage.prepare(two_checkpoints_of_a_folder_that_is_gone)

    def check(trial: Trial, where: str) -> None:
        assert trial.killed or trial.said("restored"), f"{where}: {trial.lines}"
        assert_comes_back(stage, where, restored=trial.said("restored") is not None)

    sweep(injector, stage, "restore", {"ref": "first"}, blow=Blow(), check=check, points=36)


@FAILED
def test_a_restore_of_a_folder_that_is_gone_failed_at_any_call(
    injector: Injector, stage: Stage, blow: Blow
) -> None:
    stage.prepare(two_checkpoints_of_a_folder_that_is_gone)

    def check(trial: Trial, where: str) -> None:
        spoke = trial.said("restored") or trial.said("failed") or trial.said("incomplete")
        assert spoke, f"{where}: no typed answer: {trial.status} {trial.lines}"
        assert_comes_back(stage, where, restored=trial.said("restored") is not None)

    sweep(injector, stage, "restore", {"ref": "first"}, blow=blow, check=check, points=16)


def test_an_interrupted_restore_is_settled_although_the_folder_went_meanwhile(
    injector: Injector, stage: Stage
) -> None:
    """T7, T12a: else nothing could be done about either."""
    stage.prepare(two_checkpoints)
    order = {"workspace": str(stage.workspace), "store": str(stage.store), "ref": "first"}
    clean = injector.run("restore", order, roots=stage.roots, blow=Blow(), traced=True)
    middle = next(number for number, line in enumerate(clean.trace.splitlines(), 1) if " renameat " in line)
    stage.reset()
    injector.run("restore", order, roots=stage.roots, blow=Blow(middle + 1))
    shutil.rmtree(stage.workspace)
    with opened(stage) as workspace:
        assert workspace.status().state == "interrupted"
        with pytest.raises(Busy):
            workspace.restore("first")
        workspace.recover()
    assert_comes_back(stage, "after that", restored=False)
