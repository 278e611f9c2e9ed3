"""Rule S5: what the project's index holds stays captured; the index is parsed by us, git is the judge."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path

import pytest

from lastgood.project_git import find
from lastgood.project_git.entries import read_entries
from lastgood.project_git.index import Index, UnknownIndex, read_index
from project_git.projects import Project, make_project
from tools.values import not_none

NAMES = ["a", "b/c", "b/d/e", "b/d/f.txt", "space name", "n\newline", "ü", "x" * 200, "deep/" * 30 + "file"]


def found(root: bytes) -> Index | UnknownIndex:
    repository = not_none(find(root))
    return read_index(repository)


def known(root: bytes) -> Index:
    index = found(root)
    assert isinstance(index, Index), index.reason
    return index


def listed(project: Project) -> frozenset[bytes]:
    said = project.git("ls-files", "-z").encode(errors="surrogateescape")
    return frozenset(name for name in said.split(b"\0") if name)


def add_all(project: Project) -> None:
    for name in NAMES:
        project.write(name)
    project.git("add", "-A", "-f")


def test_without_an_index_nothing_is_tracked(project: Project) -> None:
    assert known(project.root).tracked == frozenset()


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("digest", ["sha1", "sha256"])
def test_every_version_tracks_what_git_lists(tmp_path: Path, version: int, digest: str) -> None:
    project = make_project(tmp_path / "project", f"--object-format={digest}")
    add_all(project)
    project.git("update-index", "--index-version", str(version))
    if version == 3:
        project.write("later")
        project.git("add", "-N", "later")
    assert (project.path / ".git/index").read_bytes()[7] == version
    assert known(project.root).tracked == listed(project)


def test_names_longer_than_the_length_field_holds_are_whole(project: Project) -> None:
    long = b"/".join([b"d" * 250] * 20)
    project.write("a")
    oid = project.git("hash-object", "-w", "a").encode()
    for version in ("2", "4"):
        project.git("update-index", "--index-info", given=b"100644 " + oid + b" 0\t" + long + b"\n")
        project.git("update-index", "--index-version", version)
        assert known(project.root).tracked == {long}


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_blobs_are_those_of_the_files_that_are_to_be_there(project: Project, version: str) -> None:
    project.write("b/c", b"content\n")
    project.write("run", b"program\n").chmod(0o755)
    project.write("left", b"out\n")
    (project.path / "link").symlink_to("run")
    project.git("add", "-A")
    project.git("update-index", "--skip-worktree", "left")
    project.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    project.git("update-index", "--index-version", version)
    blobs = known(project.root).blobs()
    assert {oid.hex() for oid in blobs} == {project.git("rev-parse", f":{name}") for name in ("b/c", "run")}


def test_directories_above_tracked_paths_are_known(project: Project) -> None:
    project.write("a/b/c")
    project.git("add", "-A")
    assert known(project.root).tracked_directories == {b"a", b"a/b"}


def test_a_workspace_below_the_top_sees_its_own_paths_only(project: Project) -> None:
    for name in ("packages/foo/a", "packages/foo/b/c", "packages/food", "other"):
        project.write(name)
    project.git("add", "-A")
    assert known(project.root + b"/packages/foo").tracked == {b"a", b"b/c"}


def test_a_split_index_tracks_at_least_what_git_lists(project: Project) -> None:
    add_all(project)
    project.git("update-index", "--split-index")
    project.write("later")
    project.write("a", b"other\n")
    project.git("add", "a", "later")
    project.git("rm", "-q", "--cached", "b/c")
    index = known(project.root)
    assert index.tracked == listed(project) | {b"b/c"}
    assert not index.whole
    assert index.blobs() == set()


def test_a_split_index_without_its_other_half_is_unknown(project: Project) -> None:
    add_all(project)
    project.git("update-index", "--split-index")
    for shared in (project.path / ".git").glob("sharedindex.*"):
        shared.unlink()
    assert isinstance(found(project.root), UnknownIndex)


def test_extensions_that_only_speed_git_up_are_passed_over(project: Project) -> None:
    add_all(project)
    project.git("commit", "-q", "-m", "all")
    project.git("update-index", "--untracked-cache")
    project.git("-c", "index.threads=2", "status")
    assert known(project.root).tracked == listed(project)


def test_an_index_in_conflict_tracks_the_path(project: Project) -> None:
    project.commit("file", b"base\n")
    project.git("checkout", "-q", "-b", "side")
    project.commit("file", b"side\n")
    project.git("checkout", "-q", "main")
    project.commit("file", b"main\n")
    project.git("merge", "side", fails=True)
    assert known(project.root).tracked == {b"file"}


def test_a_submodule_is_tracked_as_its_directory(project: Project, tmp_path: Path) -> None:
    inner = make_project(tmp_path / "inner")
    inner.commit()
    project.git("submodule", "--quiet", "add", str(inner.path), "sub")
    assert known(project.root).tracked == {b".gitmodules", b"sub"}


def test_the_index_of_a_worktree_is_its_own(project: Project, tmp_path: Path) -> None:
    project.commit("a")
    project.git("worktree", "add", "-q", str(tmp_path / "tree"))
    project.commit("b")
    assert known(os.fsencode(tmp_path / "tree")).tracked == {b"a"}


def test_a_sparse_directory_is_tracked_as_itself(project: Project) -> None:
    for name in ("a/x", "b/c/x", "top"):
        project.commit(name)
    project.git("sparse-checkout", "set", "--cone", "--sparse-index", "a")
    assert known(project.root).tracked == {b"a/x", b"b", b"top"}


def test_an_index_without_digest_is_taken(project: Project) -> None:
    add_all(project)
    path = project.path / ".git/index"
    path.write_bytes(path.read_bytes()[:-20] + bytes(20))
    assert known(project.root).tracked == listed(project)


def test_no_damage_is_taken_for_an_index_and_none_raises(project: Project) -> None:
    add_all(project)
    path = project.path / ".git/index"
    whole = path.read_bytes()
    chance = random.Random(5)
    for version in (2, 4):
        project.git("update-index", "--index-version", str(version))
        whole = path.read_bytes()
        for _ in range(300):
            at = chance.randrange(len(whole))
            damaged = (
                whole[:at] if chance.random() < 0.3 else whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :]
            )
            path.write_bytes(damaged)
            assert isinstance(found(project.root), UnknownIndex)
        path.write_bytes(whole)


def test_a_forged_index_never_raises(project: Project) -> None:
    add_all(project)
    path = project.path / ".git/index"
    chance = random.Random(7)
    for version in (2, 4):
        project.git("update-index", "--index-version", str(version))
        whole = path.read_bytes()[:-20]
        for _ in range(500):
            forged = bytearray(whole[: chance.randrange(len(whole))] if chance.random() < 0.2 else whole)
            for _ in range(chance.randrange(1, 6)):
                forged[chance.randrange(len(forged)) if forged else 0 : 0] = b""
                if forged:
                    forged[chance.randrange(len(forged))] = chance.randrange(256)
            path.write_bytes(bytes(forged) + hashlib.sha1(forged).digest())
            index = found(project.root)
            if isinstance(index, Index):
                assert all(len(oid) == 20 for oid in index.blobs())
        path.write_bytes(whole + hashlib.sha1(whole).digest())


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_no_file_in_place_of_the_index_is_unknown(project: Project, make: object) -> None:
    assert callable(make)
    make(project.path / ".git/index")
    assert isinstance(found(project.root), UnknownIndex)


def test_equal_entries_give_equal_bytes_in_every_form_of_an_index(project: Project) -> None:
    for name in ("a", "b/c", "z" * 100, "b/d"):
        project.commit(name)
    project.git("update-index", "--chmod=+x", "b/c")
    repository = not_none(find(project.root))
    forms = set()
    for words in (
        ("--index-version", "2"),
        ("--index-version", "4"),
        ("--index-version", "3"),
        ("--split-index",),
        ("--no-split-index",),
    ):
        project.git("update-index", *words)
        forms.add(read_entries(repository).canonical())
    assert len(forms) == 1
    project.git("update-index", "--skip-worktree", "a")
    extended = read_entries(repository).canonical()
    project.git("update-index", "--index-version", "4")
    assert read_entries(repository).canonical() == extended
    project.git("update-index", "--no-skip-worktree", "a")
    assert read_entries(repository).canonical() in forms
