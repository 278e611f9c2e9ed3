"""One SQLite file: created whole, opened safely, every transaction durable, every failure translated.

SQLite waits for a lock as long as it was told, whoever holds it; and while a database is set up (the
index of its log is made) it tries again for ten seconds whatever it was told. So it is let wait for a
slice at a time, and between them the kernel is asked who is in the way (rule S16: nobody is robbed).
"""

from __future__ import annotations

import errno
import os
import time
import zlib
from _thread import RLock
from _weakref import ref

from lastgood.catalogue.sqlite import BROKEN, REPAIR_HINT, is_busy, primary_code, sqlite3, translate
from lastgood.errors import Busy, Damaged, LastgoodError, Storage, Unsupported, Usage
from lastgood.files import PRIVATE_FILE, sync_directory, sync_file
from lastgood.paths import printable
from lastgood.value import Value, cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import Any, TypeVar

    from lastgood.catalogue.image import FileStamps
    from lastgood.literals import Durability

    Result = TypeVar("Result")
    # A question that is remembered, and what questions came to.
    Question = tuple[object, ...]
    Answers = Mapping[Question, object]
    Migration = Callable[[sqlite3.Connection], None]


# --- Waiting for others who have a database open, but not for those who are stopped ---

# How long SQLite waits by itself, in seconds.
SLICE = 1.0
_STRIDE = 0.02
# The byte of the index that is locked by whoever sets it up: UNIX_SHM_DMS of SQLite's os_unix.c.
_SET_UP = 128


def retry_while_busy(act: Callable[[], Result], *, path: str, wait: float) -> Result:
    """Do something that may be repeated until nobody is in its way, or `wait` seconds are over.

    Raises SQLite's own error; that of one who is in the way at once when he is stopped.
    """
    ends = time.monotonic() + wait
    while True:
        try:
            return act()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= ends or stopped_holder_of(path) is not None:
                raise
        from lastgood.cancellation import check_cancelled  # lazily: seldom is anybody in the way

        check_cancelled()


def stopped_holder_of(path: str) -> int | None:
    """Return a stopped process that holds what others of a database cannot share."""
    from lastgood.lock_owner import stopped_holder

    return stopped_holder((os.fsencode(path), os.fsencode(path + "-shm")), alone=True)


def await_set_up(path: str, *, wait: float) -> None:
    """Wait until nobody sets a database up; `Busy` for one who is stopped at it, or does not end.

    Where nobody has it open there is no index, and nothing to ask.
    """
    index = path + "-shm"
    if not os.path.exists(index):
        return
    from lastgood.catalogue.sqlite import busy
    from lastgood.lock_owner import holders

    started = time.monotonic()
    while next(holders(os.fsencode(index), alone=True, at=_SET_UP), None) is not None:
        passed = time.monotonic() - started
        if passed >= wait or (passed >= SLICE and stopped_holder_of(path) is not None):
            raise busy(path)
        from lastgood.cancellation import pause  # lazily: hardly ever is one set up

        pause(_STRIDE)


# --- The tables of the catalogue, their version, and the way from older versions to the present one ---

# "lstg": tells our file from any other SQLite database.
APPLICATION_ID = 0x6C737467


class Schema(Value):
    """A version of the tables. ``migrations[n]`` leads from version ``n + 1`` to ``n + 2``.

    ``what`` a database of it is called, ``damage_hint`` and ``newer_hint`` say what to do about a damaged
    one and about one of a newer version.
    """

    version: int
    statements: tuple[str, ...]
    migrations: tuple[Migration, ...] = ()
    what: str = "catalogue"
    damage_hint: str = REPAIR_HINT
    newer_hint: str = (
        "use the newer lastgood for this store"
        "\nif none ever used it, its version is damaged: lastgood verify --repair"
    )


WORK = (
    """
    CREATE TABLE session (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        workspace_key TEXT NOT NULL REFERENCES workspace (key),
        exclusive INTEGER NOT NULL,
        state TEXT NOT NULL,
        heartbeat_at INTEGER NOT NULL,
        seal INTEGER NOT NULL DEFAULT 0,
        payload TEXT NOT NULL
    )
    """,
    "CREATE INDEX session_of_workspace ON session (workspace_key, number)",
    """
    CREATE TABLE progress (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        workspace_key TEXT NOT NULL REFERENCES workspace (key),
        seal INTEGER NOT NULL DEFAULT 0,
        payload TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE step (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        workspace_key TEXT NOT NULL REFERENCES workspace (key),
        session TEXT,
        state TEXT NOT NULL,
        seal INTEGER NOT NULL DEFAULT 0,
        payload TEXT NOT NULL
    )
    """,
    "CREATE INDEX step_of_workspace ON step (workspace_key, number)",
)

