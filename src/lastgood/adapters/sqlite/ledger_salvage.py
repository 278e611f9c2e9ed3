"""Reading what a damaged ledger still yields: row by row, so that one bad page hides no other."""

from __future__ import annotations

from lastgood.adapters.sqlite.faults import BROKEN, is_damage, primary_code
from lastgood.adapters.sqlite.ledger import entry_tag, opened_piece
from lastgood.adapters.sqlite.ledger_mending import Found
from lastgood.adapters.sqlite.library import sqlite3
from lastgood.errors import Damaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lastgood.adapters.sqlite.ledger_seal import Tags

    Row = tuple[object, ...]

_META = "SELECT name, value FROM meta"
_BOOK = (
    "workspace",
    "space",
    "number",
    "CAST(name AS BLOB)",
    "CAST(born AS BLOB)",
    "entries",
    "CAST(total AS BLOB)",
    "loose",
    "CAST(tag AS BLOB)",
    "typeof(workspace) || typeof(space) || typeof(name)",
)
_PLACE = ("book", "CAST(key AS BLOB)", "CAST(mark AS BLOB)", "CAST(tag AS BLOB)")
_VALUES = ("CAST(head AS BLOB)", "CAST(body AS BLOB)")
_PIECE = ("book", "CAST(id AS BLOB)", "CAST(size AS INTEGER)", "CAST(content AS BLOB)")
_ENTRY = "INTO entry (book, key, mark, tag, head, body) VALUES (?, ?, ?, ?, ?, ?)"
_OVER = f"INSERT OR REPLACE {_ENTRY}"
_BESIDE = f"INSERT OR IGNORE {_ENTRY}"
# Where no row of the rest can be read: how many numbers are tried in a row.
_FAR = 100_000


def take_over(source: sqlite3.Connection, target: sqlite3.Connection, *, tags: Tags) -> None:
    """Write what can be read of a damaged ledger into an empty one.

    A book is taken if its tag proves it, a piece if its name does. An entry is taken as it is, because its
    book's total counts it: where a value of it cannot be read it has an empty one, which no tag proves.
    Raises what SQLite says that is not about the file.
    """
    target.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", source.execute(_META))
    target.execute("INSERT OR IGNORE INTO meta VALUES ('changes', 0)")
    books = {}
    for row in _rows(source, "book", _BOOK):
        one = Found(row)
        book = one.book
        if one.typed and book.tag == tags.tag(*book.fields(one.place)):
            loose = book.loose if isinstance(book.loose, int) else 0
            fields = (
                book.number,
                *one.place,
                book.name,
                book.born,
                book.entries,
                book.total,
                loose,
                book.tag,
            )
            target.execute("INSERT OR IGNORE INTO book VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", fields)
            books[book.number] = book.born
    for number, *cells in _rows(source, "entry", _PLACE, values=_VALUES):
        if number in books:
            _put_entry(target, tags, books[number], (number, *cells))
    target.executemany(
        "INSERT OR IGNORE INTO piece (book, id, size, content) VALUES (?, ?, ?, ?)",
        (row for row in _rows(source, "piece", _PIECE) if row[0] in books and _is_sound(row)),
    )


def _put_entry(target: sqlite3.Connection, tags: Tags, born: bytes, row: Row) -> None:
    """Add an entry; of two with one key that which is proven."""
    _, key, mark, tag, head, body = row
    proven = tag == entry_tag(tags, born, key, mark, head, body)  # type: ignore[arg-type]
    target.execute(_OVER if proven else _BESIDE, row)


def _is_sound(row: Row) -> bool:
    _, id, size, content = row
    try:
        opened_piece(id, size, content)  # type: ignore[arg-type]
    except (Damaged, TypeError):
        return False
    return True


def _rows(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], *, values: Sequence[str] = ()
) -> Iterator[Row]:
    """Yield the rows of a table that can be read; a value that cannot is empty."""
    wanted = ", ".join(("number", *columns, *values))
    statement = f"SELECT {wanted} FROM {table} WHERE number > ? ORDER BY number"  # noqa: S608 - names of ours
    at = misses = 0
    while misses < _FAR:
        try:
            for number, *row in connection.execute(statement, (at,)):
                at = max(at, number)
                misses = 0
                yield tuple(row)
            break
        except BROKEN as error:
            _demand_damage(error)
        at += 1
        misses += 1
        kept = _one(connection, table, at, columns)
        if kept is not None:
            misses = 0
            yield (*kept, *(_value(connection, table, at, value) for value in values))


def _value(connection: sqlite3.Connection, table: str, number: int, column: str) -> object:
    found = _one(connection, table, number, (column,))
    return b"" if found is None else found[0]


def _one(connection: sqlite3.Connection, table: str, number: int, columns: Sequence[str]) -> Row | None:
    statement = f"SELECT {', '.join(columns)} FROM {table} WHERE number = ?"  # noqa: S608 - names of ours
    try:
        row: Row | None = connection.execute(statement, (number,)).fetchone()
    except BROKEN as error:
        _demand_damage(error)
        return None
    return row


def _demand_damage(error: sqlite3.Error | UnicodeDecodeError) -> None:
    """Raise an error again that says nothing about the file: what cannot be read now may be, later."""
    if not is_damage(error) and primary_code(error) != sqlite3.SQLITE_TOOBIG:
        raise error
