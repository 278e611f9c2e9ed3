"""The sound copy of a ledger beside it, and what is brought back from that.

There is one: what was removed from the ledger is gone from its copy with the next.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, contextmanager

from lastgood.catalogue.backup import ask, clear, make, structure_fault, unpack
from lastgood.catalogue.database import DEFAULT_WAIT, RESCUE, copy_into, open_uri, prepare, within
from lastgood.catalogue.image import reheaded
from lastgood.catalogue.sqlite import BROKEN, is_damage, primary_code, sqlite3
from lastgood.errors import Damaged, LastgoodError, Storage
from lastgood.files import make_directories, sync_directory, sync_file, unlink_quietly
from lastgood.ledger.books import (
    ADD_ENTRY,
    ADD_PIECE,
    Book,
    add_book,
    drop_rows,
    entry_tag,
    follow,
    opened_piece,
    prove_entries,
    read_piece,
    sweep,
)
from lastgood.ledger.cells import references
from lastgood.ledger.file import (
    APPLICATION_ID,
    NOTHING,
    TYPES,
    LedgerFile,
    Sealing,
    gate,
    plus,
    prove_genuine,
    read_root,
    state_of,
    write_new,
)
from lastgood.model.canonical import iso
from lastgood.paths import printable
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lastgood.ledger.file import Root, Tags
    from lastgood.ledger_anchor import LedgerAnchor, LedgerState

    Place = tuple[str, str]
    Row = tuple[object, ...]


# --- Mending a ledger book by book, out of a sound copy ---

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
_BOOKS = f"SELECT {', '.join(_BOOK)} FROM book ORDER BY number"  # noqa: S608 - names of columns
_CELLS = (
    "SELECT CAST(key AS BLOB), CAST(mark AS BLOB), CAST(tag AS BLOB), CAST(head AS BLOB), CAST(body AS BLOB)"
    " FROM entry WHERE book = ? ORDER BY number"
)
_PIECES_OF = "SELECT id, size, content FROM piece WHERE book = ?"
_PIECES = f"{_PIECES_OF} ORDER BY number"
_IDS = "SELECT CAST(id AS BLOB) FROM piece WHERE book = ? ORDER BY number"
_DROP_PIECE = "DELETE FROM piece WHERE book = ? AND CAST(id AS BLOB) = ?"


class Found:
    """A book as a file records it."""

    def __init__(self, row: tuple[object, ...]) -> None:
        workspace, space, number, name, *rest, types = row
        self.place: Place = cast("Place", (workspace, space))
        fields = cast("tuple[int, bytes, int, bytes, int, bytes]", (number, *rest))
        self.book: Book = Book(cast("bytes", name), fields)
        self.typed: bool = types == TYPES
        # By any of these a book is known again: where it stands, and what it was born with.
        self.names: tuple[tuple[object, object, object], bytes] = ((workspace, space, name), self.book.born)

    @property
    def title(self) -> str:
        """The space and the name of the book."""
        return f"{self.place[1]} {self.book.name.decode('utf-8', 'backslashreplace')}"

    @property
    def shown(self) -> str:
        """The book's name for a person."""
        return printable(self.title)


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
                drop_rows(self._connection, old.book.number)
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
            change.execute(ADD_PIECE, (book.number, *row))
        for key, row in self._rows.items():
            change.execute("DELETE FROM entry WHERE book = ? AND key = ?", (book.number, key))
            if row is not None:
                change.execute(ADD_ENTRY, (book.number, *row))
        book.entries, book.total = 0, NOTHING
        for key, mark, tag, _, _ in change.execute(_CELLS, (book.number,)):
            book.count(self._tags, key, mark, tag)
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


def _take(connection: sqlite3.Connection, source: sqlite3.Connection, one: Found) -> None:
    """Write a book of another file into this one."""
    number = add_book(connection, one.place, one.book)
    for statement, rows in ((ADD_ENTRY, _CELLS), (ADD_PIECE, _PIECES)):
        found = source.execute(rows, (one.book.number,))
        connection.executemany(statement, ((number, *row) for row in found))


# --- Reading what a damaged ledger still yields: row by row, so that one bad page hides no other ---

