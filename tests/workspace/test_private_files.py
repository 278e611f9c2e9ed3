"""Files that git ignores and people write by hand: held, brought back where missing, private (rule S5)."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from lastgood.errors import Unsafe
from lastgood.ids import short
from lastgood.model.checkpoint import SaveReport
from lastgood.settings import CaptureSettings, Settings
from lastgood.workspace import Workspace

Open = Callable[..., Workspace]


@pytest.fixture
def secretive(project: Path) -> Path:
    """Return the project with a key that git ignores, and an ordinary file."""
    (project / ".gitignore").write_text(".env\n*.log\n")
    (project / ".env").write_text("KEY=first\n")
    (project / "app.py").write_text("one\n")
    return project


def kept(report_files: object) -> dict[bytes, str | None]:
    return {one.path: one.reason for one in report_files if one.result == "kept"}  # type: ignore[attr-defined]


def test_a_whole_restore_brings_a_missing_key_back(secretive: Path, workspace: Workspace) -> None:
    """S5."""
    workspace.save("before")
    (secretive / ".env").unlink()
    assert workspace.restore("@").complete
    assert (secretive / ".env").read_text() == "KEY=first\n"


def test_a_whole_restore_keeps_and_names_a_key_that_is_another_one_now(
    secretive: Path, workspace: Workspace
) -> None:
    """S5, T10: it was rotated, and the old one opens nothing."""
    before = workspace.save("before").checkpoint
    (secretive / ".env").write_text("KEY=rotated\n")
    (secretive / "app.py").write_text("two\n")
    report = workspace.restore(before.id)
    assert report.complete
    assert (secretive / ".env").read_text() == "KEY=rotated\n"
    assert (secretive / "app.py").read_text() == "one\n"
    assert kept(report.outcomes) == {b".env": "private, and differs: give its path to restore it"}


def test_so_it_does_below_a_path_that_was_given(secretive: Path, workspace: Workspace) -> None:
    """S5: only its own path means it."""
    (secretive / "sub").mkdir()
    (secretive / "sub" / ".env").write_text("KEY=first\n")
    before = workspace.save("before").checkpoint
    (secretive / "sub" / ".env").write_text("KEY=rotated\n")
    workspace.restore(before.id, paths=["sub"])
    assert (secretive / "sub" / ".env").read_text() == "KEY=rotated\n"


def test_a_key_whose_path_is_given_is_restored_and_the_undo_brings_the_other_back(
    secretive: Path, workspace: Workspace
) -> None:
    """S5, T8."""
    before = workspace.save("before").checkpoint
    (secretive / ".env").write_text("KEY=rotated\n")
    workspace.restore(before.id, paths=[".env"])
    assert (secretive / ".env").read_text() == "KEY=first\n"
    workspace.undo()
    assert (secretive / ".env").read_text() == "KEY=rotated\n"


def test_a_merge_keeps_a_key_that_differs_too(secretive: Path, workspace: Workspace) -> None:
    """S5, T17: although it is as the base has it."""
    first = workspace.save("first").checkpoint
    (secretive / ".env").write_text("KEY=rotated\n")
    (secretive / "app.py").write_text("two\n")
    workspace.save("second")
    report = workspace.restore(first.id, merge=True)
    assert (secretive / ".env").read_text() == "KEY=rotated\n"
    assert (secretive / "app.py").read_text() == "one\n"
    assert b".env" in kept(report.outcomes)


def conflicting(secretive: Path, workspace: Workspace, path: str = ".env") -> str:
    """Change a private file after a checkpoint, and again after the next; return the first one's id."""
    key = secretive / path
    key.parent.mkdir(exist_ok=True)
    key.write_text("KEY=first\n")
    first = workspace.save("first").checkpoint.id
    key.write_text("KEY=second\n")
    workspace.save("second")
    key.write_text("KEY=third\n")
    return first


def test_a_merge_puts_no_copy_of_a_private_file_beside_it(secretive: Path, workspace: Workspace) -> None:
    """S5, T17: git would not ignore the copy, and the next save would hold it like any file."""
    first = conflicting(secretive, workspace)
    before = {one.name for one in secretive.iterdir()}
    report = workspace.restore(first, merge=True)
    assert kept(report.outcomes) == {b".env": "private, and differs: give its path to restore it"}
    assert report.complete
    assert report.conflicts == ()
    assert {one.name for one in secretive.iterdir()} == before
    assert (secretive / ".env").read_text() == "KEY=third\n"


@pytest.mark.parametrize("favour", [None, "markers"])
def test_nor_where_its_path_is_given(
    secretive: Path, workspace: Workspace, favour: Literal["markers"] | None
) -> None:
    """S5, T17: the conflict is told, and how to see what was there then."""
    first = conflicting(secretive, workspace)
    (secretive / ".env").write_bytes(b"\0third")
    before = {one.name for one in secretive.iterdir()}
    report = workspace.restore(first, paths=[".env"], merge=True, conflict=favour)
    assert report.conflicts == (b".env",)
    shown = f"lastgood cat {short(first)} .env --private"
    assert [one.reason for one in report.omissions] == [
        f"conflict: private, so no copy lies beside it: {shown}"
    ]
    assert {one.name for one in secretive.iterdir()} == before


def test_nor_where_it_is_gone(secretive: Path, workspace: Workspace) -> None:
    """S5, T17."""
    first = conflicting(secretive, workspace)
    (secretive / ".env").unlink()
    before = {one.name for one in secretive.iterdir()}
    report = workspace.restore(first, merge=True)
    assert report.conflicts == (b".env",)
    assert not report.complete
    assert {one.name for one in secretive.iterdir()} == before


