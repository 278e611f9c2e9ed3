"""A checksum in every row: SQLite proves its structure, not that a value is what was written."""

from __future__ import annotations

import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

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
    "workspace": ("key", ("key", "path", "machine", "created_at")),
    "session": ("id", ("number", "id", "workspace_key", "exclusive", "state", "heartbeat_at", "payload")),
    "progress": ("id", ("number", "id", "workspace_key", "payload")),
    "step": ("id", ("number", "id", "workspace_key", "session", "state", "payload")),
    "run": ("id", ("number", "id", "workspace_key", "fingerprint", "payload")),
}

# Table: the column by which SQLite itself finds a row.
_NUMBERS = {"checkpoint": "sequence", "workspace": "key"}


def columns(table: str) -> str:
    """Return the columns of a whole row, in order: all of `SEALED`, then the seal."""
    _, names = SEALED[table]
    return ", ".join((*names, "seal"))


def seal_of(*columns: bytes | None) -> int:
    """Return the checksum of a row's columns, each cast to a blob (so that no text can fail).

    Empty columns at the end do not count: those that a later version appends leave old seals good.
    """
    checksum = 0
    filled = len(columns)
    while filled and columns[filled - 1] is None:
        filled -= 1
    for column in columns[:filled]:
        length = b"-" if column is None else b"%d:" % len(column)
        checksum = zlib.crc32(length + (column or b""), checksum)
    return checksum


def reseal(connection: sqlite3.Connection, table: str, key: str) -> None:
    """Seal a row that was written."""
    name, _ = SEALED[table]
    connection.execute(f"UPDATE {table} SET seal = {_fresh(table)} WHERE {name} = ?", (key,))  # noqa: S608 - names above


def broken_seal(table: str) -> str:
    """Return the expression that is true for a row that was not altered by us."""
    return f"(seal <> {_fresh(table)})"


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

    A backup of an earlier version lacks the tables that came later.
    """
    found: list[str] = []
    present = tables(connection)
    for table, (name, _) in SEALED.items():
        if table not in present:
            continue
        statement = f"SELECT {name} FROM {table} NOT INDEXED WHERE {broken_seal(table)} ORDER BY {name}"  # noqa: S608 - names above
        found += [f"{table} {row[0]}" for row in connection.execute(statement)]
    return found


def tables(connection: sqlite3.Connection) -> set[str]:
    """Return which tables a database has."""
    return {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _fresh(table: str) -> str:
    _, columns = SEALED[table]
    return f"seal_of({', '.join(f'CAST({column} AS BLOB)' for column in columns)})"
