"""Rows that a prune takes away, and what counts against the limit."""

from __future__ import annotations

from lastgood.adapters.sqlite.seal import broken_seal, is_broken, reseal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from lastgood.model.checkpoint import Checkpoint

LOOSE = (
    "SELECT count(*) FROM checkpoint WHERE workspace_key = ? AND deleted_at IS NULL"
    " AND pinned = 0 AND name IS NULL AND kind <> 'feature'"
)
_MARK = (
    "UPDATE checkpoint SET deleted_at = ?"
    " WHERE id = ? AND deleted_at IS NULL AND name IS ? AND pinned = ? AND good IS ?"
)
_DROP = f"DELETE FROM checkpoint WHERE id = ? AND deleted_at IS NOT NULL AND NOT {broken_seal('checkpoint')}"  # noqa: S608 - names of columns


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


def drop(connection: sqlite3.Connection, checkpoints: Iterable[str]) -> list[str]:
    """Drop rows that are marked as deleted and were not altered from outside."""
    return [id for id in checkpoints if connection.execute(_DROP, (id,)).rowcount]
