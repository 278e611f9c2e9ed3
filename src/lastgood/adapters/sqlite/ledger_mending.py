"""Mending a ledger book by book, out of a sound copy."""

from __future__ import annotations

from lastgood.adapters.sqlite.database import open_uri, within
from lastgood.adapters.sqlite.ledger import Book, entry_tag, follow, prove_entries
from lastgood.adapters.sqlite.ledger_seal import NOTHING, TYPES, plus
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
_PIECES = "SELECT id, size, content FROM piece WHERE book = ? ORDER BY number"


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
    """Put the books of a sound copy in the place of those that are not whole, and say which.

    ``aside`` keeps the file as it is, before anything is changed. Nothing is changed in a ledger that is
    whole, of which it is not known whether it is genuine, or for which the copy is of no use. A book of
    which the copy knows nothing stays as it is.
    """
    known = file.last_seen()
    source = open_uri(copy, "mode=ro", wait=0)

    def is_of_use(connection: sqlite3.Connection) -> bool:
        try:
            file.prove_genuine(connection, known)
            root = file.sealing.root(connection, path=file.path)
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


class _Mending:
    """What has to be done about the books of a ledger; ``wanted`` are those to be taken from a copy."""

    def __init__(
        self, file: Tags, connection: sqlite3.Connection, root: Root, source: sqlite3.Connection
    ) -> None:
        self._connection = connection
        self._root = root
        self._source = source
        every = list(books_in(connection))
        self._broken = [one for one in every if not is_whole(file, connection, one)]
        kept = {name for one in every if one not in self._broken for name in one.names}
        hit = {name for one in self._broken for name in one.names}
        lost = _sum(every) != root.total
        self.wanted = [
            one
            for one in books_in(source)
            if kept.isdisjoint(one.names) and (lost or not hit.isdisjoint(one.names))
        ]

    def carry_out(self) -> tuple[str, ...]:
        """Take the books, and say which; the root stands for what is there then."""
        for one in self.wanted:
            for old in self._broken:
                if not set(one.names).isdisjoint(old.names):
                    _drop(self._connection, old.book.number)
            _take(self._connection, self._source, one)
        done = [f"the book {one.shown} of the ledger was brought back from its backup" for one in self.wanted]
        total = _sum(books_in(self._connection))
        if total != self._root.total:
            done.append("what is newer than the backup of the ledger is missing in it")
        self._root.total = total
        return tuple(done)


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
    if not one.typed or book.tag != file.tag(*book.fields(one.place)):
        return False
    try:
        prove_entries(file, connection, book)
        found: set[bytes] = set()
        for key, mark, tag, head, body in connection.execute(_CELLS, (book.number,)).fetchall():
            if tag != entry_tag(file, book.born, key, mark, head, body):
                return False
            follow(connection, book.number, (head, body), found)
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
        "INSERT INTO entry (book, key, mark, tag, head, body) VALUES (?, ?, ?, ?, ?, ?)",
        ((number, *row) for row in source.execute(_CELLS, (book.number,))),
    )
    connection.executemany(
        "INSERT INTO piece (book, id, size, content) VALUES (?, ?, ?, ?)",
        ((number, *row) for row in source.execute(_PIECES, (book.number,))),
    )