# The plans that runs carry out; ``id`` is that of the run's session.
RUNS = (
    """
    CREATE TABLE run (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        workspace_key TEXT NOT NULL REFERENCES workspace (key),
        fingerprint TEXT NOT NULL,
        seal INTEGER NOT NULL DEFAULT 0,
        payload TEXT NOT NULL
    )
    """,
    "CREATE INDEX run_of_workspace ON run (workspace_key, number)",
)

# The name of a step, or its beginning, as its canonical JSON has it, and what comes next.
STEP_NAME = """substr(payload, instr(payload, '"name":'), 200)"""
# What is true of a step that says so of itself, and of one whose name does.
IRREVERSIBLE = """instr(payload, '"irreversible":true')"""
# What is true of a step, or a session, that nobody saw end by a moment.
UNENDED = """(instr(payload, '"ended_at":null')
    OR CAST(substr(payload, instr(payload, '"ended_at":') + 11, 20) AS INTEGER) > :moment)"""
# By these what is under way, what was saved and tried of a task, what is damaged and what nobody can take
# back is found, and what there is is counted, however much that is; by the version that they came with.
INDEXES = {
    7: {
        "checkpoint_damaged": "checkpoint (workspace_key) WHERE damaged IS NOT NULL",
        "checkpoint_standing": "checkpoint (workspace_key, sequence) WHERE deleted_at IS NULL",
        "step_under_way": "step (workspace_key, session) WHERE state = 'running'",
        "checkpoint_of_task": "checkpoint (workspace_key, task, sequence) WHERE task IS NOT NULL",
    },
    8: {
        "checkpoint_of_kind": "checkpoint (workspace_key, kind, deleted_at) WHERE deleted_at IS NULL",
        "step_by_name": f"step (workspace_key, {STEP_NAME})",
    },
    9: {"step_irreversible": f"step (workspace_key) WHERE {IRREVERSIBLE}"},
}

# Texts that may hold any bytes (paths) are blobs: SQLite's texts must be UTF-8. The manifest stands
# last because it is long: a query that does not ask for it never reads its pages. A workspace is ``at``
# the checkpoint, by its id, where it stands; where that is not said, or lost (empty), at the newest.
_STATEMENTS = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY NOT NULL, value NOT NULL) WITHOUT ROWID",
    """
    CREATE TABLE workspace (
        key TEXT PRIMARY KEY NOT NULL,
        path BLOB NOT NULL,
        machine TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        seal INTEGER NOT NULL DEFAULT 0,
        at TEXT
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE checkpoint (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        workspace_key TEXT NOT NULL REFERENCES workspace (key),
        kind TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        name TEXT,
        commit_id TEXT NOT NULL,
        tree TEXT NOT NULL,
        modes TEXT NOT NULL,
        previous TEXT,
        partial INTEGER NOT NULL,
        session TEXT,
        task TEXT,
        moment TEXT,
        step INTEGER,
        pinned INTEGER NOT NULL DEFAULT 0,
        good INTEGER,
        verdict TEXT,
        damaged TEXT,
        recovered INTEGER NOT NULL DEFAULT 0,
        deleted_at INTEGER,
        seal INTEGER NOT NULL DEFAULT 0,
        gaps TEXT NOT NULL,
        manifest BLOB NOT NULL
    )
    """,
    "CREATE INDEX checkpoint_of_workspace ON checkpoint (workspace_key, sequence)",
    "CREATE INDEX checkpoint_by_name ON checkpoint (name) WHERE name IS NOT NULL",
    "CREATE INDEX checkpoint_deleted ON checkpoint (deleted_at) WHERE deleted_at IS NOT NULL",
    """
    CREATE TABLE operation (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        workspace_key TEXT NOT NULL REFERENCES workspace (key),
        type TEXT NOT NULL,
        at INTEGER NOT NULL,
        undone INTEGER NOT NULL,
        seal INTEGER NOT NULL DEFAULT 0,
        payload TEXT NOT NULL
    )
    """,
    "CREATE INDEX operation_of_workspace ON operation (workspace_key, number)",
    *WORK,
    *RUNS,
    *(f"CREATE INDEX {name} ON {on}" for indexes in INDEXES.values() for name, on in indexes.items()),
)


