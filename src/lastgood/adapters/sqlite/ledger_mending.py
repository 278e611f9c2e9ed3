"""Mending a ledger book by book, out of a sound copy."""

from __future__ import annotations

from lastgood.adapters.sqlite.database import open_uri, within
from lastgood.adapters.sqlite.ledger import Book, entry_tag, follow, place_tag, prove_entries, read_piece
from lastgood.adapters.sqlite.ledger_file import prove_genuine
from lastgood.adapters.sqlite.ledger_seal import NOTHING, TYPES, plus
from lastgood.codec.plain import references
from lastgood.errors import Damaged
from lastgood.names import printable
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator

    from lastgood.adapters.sqlite.ledger_file import LedgerFile
    from lastgood.adapters.sqlite.ledger_seal import Root, Tags

    Place = tuple[str, str]

_BOOKS = (
    "SELECT workspace, space, number, CAST(name AS BLOB), CAST(born AS BLOB), entries, CAST(total AS BLOB),"
    " loose, CAST(tag AS BLOB), typeof(workspace) || typeof(space) || typeof(name) FROM book ORDER BY number"
)
_CELLS = (
    "SELECT CAST(key AS BLOB), CAST(mark AS BLOB), CAST(tag AS BLOB), CAST(head AS BLOB), CAST(body AS BLOB)"
    " FROM entry WHERE book = ? ORDER BY number"
)
_PIECES_OF = "SELECT id, size, content FROM piece WHERE book = ?"
_PIECES = f"{_PIECES_OF} ORDER BY number"
_IDS = "SELECT CAST(id AS BLOB) FROM piece WHERE book = ? ORDER BY number"
_ADD_ENTRY = "INSERT INTO entry (book, key, mark, tag, head, body) VALUES (?, ?, ?, ?, ?, ?)"
_DROP_PIECE = "DELETE FROM piece WHERE book = ? AND CAST(id AS BLOB) = ?"
_ADD_PIECE = "INSERT INTO piece (book, id, size, content) VALUES (?, ?, ?, ?)"


class Found:
    """A book as a file records it."""

    def __init__(self, row: tuple[object, ...]) -> None:
        workspace, space, number, name, *rest, types = row
        self.place = cast("Place", (workspace, space))
        fields = cast("tuple[int, bytes, int, bytes, int, bytes]", (number, *rest))
        self.book = Book(cast("bytes", name), fields)
        self.typed = types == TYPES
        # By any of these a book is known again: where it stands, and what it was born with.
        self.names = ((workspace, space, name), self.book.born)

    @property
    def shown(self) -> str:
        """The book's name for a person."""
        return printable(f"{self.place[1]} {self.book.name.decode('utf-8', 'backslashreplace')}")


def mend(file: LedgerFile, copy: str, *, aside: Callable[[sqlite3.Connection], None]) -> tuple[str, ...]:
    """Bring the books that are not whole back from a sound copy, and say which.

    ``aside`` keeps the file as it is, before anything is changed. Nothing is changed in a ledger that is
    whole, of which it is not known whether it is genuine, or for which the copy is of no use. A book of
    which the copy knows nothing stays as it is.
    """
    known = file.last_seen()
    source = open_uri(copy, "mode=ro", wait=0)

    def is_of_use(connection: sqlite3.Connection) -> bool:
        try:
            root = prove_genuine(connection, file.sealing, known, path=file.path)
            return bool(_Mending(file, connection, root, source).wanted)
        except Damaged:
            return False

    def looked(connection: sqlite3.Connection) -> bool:
        # One moment: who writes meanwhile must not look like damage.
        return within("BEGIN", connection, work=is_of_use)

    try:
        if not file.read(looked):
            return ()
        file.read(aside)
        return file.overwrite(lambda connection, root: _Mending(file, connection, root, source).carry_out())
    finally:
        source.close()


