"""Rows that a prune takes away, and what counts against the limit."""

from __future__ import annotations

from lastgood.adapters.sqlite.seal import broken_seal, is_broken, reseal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable

    from lastgood.model.checkpoint import Checkpoint

LOOSE = (
    "SELECT count(*) FROM checkpoint WHERE workspace_key = ? AND deleted_at IS NULL"
    " AND pinned = 0 AND name IS NULL AND kind <> 'feature'"
)
_MARK = (
    "UPDATE checkpoint SET deleted_at = ?"
    " WHERE id = ? AND deleted_at IS NULL AND name IS ? AND pinned = ? AND good IS ?"
)
_OLD_OPERATIONS = (
    f"FROM operation WHERE at < ? AND NOT {broken_seal('operation')}"  # noqa: S608 - names of columns
    " AND number <= (SELECT number FROM operation AS newer"
    " WHERE newer.workspace_key = operation.workspace_key ORDER BY number DESC LIMIT 1 OFFSET ?)"
)
_DROP = f"DELETE FROM checkpoint WHERE id = ? AND deleted_at IS NOT NULL AND NOT {broken_seal('checkpoint')}"  # noqa: S608 - names of columns
# Pages that dropped rows leave free are used again; a file of which many are free is written anew: those who
# save wait meanwhile, so not if much of it stays. In bytes.
_LEAST_SPARE = 1 << 18
_MOST_KEPT = 1 << 26
_A_PART = 4
# What a row takes beside its long columns, in bytes.
_ROW = "length(manifest) + length(gaps) + 500"
_FORGET = (
    f"SELECT id FROM checkpoint WHERE deleted_at < ? AND NOT {broken_seal('checkpoint')} ORDER BY sequence"  # noqa: S608 - names of columns
)


def delete_unchanged(
    connection: sqlite3.Connection, checkpoints: Iterable[Checkpoint], *, at: int
) -> list[str]:
    """Mark checkpoints as deleted, but those that somebody named, pinned or judged meanwhile."""
    marked = []
    for one in checkpoints:
        sound = not is_broken(connection, "checkpoint", one.id)
        changed = connection.execute(_MARK, (at, one.id, one.name, one.pinned, one.good))
        if not changed.rowcount:
            continue
        marked.append(one.id)
        if sound:
            reseal(connection, "checkpoint", one.id)
    return marked


def forget(connection: sqlite3.Connection, before: int) -> list[str]:
    """Drop the rows of what was deleted before a time."""
    return drop(connection, [str(row[0]) for row in connection.execute(_FORGET, (before,)).fetchall()])


def drop(connection: sqlite3.Connection, checkpoints: Iterable[str]) -> list[str]:
    """Drop rows that are marked as deleted and were not altered from outside; remember their commits."""
    dropped = {}
    for id in checkpoints:
        commit = connection.execute("SELECT commit_id FROM checkpoint WHERE id = ?", (id,)).fetchone()
        if connection.execute(_DROP, (id,)).rowcount:
            dropped[id] = str(commit[0])
    if dropped:
        going = sorted({*freed(connection), *dropped.values()})
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('freed', ?)", (" ".join(going),))
    return list(dropped)


def freed(connection: sqlite3.Connection) -> list[str]:
    """Return the commits of dropped rows until their bytes are said to be freed."""
    row = connection.execute("SELECT value FROM meta WHERE name = 'freed'").fetchone()
    return [] if row is None else str(row[0]).split()


def clear_freed(connection: sqlite3.Connection) -> None:
    """Forget the commits of dropped rows."""
    connection.execute("DELETE FROM meta WHERE name = 'freed'")


def swept(connection: sqlite3.Connection) -> int | None:
    """Return when nothing was left to be freed; None where that is not known."""
    row = connection.execute("SELECT value FROM meta WHERE name = 'swept'").fetchone()
    return row[0] if row is not None and isinstance(row[0], int) else None


def set_swept(connection: sqlite3.Connection, at: int) -> None:
    """Remember when nothing was left to be freed."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('swept', ?)", (at,))


def old_operations(connection: sqlite3.Connection, *, before: int, keep: int) -> int:
    """Return how many operations are older than a time and not among the newest of their workspace."""
    return int(connection.execute(f"SELECT count(*) {_OLD_OPERATIONS}", (before, keep)).fetchone()[0])


def drop_operations(connection: sqlite3.Connection, *, before: int, keep: int) -> int:
    """Drop those operations, and return how many that were."""
    return connection.execute(f"DELETE {_OLD_OPERATIONS}", (before, keep)).rowcount


def spare_bytes(connection: sqlite3.Connection, *, without: Collection[str] = ()) -> int:
    """Return about what `shrink` would give back if the rows of some checkpoints were dropped, in bytes."""
    page, pages, free = (_number(connection, name) for name in ("page_size", "page_count", "freelist_count"))
    spare = free * page
    for id in without:
        row = connection.execute(f"SELECT {_ROW} FROM checkpoint WHERE id = ?", (id,)).fetchone()  # noqa: S608 - names of columns
        spare += 0 if row is None else row[0]
    size = pages * page
    worthwhile = spare >= max(_LEAST_SPARE, size // _A_PART) and size - spare <= _MOST_KEPT
    return min(spare, size) if worthwhile else 0


def shrink(connection: sqlite3.Connection) -> int:
    """Write the file anew without its free pages, where these are many; return the bytes given back."""
    if not spare_bytes(connection):
        return 0
    before = _number(connection, "page_count")
    connection.execute("VACUUM")
    return (before - _number(connection, "page_count")) * _number(connection, "page_size")


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])