def _to_version_2(connection: sqlite3.Connection) -> None:
    """Add sessions, progress and steps; the seals of the rows that are there stay good."""
    for column in ("task TEXT", "moment TEXT", "step INTEGER"):
        connection.execute(f"ALTER TABLE checkpoint ADD COLUMN {column}")
    for statement in WORK:
        connection.execute(statement)


def _to_version_3(connection: sqlite3.Connection) -> None:
    """Add the plans of runs."""
    for statement in RUNS:
        connection.execute(statement)


def _to_version_4(_connection: sqlite3.Connection) -> None:
    """Let new rows keep their manifest compressed; those that are there stay as they are."""


def _to_version_5(_connection: sqlite3.Connection) -> None:
    """Let long progress be kept compressed when it changes; what is there stays as it is."""


def _to_version_6(connection: sqlite3.Connection) -> None:
    """Remember where each workspace stands: at its newest checkpoint until the next save or restore.

    One whose number is lower by damage has the column already.
    """
    if "at" not in column_names(connection, "workspace"):
        connection.execute("ALTER TABLE workspace ADD COLUMN at TEXT")


def _indexed(version: int) -> Callable[[sqlite3.Connection], None]:
    """Return what makes the indexes of a version; one whose number is lower by damage has them already."""

    def migrate(connection: sqlite3.Connection) -> None:
        for name, on in INDEXES[version].items():
            connection.execute(f"CREATE INDEX IF NOT EXISTS {name} ON {on}")

    return migrate


CURRENT = Schema(
    version=9,
    statements=_STATEMENTS,
    migrations=(
        _to_version_2,
        _to_version_3,
        _to_version_4,
        _to_version_5,
        _to_version_6,
        _indexed(
            7
        ),  # what is under way is found by them; long lists of progress lie in parts once they change
        _indexed(8),  # kinds are counted, steps found by them; operations name lists that checkpoints hold
        _indexed(9),  # what nobody can take back is found by one
    ),
)


def create(connection: sqlite3.Connection, schema: Schema, *, generation: str) -> None:
    """Make the tables of a schema in an empty database."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in schema.statements:
        connection.execute(statement)
    connection.execute("INSERT INTO meta VALUES ('generation', ?), ('changes', 0)", (generation,))
    write_second_version(connection, schema.version)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {schema.version}")
    connection.execute("COMMIT")


def migrate(connection: sqlite3.Connection, schema: Schema) -> None:
    """Bring an older database to a schema in one transaction; harmless if another did it meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = version(connection)
        for migration in schema.migrations[found - 1 : schema.version - 1]:
            migration(connection)
        connection.execute(f"PRAGMA user_version = {max(found, schema.version)}")
        write_second_version(connection, max(found, schema.version))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def second_version(connection: sqlite3.Connection) -> int | None:
    """Return the version that is written down a second time; None where it is not, as in early ones."""
    row = connection.execute("SELECT value FROM meta WHERE name = 'version'").fetchone()
    return row[0] if row is not None and isinstance(row[0], int) else None


def write_second_version(connection: sqlite3.Connection, number: int) -> None:
    """Write the version down a second time: by that a damaged number is told from a newer one."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('version', ?)", (number,))


def version(connection: sqlite3.Connection) -> int:
    """Return the version of a database's tables."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def application(connection: sqlite3.Connection) -> int:
    """Return the mark of the program that a database belongs to."""
    return int(connection.execute("PRAGMA application_id").fetchone()[0])


# --- A checksum in every row: SQLite proves its structure, not that a value is what was written ---

# Table: its key, and every column but the seal. Later versions of the schema append columns here.
SEALED: dict[str, tuple[str, tuple[str, ...]]] = {
    "checkpoint": (
        "id",
        (
            "sequence",
            "id",
            "workspace_key",
            "kind",
            "created_at",
            "name",
            "commit_id",
            "tree",
            "modes",
            "previous",
            "partial",
            "session",
            "pinned",
            "good",
            "verdict",
            "damaged",
            "recovered",
            "deleted_at",
            "gaps",
            "manifest",
            "task",
            "moment",
            "step",
        ),
    ),
    "operation": ("id", ("number", "id", "workspace_key", "type", "at", "undone", "payload")),
    "workspace": ("key", ("key", "path", "machine", "created_at", "at")),
    "session": ("id", ("number", "id", "workspace_key", "exclusive", "state", "heartbeat_at", "payload")),
    "progress": ("id", ("number", "id", "workspace_key", "payload")),
    "step": ("id", ("number", "id", "workspace_key", "session", "state", "payload")),
    "run": ("id", ("number", "id", "workspace_key", "fingerprint", "payload")),
}