def complete(
    tags: Tags, connection: sqlite3.Connection, root: Root, *, source: sqlite3.Connection | None
) -> tuple[str, ...]:
    """Do within a transaction what `mend` does, and let the root stand for the books that are there then."""
    return _Mending(tags, connection, root, source).carry_out()


class _Mending:
    """What has to be done about the books of a ledger; ``wanted`` are those to be mended by a copy."""

    def __init__(
        self, tags: Tags, connection: sqlite3.Connection, root: Root, source: sqlite3.Connection | None
    ) -> None:
        self._tags = tags
        self._connection = connection
        self._root = root
        self._source = source
        every = list(books_in(connection))
        self._broken = [one for one in every if not is_whole(tags, connection, one)]
        kept = {name for one in every if one not in self._broken for name in one.names}
        hit = {name for one in self._broken for name in one.names}
        lost = _sum(every) != root.total
        self.wanted = [
            (one, patch)
            for one in (() if source is None else books_in(source))
            if kept.isdisjoint(one.names) and (lost or not hit.isdisjoint(one.names))
            for patch in [self._patch(one)]
            if patch is None or patch.is_of_use
        ]

    def _patch(self, one: Found) -> _Patch | None:
        """Return what a book of the copy has for the one whose entries can be told, None if none can."""
        if self._source is None:
            return None
        for old in self._broken:
            if not set(one.names).isdisjoint(old.names) and _is_listed(self._tags, self._connection, old):
                return _Patch(self._tags, (self._connection, old.book), (self._source, one.book), old.place)
        return None

    def carry_out(self) -> tuple[str, ...]:
        """Mend the books, and say which; the root stands for what is there then."""
        for one, patch in self.wanted:
            if patch is None:
                self._replace(one)
            else:
                patch.apply()
        done = [
            f"the book {one.shown} of the ledger was brought back from its backup" for one, _ in self.wanted
        ]
        total = _sum(books_in(self._connection))
        if total != self._root.total:
            done.append(
                "what could not be read of the ledger is missing in it"
                if self._source is None
                else "what is newer than the backup of the ledger is missing in it"
            )
        self._root.total = total
        return tuple(done)

    def _replace(self, one: Found) -> None:
        """Take a book of the copy, in the place of those that it is known by."""
        if self._source is None:
            return
        for old in self._broken:
            if not set(one.names).isdisjoint(old.names):
                _drop(self._connection, old.book.number)
        _take(self._connection, self._source, one)


