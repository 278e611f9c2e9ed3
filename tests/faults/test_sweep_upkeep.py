"""What changes the store alone, killed or failed at any call: delete, maintain, repair (K3, K4)."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

import lastgood
from faults.clocks import DAY, ShiftedClock
from faults.injector import Blow, Injector, Trial
from faults.scenes import (
    assert_answered,
    assert_collected,
    assert_holds,
    assert_unharmed,
    listed,
    opened,
    two_checkpoints,
)
from faults.stage import Stage, Tree, alter, differences, fill, tree_of
from faults.sweep import STOPPED, sweep

pytestmark = pytest.mark.faults


@STOPPED
def test_a_delete_stopped_at_any_call_is_done_or_not_done(
    injector: Injector, stage: Stage, blow: Blow
) -> None:
    stage.prepare(two_checkpoints)
    second, first = listed(stage)

    def check(trial: Trial, where: str) -> None:
        assert_answered(trial, "deleted", where)
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


@STOPPED
def test_maintenance_stopped_at_any_call_loses_nothing_and_runs_again(
    injector: Injector, stage: Stage, blow: Blow
) -> None:
    stage.prepare(_many_packs, once=True)
    earlier = listed(stage)

    def check(trial: Trial, where: str) -> None:
        assert_answered(trial, "maintained", where)
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


def _lost_index(stage: Stage) -> None:
    """Lose the index of one pack."""
    min((stage.store / "objects.git").rglob("*.idx")).unlink()


def _containers(stage: Stage) -> None:
    """Flip a bit of one pack's trailer, append a byte to the other: every object of both can be read."""
    one, two = sorted((stage.store / "objects.git").rglob("*.pack"))
    content = one.read_bytes()
    one.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    two.write_bytes(two.read_bytes() + b"x")


def _small_files(stage: Stage) -> None:
    """Lose or alter each small file, and lose the catalogue, whose copy lies beside it."""
    for name in ("machine", "objects.git/HEAD", "catalogue.sqlite3"):
        (stage.store / name).unlink()
    (stage.store / "format").write_bytes(b"{")
    (stage.store / "objects.git" / "config").write_bytes(b"")


def _backed_up(stage: Stage) -> None:
    two_checkpoints(stage)
    with opened(stage) as workspace:
        workspace.maintain()


WOUNDS = {"a lost index": _lost_index, "damaged ends of packs": _containers, "small files": _small_files}


@pytest.mark.parametrize("wound", WOUNDS.values(), ids=WOUNDS.keys())
@STOPPED
def test_a_repair_stopped_at_any_call_removes_nothing_readable(
    injector: Injector, stage: Stage, blow: Blow, wound: Callable[[Stage], None]
) -> None:
    stage.prepare(_backed_up)
    earlier = listed(stage)
    states = {ref: stage.folder / f"{ref} state" for ref in ("first", "second")}
    for ref, folder in states.items():
        shutil.rmtree(folder, ignore_errors=True)
        with opened(stage) as workspace:
            workspace.restore(ref, to=folder)
    trees = {ref: tree_of(folder) for ref, folder in states.items()}
    wound(stage)
    stage.keep("wounded")

    def check(trial: Trial, where: str) -> None:
        assert_answered(trial, "verified", where)
        if trial.said("verified"):
            assert trial.said("verified") == "True", where
        if wound is _containers:
            _assert_readable(stage, trees, where)
        with lastgood.open(
            stage.workspace, store=stage.store, maintenance="off", allow_root=True, repair=True
        ) as workspace:
            report = workspace.verify(repair=True)
            assert report.ok, f"{where}: {report}"
            assert workspace.verify(repair=True).repaired == (), where
        _assert_readable(stage, trees, where)
        assert_unharmed(stage, earlier, where)
        assert_collected(stage, where)

    sweep(injector, stage, "verify", {"repair": True}, blow=blow, check=check, points=9, state="wounded")


def _assert_readable(stage: Stage, trees: dict[str, Tree], where: str) -> None:
    """Each checkpoint can be had back, its hash proven: whatever was set aside so far."""
    aside = stage.folder / "live" / "aside"
    for ref, tree in trees.items():
        with opened(stage) as workspace:
            workspace.restore(ref, to=aside)
        found = tree_of(aside)
        assert found == tree, f"{where}: {ref}\n{differences(found, tree)}"
        shutil.rmtree(aside)
