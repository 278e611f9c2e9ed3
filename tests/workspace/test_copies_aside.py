"""What is written aside: to the disk if it stays, and no further than memory if it goes again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lastgood.workspace import Workspace


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Write down the paths that are carried through to the disk."""
    paths: list[str] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    return paths


@pytest.fixture
def saved(workspace: Workspace, project: Path) -> str:
    """A checkpoint that the workspace has left behind."""
    for number in range(10):
        (project / f"d{number}").mkdir()
        (project / f"d{number}" / "file").write_text(f"one {number}")
    saved = workspace.save("one").checkpoint.id
    (project / "d1" / "file").write_text("two")
    return saved


def below(paths: list[str], folder: Path) -> list[str]:
    """Return the paths in a folder; what is synced before it gets its last name counts as well."""
    return [path for path in paths if path.startswith(f"{folder}/")]


def test_the_copy_that_a_check_is_made_in_is_not_synced(
    workspace: Workspace, saved: str, store: Path, synced: list[str]
) -> None:
    report = workspace.check(saved, ["true"])
    assert (report.good, report.aside) == (True, True)
    assert below(synced, store / "tmp") == []


def test_the_copy_of_a_deep_verification_is_not_synced(
    workspace: Workspace, saved: str, store: Path, synced: list[str]
) -> None:
    report = workspace.verify(saved, deep=True)
    assert report.ok
    assert below(synced, store / "tmp") == []


def test_a_restore_into_a_folder_is_synced(
    workspace: Workspace, saved: str, tmp_path: Path, synced: list[str]
) -> None:
    """T11: it is the user's, and stays."""
    folder = tmp_path / "copy"
    workspace.restore(saved, to=folder)
    assert len(below(synced, folder)) >= 20


def test_a_trial_restore_that_comes_out_wrong_is_told(
    workspace: Workspace, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K4: though every object is sound."""
    (project / "tool").write_text("one")
    (project / "tool").chmod(0o755)
    saved = workspace.save("one").checkpoint
    with monkeypatch.context() as patch:
        patch.setattr(os, "fchmod", lambda *_at: None)  # a file system without permissions
        before = os.umask(0o111)
        try:
            report = workspace.verify(saved.id, deep=True)
        finally:
            os.umask(before)
    assert [(one.id, one.files) for one in report.damaged] == [(saved.id, (b"tool",))]
