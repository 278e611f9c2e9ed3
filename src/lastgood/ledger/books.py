"""One moment of a space of a ledger: its books, their entries, and the pieces of what they hold."""

from __future__ import annotations

import marshal
import os
import zlib

from lastgood.errors import Damaged
from lastgood.ledger import LedgerEntry
from lastgood.ledger.cells import encode, pack, pairs, piece_id, references, remember_encoded, unpack
from lastgood.ledger.file import BOOK, NOTHING, minus, plus, tampered
from lastgood.paths import printable
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from lastgood.ledger.cells import Encoding
    from lastgood.ledger.file import BookRow, LedgerFile, Root, Tags

    Examine = Callable[[str, bytes], None]
    # An entry's key, mark, tag, head and body.
    Cells = tuple[bytes, bytes | None, bytes, bytes, bytes]

_BOOK = "SELECT number, CAST(born AS BLOB), entries, CAST(total AS BLOB), loose, CAST(tag AS BLOB) FROM book"
_ENTRY = (
    "SELECT CAST(key AS BLOB), CAST(mark AS BLOB), CAST(tag AS BLOB), CAST(head AS BLOB), CAST(body AS BLOB)"
    " FROM entry WHERE book = ?"
)
_PLACES = (
    "SELECT typeof(key) || typeof(mark), CAST(key AS BLOB), CAST(mark AS BLOB), CAST(tag AS BLOB)"
    " FROM entry WHERE book = ?"
)
_COPY_PIECES = (
    "INSERT INTO piece (book, id, size, content) SELECT ?, id, size, content FROM piece WHERE book = ?"
)
ADD_ENTRY = "INSERT INTO entry (book, key, mark, tag, head, body) VALUES (?, ?, ?, ?, ?, ?)"
ADD_PIECE = "INSERT INTO piece (book, id, size, content) VALUES (?, ?, ?, ?)"
# Parts that nothing needs any more are looked for after so many replaced entries, or any removed one.
_LOOSE = 256
_COMPRESSED = 128
_PIECE = "SELECT CAST(size AS INTEGER), CAST(content AS BLOB) FROM piece WHERE book = ? AND id = ?"
_PIECES = "SELECT CAST(id AS BLOB), CAST(size AS INTEGER), CAST(content AS BLOB) FROM piece WHERE book = ?"
_HOLDS = "SELECT 1 FROM piece WHERE book = ? AND id = ?"
# So many pieces are asked for together: a few lengths, so that SQLite keeps the statements prepared.
_TOGETHER = (8, 64, 512)
_WORTH = 2
# A version of `marshal` that writes what is met twice as two values, as cells are read.
_UNSHARED = 2


class Book:
    """A book as it is recorded, or is going to be."""

    __slots__ = ("born", "entries", "loose", "name", "number", "swept", "tag", "total")

    def __init__(self, name: bytes, row: BookRow) -> None:
        self.name: bytes = name
        self.number: int
        self.born: bytes
        self.entries: int
        self.total: bytes
        self.loose: int
        self.tag: bytes
        self.number, self.born, self.entries, self.total, self.loose, self.tag = row
        self.swept: bool = True

    def row(self) -> BookRow:
        """Return what its row holds."""
        return (self.number, self.born, self.entries, self.total, self.loose, self.tag)

    def fields(self, place: tuple[str, str]) -> tuple[bytes | int | str, ...]:
        """Return what the book's tag is made of."""
        return ("book", *place, self.name, self.born, self.entries, self.total)

    def count(self, file: Tags, key: bytes, mark: bytes | None, tag: bytes) -> None:
        """Add an entry to what the book is recorded to hold."""
        self.total = plus(self.total, place_tag(file, self.born, key, mark, tag))
        self.entries += 1


