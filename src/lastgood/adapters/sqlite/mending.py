"""Mending rows: checkpoints out of their commits, workspaces out of the manifests that name them."""

from __future__ import annotations

from lastgood.adapters.sqlite import rows
from lastgood.adapters.sqlite.backup import soundest_backup
from lastgood.adapters.sqlite.copies import ask
from lastgood.adapters.sqlite.database import prepare
from lastgood.adapters.sqlite.library import sqlite3
from lastgood.adapters.sqlite.queries import AWAITS_ADOPTION
from lastgood.adapters.sqlite.seal import broken_rows, broken_seal, columns, reseal, tables
from lastgood.errors import Storage
from lastgood.names import printable, to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lastgood.model.checkpoint import Checkpoint, Manifest

# A rescued catalogue may lack what is newer than its backup, until the engine's commits were adopted.
AWAIT_ADOPTION = "INSERT OR REPLACE INTO meta (name, value) VALUES ('unadopted', 1)"
_ADOPTED = "DELETE FROM meta WHERE name = 'unadopted'"
_WORK = ("operation", "session", "progress", "step", "run")
_SELECT = f"SELECT {rows.CHECKPOINT} FROM checkpoint WHERE sequence = ?"  # noqa: S608 - names of columns
_INSERT = f"INSERT INTO checkpoint (sequence, {rows.BIRTH}) VALUES (?, {rows.BIRTH_MARKS})"  # noqa: S608 - as above
_FOUND = (
    f"SELECT sequence, name, pinned, {broken_seal('checkpoint')}"  # noqa: S608 - as above
    " FROM checkpoint NOT INDEXED WHERE id = ? OR commit_id = ?"
)


def adopt(connection: sqlite3.Connection, manifest: Manifest, *, commit: str) -> Checkpoint | None:
    """Write the row of a checkpoint that is missing or was altered; None if a sound one is there."""
    found = connection.execute(_FOUND, (manifest.id, commit)).fetchall()
    if any(not row[3] for row in found):
        return None
    sequence = (
        _rewrite(connection, manifest, commit, found[0]) if found else _insert(connection, manifest, commit)
    )
    reseal(connection, "checkpoint", manifest.id)
    row: rows.Row = connection.execute(_SELECT, (sequence,)).fetchone()
    return rows.checkpoint(row)


def _rewrite(connection: sqlite3.Connection, manifest: Manifest, commit: str, row: rows.Row) -> object:
    """Write an altered row anew. Nobody knows which column was hit: a deletion is not believed."""
    sequence, name, pinned, *_ = row
    kept = None if name is None else str(name)
    columns = rows.birth(manifest, commit=commit, name=kept, pinned=bool(pinned), recovered=True)
    number = manifest.sequence if _is_free(connection, manifest.sequence) else sequence
    connection.execute(
        f"UPDATE checkpoint SET (sequence, {rows.BIRTH}) = (?, {rows.BIRTH_MARKS}), deleted_at = NULL,"  # noqa: S608 - as above
        " damaged = NULL, good = NULL, verdict = NULL WHERE sequence = ?",
        (number, *columns, sequence),
    )
    return number


def _insert(connection: sqlite3.Connection, manifest: Manifest, commit: str) -> object:
    sequence = max(manifest.sequence, 1)
    while not _is_free(connection, sequence):
        sequence += 1
    columns = rows.birth(manifest, commit=commit, name=manifest.name, pinned=False, recovered=True)
    connection.execute(_INSERT, (sequence, *columns))
    return sequence


def _is_free(connection: sqlite3.Connection, sequence: int) -> bool:
    taken = connection.execute("SELECT 1 FROM checkpoint WHERE sequence = ?", (sequence,)).fetchone()
    return sequence > 0 and taken is None


def is_whole(connection: sqlite3.Connection) -> bool:
    """Tell whether `mend` would find nothing to do."""
    return connection.execute(AWAITS_ADOPTION).fetchone() is None and not broken_rows(connection)


def altered_work(connection: sqlite3.Connection) -> dict[str, list[int]]:
    """Return the numbers of the operations and facts about the work that were altered, by table."""
    return {table: [number for number, _ in _altered(connection, table)] for table in _WORK}


