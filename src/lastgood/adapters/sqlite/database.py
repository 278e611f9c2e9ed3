"""One SQLite file: created whole, opened safely, every transaction durable, every failure translated."""

from __future__ import annotations

import errno
import os
from _thread import RLock

from lastgood.adapters.files import PRIVATE_FILE, sync_directory, sync_file
from lastgood.adapters.locks import FolderTurn
from lastgood.adapters.sqlite.faults import REPAIR_HINT, primary_code, translate
from lastgood.adapters.sqlite.library import sqlite3
from lastgood.adapters.sqlite.patience import SLICE, await_set_up, patiently
from lastgood.adapters.sqlite.schema import APPLICATION_ID, application, create, migrate, said, version
from lastgood.adapters.sqlite.seal import seal_of
from lastgood.errors import Damaged, LastgoodError, Unsupported, Usage
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from lastgood.adapters.sqlite.image import Seen
    from lastgood.adapters.sqlite.schema import Schema
    from lastgood.model.settings import Durability

    Result = TypeVar("Result")
    Work = Callable[[sqlite3.Connection], Result]

DEFAULT_WAIT = 10.0
# By one of these SQLite says that it cannot make the file beside a database which it needs for its log.
_UNWRITABLE = frozenset(
    {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL}
)
# So many pages (a megabyte) of the log are carried into the file at a time, about once in forty saves.
_LOG_PAGES = 256
# With less than that free no file of a database is written to.
_SCANT_BYTES = 64 << 10
# With fewer inodes left nothing is written beside one: a pack, its index, and the files of a log.
_SCANT_FILES = 4
BACKUP = "catalogue.backup.sqlite3"
# The newest first: as they are written now, and (without compression) as they were before.
BACKUPS = (BACKUP + ".gz", BACKUP + ".1.gz", BACKUP, BACKUP + ".1")
# A finished replacement for a damaged catalogue; while it is there, a repair has not ended.
RESCUE = ".rescue"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-~")
# A connection that came over a fork belongs to the parent: closing it here could undo its locks.
_abandoned: list[sqlite3.Connection] = []