class Reader:
    """One moment of a space."""

    def __init__(self, file: LedgerFile, connection: sqlite3.Connection, place: tuple[str, str]) -> None:
        self._file = file
        self._connection = connection
        self._place = place
        self._books: dict[bytes, Book | None] = {}
        self._cells: dict[bytes, tuple[Book, bytes]] = {}
        # Keys, each with its book's number, of which a row was asked for in vain.
        self._absent: set[tuple[int, bytes]] = set()

    def books(self, *, prefix: str = "") -> Sequence[str]:
        """Return the names of the books that begin so, sorted."""
        least = _bytes(prefix)
        found = self._connection.execute(
            "SELECT CAST(name AS BLOB) FROM book WHERE workspace = ? AND space = ? AND name >= ? AND name < ?"
            " ORDER BY name",
            (*self._place, least, least + b"\xff"),
        )
        return [_text(name) for (name,) in found.fetchall()]

    def entry(self, book: str, key: str) -> LedgerEntry | None:
        """Return one entry."""
        found = self._sound(_bytes(book))
        if found is None:
            return None
        row = self._row(found, _bytes(key))
        return None if row is None else self._read(found, row)

    def entries(
        self,
        book: str,
        *,
        prefix: str = "",
        below: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Sequence[LedgerEntry]:
        """Return the entries whose key begins so, by key; only those whose key is less than ``below``."""
        found = self._sound(_bytes(book))
        if found is None:
            return []
        least = _bytes(prefix)
        most = least + b"\xff" if below is None else min(least + b"\xff", _bytes(below))
        order = "DESC" if newest_first else "ASC"
        rows = self._connection.execute(
            f"{_ENTRY} AND key >= ? AND key < ? ORDER BY key {order} LIMIT ?",
            (found.number, least, most, -1 if limit is None else limit),
        )
        return [self._read(found, row) for row in rows.fetchall()]

    def marked(self, mark: str, *, book: str | None = None) -> Sequence[tuple[str, str]]:
        """Return book and key of every entry that bears a mark."""
        rows = self._connection.execute(
            "SELECT CAST(book.name AS BLOB), CAST(key AS BLOB)"
            " FROM entry JOIN book ON book.number = entry.book"
            " WHERE mark = ? AND workspace = ? AND space = ? AND name = coalesce(?, name)"
            " ORDER BY name, key",
            (_bytes(mark), *self._place, None if book is None else _bytes(book)),
        )
        return [(_text(name), _text(key)) for name, key in rows.fetchall()]

    def body(self, entry: LedgerEntry) -> object:
        """Return the rest of what an entry holds."""
        book, body = self._cells[entry.cell]
        return self._value(book, body)

    def encoded(self, entry: LedgerEntry, encoding: Encoding) -> bytes | None:
        """Return the rest of what an entry holds in another encoding; None if it has no such values."""
        book, body = self._cells[entry.cell]
        pieces = PieceReader(self._file, self._connection, book.number)
        return encode(
            body,
            pieces.read,
            ahead=pieces.ahead,
            encoding=encoding,
            known=self._file.encoded(encoding),
            where=book.number,
        )

    def _row(self, book: Book, key: bytes) -> Cells | None:
        """Return the row of an entry, None if there is none; that is not asked twice."""
        if (book.number, key) in self._absent:
            return None
        row: Cells | None = self._connection.execute(f"{_ENTRY} AND key = ?", (book.number, key)).fetchone()
        if row is None:
            self._absent.add((book.number, key))
        return row

    def _read(self, book: Book, row: Cells) -> LedgerEntry:
        key, mark, tag, head, body = self._proven(book, row)
        self._cells[tag] = (book, body)
        return LedgerEntry(
            key=_text(key),
            mark=None if mark is None else _text(mark),
            head=self._head(book, head),
            cell=tag,
        )

    def _proven(self, book: Book, row: Cells) -> Cells:
        """Return an entry as it stands in its row; `Damaged` if it was not written so."""
        key, mark, tag, head, body = row
        if not self._file.sealing.is_tag(tag, *entry_fields(book.born, key, mark, head, body)):
            raise tampered(f"the entry {shown(key)} of {shown(book.name)}", "is not as it was written")
        return row

    def _head(self, book: Book, cell: bytes) -> object:
        """Return a head: what is remembered of it is made into a value of the caller's own."""
        known, name = self._file.heads, (book.number, cell)
        found = known.get(name)
        if found is None:
            value = self._value(book, cell)
            self._know_head(book, cell, value)
            return value
        return cast("object", marshal.loads(found))  # noqa: S302 - of our own memory

    def _know_head(self, book: Book, cell: bytes, value: object) -> None:
        """Remember what a head is; a list whose items have names is left to who reads it."""
        try:
            found = marshal.dumps(cast("Any", value), _UNSHARED)
        except ValueError:
            return
        self._file.heads.put((book.number, cell), found, size=len(cell) + len(found))

    def _value(self, book: Book, cell: bytes) -> object:
        pieces = PieceReader(self._file, self._connection, book.number)
        return unpack(cell, pieces.read, ahead=pieces.ahead)

    def _sound(self, name: bytes) -> Book | None:
        """Return a book, proven to hold what it is to hold; None if there is none."""
        book = self._book(name)
        if book is not None and book.number not in self._file.sound:
            prove_entries(self._file, self._connection, book)
            self._file.sound.add(book.number)
        return book

    def _book(self, name: bytes) -> Book | None:
        if name not in self._books:
            known = self._file.books.get((self._place, name))
            self._books[name] = self._recorded(name) if known is None else Book(name, known)
        return self._books[name]

    def _recorded(self, name: bytes) -> Book | None:
        row = self._connection.execute(
            f"{_BOOK} WHERE workspace = ? AND space = ? AND name = ?", (*self._place, name)
        ).fetchone()
        if row is None:
            return None
        book = Book(name, row)
        if not self._file.sealing.is_tag(book.tag, *book.fields(self._place)):
            raise tampered(f"the book {shown(name)}", "is not as it was written")
        self._know(book)
        return book

    def _know(self, book: Book) -> None:
        """Remember the row of a book as it stands."""
        self._file.books.put((self._place, book.name), book.row(), size=BOOK + len(book.name))


class Writer(Reader):
    """A transaction in a space."""

    def __init__(
        self, file: LedgerFile, connection: sqlite3.Connection, place: tuple[str, str], *, root: Root
    ) -> None:
        super().__init__(file, connection, place)
        self._root = root
        self._changed: dict[int, Book] = {}

    def put(
        self,
        book: str,
        key: str,
        *,
        mark: str | None = None,
        head: object = None,
        body: object = None,
        examine: Examine | None = None,
    ) -> None:
        """Add an entry, or replace the one of this key; ``examine`` is called with each new pair."""
        place = self._sound(_bytes(book)) or self._made(_bytes(book))
        cells = [self._stored(place, value, examine) for value in (head, body)]
        name = _bytes(key)
        stamp = None if mark is None else _bytes(mark)
        tag = entry_tag(self._file, place.born, name, stamp, *cells)
        self._file.sealing.know(tag, *entry_fields(place.born, name, stamp, *cells))
        self._know_head(place, cells[0], head)
        old = self._taken_out(place, name)
        if old is None:
            self._connection.execute(ADD_ENTRY, (place.number, name, stamp, tag, *cells))
            self._absent.discard((place.number, name))
        else:
            place.loose += 1
            self._connection.execute(
                "UPDATE entry SET mark = ?, tag = ?, head = ?, body = ? WHERE book = ? AND key = ?",
                (stamp, tag, *cells, place.number, name),
            )
        place.count(self._file, name, stamp, tag)
        self._changed[place.number] = place

    def drop(self, book: str, keys: Iterable[str]) -> None:
        """Remove entries."""
        place = self._sound(_bytes(book))
        if place is None:
            return
        for key in map(_bytes, keys):
            if self._taken_out(place, key) is not None:
                self._connection.execute("DELETE FROM entry WHERE book = ? AND key = ?", (place.number, key))
                place.swept = False
                self._changed[place.number] = place

    def drop_book(self, book: str) -> None:
        """Remove a book; what became of its entries does not matter any more."""
        place = self._book(_bytes(book))
        if place is None:
            return
        drop_rows(self._connection, place.number)
        self._root.total = minus(self._root.total, place.tag)
        self._books[place.name] = None
        self._changed.pop(place.number, None)
        self._file.sound.discard(place.number)
        self._file.forget_books()
        self._file.forget_held()

    def copy_book(self, book: str, *, to: str) -> None:
        """Make a book that holds what another does, in the place of the one that is there."""
        source = self._sound(_bytes(book))
        if source is None or book == to:
            return
        self.drop_book(to)
        copy = self._made(_bytes(to))
        self._connection.execute(_COPY_PIECES, (copy.number, source.number))
        for row in self._connection.execute(_ENTRY, (source.number,)).fetchall():
            key, mark, _, head, body = self._proven(source, row)
            fresh = entry_tag(self._file, copy.born, key, mark, head, body)
            self._connection.execute(ADD_ENTRY, (copy.number, key, mark, fresh, head, body))
            copy.count(self._file, key, mark, fresh)
            self._absent.discard((copy.number, key))

    def finish(self) -> None:
        """Record the books that were changed; the root is sealed by the caller."""
        for book in self._changed.values():
            if not book.swept or book.loose >= _LOOSE:
                sweep(self._connection, book.number)
                self._file.forget_held()
                book.loose = 0
            fresh = self._file.tag(*book.fields(self._place))
            self._root.total = plus(minus(self._root.total, book.tag), fresh)
            self._connection.execute(
                "UPDATE book SET entries = ?, total = ?, loose = ?, tag = ? WHERE number = ?",
                (book.entries, book.total, book.loose, fresh, book.number),
            )
            book.tag = fresh
            self._know(book)

    def _made(self, name: bytes) -> Book:
        book = new_book(name)
        book.number = add_book(self._connection, self._place, book)
        self._books[name] = self._changed[book.number] = book
        self._file.sound.add(book.number)
        return book

    def _taken_out(self, book: Book, key: bytes) -> bytes | None:
        """Take an entry out of its book's sum; the row itself stays. None if there is no such entry."""
        row = self._row(book, key)
        if row is None:
            return None
        _, mark, tag, _, _ = self._proven(book, row)
        book.total = minus(book.total, place_tag(self._file, book.born, key, mark, tag))
        book.entries -= 1
        return tag

    def _stored(self, book: Book, value: object, examine: Examine | None) -> bytes:
        """Store the pieces of a value that the book does not hold yet, and return its cell."""

        def encoded(encoding: Encoding, item: bytes, content: bytes) -> None:
            remember_encoded(self._file.encoded(encoding), book.number, item, content)

        cell, pieces = pack(value, encoded=encoded)
        fresh = self._fresh(book, cell, pieces)
        if fresh is None:  # what was packed before went into another book
            cell, pieces = pack(value, anew=True)
            fresh = self._fresh(book, cell, pieces) or []
        for id in fresh:
            piece = (book.number, id, len(pieces[id]), compressed(pieces[id]))
            self._connection.execute(ADD_PIECE, piece)
            self._file.hold(book.number, id, pieces[id])
        if examine is not None:
            for pair in (one for new in (cell, *map(pieces.__getitem__, fresh)) for one in pairs(new)):
                # One that was packed before was examined then.
                if all(id in pieces for id in references(pair)):
                    form, content = cast("tuple[str, bytes]", unpack(pair, pieces.__getitem__))
                    examine(form, content)
        return cell

    def _fresh(self, book: Book, cell: bytes, pieces: dict[bytes, bytes]) -> list[bytes] | None:
        """Return which pieces of a cell the book does not hold; None if one of them is not given."""
        fresh: dict[bytes, None] = {}
        wanted = list(references(cell))
        while wanted:
            id = wanted.pop()
            if id in fresh or self._holds(book, id):
                continue
            if id not in pieces:
                return None
            fresh[id] = None
            wanted += references(pieces[id])
        return list(fresh)

    def _holds(self, book: Book, id: bytes) -> bool:
        """Tell whether a book holds a piece; it is not asked twice while nobody else changed the file."""
        if not self._file.holds(book.number, id):
            if self._connection.execute(_HOLDS, (book.number, id)).fetchone() is None:
                return False
            self._file.hold(book.number, id)
        return True


def new_book(name: bytes) -> Book:
    """Return a book that nothing stands in, and that no row has yet."""
    return Book(name, (0, os.urandom(16), 0, NOTHING, 0, NOTHING))


def add_book(connection: sqlite3.Connection, place: tuple[str, str], book: Book) -> int:
    """Write the row of a book, and return its number."""
    return (
        connection.execute(
            "INSERT INTO book (workspace, space, name, born, entries, total, loose, tag)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*place, book.name, book.born, book.entries, book.total, book.loose, book.tag),
        ).lastrowid
        or 0
    )


def drop_rows(connection: sqlite3.Connection, number: int) -> None:
    """Remove the rows of a book."""
    for table in ("entry", "piece"):
        connection.execute(f"DELETE FROM {table} WHERE book = ?", (number,))  # noqa: S608 - named above
    connection.execute("DELETE FROM book WHERE number = ?", (number,))


def entry_tag(file: Tags, born: bytes, key: bytes, mark: bytes | None, head: bytes, body: bytes) -> bytes:
    """Return the tag of an entry."""
    return file.tag(*entry_fields(born, key, mark, head, body))


def entry_fields(
    born: bytes, key: bytes, mark: bytes | None, head: bytes, body: bytes
) -> tuple[bytes | str | None, ...]:
    """Return what the tag of an entry is made of: it binds the values to book and key."""
    return ("entry", born, key, mark, head, body)


def place_tag(file: Tags, born: bytes, key: bytes, mark: bytes | None, tag: bytes) -> bytes:
    """Return what an entry adds to its book's total: the entry, and where it is found."""
    return file.tag("place", born, key, mark, tag)


def prove_entries(file: Tags, connection: sqlite3.Connection, book: Book) -> None:
    """Raise `Damaged` unless the entries of a book, where they are found, make up its total."""
    total = count = 0
    for kinds, key, mark, tag in connection.execute(_PLACES, (book.number,)):
        if kinds not in {"blobblob", "blobnull"}:  # no question for it would find it
            raise tampered(f"the entry {shown(key)} of {shown(book.name)}", "is not as it was written")
        total += int.from_bytes(place_tag(file, book.born, key, mark, tag), "big")
        count += 1
    if count != book.entries or total % (1 << 8 * len(NOTHING)) != int.from_bytes(book.total, "big"):
        raise tampered(f"the book {shown(book.name)}", "has lost entries, or holds others than were written")


class PieceReader:
    """The pieces of a book, those read together of which it is known that they will be asked for.

    What was written here, and stands as it was, is not read again.
    """

    def __init__(self, file: LedgerFile, connection: sqlite3.Connection, book: int) -> None:
        self._file = file
        self._connection = connection
        self._book = book
        self._rows: dict[bytes, tuple[int, bytes]] = {}

    def read(self, id: bytes) -> bytes:
        """Return a piece, proven by its name."""
        row = self._rows.get(id)
        if row is not None:
            return opened_piece(id, *row)
        return self._file.written(self._book, id) or read_piece(self._connection, self._book, id)

    def ahead(self, ids: Sequence[bytes]) -> None:
        """Read some pieces; what is missing is told when it is asked for."""
        if len(ids) < _WORTH:
            return
        ids = [id for id in ids if self._file.written(self._book, id) is None]
        for place in range(0, len(ids), _TOGETHER[-1]):
            some = ids[place : place + _TOGETHER[-1]]
            room = next(length for length in _TOGETHER if length >= len(some))
            marks = ", ".join("?" * room)
            rows = self._connection.execute(
                f"{_PIECES} AND id IN ({marks})",
                (self._book, *some, *[some[-1]] * (room - len(some))),
            )
            self._rows.update((id, (size, content)) for id, size, content in rows)


def read_piece(connection: sqlite3.Connection, book: int, id: bytes) -> bytes:
    """Return a piece, proven by its name."""
    row = connection.execute(_PIECE, (book, id)).fetchone()
    if row is None:
        raise Damaged(f"the piece {id.hex()} of a stored value is missing", hint="run: lastgood verify")
    return opened_piece(id, *row)


def opened_piece(id: bytes, size: int, content: bytes) -> bytes:
    """Return what a stored piece holds, proven by its name."""
    try:
        cell = bytes(content[1:])
        if content[:1] == b"z":
            cell = zlib.decompressobj().decompress(cell, size + 1)
    except (zlib.error, ValueError, OverflowError) as error:
        raise tampered(f"the piece {id.hex()} of a stored value", f"cannot be read ({error})") from error
    if piece_id(cell) != id:
        raise tampered(f"the piece {id.hex()} of a stored value", "is not as it was written")
    return cell


def reached(connection: sqlite3.Connection, book: int) -> set[bytes]:
    """Return the pieces that the entries of a book need; `Damaged` if one is not there."""
    found: set[bytes] = set()
    for head, body in connection.execute(
        "SELECT CAST(head AS BLOB), CAST(body AS BLOB) FROM entry WHERE book = ?", (book,)
    ):
        follow(connection, book, (head, body), found)
    return found


def follow(connection: sqlite3.Connection, book: int, cells: Iterable[bytes], found: set[bytes]) -> None:
    """Add the pieces that some cells need, directly or through one another."""
    wanted = [id for cell in cells for id in references(cell)]
    while wanted:
        id = wanted.pop()
        if id not in found:
            found.add(id)
            wanted += references(read_piece(connection, book, id))


def sweep(connection: sqlite3.Connection, book: int) -> None:
    """Remove the pieces that no entry of a book needs."""
    live = reached(connection, book)
    stored = connection.execute("SELECT id FROM piece WHERE book = ?", (book,)).fetchall()
    gone = [(book, id) for (id,) in stored if id not in live]
    connection.executemany("DELETE FROM piece WHERE book = ? AND id = ?", gone)


def compressed(cell: bytes) -> bytes:
    """Return a piece as it is stored."""
    if len(cell) >= _COMPRESSED:
        packed = zlib.compress(cell, 1)
        if len(packed) < len(cell):
            return b"z" + packed
    return b"=" + cell


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogatepass")


def shown(name: bytes) -> str:
    """Return the name of a book or an entry for a person."""
    return printable(name.decode("utf-8", "backslashreplace"))
