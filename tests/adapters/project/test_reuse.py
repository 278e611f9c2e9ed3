"""The project's objects are taken only where a file is proven to be its object, byte for byte."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import pytest

from adapters.project.projects import make_project
from lastgood.adapters.project.index import Index, read_index
from lastgood.adapters.project.repository import find
from lastgood.adapters.project.reuse import Reuse, reuse

if TYPE_CHECKING:
    from pathlib import Path

    from adapters.project.projects import Project


def offered(
    root: bytes, *, settings: tuple[bytes, ...] = (), attributes: tuple[bytes, ...] = ()
) -> Reuse | None:
    repository = find(root)
    assert repository is not None
    index = read_index(repository)
    assert isinstance(index, Index)
    return reuse(repository, index, settings=settings, attributes=attributes)


def taken(root: bytes, path: bytes = b"a/file") -> bytes | None:
    found = offered(root)
    return None if found is None else found.oid(path, os.lstat(root + b"/" + path))


def add(project: Project, name: str = "a/file", content: bytes = b"content\n") -> Path:
    """Add a file whose times lie before those of the index, so that it is not racy."""
    path = project.write(name, content)
    project.git("add", "-A", "-f")
    age(project, path)
    return path


def age(project: Project, path: Path) -> None:
    os.utime(path, ns=(10**18, 10**18))
    project.git("update-index", "-q", "--refresh")


def blob(content: bytes) -> bytes:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).digest()


def test_an_unchanged_file_is_taken(project: Project) -> None:
    add(project)
    assert taken(project.root) == blob(b"content\n")


def test_the_objects_lie_in_the_shared_directory(project: Project, tmp_path: Path) -> None:
    project.commit()
    project.git("worktree", "add", "-q", str(tmp_path / "tree"))
    found = offered(os.fsencode(tmp_path / "tree"))
    assert found is not None
    assert found.objects == project.root + b"/.git/objects"


def test_a_file_below_the_top_is_taken_by_its_path_in_the_workspace(project: Project) -> None:
    add(project, "packages/foo/a/file")
    assert taken(project.root + b"/packages/foo") == blob(b"content\n")


def test_an_edited_file_is_not_taken(project: Project) -> None:
    add(project).write_bytes(b"CONTENT\n")
    assert taken(project.root) is None


def test_an_edit_that_keeps_size_and_time_is_not_taken(project: Project) -> None:
    path = add(project)
    path.write_bytes(b"CONTENT\n")
    os.utime(path, ns=(10**18, 10**18))
    assert taken(project.root) is None


def test_a_replaced_file_is_not_taken(project: Project) -> None:
    path = add(project)
    aside = project.write("aside", b"CONTENT\n")
    os.utime(aside, ns=(10**18, 10**18))
    aside.rename(path)
    assert taken(project.root) is None


def test_a_file_as_young_as_the_index_is_not_taken(project: Project) -> None:
    path = add(project)
    index = project.path / ".git/index"
    facts = path.stat()
    os.utime(index, ns=(facts.st_mtime_ns, facts.st_mtime_ns))
    assert taken(project.root) is None


@pytest.mark.parametrize("option", ["--assume-unchanged", "--skip-worktree"])
def test_a_file_that_git_is_told_not_to_look_at_is_not_taken(project: Project, option: str) -> None:
    add(project)
    project.git("update-index", option, "a/file")
    assert taken(project.root) is None


def test_a_file_that_is_only_intended_to_be_added_is_not_taken(project: Project) -> None:
    path = project.write("a/file", b"content\n")
    project.git("add", "-N", "a/file")
    age(project, path)
    assert taken(project.root) is None


def test_a_file_in_conflict_is_not_taken(project: Project) -> None:
    path = add(project, content=b"base\n")
    oid = project.git("rev-parse", ":a/file")
    stages = "".join(f"100644 {oid} {stage}\ta/file\n" for stage in (1, 2, 3))
    project.git("update-index", "--force-remove", "a/file")
    project.git("update-index", "--index-info", given=stages.encode())
    os.utime(path, ns=(10**18, 10**18))
    assert taken(project.root) is None


def test_a_link_is_not_taken(project: Project) -> None:
    add(project)
    (project.path / "link").symlink_to("a/file")
    project.git("add", "link")
    assert taken(project.root, b"link") is None


def test_an_untracked_file_is_not_taken(project: Project) -> None:
    add(project)
    project.write("a/other")
    assert taken(project.root, b"a/other") is None


ATTRIBUTES = [
    b"* text=auto\n",
    b"*.c eol=crlf\n",
    b"* ident\n",
    b"* FILTER=lfs\n",
    b"* crlf\n",
    b"* working-tree-encoding=UTF-16\n",
    b"[attr]x filter=y\n",
]


@pytest.mark.parametrize("text", ATTRIBUTES)
@pytest.mark.parametrize("place", [".gitattributes", "a/.gitattributes", ".git/info/attributes"])
def test_nothing_is_taken_where_an_attribute_may_convert(project: Project, place: str, text: bytes) -> None:
    add(project)
    project.write(place, text)
    assert taken(project.root) is None


def test_attributes_of_another_directory_do_not_matter(project: Project) -> None:
    project.write("b/.gitattributes", b"* text=auto\n")
    add(project)
    assert taken(project.root) is not None


def test_attributes_that_convert_nothing_do_not_matter(project: Project) -> None:
    project.write(".gitattributes", b"*.png -diff merge=ours\ndocs/* linguist-documentation\n")
    add(project)
    assert taken(project.root) is not None


def test_attributes_above_the_workspace_matter(project: Project) -> None:
    project.write("packages/.gitattributes", b"* text=auto\n")
    add(project, "packages/foo/a/file")
    assert taken(project.root + b"/packages/foo") is None
    (project.path / "packages/.gitattributes").unlink()
    assert taken(project.root + b"/packages/foo") is None


def test_an_attributes_file_that_only_the_index_still_has_matters(project: Project) -> None:
    attributes = project.write(".gitattributes", b"*.png -diff\n")
    add(project)
    attributes.unlink()
    assert taken(project.root) is None


def test_an_attributes_file_that_cannot_be_read_matters(project: Project) -> None:
    add(project)
    os.mkfifo(project.path / "a/.gitattributes")
    assert taken(project.root) is None


@pytest.mark.parametrize(
    "setting",
    [
        ("core.autocrlf", "input"),
        ("core.attributesFile", "/x"),
        ("include.path", "x"),
        ("includeIf.a.path", "x"),
    ],
)
def test_settings_that_may_convert_take_nothing(project: Project, setting: tuple[str, str]) -> None:
    add(project)
    project.git("config", *setting)
    assert taken(project.root) is None


def test_settings_of_the_worktree_matter(project: Project) -> None:
    add(project)
    project.git("config", "extensions.worktreeConfig", "true")
    project.git("config", "--worktree", "core.autocrlf", "true")
    assert taken(project.root) is None


def test_settings_and_attributes_of_the_user_matter(project: Project, tmp_path: Path) -> None:
    add(project)
    config, attributes = tmp_path / "gitconfig", tmp_path / "attributes"

    def offers() -> bool:
        given = {"settings": (os.fsencode(config),), "attributes": (os.fsencode(attributes),)}
        return offered(project.root, **given) is not None

    assert offers()
    config.write_bytes(b"[Core]\n\tAutoCRLF = true\n")
    assert not offers()
    config.write_bytes(b"[user]\n\tname = A\n")
    assert offers()
    attributes.write_bytes(b"* text\n")
    assert not offers()


def test_nothing_is_taken_from_sha_256(tmp_path: Path) -> None:
    project = make_project(tmp_path / "long", "--object-format=sha256")
    add(project)
    assert offered(project.root) is None


def test_nothing_is_taken_from_a_split_index(project: Project) -> None:
    add(project)
    project.git("update-index", "--split-index")
    assert offered(project.root) is None


def test_every_object_taken_is_the_file(project: Project) -> None:
    contents = {f"d{number % 7}/f{number}": b"%d\r\n" % number * (number % 5 + 1) for number in range(200)}
    for name, content in contents.items():
        os.utime(project.write(name, content), ns=(10**18, 10**18))
    project.git("add", "-A")
    contents["d0/f7"] = b"changed\n"
    project.write("d0/f7", b"changed\n")
    found = offered(project.root)
    assert found is not None
    oids = {name: found.oid(name.encode(), os.lstat(project.path / name)) for name in contents}
    assert sum(oid is not None for oid in oids.values()) >= 199
    assert all(oid in {None, blob(contents[name])} for name, oid in oids.items())


def test_a_deep_path_exhausts_no_stack(project: Project) -> None:
    add(project)
    found = offered(project.root)
    assert found is not None
    assert found.oid(b"d/" * 3000 + b"x", os.lstat(project.root)) is None