# Table: the column by which SQLite itself finds a row.
_NUMBERS = {"checkpoint": "sequence", "workspace": "key"}


def columns(table: str, *, known: Collection[str] | None = None) -> str:
    """Return the columns of a whole row, in order: all of `SEALED`, then the seal.

    Those that are not ``known`` to a database of an earlier version are NULL.
    """
    return ", ".join((*_present(table, known), "seal"))


def seal_of(*columns: bytes | None) -> int:
    """Return the checksum of a row's columns, each cast to a blob (so that no text can fail).

    Empty columns at the end do not count: those that a later version appends leave old seals good.
    """
    filled = len(columns)
    while filled and columns[filled - 1] is None:
        filled -= 1
    return zlib.crc32(
        b"".join(
            [b"-" if column is None else b"%d:%b" % (len(column), column) for column in columns[:filled]]
        )
    )


def reseal(connection: sqlite3.Connection, table: str, key: str) -> None:
    """Seal a row that was written."""
    name, _ = SEALED[table]
    connection.execute(f"UPDATE {table} SET seal = {_fresh(table)} WHERE {name} = ?", (key,))  # noqa: S608 - names above


def changed_and_sealed(table: str, column: str) -> str:
    """Return the statement that sets a column of the row ``:key`` to ``:value``, and seals a sound one anew.

    Of a table whose rows lie under their keys alone: what is found by one has it. A row that says so already
    is not written.
    """
    name, columns = SEALED[table]
    fresh = _sealing([":value" if one == column else one for one in columns])
    return (
        f"UPDATE {table} SET {column} = :value,"  # noqa: S608 - names above
        f" seal = CASE WHEN {broken_seal(table)} THEN seal ELSE {fresh} END"
        f" WHERE {name} = :key AND {column} IS NOT :value"
    )


def broken_seal(table: str, *, known: Collection[str] | None = None) -> str:
    """Return the expression that is true for a row that was not altered by us; ``known`` as for `columns`."""
    return f"(seal <> {_fresh(table, known)})"


def is_broken(connection: sqlite3.Connection, table: str, key: str) -> bool:
    """Tell whether a row was altered by others than us.

    The row is read by its number: by its key SQLite would take the key from the index, or from the
    question itself, and an altered key in the row would go unnoticed.
    """
    (name, _), number = SEALED[table], _NUMBERS.get(table, "number")
    statement = (
        f"SELECT 1 FROM {table} WHERE {number} = (SELECT {number} FROM {table} WHERE {name} = :key)"  # noqa: S608 - names above
        f" AND ({name} <> :key OR {broken_seal(table)})"
    )
    return connection.execute(statement, {"key": key}).fetchone() is not None


def broken_rows(connection: sqlite3.Connection) -> list[str]:
    """Return which rows were altered from outside, as ``TABLE KEY``.

    A backup of an earlier version lacks the tables and columns that came later.
    """
    found: list[str] = []
    present = tables(connection)
    for table, (name, _) in SEALED.items():
        if table not in present:
            continue
        broken = broken_seal(table, known=column_names(connection, table))
        statement = f"SELECT {name} FROM {table} NOT INDEXED WHERE {broken} ORDER BY {name}"  # noqa: S608 - names above
        found += [f"{table} {row[0]}" for row in connection.execute(statement)]
    return found


