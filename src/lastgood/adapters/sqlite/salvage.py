"""Reading what a damaged catalogue still yields: row by row, so that one bad page hides no other."""

from __future__ import annotations

import os

from lastgood.adapters.sqlite import manifests, payloads
from lastgood.adapters.sqlite.database import open_uri, prepare
from lastgood.adapters.sqlite.faults import BROKEN
from lastgood.adapters.sqlite.schema import APPLICATION_ID, CURRENT, application, version
from lastgood.adapters.sqlite.seal import broken_seal, columns, tables
from lastgood.codec.manifest import decode
from lastgood.codec.progress import decode_effect, decode_progress, decode_session
from lastgood.codec.records import decode_operation
from lastgood.codec.workplan import decode_plan
from lastgood.errors import LastgoodError
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Mapping

    from lastgood.adapters.sqlite.rows import Row

# Where even the highest number cannot be read: how far to look.
_FAR = 100_000
_UNTOLD = 1 << 62
# Since this version the columns are the same; tables were added.
_OLDEST = 2
# Tables of the work: what reads a row's payload, the last column before the seal.
WORK_FORMS: dict[str, Callable[[str], object]] = {
    "session": decode_session,
    "progress": decode_progress,
    "step": decode_effect,
    "run": decode_plan,
}


class Salvage(Value):
    """Rows whose seal is whole, by table: every column of `SEALED`, then the seal."""

    workspaces: tuple[Row, ...] = ()
    checkpoints: tuple[Row, ...] = ()
    operations: tuple[Row, ...] = ()
    work: Mapping[str, tuple[Row, ...]] = {}
    # How often the catalogue was changed; very often where that cannot be told.
    changes: int = _UNTOLD


def salvage(path: str) -> Salvage:
    """Return the rows that can still be trusted; none if the file is none of ours any more.

    Only reads: the file and its log stay as they are.
    """
    if not os.path.exists(path):
        return Salvage()
    connection = open_uri(path, "mode=ro", wait=0)
    try:
        prepare(connection)
        if application(connection) != APPLICATION_ID or not _is_known(version(connection)):
            return Salvage()
        present = tables(connection)  # fails where no statement will do: nothing is asked row by row then
        checkpoints = [row for row in _numbered(connection, "checkpoint", "sequence") if _decodes(row)]
        operations = [row for row in _numbered(connection, "operation", "number") if _operates(row)]
        work = {table: tuple(_sound(connection, table)) for table in WORK_FORMS if table in present}
        keys = {
            row[2] for row in (*checkpoints, *operations, *(row for found in work.values() for row in found))
        }
        return Salvage(
            workspaces=tuple(_workspaces(connection, keys)),
            checkpoints=tuple(checkpoints),
            operations=tuple(operations),
            work=work,
            changes=_changes(connection),
        )
    except BROKEN:
        return Salvage()
    finally:
        connection.close()


def _changes(connection: sqlite3.Connection) -> int:
    try:
        row = connection.execute("SELECT value FROM meta WHERE name = 'changes'").fetchone()
    except BROKEN:
        return _UNTOLD
    return row[0] if row is not None and isinstance(row[0], int) else _UNTOLD


def is_readable(connection: sqlite3.Connection) -> bool:
    """Tell whether every row of a catalogue whose structure is sound is in a form that is read here."""
    try:
        for (manifest,) in connection.execute("SELECT manifest FROM checkpoint"):
            decode(manifests.unpack(manifest))
        for (payload,) in connection.execute("SELECT payload FROM operation"):
            decode_operation(str(payload))
        for table, read in WORK_FORMS.items():
            for (payload,) in connection.execute(f"SELECT payload FROM {table}"):  # noqa: S608 - names of ours
                read(payloads.unpack(payload))
    except LastgoodError:
        return False
    return True


def _is_known(number: int) -> bool:
    return number < 1 or _OLDEST <= number <= CURRENT.version  # below 1 it is damaged


def _numbered(connection: sqlite3.Connection, table: str, number: str) -> Iterator[Row]:
    for candidate in range(1, _top(connection, table, number) + 1):
        row = _one(connection, table, number, candidate)
        if row is not None:
            yield row


def _workspaces(connection: sqlite3.Connection, keys: set[object]) -> Iterator[Row]:
    try:
        found = connection.execute("SELECT key FROM workspace").fetchall()
    except BROKEN:
        found = []
    for key in sorted({str(key) for key in keys} | {str(row[0]) for row in found}):
        row = _one(connection, "workspace", "key", key)
        if row is not None:
            yield row


def _one(connection: sqlite3.Connection, table: str, column: str, value: object) -> Row | None:
    statement = (
        f"SELECT {columns(table)} FROM {table}"  # noqa: S608 - names of ours
        f" WHERE {column} = ? AND NOT {broken_seal(table)}"
    )
    try:
        row: Row | None = connection.execute(statement, (value,)).fetchone()
    except BROKEN:
        return None
    return row


def _top(connection: sqlite3.Connection, table: str, number: str) -> int:
    questions = (
        f"SELECT seq FROM sqlite_sequence WHERE name = '{table}'",  # noqa: S608 - names of ours
        f"SELECT max({number}) FROM {table}",  # noqa: S608 - names of ours
    )
    tops = []
    for question in questions:
        try:
            row = connection.execute(question).fetchone()
        except BROKEN:
            tops.append(_FAR)
        else:
            tops.append(row[0] if row is not None and isinstance(row[0], int) else 0)
    return max(tops) if max(tops) <= _FAR * 10 else _FAR


def _sound(connection: sqlite3.Connection, table: str) -> Iterator[Row]:
    """Yield the rows of a table of the work that can be read."""
    for row in _numbered(connection, table, "number"):
        try:
            WORK_FORMS[table](payloads.unpack(row[-2]))
        except LastgoodError:
            continue
        yield row


def _decodes(row: Row) -> bool:
    try:
        decode(manifests.unpack(row[19]))
    except LastgoodError:
        return False
    return True


def _operates(row: Row) -> bool:
    try:
        decode_operation(str(row[6]))
    except LastgoodError:
        return False
    return True
