"""Whoever changes a ledger without its key is found out, and a crash leaves it as it was before or after."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import lastgood
from lastgood.errors import Damaged, LastgoodError
from lastgood.ledger import Ledger, LedgerReader
from ledger.conftest import Forge
from tools.values import not_none

OF_BOOK = "book = (SELECT number FROM book WHERE name = CAST('book' AS BLOB))"
KEY_2 = f"{OF_BOOK} AND key = CAST('key 2' AS BLOB)"
EDITS = {
    "a value altered": [f"UPDATE entry SET body = CAST(x'5301' || 'x' AS BLOB) WHERE {KEY_2}"],
    "a head altered": [f"UPDATE entry SET head = x'4e00' WHERE {KEY_2}"],
    "a mark altered": [f"UPDATE entry SET mark = CAST('odd' AS BLOB) WHERE {KEY_2}"],
    "a key altered": [f"UPDATE entry SET key = CAST('key 9' AS BLOB) WHERE {KEY_2}"],
    "an entry removed": [f"DELETE FROM entry WHERE {KEY_2}"],
    "the newest removed": [f"DELETE FROM entry WHERE {OF_BOOK} AND key = CAST('key 4' AS BLOB)"],
    "an entry doubled under another key": [
        (
            "INSERT INTO entry (book, key, mark, tag, head, body)"
            f" SELECT book, CAST('key 7' AS BLOB), mark, tag, head, body FROM entry WHERE {KEY_2}"
        )
    ],
    "one value in the place of another": [
        (
            "UPDATE entry SET (head, body, tag) = (SELECT head, body, tag FROM entry"
            f" WHERE {OF_BOOK} AND key = CAST('key 0' AS BLOB)) WHERE {KEY_2}"
        )
    ],
    "an entry of another book": [
        (
            "UPDATE entry SET (head, body, tag) = (SELECT head, body, tag FROM entry"
            f" WHERE NOT {OF_BOOK}) WHERE {KEY_2}"
        )
    ],
    "a piece altered": [f"UPDATE piece SET content = CAST('=' || x'5301' || 'x' AS BLOB) WHERE {OF_BOOK}"],
    "a piece garbled": [f"UPDATE piece SET content = CAST('zzzz' AS BLOB) WHERE {OF_BOOK}"],
    "a piece missing": [f"DELETE FROM piece WHERE {OF_BOOK}"],
    "a book renamed": ["UPDATE book SET name = CAST('cook' AS BLOB) WHERE name = CAST('book' AS BLOB)"],
    "a book removed": [
        f"DELETE FROM piece WHERE {OF_BOOK}",
        f"DELETE FROM entry WHERE {OF_BOOK}",
        "DELETE FROM book WHERE name = CAST('book' AS BLOB)",
    ],
    "a book put into another space": ["UPDATE book SET space = 'elsewhere'"],
    "a book's count altered": ["UPDATE book SET entries = 4 WHERE name = CAST('book' AS BLOB)"],
    "a value that is a text": [f"UPDATE entry SET body = 'text' WHERE {KEY_2}"],
    "a value that is a number": [f"UPDATE entry SET body = 5, head = 1.5 WHERE {KEY_2}"],
    "a tag that is a text": [f"UPDATE entry SET tag = 'text' WHERE {KEY_2}"],
    "a tag that is too long": [f"UPDATE entry SET tag = zeroblob(99) WHERE {KEY_2}"],
    "a key that is a number": [f"UPDATE entry SET key = 7 WHERE {KEY_2}"],
    "a key that is a text": [f"UPDATE entry SET key = 'key 2' WHERE {KEY_2}"],
    "a mark that is a text": [f"UPDATE entry SET mark = CAST(mark AS TEXT) WHERE {OF_BOOK}"],
    "a name that is a text": ["UPDATE book SET name = 'book' WHERE name = CAST('book' AS BLOB)"],
    "a space that is bytes": ["UPDATE book SET space = CAST(space AS BLOB)"],
    "a piece that is a number": [f"UPDATE piece SET content = 1, size = 'x' WHERE {OF_BOOK}"],
    "a piece of an endless size": [f"UPDATE piece SET size = 9223372036854775807 WHERE {OF_BOOK}"],
    "a book's total that is a text": ["UPDATE book SET total = 'text'"],
    "a book's count that is a text": ["UPDATE book SET entries = 'text', loose = 'x'"],
    "a book's name that is a number": ["UPDATE book SET name = 3 WHERE name = CAST('book' AS BLOB)"],
    "a seal that is a text": ["UPDATE meta SET value = 'text' WHERE name IN ('seal', 'root')"],
    "the seal altered": ["UPDATE meta SET value = x'00' WHERE name = 'seal'"],
    "the number altered": ["UPDATE meta SET value = 99 WHERE name = 'serial'"],
    "the seal removed": ["DELETE FROM meta WHERE name = 'seal'"],
}


def everything(ledger: Ledger) -> list[object]:
    def read(page: LedgerReader) -> list[object]:
        return [page.body(one) for name in ("book", "cook") for one in page.entries(name)]

    return ledger.look(read)


def faults(project: Path, store: Path) -> tuple[str, ...]:
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        return workspace.verify().faults


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_from_outside_is_found_out_when_it_is_read_and_by_verify(
    edit: str, ledger: Ledger, forge: Forge, reopened: Callable[[], Ledger], project: Path, store: Path
) -> None:
    """K4."""
    assert len(everything(ledger)) == 5
    forge(*EDITS[edit])
    for one in (ledger, reopened()):
        with pytest.raises(Damaged):
            everything(one)
    found = faults(project, store)
    assert found
    assert all(text.startswith("ledger.sqlite3: ") for text in found)


def test_an_entry_moved_to_where_nobody_looks_is_missed(ledger: Ledger, forge: Forge) -> None:
    newest = f"{OF_BOOK} AND key = CAST('key 4' AS BLOB)"
    forge(f"UPDATE entry SET key = CAST('elsewhere' AS BLOB) WHERE {newest}")
    with pytest.raises(Damaged, match="has lost entries"):
        ledger.look(lambda page: page.entries("book", prefix="key", newest_first=True, limit=1))


def test_what_was_altered_stays_found_out_after_more_is_written(ledger: Ledger, forge: Forge) -> None:
    forge(f"DELETE FROM entry WHERE {KEY_2}")
    with pytest.raises(Damaged, match="has lost entries"):
        ledger.change(lambda book: book.put("book", "key 9"))
    ledger.change(lambda book: book.put("other", "more"))
    with pytest.raises(Damaged, match="has lost entries"):
        everything(ledger)


def test_one_bad_book_does_not_hide_the_others(ledger: Ledger, forge: Forge) -> None:
    """K4."""
    forge(f"UPDATE entry SET head = x'4e00' WHERE {KEY_2}")
    assert ledger.look(lambda page: len(page.entries("other"))) == 1
    ledger.change(lambda book: book.drop_book("book"))
    assert everything(ledger) == []


def copy_of(store: Path) -> Path:
    return shutil.copytree(store, store.with_name("copy"))


def put_back(copy: Path, store: Path) -> None:
    shutil.rmtree(store)
    shutil.move(copy, store)


def test_an_older_copy_of_the_store_is_found_out(
    ledger: Ledger, reopened: Callable[[], Ledger], project: Path, store: Path
) -> None:
    copy = copy_of(store)
    ledger.change(lambda book: book.put("book", "key 9"))
    put_back(copy, store)
    with pytest.raises(Damaged, match="is not the one last seen") as caught:
        everything(reopened())
    assert "accept" in caught.value.hint
    with pytest.raises(Damaged):
        reopened().change(lambda book: book.put("book", "key 9"))
    assert any("last seen" in text for text in faults(project, store))


def test_an_older_copy_is_found_out_by_who_has_the_ledger_open(ledger: Ledger, store: Path) -> None:
    """What it knows by itself is of the file that lay there, and counts no more."""
    copy = copy_of(store)
    ledger.change(lambda book: book.put("book", "key 9"))
    assert len(everything(ledger)) == 6
    put_back(copy, store)
    with pytest.raises(Damaged, match="is not the one last seen"):
        everything(ledger)


def test_its_owner_may_accept_an_older_copy(
    ledger: Ledger, reopened: Callable[[], Ledger], project: Path, store: Path
) -> None:
    copy = copy_of(store)
    for number in range(20):
        ledger.change(lambda book, n=number: book.put("book", f"lost {n}"))  # type: ignore[misc]
    put_back(copy, store)
    again = reopened()
    again.accept()
    assert len(everything(again)) == 5
    again.change(lambda book: book.put("book", "key 9"))
    assert len(everything(reopened())) == 6
    assert faults(project, store) == ()


def test_another_line_of_changes_of_the_same_length_is_found_out(
    ledger: Ledger,
    reopened: Callable[[], Ledger],
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = copy_of(store)
    ledger.change(lambda book: book.put("book", "key 9", body="here"))
    monkeypatch.setenv("LASTGOOD_WITNESS", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    home = tmp_path / os.environ["HOME"] / ".local/share/lastgood-witness"
    shutil.copy(home / "key", tmp_path / "elsewhere" / "key")
    with lastgood.open(tmp_path / "project", store=copy, maintenance="off") as workspace:
        workspace.ledger("test").change(lambda book: book.put("book", "key 9", body="there"))
    monkeypatch.delenv("LASTGOOD_WITNESS")
    put_back(copy, store)
    with pytest.raises(Damaged, match="is not the one last seen"):
        everything(reopened())


def test_a_ledger_that_is_gone_is_not_begun_anew(
    ledger: Ledger, reopened: Callable[[], Ledger], project: Path, store: Path
) -> None:
    assert everything(ledger)
    for name in os.listdir(store):
        if name.startswith("ledger"):
            (store / name).unlink()
    with pytest.raises(Damaged, match="is gone"):
        reopened()
    assert any("is gone" in text for text in faults(project, store))


def test_a_new_store_in_the_same_place_is_another_one(
    ledger: Ledger, reopened: Callable[[], Ledger], store: Path
) -> None:
    assert everything(ledger)
    shutil.rmtree(store)
    assert everything(reopened()) == []


def test_a_store_that_was_sealed_with_another_key_has_to_be_accepted(
    ledger: Ledger, reopened: Callable[[], Ledger], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert everything(ledger)
    monkeypatch.setenv("LASTGOOD_WITNESS", str(tmp_path / "of another machine"))
    elsewhere = reopened()
    with pytest.raises(Damaged, match="was not sealed here"):
        everything(elsewhere)
    elsewhere.accept()
    assert len(everything(elsewhere)) == 5


def test_its_owner_may_accept_a_ledger_without_its_seal(
    ledger: Ledger, forge: Forge, reopened: Callable[[], Ledger], project: Path, store: Path
) -> None:
    forge("DELETE FROM meta WHERE name <> 'changes'")
    ledger.accept()
    assert len(everything(reopened())) == 5
    assert faults(project, store) == ()


def test_accepting_drops_what_is_not_whole_and_keeps_the_rest(
    ledger: Ledger, forge: Forge, reopened: Callable[[], Ledger], project: Path, store: Path
) -> None:
    forge(f"DELETE FROM piece WHERE number = (SELECT min(number) FROM piece WHERE {OF_BOOK})")
    ledger.accept()
    assert len(everything(reopened())) == 4
    assert faults(project, store) == ()


def test_a_witness_that_was_torn_or_is_behind_does_no_harm(
    ledger: Ledger, reopened: Callable[[], Ledger]
) -> None:
    place = os.path.join(os.environ["HOME"], ".local/share/lastgood-witness")
    (name,) = (one for one in os.listdir(place) if one != "key")
    with open(os.path.join(place, name), "r+b") as file:
        whole = file.read()
        file.seek(0)
        file.write(whole[:100])
        file.truncate()
    assert len(everything(reopened())) == 5
    with open(os.path.join(place, name), "wb") as file:
        file.write(os.urandom(384))
    assert len(everything(reopened())) == 5
    ledger.change(lambda book: book.put("book", "key 9"))
    assert len(everything(reopened())) == 6


PROGRAM = """
import sys
import lastgood
ledger = lastgood.open(sys.argv[1], store=sys.argv[2], maintenance="off").ledger("test")
number = 0
while True:
    ledger.change(lambda book: (
        book.put("killed", f"{number:06}", body=["y" * 300] * number),
        book.put("pair", "count", body=number),
        book.drop("killed", [f"{number - 5:06}"]),
    ))
    number += 1
    print(number, flush=True)
