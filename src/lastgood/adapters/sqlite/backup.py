"""Sound copies of the catalogue beside it."""

from __future__ import annotations

import os

from lastgood.adapters.files import make_directories, sync_directory
from lastgood.adapters.sqlite.copies import ask, clear, drop, make
from lastgood.adapters.sqlite.database import BACKUP, BACKUPS, gate, prepare
from lastgood.adapters.sqlite.faults import REPAIR_HINT
from lastgood.adapters.sqlite.image import form_fault
from lastgood.adapters.sqlite.library import sqlite3
from lastgood.adapters.sqlite.packed import SUFFIX
from lastgood.adapters.sqlite.schema import CURRENT
from lastgood.adapters.sqlite.seal import broken_rows
from lastgood.adapters.sqlite.shape import shape_fault
from lastgood.errors import Damaged, LastgoodError
from lastgood.names import printable

# What is wrong with a catalogue that a backup is ahead of.
OLDER = "is older than its backup"
# Where repairs put what they replace.
DAMAGED = "damaged"
_CHANGES = "SELECT value FROM meta WHERE name = 'changes'"


def back_up(connection: sqlite3.Connection, path: str) -> bool:
    """Copy the catalogue to its backup, keeping the one before; False when nothing changed since.

    `Damaged` if the copy is not sound, or older than the backup: it must not push out a better one.
    """
    backup = os.path.join(os.path.dirname(path), BACKUP)
    clear(backup)
    there = backups(path)
    if is_older(connection, path):
        raise Damaged(f"the catalogue {printable(path)} {OLDER}: not backed up", hint=REPAIR_HINT)
    if there and _changes(there[0]) == connection.execute(_CHANGES).fetchone()[0]:
        return False
    refusal = Damaged(f"the catalogue {printable(path)} is damaged: not backed up", hint=REPAIR_HINT)
    packed = make(connection, backup, is_sound=is_sound, refusal=refusal)
    try:
        _put(packed, backup, before=there[0] if there else None)
    finally:
        drop(packed)
    return True


def _put(packed: str, backup: str, *, before: str | None) -> None:
    """Make a copy the newest backup, and the newest until now the one before; all others go."""
    if before == backup + SUFFIX:
        before = backup + ".1" + SUFFIX
        os.rename(backup + SUFFIX, before)
    os.rename(packed, backup + SUFFIX)
    sync_directory(os.path.dirname(backup))
    for other in backups(backup):
        if other not in {backup + SUFFIX, before}:
            drop(other)


def backups(path: str) -> list[str]:
    """Return the backups beside a catalogue, the newest first."""
    places = (os.path.join(os.path.dirname(path), name) for name in BACKUPS)
    return [place for place in places if os.path.exists(place)]


def _changes(backup: str) -> object:
    def changes(connection: sqlite3.Connection) -> object:
        return connection.execute(_CHANGES).fetchone()[0]

    try:
        return ask(backup, changes)
    except (sqlite3.DatabaseError, ValueError, TypeError):  # a TypeError where the row is missing
        return None


def soundest_backup(path: str) -> str | None:
    """Return the newest backup beside a catalogue that proves whole, None if there is none."""
    sound = [one for one in backups(path) if is_sound(one)]
    return max(sound, key=_count, default=None)  # of two alike the first, which is the newer one


def is_older(connection: sqlite3.Connection, path: str) -> bool:
    """Tell whether a sound backup is ahead of a catalogue: then an older copy was put into its place."""
    mine = connection.execute(_CHANGES).fetchone()
    count = mine[0] if mine is not None and isinstance(mine[0], int) else 0
    return any(_count(one) > count and is_sound(one) for one in backups(path))


def _count(backup: str) -> int:
    found = _changes(backup)
    return found if isinstance(found, int) else 0


def is_sound(path: str) -> bool:
    """Tell whether a catalogue or backup that nobody has open is whole, and of a version that can be read."""

    def proven(connection: sqlite3.Connection) -> bool:
        prepare(connection)
        gate(connection, CURRENT, path=path)
        return integrity_fault(connection) is None

    try:
        return ask(path, proven)
    except (sqlite3.DatabaseError, LastgoodError, ValueError):
        return False


def integrity_fault(connection: sqlite3.Connection) -> str | None:
    """Return what is wrong with a catalogue: its structure, or rows that were altered from outside."""
    fault = structure_fault(connection)
    if fault is None:
        fault = "; ".join(f"altered: {row}" for row in broken_rows(connection)) or None
    return fault


def structure_fault(connection: sqlite3.Connection) -> str | None:
    """Return what SQLite finds wrong with its own pages and indexes, or which table is not as it was made."""
    findings = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
    if findings != ["ok"]:
        return "; ".join(findings)
    return form_fault(connection) or shape_fault(connection)


def unsound_backups(path: str) -> list[str]:
    """Return the backups beside a catalogue that do not prove whole."""
    return [one for one in backups(path) if not is_sound(one)]


def set_aside(backup: str) -> str:
    """Move a backup out of the way, durably, under a name that is free, and return where it is; OSError."""
    folder, name = os.path.split(backup)
    target = os.path.join(folder, DAMAGED, name)
    make_directories(os.fsencode(os.path.dirname(target)))
    number = 0
    while os.path.lexists(target):
        number += 1
        target = os.path.join(folder, DAMAGED, f"{name}.{number}")
    os.rename(backup, target)
    sync_directory(os.path.dirname(target))
    sync_directory(folder)
    return printable(target)