def tables(connection: sqlite3.Connection) -> set[str]:
    """Return which tables a database has."""
    return {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def column_names(connection: sqlite3.Connection, table: str) -> set[str]:
    """Return which columns a table has."""
    return {str(row[0]) for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}


# What `_fresh` comes to for a whole row, by table.
_whole_seals: dict[str, str] = {}


def _fresh(table: str, known: Collection[str] | None = None) -> str:
    if known is not None:
        return _sealing(_present(table, known))
    if table not in _whole_seals:
        _whole_seals[table] = _sealing(_present(table, None))
    return _whole_seals[table]


def _sealing(columns: Iterable[str]) -> str:
    return f"seal_of({', '.join(f'CAST({column} AS BLOB)' for column in columns)})"


def _present(table: str, known: Collection[str] | None) -> tuple[str, ...]:
    _, names = SEALED[table]
    return names if known is None else tuple(name if name in known else "NULL" for name in names)


# --- One SQLite file: created whole, opened safely, every transaction durable, every failure translated ---

if TYPE_CHECKING:
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
# So often a change goes to another file, where its own was replaced while it waited.
_REPLACED_MOST = 3
# So many questions are asked again at rest, and of so many it is known what they came to.
_MOST_ASKED, _MOST_FOUND = 24, 64
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-~")
# A connection that came over a fork belongs to the parent: closing it here could undo its locks.
_abandoned: list[sqlite3.Connection] = []


def _counted(connection: sqlite3.Connection) -> tuple[object, ...]:
    """Return what is another once anybody changed anything, others by a commit or this connection."""
    (others,) = connection.execute("PRAGMA data_version").fetchone()
    return connection, others, connection.total_changes


class _Memory:
    """What questions came to at one version of a database, and which were asked lately.

    SQLite tells at each question, by a look at what it shares with others through memory, whether somebody
    else has committed since; its own changes a connection counts. So nothing is told that is not so any
    more, and what was altered from outside is noticed as early as by SQLite, which keeps pages the same way.
    """

    def __init__(self) -> None:
        self._version: tuple[object, ...] = ()
        self._found: dict[Question, Any] = {}
        self._asked: dict[Question, Callable[[], object]] = {}
        # What tells, where somebody asks at this version, what is known at it.
        self._told: Callable[[], Answers] | None = None

    def known(
        self,
        key: Question,
        ask: Callable[[], Result],
        *,
        lasts: Callable[[Result], bool] | None,
        version: tuple[object, ...],
    ) -> Result:
        """Return what is known of a question at a version, or ask, and know that unless it does not last."""
        self._go_on(version)
        if key in self._found:
            return cast("Result", self._found[key])
        found = ask()
        if lasts is None or lasts(found):
            self._found[key] = found
        return found

    def note(self, key: Question, ask: Callable[[], object]) -> None:
        """Remember that something was asked, to ask it again."""
        self._asked.pop(key, None)
        self._asked[key] = ask
        if len(self._asked) > _MOST_ASKED:
            del self._asked[next(iter(self._asked))]

    def asked(self) -> tuple[tuple[Question, Callable[[], object]], ...]:
        """Return what was asked lately, and how."""
        return tuple(self._asked.items())

    def answers(self, version: tuple[object, ...]) -> Answers:
        """Return what is known at a version."""
        return self._found if self._is_at(version) else {}

    def go_over(self, version: tuple[object, ...], tell: Callable[[], Answers]) -> None:
        """Know at another version what is told there, once somebody asks: most often others come before."""
        # In this order: a signal may break off in between.
        self._version = ()
        self._told = tell
        self._version = version

    def _go_on(self, version: tuple[object, ...]) -> None:
        if not self._is_at(version) or len(self._found) > _MOST_FOUND:
            self._version = ()
            self._found, self._told = {}, None
            self._version = version

    def _is_at(self, version: tuple[object, ...]) -> bool:
        if version != self._version:
            return False
        if self._told is not None:
            self._found = dict(self._told())
            self._told = None
        return True


class _Replaced(Exception):
    """Another file lies where the one was that is open: nothing was asked of that, nor written to it."""


class Database:
    """A connection that threads may share, and that is opened anew in a forked child."""

    # Set where the file could not be opened, and its copy is what is read.
    _copied: FileStamps | None = None
    # Which file was opened.
    _identity: tuple[int, int] | None = None
    # While several questions are asked of one moment: the connection, and what its version is then.
    _moment: tuple[sqlite3.Connection, tuple[object, ...]] | None = None
    # The connection, and how often others had committed, when no newer lastgood was found to have been at it.
    _ours: tuple[object, ...] = ()

    def __init__(self, path: str, *, schema: Schema, durability: Durability, wait: float) -> None:
        self.path = path
        self._folder = os.path.dirname(path)
        self._schema = schema
        self._durability = durability
        self._wait = wait
        self._lock = RLock()
        self._pid = os.getpid()
        self._memory: _Memory | None = None
        self._connection: sqlite3.Connection | None = self._connect()
        _opened.add(ref(self, _opened.discard))

    def remember(self) -> None:
        """Keep from now on what `known` came to, as long as nobody changes anything."""
        self._memory = self._memory or _Memory()

    def known(self, key: Question, ask: Callable[[], Result], *, again: bool = True) -> Result:
        """Ask something of which the ``key`` says what, or return what it came to if nothing changed since.

        ``ask`` reads by `read` alone, and what it returns never changes. Unless it is to be asked ``again``
        `ask_again` leaves it out.
        """
        memory = self._memory
        if memory is None:
            return ask()
        with self._lock:
            if again:
                memory.note(key, ask)
            return self.moment(ask, key=key)

    def ask_again(self) -> None:
        """Ask anew, while nobody waits, what was asked lately and has changed since."""
        memory = self._memory
        if memory is not None:
            with self._lock:
                for key, ask in memory.asked():
                    self.known(key, ask, again=False)

    def moment(
        self,
        ask: Callable[[], Result],
        *,
        key: Question = (),
        lasts: Callable[[Result], bool] | None = None,
    ) -> Result:
        """Ask several questions, where nothing is `known` as of one moment. Nothing is changed.

        Where something is, what is not is read after that, each for itself. It is looked once whether the
        file is the one that was opened, and whether anybody has changed it. With a ``key``, which says what
        is asked, what all came to is known like an answer, unless it does not last (``lasts``), because more
        than the file decides it.
        """
        with self._lock:
            if self._moment is not None:
                return self._remembered(ask, key=key, lasts=lasts, version=self._moment[1])
            return self.read(lambda connection: self._at_once(connection, ask, key=key, lasts=lasts))

    def _at_once(
        self,
        connection: sqlite3.Connection,
        ask: Callable[[], Result],
        *,
        key: Question,
        lasts: Callable[[Result], bool] | None,
    ) -> Result:
        if connection.in_transaction:
            # What is read may be taken back, which SQLite does not count: it is never known.
            return ask()
        version, memory = _counted(connection), self._memory
        known = {} if memory is None else memory.answers(version)
        if key in known:
            return cast("Result", known[key])
        try:
            if not known:
                connection.execute("BEGIN")
            # Where somebody commits now, what is read is newer, and is not known at the next look any more.
            self._moment = connection, version
            return self._remembered(ask, key=key, lasts=lasts, version=version)
        finally:
            self._moment = None
            _take_back(connection)

    def _remembered(
        self,
        ask: Callable[[], Result],
        *,
        key: Question,
        lasts: Callable[[Result], bool] | None,
        version: tuple[object, ...],
    ) -> Result:
        memory = self._memory
        if memory is None or not key:
            return ask()
        return memory.known(key, ask, lasts=lasts, version=version)

    def read(self, work: Work[Result]) -> Result:
        """Ask something; one statement sees one moment."""
        with self._lock:
            if self._moment is None:
                if self._copied is not None:
                    self._look_again(changing=False)
                connection = self._ready()
            else:
                connection = self._moment[0]
            try:
                return retry_while_busy(lambda: work(connection), path=self.path, wait=self._wait)
            except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
                self._refuse_newer(connection)
                raise self.failure(error) from error
            except Damaged:
                self._refuse_newer(connection)
                raise

    def write(
        self,
        work: Work[Result],
        *,
        durable: bool = False,
        leaves: Callable[[Result, Answers], Answers] | None = None,
    ) -> Result:
        """Change something in one transaction; nothing is changed if it raises.

        It is on the disk on return, as far as the settings say, or in any case if it is to be ``durable``.
        Where the file was replaced by a repair while its turn was waited for, it goes to the new one.
        ``leaves`` tells what is known after it, by what was `known` before: nothing if others changed things.
        """
        with self._lock:
            for _ in range(_REPLACED_MOST):
                try:
                    return self._written(work, durable=durable, leaves=leaves)
                except _Replaced:
                    continue
        raise Busy(
            f"the {self._schema.what} {printable(self.path)} is replaced again and again", hint="try again"
        )

    def _written(
        self,
        work: Work[Result],
        *,
        durable: bool,
        leaves: Callable[[Result, Answers], Answers] | None,
    ) -> Result:
        self._look_again(changing=True)
        connection = self._ready()
        self.demand_room()
        try:
            if durable:
                return self._durably(connection, work)
            return self._in_transaction(connection, work, leaves=leaves)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self.failure(error) from error

    def keep_as(self, durability: Durability) -> None:
        """Have changes be as durable as that from now on."""
        with self._lock:
            if durability != self._durability:
                self._durability = durability
                self._synchronize(self._ready())

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
        self.read(self._refuse_newer)

    def _refuse_newer(self, connection: sqlite3.Connection) -> None:
        try:
            found = version(connection)
        except (sqlite3.Error, UnicodeDecodeError):
            return  # what went wrong before says more
        if found > self._schema.version:
            raise newer(self.path, found, self._schema)

    def failure(self, error: sqlite3.Error | OSError | UnicodeDecodeError) -> LastgoodError:
        """Return the error of ours that says what an error of SQLite or the disk means for the caller."""
        fault = self._header_fault(error)
        what = f"the {self._schema.what}"
        if fault is not None:
            return Damaged(f"{what} {printable(self.path)} is damaged: {fault}", hint=REPAIR_HINT)
        return translate(error, self.path, what=what, hint=self._schema.damage_hint)

    def _header_fault(self, error: sqlite3.Error | OSError | UnicodeDecodeError) -> str | None:
        """Return what is wrong with the file's header where that is what SQLite takes for read-only."""
        if isinstance(error, OSError) or primary_code(error) != sqlite3.SQLITE_READONLY:
            return None
        from lastgood.catalogue.image import form_fault  # lazily: hardly any header is damaged

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
        """Return the connection to the file that lies there now.

        A repair may have put another one there, or somebody a copy: what is written to the one that was
        opened then nobody finds.
        """
        if self._pid != os.getpid():
            if self._connection is not None:
                _abandoned.append(self._connection)
                self._connection = self._connect()
            self._pid = os.getpid()
        connection = self._connection
        if connection is None:
            raise Usage("the workspace was closed", hint="open it again: lastgood.open(path)")
        if self._is_replaced() and not connection.in_transaction:
            if _identity(self.path) is None:
                raise Storage(
                    f"the {self._schema.what} {printable(self.path)} is not there any more",
                    hint="put the store back to where it was\nif a repair is at it: try again",
                )
            self._connection = self._connect()
            connection.close()
            self._turned()
        return self._connection or connection

    def _turned(self) -> None:
        """Forget what was known of a file that another one took the place of."""

    def begin_child(self) -> None:
        """Be at nothing, in a forked child: the threads that were it does not have."""
        self._lock = RLock()
        self._moment = None

    def _is_replaced(self) -> bool:
        return _identity(self.path) != self._identity

    def _demand_same(self) -> None:
        """Write nothing, in a transaction, to a file that was set aside before that began."""
        if self._is_replaced():
            raise _Replaced

    def _durably(self, connection: sqlite3.Connection, work: Work[Result]) -> Result:
        (usual,) = connection.execute("PRAGMA synchronous").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
        try:
            return self._in_transaction(connection, work)
        finally:
            connection.execute(f"PRAGMA synchronous = {usual}")

    def _in_transaction(
        self,
        connection: sqlite3.Connection,
        work: Work[Result],
        *,
        leaves: Callable[[Result, Answers], Answers] | None = None,
    ) -> Result:
        memory = None if leaves is None else self._memory
        try:
            # A signal that came while it waited for its turn is met here, when it has just begun.
            retry_while_busy(lambda: connection.execute("BEGIN IMMEDIATE"), path=self.path, wait=self._wait)
            self._demand_same()
            # Until this ends nobody else commits: what was known at this version is what the change meets.
            met = () if memory is None else _counted(connection)
            # Brought up by a newer lastgood since it was opened, it takes nothing of ours.
            if memory is None or met[:2] != self._ours:
                self._refuse_newer(connection)
                self._ours = met[:2]
            result = work(connection)
            connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'changes'")
            connection.execute("COMMIT")
            if memory is not None and leaves is not None:
                # Who commits from now on is none of those counted in it.
                answers, after = memory.answers(met), (*met[:2], connection.total_changes)
                memory.go_over(after, lambda: leaves(result, answers))
            return result
        finally:
            _take_back(connection)

    def _look_again(self, *, changing: bool) -> None:
        """Open the file anew where a copy of it was read: it is to be changed, or somebody changed it."""
        if self._copied is None or self._connection is None or self._pid != os.getpid():
            return
        from lastgood.catalogue.image import stamps_of

        if not changing and stamps_of(self.path) == self._copied:
            return
        old, copied = self._connection, self._copied
        try:
            self._connection = self._connect()
        except BaseException:
            self._copied = copied
            raise
        old.close()

    def _connect(self) -> sqlite3.Connection:
        identity = _identity(self.path)  # before: if it is replaced meanwhile, it is opened once more
        try:
            connection = retry_while_busy(self._opened, path=self.path, wait=self._wait)
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise self.failure(error) from error
        self._identity = identity
        return connection

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

    def _open(self) -> tuple[sqlite3.Connection, FileStamps | None]:
        """Open the file, or where the disk or medium takes nothing a copy of it in memory."""
        failure = self._no_room()
        if failure is None:
            try:
                return connect(self.path, wait=min(self._wait, SLICE)), None
            except sqlite3.Error as error:
                if primary_code(error) not in _UNWRITABLE:
                    raise
                failure = self.failure(error)
        from lastgood.catalogue.image import KeptChanging, copy

        try:
            return copy(self.path, lambda: open_uri(self.path, "mode=ro&immutable=1", wait=0))
        except (sqlite3.Error, OSError, KeptChanging) as error:
            raise failure from error

    def _no_room(self, *, beside: int = 0) -> LastgoodError | None:
        """Return what is said where the disk has next to nothing left, None where it has.

        SQLite writes to what it shares with others through memory, and where a file system finds no room
        for that (ext4 with small blocks, those that copy on each write) the whole process ends by SIGBUS.
        The folder is asked: where that has a quota of its own, files in it do not tell.
        """
        try:
            disk = os.statvfs(self._folder)
        except OSError:
            return None  # whoever opens the file says why
        files = not beside or not disk.f_files or disk.f_favail >= _SCANT_FILES
        if files and disk.f_bavail * disk.f_frsize >= _SCANT_BYTES + beside:
            return None
        return self.failure(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    def _prepare(self, connection: sqlite3.Connection) -> None:
        prepare(connection)
        self._synchronize(connection)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        if gate(connection, self._schema, path=self.path):
            if self._copied is not None:
                migrate(connection, self._schema)
                return
            upgrade(connection, self._schema, path=self.path)
            gate(connection, self._schema, path=self.path)  # a newer lastgood may have been quicker

    def _synchronize(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA synchronous = {'FULL' if self._durability == 'full' else 'NORMAL'}")


# What a forked child has to begin anew with.
_opened: set[ref[Database]] = set()


def _begin_child() -> None:
    for one in tuple(_opened):
        database = one()
        if database is not None:
            database.begin_child()


os.register_at_fork(after_in_child=_begin_child)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:  # whoever opens it says why
        return None
    return found.st_dev, found.st_ino


def prepare(connection: sqlite3.Connection) -> None:
    """Teach a connection our functions."""
    # One altered byte must not make a whole query fail.
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    connection.create_function("seal_of", -1, seal_of, deterministic=True)
    # The disk that temporary files would go to may be the one that is full.
    connection.execute("PRAGMA temp_store = MEMORY")


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


def is_of_today(path: str) -> bool:
    """Tell whether a catalogue is one that this version reads; False too where it cannot be asked."""
    try:
        connection = open_uri(path, "mode=ro", wait=DEFAULT_WAIT)
        try:
            prepare(connection)
            numbers = (version(connection), second_version(connection) or 1)
            ours = application(connection) == APPLICATION_ID
        finally:
            connection.close()
    except (*BROKEN, sqlite3.Error):
        return False
    return ours and all(1 <= number <= CURRENT.version for number in numbers)


def ensure(path: str, schema: Schema, *, generation: str, allowed: bool) -> None:
    """Create a database unless it is there.

    Whatever is still around of a lost one (its log, its backup) makes that `Damaged`: an empty
    catalogue in its place would hide every checkpoint. So does absence where none is ``allowed``.
    """
    if os.path.exists(path + RESCUE):
        raise Damaged(f"a repair of the catalogue {printable(path)} was interrupted", hint=REPAIR_HINT)
    if os.path.exists(path):
        return
    from lastgood.locks import FolderTurn  # lazily: it was made long ago, but once

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
        newest = second_version(connection) or found
        found = newest if newest > schema.version else found
    if found > schema.version:
        raise newer(path, found, schema)
    if found < 1:
        raise Damaged(f"the catalogue {printable(path)} has no version (it says {found})", hint=REPAIR_HINT)
    return found < schema.version


def newer(path: str, found: int, schema: Schema) -> Unsupported:
    """Return the error for a database that only a newer lastgood reads."""
    return Unsupported(
        f"the {schema.what} {printable(path)} was written by a newer lastgood"
        f" ({schema.what} version {found}; this one reads up to {schema.version})",
        hint=schema.newer_hint,
        details={"found": found, "supported": schema.version},
    )


def upgrade(connection: sqlite3.Connection, schema: Schema, *, path: str) -> None:
    """Bring an older database to a schema, after writing a copy of it beside it; one at a time."""
    from lastgood.locks import FolderTurn

    with FolderTurn(os.path.dirname(path), what=f"the catalogue {printable(path)}, which is brought up,"):
        found = version(connection)
        if (
            found < schema.version
        ):  # one that an upgrade left which came no further may lack what was added since
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
