"""Rules S4, S12, S18: what the project's repository says, read without running anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lastgood.ignore import Unreadable
from lastgood.model.checkpoint import GitState
from lastgood.project_git import find, nested_head, outer_rules, state
from project_git.projects import Project, make_project
from tools.values import not_none


def said(root: bytes) -> GitState:
    found = not_none(find(root))
    return state(found)


def test_a_folder_without_repository_belongs_to_none(tmp_path: Path) -> None:
    assert find(os.fsencode(tmp_path)) is None


def test_a_folder_that_is_not_there_belongs_to_none(tmp_path: Path) -> None:
    assert find(os.fsencode(tmp_path / "gone")) is None


def test_an_unborn_branch_has_a_name_and_no_commit(project: Project) -> None:
    assert (said(project.root).head, said(project.root).branch) == (None, "main")


def test_a_branch_with_commits_has_both(project: Project) -> None:
    commit = project.commit()
    assert (said(project.root).head, said(project.root).branch) == (commit, "main")


def test_a_packed_branch_is_found(project: Project) -> None:
    commit = project.commit()
    project.git("branch", "remain")
    project.git("pack-refs", "--all")
    assert said(project.root).head == commit


def test_a_branch_whose_name_ends_like_another_is_not_mixed_up(project: Project) -> None:
    project.commit("a")
    project.git("branch", "x/main")
    commit = project.commit("b")
    project.git("pack-refs", "--all")
    assert said(project.root).head == commit


def test_a_branch_with_a_name_that_is_no_utf_8_survives(project: Project) -> None:
    project.commit()
    subprocess.run([b"git", b"checkout", b"-q", b"-b", b"b\xff"], cwd=project.root, check=True)
    assert said(project.root).branch == "b\udcff"


def test_a_detached_head_has_no_branch(project: Project) -> None:
    commit = project.commit()
    project.git("checkout", "-q", "--detach")
    assert (said(project.root).head, said(project.root).branch) == (commit, None)


def test_a_symbolic_ref_to_a_symbolic_ref_is_followed(project: Project) -> None:
    commit = project.commit()
    project.git("symbolic-ref", "refs/heads/alias", "refs/heads/main")
    project.git("symbolic-ref", "HEAD", "refs/heads/alias")
    assert said(project.root).head == commit


def test_symbolic_refs_that_go_in_circles_end(project: Project) -> None:
    project.write(".git/refs/heads/a", b"ref: refs/heads/b\n")
    project.write(".git/refs/heads/b", b"ref: refs/heads/a\n")
    project.write(".git/HEAD", b"ref: refs/heads/a\n")
    assert said(project.root).head is None


def test_a_ref_cannot_lead_out_of_the_repository(project: Project) -> None:
    project.write("outside", b"1" * 40 + b"\n")
    project.write(".git/HEAD", b"ref: refs/../../outside\n")
    assert said(project.root).head is None


@pytest.mark.parametrize("text", [b"", b"\n", b"ref: ", b"ref: x\0y", b"\xff" * 9000, b"g" * 40, b"1" * 39])
def test_a_damaged_head_is_no_commit(project: Project, text: bytes) -> None:
    project.write(".git/HEAD", text)
    assert said(project.root).head is None


def test_refs_in_a_reftable_are_not_guessed_at(project: Project) -> None:
    project.commit()
    (project.path / ".git/reftable").mkdir()
    assert (said(project.root).head, said(project.root).branch) == (None, None)


def test_a_sha_256_repository_has_long_commits(tmp_path: Path) -> None:
    project = make_project(tmp_path / "long", "--object-format=sha256")
    assert said(project.root).head is None
    commit = project.commit()
    assert len(commit) == 64
    assert said(project.root).head == commit


def test_a_worktree_has_its_own_head_and_the_shared_exclude_file(project: Project, tmp_path: Path) -> None:
    commit = project.commit()
    project.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    project.commit("later")
    project.write(".git/info/exclude", b"secret\n")
    found = not_none(find(os.fsencode(tmp_path / "tree")))
    assert (state(found).head, state(found).branch) == (commit, "other")
    assert outer_rules(found) == b"secret\n"


def test_a_submodule_has_its_own_head(project: Project, tmp_path: Path) -> None:
    inner = make_project(tmp_path / "inner")
    commit = inner.commit()
    project.commit()
    project.git("submodule", "--quiet", "add", str(inner.path), "sub")
    assert (project.path / "sub/.git").is_file()
    assert nested_head(project.root + b"/sub") == commit


def test_a_plain_folder_is_no_nested_repository(project: Project) -> None:
    project.commit("folder/file")
    assert nested_head(project.root + b"/folder") is None


def diverge(project: Project) -> None:
    project.commit("file", b"base\n")
    project.git("checkout", "-q", "-b", "side")
    project.commit("file", b"side\n")
    project.git("checkout", "-q", "main")
    project.commit("file", b"main\n")


@pytest.mark.parametrize(
    ("begin", "operation"),
    [
        (["merge", "side"], "merge"),
        (["rebase", "side"], "rebase"),
        (["rebase", "--apply", "side"], "rebase"),
        (["cherry-pick", "side"], "cherry-pick"),
        (["revert", "HEAD~1"], "revert"),
    ],
)
def test_an_operation_that_stopped_at_a_conflict_is_under_way(
    project: Project, begin: list[str], operation: str
) -> None:
    diverge(project)
    assert said(project.root).operation is None
    project.git(*begin, fails=True)
    assert said(project.root).operation == operation


def test_a_series_is_under_way_between_its_commits(project: Project) -> None:
    diverge(project)
    project.git("cherry-pick", "side~1", "side", fails=True)
    project.git("reset", "-q", "--hard")
    assert said(project.root).operation == "cherry-pick"


def test_a_bisection_is_under_way_until_reset(project: Project) -> None:
    project.commit()
    project.git("bisect", "start")
    assert said(project.root).operation == "bisect"
    project.git("bisect", "reset")
    assert said(project.root).operation is None


def test_the_repository_of_a_folder_above_is_found_with_the_way_to_it(project: Project) -> None:
    project.commit("packages/foo/file")
    found = not_none(find(project.root + b"/packages/foo"))
    assert (found.top, found.prefix) == (project.root, b"packages/foo")


def test_an_empty_git_folder_is_no_repository_and_hides_none(project: Project) -> None:
    project.write("inner/.git/nothing")
    found = not_none(find(project.root + b"/inner"))
    assert found.top == project.root


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user's files")
def test_the_repository_of_another_user_above_does_not_count(project: Project) -> None:
    project.write("mine/file")
    os.chown(project.path / ".git", 12345, 12345)
    assert find(project.root + b"/mine") is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"gitdir: ",
        b"gitdir: .git\n",
        b"gitdir: nowhere\n",
        b"gitdir: a\0b\n",
        b"gitdir: " + b"x/" * 5000,
        b"gitdir: " + b"y" * 5000,
        b"gitdir: /dev/zero\n",
        b"gitdir: /\n",
        b"\xff\xfe",
        b"x" * 1_000_000,
    ],
    ids=range(11),
)
def test_a_hostile_git_file_is_no_repository(tmp_path: Path, text: bytes) -> None:
    (tmp_path / ".git").write_bytes(text)
    assert find(os.fsencode(tmp_path)) is None


def test_git_files_do_not_chain(project: Project, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/.git").write_bytes(b"gitdir: ../b/.git\n")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/.git").write_bytes(b"gitdir: " + project.root + b"/.git\n")
    assert find(os.fsencode(tmp_path / "a")) is None


def test_a_commondir_that_is_hostile_is_no_repository(project: Project) -> None:
    project.write(".git/commondir", b"/dev\n")
    assert find(project.root) is None


PIPES = [".git", ".git/HEAD", ".git/commondir", ".git/config", ".git/packed-refs", ".git/refs/heads/main"]


@pytest.mark.parametrize("name", PIPES)
def test_a_pipe_in_place_of_a_file_is_never_waited_for(project: Project, name: str) -> None:
    path = project.path / name
    if path.is_dir():
        path.rename(project.path / "aside")
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    found = find(project.root)
    if found is not None:
        assert state(found).head is None
    assert nested_head(project.root) is None


def test_a_pipe_in_place_of_the_exclude_file_makes_rules_unreadable(project: Project) -> None:
    exclude = project.path / ".git/info/exclude"
    exclude.unlink()
    found = not_none(find(project.root))
    assert outer_rules(found) is None
    os.mkfifo(exclude)
    assert isinstance(outer_rules(found), Unreadable)


def rules_of(root: bytes) -> bytes:
    found = not_none(find(root))
    text = outer_rules(found)
    assert isinstance(text, bytes)
    return text


def test_rules_above_the_workspace_bear_on_it(project: Project) -> None:
    project.write("a/b/file")
    project.write(".git/info/exclude", b"/a/b/one\n/elsewhere\n")
    project.write(".gitignore", b"*.log\na/**/two/\n/b\n")
    project.write("a/.gitignore", b"!x.log\n/b/three\n")
    assert rules_of(project.root + b"/a/b") == b"/one\n*.log\n/**/two/\n/two/\n!x.log\n/three\n"


def test_rules_above_that_ignore_the_workspace_itself_do_not_count(project: Project) -> None:
    project.write("work/file")
    project.write(".gitignore", b"*\n!/.profile\n")
    assert rules_of(project.root + b"/work") == b""


def test_unreadable_rules_above_make_the_rules_unreadable(project: Project) -> None:
    project.write("a/b/file")
    os.mkfifo(project.path / "a/.gitignore")
    found = not_none(find(project.root + b"/a/b"))
    assert isinstance(outer_rules(found), Unreadable)


def test_an_ignore_file_above_that_is_a_link_is_none(project: Project) -> None:
    project.write("a/file")
    project.write("rules", b"*.log\n")
    project.write(".git/info/exclude", b"")
    (project.path / ".gitignore").symlink_to("rules")
    assert rules_of(project.root + b"/a") == b""


def test_nothing_that_the_repository_names_is_run(project: Project, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    program = tmp_path / "program"
    program.write_text(f"#!{sys.executable}\nopen({str(canary)!r}, 'w')\n")
    program.chmod(0o755)
    project.commit()
    for key in ("core.fsmonitor", "core.sshCommand", "core.pager", "core.hooksPath", "alias.rev-list"):
        project.git("config", key, f"!{program}" if key.startswith("alias") else str(program))
    assert said(project.root).head is not None
    assert rules_of(project.root) is not None
    assert not canary.exists()
