"""A purge that is killed or failed at any call (rule S5)."""

from __future__ import annotations

import pytest

from faults.injector import Blow, Injector, Trial
from faults.scenes import assert_answered, assert_collected, listed, opened
from faults.stage import Stage, fill
from faults.sweep import STOPPED, sweep
from lastgood.workspace import Workspace
from tools.command import module

pytestmark = pytest.mark.faults


def _five(stage: Stage) -> None:
    """Build five checkpoints, of which the last three hold two keys."""
    fill(stage.workspace)
    with opened(stage) as workspace:
        for number in range(5):
            (stage.workspace / "README.md").write_text(f"# state {number}\n" * 200)
            if number > 1:
                (stage.workspace / "key").write_text(f"secret {number // 2}\n")
            workspace.save(f"state {number}", name=f"n{number}")
        workspace.maintain()


def _others(workspace: Workspace, ref: str) -> dict[bytes, bytes]:
    """Read all files of a checkpoint but the keys."""
    files = (one.path for one in workspace.entries(ref) if one.kind == "file" and one.path != b"key")
    return {path: workspace.read(ref, path) for path in files}


def _lose_catalogue(stage: Stage) -> None:
    """Have the list of checkpoints be rebuilt from its backup and what is stored."""
    for path in stage.store.glob("catalogue.sqlite3*"):
        path.unlink()
    repaired = module(stage.workspace, stage.store, "verify", "--repair", "--allow-root")
    assert repaired.returncode == 0, repaired.stdout + repaired.stderr


@STOPPED
def test_a_purge_stopped_at_any_call_leaves_every_checkpoint_readable_and_ends_when_it_is_called_again(
    injector: Injector, stage: Stage, blow: Blow
) -> None:
    """S5: as it was, or without what was to go."""
    stage.prepare(_five)
    earlier = listed(stage)
    with opened(stage) as workspace:
        others = [_others(workspace, f"n{number}") for number in range(5)]

    def check(trial: Trial, where: str) -> None:
        assert_answered(trial, "purged", where)
        assert listed(stage) == earlier, where
        with opened(stage) as workspace:
            assert workspace.verify().ok, where
            for number in range(5):
                assert workspace.read(f"n{number}", "README.md").startswith(f"# state {number}\n".encode())
        _lose_catalogue(stage)
        with opened(stage) as workspace:
            assert workspace.verify().ok, where
            for number in range(5):
                assert _others(workspace, f"n{number}") == others[number], where
            if trial.said("purged"):
                assert workspace.plan_purge("key").again, where
            workspace.purge("key")
            assert workspace.plan_purge("key").again, where
            assert workspace.verify(deep=True).ok, where
            assert workspace.save("the next save").created, where
            assert workspace.read("@", "key") == b"secret 2\n", where
        assert_collected(stage, where)

    sweep(injector, stage, "purge", {"path": "key"}, blow=blow, check=check, points=16)
