"""Hazards that two near peers were probed for, and mostly failed."""

from __future__ import annotations

import os
import shutil

import pytest

from faults.cli import Bench, git
from faults.stage import tree_of
from faults.sweep import FULL
from lastgood.workspace import Workspace

DELETED = 60_000 if FULL else 3_000


def test_a_repository_cloned_after_the_checkpoint_keeps_its_history(
    workspace: Workspace, bench: Bench
) -> None:
    (bench.workspace / "file").write_text("1\n")
    before = workspace.save("before").checkpoint
    clone = bench.workspace / "clone"
    clone.mkdir()
    git(clone, "init", "-q")
    (clone / "work.py").write_text("work\n")
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "work")
    head = git(clone, "rev-parse", "HEAD")
    present = tree_of(bench.workspace)
    report = workspace.restore(before.id)
    assert git(clone, "rev-parse", "HEAD") == head
    assert git(clone, "cat-file", "-p", "HEAD:work.py") == "work"
    assert any(one.path == b"clone" or one.path.startswith(b"clone/") for one in report.outcomes)
    workspace.undo()
    assert tree_of(bench.workspace) == present


def test_an_edit_in_an_existing_nested_repository_is_taken_back(workspace: Workspace, bench: Bench) -> None:
    nested = bench.workspace / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "a").write_text("committed\n")
    git(nested, "add", ".")
    git(nested, "commit", "-qm", "one")
    before = workspace.save("before").checkpoint
    (nested / "a").write_text("edited\n")
    (nested / "b").write_text("new\n")
    workspace.restore(before.id)
    assert (nested / "a").read_text() == "committed\n"
    assert not (nested / "b").exists()
    assert git(nested, "status", "--porcelain") == ""


def test_a_file_ignored_then_and_not_now_is_kept(workspace: Workspace, bench: Bench) -> None:
    (bench.workspace / ".gitignore").write_text("data.csv\n")
    (bench.workspace / "data.csv").write_text("measured for weeks\n")
    before = workspace.save("ignored then").checkpoint
    (bench.workspace / ".gitignore").unlink()
    report = workspace.restore(before.id)
    assert (bench.workspace / "data.csv").read_text() == "measured for weeks\n"
    assert [one.result for one in report.outcomes if one.path == b"data.csv"] == ["kept"]


def test_a_file_ignored_now_and_not_then_is_kept(workspace: Workspace, bench: Bench) -> None:
    before = workspace.save("before", allow_empty=True).checkpoint
    (bench.workspace / "data.csv").write_text("measured for weeks\n")
    (bench.workspace / ".gitignore").write_text("data.csv\n")
    workspace.restore(before.id)
    assert (bench.workspace / "data.csv").read_text() == "measured for weeks\n"


def test_a_file_made_after_the_checkpoint_comes_back_by_undo(workspace: Workspace, bench: Bench) -> None:
    before = workspace.save("before", allow_empty=True).checkpoint
    (bench.workspace / "mine").write_text("a person's work\n")
    workspace.restore(before.id)
    assert not (bench.workspace / "mine").exists()
    workspace.undo()
    assert (bench.workspace / "mine").read_text() == "a person's work\n"
    workspace.redo()
    assert not (bench.workspace / "mine").exists()


def test_tens_of_thousands_of_deleted_files_come_back(workspace: Workspace, bench: Bench) -> None:
    for number in range(DELETED):
        folder = bench.workspace / f"folder-{number // 500}"
        folder.mkdir(exist_ok=True)
        (folder / f"a-long-name-to-fill-any-argument-list-{number}").write_text(f"{number}")
    before = workspace.save("all").checkpoint
    present = tree_of(bench.workspace)
    for folder in bench.workspace.iterdir():
        shutil.rmtree(folder)
    report = workspace.restore(before.id)
    assert not report.omissions
    assert tree_of(bench.workspace) == present


