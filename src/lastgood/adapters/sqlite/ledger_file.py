"""The file of a store's ledger: its tables, and the seals that tell whether it is as we left it.

Whoever alters a column may alter its type with it: what is bytes is read as bytes, by CAST.

Every entry and every book carries a tag that only the key can make. A book's total is the sum of tags
over its entries' keys, marks and tags, the root that of all books' tags: what was added, altered, moved or
taken away makes a sum that is not the recorded one. The root is sealed with a number that grows with each
change, and the newest number is also kept outside the store. (Sums of keyed tags as digests of sets: Clarke
et al., "Incremental Multiset Hash Functions", 2003.)
"""

from __future__ import annotations

import fcntl
import hmac
import os

from lastgood.adapters.files import sync_directory, sync_file
from lastgood.adapters.sqlite.database import DEFAULT_WAIT, Database, make_private_file, prepare
from lastgood.adapters.sqlite.faults import translate
from lastgood.adapters.sqlite.library import sqlite3
from lastgood.adapters.sqlite.schema import Schema, application, version
from lastgood.adapters.witness import Sighting
from lastgood.errors import Damaged, LastgoodError, Unsupported
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
TAG = 32
_PROVEN_MOST = 100_000
_MODULUS = 1 << 8 * TAG
NOTHING = bytes(TAG)
TRUST_HINT = (
    "if you put this store here yourself (from a backup, another machine), accept it as it is:"
    " workspace.ledger(...).accept()"
)
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


class Root:
    """The sum of all books' tags, and how often the ledger was changed."""

    __slots__ = ("ledger", "seal", "serial", "total")

    def __init__(self, ledger: str, serial: int, total: bytes, seal: bytes) -> None:
        self.ledger = ledger
        self.serial = serial
        self.total = total
        self.seal = seal


_BOOKS = (
    "SELECT workspace, space, CAST(name AS BLOB), CAST(born AS BLOB), entries, CAST(total AS BLOB),"
    " CAST(tag AS BLOB),"
    " typeof(workspace) || typeof(space) || typeof(name) FROM book"
)
# What is of another type is not found by its name.
_TYPES = "texttextblob"


def plus(total: bytes, tag: bytes) -> bytes:
    """Return a sum with a tag in it."""
    return ((int.from_bytes(total, "big") + int.from_bytes(tag, "big")) % _MODULUS).to_bytes(TAG, "big")


def minus(total: bytes, tag: bytes) -> bytes:
    """Return a sum without a tag."""
    return ((int.from_bytes(total, "big") - int.from_bytes(tag, "big")) % _MODULUS).to_bytes(TAG, "big")


def tampered(what: str, why: str) -> Damaged:
    """Return the error for something that is not as we left it."""
    return Damaged(f"{what} {why}", hint="see what is hit: lastgood verify", details={"what": what})


