"""The ledger of a store as a workspace holds it: opened when first asked for, by whatever thread."""

from __future__ import annotations

import os
from _thread import allocate_lock

from lastgood.catalogue.sqlite import sqlite3, translate
from lastgood.errors import Damaged, LastgoodError, Unsupported
from lastgood.ledger.books import (
    ADD_ENTRY,
    ADD_PIECE,
    Reader,
    Writer,
    add_book,
    compressed,
    entry_tag,
    follow,
    new_book,
    read_piece,
)
from lastgood.ledger.cells import piece_id, references
from lastgood.ledger.file import LedgerFile, Sealing, plus, tampered
from lastgood.ledger.repair import accept, back_up, backup_of, books_in, check, faults_of, is_whole, repair
from lastgood.model.exchange import ExportedBook
from lastgood.paths import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from lastgood.host import Clock
    from lastgood.ledger import LedgerReader, LedgerWriter
    from lastgood.ledger.file import Root
    from lastgood.ledger_anchor import LedgerAnchor

    Result = TypeVar("Result")


# --- Books on their way from one ledger to another: without tags, which the key of each makes for itself
# ---

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


def exported_books(
    file: LedgerFile, connection: sqlite3.Connection, workspaces: Sequence[str]
) -> tuple[ExportedBook, ...]:
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
            ExportedBook(
                workspace_key=workspace, space=space, name=one.book.name, entries=entries, pieces=pieces
            )
        )
    return tuple(found)


def prove(books: Sequence[ExportedBook]) -> None:
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


def _refused(book: ExportedBook, reason: str) -> Damaged:
    name = printable(f"{book.space} {book.name.decode('utf-8', 'backslashreplace')}")
    return Damaged(f"the book {name} of the export cannot be taken in: {reason}", hint=_AGAIN)


def take_in(
    file: LedgerFile, connection: sqlite3.Connection, root: Root, books: Sequence[ExportedBook]
) -> int:
    """Add the books that are not here yet, sealed by this key; return how many."""
    return sum(_added(file, connection, root, book) for book in books)


def _added(file: LedgerFile, connection: sqlite3.Connection, root: Root, kept: ExportedBook) -> bool:
    place = (kept.workspace_key, kept.space)
    if connection.execute(_KNOWN, (*place, kept.name)).fetchone():
        return False
    book = new_book(kept.name)
    rows = []
    for key, mark, head, body in kept.entries:
        tag = entry_tag(file, book.born, key, mark, head, body)
        book.count(file, key, mark, tag)
        rows.append((key, mark, tag, head, body))
    book.tag = file.tag(*book.fields(place))
    number = add_book(connection, place, book)
    connection.executemany(ADD_ENTRY, ((number, *row) for row in rows))
    pieces = {piece_id(cell): cell for cell in kept.pieces}
    connection.executemany(
        ADD_PIECE, ((number, id, len(cell), compressed(cell)) for id, cell in pieces.items())
    )
    root.total = plus(root.total, book.tag)
    return True


# --- The ledger of a store as a workspace holds it: opened when first asked for, by whatever thread ---


class SqliteLedger:
    """One space of one workspace."""

    def __init__(self, file: LedgerFile, *, workspace: str, space: str) -> None:
        self._file = file
        self._place = (workspace, space)

    def look(self, work: Callable[[LedgerReader], Result]) -> Result:
        """Ask something of one moment."""
        return self._file.look(lambda connection: work(Reader(self._file, connection, self._place)))

    def change(self, work: Callable[[LedgerWriter], Result]) -> Result:
        """Change something in one transaction, durable on return; nothing is changed if it raises."""

        def changed(connection: sqlite3.Connection, root: Root) -> Result:
            writer = Writer(self._file, connection, self._place, root=root)
            result = work(writer)
            writer.finish()
            return result

        return self._file.change(changed)

    def accept(self) -> None:
        """Declare the present state to be genuine; entries whose values are not whole are dropped."""
        accept(self._file)


class SqliteLedgers:
    """One file for all workspaces of a store."""

    def __init__(self, path: str, *, anchor: LedgerAnchor, clock: Clock) -> None:
        self._path = path
        self._anchor = anchor
        self._clock = clock
        self._lock = allocate_lock()
        self._file: LedgerFile | None = None

    def space(self, name: str, *, workspace: str) -> SqliteLedger:
        """Return one space of a workspace (its key)."""
        return SqliteLedger(self._open(), workspace=workspace, space=name)

    def check(self) -> Sequence[str]:
        """Prove everything that is stored, and say what is wrong; nothing is made if there is none."""
        if not os.path.exists(self._path) and self._anchor.last() is None:
            return []
        try:
            faults = check(self._open())
        except LastgoodError as error:
            faults = [f"{error.message} ({error.hint})"]
        return [*faults, *self._faults_of_backup()]

    def back_up(self) -> bool:
        """Copy the ledger, if there is one that changed; `Damaged` if it is not sound."""
        if not os.path.exists(self._path):
            return False
        try:
            return back_up(self._open())
        except OSError as error:
            raise translate(error, self._path, what="the copy of the ledger") from error

    def repair(self) -> tuple[str, ...]:
        """Bring back what is damaged from the copy, and say what."""
        try:
            done = repair(self._path, anchor=self._anchor, at=self._clock.now())
            return done or self._copied_anew()
        except Unsupported:  # as `check` tells; what else a store holds is repaired all the same
            return ()
        except (sqlite3.Error, OSError) as error:
            raise translate(error, self._path, what="the ledger", hint="check the store") from error

    def _copied_anew(self) -> tuple[str, ...]:
        """Write the copy anew if it is damaged and the ledger is not."""
        if not self._faults_of_backup() or not os.path.exists(self._path) or check(self._open()):
            return ()
        back_up(self._open())
        return ("the damaged copy of the ledger was written anew",)

    def count(self, workspaces: Sequence[str]) -> int:
        """Return how many books some workspaces have."""
        return self._open().look(lambda connection: count(connection, workspaces))

    def leaving(self, workspaces: Sequence[str]) -> tuple[ExportedBook, ...]:
        """Return the books of some workspaces whole; `Damaged` if one is not."""
        file = self._open()
        return file.look(lambda connection: exported_books(file, connection, workspaces))

    def take_in(self, books: Sequence[ExportedBook], *, beside: Callable[[], Result]) -> tuple[int, Result]:
        """Add proven books of another store that are not here, and do something beside: both or neither."""
        file = self._open()
        return file.change(lambda connection, root: (take_in(file, connection, root, books), beside()))

    def _faults_of_backup(self) -> Sequence[str]:
        backup = backup_of(self._path)
        if not os.path.exists(backup):
            return []
        found = faults_of(backup, Sealing(self._anchor.key()))
        return [f"its backup {os.path.basename(backup)}: {fault}" for fault in found]

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._file is not None:
                self._file.close()

    def _open(self) -> LedgerFile:
        with self._lock:
            if self._file is None:
                self._file = LedgerFile.open(self._path, anchor=self._anchor, id=self._clock.random().hex())
            return self._file
