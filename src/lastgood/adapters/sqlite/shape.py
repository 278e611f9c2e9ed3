"""Whether the tables are those of their version: a flipped bit in a name of theirs damages no page."""

from __future__ import annotations

from lastgood.adapters.sqlite.library import sqlite3
from lastgood.adapters.sqlite.schema import CURRENT, create, version

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Table: what there is to it, in no order; columns stand where the version that added them put them.
    Shape = dict[str, set[tuple[object, ...]]]

# Types are left out: a release wrote another one for manifests.
_COLUMNS = 'SELECT name, "notnull", dflt_value, pk FROM pragma_table_info(?)'
_REFERENCES = 'SELECT "table", "from", "to" FROM pragma_foreign_key_list(?)'
_INDEXES = 'SELECT name, "unique", origin, partial FROM pragma_index_list(?)'
_INDEXED = "SELECT name FROM pragma_index_info(?) ORDER BY seqno"

_wanted: Shape = {}


def shape_fault(connection: sqlite3.Connection) -> str | None:
    """Return which table of a catalogue of the present version is not as it was made, None if all are."""
    if version(connection) != CURRENT.version:
        return None
    if not _wanted:
        _wanted.update(_made())
    wanted, found = _wanted, _shape(connection)
    wrong = sorted(table for table in wanted.keys() | found.keys() if wanted.get(table) != found.get(table))
    return f"the table {wrong[0]} is not as it was made" if wrong else None


def _made() -> Shape:
    pattern = sqlite3.connect(":memory:", isolation_level=None)
    try:
        create(pattern, CURRENT, generation="")
        return _shape(pattern)
    finally:
        pattern.close()


def _shape(connection: sqlite3.Connection) -> Shape:
    named = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite#_%' ESCAPE '#'"
    return {str(table): _parts(connection, str(table)) for (table,) in connection.execute(named).fetchall()}


def _parts(connection: sqlite3.Connection, table: str) -> set[tuple[object, ...]]:
    parts = {("column", *row) for row in connection.execute(_COLUMNS, (table,))}
    parts |= {("reference", *row) for row in connection.execute(_REFERENCES, (table,))}
    for index in connection.execute(_INDEXES, (table,)).fetchall():
        over = [name for (name,) in connection.execute(_INDEXED, (index[0],))]
        parts.add(("index", *index, *over))
    return parts
