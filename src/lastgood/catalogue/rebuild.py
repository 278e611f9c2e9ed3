"""Replacing a damaged catalogue: the newest sound backup, and whatever the damaged one still yields."""

from __future__ import annotations

import os
from bisect import bisect_right
from contextlib import ExitStack, contextmanager

from lastgood.catalogue import rows as forms
from lastgood.catalogue.backup import (
    DAMAGED,
    ask,
    backups,
    integrity_fault,
    is_older,
    is_sound,
    of_new,
    soundest_backup,
    structure_fault,
    unpack,
)
from lastgood.catalogue.database import (
    APPLICATION_ID,
    CURRENT,
    DEFAULT_WAIT,
    INDEXES,
    RESCUE,
    SEALED,
    SLICE,
    application,
    broken_rows,
    broken_seal,
    column_names,
    columns,
    create,
    gate,
    kept_copy,
    make_private_file,
    migrate,
    open_uri,
    prepare,
    reseal,
    retry_while_busy,
    second_version,
    tables,
    version,
    write_second_version,
)
from lastgood.catalogue.image import reheaded
from lastgood.catalogue.rows import AWAITS_ADOPTION
from lastgood.catalogue.sqlite import BROKEN, is_busy, sqlite3, translate
from lastgood.catalogue.work import backed_up_parts, mend_lists, read_progress_row, torn_lists
from lastgood.errors import Damaged, Internal, LastgoodError, Storage, count
from lastgood.files import make_directories, sync_directory, sync_file
from lastgood.model.canonical import iso
from lastgood.model.checkpoint import decode
from lastgood.model.operation import OPERATION
from lastgood.model.session import EFFECT, SESSION
from lastgood.paths import printable, to_bytes, to_text
from lastgood.value import Value, cast
from lastgood.workplan.plan import PLAN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from lastgood.catalogue.rows import Row
    from lastgood.model.checkpoint import Checkpoint, Manifest
    from lastgood.model.long_list import PartReader

    # What there is, by type, name and table; with the columns of tables.
    Shape = Mapping[tuple[str, ...], frozenset[str]]


# --- Reading what a damaged catalogue still yields: row by row, so that one bad page hides no other ---