def test_a_file_that_became_a_directory_with_an_ignored_file_ends_in_no_error(
    workspace: Workspace, bench: Bench
) -> None:
    (bench.workspace / ".gitignore").write_text("*.log\n")
    (bench.workspace / "place").write_text("a file\n")
    (bench.workspace / "other").write_text("1\n")
    before = workspace.save("before").checkpoint
    (bench.workspace / "place").unlink()
    (bench.workspace / "place").mkdir()
    (bench.workspace / "place" / "x.log").write_text("ignored\n")
    (bench.workspace / "other").write_text("2\n")
    report = workspace.restore(before.id)
    assert (bench.workspace / "other").read_text() == "1\n"
    assert (bench.workspace / "place" / "x.log").read_text() == "ignored\n"
    named = {one.path: one for one in report.outcomes}
    assert named[b"place"].result in {"kept", "skipped"}
    assert named[b"place"].reason


def test_work_on_an_unborn_branch_is_saved_and_restored(workspace: Workspace, bench: Bench) -> None:
    git(bench.workspace, "init", "-q")
    (bench.workspace / "file").write_text("1\n")
    before = workspace.save("before").checkpoint
    assert before.manifest.git is not None
    assert before.manifest.git.head is None
    (bench.workspace / "file").write_text("2\n")
    workspace.restore(before.id)
    assert (bench.workspace / "file").read_text() == "1\n"


def test_a_head_that_moved_stays_and_is_reported(workspace: Workspace, bench: Bench) -> None:
    git(bench.workspace, "init", "-q")
    (bench.workspace / "file").write_text("1\n")
    git(bench.workspace, "add", ".")
    git(bench.workspace, "commit", "-qm", "one")
    before = workspace.save("before").checkpoint
    for text in ("2\n", "3\n"):
        (bench.workspace / "file").write_text(text)
        git(bench.workspace, "commit", "-qam", text.strip())
    (bench.workspace / "staged").write_text("staged\n")
    git(bench.workspace, "add", "staged")
    head, index = git(bench.workspace, "rev-parse", "HEAD"), (bench.workspace / ".git" / "index").read_bytes()
    report = workspace.restore(before.id)
    assert report.head_moved is not None
    assert (report.head_moved.commits, report.head_moved.to) == (2, head)
    assert git(bench.workspace, "rev-parse", "HEAD") == head
    assert git(bench.workspace, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert (bench.workspace / ".git" / "index").read_bytes() == index
    assert (bench.workspace / "file").read_text() == "1\n"


@pytest.mark.parametrize(
    "attribute", ["eol=lf", "eol=crlf", "text", "ident", "filter=upper", "working-tree-encoding=UTF-16"]
)
def test_attributes_and_filters_change_no_byte(workspace: Workspace, bench: Bench, attribute: str) -> None:
    git(bench.workspace, "init", "-q")
    git(bench.workspace, "config", "filter.upper.clean", "tr a-z A-Z")
    git(bench.workspace, "config", "filter.upper.smudge", "tr A-Z a-z")
    (bench.workspace / ".gitattributes").write_text(f"* {attribute}\n")
    content = b"Mixed Case\r\nand \n ends $Id$\r\n"
    (bench.workspace / "file").write_bytes(content)
    before = workspace.save("before").checkpoint
    assert workspace.read(before.id, "file") == content
    (bench.workspace / "file").unlink()
    workspace.restore(before.id)
    assert (bench.workspace / "file").read_bytes() == content


def test_a_sparse_file_and_an_empty_file_come_back_whole(workspace: Workspace, bench: Bench) -> None:
    sparse = bench.workspace / "sparse"
    with sparse.open("wb") as file:
        file.truncate(3_000_000)
        file.seek(2_000_000)
        file.write(b"middle")
    (bench.workspace / "empty").write_bytes(b"")
    content = sparse.read_bytes()
    before = workspace.save("before").checkpoint
    sparse.unlink()
    os.unlink(bench.workspace / "empty")
    workspace.restore(before.id)
    assert sparse.read_bytes() == content
    assert (bench.workspace / "empty").read_bytes() == b""
