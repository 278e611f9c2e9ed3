"""The tables of the catalogue, their version, and the way from older versions to the present one."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    Migration = Callable[[sqlite3.Connection], None]

# "lstg": tells our file from any other SQLite database.
APPLICATION_ID = 0x6C737467


class Schema(Value):
    """A version of the tables. ``migrations[n]`` leads from version ``n + 1`` to ``n + 2``."""

    version: int
    statements: tuple[str, ...]
    migrations: tuple[Migration, ...] = ()


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

# Texts that may hold any bytes (paths) are blobs: SQLite's texts must be UTF-8. The manifest stands
# last because it is long: a query that does not ask for it never reads its pages.
_STATEMENTS = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY NOT NULL, value NOT NULL) WITHOUT ROWID",
    """
    CREATE TABLE workspace (
        key TEXT PRIMARY KEY NOT NULL,
        path BLOB NOT NULL,
        machine TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        seal INTEGER NOT NULL DEFAULT 0
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


CURRENT = Schema(
    version=5,
    statements=_STATEMENTS,
    migrations=(_to_version_2, _to_version_3, _to_version_4, _to_version_5),
)


def create(connection: sqlite3.Connection, schema: Schema, *, generation: str) -> None:
    """Make the tables of a schema in an empty database."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in schema.statements:
        connection.execute(statement)
    connection.execute("INSERT INTO meta VALUES ('generation', ?), ('changes', 0)", (generation,))
    say(connection, schema.version)
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
        say(connection, max(found, schema.version))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def said(connection: sqlite3.Connection) -> int | None:
    """Return the version that is written down a second time; None where it is not, as in early ones."""
    row = connection.execute("SELECT value FROM meta WHERE name = 'version'").fetchone()
    return row[0] if row is not None and isinstance(row[0], int) else None


def say(connection: sqlite3.Connection, number: int) -> None:
    """Write the version down a second time: by that a damaged number is told from a newer one."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('version', ?)", (number,))


def version(connection: sqlite3.Connection) -> int:
    """Return the version of a database's tables."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def application(connection: sqlite3.Connection) -> int:
    """Return the mark of the program that a database belongs to."""
    return int(connection.execute("PRAGMA application_id").fetchone()[0])
