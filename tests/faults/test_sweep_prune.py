"""A prune that is killed or failed at any call (rules K1, K3)."""

from __future__ import annotations

import pytest

from faults.injector import Blow, Injector, Trial
from faults.scenes import assert_answered, assert_collected, assert_holds, listed, opened
from faults.stage import Stage, alter, fill
from faults.sweep import STOPPED, sweep

pytestmark = pytest.mark.faults


def _eight(stage: Stage) -> None:
    """Build eight checkpoints, one of them named."""
    fill(stage.workspace)
    with opened(stage) as workspace:
        for number in range(7):
            (stage.workspace / "README.md").write_text(f"# state {number}\n" * 200)
            workspace.save(f"state {number}", name="n1" if number == 1 else None)
        alter(stage.workspace)
        workspace.save("last")


@STOPPED
@pytest.mark.parametrize("now", [False, True], ids=["later", "now"])
def test_a_prune_stopped_at_any_call_loses_nothing_that_stays_and_runs_again(
    injector: Injector, stage: Stage, blow: Blow, *, now: bool
) -> None:
    stage.prepare(_eight)
    earlier = listed(stage)
    stay = {earlier[0], earlier[6]}

    def check(trial: Trial, where: str) -> None:
        assert_answered(trial, "pruned", where)
        left = set(listed(stage))
        assert stay <= left, where
        assert left == stay or left == set(earlier), where
        if trial.said("pruned"):
            assert left == stay, where
        before = stage.tree()
        with opened(stage) as workspace:
            assert workspace.verify().ok, where
            if not now and left == stay:
                workspace.undo()
                assert set(listed(stage)) == set(earlier), where
            saved = workspace.save("the next save", allow_empty=True)
            assert_holds(stage, workspace, saved.checkpoint.id, before, where)
            workspace.prune(keep=2, now=True)
            assert {one.id for one in workspace.list()} - {saved.checkpoint.id} == stay, where
            assert workspace.read("n1", "README.md").startswith(b"# state 1\n"), where
        assert_collected(stage, where)

    sweep(injector, stage, "prune", {"asked": {"keep": 1, "now": now}}, blow=blow, check=check, points=16)
