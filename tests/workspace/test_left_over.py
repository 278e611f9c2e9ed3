"""What a killed save leaves is no damage, and what belongs to no checkpoint is counted (rules K3, K4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lastgood.workspace import Workspace


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
