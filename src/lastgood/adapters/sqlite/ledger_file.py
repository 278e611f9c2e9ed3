"""The file of a store's ledger: its tables, and whether it is the one that we left.

Whoever alters a column may alter its type with it: what is bytes is read as bytes, by CAST. The root of
all tags is sealed with a number that grows with each change, and the newest number is also kept outside
the store.
"""

from __future__ import annotations

import os

from lastgood.adapters.files import sync_directory, sync_file
from lastgood.adapters.locks import FolderTurn
from lastgood.adapters.sqlite.database import (
    DEFAULT_WAIT,
    RESCUE,
    Database,
    make_private_file,
    prepare,
    within,
)
from lastgood.adapters.sqlite.faults import REPAIR_HINT, translate
from lastgood.adapters.sqlite.ledger_seal import NOTHING, TRUST_HINT, Root, Sealing, read_root, tag_of
from lastgood.adapters.sqlite.library import sqlite3
from lastgood.adapters.sqlite.queue import Place
from lastgood.adapters.sqlite.schema import Schema, application, version
from lastgood.adapters.witness import Sighting
from lastgood.errors import Busy, Damaged, LastgoodError, Unsupported
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from lastgood.adapters.witness import Witness

    Result = TypeVar("Result")

# "lstl": tells a ledger from a catalogue.
APPLICATION_ID = 0x6C73746C
VERSION = 1
_STATEMENTS = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY NOT NULL, value NOT NULL) WITHOUT ROWID",
    """
    CREATE TABLE book (
        number INTEGER PRIMARY KEY,
        workspace TEXT NOT NULL,
        space TEXT NOT NULL,
        name BLOB NOT NULL,
        born BLOB NOT NULL,
        entries INTEGER NOT NULL,
        total BLOB NOT NULL,
        loose INTEGER NOT NULL,
        tag BLOB NOT NULL,
        UNIQUE (workspace, space, name)
    )
    """,
    """
    CREATE TABLE entry (
        number INTEGER PRIMARY KEY,
        book INTEGER NOT NULL REFERENCES book (number),
        key BLOB NOT NULL,
        mark BLOB,
        tag BLOB NOT NULL,
        head BLOB NOT NULL,
        body BLOB NOT NULL,
        UNIQUE (book, key)
    )
    """,
    "CREATE INDEX entry_marked ON entry (mark, book) WHERE mark IS NOT NULL",
    """
    CREATE TABLE piece (
        number INTEGER PRIMARY KEY,
        book INTEGER NOT NULL REFERENCES book (number),
        id BLOB NOT NULL,
        size INTEGER NOT NULL,
        content BLOB NOT NULL,
        UNIQUE (book, id)
    )
    """,
)
SCHEMA = Schema(version=VERSION, statements=_STATEMENTS)


