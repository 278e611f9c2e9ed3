"""A purge that is killed or failed at any call (rule S5)."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.injector import Blow, Injector, Trial
from faults.scenes import assert_answered, assert_collected, listed, opened
from faults.stage import Stage, fill
from faults.sweep import STOPPED, sweep
from lastgood.errors import Storage
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


def _lose_catalogue(stage: Stage, *, files: str = "catalogue.sqlite3*") -> None:
    """Have the list of checkpoints be rebuilt from its backup and what is stored."""
    for path in stage.store.glob(files):
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


def _failing(hits: Callable[[int], bool]) -> Callable[..., None]:
    """Return an `os.unlink` to which the disk refuses some of the packs that are to go, by their order."""
    unlink, met = os.unlink, 0

    def failing(path: str | bytes, **options: int) -> None:
        nonlocal met
        if os.fsencode(path).endswith(b".pack") and b"/objects/pack/" in os.fsencode(path):
            met += 1
            if hits(met):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        unlink(path, **options)

    return failing


def _packs(stage: Stage) -> set[Path]:
    folder = stage.store / "objects.git" / "objects" / "pack"
    return {path for path in folder.iterdir() if path.suffix in {".pack", ".idx", ".removed"}}


def _assert_purged(stage: Stage) -> None:
    """Every pack is one that readers see, and none of them has the keys."""
    stems = {path.with_suffix("") for path in _packs(stage)}
    assert _packs(stage) == {stem.with_suffix(suffix) for stem in stems for suffix in (".pack", ".idx")}
    with opened(stage) as workspace:
        assert workspace.plan_purge("key").again
        report = workspace.verify(deep=True)
        assert report.ok, report
        assert report.unreferenced_bytes == 0
        for number in range(5):
            assert b"key" not in {one.path for one in workspace.entries(f"n{number}")}


@pytest.mark.parametrize("files", ["catalogue.sqlite3*", "catalogue.*"], ids=["catalogue", "backups-too"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_pack_that_the_disk_keeps_once_is_gone_when_a_purge_says_so(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, number: int, files: str
) -> None:
    """S5: nor do its commits come back with the catalogue, without what the other packs held."""
    stage.prepare(_five)
    stage.reset("template")
    with opened(stage) as workspace, monkeypatch.context() as failing:
        failing.setattr(os, "unlink", _failing(lambda met: met == number))
        workspace.purge("key")
    _assert_purged(stage)
    _lose_catalogue(stage, files=files)
    _assert_purged(stage)


@pytest.mark.parametrize("kept", [{1}, {2}, {3}, {1, 2, 3}], ids=["first", "second", "third", "all"])
def test_a_purge_that_cannot_remove_a_pack_fails_and_leaves_nothing_that_comes_back(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, kept: set[int]
) -> None:
    """S5: not by a repair, nor with the catalogue and its backups lost; called again it ends."""
    stage.prepare(_five)
    stage.reset("template")
    with opened(stage) as workspace, monkeypatch.context() as failing:
        # The second time is that of the sweep's end, which meets what is left alone.
        failing.setattr(os, "unlink", _failing(lambda met: met in kept or met > 3))
        with pytest.raises(Storage):
            workspace.purge("key")
    assert any(path.suffix == ".removed" for path in _packs(stage))
    _lose_catalogue(stage, files="catalogue.*")
    with opened(stage) as workspace:
        assert workspace.verify().ok
        assert [len(workspace.list()), workspace.plan_purge("key").again] == [5, True]
        workspace.maintain()
        workspace.purge("key")
    _assert_purged(stage)