_META = "SELECT name, value FROM meta"
_PLACE = ("book", "CAST(key AS BLOB)", "CAST(mark AS BLOB)", "CAST(tag AS BLOB)")
_VALUES = ("CAST(head AS BLOB)", "CAST(body AS BLOB)")
_PIECE = ("book", "CAST(id AS BLOB)", "CAST(size AS INTEGER)", "CAST(content AS BLOB)")
_OVER = ADD_ENTRY.replace("INSERT", "INSERT OR REPLACE")
_BESIDE = ADD_ENTRY.replace("INSERT", "INSERT OR IGNORE")
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
        ADD_PIECE.replace("INSERT", "INSERT OR IGNORE"),
        (row for row in _rows(source, "piece", _PIECE) if row[0] in books and _is_sound_piece(row)),
    )


def _put_entry(target: sqlite3.Connection, tags: Tags, born: bytes, row: Row) -> None:
    """Add an entry; of two with one key that which is proven."""
    _, key, mark, tag, head, body = row
    proven = tag == entry_tag(tags, born, key, mark, head, body)  # type: ignore[arg-type]
    target.execute(_OVER if proven else _BESIDE, row)


def _is_sound_piece(row: Row) -> bool:
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


# --- Proving a whole ledger, and taking a state of it as genuine because its owner says so ---

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
    for one in books_in(connection):
        book, title = one.book, one.title
        if book.tag != file.tag(*book.fields(one.place)):
            yield f"{title}: the book is not as it was written"
        try:
            prove_entries(file, connection, book)
        except Damaged as error:
            yield f"{title}: {error.message}"
        yield from (f"{title}: {fault}" for fault in _book_faults(file, connection, book))


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
        for one in books_in(connection):
            book = one.book
            book.entries, book.total = 0, NOTHING
            _take_entries(file, connection, book)
            tag = file.tag(*book.fields(one.place))
            connection.execute(
                "UPDATE book SET (name, born, entries, total, loose, tag) = (?, ?, ?, ?, 0, ?)"
                " WHERE number = ?",
                (book.name, book.born, book.entries, book.total, tag, book.number),
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
        book.count(file, key, mark, tag)
    sweep(connection, book.number)


# --- The sound copy of a ledger beside it, and what is brought back from that ---

BACKUP = "ledger.backup.sqlite3.gz"
_NEW = ".new"
_SIDECARS = ("-wal", "-shm", "-journal")


def backup_of(path: str) -> str:
    """Return where the copy of a ledger lies."""
    return os.path.join(os.path.dirname(path), BACKUP)


def back_up(file: LedgerFile) -> bool:
    """Copy the ledger; False when nothing changed since. `Damaged` if it is not sound: the copy stays."""
    backup = backup_of(file.path)
    clear(backup)
    standing = file.look(lambda connection: file.sealing.root(connection, path=file.path))
    known = _root_of(backup, file.sealing)
    if known is not None and (known.ledger, known.serial) == (standing.ledger, standing.serial):
        os.utime(backup)  # it is as good as new
        return False
    refusal = Damaged(
        f"the ledger {printable(file.path)} is damaged: not backed up", hint="run: lastgood verify --repair"
    )

    def copied(connection: sqlite3.Connection) -> str:
        return make(
            connection,
            backup,
            is_sound=lambda copy: not faults_of(copy, file.sealing),
            refusal=refusal,
        )

    packed = file.read(copied)
    try:
        os.rename(packed, backup)
        sync_directory(os.path.dirname(backup))
    finally:
        unlink_quietly(packed)
    return True


def faults_of(path: str, sealing: Sealing) -> Sequence[str]:
    """Prove a copy of a ledger whole, and say what is wrong with it."""

    def proven(connection: sqlite3.Connection) -> Sequence[str]:
        _prove(connection, sealing, path=path)
        return list(faults_in(sealing, connection))

    try:
        return ask(path, proven)
    except (sqlite3.DatabaseError, LastgoodError, ValueError, OSError) as error:
        return [error.message if isinstance(error, LastgoodError) else str(error)]


def _root_of(path: str, sealing: Sealing) -> Root | None:
    """Return how a copy stands, None if there is none that can be trusted."""

    def read(connection: sqlite3.Connection) -> Root:
        return _prove(connection, sealing, path=path)

    try:
        return ask(path, read)
    except (sqlite3.DatabaseError, LastgoodError, ValueError, OSError):
        return None


def _prove(connection: sqlite3.Connection, sealing: Sealing, *, path: str) -> Root:
    prepare(connection)
    gate(connection, path=path)
    root = sealing.root(connection, path=path)
    sealing.prove_books(connection, root, path=path)
    return root


def repair(path: str, *, anchor: LedgerAnchor, at: int) -> tuple[str, ...]:
    """Bring back what is damaged, and say what; nothing where nothing genuine can be read.

    A file that SQLite can read and write is mended by a sound copy, book by book; any other is replaced by a
    new one, of all that can be read of it and what the copy has beside that. What the owner has to decide
    (another ledger was put here) is left alone. What is replaced is set aside first. May be killed at any
    moment and repeated. ``at`` is in nanoseconds.
    """
    if not any(os.path.exists(place) for place in (path, path + RESCUE, backup_of(path))):
        return ()
    sealing = Sealing(anchor.key())
    draft = path + RESCUE + _NEW
    try:
        if _stands(path):
            return _mended(path, draft, anchor=anchor, at=at)
        with anchor.watch() as watch, _held(path) as damaged:
            done = _replacement(path, sealing, damaged, known=watch.known)
            if done:
                root = _put(path, sealing, at=at)
                watch.advance(state_of(root))
            return done
    finally:
        for leftover in ("", *_SIDECARS):
            unlink_quietly(draft + leftover)


def _mended(path: str, draft: str, *, anchor: LedgerAnchor, at: int) -> tuple[str, ...]:
    file = LedgerFile(path, anchor=anchor)
    try:
        backup = backup_of(path)
        if not os.path.exists(backup) or faults_of(backup, file.sealing):
            return ()
        unpack(backup, draft)
        return mend(file, draft, aside=lambda connection: copy_into(connection, _aside(path, at=at)))
    finally:
        file.close()


def _sound_backup(path: str, sealing: Sealing) -> str | None:
    """Return the copy of a ledger if it is whole; errors that say nothing about it are raised."""
    backup = backup_of(path)

    def proven(connection: sqlite3.Connection) -> bool:
        _prove(connection, sealing, path=backup)
        return not any(faults_in(sealing, connection))

    return backup if os.path.exists(backup) and _asked(backup, proven) else None


@contextmanager
def _held(path: str) -> Iterator[sqlite3.Connection | None]:
    """Keep everybody from writing to a damaged ledger that can be written to; None if it is gone.

    Of one that SQLite takes for no database, its header being what is damaged, a copy is returned that has a
    sound one: nobody can write to it.
    """
    if not os.path.exists(path):
        yield None
        return
    with ExitStack() as opened:
        connection = opened.enter_context(closing(open_uri(path, "mode=rw", wait=DEFAULT_WAIT)))
        prepare(connection)
        for begin in ("BEGIN IMMEDIATE", "BEGIN"):
            try:
                connection.execute(begin)
                break
            except sqlite3.DatabaseError as error:
                if not is_damage(error) and primary_code(error) != sqlite3.SQLITE_READONLY:
                    raise
                if primary_code(error) == sqlite3.SQLITE_NOTADB:
                    connection = opened.enter_context(closing(reheaded(path, application=APPLICATION_ID)))
        yield connection


def _replacement(
    path: str, sealing: Sealing, damaged: sqlite3.Connection | None, *, known: LedgerState | None
) -> tuple[str, ...]:
    """Write what is to lie in the place of a ledger beside it, whole, and say what that is."""
    if damaged is None and _is_finished(path, sealing, known=known):
        return ("an interrupted repair of the ledger was finished",)
    draft = path + RESCUE + _NEW
    backup = _sound_backup(path, sealing)
    done = None if damaged is None else _rebuilt(draft, sealing, damaged, backup=backup, known=known)
    if done is None:
        if backup is None:
            return ()
        unpack(backup, draft)
        done = _sealed_anew(draft, sealing, known=known)
    if not _is_sound(draft, sealing):
        raise Storage(
            "the ledger was not brought back: its copy is not read as it was written",
            hint="check the disk, then run: lastgood verify --repair",
        )
    sync_file(draft)
    os.rename(draft, path + RESCUE)
    sync_directory(os.path.dirname(path))
    return done


def _rebuilt(
    draft: str,
    sealing: Sealing,
    damaged: sqlite3.Connection,
    *,
    backup: str | None,
    known: LedgerState | None,
) -> tuple[str, ...] | None:
    """Write what can be read of a damaged ledger, completed by a copy; None unless that is genuine."""
    done: tuple[str, ...] = ("the ledger was made anew of what can be read of the damaged one",)

    def fill(connection: sqlite3.Connection) -> None:
        nonlocal done
        take_over(damaged, connection, tags=sealing)
        root = prove_genuine(connection, sealing, known, path=draft)
        before = root.total
        if backup is None:
            done += complete(sealing, connection, root, source=None)
        else:
            done += ask(backup, lambda source: complete(sealing, connection, root, source=source))
        if root.total != before:
            sealing.seal(connection, root)

    try:
        write_new(draft, fill)
    except BROKEN as error:
        if not is_damage(error):
            raise
        return None
    except Damaged:
        return None
    return done


def _sealed_anew(draft: str, sealing: Sealing, *, known: LedgerState | None) -> tuple[str, ...]:
    """Make a copy the newest state that is known, before it is put into its place."""
    connection = open_uri(draft, "mode=rw", wait=0)
    try:
        # Sealed without a log or a journal beside it: these would not be where the file goes.
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("BEGIN IMMEDIATE")
        root = read_root(connection)
        copied = root.serial
        root.serial = max(copied, 0 if known is None else known.serial)
        sealing.seal(connection, root)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    last = "" if known is None else f" of {known.serial}"
    return (f"the ledger was brought back from its backup, as it was after change {copied}{last}",)


def _is_sound(path: str, sealing: Sealing) -> bool:
    """Tell whether a ledger that nobody has open stands, and its root for its books."""

    def proven(connection: sqlite3.Connection) -> bool:
        _prove(connection, sealing, path=path)
        return structure_fault(connection) is None

    return _asked(path, proven)


def _asked(path: str, question: Callable[[sqlite3.Connection], bool]) -> bool:
    """Ask a ledger that nobody has open; False if it is damaged."""
    try:
        return ask(path, question)
    except BROKEN as error:
        if not is_damage(error):
            raise
        return False
    except (LastgoodError, ValueError):
        return False


def _is_finished(path: str, sealing: Sealing, *, known: LedgerState | None) -> bool:
    """Tell whether an interrupted repair left a replacement that is the newest state known."""
    rescue = path + RESCUE

    def genuine(connection: sqlite3.Connection) -> bool:
        return prove_genuine(connection, sealing, known, path=rescue) is not None

    return os.path.exists(rescue) and _is_sound(rescue, sealing) and _asked(rescue, genuine)


def _put(path: str, sealing: Sealing, *, at: int) -> Root:
    """Put a finished replacement into its place, and return its root."""
    root = ask(path + RESCUE, lambda connection: _prove(connection, sealing, path=path))
    _set_aside(path, at=at)
    os.rename(path + RESCUE, path)
    sync_directory(os.path.dirname(path))
    return root


def _stands(path: str) -> bool:
    """Tell whether a ledger is there that SQLite can read and write.

    What says nothing about the file (others are at it, the disk is full) is no reason to replace it.
    """
    if not os.path.exists(path):
        return False
    connection = open_uri(path, "mode=rw", wait=DEFAULT_WAIT)
    try:
        prepare(connection)
        gate(connection, path=path)
        return structure_fault(connection) is None
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return False
    except (Damaged, UnicodeDecodeError):  # in the words of SQLite for a damaged table
        return False
    finally:
        connection.close()


def _set_aside(path: str, *, at: int) -> None:
    """Move a ledger and its log out of the way, first the file itself: while it is there it has its log."""
    present = [suffix for suffix in ("", *_SIDECARS) if os.path.exists(path + suffix)]
    target = _aside(path, at=at) if present else ""
    for suffix in present:
        os.rename(path + suffix, target + suffix)
        sync_directory(os.path.dirname(path))
    if present:
        sync_directory(os.path.dirname(target))


def _aside(path: str, *, at: int) -> str:
    """Return where a damaged ledger is set aside, in a folder that is made."""
    stamp = iso(at).replace(":", "").replace("-", "")
    folder = os.path.join(os.path.dirname(path), "damaged", f"ledger-{stamp}")
    make_directories(os.fsencode(folder))
    return os.path.join(folder, os.path.basename(path))
