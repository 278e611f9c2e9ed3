"""Proving a whole ledger, and taking a state of it as genuine because its owner says so."""

from __future__ import annotations

from lastgood.adapters.sqlite.backup import structure_fault
from lastgood.adapters.sqlite.ledger import (
    Book,
    entry_tag,
    follow,
    place_tag,
    prove_entries,
    read_piece,
    sweep,
)
from lastgood.adapters.sqlite.ledger_seal import NOTHING, plus
from lastgood.errors import Damaged, LastgoodError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from lastgood.adapters.sqlite.ledger_file import LedgerFile
    from lastgood.adapters.sqlite.ledger_seal import Root, Tags

_BOOKS = (
    "SELECT workspace, space, CAST(name AS BLOB), number, CAST(born AS BLOB), entries, CAST(total AS BLOB),"
    " loose, CAST(tag AS BLOB) FROM book ORDER BY number"
)
_ENTRIES = (
    "SELECT number, CAST(key AS BLOB), CAST(mark AS BLOB), CAST(tag AS BLOB), CAST(head AS BLOB),"
    " CAST(body AS BLOB) FROM entry WHERE book = ? ORDER BY number"
)


def check(file: LedgerFile) -> Sequence[str]:
    """Prove every entry and every piece, and say what is wrong."""
    file.forget()
    try:
        return file.look(lambda connection: list(faults_in(file, connection)))
    except LastgoodError as error:
        return [f"{error.message} ({error.hint})"]


def faults_in(file: Tags, connection: sqlite3.Connection) -> Iterator[str]:
    """Yield what is wrong with the structure, the books and the entries of a ledger."""
    fault = structure_fault(connection)
    if fault is not None:
        yield fault
    for workspace, space, name, *row in connection.execute(_BOOKS).fetchall():
        number, born, entries, total, loose, tag = row
        book = Book(name, (number, born, entries, total, loose, tag))
        shown = f"{space} {name.decode('utf-8', 'backslashreplace')}"
        if tag != file.tag(*book.fields((workspace, space))):
            yield f"{shown}: the book is not as it was written"
        try:
            prove_entries(file, connection, book)
        except Damaged as error:
            yield f"{shown}: {error.message}"
        yield from (f"{shown}: {fault}" for fault in _book_faults(file, connection, book))


def _book_faults(file: Tags, connection: sqlite3.Connection, book: Book) -> Iterator[str]:
    for (id,) in connection.execute(
        "SELECT CAST(id AS BLOB) FROM piece WHERE book = ?", (book.number,)
    ).fetchall():
        try:
            read_piece(connection, book.number, id)
        except Damaged as error:
            yield error.message
    found: set[bytes] = set()
    for _, key, mark, tag, head, body in connection.execute(_ENTRIES, (book.number,)).fetchall():
        shown = key.decode("utf-8", "backslashreplace")
        if tag != entry_tag(file, book.born, key, mark, head, body):
            yield f"the entry {shown!r} is not as it was written"
        try:
            follow(connection, book.number, (head, body), found)
        except Damaged as error:
            yield f"the entry {shown!r}: {error.message}"


def accept(file: LedgerFile) -> None:
    """Make tags and sums those of what is there; entries whose values are not whole are dropped."""

    def taken(connection: sqlite3.Connection, root: Root) -> None:
        root.total = NOTHING
        for workspace, space, name, *row in connection.execute(_BOOKS).fetchall():
            number, born, _entries, _total, loose, _tag = row
            book = Book(name, (number, born, 0, NOTHING, loose, NOTHING))
            _take_entries(file, connection, book)
            tag = file.tag(*book.fields((workspace, space)))
            connection.execute(
                "UPDATE book SET (name, born, entries, total, loose, tag) = (?, ?, ?, ?, 0, ?)"
                " WHERE number = ?",
                (name, born, book.entries, book.total, tag, number),
            )
            root.total = plus(root.total, tag)

    file.overwrite(taken)


def _take_entries(file: LedgerFile, connection: sqlite3.Connection, book: Book) -> None:
    for number, key, mark, _tag, head, body in connection.execute(_ENTRIES, (book.number,)).fetchall():
        try:
            follow(connection, book.number, (head, body), set())
        except Damaged:
            connection.execute("DELETE FROM entry WHERE number = ?", (number,))
            continue
        tag = entry_tag(file, book.born, key, mark, head, body)
        fields = (tag, key, mark, head, body, number)
        connection.execute(
            "UPDATE entry SET tag = ?, key = ?, mark = ?, head = ?, body = ? WHERE number = ?", fields
        )
        book.total = plus(book.total, place_tag(file, book.born, key, mark, tag))
        book.entries += 1
    sweep(connection, book.number)
