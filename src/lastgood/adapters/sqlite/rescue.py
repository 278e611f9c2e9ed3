"""Replacing a damaged catalogue: the newest sound backup, and whatever the damaged one still yields."""

from __future__ import annotations

import os
from bisect import bisect_right

from lastgood.adapters.files import make_directories, sync_directory, sync_file
from lastgood.adapters.sqlite import manifests, payloads
from lastgood.adapters.sqlite.backup import (
    DAMAGED,
    integrity_fault,
    is_older,
    is_sound,
    soundest_backup,
    structure_fault,
)
from lastgood.adapters.sqlite.database import DEFAULT_WAIT, RESCUE, gate, make_private_file, open_uri, prepare
from lastgood.adapters.sqlite.faults import BROKEN, translate
from lastgood.adapters.sqlite.library import sqlite3
from lastgood.adapters.sqlite.mending import AWAIT_ADOPTION
from lastgood.adapters.sqlite.packed import unpack
from lastgood.adapters.sqlite.salvage import WORK_FORMS, Salvage, salvage
from lastgood.adapters.sqlite.schema import CURRENT, create, migrate
from lastgood.adapters.sqlite.seal import SEALED, columns, reseal
from lastgood.codec.manifest import decode
from lastgood.codec.moment import iso
from lastgood.codec.progress import decode_effect, encode_effect
from lastgood.errors import Damaged, Internal
from lastgood.names import printable, to_bytes
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.adapters.sqlite.rows import Row

_SIDECARS = ("-wal", "-shm", "-journal")


def restore_from_backup(path: str, *, generation: str, at: int) -> tuple[str, ...]:
    """Put a sound catalogue in the place of a damaged or missing one, and say what was done.

    The caller holds the store's lock alone, and nobody has the catalogue open. The damaged file and
    its log are set aside under ``damaged/``, none is deleted. Checkpoints that come from the backup
    only are marked as recovered; those newer than it have to be adopted from the engine. A file of
    which only rows were altered is left in place: those are adopted and mended one by one. May be
    killed at any moment and repeated. ``at`` is in nanoseconds.
    """
    path = os.path.abspath(path)
    if _stands(path):
        return ()
    try:
        done = _prepare_replacement(path, generation=generation)
        done += _set_aside(path, at=at)
        os.rename(path + RESCUE, path)
        sync_directory(os.path.dirname(path))
    except (sqlite3.Error, OSError) as error:
        raise translate(error, path) from error
    return tuple(done)


def _stands(path: str) -> bool:
    if not os.path.exists(path) or os.path.exists(path + RESCUE):
        return False
    connection = open_uri(path, "mode=rw", wait=DEFAULT_WAIT)
    try:
        prepare(connection)
        gate(connection, CURRENT, path=path)
        return structure_fault(connection) is None and not is_older(connection, path)
    except (*BROKEN, Damaged):
        return False
    finally:
        connection.close()


def _prepare_replacement(path: str, *, generation: str) -> list[str]:
    if os.path.exists(path + RESCUE) and is_sound(path + RESCUE):
        return ["an interrupted repair of the catalogue was finished"]
    found = salvage(path)
    backup = soundest_backup(path)
    draft = path + RESCUE + ".new"
    for leftover in ("", *_SIDECARS):
        if os.path.exists(draft + leftover):
            os.unlink(draft + leftover)
    _build(draft, backup, found, generation=generation)
    os.rename(draft, path + RESCUE)
    sync_directory(os.path.dirname(path))
    source = "no sound backup" if backup is None else f"the backup {os.path.basename(backup)}"
    yielded = f"{len(found.checkpoints)} checkpoint(s) and {len(found.operations)} operation(s)"
    return [f"catalogue rebuilt from {source} and {yielded} out of the damaged file"]


def _build(draft: str, backup: str | None, found: Salvage, *, generation: str) -> None:
    if backup is None:
        make_private_file(draft)
    else:
        unpack(backup, draft)
    connection = sqlite3.connect(draft, isolation_level=None)
    try:
        prepare(connection)
        if backup is None:
            create(connection, CURRENT, generation=generation)
        else:
            migrate(connection, CURRENT)
        connection.execute("BEGIN IMMEDIATE")
        _merge(connection, found)
        connection.execute("UPDATE meta SET value = ? WHERE name = 'generation'", (generation,))
        connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'changes'")
        connection.execute(AWAIT_ADOPTION)
        connection.execute("COMMIT")
        fault = integrity_fault(connection)
        if fault is not None:
            raise Internal(f"the rebuilt catalogue is not sound: {fault}")
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    sync_file(draft)