class LedgerFile(Database):
    """A ledger that is open; every access proves first that it is the one last seen."""

    def __init__(self, path: str, *, witness: Witness) -> None:
        self._witness = witness
        self._key = witness.key()
        self.sound: set[int] = set()
        self._proven: set[object] = set()
        self._seen: tuple[object, int] | None = None
        super().__init__(path, schema=SCHEMA, durability="full", wait=DEFAULT_WAIT)

    @classmethod
    def open(cls, path: str, *, witness: Witness, id: str) -> LedgerFile:
        """Open the ledger of a store, making it first if there was none; `Damaged` if it is gone."""
        _ensure(path, witness=witness, id=id)
        return cls(path, witness=witness)

    def tag(self, *fields: bytes | int | str | None) -> bytes:
        """Return what only the key can make of some fields."""
        return _tag(self._key, fields)

    def look(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Ask something of one moment."""

        def asked(connection: sqlite3.Connection) -> Result:
            known = self._witness.last()  # before the moment is fixed, which must not be older
            connection.execute("BEGIN")
            try:
                self._trust(connection, known)
                return work(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

        return self.read(asked)

    def change(self, work: Callable[[sqlite3.Connection, Root], Result]) -> Result:
        """Change something; the root that the work leaves is sealed, and the witness told."""
        with self._witness.watch() as watch:

            def worked(connection: sqlite3.Connection) -> tuple[Root, Result]:
                root = self._trust(connection, watch.known)
                before = root.total
                result = work(connection, root)
                if root.total != before:
                    self.seal(connection, root)
                return root, result

            try:
                root, result = self.write(worked)
            except BaseException:
                self.forget()
                raise
            watch.advance(_sighting(root))
            return result

    def overwrite(self, work: Callable[[sqlite3.Connection, Root], Result]) -> Result:
        """Change something without asking whether what is there is genuine."""
        with self._witness.watch() as watch:

            def worked(connection: sqlite3.Connection) -> tuple[Root, Result]:
                root = _any_root(connection, watch.known)
                result = work(connection, root)
                self.seal(connection, root)
                return root, result

            self.forget()
            root, result = self.write(worked)
            watch.advance(_sighting(root), anew=True)
            return result

    def seal(self, connection: sqlite3.Connection, root: Root) -> None:
        """Record a root under the next number."""
        root.serial += 1
        root.seal = self.tag("root", root.ledger, root.serial, root.total)
        fields = {"id": root.ledger, "serial": root.serial, "root": root.total, "seal": root.seal}
        connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", fields.items())

    def forget(self) -> None:
        """Prove everything anew from here on."""
        self._seen = None
        self.sound.clear()

    def failure(self, error: sqlite3.Error | OSError) -> LastgoodError:
        """Return the error of ours that says what an error of SQLite or the disk means for the caller."""
        return translate(error, self.path, what="the ledger", hint="run: lastgood verify")

    def _prepare(self, connection: sqlite3.Connection) -> None:
        prepare(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")  # what was removed is not to be found in the file
        if application(connection) != APPLICATION_ID:
            raise Damaged(
                f"{printable(self.path)} is not a ledger of lastgood", hint="put it back from a backup"
            )
        found = version(connection)
        if found > VERSION:
            raise Unsupported(
                f"the ledger {printable(self.path)} was written by a newer lastgood"
                f" (ledger version {found}; this one reads up to {VERSION})",
                hint="use the newer lastgood for this store",
                details={"found": found, "supported": VERSION},
            )

    def _trust(self, connection: sqlite3.Connection, known: Sighting | None) -> Root:
        """Return the root, proven; nothing is proven twice while nobody else changed the file."""
        root = read_root(connection)
        seen = (connection, int(connection.execute("PRAGMA data_version").fetchone()[0]))
        if self._seen == seen:
            return root
        self.forget()
        if root.seal != self.tag("root", root.ledger, root.serial, root.total):
            raise Damaged(f"the ledger {printable(self.path)} was not sealed here", hint=TRUST_HINT)
        if known is not None and not _follows(root, known):
            raise Damaged(
                f"the ledger {printable(self.path)} is not the one last seen:"
                f" it is at change {root.serial}, and was at {known.serial}",
                hint=TRUST_HINT,
                details={"serial": root.serial, "known": known.serial},
            )
        self._prove_books(connection, root)
        self._seen = seen
        return root

    def _prove_books(self, connection: sqlite3.Connection, root: Root) -> None:
        total = 0
        for row in connection.execute(_BOOKS):
            *fields, tag, types = row
            if row not in self._proven and (types != _TYPES or tag != self.tag("book", *fields)):
                raise tampered(f"a book of the ledger {printable(self.path)}", "is not as it was written")
            self._proven.add(row)
            total += int.from_bytes(tag, "big")
        if total % _MODULUS != int.from_bytes(root.total, "big"):
            raise tampered(
                f"the ledger {printable(self.path)}", "has lost books, or older ones in their place"
            )
        if len(self._proven) > _PROVEN_MOST:
            self._proven.clear()


def _tag(key: bytes, fields: tuple[bytes | int | str | None, ...]) -> bytes:
    message = []
    for field in fields:
        if isinstance(field, bytes):
            content = field
        else:
            content = b"" if field is None else str(field).encode("utf-8", "surrogatepass")
        message.append(b"%d:" % (-1 if field is None else len(content)))
        message.append(content)
    return hmac.digest(key, b"".join(message), "sha256")


def read_root(connection: sqlite3.Connection) -> Root:
    """Return the root as it is recorded."""
    rows = dict(connection.execute("SELECT name, value FROM meta").fetchall())
    match (rows.get("id"), rows.get("serial"), rows.get("root"), rows.get("seal")):
        case (str() as ledger, int() as serial, bytes() as total, bytes() as seal):
            return Root(ledger, serial, total, seal)
    raise tampered("the ledger", "has lost its seal")


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


def _sighting(root: Root) -> Sighting:
    return Sighting(ledger=root.ledger, serial=root.serial, seal=root.seal)


def _ensure(path: str, *, witness: Witness, id: str) -> None:
    if os.path.exists(path):
        return
    try:
        turn = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(turn, fcntl.LOCK_EX)
            if not os.path.exists(path):
                _create(path, witness=witness, id=id)
        finally:
            os.close(turn)
    except (sqlite3.Error, OSError) as error:
        raise translate(error, path, what="the ledger", hint="check the store") from error


def _create(path: str, *, witness: Witness, id: str) -> None:
    known = witness.last()
    if known is not None:
        raise Damaged(
            f"the ledger {printable(path)} is gone; it had been changed {known.serial} times",
            hint=f"put it back from a backup; or, to begin an empty one, remove {printable(witness.file)}",
        )
    seal = _tag(witness.key(), ("root", id, 0, NOTHING))
    temporary = path + ".new"
    for leftover in (temporary, temporary + "-journal"):
        if os.path.exists(leftover):
            os.unlink(leftover)
    make_private_file(temporary)
    connection = sqlite3.connect(temporary, isolation_level=None)
    try:
        connection.execute("PRAGMA auto_vacuum = FULL")
        connection.execute("BEGIN IMMEDIATE")
        for statement in _STATEMENTS:
            connection.execute(statement)
        fields = {"changes": 0, "id": id, "serial": 0, "root": NOTHING, "seal": seal}
        connection.executemany("INSERT INTO meta VALUES (?, ?)", fields.items())
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    sync_file(temporary)
    os.rename(temporary, path)
    sync_directory(os.path.dirname(path))
