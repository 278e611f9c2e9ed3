"""Damage to the ledger's file: what can be read of it can be after a repair, and the rest comes back (K4)."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest

from lastgood.errors import Damaged, LastgoodError
from lastgood.ledger import LedgerReader, LedgerWriter
from lastgood.ledger.store import SqliteLedgers
from lastgood.ledger_anchor import LedgerAnchor
from lastgood.testing.clock import FakeClock
from tools.values import not_none

Change = Callable[[Callable[[LedgerWriter], object]], None]

KEY = "aa" * 10
PAGE = 4096
LOST = "a body that cannot be read"
# Books, their keys, and of each entry what can be read: its head, tag and body.
Read = dict[str, dict[str, tuple[object, ...]]]
Copied = Literal["with a copy", "without a copy"]
COPIED = pytest.mark.parametrize("copied", ["with a copy", "without a copy"])


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return where the ledger of this test lies."""
    (tmp_path / "store").mkdir()
    return str(tmp_path / "store" / "ledger.sqlite3")


@pytest.fixture
def opened(path: str, tmp_path: Path) -> Iterator[Callable[[], SqliteLedgers]]:
    """Return a call that opens the ledger as another process would."""
    every: list[SqliteLedgers] = []

    def open_anew() -> SqliteLedgers:
        for one in every:
            one.close()
        anchor = LedgerAnchor(os.fsencode(tmp_path / "witness"), store="a store")
        every.append(SqliteLedgers(path, anchor=anchor, clock=FakeClock()))
        return every[-1]

    yield open_anew
    for one in every:
        one.close()


@pytest.fixture
def change(opened: Callable[[], SqliteLedgers]) -> Change:
    """Return a call that changes the ledger, and closes it."""

    def do(work: Callable[[LedgerWriter], object]) -> None:
        ledgers = opened()
        ledgers.space("test", workspace=KEY).change(work)
        ledgers.close()

    return do


def fill(ledger: LedgerWriter) -> None:
    """Write a book of many pages, and a small one."""
    for number in range(60):
        ledger.put("large", f"{number:03}", mark="m", head={"n": number, "text": "x" * 180})
    for number in range(4):
        ledger.put("small", f"{number}", head=number, body=[f"{number} {at}" for at in range(200)])


def write_more(ledger: LedgerWriter) -> None:
    ledger.put("small", "4", head="newer", body=[f"newer {at}" for at in range(200)])
    ledger.put("small", "1", head="replaced")
    ledger.drop("small", ["0"])


def prepared(
    opened: Callable[[], SqliteLedgers],
    change: Change,
    copied: Copied,
) -> Read:
    """Make a ledger that is newer than its copy, or has none, and return what it holds."""
    change(fill)
    if copied == "with a copy":
        assert opened().back_up()
    change(write_more)
    return told(opened)


def told(opened: Callable[[], SqliteLedgers]) -> Read:
    """Return all that can be read, entry by entry, each asked for by itself."""
    every: Read = {}
    ledgers = opened()
    for book, keys in (("large", range(60)), ("small", range(5))):
        for key in (f"{number:03}" if book == "large" else f"{number}" for number in keys):
            try:
                found = ledgers.space("test", workspace=KEY).look(lambda it, at=(book, key): entry(it, *at))  # type: ignore[misc]
            except LastgoodError:
                continue
            if found is not None:
                every.setdefault(book, {})[key] = found
    ledgers.close()
    return every


def entry(reader: LedgerReader, book: str, key: str) -> tuple[object, ...] | None:
    found = reader.entry(book, key)
    if found is None:
        return None
    try:
        return found.head, found.cell, reader.body(found)
    except LastgoodError:
        return found.head, found.cell, LOST