class _Patch:
    """What a copy has for a book whose entries can be told, but not all be read.

    What can be read of an entry stays, even where the rest of it cannot; of the others those come that the
    copy has, and only under keys that the book has: others were removed since.
    """

    def __init__(
        self,
        tags: Tags,
        mine: tuple[sqlite3.Connection, Book],
        theirs: tuple[sqlite3.Connection, Book],
        place: Place,
    ) -> None:
        self._tags = tags
        self._place = place
        self._connection, self._book = mine
        self._source, self._copy = theirs
        (number, born), other = (self._book.number, self._book.born), self._copy.number
        held = {id for (id,) in self._connection.execute(_IDS, (number,))}
        sound = {id for id in held if _has_piece(self._connection, number, id)}
        self._come = [row[:1] for row in self._source.execute(_IDS, (other,)) if row[0] not in sound]
        self._go = [(number, id) for id in held - sound]
        rows = self._source.execute(_CELLS, (other,)) if self._copy.born == born else ()
        known = {row[0]: row for row in rows}
        self._found: set[bytes] = set()
        self._rows = {
            key: known.get(key)
            for key, mark, tag, head, body in self._connection.execute(_CELLS, (number,)).fetchall()
            if tag != entry_tag(tags, born, key, mark, head, body) or not self._is_there(head)
        }

    @property
    def is_of_use(self) -> bool:
        """Whether anything would be another than it is."""
        return bool(self._come or self._go or self._rows)

    def apply(self) -> None:
        """Make the changes, within a transaction."""
        book, change = self._book, self._connection
        change.executemany(_DROP_PIECE, self._go)
        for (id,) in self._come:
            row = self._source.execute(f"{_PIECES_OF} AND id = ?", (self._copy.number, id)).fetchone()
            change.execute(_ADD_PIECE, (book.number, *row))
        for key, row in self._rows.items():
            change.execute("DELETE FROM entry WHERE book = ? AND key = ?", (book.number, key))
            if row is not None:
                change.execute(_ADD_ENTRY, (book.number, *row))
        book.entries, book.total = 0, NOTHING
        for key, mark, tag, _, _ in change.execute(_CELLS, (book.number,)):
            book.total = plus(book.total, place_tag(self._tags, book.born, key, mark, tag))
            book.entries += 1
        book.tag = self._tags.tag(*book.fields(self._place))
        change.execute(
            "UPDATE book SET entries = ?, total = ?, tag = ? WHERE number = ?",
            (book.entries, book.total, book.tag, book.number),
        )

    def _is_there(self, cell: bytes) -> bool:
        """Tell whether either book has all pieces that a cell needs."""
        wanted = list(references(cell))
        while wanted:
            id = wanted.pop()
            if id in self._found:
                continue
            try:
                content = self._piece(id)
            except Damaged:
                return False
            self._found.add(id)
            wanted += references(content)
        return True

    def _piece(self, id: bytes) -> bytes:
        try:
            return read_piece(self._connection, self._book.number, id)
        except Damaged:
            return read_piece(self._source, self._copy.number, id)


def _sum(books: Iterable[Found]) -> bytes:
    total = NOTHING
    for one in books:
        total = plus(total, one.book.tag)
    return total


def books_in(connection: sqlite3.Connection) -> Iterator[Found]:
    """Yield the books of a ledger as they are recorded."""
    for row in connection.execute(_BOOKS).fetchall():
        yield Found(row)


def is_whole(file: Tags, connection: sqlite3.Connection, one: Found) -> bool:
    """Tell whether a book, its entries and all that these hold are as they were written."""
    book = one.book
    if not _is_listed(file, connection, one):
        return False
    try:
        found: set[bytes] = set()
        for key, mark, tag, head, body in connection.execute(_CELLS, (book.number,)).fetchall():
            if tag != entry_tag(file, book.born, key, mark, head, body):
                return False
            follow(connection, book.number, (head, body), found)
    except Damaged:
        return False
    return True


def _is_listed(tags: Tags, connection: sqlite3.Connection, one: Found) -> bool:
    """Tell whether the keys and tags of a book are as they were written: then entries of it can be read."""
    if not one.typed or one.book.tag != tags.tag(*one.book.fields(one.place)):
        return False
    try:
        prove_entries(tags, connection, one.book)
    except Damaged:
        return False
    return True


def _has_piece(connection: sqlite3.Connection, number: int, id: bytes) -> bool:
    try:
        read_piece(connection, number, id)
    except Damaged:
        return False
    return True


def _drop(connection: sqlite3.Connection, number: int) -> None:
    for table in ("entry", "piece"):
        connection.execute(f"DELETE FROM {table} WHERE book = ?", (number,))  # noqa: S608 - named above
    connection.execute("DELETE FROM book WHERE number = ?", (number,))


def _take(connection: sqlite3.Connection, source: sqlite3.Connection, one: Found) -> None:
    """Write a book of another file into this one."""
    book = one.book
    number = connection.execute(
        "INSERT INTO book (workspace, space, name, born, entries, total, loose, tag)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*one.place, book.name, book.born, book.entries, book.total, book.loose, book.tag),
    ).lastrowid
    connection.executemany(
        _ADD_ENTRY,
        ((number, *row) for row in source.execute(_CELLS, (book.number,))),
    )
    connection.executemany(
        _ADD_PIECE,
        ((number, *row) for row in source.execute(_PIECES, (book.number,))),
    )
