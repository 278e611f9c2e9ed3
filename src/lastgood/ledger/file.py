"""The file of a store's ledger: its tables, and whether it is the one that we left.

Whoever alters a column may alter its type with it: what is bytes is read as bytes, by CAST. The root of
all tags is sealed with a number that grows with each change, and the newest number is also kept outside
the store.

Every entry and every book carries a tag that only the key can make. A book's total is the sum of tags
over its entries' keys, marks and tags, the root that of all books' tags: what was added, altered, moved or
taken away makes a sum that is not the recorded one. (Sums of keyed tags as digests of sets: Clarke et al.,
"Incremental Multiset Hash Functions", 2003.)

SQLite looks again, ever more seldom, whether a database is free: beside somebody who writes one transaction
after the other it hardly ever is, and the others starve. So whoever wants to write stands first in line here
until the transaction has begun, and who has just written has to stand behind.
"""

from __future__ import annotations

import fcntl
import hmac
import os
import time
from contextlib import suppress
from weakref import WeakKeyDictionary

from lastgood.cancellation import pause
from lastgood.catalogue.database import (
    DEFAULT_WAIT,
    RESCUE,
    Database,
    Schema,
    application,
    make_private_file,
    newer,
    open_uri,
    prepare,
    version,
    within,
)
from lastgood.catalogue.sqlite import BROKEN, REPAIR_HINT, sqlite3, translate
from lastgood.errors import Damaged
from lastgood.files import sync_directory, sync_file
from lastgood.ledger.cells import Remembered
from lastgood.ledger_anchor import LedgerState
from lastgood.locks import FolderTurn
from lastgood.paths import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Protocol, Self, TypeVar

    from lastgood.ledger.cells import Encoded, Encoding
    from lastgood.ledger_anchor import LedgerAnchor

    class Tag(Protocol):
        """Returns what only the key can make of some fields."""

        def __call__(self, *fields: bytes | int | str | None) -> bytes:
            """Return the tag."""

    class Tags(Protocol):
        """Makes tags by the key."""

        def tag(self, *fields: bytes | int | str | None) -> bytes:
            """Return what only the key can make of some fields."""

    Result = TypeVar("Result")
    # A book's number, when it was born, how many entries it has, their sum, how many were replaced, its tag.
    BookRow = tuple[int, bytes, int, bytes, int, bytes]


# --- What the key of a ledger makes: tags, sums of them, and the seal of the whole ---

TAG = 32
_PROVEN_MOST = 100_000
# How much memory the fields of proven tags may take up, in bytes.
_TAGS_MOST = 4 << 20
_MODULUS = 1 << 8 * TAG
NOTHING = bytes(TAG)
TRUST_HINT = (
    "if you put this store here yourself (from a backup, another machine), accept it as it is:"
    " workspace.ledger(...).accept()"
)
_BOOKS = (
    "SELECT workspace, space, CAST(name AS BLOB), CAST(born AS BLOB), entries, CAST(total AS BLOB),"
    " CAST(tag AS BLOB),"
    " typeof(workspace) || typeof(space) || typeof(name) FROM book"
)
_SEAL = "INSERT OR REPLACE INTO meta VALUES ('id', ?), ('serial', ?), ('root', ?), ('seal', ?)"
# What is of another type is not found by its name.
TYPES = "texttextblob"


class Root:
    """The sum of all books' tags, and how often the ledger was changed."""

    __slots__ = ("ledger", "seal", "serial", "total")

    def __init__(self, ledger: str, serial: int, total: bytes, seal: bytes) -> None:
        self.ledger: str = ledger
        self.serial: int = serial
        self.total: bytes = total
        self.seal: bytes = seal


def plus(total: bytes, tag: bytes) -> bytes:
    """Return a sum with a tag in it."""
    return ((int.from_bytes(total, "big") + int.from_bytes(tag, "big")) % _MODULUS).to_bytes(TAG, "big")


def minus(total: bytes, tag: bytes) -> bytes:
    """Return a sum without a tag."""
    return ((int.from_bytes(total, "big") - int.from_bytes(tag, "big")) % _MODULUS).to_bytes(TAG, "big")


def tampered(what: str, why: str) -> Damaged:
    """Return the error for something that is not as we left it."""
    return Damaged(f"{what} {why}", hint="see what is hit: lastgood verify", details={"what": what})


