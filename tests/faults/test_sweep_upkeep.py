"""What changes the store alone, killed or failed at any call: delete, maintain, repair (K3, K4)."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

import lastgood
from faults.clocks import DAY, ShiftedClock
from faults.injector import Blow, Mode
from faults.scenes import (
    assert_collected,
    assert_holds,
    assert_unharmed,
    listed,
    opened,
    two_checkpoints,
)
from faults.stage import alter, fill
from faults.sweep import sweep

if TYPE_CHECKING:
    from faults.injector import Injector, Trial
    from faults.stage import Stage

pytestmark = pytest.mark.faults

BLOWS = [Blow(), Blow(mode=Mode.FAIL, error=errno.EIO), Blow(mode=Mode.FAIL_FROM, error=errno.ENOSPC)]
NAMES = ["killed", "bad-disk", "full"]


@pytest.mark.parametrize("blow", BLOWS, ids=NAMES)
def test_a_delete_stopped_at_any_call_is_done_or_not_done(
    injector: Injector, stage: Stage, blow: Blow
) -> None:
    stage.prepare(two_checkpoints)
    second, first = listed(stage)

    def check(trial: Trial, where: str) -> None:
        _assert_typed(trial, "deleted", where)
        ids = listed(stage)
        assert ids in {(second,), (second, first)}, where
        if trial.said("deleted"):
            assert ids == (second,), where
        if ids == (second,):
            with opened(stage) as workspace:
                workspace.undo()
        assert listed(stage) == (second, first), where
        assert_unharmed(stage, (second, first), where)

    sweep(injector, stage, "delete", {"refs": ["first"]}, blow=blow, check=check, points=16)


def _many_packs(stage: Stage) -> None:
    """Build 66 checkpoints, a third of them deleted three days ago, and one left-over of a killed save."""
    fill(stage.workspace)
    past = ShiftedClock(-3 * DAY)
    with lastgood.open(
        stage.workspace, store=stage.store, maintenance="off", allow_root=True, clock=past
    ) as workspace:
        for number in range(66):
            (stage.workspace / "README.md").write_text(f"# state {number}\n")
            workspace.save(f"state {number}", name=f"n{number}")
        workspace.delete(*(f"n{number}" for number in range(0, 66, 3)))
    alter(stage.workspace)


@pytest.mark.parametrize("blow", BLOWS, ids=NAMES)
def test_maintenance_stopped_at_any_call_loses_nothing_and_runs_again(
    injector: Injector, stage: Stage, blow: Blow
) -> None:
    stage.prepare(_many_packs)
    earlier = listed(stage)

    def check(trial: Trial, where: str) -> None:
        _assert_typed(trial, "maintained", where)
        with opened(stage) as workspace:
            assert workspace.verify().ok, where
            assert tuple(one.id for one in workspace.list()) == earlier, where
            # An object may have been freed that a scan cache still believes in (invariant 4).
            before = stage.tree()
            saved = workspace.save("the next save", allow_empty=True)
            assert_holds(stage, workspace, saved.checkpoint.id, before, where)
            workspace.maintain()
            assert workspace.verify().ok, where
            for ref in ("n1", "n32", "n65"):
                assert workspace.read(ref, "README.md") == f"# state {ref[1:]}\n".encode(), where
        assert_collected(stage, where)

    sweep(injector, stage, "maintain", {}, blow=blow, check=check, points=20)


def _damaged(stage: Stage) -> None:
    """Build two checkpoints, and lose the index of one pack."""
    two_checkpoints(stage)
    packs = sorted((stage.store / "objects.git").rglob("*.idx"))
    packs[0].unlink()


@pytest.mark.parametrize("blow", BLOWS, ids=NAMES)
def test_a_repair_stopped_at_any_call_removes_nothing_good(
    injector: Injector, stage: Stage, blow: Blow
) -> None:
    stage.prepare(_damaged)
    earlier = _ids_after_repair(stage)
    stage.reset()

    def check(trial: Trial, where: str) -> None:
        _assert_typed(trial, "verified", where)
        if trial.said("verified"):
            assert trial.said("verified") == "True", where
        with opened(stage) as workspace:
            report = workspace.verify(repair=True)
            assert report.ok, f"{where}: {report}"
        assert_unharmed(stage, earlier, where)
        assert_collected(stage, where)

    sweep(injector, stage, "verify", {"repair": True}, blow=blow, check=check, points=20)


def _ids_after_repair(stage: Stage) -> tuple[str, ...]:
    with opened(stage) as workspace:
        assert workspace.verify(repair=True).ok
        return tuple(one.id for one in workspace.list())


def _assert_typed(trial: Trial, word: str, where: str) -> None:
    spoke = trial.killed or trial.said(word) is not None or trial.said("failed") is not None
    assert spoke, f"{where}: no typed answer: {trial.status} {trial.lines}"