"""


@pytest.mark.chance("how far a writer is when it is killed")
@pytest.mark.parametrize("after", [0.03, 0.1, 0.2, 0.3, 0.35])
def test_killed_anywhere_it_holds_what_was_acknowledged_and_nothing_half(
    after: float, project: Path, store: Path, reopened: Callable[[], Ledger]
) -> None:
    words = [sys.executable, "-c", PROGRAM, str(project), str(store)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    assert running.stdout.readline() == "1\n"
    time.sleep(after)
    running.send_signal(signal.SIGKILL)
    acknowledged = int(["1", *running.stdout.read().split()][-1])
    running.wait()
    running.stdout.close()

    def read(page: LedgerReader) -> tuple[list[str], object]:
        entry = not_none(page.entry("pair", "count"))
        return [one.key for one in page.entries("killed")], page.body(entry)

    names, count = reopened().look(read)
    assert isinstance(count, int)
    assert count + 1 >= acknowledged
    assert names == [f"{number:06}" for number in range(max(0, count - 4), count + 1)]
    assert faults(project, store) == ()


def test_on_a_full_disk_it_says_so_and_keeps_what_it_had(ledger: Ledger, project: Path, store: Path) -> None:
    """S14: no false success."""
    program = PROGRAM.replace("import sys", "import resource, signal, sys", 1).replace(
        "number = 0",
        "number = 0\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))",
    )
    words = [sys.executable, "-c", program, str(project), str(store)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert "Storage" in done.stderr
    kept = int(done.stdout.split()[-1])

    def read(page: LedgerReader) -> object:
        entry = page.entry("pair", "count")
        return None if entry is None else page.body(entry)

    assert ledger.look(read) == kept - 1
    assert faults(project, store) == ()


def test_a_ledger_of_garbage_is_damage(ledger: Ledger, reopened: Callable[[], Ledger], store: Path) -> None:
    assert everything(ledger)
    (store / "ledger.sqlite3").write_bytes(b"not a database" * 100)
    with pytest.raises(LastgoodError):
        everything(reopened())