class LedgerFile(Database):
    """A ledger that is open; every access proves first that it is the one last seen."""

    def __init__(self, path: str, *, witness: Witness) -> None:
        self._witness = witness
        self.sealing = Sealing(witness.key())
        self.tag = self.sealing.tag
        self.sound: set[int] = set()
        self._seen: tuple[object, int] | None = None
        self._identity: tuple[int, int] | None = None
        super().__init__(path, schema=SCHEMA, durability="full", wait=DEFAULT_WAIT)

    @classmethod
    def open(cls, path: str, *, witness: Witness, id: str) -> LedgerFile:
        """Open the ledger of a store, making it first if there was none; `Damaged` if it is gone."""
        _ensure(path, witness=witness, id=id)
        return cls(path, witness=witness)

    def look(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Ask something of one moment."""

        def asked(connection: sqlite3.Connection) -> Result:
            known = self._witness.last()  # before the moment is fixed, which must not be older

            def trusted(connection: sqlite3.Connection) -> Result:
                self._trust(connection, known)
                return work(connection)

            return within("BEGIN", connection, work=trusted)

        return self.read(asked)

    def change(self, work: Callable[[sqlite3.Connection, Root], Result]) -> Result:
        """Change something; the root that the work leaves is sealed, and the witness told."""
        with self._witness.watch() as watch, Place(os.path.dirname(self.path), wait=DEFAULT_WAIT) as place:

            def worked(connection: sqlite3.Connection) -> tuple[Root, Result]:
                place.leave()
                self._demand_same()
                root = self._trust(connection, watch.known)
                before = root.total
                result = work(connection, root)
                if root.total != before:
                    self.sealing.seal(connection, root)
                return root, result

            try:
                root, result = self.write(worked)
            except BaseException:
                self.forget()
                raise
            watch.advance(sighting(root))
            return result

    def overwrite(self, work: Callable[[sqlite3.Connection, Root], Result]) -> Result:
        """Change something without asking whether what is there is genuine."""
        with self._witness.watch() as watch:

            def worked(connection: sqlite3.Connection) -> tuple[Root, Result]:
                self._demand_same()
                root = _any_root(connection, watch.known)
                result = work(connection, root)
                self.sealing.seal(connection, root)
                return root, result

            self.forget()
            root, result = self.write(worked)
            watch.advance(sighting(root), anew=True)
            return result

    def last_seen(self) -> Sighting | None:
        """Return what was last seen of the ledger."""
        return self._witness.last()

    def forget(self) -> None:
        """Prove everything anew from here on."""
        self._seen = None
        self.sound.clear()

    def failure(self, error: sqlite3.Error | OSError | UnicodeDecodeError) -> LastgoodError:
        """Return the error of ours that says what an error of SQLite or the disk means for the caller."""
        fault = self._header_fault(error)
        if fault is not None:
            return Damaged(f"the ledger {printable(self.path)} is damaged: {fault}", hint=REPAIR_HINT)
        return translate(error, self.path, what="the ledger", hint="run: lastgood verify")

    def _ready(self) -> sqlite3.Connection:
        """Return the connection to the file that lies there now: a repair may have put another one there."""
        here = _identity(self.path)
        if self._connection is not None and here != self._identity:
            super().close()
            self.forget()
            self._connection = self._connect()
        return super()._ready()

    def _demand_same(self) -> None:
        """Refuse, in a transaction, to write to a file that a repair set aside before that began."""
        if _identity(self.path) != self._identity:
            raise Busy(
                f"the ledger {printable(self.path)} was replaced by a repair just now", hint="try again"
            )

    def _connect(self) -> sqlite3.Connection:
        self._identity = _identity(self.path)
        return super()._connect()

    def _prepare(self, connection: sqlite3.Connection) -> None:
        prepare(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")  # what was removed is not to be found in the file
        gate(connection, path=self.path)

    def _newer(self, found: int) -> Unsupported:
        return _newer(self.path, found)

    def _trust(self, connection: sqlite3.Connection, known: Sighting | None) -> Root:
        """Return the root, proven; nothing is proven twice while nobody else changed the file."""
        root = read_root(connection)
        seen = (connection, int(connection.execute("PRAGMA data_version").fetchone()[0]))
        if self._seen == seen:
            return root
        self.forget()
        prove_genuine(connection, self.sealing, known, path=self.path)
        self.sealing.prove_books(connection, root, path=self.path)
        self._seen = seen
        return root


def prove_genuine(
    connection: sqlite3.Connection, sealing: Sealing, known: Sighting | None, *, path: str
) -> Root:
    """Return the root; `Damaged` unless it was sealed by this key, and none that is newer was ever seen."""
    root = sealing.root(connection, path=path)
    if known is not None and not _follows(root, known):
        raise Damaged(
            f"the ledger {printable(path)} is not the one last seen:"
            f" it is at change {root.serial}, and was at {known.serial}",
            hint=TRUST_HINT,
            details={"serial": root.serial, "known": known.serial},
        )
    return root


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:  # whoever opens it says why
        return None
    return found.st_dev, found.st_ino


def gate(connection: sqlite3.Connection, *, path: str) -> None:
    """Raise `Damaged` for what is no ledger, `Unsupported` for one of a newer lastgood."""
    if application(connection) != APPLICATION_ID:
        raise Damaged(f"{printable(path)} is not a ledger of lastgood", hint="put it back from a backup")
    found = version(connection)
    if found > VERSION:
        raise _newer(path, found)


def _newer(path: str, found: int) -> Unsupported:
    return Unsupported(
        f"the ledger {printable(path)} was written by a newer lastgood"
        f" (ledger version {found}; this one reads up to {VERSION})",
        hint="use the newer lastgood for this store",
        details={"found": found, "supported": VERSION},
    )


def _any_root(connection: sqlite3.Connection, known: Sighting | None) -> Root:
    """Return a root to go on from, whatever became of the recorded one."""
    try:
        root = read_root(connection)
    except Damaged:
        root = Root("accepted" if known is None else known.ledger, 0, NOTHING, b"")
    if known is not None:
        root.serial = max(root.serial, known.serial)
    return root


def _follows(root: Root, known: Sighting) -> bool:
    if root.ledger != known.ledger or root.serial < known.serial:
        return False
    return root.serial > known.serial or root.seal == known.seal


def sighting(root: Root) -> Sighting:
    """Return what the witness keeps of a root."""
    return Sighting(ledger=root.ledger, serial=root.serial, seal=root.seal)


def _ensure(path: str, *, witness: Witness, id: str) -> None:
    if os.path.exists(path):
        return
    try:
        with FolderTurn(os.path.dirname(path), what=f"the ledger {printable(path)}, which is being made,"):
            if not os.path.exists(path):
                _create(path, witness=witness, id=id)
    except (sqlite3.Error, OSError) as error:
        raise translate(error, path, what="the ledger", hint="check the store") from error


def _create(path: str, *, witness: Witness, id: str) -> None:
    known = witness.last()
    if os.path.exists(path + RESCUE):
        raise Damaged(f"a repair of the ledger {printable(path)} was interrupted", hint=REPAIR_HINT)
    if known is not None:
        raise Damaged(
            f"the ledger {printable(path)} is gone; it had been changed {known.serial} times",
            hint=f"put it back from a backup; or, to begin an empty one, remove {printable(witness.file)}",
        )
    seal = tag_of(witness.key(), ("root", id, 0, NOTHING))
    fields = {"changes": 0, "id": id, "serial": 0, "root": NOTHING, "seal": seal}
    temporary = path + ".new"
    lay_out(
        temporary, lambda connection: connection.executemany("INSERT INTO meta VALUES (?, ?)", fields.items())
    )
    os.rename(temporary, path)
    sync_directory(os.path.dirname(path))


def lay_out(path: str, fill: Callable[[sqlite3.Connection], object]) -> None:
    """Write a ledger into a new file, durably: its tables, and what they are filled with."""
    for leftover in (path, path + "-journal"):
        if os.path.exists(leftover):
            os.unlink(leftover)
    make_private_file(path)
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        prepare(connection)
        connection.execute("PRAGMA auto_vacuum = FULL")
        connection.execute("BEGIN IMMEDIATE")
        for statement in _STATEMENTS:
            connection.execute(statement)
        fill(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    sync_file(path)
