"""Sound copies of the catalogue beside it."""

from __future__ import annotations

import os

from lastgood.adapters.files import sync_directory
from lastgood.adapters.sqlite.database import BACKUP, copy_into, gate, open_uri, prepare
from lastgood.adapters.sqlite.faults import REPAIR_HINT
from lastgood.adapters.sqlite.library import sqlite3
from lastgood.adapters.sqlite.schema import CURRENT
from lastgood.adapters.sqlite.seal import broken_rows
from lastgood.errors import Damaged, LastgoodError
from lastgood.names import printable

_CHANGES = "SELECT value FROM meta WHERE name = 'changes'"


def back_up(connection: sqlite3.Connection, path: str) -> bool:
    """Copy the catalogue to its backup, keeping the one before; False when nothing changed since.

    `Damaged` if the copy is not sound: it must not push out one that is.
    """
    backup = os.path.join(os.path.dirname(path), BACKUP)
    if _changes(backup) == connection.execute(_CHANGES).fetchone()[0]:
        return False
    fresh = backup + ".fresh"
    copy_into(connection, fresh)
    if not is_sound(fresh):
        os.unlink(fresh)
        raise Damaged(f"the catalogue {printable(path)} is damaged: not backed up", hint=REPAIR_HINT)
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


def soundest_backup(path: str) -> str | None:
    """Return the newest backup beside a catalogue that proves whole, None if there is none."""
    backup = os.path.join(os.path.dirname(path), BACKUP)
    return next((one for one in (backup, backup + ".1") if os.path.exists(one) and is_sound(one)), None)


def is_sound(path: str) -> bool:
    """Tell whether a catalogue that nobody has open is whole, and of a version that can be read."""
    connection = open_uri(path, "immutable=1", wait=0)
    try:
        prepare(connection)
        gate(connection, CURRENT, path=path)
        return integrity_fault(connection) is None
    except (sqlite3.DatabaseError, LastgoodError):
        return False
    finally:
        connection.close()


def integrity_fault(connection: sqlite3.Connection) -> str | None:
    """Return what is wrong with a catalogue: its structure, or rows that were altered from outside."""
    fault = structure_fault(connection)
    if fault is None:
        fault = "; ".join(f"altered: {row}" for row in broken_rows(connection)) or None
    return fault


def structure_fault(connection: sqlite3.Connection) -> str | None:
    """Return what SQLite finds wrong with its own pages and indexes."""
    findings = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
    return None if findings == ["ok"] else "; ".join(findings)
