"""What undo, redo and merges owe when a part cannot come back or a path is limited (rules K1, T8, T17)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.errors import Unsafe
from lastgood.workspace import Workspace

Git = Callable[..., str]


@pytest.fixture
def realigned(workspace: Workspace, project: Path, git: Git) -> Path:
    """Return a project that was just restored with HEAD and index, from contents that were staged alone."""
    git(project, "init", "-q")
    file = project / "file"
    file.write_text("target\n")
    git(project, "add", "file")
    target = workspace.save("target").checkpoint
    file.write_text("staged alone\n")
    git(project, "add", "file")
    file.write_text("later\n")
    workspace.restore(target.id, only=["files", "git"])
    return project


def test_an_undo_refuses_while_git_has_lost_what_was_staged(
    workspace: Workspace, realigned: Path, git: Git
) -> None:
    """T8: and it says how to undo all the same."""
    git(realigned, "prune", "--expire=now")

    with pytest.raises(Unsafe) as raised:
        workspace.undo()

    assert "undo --force" in (raised.value.hint or "")
    assert (realigned / "file").read_text() == "target\n"


@pytest.mark.parametrize("way", ["force", "merge"])
def test_files_come_back_although_git_has_lost_what_was_staged(
    workspace: Workspace, realigned: Path, git: Git, way: str
) -> None:
    """T8: HEAD and index stay, and the report says why."""
    git(realigned, "prune", "--expire=now")

    report = workspace.undo(force=way == "force", merge=way == "merge")

    assert (realigned / "file").read_text() == "later\n"
    assert [(part.scope, part.result) for part in report.parts] == [("git", "kept")]


def test_files_come_back_by_force_although_the_repository_is_gone(
    workspace: Workspace, realigned: Path
) -> None:
    """T8: what can be taken back is."""
    shutil.rmtree(realigned / ".git")

    report = workspace.undo(force=True)

    assert (realigned / "file").read_text() == "later\n"
    assert [(part.scope, part.result) for part in report.parts] == [("git", "kept")]


@pytest.mark.parametrize("mark", ["name", "pin"])
def test_a_prune_done_again_spares_what_was_marked_since(
    workspace: Workspace, project: Path, mark: str
) -> None:
    """K1: named and pinned checkpoints stay for ever."""
    made = []
    for text in ("one", "two", "three"):
        (project / "file").write_text(text)
        made.append(workspace.save(text).checkpoint.id)
    workspace.prune(keep=1)
    workspace.undo()
    if mark == "name":
        workspace.name(made[0], "precious")
    else:
        workspace.pin(made[0])

    workspace.redo()

    assert {one.id for one in workspace.list()} == {made[0], made[2]}


def test_a_folder_is_put_beside_a_conflict_once(workspace: Workspace, project: Path) -> None:
    """T17: the same merge again finds it there."""
    (project / "place").mkdir()
    (project / "place" / "inside").write_text("target\n")
    target = workspace.save("target").checkpoint
    shutil.rmtree(project / "place")
    (project / "place").write_text("base\n")
    workspace.save("base")
    (project / "place").write_text("mine\n")
    workspace.restore(target.id, merge=True)
    names = sorted(os.listdir(project))

    workspace.restore(target.id, merge=True)

    assert sorted(os.listdir(project)) == names


def test_a_merge_of_a_path_lists_the_conflict_above_it(workspace: Workspace, project: Path) -> None:
    """T17: a file where there is a folder by now, which was changed."""
    (project / "place").write_text("a file\n")
    target = workspace.save("target").checkpoint
    os.unlink(project / "place")
    (project / "place").mkdir()
    (project / "place" / "inside").write_text("base\n")
    workspace.save("base")
    (project / "place" / "inside").write_text("mine\n")

    report = workspace.restore(target.id, paths=["place/inside"], merge=True)

    assert (b"place", "skipped", "conflict") in {
        (one.path, one.result, one.reason) for one in report.outcomes
    }
    assert not report.complete
