"""What is not held is said: at save, in status, and by a restore that misses it (rules S5, T12a)."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.model.report import NotHeld, RestoreReport
from lastgood.workspace import Workspace


def written(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("content\n")


@pytest.fixture
def built(project: Path) -> Path:
    """Return the project with a few files, and what is built of them and ignored."""
    written(project, "src/a.c", "src/b.c", "README", "build/a.o", "build/deep/b.o", "src/.venv/bin/python")
    written(project, "src/a.o", "notes.log", "Makefile", "src/main.c", "src/util.c")
    (project / ".gitignore").write_text("build/\n*.o\n*.log\n")
    return project


def test_a_checkpoint_names_the_topmost_ignored_paths_the_nearest_first(
    built: Path, workspace: Workspace
) -> None:
    """S5."""
    for message in ("first", "second"):
        manifest = workspace.save(message).checkpoint.manifest
        assert manifest.ignored_paths == (b"build/", b"notes.log", b"src/.venv/", b"src/a.o")
        assert manifest.ignored == 4
        written(built, "more")


def test_a_folder_that_is_ignored_but_for_some_of_it_is_named_by_what_is_left_out(
    built: Path, workspace: Workspace, git: Callable[..., str]
) -> None:
    """S5: what the index holds is held."""
    git(built, "init", "-q")
    git(built, "add", "-f", "build/a.o")
    manifest = workspace.save("first").checkpoint.manifest
    assert manifest.ignored_paths == (b"notes.log", b"build/deep/", b"src/.venv/", b"src/a.o")
    assert manifest.ignored == 4


def test_no_more_than_a_hundred_are_named_and_all_are_counted(project: Path, workspace: Workspace) -> None:
    """S5."""
    written(project, *(f"{folder}/{number}.o" for folder in "ab" for number in range(80)), "c/d/x.o", "top.o")
    written(project, *(f"{number}.c" for number in range(200)))
    (project / ".gitignore").write_text("*.o\n")
    manifest = workspace.save("first").checkpoint.manifest
    assert (len(manifest.ignored_paths), manifest.ignored) == (100, 162)
    assert manifest.ignored_paths[0] == b"top.o"
    assert b"c/d/x.o" not in manifest.ignored_paths


def test_a_save_says_first_that_rules_leave_out_most_of_the_folder(
    project: Path, workspace: Workspace
) -> None:
    """S5: one line in one file is enough for that."""
    written(project, "README", "drivers/a.c", "fs/b.c", "mm/c.c", ".venv/bin/python")
    (project / ".gitignore").write_text("/*\n!.gitignore\n")
    (note,) = workspace.save("first").notes
    assert note.code == "mostly-ignored"
    assert note.message == (
        "rules leave out most of this folder: 5 ignored entries are not held (drivers/, fs/, mm/, README),"
        " 1 file is"
    )


def test_how_many_more_are_left_out_counts_those_that_no_checkpoint_names(
    project: Path, workspace: Workspace
) -> None:
    """S5: a checkpoint names the first hundred of them."""
    written(project, *(f"{number:03}.o" for number in range(150)), "app.c")
    (project / ".gitignore").write_text("*.o\n")
    (note,) = workspace.save("first").notes
    assert "150 ignored entries are not held" in note.message
    assert "004.o and 145 more)" in note.message


def test_what_is_always_left_out_is_no_reason_to_say_so(project: Path, workspace: Workspace) -> None:
    """S6."""
    written(project, "app.py", "__pycache__/app.pyc", ".venv/bin/python", "node_modules/a/b")
    assert workspace.save("first").notes == ()


def missed(report: RestoreReport) -> list[NotHeld]:
    return list(report.not_held)


def test_a_restore_says_what_was_there_then_and_cannot_be_brought_back(
    built: Path, workspace: Workspace
) -> None:
    """S5."""
    workspace.save("first")
    shutil.rmtree(built / "build")
    (built / "src" / "a.o").unlink()
    (built / "src" / "a.c").unlink()
    expected = [NotHeld(path=b"build", reason="ignored"), NotHeld(path=b"src/a.o", reason="ignored")]
    plan = workspace.plan_restore("@")
    assert missed(workspace.preview(plan)) == expected
    report = workspace.apply(plan)
    assert report.complete
    assert missed(report) == expected


def test_a_restore_of_some_paths_says_nothing_of_others(built: Path, workspace: Workspace) -> None:
    """S5."""
    workspace.save("first")
    shutil.rmtree(built / "build")
    (built / "src" / "a.c").unlink()
    assert workspace.restore("@", paths=["src/a.c"]).not_held == ()


def test_what_is_there_again_is_not_missed(built: Path, workspace: Workspace) -> None:
    """S5."""
    workspace.save("first")
    (built / "src" / "a.c").unlink()
    assert workspace.restore("@").not_held == ()


def test_status_counts_and_names_what_rules_leave_out(built: Path, workspace: Workspace) -> None:
    """S5."""
    assert workspace.status().ignored_count is None, "nobody looks before the first checkpoint"
    workspace.save("first")
    report = workspace.status()
    assert report.ignored_count == 4
    assert report.ignored == (b"build/", b"notes.log", b"src/.venv/", b"src/a.o")


@pytest.fixture
def nested(project: Path, git: Callable[..., str]) -> str:
    """Return the HEAD of a repository inside the project."""
    written(project, "vendor/lib/a.c", "README")
    lib = project / "vendor" / "lib"
    git(lib, "init", "-q")
    git(lib, "add", ".")
    git(lib, "commit", "-qm", "first")
    return git(lib, "rev-parse", "HEAD").strip()


@pytest.mark.usefixtures("nested")
def test_a_save_says_once_that_a_nested_repository_is_held_without_its_git(
    project: Path, workspace: Workspace
) -> None:
    """T12a."""
    (note,) = workspace.save("first").notes
    assert note.code == "nested-repository"
    assert note.message == "a repository of its own, held as files without its .git: vendor/lib"
    written(project, "README", "more")
    assert workspace.save("second").notes == ()


def test_a_restore_says_that_a_nested_repository_came_back_without_its_git(
    project: Path, workspace: Workspace, nested: str
) -> None:
    """T12a, S4."""
    workspace.save("first")
    shutil.rmtree(project / "vendor")
    report = workspace.restore("@")
    assert (project / "vendor/lib/a.c").exists()
    assert report.not_held == (NotHeld(path=b"vendor/lib/.git", reason="repository", head=nested),)


@pytest.fixture
def large(project: Path) -> Path:
    """Return a file of the project that is too large to be held."""
    written(project, "README", "data/small")
    path = project / "data" / "big.bin"
    path.touch()
    os.truncate(path, 33 << 20)
    return path


LACKING = NotHeld(path=b"data/big.bin", reason="too-large", size=33 << 20)


def test_a_restore_names_what_the_checkpoint_lists_as_missing_in_it(
    large: Path, workspace: Workspace
) -> None:
    """S7: nothing brings it back, so not all that was asked for was done."""
    workspace.save("first")
    large.unlink()
    plan = workspace.plan_restore("@")
    assert plan.empty
    assert missed(workspace.preview(plan)) == [LACKING]
    report = workspace.apply(plan)
    assert (missed(report), report.complete) == ([LACKING], False)


def test_a_large_file_that_is_there_still_is_not_missed(large: Path, workspace: Workspace) -> None:
    """S7."""
    workspace.save("first")
    (large.parent / "small").unlink()
    report = workspace.restore("@")
    assert (missed(report), report.complete) == ([], True)


def test_a_large_file_to_which_a_link_leads_elsewhere_is_missed(
    large: Path, workspace: Workspace, tmp_path: Path
) -> None:
    """S7: it is not in the workspace."""
    workspace.save("first")
    large.parent.rename(tmp_path / "elsewhere")
    large.parent.symlink_to(tmp_path / "elsewhere")
    assert missed(workspace.preview(workspace.plan_restore("@"))) == [LACKING]


def test_a_large_file_of_another_size_stays_and_is_told(large: Path, workspace: Workspace) -> None:
    """S7: what stays by a rule is no omission."""
    workspace.save("first")
    os.truncate(large, 34 << 20)
    report = workspace.restore("@")
    assert (missed(report), report.complete) == ([LACKING.replace(changed=True)], True)


def test_a_restore_of_a_folder_names_what_is_missing_below_it_alone(
    large: Path, workspace: Workspace
) -> None:
    """S7."""
    workspace.save("first")
    shutil.rmtree(large.parent)
    assert missed(workspace.restore("@", paths=["README"])) == []
    assert missed(workspace.restore("@", paths=["data"])) == [LACKING]


def test_a_large_file_that_is_named_is_told_once(large: Path, workspace: Workspace) -> None:
    """S7: as a path that was skipped."""
    workspace.save("first")
    large.unlink()
    report = workspace.restore("@", paths=["data/big.bin"])
    assert ([one.path for one in report.omissions], missed(report)) == ([LACKING.path], [])


def test_a_socket_that_is_gone_is_told_and_was_not_to_come_back(project: Path, workspace: Workspace) -> None:
    """S7: it holds nothing, and its program makes it anew."""
    os.mknod(project / "server.sock", stat.S_IFSOCK | 0o600)  # none is bound by a path of any length
    written(project, "a.txt")
    workspace.save("first")
    (project / "server.sock").unlink()
    (project / "a.txt").unlink()
    report = workspace.restore("@")
    assert missed(report) == [NotHeld(path=b"server.sock", reason="unsupported")]
    assert report.complete


def test_a_folder_made_again_is_told_to_lack_the_large_file(large: Path, workspace: Workspace) -> None:
    """S7, T12a."""
    workspace.save("first")
    shutil.rmtree(large.parent.parent)
    report = workspace.restore("@")
    assert (report.folder_made, missed(report), report.complete) == (True, [LACKING], False)


@pytest.mark.usefixtures("large")
def test_a_restore_aside_names_what_the_checkpoint_lacks(tmp_path: Path, workspace: Workspace) -> None:
    """S7, T11: although it is there in the workspace."""
    workspace.save("first")
    report = workspace.restore("@", to=tmp_path / "aside")
    assert (missed(report), report.complete) == ([LACKING], False)


def test_a_rewind_names_what_the_checkpoint_lacks(large: Path, workspace: Workspace) -> None:
    """S7."""
    workspace.save("first")
    written(large.parent, "more")
    workspace.save("second")
    large.unlink()
    assert missed(workspace.rewind()) == [LACKING]


def test_a_rollback_names_what_the_checkpoint_lacks(large: Path, workspace: Workspace) -> None:
    """S7, P7b."""
    workspace.save("first")
    large.unlink()
    written(large.parent, "small")
    report = workspace.recover("@", roll_back=True)
    assert list(report.not_held) == [LACKING]
