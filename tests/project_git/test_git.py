"""Rule T9: by how many commits HEAD has moved, without a setting of the project having a say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lastgood.project_git import find, history
from lastgood.project_git.history import SealedGit
from lastgood.project_git.query import Asker
from project_git.projects import ENVIRONMENT, Project, make_project
from tools.values import not_none


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for git as long as a busy machine takes."""
    monkeypatch.setattr(history, "_PATIENCE_SECONDS", 600.0)


@pytest.fixture
def ours(tmp_path: Path) -> bytes:
    path = tmp_path / "objects.git"
    subprocess.run(["git", "init", "-q", "--bare", path], env=ENVIRONMENT, check=True)
    return os.fsencode(path)


@pytest.fixture
def git(ours: bytes) -> SealedGit:
    return SealedGit(ours, search_path=os.fsencode(ENVIRONMENT["PATH"]))


def test_head_is_the_commit(git: SealedGit, project: Project) -> None:
    assert not_none(git.state(project.root)).head is None
    commit = project.commit()
    assert not_none(git.state(project.root)).head == commit


def test_new_commits_are_counted(git: SealedGit, project: Project) -> None:
    old = project.commit("a")
    project.commit("b")
    assert git.commits_between(project.root, old, project.commit("c")) == 2


def test_commits_that_head_left_are_counted_when_it_went_back(git: SealedGit, project: Project) -> None:
    new = project.commit("a")
    project.commit("b")
    assert git.commits_between(project.root, project.commit("c"), new) == 2


def test_of_two_branches_the_new_commits_are_counted(git: SealedGit, project: Project) -> None:
    project.commit("base")
    project.git("branch", "side")
    old = project.commit("a")
    project.commit("b")
    project.git("checkout", "-q", "side")
    assert git.commits_between(project.root, old, project.commit("c")) == 1


def test_no_move_is_none(git: SealedGit, project: Project) -> None:
    commit = project.commit()
    assert git.commits_between(project.root, commit, commit) == 0


@pytest.mark.parametrize("old", ["1" * 40, "--all", "HEAD", "", "-" * 40, "g" * 40, "1" * 64])
def test_what_is_no_commit_of_the_project_cannot_be_told(git: SealedGit, project: Project, old: str) -> None:
    assert git.commits_between(project.root, old, project.commit()) is None


def test_without_git_it_cannot_be_told(ours: bytes, project: Project, tmp_path: Path) -> None:
    blind = SealedGit(ours, search_path=os.fsencode(tmp_path))
    assert blind.commits_between(project.root, project.commit("a"), project.commit("b")) is None


def test_without_our_repository_it_cannot_be_told(project: Project, tmp_path: Path) -> None:
    homeless = SealedGit(os.fsencode(tmp_path / "gone"), search_path=os.fsencode(ENVIRONMENT["PATH"]))
    assert homeless.commits_between(project.root, project.commit("a"), project.commit("b")) is None


def test_without_a_project_it_cannot_be_told(git: SealedGit, tmp_path: Path) -> None:
    assert git.commits_between(os.fsencode(tmp_path), "1" * 40, "2" * 40) is None
    assert git.state(os.fsencode(tmp_path)) is None


def test_commits_of_sha_256_cannot_be_told(git: SealedGit, tmp_path: Path) -> None:
    project = make_project(tmp_path / "long", "--object-format=sha256")
    assert git.commits_between(project.root, project.commit("a"), project.commit("b")) is None


def test_a_shallow_clone_counts_what_it_has(git: SealedGit, project: Project, tmp_path: Path) -> None:
    project.commit("a")
    old = project.commit("b")
    new = project.commit("c")
    url = f"file://{project.path}"
    project.git("clone", "-q", "--depth", "2", url, str(tmp_path / "shallow"))
    assert git.commits_between(os.fsencode(tmp_path / "shallow"), old, new) == 1


def test_a_merge_counts_with_all_that_it_brought(git: SealedGit, project: Project) -> None:
    old = project.commit("a")
    project.git("checkout", "-q", "-b", "side")
    project.commit("b")
    project.commit("c")
    project.git("checkout", "-q", "main")
    project.commit("d")
    project.git("merge", "-q", "--no-edit", "side")
    assert git.commits_between(project.root, old, project.git("rev-parse", "HEAD")) == 4


def test_a_commit_that_is_gone_cannot_be_told(git: SealedGit, project: Project) -> None:
    project.commit("a")
    project.git("checkout", "-q", "--detach")
    lost = project.commit("b")
    project.git("checkout", "-q", "main")
    project.git("reflog", "expire", "--expire=now", "--all")
    project.git("gc", "-q", "--prune=now")
    assert git.commits_between(project.root, lost, project.commit("c")) is None


def test_where_a_shallow_history_ends_in_between_it_cannot_be_told(
    git: SealedGit, project: Project, tmp_path: Path
) -> None:
    old = project.commit("a")
    url = f"file://{project.path}"
    shallow = tmp_path / "shallow"
    project.git("clone", "-q", "--depth", "1", url, str(shallow))
    for name in "bcd":
        new = project.commit(name)
    project.git("-C", str(shallow), "fetch", "-q", "--depth", "1", "origin", "main")
    assert git.commits_between(os.fsencode(shallow), old, new) is None


def test_a_git_that_does_not_end_is_not_waited_for(ours: bytes, project: Project, tmp_path: Path) -> None:
    old, new = project.commit("a"), project.commit("b")
    (project.path / ".git" / "objects" / "info").mkdir(exist_ok=True)
    os.mkfifo(project.path / ".git" / "objects" / "info" / "alternates")
    asker = Asker(ours, search_path=os.fsencode(ENVIRONMENT["PATH"]), folder=os.fsencode(tmp_path))
    found = not_none(find(project.root))
    question = [b"rev-list", b"--count", f"{old}...{new}".encode(), b"--"]
    assert asker.ask(found, question, patience=0.05) is None


def test_no_setting_of_the_project_has_a_say_and_nothing_is_written(
    git: SealedGit, project: Project, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    program = tmp_path / "program"
    program.write_text(f"#!{sys.executable}\nopen({str(canary)!r}, 'w')\n")
    program.chmod(0o755)
    old, new = project.commit("a"), project.commit("b")
    for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "core.alternateRefsCommand"):
        project.git("config", key, str(program))
    project.git("config", "alias.rev-list", f"!{program}")
    project.git("config", "remote.origin.url", f"ext::{program}")
    project.git("config", "remote.origin.promisor", "true")
    project.git("config", "extensions.partialClone", "origin")
    before = sorted(path for path in project.path.rglob("*"))
    assert git.commits_between(project.root, old, new) == 1
    assert git.commits_between(project.root, "1" * 40, new) is None
    assert sorted(path for path in project.path.rglob("*")) == before
    assert not canary.exists()
