"""A restore, an undo and a recovery that are killed or failed at any call (rules T2, T5, T7, T8)."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from faults.injector import Blow, Mode
from faults.scenes import assert_nothing_lost, assert_settled, opened, target_of, two_checkpoints
from faults.stage import differences
from faults.sweep import sweep

if TYPE_CHECKING:
    from faults.injector import Injector, Trial
    from faults.stage import Stage

pytestmark = pytest.mark.faults

FAILURES = [
    Blow(mode=Mode.FAIL, error=errno.ENOSPC),
    Blow(mode=Mode.FAIL, error=errno.EIO),
    Blow(mode=Mode.FAIL_FROM, error=errno.ENOSPC),
    Blow(mode=Mode.SHORT),
]


def test_a_restore_killed_at_any_call_is_finished_or_taken_back(injector: Injector, stage: Stage) -> None:
    stage.prepare(two_checkpoints)
    start, target = stage.tree(), target_of(stage)

    def check(trial: Trial, where: str) -> None:
        assert trial.killed or trial.said("restored"), f"{where}: {trial.lines}"
        assert_nothing_lost(stage, start, where)
        assert_settled(stage, trial, where, start=start, target=target)
        assert_nothing_lost(stage, start, where)

    sweep(injector, stage, "restore", {"ref": "first"}, blow=Blow(), check=check, points=50)


@pytest.mark.parametrize("blow", FAILURES, ids=["full-once", "bad-disk", "full", "short"])
def test_a_restore_failed_at_any_call_is_finished_or_taken_back(
    injector: Injector, stage: Stage, blow: Blow
) -> None:
    stage.prepare(two_checkpoints)
    start, target = stage.tree(), target_of(stage)

    def check(trial: Trial, where: str) -> None:
        spoke = trial.said("restored") or trial.said("failed") or trial.said("incomplete")
        assert spoke, f"{where}: no typed answer: {trial.status} {trial.lines}"
        assert_nothing_lost(stage, start, where)
        assert_settled(stage, trial, where, start=start, target=target)

    sweep(injector, stage, "restore", {"ref": "first"}, blow=blow, check=check, points=30)


def test_an_undo_killed_at_any_call_is_finished_or_taken_back(injector: Injector, stage: Stage) -> None:
    stage.prepare(two_checkpoints)
    target = stage.tree()
    with opened(stage) as workspace:
        workspace.restore("first")
    stage.keep()
    start = stage.tree()

    def check(trial: Trial, where: str) -> None:
        assert trial.killed or trial.said("undone"), f"{where}: {trial.lines}"
        assert_nothing_lost(stage, start, where)
        with opened(stage) as workspace:
            if workspace.status().state == "interrupted":
                stage.keep("interrupted")
                workspace.recover(roll_back=True)
                assert stage.tree() == start, f"{where}: {differences(stage.tree(), start)}"
        if (stage.folder / "interrupted").exists() and trial.killed and stage.tree() == start:
            stage.reset("interrupted")
        with opened(stage) as workspace:
            workspace.recover()
            present = stage.tree()
            assert present in (start, target), f"{where}: {differences(present, target)}"
            workspace.redo() if present == target else workspace.undo()
            wanted = start if present == target else target
            assert stage.tree() == wanted, f"{where}: {differences(stage.tree(), wanted)}"

    sweep(injector, stage, "undo", {}, blow=Blow(), check=check, points=30)


@pytest.mark.parametrize("roll_back", [False, True], ids=["forward", "back"])
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
            workspace.recover(roll_back=roll_back)
            wanted = start if roll_back else target
            assert stage.tree() == wanted, f"{where}: {differences(stage.tree(), wanted)}"
            if not roll_back:
                workspace.undo()
                assert stage.tree() == start, f"{where}: {differences(stage.tree(), start)}"
            assert workspace.verify().ok, where

    sweep(injector, stage, "recover", {"roll_back": roll_back}, blow=Blow(), check=check, points=24)
