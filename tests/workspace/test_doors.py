"""Several doors to one open workspace: within sessions, and for a run; and a current folder that is gone."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

import lastgood

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lastgood.model.operation import Event
    from lastgood.workspace import Workspace


@pytest.fixture
def old(tmp_path: Path, store: Path) -> Path:
    """Where a workspace with a checkpoint was, before it moved."""
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "a").write_text("a\n")
    with lastgood.open(folder, store=store, maintenance="off") as workspace:
        workspace.save("there")
    folder.rename(tmp_path / "gone")
    return folder


def test_what_is_attached_within_a_session_is_attached_for_all_doors(workspace: Workspace, old: Path) -> None:
    """S19: no two of them have different keys, and each stays within its session."""
    inside = workspace.within("sess_0123456789abcdef")
    before = inside._hands()
    inside.attach(str(old))
    doors = [workspace, inside, before, inside.within("sess_fedcba9876543210"), workspace._hands()]
    assert len({door._context.key for door in doors}) == 1
    assert [door._context.session for door in doors] == [
        None,
        "sess_0123456789abcdef",
        "sess_0123456789abcdef",
        "sess_fedcba9876543210",
        None,
    ]
    assert [one.message for one in workspace.list()] == ["there"]
    assert [one.message for one in inside.list()] == ["there"]
    assert [one.message for one in before.list()] == ["there"]


def test_a_session_goes_on_within_itself_after_an_attachment(
    workspace: Workspace, project: Path, old: Path
) -> None:
    """P1: what is saved through the door of a session belongs to it."""
    workspace.attach(str(old))
    with workspace.session("go on") as session:
        (project / "b").write_text("b\n")
        assert session.save("within").checkpoint.session == session.id
    assert workspace.save("after", allow_empty=True).checkpoint.session is None


def test_observers_of_one_door_hear_of_all(workspace: Workspace) -> None:
    heard: list[Event] = []
    leave = workspace.within("sess_0123456789abcdef").subscribe(heard.append)
    workspace.save("one", allow_empty=True)
    leave()
    workspace.save("two", allow_empty=True)
    assert [event.type for event in heard] == ["saved"]


@pytest.fixture
def nowhere(tmp_path: Path, store: Path) -> Iterator[None]:
    """The current folder is one that is gone."""
    (tmp_path / "gone").mkdir()
    before = os.getcwd()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    yield
    os.chdir(before)


@pytest.mark.usefixtures("nowhere")
def test_a_merge_from_a_folder_that_is_gone(workspace: Workspace, project: Path) -> None:
    """T17: git, which merges, is run in a folder that is there."""
    (project / "f").write_text("a\nb\nc\nd\ne\nf\n")
    first = workspace.save("first").checkpoint
    (project / "f").write_text("A\nb\nc\nd\ne\nf\n")
    workspace.save("second")
    (project / "f").write_text("A\nb\nc\nd\ne\nF\n")
    assert workspace.restore(first.id, merge=True).complete
    assert (project / "f").read_text() == "a\nb\nc\nd\ne\nF\n"


@pytest.mark.usefixtures("nowhere")
def test_everything_that_is_started_has_a_folder_to_stand_in(
    workspace: Workspace, project: Path, store: Path, git: Callable[..., str]
) -> None:
    """Consolidation and the project's own git are run by git, a check by a process between, a scan by one."""
    git(project, "init", "-q")
    for number in range(70):
        (project / "f").write_text(f"{number}\n")
        workspace.save(str(number))
    report = workspace.check("@", f"{sys.executable} -c ''")
    assert report.good
    assert "packs consolidated" in workspace.maintain()
    assert workspace.get("@").git is not None
    assert len(list((store / "objects.git" / "objects" / "pack").glob("*.pack"))) < 10


def test_a_store_that_others_may_look_into_is_closed_and_that_is_told(
    workspace: Workspace, project: Path, store: Path
) -> None:
    """S18: once, by whoever finds it; then it is closed."""
    workspace.save("one", allow_empty=True)
    store.chmod(0o755)
    with lastgood.open(project, store=store, maintenance="off") as again:
        assert store.stat().st_mode & 0o777 == 0o700
        assert [note.code for note in again.remarks] == ["store-was-open"]
        assert [note.code for note in again.status().health] == ["store-was-open"]
        assert [note.code for note in again.save("two", allow_empty=True).notes] == ["store-was-open"]
    with lastgood.open(project, store=store, maintenance="off") as again:
        assert again.remarks == again.status().health == ()


def test_lax_files_and_ways_of_others_are_told_by_status(workspace: Workspace, store: Path) -> None:
    """S18: a store is neither readable for others nor theirs to take away, or it is said."""
    workspace.save("one", allow_empty=True)
    (store / "README").chmod(0o644)
    store.parent.chmod(0o1777)
    above = store.parent.parent
    before = above.stat().st_mode
    above.chmod(0o777)
    try:
        notes = workspace.status().health
    finally:
        above.chmod(before)
    assert [note.code for note in notes] == ["privacy", "store-below-others"]
    assert "README" in notes[0].message
    assert str(above) in notes[1].message
