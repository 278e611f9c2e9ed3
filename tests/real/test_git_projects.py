"""Git projects in every state that people leave them in: restored as files, their repository untouched."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import lastgood
from tools.wreckage import picture, wreck

Git = Callable[..., str]

pytestmark = pytest.mark.real

CRLF_ATTRIBUTES = "*.txt text eol=crlf ident\n*.bin binary\n"


def fill(folder: Path) -> None:
    """Write some files of the kinds that git likes to convert."""
    folder.mkdir(exist_ok=True)
    (folder / "src").mkdir()
    (folder / "src" / "app.py").write_bytes(b"print('hello')\n")
    (folder / "src" / "run.sh").write_bytes(b"#!/bin/sh\nexit 0\n")
    (folder / "src" / "run.sh").chmod(0o755)
    (folder / "mixed.txt").write_bytes(b"one\r\ntwo\n$Id$\nthree\r")
    (folder / "pixels.bin").write_bytes(bytes(range(256)) * 40)
    (folder / "link").symlink_to("src/app.py")


def committed(folder: Path, git: Git) -> None:
    """Make a repository with one commit."""
    fill(folder)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")


def plain(folder: Path, git: Git) -> None:
    committed(folder, git)
    (folder / "src" / "app.py").write_bytes(b"print('not committed')\n")
    (folder / "untracked.py").write_bytes(b"new = True\n")
    git(folder, "add", "src/app.py")
    (folder / "src" / "app.py").write_bytes(b"print('not even staged')\n")


def no_commit_yet(folder: Path, git: Git) -> None:
    fill(folder)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "src")


def detached_head(folder: Path, git: Git) -> None:
    committed(folder, git)
    git(folder, "commit", "-q", "--allow-empty", "-m", "second")
    git(folder, "checkout", "-q", "--detach", "HEAD~1")


def merge_under_way(folder: Path, git: Git) -> None:
    committed(folder, git)
    git(folder, "checkout", "-q", "-b", "other")
    (folder / "src" / "app.py").write_bytes(b"print('theirs')\n")
    git(folder, "commit", "-q", "-a", "-m", "theirs")
    git(folder, "checkout", "-q", "main")
    (folder / "src" / "app.py").write_bytes(b"print('ours')\n")
    git(folder, "commit", "-q", "-a", "-m", "ours")
    merged = subprocess.run(["git", "merge", "-q", "other"], cwd=folder, capture_output=True, check=False)
    assert merged.returncode == 1
    assert (folder / ".git" / "MERGE_HEAD").exists()


def converted_by_attributes(folder: Path, git: Git) -> None:
    fill(folder)
    (folder / ".gitattributes").write_text(CRLF_ATTRIBUTES)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "core.autocrlf", "true")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")


def cleaned_by_a_filter(folder: Path, git: Git) -> None:
    """Set up what git-lfs does: a required filter that must not run when we save or restore."""
    fill(folder)
    (folder / ".gitattributes").write_text("*.bin filter=large -text\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "filter.large.clean", "sha1sum")
    git(folder, "config", "filter.large.smudge", "cat")
    git(folder, "config", "filter.large.required", "true")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    trap = folder.parent / "the filter ran"
    git(folder, "config", "filter.large.clean", f"touch '{trap}'; sha1sum")
    git(folder, "config", "filter.large.smudge", f"touch '{trap}'; cat")


def with_a_submodule(folder: Path, git: Git) -> None:
    committed(folder, git)
    upstream = folder.parent / "upstream"
    committed(upstream, git)
    git(folder, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(upstream), "vendored")
    git(folder, "commit", "-q", "-m", "vendor")
    (folder / "vendored" / "src" / "app.py").write_bytes(b"print('changed in the submodule')\n")


def with_a_nested_clone(folder: Path, git: Git) -> None:
    committed(folder, git)
    upstream = folder.parent / "upstream"
    committed(upstream, git)
    git(folder, "clone", "-q", str(upstream), "nested")
    (folder / "nested" / "untracked.txt").write_bytes(b"nobody has committed this\n")


SETTINGS_UP = [
    plain,
    no_commit_yet,
    detached_head,
    merge_under_way,
    converted_by_attributes,
    cleaned_by_a_filter,
    with_a_submodule,
    with_a_nested_clone,
]


@pytest.mark.parametrize("set_up", SETTINGS_UP, ids=lambda one: one.__name__)
def test_a_project_comes_back_and_its_repository_is_not_touched(
    set_up: Callable[[Path, Git], None], project: Path, store: Path, git: Git
) -> None:
    """S2, S4, S12, S18, T3, T9."""
    set_up(project, git)
    before = picture(project)
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        kept = workspace.save("whole").checkpoint
        assert kept.gaps == ()
        held = [entry.path for entry in workspace.entries(kept.id)]
        assert not [path for path in held if b".git" in path.split(b"/")]
        assert picture(project) == before
        wreck(project, held, seed=3)
        wrecked = picture(project)

        report = workspace.restore(kept.id)
        assert report.omissions == ()
        assert picture(project) == before

        workspace.undo()
        assert picture(project) == wrecked
    assert not (project.parent / "the filter ran").exists()


def test_a_nested_repository_is_noted_with_its_head(project: Path, store: Path, git: Git) -> None:
    """S4."""
    with_a_nested_clone(project, git)
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        state = workspace.save("whole").checkpoint.manifest.git
    assert state is not None
    assert [nested.path for nested in state.nested] == [b"nested"]
    assert state.nested[0].head == git(project / "nested", "rev-parse", "HEAD").strip()


def test_a_merge_under_way_is_noted(project: Path, store: Path, git: Git) -> None:
    """S18."""
    merge_under_way(project, git)
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        state = workspace.save("whole").checkpoint.manifest.git
    assert state is not None
    assert state.operation == "merge"
