"""A save that is killed leaves what it published of its objects to the next one (ARCHITECTURE, section 7)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lastgood import workspace as workspaces
from lastgood.objects import write
from lastgood.objects.engine import GitEngine
from lastgood.objects.pack import Index
from lastgood.workspace import Workspace
from tools.harm import packs_of

Kill = Callable[..., None]

FOLDERS = 12
FILES = 10  # in each folder
PART = 25


@pytest.fixture
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "_PART_OBJECTS", PART)
    monkeypatch.setattr(write, "_PART_SHARE", 1 << 40)
    # In this process, which is killed: not in another one, because of a thread that an earlier test left.
    monkeypatch.setattr(workspaces, "_busy_threads", lambda: 0)


@pytest.fixture
def full(project: Path) -> dict[str, bytes]:
    """Fill the project, and return what is in it."""
    contents = {
        f"folder{folder:02d}/file{number}": os.urandom(60)
        for folder in range(FOLDERS)
        for number in range(FILES)
    }
    for path, content in contents.items():
        (project / path).parent.mkdir(exist_ok=True)
        (project / path).write_bytes(content)
    return contents


def _published(store: Path) -> list[set[bytes]]:
    """Return the objects of each pack."""

    def oids(path: Path) -> Iterator[bytes]:
        index = Index.open(os.fsencode(path))
        yield from index.oids()
        index.close()

    return [set(oids(path)) for path in packs_of(store, ".idx")]


def _held(workspace: Workspace, aside: Path) -> dict[str, bytes]:
    workspace.restore("@", to=aside)
    return {str(path.relative_to(aside)): path.read_bytes() for path in aside.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("_small_parts")
def test_a_killed_first_save_is_gone_on_with(
    workspace: Workspace, store: Path, tmp_path: Path, full: dict[str, bytes], killed: Kill
) -> None:
    # Each part is two files that get their names; the third part gets none.
    killed(lambda: workspace.save("first"), event="os.rename", path="/objects/pack/", at=4)
    before = _published(store)
    left = set().union(*before)
    assert [len(part) >= PART for part in before] == [True, True]
    assert not workspace.list()
    workspace.save("again")
    again = [part for part in _published(store) if part not in before]
    assert sum(map(len, again)) > FOLDERS * FILES // 2
    assert not any(left & part for part in again), "what was there was stored again"
    assert _held(workspace, tmp_path / "aside") == full


@pytest.mark.usefixtures("_small_parts")
def test_what_no_save_comes_for_is_freed(
    opened: Callable[..., Workspace], store: Path, project: Path, full: dict[str, bytes], killed: Kill
) -> None:
    workspace = opened()
    killed(lambda: workspace.save("first"), event="os.rename", path="/objects/pack/", at=4)
    left = set().union(*_published(store))
    for path in full:
        (project / path).unlink()
    (project / "other").write_text("other")
    workspace.save("something else")
    workspace.maintain()
    assert not left & set().union(*_published(store))
    assert workspace.verify().ok


@pytest.mark.usefixtures("_small_parts", "full")
def test_a_look_publishes_nothing(workspace: Workspace, store: Path, project: Path) -> None:
    workspace.save("first", allow_empty=True)
    packs = packs_of(store)
    for path in project.rglob("file*"):
        path.write_bytes(os.urandom(60))
    workspace.status()
    workspace.diff("@")
    assert packs_of(store) == packs


def test_parts_grow_with_what_is_before_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "_PART_OBJECTS", 4)
    folder = os.fsencode(tmp_path)
    engine = GitEngine.create(folder + b"/objects.git", temporary=folder + b"/tmp")
    writer = engine.writer()
    names = []
    for number in range(2_000):
        names.append(writer.blob(b"%d" % number))
        writer.publish_part()
    writer.abandon()
    assert engine.packs() < 40
    assert len(engine.missing(names)) <= 2_000 // 4
    engine.close()


def test_a_pack_that_was_handed_over_is_published_by_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = os.fsencode(tmp_path)
    engine = GitEngine.create(folder + b"/objects.git", temporary=folder + b"/tmp")
    first = engine.writer()
    oid = first.blob(os.urandom(5_000_000))
    second = engine.resume(first.detach())
    monkeypatch.setattr(write, "_PART_OBJECTS", 1)
    second.blob(b"more")
    second.publish_part()
    assert engine.packs() == 0
    first.take_back()  # as if the other had been killed
    first.publish()
    assert not engine.missing([oid])
    engine.close()