def backed_up_work(path: str, wanted: Mapping[str, Iterable[int]]) -> dict[tuple[str, int], rows.Row]:
    """Return what the newest sound backup of a catalogue has of some rows, by table and number."""
    backup = soundest_backup(path) if any(wanted.values()) else None
    if backup is None:
        return {}

    def read(connection: sqlite3.Connection) -> dict[tuple[str, int], rows.Row]:
        prepare(connection)
        return _sound_rows(connection, wanted)

    try:
        return ask(backup, read)
    except (sqlite3.Error, OSError, ValueError) as error:
        raise Storage(
            f"the backup {printable(backup)} cannot be read: {error}", hint="check the disk, then try again"
        ) from error


def _sound_rows(
    connection: sqlite3.Connection, wanted: Mapping[str, Iterable[int]]
) -> dict[tuple[str, int], rows.Row]:
    found = {}
    present = tables(connection)
    for table in present.intersection(wanted):
        statement = f"SELECT {columns(table)} FROM {table} WHERE number = ? AND NOT {broken_seal(table)}"  # noqa: S608 - as above
        for number in wanted[table]:
            row: rows.Row | None = connection.execute(statement, (number,)).fetchone()
            if row is not None:
                found[table, number] = row
    return found


def mend(connection: sqlite3.Connection, *, backed_up: Mapping[tuple[str, int], rows.Row]) -> list[str]:
    """Give operations and facts about the work that were altered back as a copy has them; say which.

    Those that it does not have are dropped: without its record an operation cannot be undone, the
    checkpoints that it refers to stay, and what was known of the work stands in the checkpoints as
    well. Workspaces are restored from these. Called when all commits were adopted.
    """
    connection.execute(_ADOPTED)
    done = [line for table in _WORK for line in _mend_work(connection, table, backed_up)]
    return [*done, *_restore_workspaces(connection)]


def _mend_work(
    connection: sqlite3.Connection, table: str, backed_up: Mapping[tuple[str, int], rows.Row]
) -> list[str]:
    altered = _altered(connection, table)
    for number, _ in altered:
        connection.execute(f"DELETE FROM {table} WHERE number = ?", (number,))  # noqa: S608 - as above
    done = []
    for number, id in altered:
        row = backed_up.get((table, number))
        if row is not None and _is_new(connection, table, row[1]):
            marks = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO {table} ({columns(table)}) VALUES ({marks})", row)  # noqa: S608 - as above
            done.append(f"{table} {row[1]} is as the backup has it: its record was altered")
        else:
            done.append(f"{table} {id} dropped: its record was altered")
    return done


def _altered(connection: sqlite3.Connection, table: str) -> list[tuple[int, object]]:
    statement = f"SELECT number, id FROM {table} NOT INDEXED WHERE {broken_seal(table)}"  # noqa: S608 - as above
    return connection.execute(statement).fetchall()


def _is_new(connection: sqlite3.Connection, table: str, id: object) -> bool:
    known = connection.execute(f"SELECT 1 FROM {table} WHERE id = ?", (id,))  # noqa: S608 - as above
    return known.fetchone() is None


def _restore_workspaces(connection: sqlite3.Connection) -> list[str]:
    altered = broken_seal("workspace")
    keys = [row[0] for row in connection.execute(f"SELECT key FROM workspace WHERE {altered}")]  # noqa: S608 - as above
    for key in keys:
        newest = connection.execute(
            f"SELECT {rows.CHECKPOINT} FROM checkpoint"  # noqa: S608 - as above
            f" WHERE workspace_key = ? AND NOT {broken_seal('checkpoint')} ORDER BY sequence DESC LIMIT 1",
            (key,),
        ).fetchone()
        if newest is not None:
            path = to_bytes(rows.checkpoint(newest).manifest.workspace)
            connection.execute("UPDATE workspace SET path = ? WHERE key = ?", (path, key))
        reseal(connection, "workspace", key)
    return [f"workspace {key} restored: its record was altered" for key in keys]