class Database:
    """A connection that threads may share, and that is opened anew in a forked child."""

    # Set where the file could not be opened, and its copy is what is read.
    _copied: Seen | None = None

    def __init__(self, path: str, *, schema: Schema, durability: Durability, wait: float) -> None:
        self.path = path
        self._schema = schema
        self._durability = durability
        self._wait = wait
        self._lock = RLock()
        self._pid = os.getpid()
        self._connection: sqlite3.Connection | None = self._connect()

    def read(self, work: Work[Result]) -> Result:
        """Ask something; one statement sees one moment."""
        with self._lock:
            self._look_again(changing=False)
            connection = self._ready()
            try:
                return patiently(lambda: work(connection), path=self.path, wait=self._wait)
            except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
                self._refuse_newer(connection)
                raise self.failure(error) from error
            except Damaged:
                self._refuse_newer(connection)
                raise

    def write(self, work: Work[Result]) -> Result:
        """Change something in one transaction, durable on return; nothing is changed if it raises."""
        with self._lock:
            self._look_again(changing=True)
            connection = self._ready()
            self.demand_room()
            try:
                return self._in_transaction(connection, work)
            except (sqlite3.Error, UnicodeDecodeError) as error:
                raise self.failure(error) from error

    def demand_room(self, *, beside: int = 0) -> None:
        """Refuse with `NoRoom` where the disk takes no change, once so many other bytes are written."""
        full = self._no_room(beside=beside)
        if full is not None:
            raise full

    def empty_log(self) -> None:
        """Carry the log over and cut it to nothing, unless others read or write just then."""
        self.read(_empty_log)

    def close(self) -> None:
        """Close the connection; harmless when repeated."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is None:
                return
            if self._pid != os.getpid():
                _abandoned.append(connection)
                return
            connection.close()

    def refuse_newer(self) -> None:
        """Raise `Unsupported` if a newer lastgood has brought it up since it was opened."""
        with self._lock:
            self._refuse_newer(self._ready())

    def _refuse_newer(self, connection: sqlite3.Connection) -> None:
        try:
            found = version(connection)
        except (sqlite3.Error, UnicodeDecodeError):
            return  # what went wrong before says more
        if found > self._schema.version:
            raise self._newer(found)

    def _newer(self, found: int) -> Unsupported:
        return newer(self.path, found, self._schema)

    def failure(self, error: sqlite3.Error | OSError | UnicodeDecodeError) -> LastgoodError:
        """Return the error of ours that says what an error of SQLite or the disk means for the caller."""
        fault = self._header_fault(error)
        if fault is not None:
            return Damaged(f"the catalogue {printable(self.path)} is damaged: {fault}", hint=REPAIR_HINT)
        return translate(error, self.path)

    def _header_fault(self, error: sqlite3.Error | OSError | UnicodeDecodeError) -> str | None:
        """Return what is wrong with the file's header where that is what SQLite takes for read-only."""
        if isinstance(error, OSError) or primary_code(error) != sqlite3.SQLITE_READONLY:
            return None
        from lastgood.adapters.sqlite.image import form_fault  # lazily: hardly any header is damaged

        try:
            connection = open_uri(self.path, "mode=ro", wait=0)
        except sqlite3.Error:
            return None
        try:
            return form_fault(connection)
        except sqlite3.Error:
            return None
        finally:
            connection.close()

    def _ready(self) -> sqlite3.Connection:
        if self._pid != os.getpid():
            if self._connection is not None:
                _abandoned.append(self._connection)
                self._connection = self._connect()
            self._pid = os.getpid()
        if self._connection is None:
            raise Usage("the workspace was closed", hint="open it again: lastgood.open(path)")
        return self._connection

    def _in_transaction(self, connection: sqlite3.Connection, work: Work[Result]) -> Result:
        try:
            # A signal that came while it waited for its turn is met here, when it has just begun.
            patiently(lambda: connection.execute("BEGIN IMMEDIATE"), path=self.path, wait=self._wait)
            # Brought up by a newer lastgood since it was opened, it takes nothing of ours.
            self._refuse_newer(connection)
            result = work(connection)
            connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'changes'")
            connection.execute("COMMIT")
            return result
        finally:
            _take_back(connection)

    def _look_again(self, *, changing: bool) -> None:
        """Open the file anew where a copy of it was read: it is to be changed, or somebody changed it."""
        if self._copied is None or self._connection is None or self._pid != os.getpid():
            return
        from lastgood.adapters.sqlite.image import seen

        if not changing and seen(self.path) == self._copied:
            return
        old, copied = self._connection, self._copied
        try:
            self._connection = self._connect()
        except BaseException:
            self._copied = copied
            raise
        old.close()

    def _connect(self) -> sqlite3.Connection:
        try:
            return patiently(self._opened, path=self.path, wait=self._wait)
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise self.failure(error) from error

    def _opened(self) -> sqlite3.Connection:
        await_set_up(self.path, wait=self._wait)
        connection, self._copied = self._open()
        try:
            self._prepare(connection)
            if self._copied is not None:
                connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _open(self) -> tuple[sqlite3.Connection, Seen | None]:
        """Open the file, or where the disk or medium takes nothing a copy of it in memory."""
        failure = self._no_room()
        if failure is None:
            try:
                return connect(self.path, wait=min(self._wait, SLICE)), None
            except sqlite3.Error as error:
                if primary_code(error) not in _UNWRITABLE:
                    raise
                failure = self.failure(error)
        from lastgood.adapters.sqlite.image import Unsteady, copy  # lazily: a disk is seldom full

        try:
            return copy(self.path, lambda: open_uri(self.path, "immutable=1", wait=0))
        except (sqlite3.Error, OSError, Unsteady) as error:
            raise failure from error

    def _no_room(self, *, beside: int = 0) -> LastgoodError | None:
        """Return what is said where the disk has next to nothing left, None where it has.

        SQLite writes to what it shares with others through memory, and where a file system finds no room
        for that (ext4 with small blocks, those that copy on each write) the whole process ends by SIGBUS.
        """
        try:
            disk = os.statvfs(os.path.dirname(self.path))
        except OSError:
            return None  # whoever opens the file says why
        files = not beside or not disk.f_files or disk.f_favail >= _SCANT_FILES
        if files and disk.f_bavail * disk.f_frsize >= _SCANT_BYTES + beside:
            return None
        return self.failure(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    def _prepare(self, connection: sqlite3.Connection) -> None:
        prepare(connection)
        connection.execute(f"PRAGMA synchronous = {'FULL' if self._durability == 'full' else 'NORMAL'}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        if gate(connection, self._schema, path=self.path):
            if self._copied is not None:
                migrate(connection, self._schema)
                return
            upgrade(connection, self._schema, path=self.path)
            gate(connection, self._schema, path=self.path)  # a newer lastgood may have been quicker


def prepare(connection: sqlite3.Connection) -> None:
    """Teach a connection our functions."""
    connection.text_factory = _tolerant
    connection.create_function("seal_of", -1, seal_of, deterministic=True)
    # The disk that temporary files would go to may be the one that is full.
    connection.execute("PRAGMA temp_store = MEMORY")


def _tolerant(text: bytes) -> str:
    # One altered byte must not make a whole query fail.
    return text.decode("utf-8", "replace")


def within(begin: str, connection: sqlite3.Connection, *, work: Work[Result]) -> Result:
    """Do something in a transaction, and take back what the work did not commit."""
    try:
        connection.execute(begin)
        return work(connection)
    finally:
        _take_back(connection)


def _take_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _empty_log(connection: sqlite3.Connection) -> None:
    # What others need not wait for comes first; the rest is tried once.
    (patience,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {patience}")


def connect(path: str, *, wait: float) -> sqlite3.Connection:
    """Open an existing database."""
    connection = open_uri(path, "mode=rw", wait=wait)
    try:
        version(connection)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def open_uri(path: str, options: str, *, wait: float) -> sqlite3.Connection:
    """Open a database by its path, whatever bytes that has."""
    quoted = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in os.fsencode(path))
    return sqlite3.connect(
        f"file:{quoted}?{options}", uri=True, timeout=wait, isolation_level=None, check_same_thread=False
    )


def ensure(path: str, schema: Schema, *, generation: str, allowed: bool) -> None:
    """Create a database unless it is there.

    Whatever is still around of a lost one (its log, its backup) makes that `Damaged`: an empty
    catalogue in its place would hide every checkpoint. So does absence where none is ``allowed``.
    """
    if os.path.exists(path + RESCUE):
        raise Damaged(f"a repair of the catalogue {printable(path)} was interrupted", hint=REPAIR_HINT)
    if os.path.exists(path):
        return
    folder = os.path.dirname(path)
    try:
        with FolderTurn(folder, what=f"the catalogue {printable(path)}, which is being made,"):
            if not os.path.exists(path):
                _refuse_loss(path, allowed=allowed)
                _create(path, schema, generation=generation)
    except (sqlite3.Error, OSError) as error:
        raise translate(error, path) from error


def _refuse_loss(path: str, *, allowed: bool) -> None:
    folder = os.path.dirname(path)
    backups = [os.path.join(folder, name) for name in BACKUPS]
    remains = [name for name in (path + "-wal", *backups) if os.path.exists(name)]
    if remains or not allowed:
        raise Damaged(
            f"the catalogue {printable(path)} is missing",
            hint=REPAIR_HINT,
            details={"found": [printable(name) for name in remains]},
        )


def _create(path: str, schema: Schema, *, generation: str) -> None:
    temporary = path + ".new"
    for leftover in (temporary, temporary + "-journal"):
        if os.path.exists(leftover):
            os.unlink(leftover)
    make_private_file(temporary)
    connection = sqlite3.connect(temporary, isolation_level=None)
    try:
        create(connection, schema, generation=generation)
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    sync_file(temporary)
    os.rename(temporary, path)
    sync_directory(os.path.dirname(path))


def make_private_file(path: str) -> None:
    """Make an empty file that only its owner may read, before SQLite sees it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        os.fchmod(descriptor, PRIVATE_FILE)
    finally:
        os.close(descriptor)


def gate(connection: sqlite3.Connection, schema: Schema, *, path: str) -> bool:
    """Tell whether a database is older than a schema; raise if it is newer or none of ours."""
    if application(connection) != APPLICATION_ID:
        raise Damaged(f"{printable(path)} is not a catalogue of lastgood", hint=REPAIR_HINT)
    found = version(connection)
    if found < schema.version:
        # Damage may have made it less than a newer one's, which is not to be brought up as if it were old.
        newest = said(connection) or found
        found = newest if newest > schema.version else found
    if found > schema.version:
        raise newer(path, found, schema)
    if found < 1:
        raise Damaged(f"the catalogue {printable(path)} has no version (it says {found})", hint=REPAIR_HINT)
    return found < schema.version


def newer(path: str, found: int, schema: Schema) -> Unsupported:
    """Return the error for a catalogue that only a newer lastgood reads."""
    return Unsupported(
        f"the catalogue {printable(path)} was written by a newer lastgood"
        f" (catalogue version {found}; this one reads up to {schema.version})",
        hint="use the newer lastgood for this store"
        "    if none ever used it, its version is damaged: lastgood verify --repair",
        details={"found": found, "supported": schema.version},
    )


def upgrade(connection: sqlite3.Connection, schema: Schema, *, path: str) -> None:
    """Bring an older database to a schema, after writing a copy of it beside it; one at a time."""
    with FolderTurn(os.path.dirname(path), what=f"the catalogue {printable(path)}, which is brought up,"):
        found = version(connection)
        if found < schema.version and not os.path.exists(kept_copy(path, found)):
            copy_into(connection, kept_copy(path, found))
        migrate(connection, schema)


def kept_copy(path: str, number: int | str) -> str:
    """Return where a database of an older version is kept as it was."""
    return f"{path}.version-{number}"


def copy_into(connection: sqlite3.Connection, path: str) -> None:
    """Write a compact, private, durable copy of a database; it appears whole under its name."""
    temporary = path + ".new"
    if os.path.exists(temporary):
        os.unlink(temporary)
    make_private_file(temporary)
    connection.execute("VACUUM INTO CAST(? AS TEXT)", (os.fsencode(temporary),))
    sync_file(temporary)
    os.rename(temporary, path)
    sync_directory(os.path.dirname(path))