def _merge(connection: sqlite3.Connection, found: Salvage) -> None:
    (changes,) = connection.execute("SELECT value FROM meta WHERE name = 'changes'").fetchone()
    salvaged = {row[1] for row in found.checkpoints}
    older = [row[0] for row in connection.execute("SELECT id FROM checkpoint") if row[0] not in salvaged]
    for id in older:
        connection.execute("UPDATE checkpoint SET recovered = 1 WHERE id = ?", (id,))
        reseal(connection, "checkpoint", id)
    over = found.changes >= changes
    _put(connection, "workspace", found.workspaces, over=over)
    _put(connection, "checkpoint", found.checkpoints, over=over)
    steps = _placed(connection, found)
    for table, rows in {"operation": found.operations, **found.work, "step": steps}.items():
        _put(connection, table, rows, over=over)
    _name_workspaces(connection)


def _put(connection: sqlite3.Connection, table: str, found: tuple[Row, ...], *, over: bool) -> None:
    """Add rows, those of an older catalogue beside what the backup says, others ``over`` it.

    One whose number another bears gets the next, for only its id says which it is. The seals of the rows
    found are whole; a new one is made for what is changed here alone.
    """
    key, names = SEALED[table]
    marks = ", ".join("?" * (len(names) + 1))
    statement = (
        f"INSERT OR {'REPLACE' if over else 'IGNORE'} INTO {table} ({columns(table)}) VALUES ({marks})"  # noqa: S608 - names of ours
    )
    for row in found:
        placed = row if table == "workspace" else _numbered(connection, table, row)
        if connection.execute(statement, placed).rowcount and (placed != row or not row[-1]):
            reseal(connection, table, str(row[names.index(key)]))


def _numbered(connection: sqlite3.Connection, table: str, row: Row) -> Row:
    """Return a row with the number that it has in a table already, or any if its own is another's."""
    number = SEALED[table][1][0]
    taken = connection.execute(f"SELECT id FROM {table} WHERE {number} = ?", row[:1]).fetchone()  # noqa: S608 - as above
    if taken is None or taken[0] == row[1]:
        return row
    mine = connection.execute(f"SELECT {number} FROM {table} WHERE id = ?", row[1:2]).fetchone()  # noqa: S608 - as above
    return (None if mine is None else mine[0], *row[1:])


def _placed(connection: sqlite3.Connection, found: Salvage) -> tuple[Row, ...]:
    """Return the steps found, each after the checkpoint that it was after, whatever number that has now.

    The seal of those that had to be changed is 0: to be made.
    """
    moved = []
    for row in found.checkpoints:
        (number,) = connection.execute("SELECT sequence FROM checkpoint WHERE id = ?", row[1:2]).fetchone()
        moved.append((cast("int", row[0]), cast("int", number)))
    moved.sort()
    return tuple(_after(row, moved) for row in found.work.get("step", ()))


def _after(row: Row, moved: list[tuple[int, int]]) -> Row:
    *others, payload, _ = row
    effect = decode_effect(payloads.unpack(payload))
    at = bisect_right(moved, effect.after, key=lambda pair: pair[0])
    was, now = moved[at - 1] if at else (0, 0)
    if was == now:
        return row
    return (*others, encode_effect(effect.replace(after=now)), 0)


def _name_workspaces(connection: sqlite3.Connection) -> None:
    """Add the workspaces that checkpoints belong to and whose own rows are lost."""
    orphans = connection.execute(
        "SELECT workspace_key, manifest, max(sequence) FROM checkpoint"
        " WHERE workspace_key NOT IN (SELECT key FROM workspace) GROUP BY workspace_key"
    ).fetchall()
    for key, text, _ in orphans:
        manifest = decode(manifests.unpack(text))
        # The machine is not in the manifest; a workspace of no known machine can still be attached.
        row = (key, to_bytes(manifest.workspace), "", manifest.created_at)
        connection.execute("INSERT INTO workspace (key, path, machine, created_at) VALUES (?, ?, ?, ?)", row)
        reseal(connection, "workspace", key)
    for table in ("operation", *WORK_FORMS):
        connection.execute(f"DELETE FROM {table} WHERE workspace_key NOT IN (SELECT key FROM workspace)")  # noqa: S608 - names of ours


def _set_aside(path: str, *, at: int) -> list[str]:
    """Move a catalogue and its log out of the way: a log that stayed would be applied to the new file."""
    present = [path + suffix for suffix in ("", *_SIDECARS) if os.path.exists(path + suffix)]
    if not present:
        return []
    stamp = iso(at).replace(":", "").replace("-", "")
    folder = os.path.join(os.path.dirname(path), DAMAGED, f"catalogue-{stamp}")
    make_directories(os.fsencode(folder))
    for name in reversed(present):
        os.rename(name, os.path.join(folder, os.path.basename(name)))
    sync_directory(folder)
    sync_directory(os.path.dirname(folder))
    sync_directory(os.path.dirname(path))
    return [f"damaged catalogue set aside in {printable(folder)}"]
