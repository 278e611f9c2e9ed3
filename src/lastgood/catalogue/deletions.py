"""When checkpoints were deleted, by both clocks, and what was seen of the time since: beside the rows.

They stand in the table of single facts, which every release reads past: one that knows nothing of them
goes by the clock alone.
"""

from __future__ import annotations

from lastgood.catalogue.database import broken_seal, seal_of
from lastgood.elapsed import TIME_SEEN
from lastgood.errors import LastgoodError
from lastgood.model.operation import Instant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.catalogue.sqlite import sqlite3
    from lastgood.elapsed import TimeSeen

_PREFIX = "deleted "
_PUT = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
_NOTED = "SELECT name, value FROM meta WHERE name >= 'deleted ' AND name < 'deleted!'"
_TIME_SEEN = "time seen"
_DELETED = (
    f"SELECT id, deleted_at FROM checkpoint WHERE deleted_at IS NOT NULL AND NOT {broken_seal('checkpoint')}"  # noqa: S608 - names of columns
    " ORDER BY sequence"
)
_STILL = "SELECT DISTINCT deleted_at FROM checkpoint WHERE deleted_at IS NOT NULL"


def note(connection: sqlite3.Connection, at: Instant) -> None:
    """Remember by which boot and uptime something is deleted at a time."""
    if at.boot is not None:
        name = f"{_PREFIX}{at.at}"
        connection.execute(_PUT, (name, _sealed(name, f"{at.uptime} {at.boot}")))


def deletions(connection: sqlite3.Connection) -> list[tuple[str, Instant]]:
    """Return the deleted checkpoints whose rows were not altered from outside, with when that was."""
    noted = {str(name): str(value) for name, value in connection.execute(_NOTED)}
    return [
        (str(id), _instant(int(at), noted.get(f"{_PREFIX}{at}"))) for id, at in connection.execute(_DELETED)
    ]


def tidy(connection: sqlite3.Connection) -> None:
    """Drop what is noted of deletions that are over."""
    still = {f"{_PREFIX}{at}" for (at,) in connection.execute(_STILL)}
    over = [(name,) for name, _ in connection.execute(_NOTED).fetchall() if name not in still]
    connection.executemany("DELETE FROM meta WHERE name = ?", over)


def time_seen(connection: sqlite3.Connection) -> TimeSeen | None:
    """Return what was seen of the time; None where nothing was, or it is damaged."""
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (_TIME_SEEN,)).fetchone()
    words = _unsealed(_TIME_SEEN, None if row is None else str(row[0]))
    try:
        return None if words is None else TIME_SEEN.decode(words)
    except LastgoodError:
        return None


def set_time_seen(connection: sqlite3.Connection, seen: TimeSeen) -> None:
    """Remember what was seen of the time."""
    connection.execute(_PUT, (_TIME_SEEN, _sealed(_TIME_SEEN, TIME_SEEN.encode(seen))))


def _instant(at: int, noted: str | None) -> Instant:
    uptime, _, boot = (_unsealed(f"{_PREFIX}{at}", noted) or "").partition(" ")
    return Instant(at=at, boot=boot, uptime=int(uptime)) if boot else Instant(at=at)


def _sealed(name: str, words: str) -> str:
    return f"{seal_of(name.encode(), words.encode())} {words}"


def _unsealed(name: str, value: str | None) -> str | None:
    """Return what was written by a name, None if that was altered from outside."""
    words = "" if value is None else value.partition(" ")[2]
    return words if value is not None and value == _sealed(name, words) else None