class Sealing:
    """What the key can tell of a ledger, wherever it lies."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._proven: set[object] = set()
        self._tags: Remembered[bytes] = Remembered(most=_TAGS_MOST)

    def is_tag(self, tag: bytes, *fields: bytes | int | str | None) -> bool:
        """Tell whether a tag is that of some fields; what was proven is not computed again."""
        if self._tags.get(fields) == tag:
            return True
        if tag != self.tag(*fields):
            return False
        self.know(tag, *fields)
        return True

    def know(self, tag: bytes, *fields: bytes | int | str | None) -> None:
        """Remember that a tag is that of some fields."""
        size = TAG + sum(len(field) for field in fields if isinstance(field, bytes | str))
        self._tags.put(fields, tag, size=size)

    def tag(self, *fields: bytes | int | str | None) -> bytes:
        """Return what only the key can make of some fields."""
        message = []
        for field in fields:
            if field is None:
                message.append(b"-1:")
                continue
            content = field if type(field) is bytes else str(field).encode("utf-8", "surrogatepass")
            message.append(b"%d:%b" % (len(content), content))
        return hmac.digest(self._key, b"".join(message), "sha256")

    def root(self, connection: sqlite3.Connection, *, path: str) -> Root:
        """Return the root of a ledger, proven to be sealed by the key."""
        root = read_root(connection)
        if root.seal != self.tag("root", root.ledger, root.serial, root.total):
            raise Damaged(f"the ledger {printable(path)} was not sealed here", hint=TRUST_HINT)
        return root

    def seal(self, connection: sqlite3.Connection, root: Root) -> None:
        """Record a root under the next number."""
        root.serial += 1
        root.seal = self.tag("root", root.ledger, root.serial, root.total)
        connection.execute(_SEAL, (root.ledger, root.serial, root.total, root.seal))

    def prove_books(self, connection: sqlite3.Connection, root: Root, *, path: str) -> None:
        """Raise `Damaged` unless a ledger has the books that its root stands for."""
        total = 0
        for row in connection.execute(_BOOKS):
            *fields, tag, types = row
            if row not in self._proven and (types != TYPES or tag != self.tag("book", *fields)):
                raise tampered(f"a book of the ledger {printable(path)}", "is not as it was written")
            self._proven.add(row)
            total += int.from_bytes(tag, "big")
        if total % _MODULUS != int.from_bytes(root.total, "big"):
            raise tampered(f"the ledger {printable(path)}", "has lost books, or older ones in their place")
        if len(self._proven) > _PROVEN_MOST:
            self._proven.clear()


def read_root(connection: sqlite3.Connection) -> Root:
    """Return the root as it is recorded."""
    rows = dict(connection.execute("SELECT name, value FROM meta").fetchall())
    match (rows.get("id"), rows.get("serial"), rows.get("root"), rows.get("seal")):
        case (str() as ledger, int() as serial, bytes() as total, bytes() as seal):
            return Root(ledger, serial, total, seal)
    raise tampered("the ledger", "has lost its seal")


def ledger_id(path: str) -> str | None:
    """Return the id that a ledger bears, unproven; None where it cannot be read."""
    connection = open_uri(path, "mode=ro", wait=DEFAULT_WAIT)
    try:
        prepare(connection)
        return read_root(connection).ledger
    except (*BROKEN, Damaged):
        return None
    finally:
        connection.close()


# --- A place in the queue of those who want to write ---

_STRIDE = 0.002
_PATIENCE = 0.05


class WriterQueue:
    """The first place in the line before a folder, from when a block begins until it is left.

    It is a courtesy: who cannot have it within ``wait`` seconds goes on without, and soon where who
    stands first is stopped.
    """

    def __init__(self, folder: str, *, wait: float) -> None:
        self._folder = folder
        self._wait = wait
        self._held = -1

    def __enter__(self) -> Self:
        try:
            self._held = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._stand()
        except OSError:  # it is gone, or on a disk without locks: SQLite says what is to be said
            self.leave()
        except BaseException:  # an interruption
            self.leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def leave(self) -> None:
        """Let the next one stand first; harmless when repeated."""
        held, self._held = self._held, -1
        if held < 0:
            return
        with suppress(OSError):
            # Explicitly, because a child between fork and exec may have the open folder too.
            fcntl.flock(held, fcntl.LOCK_UN)
        os.close(held)

    def _stand(self) -> None:
        started = looked = time.monotonic()
        while not self._is_first() and (now := time.monotonic()) < started + self._wait:
            if now - looked >= _PATIENCE:
                looked = now
                if self._is_stopped():
                    return
            pause(_STRIDE)

    def _is_stopped(self) -> bool:
        from lastgood.lock_owner import stopped_holder

        return stopped_holder((os.fsencode(self._folder),)) is not None

    def _is_first(self) -> bool:
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


# --- The file of a store's ledger: its tables, and whether it is the one that we left ---

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
SCHEMA = Schema(
    version=VERSION,
    statements=_STATEMENTS,
    what="ledger",
    damage_hint="run: lastgood verify",
    newer_hint="use the newer lastgood for this store",
)


# How much memory what is known of pieces may take up, in bytes, and about how much one that is held does.
_ENCODED_MOST = 32 << 20
_HEADS_MOST = 4 << 20
_BOOKS_MOST, BOOK = 4 << 20, 1000
_HELD_MOST, _HELD = 8 << 20, 200


class LedgerFile(Database):
    """A ledger that is open; every access proves first that it is the one last seen."""

    def __init__(self, path: str, *, anchor: LedgerAnchor) -> None:
        self._anchor = anchor
        self.sealing: Sealing = Sealing(anchor.key())
        self.tag: Tag = self.sealing.tag
        # What is known while nobody else changes the file: its root, the rows of books, those (by their
        # numbers) that hold what they are to hold, heads of their entries, pieces that they hold, and what
        # pieces are in other encodings.
        self._root: Root | None = None
        self.books: Remembered[BookRow] = Remembered(most=_BOOKS_MOST)
        self.sound: set[int] = set()
        self.heads: Remembered[bytes] = Remembered(most=_HEADS_MOST)
        self._held: Remembered[bytes] = Remembered(most=_HELD_MOST)
        self._encoded: WeakKeyDictionary[Encoding, Remembered[Encoded]] = WeakKeyDictionary()
        self._seen: tuple[object, int] | None = None
        super().__init__(path, schema=SCHEMA, durability="full", wait=DEFAULT_WAIT)

    @classmethod
    def open(cls, path: str, *, anchor: LedgerAnchor, id: str) -> LedgerFile:
        """Open the ledger of a store, making it first if there was none; `Damaged` if it is gone."""
        _ensure(path, anchor=anchor, id=id)
        return cls(path, anchor=anchor)

    def look(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Ask something of one moment."""

        def as_seen(connection: sqlite3.Connection) -> tuple[Result] | None:
            return (work(connection),) if self._is_as_seen(connection) else None

        def asked(connection: sqlite3.Connection) -> Result:
            found = within("BEGIN", connection, work=as_seen)
            if found is not None:
                return found[0]
            known = self._anchor.last()  # before the moment is fixed, which must not be older

            def trusted(connection: sqlite3.Connection) -> Result:
                self._trust(connection, known)
                return work(connection)

            return within("BEGIN", connection, work=trusted)

        return self.read(asked)

    def change(self, work: Callable[[sqlite3.Connection, Root], Result]) -> Result:
        """Change something; the root that the work leaves is sealed, and the anchor told."""
        with (
            self._anchor.watch() as watch,
            WriterQueue(os.path.dirname(self.path), wait=DEFAULT_WAIT) as place,
        ):

            def worked(connection: sqlite3.Connection) -> tuple[Root, Result]:
                place.leave()
                root = self._trust(connection, watch.known)
                before = root.total
                result = work(connection, root)
                if root.total != before:
                    self.sealing.seal(connection, root)
                return root, result

            with self._lock:  # nobody else may rely on what is known until that is forgotten
                try:
                    root, result = self.write(worked)
                except BaseException:
                    self.forget()
                    raise
            watch.advance(state_of(root))
            return result

    def overwrite(self, work: Callable[[sqlite3.Connection, Root], Result]) -> Result:
        """Change something without asking whether what is there is genuine."""
        with self._anchor.watch() as watch:

            def worked(connection: sqlite3.Connection) -> tuple[Root, Result]:
                root = _any_root(connection, watch.known)
                result = work(connection, root)
                self.sealing.seal(connection, root)
                return root, result

            with self._lock:
                try:
                    root, result = self.write(worked)
                finally:
                    self.forget()
            watch.advance(state_of(root), anew=True)
            return result

    def last_seen(self) -> LedgerState | None:
        """Return what was last seen of the ledger."""
        return self._anchor.last()

    def forget(self) -> None:
        """Prove everything anew from here on."""
        self._seen = self._root = None
        self.sound.clear()
        self._encoded.clear()
        self.heads = Remembered(most=_HEADS_MOST)
        self.forget_books()
        self.forget_held()

    def forget_books(self) -> None:
        """Read anew how books are recorded: one was removed."""
        self.books = Remembered(most=_BOOKS_MOST)

    def forget_held(self) -> None:
        """Ask anew which pieces books hold: some were removed."""
        self._held = Remembered(most=_HELD_MOST)

    def holds(self, book: int, piece: bytes) -> bool:
        """Tell whether a book is known to hold a piece."""
        return self._held.get((book, piece)) is not None

    def hold(self, book: int, piece: bytes, cell: bytes = b"") -> None:
        """Know that a book holds a piece, and what it is if that was written just now."""
        self._held.put((book, piece), cell, size=_HELD + len(cell))

    def written(self, book: int, piece: bytes) -> bytes | None:
        """Return a piece of a book that was written here, and that nobody else can have altered since."""
        return self._held.get((book, piece)) or None

    def encoded(self, encoding: Encoding) -> Remembered[Encoded]:
        """Return what is known of pieces in another encoding."""
        return self._encoded.setdefault(encoding, Remembered(most=_ENCODED_MOST))

    def _turned(self) -> None:
        self.forget()

    def _prepare(self, connection: sqlite3.Connection) -> None:
        prepare(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")  # what was removed is not to be found in the file
        gate(connection, path=self.path)

    def _trust(self, connection: sqlite3.Connection, known: LedgerState | None) -> Root:
        """Return the root, proven; nothing is proven twice while nobody else changed the file."""
        if self._root is not None and self._is_as_seen(connection):
            return self._root
        self.forget()
        root = prove_genuine(connection, self.sealing, known, path=self.path)
        self.sealing.prove_books(connection, root, path=self.path)
        self._seen, self._root = _moment(connection), root
        return root

    def _is_as_seen(self, connection: sqlite3.Connection) -> bool:
        """Tell, in a transaction, whether nobody else changed the file since all of it was proven.

        What this process wrote since is its own, and is kept in mind as it was written: so the anchor is not
        read then, which says no more than how far others had come.
        """
        return self._seen is not None and self._seen == _moment(connection)


def prove_genuine(
    connection: sqlite3.Connection, sealing: Sealing, known: LedgerState | None, *, path: str
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


def _moment(connection: sqlite3.Connection) -> tuple[object, int]:
    """Return what differs, in a transaction, once others than this connection have committed a change."""
    return connection, int(connection.execute("PRAGMA data_version").fetchone()[0])


def gate(connection: sqlite3.Connection, *, path: str) -> None:
    """Raise `Damaged` for what is no ledger, `Unsupported` for one of a newer lastgood."""
    if application(connection) != APPLICATION_ID:
        raise Damaged(f"{printable(path)} is not a ledger of lastgood", hint="put it back from a backup")
    found = version(connection)
    if found > VERSION:
        raise newer(path, found, SCHEMA)


def _any_root(connection: sqlite3.Connection, known: LedgerState | None) -> Root:
    """Return a root to go on from, whatever became of the recorded one."""
    try:
        root = read_root(connection)
    except Damaged:
        root = Root("accepted" if known is None else known.ledger, 0, NOTHING, b"")
    if known is not None:
        root.serial = max(root.serial, known.serial)
    return root


def _follows(root: Root, known: LedgerState) -> bool:
    if root.ledger != known.ledger or root.serial < known.serial:
        return False
    return root.serial > known.serial or root.seal == known.seal


def state_of(root: Root) -> LedgerState:
    """Return what the anchor keeps of a root."""
    return LedgerState(ledger=root.ledger, serial=root.serial, seal=root.seal)


def _ensure(path: str, *, anchor: LedgerAnchor, id: str) -> None:
    if os.path.exists(path):
        return
    try:
        with FolderTurn(os.path.dirname(path), what=f"the ledger {printable(path)}, which is being made,"):
            if not os.path.exists(path):
                _create(path, anchor=anchor, id=id)
    except (sqlite3.Error, OSError) as error:
        raise translate(error, path, what="the ledger", hint="check the store") from error


def _create(path: str, *, anchor: LedgerAnchor, id: str) -> None:
    known = anchor.last()
    if os.path.exists(path + RESCUE):
        raise Damaged(f"a repair of the ledger {printable(path)} was interrupted", hint=REPAIR_HINT)
    if known is not None:
        raise Damaged(
            f"the ledger {printable(path)} is gone; it had been changed {known.serial} times",
            hint=f"put it back from a backup; or, to begin an empty one, remove {printable(anchor.file)}",
        )
    seal = Sealing(anchor.key()).tag("root", id, 0, NOTHING)
    fields = {"changes": 0, "id": id, "serial": 0, "root": NOTHING, "seal": seal}
    temporary = path + ".new"
    write_new(
        temporary, lambda connection: connection.executemany("INSERT INTO meta VALUES (?, ?)", fields.items())
    )
    os.rename(temporary, path)
    sync_directory(os.path.dirname(path))


def write_new(path: str, fill: Callable[[sqlite3.Connection], object]) -> None:
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
