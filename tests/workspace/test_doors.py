"""Several doors to one open workspace: within sessions, and for a run; and a current folder that is gone."""

from __future__ import annotations

import gc
import gzip
import os
import random
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood.errors import Usage
from lastgood.model.operation import Event
from lastgood.settings import AutoSettings, CaptureSettings, LimitSettings, Rungs, Settings
from lastgood.testing.clock import FakeClock
from lastgood.workspace import Workspace
from lastgood.workspace.running.workspace import RunWorkspace
from tools.harm import packs_of


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
    before = RunWorkspace(inside)
    inside.attach(str(old))
    doors = [workspace, inside, before, inside.within("sess_fedcba9876543210"), RunWorkspace(workspace)]
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
    assert len(packs_of(store)) < 10


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


# How often the verbs that are called most commit to the catalogue: each commit waits for the disk.


Commits = Callable[[], int]


@pytest.fixture
def commits(store: Path) -> Commits:
    """Return a call that counts the transactions committed so far."""

    def count() -> int:
        with closing(sqlite3.connect(store / "catalogue.sqlite3")) as connection:
            row = connection.execute("SELECT value FROM meta WHERE name = 'changes'").fetchone()
        return int(row[0])

    return count


def test_a_save_commits_once(workspace: Workspace, project: Path, commits: Commits) -> None:
    (project / "file").write_text("one")
    workspace.save("one")
    before = commits()
    (project / "file").write_text("two")
    workspace.save("two")
    assert commits() - before == 1


def test_a_restore_commits_its_guard_and_its_operation(
    workspace: Workspace, project: Path, commits: Commits
) -> None:
    (project / "file").write_text("one")
    saved = workspace.save("one").checkpoint
    (project / "file").write_text("two")
    before = commits()
    workspace.restore(saved.id)
    assert commits() - before == 2


# A workspace that a program drops without closing it holds nothing any more.


def held(folder: Path) -> list[str]:
    """Return the files below a folder that this process has open or mapped."""
    with open("/proc/self/maps") as file:
        found = [line for line in file if str(folder) in line]
    for name in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # with which they were listed
            continue
        if path.startswith(str(folder)):
            found.append(path)
    return found


def test_a_workspace_that_is_dropped_lets_go_of_the_store(project: Path, store: Path) -> None:
    (project / "a").write_text("first")
    opened = lastgood.open(project, store=store, maintenance="off")
    opened.save("first", name="first")
    (project / "a").write_text("second")
    opened.save("second")
    opened.restore("first")
    opened.undo()
    assert opened.read("first", "a") == b"first"
    opened.session_start(goal="to be dropped")
    opened.session_end()
    assert held(store) != []
    with pytest.warns(ResourceWarning, match="was not closed"):  # noqa: PT031 - it is the collection that warns
        del opened
        gc.collect()
    assert held(store) == []


# Settings that a program gives are looked at when it gives them, not when something ends on them unseen.


