"""The ledger has a sound copy beside it, by which what was damaged comes back (K4)."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from _thread import start_new_thread
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import lastgood
from lastgood.errors import Damaged
from lastgood.ledger import Ledger
from lastgood.workspace import Workspace
from ledger.conftest import Forge, put
from tools.harm import flip
from tools.ledgers import texts
from tools.runs import wait_for
from tools.unlocked import writers

BACKUP = "ledger.backup.sqlite3.gz"
OF_BOOK = "book = (SELECT number FROM book WHERE name = CAST('book' AS BLOB))"
WOUNDS = {
    "a piece altered": [f"UPDATE piece SET content = CAST('=' || x'5301' || 'x' AS BLOB) WHERE {OF_BOOK}"],
    "a piece missing": [f"DELETE FROM piece WHERE {OF_BOOK}"],
    "a head altered": [f"UPDATE entry SET head = x'4e00' WHERE {OF_BOOK}"],
    "an entry removed": [f"DELETE FROM entry WHERE {OF_BOOK} AND key = CAST('key 2' AS BLOB)"],
    "a book renamed": ["UPDATE book SET name = CAST('cook' AS BLOB) WHERE name = CAST('book' AS BLOB)"],
    "a book's count altered": ["UPDATE book SET entries = 4 WHERE name = CAST('book' AS BLOB)"],
    "a book that is a text": ["UPDATE book SET name = 'book' WHERE name = CAST('book' AS BLOB)"],
    "a book removed": [
        f"DELETE FROM piece WHERE {OF_BOOK}",
        f"DELETE FROM entry WHERE {OF_BOOK}",
        "DELETE FROM book WHERE name = CAST('book' AS BLOB)",
    ],
}


def maintained(project: Path, store: Path) -> tuple[str, ...]:
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        return workspace.maintain()


def repaired(project: Path, store: Path) -> tuple[str, ...]:
    with lastgood.open(project, store=store, maintenance="off", repair=True) as workspace:
        report = workspace.verify(repair=True)
        assert report.ok, report.faults
        return report.repaired


def faults(project: Path, store: Path) -> str:
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        return "\n".join(workspace.verify().faults)


@pytest.mark.usefixtures("ledger")
def test_maintenance_copies_what_changed_and_nothing_else(project: Path, store: Path, ledger: Ledger) -> None:
    assert "ledger backed up" in maintained(project, store)
    before = os.stat(store / BACKUP)
    assert before.st_mode & 0o777 == 0o600
    assert "ledger backed up" not in maintained(project, store)
    assert os.stat(store / BACKUP).st_ino == before.st_ino
    ledger.change(lambda book: put(book, "book", 9))
    assert "ledger backed up" in maintained(project, store)
    assert sorted(name for name in os.listdir(store) if "ledger" in name and "-" not in name) == [
        BACKUP,
        "ledger.sqlite3",
    ]


def test_without_a_ledger_there_is_no_copy(workspace: Workspace, store: Path) -> None:
    assert "ledger backed up" not in workspace.maintain()
    assert not any("ledger" in name for name in os.listdir(store))


@pytest.mark.parametrize("wound", WOUNDS)
def test_a_damaged_book_comes_back_and_what_is_sound_stays_as_it_is(
    project: Path, store: Path, ledger: Ledger, forge: Forge, wound: str
) -> None:
    whole = texts(ledger)
    maintained(project, store)
    ledger.change(lambda book: book.put("other", "newer", head="after the copy"))
    forge(*WOUNDS[wound])
    assert faults(project, store)
    done = repaired(project, store)
    assert [line for line in done if "the book test book of the ledger was brought back" in line]
    assert texts(ledger)["book"] == whole["book"]
    assert ledger.look(lambda book: [one.key for one in book.entries("other")]) == ["newer", "only"]
    assert list((store / "damaged").glob("ledger-*/ledger.sqlite3"))
    ledger.change(lambda book: put(book, "book", 9))
    assert repaired(project, store) == ()


@pytest.mark.parametrize("how", ["gone", "cut", "garbled", "another database"])
def test_a_ledger_that_cannot_be_opened_comes_back_whole(
    project: Path, store: Path, ledger: Ledger, how: str
) -> None:
    whole = texts(ledger)
    maintained(project, store)
    with closing(sqlite3.connect(store / "ledger.sqlite3")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path = store / "ledger.sqlite3"
    content = path.read_bytes()
    path.unlink()
    if how == "cut":
        path.write_bytes(content[:6000])
    elif how == "garbled":
        path.write_bytes(content[:4096] + bytes(len(content) - 4096))
    elif how == "another database":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE meta (name, value)")
    assert faults(project, store)
    (line,) = repaired(project, store)
    assert line == "the ledger was brought back from its backup, as it was after change 6 of 6"
    # Whoever had it open goes on with the one that is there now.
    ledger.change(lambda book: put(book, "book", 9))
    assert len(texts(ledger)["book"]) == len(whole["book"]) + 1
    assert faults(project, store) == ""


def test_without_a_copy_nothing_is_taken_away(
    project: Path, store: Path, ledger: Ledger, forge: Forge
) -> None:
    forge(*WOUNDS["a head altered"])
    with lastgood.open(project, store=store, maintenance="off", repair=True) as workspace:
        report = workspace.verify(repair=True)
    assert not report.ok
    assert ledger.look(lambda book: [one.key for one in book.entries("other")]) == ["only"]


def test_a_damaged_ledger_pushes_no_sound_copy_out(
    project: Path, store: Path, forge: Forge, ledger: Ledger
) -> None:
    maintained(project, store)
    sound = (store / BACKUP).read_bytes()
    ledger.change(lambda book: book.put("other", "newer"))
    forge(*WOUNDS["a piece altered"])
    assert any("damaged: not backed up" in line for line in maintained(project, store))
    assert (store / BACKUP).read_bytes() == sound
    assert not [name for name in os.listdir(store) if name.endswith((".new", ".fresh", ".plain"))]


def test_a_damaged_copy_is_told_and_made_anew(project: Path, store: Path, ledger: Ledger) -> None:
    maintained(project, store)
    flip(store / BACKUP)
    assert BACKUP in faults(project, store)
    assert "ledger backed up" in maintained(project, store)
    assert faults(project, store) == ""
    assert texts(ledger)


@pytest.mark.usefixtures("ledger")
def test_a_copy_of_another_key_is_none(
    project: Path,
    store: Path,
    reopened: Callable[[], Ledger],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever could write to the store cannot have their own ledger brought back."""
    maintained(project, store)
    monkeypatch.setenv("LASTGOOD_WITNESS", str(tmp_path / "elsewhere"))
    reopened().accept()
    assert f"its backup {BACKUP}: the ledger" in faults(project, store)
    os.unlink(store / "ledger.sqlite3")
    with lastgood.open(project, store=store, maintenance="off", repair=True) as workspace:
        assert not workspace.verify(repair=True).ok


