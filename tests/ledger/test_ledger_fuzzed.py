"""Whatever is done to its file, a ledger gives what was put in, or says that it is damaged."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import lastgood
from lastgood.errors import LastgoodError
from lastgood.ledger import LedgerReader, LedgerWriter

ROUNDS = 120


@pytest.fixture(autouse=True)
def kept(project: Path, store: Path) -> None:
    """Have a ledger that nobody has open."""
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        workspace.ledger("test").change(write)
    settled(store)


def write(page: LedgerWriter) -> None:
    for number in range(5):
        page.put(
            "book", f"key {number}", mark="odd" if number % 2 else None, head=number, body=["x" * 400, number]
        )
    page.put("other", "only", head="of another book", body=["z" * 400])


def told(project: Path, store: Path) -> object:
    """Return everything that a ledger tells, None where it says that it is damaged."""

    def read(page: LedgerReader) -> object:
        books = {
            name: [(one.key, one.mark, one.head, page.body(one)) for one in page.entries(name)]
            for name in page.books()
        }
        newest = page.entries("book", prefix="key", newest_first=True, limit=1)
        return books, page.marked("odd"), [one.key for one in newest], page.entry("book", "key 2") is not None

    try:
        with lastgood.open(project, store=store, maintenance="off") as workspace:
            return workspace.ledger("test").look(read)
    except LastgoodError:
        return None


def settled(store: Path) -> bytes:
    """Bring everything into the one file, and return its content."""
    with closing(sqlite3.connect(store / "ledger.sqlite3")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return (store / "ledger.sqlite3").read_bytes()


def lay(store: Path, content: bytes) -> None:
    for name in os.listdir(store):
        if name.startswith("ledger.sqlite3-"):
            (store / name).unlink()
    (store / "ledger.sqlite3").write_bytes(content)


@pytest.mark.parametrize("seed", range(2))
def test_altered_columns_and_rows(seed: int, project: Path, store: Path) -> None:
    """K4, S8 of state files: no exception but ours."""
    whole, sound = told(project, store), settled(store)
    assert whole is not None
    chance = random.Random(seed)
    missed = 0
    for _ in range(ROUNDS):
        with closing(sqlite3.connect(store / "ledger.sqlite3")) as connection:
            statement = alteration(chance, connection)
            try:
                connection.execute(*statement)
            except sqlite3.IntegrityError:
                continue
            connection.commit()
        found = told(project, store)
        assert found in (None, whole), statement
        missed += found is not None
        lay(store, sound)
    assert missed < ROUNDS / 2
    assert told(project, store) == whole


def alteration(chance: random.Random, connection: sqlite3.Connection) -> tuple[str, list[object]]:
    """Return a statement that alters, removes or doubles something."""
    table = chance.choice(["book", "entry", "entry", "piece", "meta"])
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    key = columns[0]
    rows = connection.execute(f"SELECT {key}, * FROM {table}").fetchall()
    row = chance.choice(rows)
    if chance.random() < 0.15:
        return f"DELETE FROM {table} WHERE {key} = ?", [row[0]]
    place = chance.randrange(1, len(columns))
    return f"UPDATE {table} SET {columns[place]} = ? WHERE {key} = ?", [
        altered(chance, row[1 + place], rows),
        row[0],
    ]


def altered(chance: random.Random, value: object, rows: list[tuple[object, ...]]) -> object:
    if isinstance(value, bytes) and value and chance.random() < 0.4:
        place = chance.randrange(len(value))
        return value[:place] + bytes([value[place] ^ 1 << chance.randrange(8)]) + value[place + 1 :]
    other = chance.choice(chance.choice(rows))
    return chance.choice([other, None, -1, 2**62, 1.5, "text", b"", b"\xff" * 40, chance.randbytes(30)])


def test_flipped_bits_and_lost_pages(project: Path, store: Path) -> None:
    """K4."""
    whole, sound = told(project, store), settled(store)
    chance = random.Random(3)
    for number in range(ROUNDS):
        content = bytearray(sound)
        if number % 4:
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        elif number % 8:
            place = chance.randrange(0, len(content), 4096)
            content[place : place + 4096] = bytes(4096)
        else:
            del content[chance.randrange(len(content)) :]
        lay(store, bytes(content))
        assert told(project, store) in (None, whole)
    lay(store, sound)
    assert told(project, store) == whole


def test_a_file_of_another_ledger_is_not_taken_for_it(project: Path, store: Path) -> None:
    whole = told(project, store)
    other = store.with_name("other store")
    with lastgood.open(project, store=other, maintenance="off") as workspace:
        workspace.ledger("test").change(lambda book: book.put("book", "key 2", body="of another store"))
    settled(other)
    sound = settled(store)
    shutil.copy(other / "ledger.sqlite3", store / "ledger.sqlite3")
    assert told(project, store) is None
    lay(store, sound)
    assert told(project, store) == whole