WRONG: dict[str, Any] = {
    "settings is dict": {"limits": {}},
    "settings.limits is dict": Settings(limits={"max_store_size": 1}),  # type: ignore[arg-type]
    "max_store_size is float": Settings(limits=LimitSettings(max_store_size=5e9)),  # type: ignore[arg-type]
    "max_store_size is -1": Settings(limits=LimitSettings(max_store_size=-1)),
    "max_checkpoints is str": Settings(limits=LimitSettings(max_checkpoints="500")),  # type: ignore[arg-type]
    "max_checkpoints is bool": Settings(limits=LimitSettings(max_checkpoints=True)),
    "max_file_size is NoneType": Settings(capture=CaptureSettings(max_file_size=None)),  # type: ignore[arg-type]
    "exclude is no sequence of texts": Settings(capture=CaptureSettings(exclude="*.bin")),  # type: ignore[arg-type]
    "auto.enabled is str": Settings(auto=AutoSettings(enabled="no")),  # type: ignore[arg-type]
    "'sure' is no durability": Settings(durability="sure"),  # type: ignore[arg-type]
    "retention is no mapping": Settings(retention=[]),  # type: ignore[arg-type]
    r"retention\['turn'\] is int": Settings(retention={"turn": 5}),  # type: ignore[dict-item]
    r"retention\['turn'\].last is float": Settings(retention={"turn": Rungs(last=1.5)}),  # type: ignore[arg-type]
    "session_expires_after is str": Settings(session_expires_after="1h"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("said", "settings"), WRONG.items(), ids=WRONG)
def test_a_value_of_a_wrong_type_is_refused_at_the_door(
    project: Path, store: Path, said: str, settings: Any
) -> None:
    """K2: maintenance, which nobody watches, would have ended on it without a word."""
    with pytest.raises(Usage, match=said):
        lastgood.open(project, store=store, settings=settings)
    assert not store.exists()


def test_settings_of_the_right_types_are_taken(project: Path, store: Path) -> None:
    settings = Settings(
        limits=LimitSettings(max_store_size=1 << 70, max_checkpoints=0),
        retention={"turn": Rungs(last=1)},
        session_expires_after=float("inf"),
    )
    with lastgood.open(project, store=store, settings=settings, maintenance="off") as workspace:
        assert workspace.settings is settings


# Commits that no row names: of a save that was killed, or that a catalogue lost (invariants 4, 6).


Kill = Callable[..., None]


@pytest.mark.parametrize("loss", ["rescued without adoption", "older copy put back", "nothing left"])
def test_what_a_catalogue_lost_is_not_freed_before_somebody_may_notice(
    project: Path, store: Path, loss: str
) -> None:
    """Invariants 4, 6: a checkpoint without a row may be one that can be brought back."""
    clock = FakeClock(step=0.001)

    def opened(*, repair: bool = False) -> Workspace:
        return lastgood.open(project, store=store, maintenance="off", clock=clock, repair=repair)

    with opened() as workspace:
        (project / "file").write_text("one")
        one = workspace.save("one").checkpoint
        workspace.maintain()
        older = gzip.decompress((store / "catalogue.backup.sqlite3.gz").read_bytes())
        (project / "file").write_text("two")
        two = workspace.save("two").checkpoint
    for path in store.glob("catalogue*" if loss == "nothing left" else "catalogue.sqlite3*"):
        path.unlink()
    if loss == "older copy put back":
        (store / "catalogue.sqlite3").write_bytes(older)
    clock.advance(20 * 24 * 3600)
    with opened(repair=loss != "older copy put back") as workspace:
        for text in ("three", "four", "five"):
            (project / "file").write_text(text)
            workspace.save(text)
            workspace.maintain()

    with opened(repair=True) as workspace:
        workspace.verify(repair=True)

        assert workspace.read(one.id, "file") == b"one"
        assert workspace.read(two.id, "file") == b"two"
        assert workspace.verify(deep=True).ok
        clock.advance(40 * 24 * 3600)
        assert not any("repair" in said for said in workspace.maintain())


def test_bytes_that_no_row_ever_named_are_freed_after_a_month(
    project: Path, store: Path, killed: Kill
) -> None:
    """R1: a save that was killed before its row was written."""
    clock = FakeClock(step=0.001)
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as workspace:
        (project / "file").write_text("one")
        workspace.save("one")
        (project / "file").write_bytes(random.Random(1).randbytes(100_000))
        killed(lambda: workspace.save("killed"), event="os.rename", path=".idx")
        clock.random()  # the child has drawn its ids
        clock.random()
        workspace.maintain()
        (project / "file").write_text("three")
        workspace.save("three")
        workspace.maintain()
        assert workspace._context.engine.stored_bytes() > 100_000

        clock.advance(31 * 24 * 3600)
        workspace.maintain()

        assert workspace._context.engine.stored_bytes() < 100_000
        assert workspace.verify(deep=True).ok
