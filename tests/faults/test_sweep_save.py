"""A save that is killed or failed at any call (rules S13, S14, S16)."""

from __future__ import annotations

import pytest

from faults.injector import Blow, Injector, Trial
from faults.scenes import assert_collected, assert_unharmed, listed, opened, two_checkpoints
from faults.stage import Stage, fill
from faults.sweep import FAILED, sweep

pytestmark = pytest.mark.faults

WHOLE_OR_IN_PARTS = pytest.mark.parametrize("verb", ["save", "save in parts"])


def test_a_save_killed_at_any_call_loses_nothing_and_blocks_nothing(injector: Injector, stage: Stage) -> None:
    stage.prepare(two_checkpoints)
    earlier = listed(stage)

    def check(trial: Trial, where: str) -> None:
        saved = trial.said("saved")
        assert trial.killed or saved, f"{where}: {trial.lines}"
        if saved:
            assert saved in listed(stage), where
        assert_unharmed(stage, earlier, where)
        assert_collected(stage, where)

    sweep(injector, stage, "save", {}, blow=Blow(), check=check, points=80)


@WHOLE_OR_IN_PARTS
def test_the_very_first_save_can_be_killed_at_any_call(injector: Injector, stage: Stage, verb: str) -> None:
    stage.prepare(lambda stage: fill(stage.workspace))

    def check(trial: Trial, where: str) -> None:
        saved = trial.said("saved")
        assert trial.killed or saved, f"{where}: {trial.lines}"
        assert_unharmed(stage, (saved,) if saved else (), where)
        assert_collected(stage, where)

    sweep(injector, stage, verb, {}, blow=Blow(), check=check, points=40)


@FAILED
def test_a_save_failed_at_any_call_says_so_and_leaves_no_checkpoint(
    injector: Injector, stage: Stage, blow: Blow
) -> None:
    stage.prepare(two_checkpoints)
    earlier = listed(stage)

    def check(trial: Trial, where: str) -> None:
        _assert_honest(stage, trial, earlier, where)
        assert_unharmed(stage, earlier, where)

    sweep(injector, stage, "save", {}, blow=blow, check=check, points=24)


@WHOLE_OR_IN_PARTS
@FAILED
def test_the_very_first_save_failed_at_any_call_says_so(
    injector: Injector, stage: Stage, blow: Blow, verb: str
) -> None:
    stage.prepare(lambda stage: fill(stage.workspace))

    def check(trial: Trial, where: str) -> None:
        _assert_honest(stage, trial, (), where)
        assert_unharmed(stage, (), where)

    sweep(injector, stage, verb, {}, blow=blow, check=check, points=24)


def _assert_honest(stage: Stage, trial: Trial, earlier: tuple[str, ...], where: str) -> None:
    saved = trial.said("saved")
    if trial.status == 0:
        assert saved in listed(stage), f"{where}: said saved, is not there"
        return
    assert trial.said("failed"), f"{where}: no typed error: {trial.status} {trial.lines}"
    with opened(stage) as workspace:
        ids = tuple(one.id for one in workspace.list())
    assert ids == earlier, f"{where}: said failed, and left a checkpoint"