# Where even the highest number cannot be read: how far to look.
_FAR = 100_000
_UNTOLD = 1 << 62
# Since this version checkpoints have the same columns.
_OLDEST = 2
# Table: the column of a row that is read, and what reads it; first those of facts, then those of the work.
_FORMS: dict[str, tuple[str, Callable[[object], object]]] = {
    "checkpoint": ("manifest", lambda kept: decode(forms.unpack_manifest(kept))),
    "operation": ("payload", lambda kept: OPERATION.decode(str(kept))),
    "session": ("payload", lambda kept: SESSION.decode(forms.unpack_record(kept))),
    "progress": ("payload", read_progress_row),
    "step": ("payload", lambda kept: EFFECT.decode(forms.unpack_record(kept))),
    "run": ("payload", lambda kept: PLAN.decode(forms.unpack_record(kept))),
}
_WORK = tuple(_FORMS)[1:]


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

    Only reads: the file and its log stay as they are. Where the header is what is damaged, by which SQLite
    tells a database from anything else, a copy in memory is read that has a sound one; where the whole first
    page is, which says where the tables begin, that of a new catalogue is tried. Each row is believed by
    its own seal alone.
    """
    if not os.path.exists(path):
        return Salvage()
    return (
        _salvaged(lambda: open_uri(path, "mode=ro", wait=0))
        or _salvaged(lambda: reheaded(path, application=APPLICATION_ID))
        or _salvaged(lambda: reheaded(path, application=APPLICATION_ID, first=of_new(_first_page)))
        or Salvage()
    )


def _first_page(connection: sqlite3.Connection) -> bytes:
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    return connection.serialize()[:size]


def _salvaged(opened: Callable[[], sqlite3.Connection]) -> Salvage | None:
    """Return the rows that a connection yields; None if it yields nothing at all."""
    try:
        connection = opened()
    except BROKEN:
        return None
    try:
        prepare(connection)
        if application(connection) != APPLICATION_ID:
            return None
        if not _is_known(version(connection)):
            return Salvage()
        present = tables(connection)  # fails where no statement will do: nothing is asked row by row then
        checkpoints, operations = (tuple(_sound(connection, table)) for table in ("checkpoint", "operation"))
        work = {table: tuple(_sound(connection, table)) for table in _WORK[1:] if table in present}
        keys = {
            row[2] for row in (*checkpoints, *operations, *(row for found in work.values() for row in found))
        }
        return Salvage(
            workspaces=tuple(_workspaces(connection, keys)),
            checkpoints=checkpoints,
            operations=operations,
            work=work,
            changes=_changes(connection),
        )
    except BROKEN:
        return None
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
        for table, (column, read) in _FORMS.items():
            for (kept,) in connection.execute(f"SELECT {column} FROM {table}"):  # noqa: S608 - names of ours
                read(kept)
    except LastgoodError:
        return False
    return True


def _is_known(number: int) -> bool:
    return number < 1 or _OLDEST <= number <= CURRENT.version  # below 1 it is damaged


def _rows_by_number(connection: sqlite3.Connection, table: str, number: str) -> Iterator[Row]:
    for candidate in range(1, _top(connection, table, number) + 1):
        row = _one(connection, table, number, candidate)
        if row is not None:
            yield row


def _workspaces(connection: sqlite3.Connection, keys: set[object]) -> Iterator[Row]:
    try:
        found = connection.execute("SELECT key FROM workspace").fetchall()
    except BROKEN:
        found = []
    known = column_names(connection, "workspace")
    for key in sorted({str(key) for key in keys} | {str(row[0]) for row in found}):
        row = _one(connection, "workspace", "key", key, known=known)
        if row is not None:
            yield row


def _one(
    connection: sqlite3.Connection,
    table: str,
    column: str,
    value: object,
    *,
    known: Collection[str] | None = None,
) -> Row | None:
    statement = (
        f"SELECT {columns(table, known=known)} FROM {table}"  # noqa: S608 - names of ours
        f" WHERE {column} = ? AND NOT {broken_seal(table, known=known)}"
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
    """Yield the rows of a table that can be read."""
    names = SEALED[table][1]
    column, read = _FORMS[table]
    for row in _rows_by_number(connection, table, names[0]):
        try:
            read(row[names.index(column)])
        except LastgoodError:
            continue
        yield row


# --- Mending rows: checkpoints out of their commits, workspaces out of the manifests that name them ---

# A rescued catalogue may lack what is newer than its backup, until the engine's commits were adopted.
AWAIT_ADOPTION = "INSERT OR REPLACE INTO meta (name, value) VALUES ('unadopted', 1)"
_ADOPTED = "DELETE FROM meta WHERE name = 'unadopted'"
_PLACELESS = (
    "SELECT key, path FROM workspace WHERE at IS NULL"
    " AND EXISTS (SELECT 1 FROM checkpoint WHERE workspace_key = key AND recovered = 1) ORDER BY path"
)
_SELECT = f"SELECT {forms.CHECKPOINT} FROM checkpoint WHERE sequence = ?"  # noqa: S608 - names of columns
_INSERT = f"INSERT INTO checkpoint (sequence, {forms.BIRTH}) VALUES (?, {forms.BIRTH_MARKS})"  # noqa: S608 - as above
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
    row: forms.Row = connection.execute(_SELECT, (sequence,)).fetchone()
    return forms.checkpoint(row)


def _rewrite(connection: sqlite3.Connection, manifest: Manifest, commit: str, row: forms.Row) -> object:
    """Write an altered row anew. Nobody knows which column was hit: a deletion is not believed."""
    sequence, name, pinned, *_ = row
    kept = None if name is None else str(name)
    columns = forms.birth(manifest, commit=commit, name=kept, pinned=bool(pinned), recovered=True)
    number = manifest.sequence if _is_free(connection, manifest.sequence) else sequence
    connection.execute(
        f"UPDATE checkpoint SET (sequence, {forms.BIRTH}) = (?, {forms.BIRTH_MARKS}), deleted_at = NULL,"  # noqa: S608 - as above
        " damaged = NULL, good = NULL, verdict = NULL WHERE sequence = ?",
        (number, *columns, sequence),
    )
    return number


def _insert(connection: sqlite3.Connection, manifest: Manifest, commit: str) -> object:
    sequence = max(manifest.sequence, 1)
    while not _is_free(connection, sequence):
        sequence += 1
    columns = forms.birth(manifest, commit=commit, name=manifest.name, pinned=False, recovered=True)
    connection.execute(_INSERT, (sequence, *columns))
    return sequence


def _is_free(connection: sqlite3.Connection, sequence: int) -> bool:
    taken = connection.execute("SELECT 1 FROM checkpoint WHERE sequence = ?", (sequence,)).fetchone()
    return sequence > 0 and taken is None


def is_whole(connection: sqlite3.Connection) -> bool:
    """Tell whether `mend` would find nothing to do."""
    awaits = connection.execute(AWAITS_ADOPTION).fetchone() is not None
    return not awaits and not broken_rows(connection) and not torn_lists(connection)


def altered_work(connection: sqlite3.Connection) -> dict[str, list[int]]:
    """Return the numbers of the operations and facts about the work that were altered, by table."""
    return {table: [number for number, _ in _altered(connection, table)] for table in _WORK}


def backed_up_work(path: str, wanted: Mapping[str, Iterable[int]]) -> dict[tuple[str, int], forms.Row]:
    """Return what the newest sound backup of a catalogue has of some rows, by table and number."""
    backup = soundest_backup(path) if any(wanted.values()) else None
    if backup is None:
        return {}

    def read(connection: sqlite3.Connection) -> dict[tuple[str, int], forms.Row]:
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
) -> dict[tuple[str, int], forms.Row]:
    found = {}
    present = tables(connection)
    for table in present.intersection(wanted):
        statement = f"SELECT {columns(table)} FROM {table} WHERE number = ? AND NOT {broken_seal(table)}"  # noqa: S608 - as above
        for number in wanted[table]:
            row: forms.Row | None = connection.execute(statement, (number,)).fetchone()
            if row is not None:
                found[table, number] = row
    return found


def parts_in_backup(path: str) -> dict[str, bytes]:
    """Return the rows that the newest sound backup of a catalogue has of parts of lists, by id."""
    backup = soundest_backup(path)
    if backup is None:
        return {}

    def read(connection: sqlite3.Connection) -> dict[str, bytes]:
        prepare(connection)
        return backed_up_parts(connection)

    return ask(backup, read)


def mend(
    connection: sqlite3.Connection,
    *,
    backed_up: Mapping[tuple[str, int], forms.Row],
    parts: Mapping[str, bytes],
    objects: Callable[[], PartReader] | None,
) -> list[str]:
    """Give operations and facts about the work that were altered back as a copy has them; say which.

    Those that it does not have are dropped: without its record an operation cannot be undone, the
    checkpoints that it refers to stay, and what was known of the work stands in the checkpoints as
    well. Workspaces are restored from these. Called when all commits were adopted.
    """
    done = [line for table in _WORK for line in _mend_work(connection, table, backed_up)]
    done += mend_lists(connection, backed_up=parts, objects=objects)
    return [*done, *_restore_workspaces(connection), *_lose_places(connection)]


def _mend_work(
    connection: sqlite3.Connection, table: str, backed_up: Mapping[tuple[str, int], forms.Row]
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
            f"SELECT {forms.CHECKPOINT} FROM checkpoint"  # noqa: S608 - as above
            f" WHERE workspace_key = ? AND NOT {broken_seal('checkpoint')} ORDER BY sequence DESC LIMIT 1",
            (key,),
        ).fetchone()
        if newest is not None:
            path = to_bytes(forms.checkpoint(newest).manifest.workspace)
            connection.execute("UPDATE workspace SET path = ? WHERE key = ?", (path, key))
        connection.execute("UPDATE workspace SET at = ? WHERE key = ?", (forms.LOST_PLACE, key))
        reseal(connection, "workspace", key)
    return [f"workspace {key} restored: its record was altered" for key in keys]


def _lose_places(connection: sqlite3.Connection) -> list[str]:
    """Mark the workspaces of which a rescued catalogue does not say where they stand, and return which."""
    rescued = connection.execute(AWAITS_ADOPTION).fetchone() is not None
    connection.execute(_ADOPTED)
    lost = connection.execute(_PLACELESS).fetchall() if rescued else []
    for key, _ in lost:
        connection.execute("UPDATE workspace SET at = ? WHERE key = ?", (forms.LOST_PLACE, key))
        reseal(connection, "workspace", key)
    return [
        f"where {printable(to_text(bytes(path)))} stands was lost: its newest checkpoint counts"
        for _, path in lost
    ]


# --- Replacing a damaged catalogue: the newest sound backup, and whatever the damaged one still yields ---

_SIDECARS = ("-wal", "-shm", "-journal")


def restore_from_backup(path: str, *, generation: str, at: int) -> tuple[str, ...]:
    """Put a sound catalogue in the place of a damaged or missing one, and say what was done.

    The caller holds the store's lock alone; whoever has the catalogue open goes on with the new one at the
    next access. The damaged file and its log are set aside under ``damaged/``, none is deleted. Checkpoints
    that come from the backup only are marked as recovered; those newer than it have to be adopted from the
    engine. A file of which only rows were altered is left in place: those are adopted and mended one by one.
    May be killed at any moment and repeated. ``at`` is in nanoseconds.
    """
    path = os.path.abspath(path)
    if _stands(path):
        return ()
    try:
        with _changed_by_nobody(path):
            done = _prepare_replacement(path, generation=generation)
            done += _set_aside(path, at=at)
            os.rename(path + RESCUE, path)
            sync_directory(os.path.dirname(path))
    except (sqlite3.Error, OSError) as error:
        raise translate(error, path) from error
    return tuple(done)


@contextmanager
def _changed_by_nobody(path: str) -> Iterator[None]:
    """Have who changes a catalogue wait, to find that it was replaced (`Database.write`).

    Sessions do not ask for the store's lock. One that is so damaged that nobody can open it cannot be held:
    what a program that had it open before still records is lost with all that is newer than the backup.
    """
    with ExitStack() as held:
        try:
            connection = open_uri(path, "mode=rw", wait=SLICE)
            held.callback(connection.close)
            retry_while_busy(lambda: connection.execute("BEGIN IMMEDIATE"), path=path, wait=DEFAULT_WAIT)
        except sqlite3.Error as error:
            if is_busy(error):
                raise
        yield


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
    # As long as the damaged one is in its place, somebody who has it open may have gone on with it.
    if not os.path.exists(path) and os.path.exists(path + RESCUE) and is_sound(path + RESCUE):
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
    yielded = f"{count(len(found.checkpoints), 'checkpoint')} and {count(len(found.operations), 'operation')}"
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
    # Checkpoints newer than the backup may follow: only a row that was found says where a workspace stands.
    for (key,) in connection.execute("SELECT key FROM workspace WHERE at IS NOT NULL").fetchall():
        connection.execute("UPDATE workspace SET at = NULL WHERE key = ?", (key,))
        reseal(connection, "workspace", key)
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
    effect = EFFECT.decode(forms.unpack_record(payload))
    at = bisect_right(moved, effect.after, key=lambda pair: pair[0])
    was, now = moved[at - 1] if at else (0, 0)
    if was == now:
        return row
    return (*others, EFFECT.encode(effect.replace(after=now)), 0)


def _name_workspaces(connection: sqlite3.Connection) -> None:
    """Add the workspaces that checkpoints belong to and whose own rows are lost."""
    orphans = connection.execute(
        "SELECT workspace_key, manifest, max(sequence) FROM checkpoint"
        " WHERE workspace_key NOT IN (SELECT key FROM workspace) GROUP BY workspace_key"
    ).fetchall()
    for key, text, _ in orphans:
        manifest = decode(forms.unpack_manifest(text))
        # The machine is not in the manifest; a workspace of no known machine can still be attached.
        row = (key, to_bytes(manifest.workspace), "", manifest.created_at)
        connection.execute("INSERT INTO workspace (key, path, machine, created_at) VALUES (?, ?, ?, ?)", row)
        reseal(connection, "workspace", key)
    for table in _WORK:
        connection.execute(f"DELETE FROM {table} WHERE workspace_key NOT IN (SELECT key FROM workspace)")  # noqa: S608 - names of ours


def _set_aside(path: str, *, at: int) -> list[str]:
    """Move a catalogue and its log out of the way: a log that stayed would be applied to the new file.

    The catalogue goes first: if that is all that happens, nobody takes it for whole without its log.
    """
    present = [path + suffix for suffix in ("", *_SIDECARS) if os.path.exists(path + suffix)]
    if not present:
        return []
    stamp = iso(at).replace(":", "").replace("-", "")
    folder = os.path.join(os.path.dirname(path), DAMAGED, f"catalogue-{stamp}")
    make_directories(os.fsencode(folder))
    for name in present:
        os.rename(name, os.path.join(folder, os.path.basename(name)))
    sync_directory(folder)
    sync_directory(os.path.dirname(folder))
    sync_directory(os.path.dirname(path))
    return [f"damaged catalogue set aside in {printable(folder)}"]


# --- The number of a catalogue's version: told from a damaged one by all that the catalogue holds ---

# Since this version there are the tables of today, and from here on an older number is no damage to see:
# whoever opens it brings it up.
_SAME_TABLES = 3
# The last version whose workspaces did not say where they stand.
_WITHOUT_AT = 5
_NAMED = "SELECT type, name, tbl_name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"


def mend_number(path: str) -> tuple[str, ...]:
    """Give a catalogue its version's number again if that alone is damaged, and say what was done.

    The caller holds the store's lock alone. Nothing is written unless what the catalogue holds, and
    what lies beside it, leave no doubt: one that a newer lastgood has written stays as it is.
    """
    path = os.path.abspath(path)
    try:
        numbers = _doubtless(path)
    except (*BROKEN, OSError):  # more than the number is damaged, as whoever opens it says
        numbers = None
    if numbers is None:
        return ()
    found, right = numbers
    try:
        _write(path, found, right=right)
    except sqlite3.Error as error:
        raise translate(error, path) from error
    return (f"the catalogue's version was set from {found} to {right}: its number was damaged",)


def _doubtless(path: str) -> tuple[int, int] | None:
    """Return the number that a catalogue bears by damage alone and the right one; None if not certain."""
    connection = open_uri(path, "mode=ro", wait=DEFAULT_WAIT)
    try:
        prepare(connection)
        found = version(connection)
        if application(connection) != APPLICATION_ID or _SAME_TABLES <= found <= CURRENT.version:
            return None
        newest = _newest_of(_shape(connection))
        if newest is None:
            return None
        right = second_version(connection)
        if found < _SAME_TABLES:
            # Tables and number change in one transaction: these tables never had a lower number.
            certain = right is None or right <= newest
        else:
            certain = _is_ours(connection, path, right=right or _backed_up(path), newest=newest)
        return (found, newest) if certain else None
    finally:
        connection.close()


def _is_ours(connection: sqlite3.Connection, path: str, *, right: int, newest: int) -> bool:
    """Tell whether nobody newer can have brought a catalogue of a version up, nor written any of its rows."""
    return (
        _SAME_TABLES <= right <= newest
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


def _newest_of(shape: Shape) -> int | None:
    """Return the newest version that has the tables found, None if there is none."""
    left = of_new(_shape)
    for number in sorted(INDEXES, reverse=True):
        if shape == left:
            return number
        left = {row: names for row, names in left.items() if row[1] not in INDEXES[number]}
    if shape == left:
        return min(INDEXES) - 1
    place = ("table", "workspace", "workspace")
    return _WITHOUT_AT if shape == {**left, place: left[place] - {"at"}} else None


def _shape(connection: sqlite3.Connection) -> Shape:
    """Return the tables with the names of their columns, and whatever else there is."""
    named = [tuple(map(str, row)) for row in connection.execute(_NAMED)]
    return {
        row: frozenset(str(column[1]) for column in connection.execute(f'PRAGMA table_info("{row[1]}")'))
        for row in named
        if '"' not in row[1]
    }


def _write(path: str, found: int, *, right: int) -> None:
    connection = open_uri(path, "mode=rw", wait=DEFAULT_WAIT)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        if version(connection) == found:
            connection.execute(f"PRAGMA user_version = {right}")
            write_second_version(connection, right)
        connection.execute("COMMIT")
    finally:
        connection.close()
