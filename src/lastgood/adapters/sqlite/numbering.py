"""The number of a catalogue's version: told from a damaged one by all that the catalogue holds."""

from __future__ import annotations

import os
from contextlib import closing

from lastgood.adapters.sqlite.backup import backups, integrity_fault, is_sound
from lastgood.adapters.sqlite.copies import ask
from lastgood.adapters.sqlite.database import DEFAULT_WAIT, kept_copy, open_uri, prepare
from lastgood.adapters.sqlite.faults import BROKEN, translate
from lastgood.adapters.sqlite.library import sqlite3
from lastgood.adapters.sqlite.salvage import is_readable
from lastgood.adapters.sqlite.schema import APPLICATION_ID, CURRENT, application, create, said, say, version
from lastgood.errors import LastgoodError

# Since this version the tables are those of today: from here on an older number is no damage to see.
_SAME_TABLES = 3
_NAMED = "SELECT type, name, tbl_name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"


def mend_number(path: str) -> tuple[str, ...]:
    """Give a catalogue its version's number again if that alone is damaged, and say what was done.

    The caller holds the store's lock alone. Nothing is written unless what the catalogue holds, and
    what lies beside it, leave no doubt: one that a newer lastgood has written stays as it is.
    """
    path = os.path.abspath(path)
    try:
        found = _doubtless(path)
    except (*BROKEN, OSError):  # more than the number is damaged, as whoever opens it says
        found = None
    if found is None:
        return ()
    try:
        _write(path, found)
    except sqlite3.Error as error:
        raise translate(error, path) from error
    return (f"the catalogue's version was set from {found} to {CURRENT.version}: its number was damaged",)


def is_of_today(path: str) -> bool:
    """Tell whether a catalogue is one that this version reads; False too where it cannot be asked."""
    try:
        with closing(open_uri(path, "mode=ro", wait=DEFAULT_WAIT)) as connection:
            prepare(connection)
            numbers = (version(connection), said(connection) or 1)
            return application(connection) == APPLICATION_ID and all(
                1 <= number <= CURRENT.version for number in numbers
            )
    except (*BROKEN, sqlite3.Error):
        return False


def _doubtless(path: str) -> int | None:
    """Return the number that a catalogue bears by damage alone; None if that is not certain."""
    connection = open_uri(path, "mode=ro", wait=DEFAULT_WAIT)
    try:
        prepare(connection)
        found = version(connection)
        if application(connection) != APPLICATION_ID or _SAME_TABLES <= found <= CURRENT.version:
            return None
        if _shape(connection) != _present_shape():
            return None
        right = said(connection)
        if found < _SAME_TABLES:
            # Tables and number change in one transaction: these tables never had a lower number.
            return found if right is None or right <= CURRENT.version else None
        return found if _is_ours(connection, path, right=right or _backed_up(path)) else None
    finally:
        connection.close()


def _is_ours(connection: sqlite3.Connection, path: str, *, right: int) -> bool:
    """Tell whether nobody newer can have brought a catalogue of a version up, nor written any of its rows."""
    return (
        _SAME_TABLES <= right <= CURRENT.version
        and not any(os.path.exists(one) for one in _copies_since(right, path))
        and integrity_fault(connection) is None
        and is_readable(connection)
    )


def _backed_up(path: str) -> int:
    """Return the version of a catalogue that is older than the word about it; 0 if no backup tells."""
    there = backups(path)
    return _version_of(there[0]) if there and all(map(is_sound, there)) else 0


def _version_of(backup: str) -> int:
    try:
        return ask(backup, version)
    except (sqlite3.DatabaseError, ValueError, LastgoodError):
        return 0


def _copies_since(number: int, path: str) -> list[str]:
    """Return the copies that lie here because somebody brought a version or a later one up."""
    folder = os.path.dirname(path)
    stem = os.path.basename(kept_copy(path, ""))
    return [
        os.path.join(folder, name)
        for name in os.listdir(folder)
        if name.startswith(stem)
        and name.removeprefix(stem).isdigit()
        and int(name.removeprefix(stem)) >= number
    ]


def _shape(connection: sqlite3.Connection) -> dict[tuple[str, ...], frozenset[str]]:
    """Return the tables with the names of their columns, and whatever else there is."""
    named = [tuple(map(str, row)) for row in connection.execute(_NAMED)]
    return {
        row: frozenset(str(column[1]) for column in connection.execute(f'PRAGMA table_info("{row[1]}")'))
        for row in named
        if '"' not in row[1]
    }


def _present_shape() -> dict[tuple[str, ...], frozenset[str]]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        create(connection, CURRENT, generation="none")
        return _shape(connection)
    finally:
        connection.close()


def _write(path: str, found: int) -> None:
    connection = open_uri(path, "mode=rw", wait=DEFAULT_WAIT)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        if version(connection) == found:
            connection.execute(f"PRAGMA user_version = {CURRENT.version}")
            say(connection, CURRENT.version)
        connection.execute("COMMIT")
    finally:
        connection.close()
