"""A link put in the way while a restore runs (rule T12)."""

from __future__ import annotations

import pytest

from faults.cli import Bench
from faults.injector import Blow, Injector, Mode
from faults.stage import tree_of
from lastgood.workspace import Workspace


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