def test_an_older_ledger_that_was_put_back_waits_for_its_owners_word(
    project: Path, store: Path, reopened: Callable[[], Ledger], ledger: Ledger, tmp_path: Path
) -> None:
    maintained(project, store)
    with closing(sqlite3.connect(store / "ledger.sqlite3")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(store / "ledger.sqlite3", tmp_path / "older")
    ledger.change(lambda book: book.drop_book("other"))
    for name in ("ledger.sqlite3", "ledger.sqlite3-wal", "ledger.sqlite3-shm"):
        (store / name).unlink(missing_ok=True)
    shutil.copy(tmp_path / "older", store / "ledger.sqlite3")
    with lastgood.open(project, store=store, maintenance="off", repair=True) as workspace:
        assert not workspace.verify(repair=True).ok
    with pytest.raises(Damaged, match="not the one last seen"):
        texts(reopened())


def test_a_repair_waits_for_who_is_at_the_ledger_and_replaces_nothing(project: Path, store: Path) -> None:
    """K4: SQLite holds the file alone for a moment while the last one who had it open closes it."""
    for number in range(2):
        with lastgood.open(project, store=store, maintenance="off") as workspace:
            workspace.ledger("test").change(lambda book, n=number: put(book, "book", n))  # type: ignore[misc]
            if number == 0:
                workspace.maintain()
    other = sqlite3.connect(store / "ledger.sqlite3", check_same_thread=False)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")

    def end() -> None:
        time.sleep(0.3)
        other.close()

    with lastgood.open(project, store=store, maintenance="off") as workspace:
        start_new_thread(end, ())
        assert writers(workspace._context).ledgers.repair() == ()
        assert len(texts(workspace.ledger("test"))["book"]) == 2
    assert not (store / "damaged").exists()


@pytest.mark.chance("which writes the repairs run beside")
def test_a_repair_beside_a_writer_sets_nothing_aside(project: Path, store: Path, ledger: Ledger) -> None:
    maintained(project, store)
    done: list[int] = []

    def write() -> None:
        try:
            for number in range(60):
                ledger.change(lambda book, n=number: put(book, "book", n))  # type: ignore[misc]
        finally:
            done.append(1)

    with lastgood.open(project, store=store, maintenance="off") as workspace:
        start_new_thread(write, ())
        while not done:
            assert writers(workspace._context).ledgers.repair() == ()
    assert len(texts(ledger)["book"]) == 60
    assert not (store / "damaged").exists()


@pytest.mark.usefixtures("ledger")
def test_repairs_of_a_lost_ledger_go_one_after_another(project: Path, store: Path) -> None:
    maintained(project, store)
    (store / "ledger.sqlite3").unlink()
    said: list[object] = []

    def repair() -> None:
        found: object = "an error"
        try:
            with lastgood.open(project, store=store, maintenance="off") as workspace:
                found = workspace.verify(repair=True).ok
        finally:
            said.append(found)

    for _ in range(3):
        start_new_thread(repair, ())
    while len(said) < 3:
        time.sleep(0.01)
    assert said == [True, True, True]
    assert not list(store.glob("ledger.sqlite3.rescue*"))


def test_what_was_removed_leaves_the_copy_with_the_next(project: Path, store: Path, ledger: Ledger) -> None:
    maintained(project, store)
    ledger.change(lambda book: book.drop_book("other"))
    maintained(project, store)
    os.unlink(store / "ledger.sqlite3")
    repaired(project, store)
    assert list(texts(ledger)) == ["book"]


def test_a_copy_is_made_where_nobody_ever_saves(project: Path, store: Path) -> None:
    """A program that keeps its threads here, and no files, has them backed up too."""
    with lastgood.open(project, store=store, maintenance="background") as workspace:
        workspace.ledger("test").change(lambda book: put(book, "book", 1))
        assert not (store / BACKUP).exists()  # there was nothing to copy
        ledgers = workspace._context.ledgers
        assert ledgers.is_copy_old()
        workspace.ledger("test")
        wait_for(store / BACKUP)
        while workspace._state.auto_maintenance._is_running():
            time.sleep(0.01)
        assert not ledgers.is_copy_old()
        workspace.ledger("test").change(lambda book: put(book, "book", 2))
        assert not ledgers.is_copy_old()  # a day has not passed
        os.utime(store / BACKUP, (0, 0))
        assert ledgers.is_copy_old()
    assert "ledger backed up" in maintained(project, store)
    for name in (BACKUP, "ledger.sqlite3"):
        os.utime(store / name, (0, 0))
    assert "ledger backed up" not in maintained(project, store)
    assert os.stat(store / BACKUP).st_mtime > 0  # nobody asks again and again


def test_a_workspace_without_maintenance_starts_none(project: Path, store: Path, ledger: Ledger) -> None:
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        workspace.ledger("test")
        assert workspace._state.auto_maintenance._child is None
    assert texts(ledger)
