"""undo --force where a path became another kind: what is in its way goes, the guard holds it (rule T8)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from lastgood.errors import Conflict, Unsafe
from lastgood.model.report import UndoReport
from lastgood.workspace import Workspace
from tools.values import not_none


@pytest.fixture
def restored(workspace: Workspace, project: Path) -> Path:
    """Restore one state over another that has a file deep down and one at the top."""
    deep = project / "d" / "deep"
    deep.mkdir(parents=True)
    deep.chmod(0o750)
    (project / "p").write_text("one")
    (deep / "x").write_text("one")
    saved = workspace.save("one").checkpoint
    (project / "p").write_text("two")
    (deep / "x").write_text("two")
    workspace.restore(saved.id)
    return project


def texts(project: Path) -> dict[str, str]:
    return {os.path.relpath(path, project): path.read_text() for path in project.rglob("*") if path.is_file()}


def left(report: UndoReport) -> dict[bytes, str | None]:
    return {one.path: one.reason for one in report.outcomes if one.result not in {"restored", "removed"}}


TWO = {"p": "two", "d/deep/x": "two"}


def test_a_file_in_the_place_of_a_directory_gives_way(workspace: Workspace, restored: Path) -> None:
    """T5, T8: and comes back out of the guard."""
    shutil.rmtree(restored / "d")
    (restored / "d").write_text("in the way")
    with pytest.raises(Conflict):
        workspace.undo()

    report = workspace.undo(force=True)

    assert left(report) == {}
    assert texts(restored) == TWO
    assert (restored / "d" / "deep").stat().st_mode & 0o777 == 0o750
    assert workspace.read(not_none(report.guard), "d") == b"in the way"


def test_an_ignored_file_in_the_place_of_a_directory_gives_way(workspace: Workspace, restored: Path) -> None:
    """T2, T8: the guard holds it although it is ignored."""
    shutil.rmtree(restored / "d")
    (restored / ".gitignore").write_text("d\n")
    (restored / "d").write_text("ignored")

    report = workspace.undo(force=True)

    assert left(report) == {}
    assert (restored / "d" / "deep" / "x").read_text() == "two"
    assert workspace.read(not_none(report.guard), "d") == b"ignored"


def test_a_directory_that_is_gone_is_made_again(workspace: Workspace, restored: Path) -> None:
    """T8."""
    shutil.rmtree(restored / "d")

    report = workspace.undo(force=True)

    assert left(report) == {}
    assert texts(restored) == TWO
    assert (restored / "d" / "deep").stat().st_mode & 0o777 == 0o750


def test_a_directory_in_the_place_of_a_file_gives_way(workspace: Workspace, restored: Path) -> None:
    """T5, T8."""
    (restored / "p").unlink()
    (restored / "p" / "below").mkdir(parents=True)
    (restored / "p" / "below" / "new").write_text("in the way")

    report = workspace.undo(force=True)

    assert left(report) == {}
    assert texts(restored) == TWO
    assert workspace.read(not_none(report.guard), "p/below/new") == b"in the way"


@pytest.mark.parametrize("precious", ["it.log", "repository/.git/HEAD"])
def test_a_directory_that_holds_what_stays_does_not_give_way(
    workspace: Workspace, restored: Path, precious: str
) -> None:
    """T4 beats T8: nothing ignored and no repository is taken away; the path is named."""
    (restored / ".gitignore").write_text("*.log\n")
    (restored / "p").unlink()
    kept = restored / "p" / precious
    kept.parent.mkdir(parents=True)
    kept.write_text("precious")

    report = workspace.undo(force=True)

    assert kept.read_text() == "precious"
    assert (restored / "d" / "deep" / "x").read_text() == "two"
    reason = not_none(left(report)[b"p"])
    assert "a directory is in the way" in reason


def test_what_no_guard_can_hold_does_not_give_way(workspace: Workspace, restored: Path) -> None:
    """T2: a pipe cannot be copied."""
    shutil.rmtree(restored / "d")
    os.mkfifo(restored / "d")

    with pytest.raises(Unsafe, match="could not be copied"):
        workspace.undo(force=True)

    assert texts(restored) == {"p": "one"}


def test_a_redo_by_force_makes_way_too(workspace: Workspace, restored: Path) -> None:
    """T8."""
    workspace.undo()
    assert texts(restored) == TWO
    shutil.rmtree(restored / "d")
    (restored / "d").write_text("in the way")
    (restored / "p").unlink()
    (restored / "p").mkdir()
    (restored / "p" / "new").write_text("in the way")

    report = workspace.redo(force=True)

    assert left(report) == {}
    assert texts(restored) == {"p": "one", "d/deep/x": "one"}


def test_the_undo_by_force_itself_can_be_brought_again_by_force(workspace: Workspace, restored: Path) -> None:
    """T8: undo and redo stay in step."""
    shutil.rmtree(restored / "d")
    (restored / "d").write_text("in the way")
    workspace.undo(force=True)

    workspace.redo()

    assert texts(restored) == {"p": "one", "d/deep/x": "one"}
