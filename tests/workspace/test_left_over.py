"""What a killed save leaves is no damage, and what belongs to no checkpoint is counted (rules K3, K4)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import lastgood
from lastgood.testing.clock import FakeClock
from lastgood.workspace import Workspace

DAY = 24 * 3600


def test_a_pack_that_a_killed_save_left_is_no_damage(
    workspace: Workspace, project: Path, store: Path, killed: Callable[..., None]
) -> None:
    """S14, K4: killed between a pack and its index, nothing is wrong with the store."""
    (project / "file").write_text("one")
    saved = workspace.save("one").checkpoint
    (project / "file").write_text("two")
    killed(lambda: workspace.save("two"), event="os.rename", at=1, path="pack")
    folder = store / "objects.git" / "objects" / "pack"
    packs, indexes = ({path.stem for path in folder.glob(form)} for form in ("*.pack", "*.idx"))
    assert packs > indexes

    report = workspace.verify()

    assert (report.ok, report.faults, report.checkpoints) == (True, (), 1)
    assert workspace.verify(saved.id).ok
    assert workspace.save("two").created


def test_an_index_that_a_checkpoint_needs_is_missed(workspace: Workspace, project: Path, store: Path) -> None:
    """K4: what looks like the left-over of a save may be a loss."""
    (project / "file").write_text("one")
    workspace.save("one")
    for index in (store / "objects.git" / "objects" / "pack").glob("*.idx"):
        index.unlink()

    report = workspace.verify()

    assert not report.ok
    assert any(".idx" in fault for fault in report.faults)
    assert workspace.verify(repair=True).ok


def test_bytes_of_no_checkpoint_are_counted(workspace: Workspace, project: Path) -> None:
    """K5: as the document of a verify says."""
    (project / "file").write_bytes(bytes(range(256)) * 40)
    first = workspace.save("one").checkpoint
    (project / "file").write_text("two")
    workspace.save("two")
    assert workspace.verify().unreferenced_bytes == 0

    workspace.delete(first.id)

    assert workspace.verify().unreferenced_bytes > 200


@pytest.mark.parametrize("now", [True, False])
def test_what_a_killed_save_left_is_seen_before_bytes_are_freed(
    project: Path, store: Path, killed: Callable[..., None], *, now: bool
) -> None:
    """K3, K4: a checkpoint that came without its index, and may be brought back, loses nothing to a sweep."""
    clock = FakeClock()
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as workspace:
        (project / "shared").write_text("shared")
        (project / "file").write_text("one")
        first = workspace.save("one").checkpoint
        (project / "file").write_text("two")
        killed(lambda: workspace.save("two"), event="os.rename", at=1, path="pack")
        (project / "shared").unlink()
        workspace.save("three")
        workspace.delete(first.id)

        if now:
            workspace.prune(now=True)
        clock.advance(2 * DAY)
        workspace.maintain()

        assert workspace.verify().ok
        assert workspace.verify(repair=True, deep=True).ok