def test_nor_of_a_folder_that_holds_one(secretive: Path, workspace: Workspace) -> None:
    """S5, T17: what ignores it may name the folder."""
    (secretive / ".gitignore").write_text("/sub/.env\n")
    first = conflicting(secretive, workspace, "sub/.env")
    (secretive / "sub" / ".env").unlink()
    (secretive / "sub").rmdir()
    (secretive / "sub").write_text("a file\n")
    before = {one.name for one in secretive.iterdir()}
    report = workspace.restore(first, merge=True)
    assert report.conflicts == (b"sub",)
    [told] = [one.reason or "" for one in report.omissions]
    assert told.startswith("conflict: holds private files, so no copy lies beside it: lastgood restore ckpt_")
    assert {one.name for one in secretive.iterdir()} == before


def test_nor_by_an_undo_that_keeps_what_changed_since(secretive: Path, workspace: Workspace) -> None:
    """S5, T8, T17."""
    first = conflicting(secretive, workspace)
    workspace.restore(first, paths=[".env"])
    (secretive / ".env").write_text("KEY=fourth\n")
    before = {one.name for one in secretive.iterdir()}
    report = workspace.undo(merge=True)
    [told] = [one.reason or "" for one in report.omissions]
    assert told.startswith("conflict: private, so no copy lies beside it: lastgood cat ckpt_")
    assert {one.name for one in secretive.iterdir()} == before
    assert (secretive / ".env").read_text() == "KEY=fourth\n"


def test_a_key_that_came_after_the_checkpoint_is_never_deleted(secretive: Path, workspace: Workspace) -> None:
    """T4, S5."""
    (secretive / ".env").unlink()
    before = workspace.save("before").checkpoint
    (secretive / ".env").write_text("KEY=new\n")
    workspace.save("after")
    assert kept(workspace.restore(before.id).outcomes) == {b".env": "ignored"}
    assert (secretive / ".env").read_text() == "KEY=new\n"


def test_what_is_configured_to_be_captured_is_restored_like_any_file(secretive: Path, opened: Open) -> None:
    """S5."""
    workspace = opened(settings=Settings(capture=CaptureSettings(include=(".env",))))
    before = workspace.save("before").checkpoint
    (secretive / ".env").write_text("KEY=rotated\n")
    workspace.restore(before.id)
    assert (secretive / ".env").read_text() == "KEY=first\n"


def test_an_ordinary_file_of_such_a_name_is_restored_like_any_file(
    project: Path, workspace: Workspace
) -> None:
    """S5: where nothing ignores it, it is not private."""
    (project / ".env.example").write_text("KEY=\n")
    before = workspace.save("before").checkpoint
    (project / ".env.example").write_text("KEY=other\n")
    workspace.restore(before.id)
    assert (project / ".env.example").read_text() == "KEY=\n"


def test_a_patch_names_a_private_file_and_shows_it_only_if_asked_to(
    secretive: Path, workspace: Workspace
) -> None:
    """S5."""
    before = workspace.save("before").checkpoint
    (secretive / ".env").write_text("KEY=rotated\n")
    (secretive / "app.py").write_text("two\n")
    for report in (
        workspace.diff(before.id),
        workspace.diff(before.id, workspace.save("after").checkpoint.id),
    ):
        assert [(one.path, one.private) for one in report.files] == [(b".env", True), (b"app.py", False)]
        assert b"KEY" not in (report.patch or b"")
        assert b"# a/.env and b/.env differ: private\n" in (report.patch or b"")
        assert b"+two" in (report.patch or b"")
    shown = workspace.diff(before.id, private=True)
    assert b"-KEY=first\n+KEY=rotated\n" in (shown.patch or b"")
    assert not any(one.private for one in shown.files)


def test_a_private_file_is_refused_where_only_others_are_asked_for(
    secretive: Path, workspace: Workspace
) -> None:
    """S5."""
    workspace.save("before")
    with pytest.raises(Unsafe, match="is private") as refused:
        workspace.read("@", ".env", private=False)
    assert "KEY" not in str(refused.value)
    assert workspace.read("@", ".env") == b"KEY=first\n"
    assert workspace.read("@", "app.py", private=False) == b"one\n"


def test_ordinary_files_that_a_restore_and_its_undo_touched_leave_with_an_export(
    secretive: Path, workspace: Workspace, tmp_path: Path
) -> None:
    """S5, S17: the guards hold them because no save had, and that makes nothing private."""
    workspace.save("before")
    (secretive / "app.py").write_text("two\n")
    (secretive / "new.py").write_text("new\n")
    workspace.restore("@")
    workspace.undo()
    report = workspace.export(tmp_path / "out.tar")
    assert {path for one in report.withheld for path in one.paths} == {b".env"}
    assert tarfile.is_tarfile(tmp_path / "out.tar")


def notes(report: SaveReport) -> dict[str, str]:
    return {note.code: note.message for note in report.notes}


def test_a_save_says_once_what_it_holds_although_git_ignores_it(
    secretive: Path, workspace: Workspace
) -> None:
    """S5."""
    said = notes(workspace.save("one"))
    assert said == {"private-files": "also saved, privately, though git ignores it: .env"}
    (secretive / "app.py").write_text("two\n")
    assert notes(workspace.save("two")) == {}
    (secretive / ".npmrc").write_text("token\n")
    (secretive / ".gitignore").write_text(".env\n.npmrc\n")
    assert notes(workspace.save("three"))["private-files"].endswith(": .npmrc")
