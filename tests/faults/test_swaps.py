"""A link put in the way while a restore runs (rule T12)."""

from __future__ import annotations

import shutil

import pytest

from faults.cli import Bench
from faults.injector import Blow, Injector, Mode, Trial
from faults.stage import tree_of
from lastgood.directories import MOST_OPEN
from lastgood.workspace import Workspace
from tools.long_form import LONG


@pytest.mark.parametrize("at", range(1, 40, 3))
def test_a_directory_turned_into_a_link_at_any_moment_of_a_restore_leads_nowhere(
    injector: Injector, workspace: Workspace, bench: Bench, at: int
) -> None:
    outside = bench.home / "outside"
    outside.mkdir()
    inner = bench.workspace / "inner"
    (inner / "deep").mkdir(parents=True)
    for folder in (inner, inner / "deep"):
        for number in range(3):
            (folder / f"f{number}").write_text(f"old {number}\n")
    before = workspace.save("old").checkpoint
    for folder in (inner, inner / "deep"):
        for number in range(3):
            (folder / f"f{number}").write_text(f"new {number}\n")
        (folder / "added").write_text("added\n")
    order = {"workspace": str(bench.workspace), "store": str(bench.store), "ref": before.id}
    injector.start("restore", order, roots=(bench.workspace,), blow=Blow(at, Mode.PAUSE))
    if not injector.paused():
        injector.finish()
        return
    inner.rename(bench.home / "moved")
    inner.symlink_to(outside)
    injector.go_on()
    trial = injector.finish()
    assert not trial.killed
    assert trial.said("escaped") is None, trial.lines
    assert tree_of(outside) == {}
    inner.unlink()
    (bench.home / "moved").rename(inner)
    workspace.recover()
    workspace.restore(before.id)
    assert (inner / "deep" / "f1").read_text() == "old 1\n"


@pytest.mark.parametrize("name", ["inner", "inner/deep", "inner/20"])
def test_a_directory_moved_away_at_any_moment_of_the_restore_that_makes_it_gets_its_permissions(
    injector: Injector, workspace: Workspace, bench: Bench, name: str
) -> None:
    """Nobody comes back to it: also where more are made than stay open at once."""
    inner, wanted, moved = bench.workspace / "inner", bench.workspace / name, bench.home / "moved"
    for below in ("deep/er", "empty", *map(str, range(MOST_OPEN + 2))):
        (inner / below).mkdir(parents=True)
    for folder in (inner, *inner.rglob("*")):
        folder.chmod(0o750)
    for folder in (inner, inner / "deep", inner / "20"):
        (folder / "file").write_text("kept\n")
    before = workspace.save("with the folder").checkpoint
    order = {"workspace": str(bench.workspace), "store": str(bench.store), "ref": before.id}

    def restored(blow: Blow) -> Trial:
        shutil.rmtree(inner, ignore_errors=True)
        shutil.rmtree(moved, ignore_errors=True)
        injector.start("restore", order, roots=(bench.workspace,), blow=blow)
        if injector.paused():
            if wanted.is_dir():
                wanted.rename(moved)
            injector.go_on()
        return injector.finish()

    calls = restored(Blow()).calls
    met = 0
    for at in range(1, calls + 1, 1 if LONG else calls // 10):
        trial = restored(Blow(at, Mode.PAUSE))
        assert not trial.killed
        assert trial.said("escaped") is None, trial.lines
        made = [one for one in (moved, *moved.rglob("*")) if one.is_dir()]
        assert {one.stat().st_mode & 0o7777 for one in made} <= {0o750}, trial.hit
        met += bool(made)
    assert met > 5
