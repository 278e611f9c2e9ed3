"""Sound copies of the catalogue beside it."""

from __future__ import annotations

import os
import sqlite3

from lastgood.adapters.files import sync_directory
from lastgood.adapters.sqlite.database import BACKUP, copy_into, open_uri
from lastgood.adapters.sqlite.seal import broken_rows

_CHANGES = "SELECT value FROM meta WHERE name = 'changes'"


def back_up(connection: sqlite3.Connection, path: str) -> bool:
    """Copy the catalogue to its backup, keeping the one before; False when nothing changed since."""
    backup = os.path.join(os.path.dirname(path), BACKUP)
    if _changes(backup) == connection.execute(_CHANGES).fetchone()[0]:
        return False
    fresh = backup + ".fresh"
    copy_into(connection, fresh)
    if os.path.exists(backup):
        os.rename(backup, backup + ".1")
    os.rename(fresh, backup)
    sync_directory(os.path.dirname(path))
    return True


def _changes(backup: str) -> object:
    if not os.path.exists(backup):
        return None
    connection = open_uri(backup, "immutable=1", wait=0)
    try:
        return connection.execute(_CHANGES).fetchone()[0]
    except (sqlite3.DatabaseError, TypeError):  # a TypeError where the row is missing
        return None
    finally:
        connection.close()


def integrity_fault(connection: sqlite3.Connection) -> str | None:
    """Return what is wrong with a catalogue: its structure, or rows that were altered from outside."""
    findings = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
    if findings == ["ok"]:
        findings = [f"altered: {row}" for row in broken_rows(connection)]
    return "; ".join(findings) or None