def settled(path: str) -> bytearray:
    """Bring everything into the one file, and return its content."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return bytearray(Path(path).read_bytes())


def root_page(path: str, name: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        row = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    return int(row[0])


def wipe(path: str, name: str, *, leaf: bool = False) -> None:
    """Write zeros over the root page of a table or index, or over the first leaf under it."""
    content = settled(path)
    start = (root_page(path, name) - 1) * PAGE
    if leaf:
        cell = int.from_bytes(content[start + 12 : start + 14], "big")
        start = (int.from_bytes(content[start + cell : start + cell + 4], "big") - 1) * PAGE
    content[start : start + PAGE] = bytes(PAGE)
    Path(path).write_bytes(content)


def wipe_marks(path: str) -> None:
    wipe(path, "entry_marked")


def deny_writing(path: str) -> None:
    content = settled(path)
    content[18] ^= 4
    Path(path).write_bytes(content)


HARMS = pytest.mark.parametrize("harm", [wipe_marks, deny_writing], ids=["a page", "the form for writing"])


def alter(path: str, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def is_whole(opened: Callable[[], SqliteLedgers]) -> bool:
    return not opened().check()


@HARMS
@COPIED
def test_what_can_be_read_of_a_damaged_file_is_taken_over(
    path: str,
    opened: Callable[[], SqliteLedgers],
    change: Change,
    harm: Callable[[str], None],
    copied: Copied,
) -> None:
    whole = prepared(opened, change, copied)
    harm(path)
    damaged = Path(path).read_bytes()
    assert told(opened) == whole
    assert not is_whole(opened)
    assert opened().repair()
    assert told(opened) == whole
    assert is_whole(opened)
    (aside,) = Path(path).parent.glob("damaged/ledger-*/ledger.sqlite3")
    assert aside.read_bytes() == damaged
    assert opened().repair() == ()
    change(lambda ledger: ledger.put("small", "3", head="after"))
    assert told(opened)["small"]["3"][0] == "after"


@pytest.mark.parametrize("size", [16, 100], ids=["mark", "header"])
@COPIED
def test_a_ledger_whose_header_is_gone_is_as_it_was(
    path: str, opened: Callable[[], SqliteLedgers], change: Change, copied: Copied, size: int
) -> None:
    """By its first bytes SQLite tells a database from anything else."""
    whole = prepared(opened, change, copied)
    content = settled(path)
    content[:size] = bytes(size)
    Path(path).write_bytes(content)
    assert opened().repair()
    assert told(opened) == whole
    assert is_whole(opened)


@pytest.mark.parametrize("name", ["sqlite_autoindex_entry_1", "sqlite_autoindex_piece_1"])
@COPIED
def test_entries_whose_index_is_broken_come_back_as_they_were(
    path: str,
    opened: Callable[[], SqliteLedgers],
    change: Change,
    name: str,
    copied: Copied,
) -> None:
    whole = prepared(opened, change, copied)
    wipe(path, name)
    assert told(opened) != whole
    assert opened().repair()
    assert told(opened) == whole
    assert is_whole(opened)


def test_a_book_damaged_in_the_file_comes_from_the_copy_and_others_stay(
    path: str, opened: Callable[[], SqliteLedgers], change: Change
) -> None:
    whole = prepared(opened, change, "with a copy")
    wipe(path, "entry", leaf=True)
    assert told(opened) == {"small": whole["small"]}
    done = opened().repair()
    assert "the book test large of the ledger was brought back from its backup" in done
    assert told(opened) == whole
    assert is_whole(opened)


def test_without_a_copy_a_damaged_book_hides_no_other(
    path: str, opened: Callable[[], SqliteLedgers], change: Change
) -> None:
    whole = prepared(opened, change, "without a copy")
    wipe(path, "entry", leaf=True)
    assert opened().repair()
    assert told(opened) == {"small": whole["small"]}
    assert not is_whole(opened)
    assert opened().repair() == ()
    change(lambda ledger: ledger.put("small", "3", head="after"))


def test_a_book_removed_since_the_copy_does_not_come_back(
    path: str, opened: Callable[[], SqliteLedgers], change: Change
) -> None:
    prepared(opened, change, "with a copy")
    change(lambda ledger: ledger.drop_book("large"))
    deny_writing(path)
    assert opened().repair()
    assert list(told(opened)) == ["small"]
    assert is_whole(opened)


ONE = "key = CAST('{}' AS BLOB) AND book = (SELECT number FROM book WHERE name = CAST('small' AS BLOB))"


@pytest.mark.parametrize("harm", [None, wipe_marks, deny_writing])
def test_of_a_book_that_is_not_whole_the_readable_entries_stay(
    path: str,
    opened: Callable[[], SqliteLedgers],
    change: Change,
    harm: Callable[[str], None] | None,
) -> None:
    """In a file that SQLite reads and writes, and in one that it does not."""
    change(fill)
    older = told(opened)
    opened().back_up()
    change(write_more)
    whole = told(opened)
    alter(path, *(f"UPDATE entry SET head = x'4e00' WHERE {ONE.format(key)}" for key in (1, 2)))
    if harm is not None:
        harm(path)
    assert sorted(told(opened)["small"]) == ["3", "4"]
    assert opened().repair()
    found = told(opened)["small"]
    assert found == {**whole["small"], "1": older["small"]["1"]}
    assert is_whole(opened)
    assert opened().repair() == ()


@pytest.mark.parametrize("harm", [None, wipe_marks])
def test_an_entry_stays_whose_body_alone_is_lost(
    path: str,
    opened: Callable[[], SqliteLedgers],
    change: Change,
    harm: Callable[[str], None] | None,
) -> None:
    whole = prepared(opened, change, "with a copy")
    alter(path, "DELETE FROM piece")
    if harm is not None:
        harm(path)
    before = told(opened)["small"]
    assert before["4"][:2] == whole["small"]["4"][:2]
    assert opened().repair()
    found = told(opened)["small"]
    assert {key: entry[:2] for key, entry in found.items()} == {key: one[:2] for key, one in before.items()}
    assert (found["2"], found["3"], found["4"][2]) == (whole["small"]["2"], whole["small"]["3"], LOST)
    assert not is_whole(opened)
    assert opened().repair() == ()


@COPIED
def test_what_is_not_genuine_is_not_taken_over(
    path: str,
    opened: Callable[[], SqliteLedgers],
    change: Change,
    copied: Copied,
) -> None:
    """An older file that was put back, and is damaged."""
    change(fill)
    older = told(opened)
    if copied == "with a copy":
        opened().back_up()
    settled(path)
    shutil.copy(path, path + ".older")
    change(write_more)
    settled(path)
    os.replace(path + ".older", path)
    deny_writing(path)
    before = Path(path).read_bytes()
    assert bool(opened().repair()) == (copied == "with a copy")
    assert told(opened) == (older if copied == "with a copy" else {})
    assert copied == "with a copy" or Path(path).read_bytes() == before


def test_a_book_whose_record_is_lost_is_told_and_the_others_can_be_read_again(
    path: str, opened: Callable[[], SqliteLedgers], change: Change
) -> None:
    whole = prepared(opened, change, "without a copy")
    alter(path, "UPDATE book SET entries = 7 WHERE name = CAST('large' AS BLOB)")
    deny_writing(path)
    assert told(opened) == {}
    assert "what could not be read of the ledger is missing in it" in opened().repair()
    assert told(opened) == {"small": whole["small"]}
    assert is_whole(opened)


def test_where_a_file_is_set_aside_while_a_writer_waits_the_new_one_is_written_to(
    path: str, opened: Callable[[], SqliteLedgers], change: Change
) -> None:
    """S13: what is acknowledged is in the ledger."""
    prepared(opened, change, "without a copy")
    ledgers = opened()
    space = ledgers.space("test", workspace=KEY)
    space.look(lambda reader: reader.books())
    settled(path)

    def replace(statement: str) -> None:
        if statement == "BEGIN IMMEDIATE" and not Path(path + ".aside").exists():
            os.rename(path, path + ".aside")
            shutil.copy(path + ".aside", path)

    assert ledgers._file is not None
    not_none(ledgers._file._connection).set_trace_callback(replace)
    space.change(lambda ledger: ledger.put("small", "3", head="since"))
    assert told(opened)["small"]["3"][0] == "since"


def test_a_ledger_whose_form_for_writing_is_damaged_is_not_called_read_only(
    path: str, opened: Callable[[], SqliteLedgers], change: Change
) -> None:
    prepared(opened, change, "without a copy")
    deny_writing(path)
    with pytest.raises(Damaged, match="bears the form 6 for writing") as caught:
        change(lambda ledger: ledger.put("small", "3"))
    assert "verify --repair" in caught.value.hint


def test_a_ledger_is_not_begun_anew_beside_an_interrupted_repair(
    path: str,
    opened: Callable[[], SqliteLedgers],
    change: Change,
    tmp_path: Path,
) -> None:
    whole = prepared(opened, change, "without a copy")
    settled(path)
    os.rename(path, path + ".rescue")
    (seen,) = (name for name in (tmp_path / "witness").iterdir() if name.name != "key")
    seen.unlink()
    with pytest.raises(Damaged, match="interrupted"):
        change(fill)
    assert opened().repair() == ("an interrupted repair of the ledger was finished",)
    assert told(opened) == whole
