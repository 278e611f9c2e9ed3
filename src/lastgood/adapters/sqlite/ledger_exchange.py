"""Books on their way from one ledger to another: without tags, which the key of each makes for itself."""

from __future__ import annotations

import os

from lastgood.adapters.sqlite.ledger import Book, compressed, entry_tag, follow, place_tag, read_piece
from lastgood.adapters.sqlite.ledger_mending import books_in, is_whole
from lastgood.adapters.sqlite.ledger_seal import NOTHING, plus, tampered
from lastgood.codec.plain import piece_id, references
from lastgood.errors import Damaged
from lastgood.model.exchange import KeptBook
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from lastgood.adapters.sqlite.ledger_file import LedgerFile
    from lastgood.adapters.sqlite.ledger_seal import Root

_COUNT = "SELECT count(*) FROM book WHERE workspace = ?"
_KNOWN = "SELECT 1 FROM book WHERE workspace = ? AND space = ? AND name = ?"
_CELLS = (
    "SELECT CAST(key AS BLOB), CAST(mark AS BLOB), CAST(head AS BLOB), CAST(body AS BLOB)"
    " FROM entry WHERE book = ? ORDER BY key"
)
# How large what one entry holds may be when it is read, in bytes.
_EXPANDED_MOST = 1 << 30
_AGAIN = "export again; nothing was imported"


def count(connection: sqlite3.Connection, workspaces: Sequence[str]) -> int:
    """Return how many books some workspaces have."""
    return sum(int(connection.execute(_COUNT, (key,)).fetchone()[0]) for key in workspaces)


def leaving(
    file: LedgerFile, connection: sqlite3.Connection, workspaces: Sequence[str]
) -> tuple[KeptBook, ...]:
    """Return the books of some workspaces, each proven; `Damaged` if one is not whole."""
    found = []
    for one in books_in(connection):
        workspace, space = one.place
        if workspace not in workspaces:
            continue
        if not is_whole(file, connection, one):
            raise tampered(f"the book {one.shown}", "is not as it was written")
        entries = tuple(connection.execute(_CELLS, (one.book.number,)).fetchall())
        needed: set[bytes] = set()
        follow(connection, one.book.number, (cell for entry in entries for cell in entry[2:]), needed)
        pieces = tuple(read_piece(connection, one.book.number, id) for id in sorted(needed))
        found.append(
            KeptBook(workspace_key=workspace, space=space, name=one.book.name, entries=entries, pieces=pieces)
        )
    return tuple(found)


def prove(books: Sequence[KeptBook]) -> None:
    """Raise `Damaged` for a book that is not whole, or whose values expand beyond reason."""
    for book in books:
        names = [book.name, *(key for key, *_ in book.entries)]
        names += [mark for _, mark, _, _ in book.entries if mark is not None]
        if len({key for key, *_ in book.entries}) != len(book.entries) or not all(map(_is_text, names)):
            raise _refused(book, "it names something twice, or by no text")
        pieces = {piece_id(cell): cell for cell in book.pieces}
        sizes: dict[bytes, int] = {}
        try:
            for _, _, head, body in book.entries:
                if _expanded(head, pieces, sizes) + _expanded(body, pieces, sizes) > _EXPANDED_MOST:
                    raise _refused(book, "a value in it is absurdly large")
        except (KeyError, RecursionError):
            raise _refused(book, "it lacks a piece of what it holds") from None


def _is_text(name: bytes) -> bool:
    try:
        name.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _expanded(cell: bytes, pieces: dict[bytes, bytes], sizes: dict[bytes, int]) -> int:
    """Return how large a cell is with all that it refers to, however often."""
    size = len(cell)
    for id in references(cell):
        if id not in sizes:
            sizes[id] = _expanded(pieces[id], pieces, sizes)
        size += sizes[id]
    return size


def _refused(book: KeptBook, reason: str) -> Damaged:
    name = printable(f"{book.space} {book.name.decode('utf-8', 'backslashreplace')}")
    return Damaged(f"the book {name} of the export cannot be taken in: {reason}", hint=_AGAIN)


def take_in(file: LedgerFile, connection: sqlite3.Connection, root: Root, books: Sequence[KeptBook]) -> int:
    """Add the books that are not here yet, sealed by this key; return how many."""
    return sum(_added(file, connection, root, book) for book in books)


def _added(file: LedgerFile, connection: sqlite3.Connection, root: Root, kept: KeptBook) -> bool:
    place = (kept.workspace_key, kept.space)
    if connection.execute(_KNOWN, (*place, kept.name)).fetchone():
        return False
    book = Book(kept.name, (0, os.urandom(16), len(kept.entries), NOTHING, 0, NOTHING))
    rows = []
    for key, mark, head, body in kept.entries:
        tag = entry_tag(file, book.born, key, mark, head, body)
        book.total = plus(book.total, place_tag(file, book.born, key, mark, tag))
        rows.append((key, mark, tag, head, body))
    book.tag = file.tag(*book.fields(place))
    number = connection.execute(
        "INSERT INTO book (workspace, space, name, born, entries, total, loose, tag)"
        " VALUES (?, ?, ?, ?, ?, ?, 0, ?)",
        (*place, book.name, book.born, book.entries, book.total, book.tag),
    ).lastrowid
    connection.executemany(
        "INSERT INTO entry (book, key, mark, tag, head, body) VALUES (?, ?, ?, ?, ?, ?)",
        ((number, *row) for row in rows),
    )
    pieces = {piece_id(cell): cell for cell in kept.pieces}
    connection.executemany(
        "INSERT INTO piece (book, id, size, content) VALUES (?, ?, ?, ?)",
        ((number, id, len(cell), compressed(cell)) for id, cell in pieces.items()),
    )
    root.total = plus(root.total, book.tag)
    return True
