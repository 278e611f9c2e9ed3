"""Reading the database of opencode, while it goes on writing: never locked, never changed.

``DATA/opencode/opencode.db`` is SQLite with a log. A conversation in it is named by a path as if it were a
folder, ``DATA/opencode/opencode.db/ses_ID``, and read as the lines of `lastgood.conversation.opencode`.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_right
from zlib import crc32

from lastgood.catalogue.sqlite import sqlite3
from lastgood.conversation import opencode
from lastgood.conversation.reader import parsed
from lastgood.errors import Invalid, NotFound
from lastgood.model.checkpoint import FileExtent
from lastgood.paths import printable, to_text
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    # What a row says of a message; its bytes where that is no JSON object.
    _Info = dict[str, object] | bytes

_HINT = "name a conversation that opencode has: opencode session list"
_HELD = "save again when opencode has finished what it is at"
_DAMAGED = "the database is damaged; see what opencode itself can still read of it: opencode session list"
# Seconds: longer than SQLite is at its log, shorter than anybody minds.
_PATIENCE = 0.25
_SESSION = "SELECT id, slug, project_id, directory, version, time_created, revert FROM session WHERE id = ?"
_MESSAGES = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
# The length of a blob, as that of a text is counted in characters.
_PARTS = (
    "SELECT rowid, id, message_id, time_updated, length(CAST(data AS BLOB)) FROM part WHERE session_id = ?"
    " ORDER BY id"
)
_PART = "SELECT CAST(data AS BLOB) FROM part WHERE rowid = ?"
_WRITTEN = (
    "SELECT id, directory FROM session WHERE parent_id IS NULL AND time_updated >= ? ORDER BY time_updated"
)


def written_since(database: str, *, folder: str, since: int) -> list[str]:
    """Return the sessions of a folder that were written to since a moment (ns), the latest of them last.

    Those of sub-agents are not among them. Nothing is found where the database cannot be read.
    """
    try:
        path = os.fsencode(database)
        connection = _connected(path, alone=_unlogged(path) is not None)
        try:
            rows = connection.execute(_WRITTEN, (since // 1_000_000,)).fetchall()
        finally:
            connection.close()
    except (OSError, sqlite3.Error):
        return []
    return [str(name) for name, where in rows if os.path.realpath(str(where)) == folder]


class _Part(Value):
    number: int
    id: str
    updated: int
    size: int


class OpenConversation:
    """One session, read as it was when it was opened.

    Raises `NotFound` if there is none, `Invalid` for what cannot be read, `OSError` as the disk does.
    """

    __slots__ = (
        "_connection",
        "_database",
        "_evidence",
        "_lines",
        "_path",
        "_place",
        "_read_last",
        "_shown",
        "_starts",
        "_unlogged",
    )

    def __init__(self, path: bytes) -> None:
        self._path = path
        self._shown = printable(to_text(path))
        self._database, _, name = path.rpartition(b"/")
        # Of each line its bytes, or how it begins and the row of the part that it goes on with.
        self._lines: list[tuple[bytes, int | None]] = []
        self._starts = [0]
        self._read_last = (-1, b"")
        self._evidence = 0
        self._connection: sqlite3.Connection | None = None
        try:
            self._place = self._taken(name.decode("ascii"))
        except sqlite3.Error as error:
            self.close()
            raise self._unreadable(error) from error
        except BaseException:
            self.close()
            raise

    def _taken(self, name: str) -> FileExtent:
        found = os.stat(self._database)
        if not stat.S_ISREG(found.st_mode):
            raise Invalid(f"{printable(to_text(self._database))} is no database", hint=_HINT)
        self._unlogged = _unlogged(self._database)
        self._connection = _connected(self._database, alone=self._unlogged is not None)
        self._connection.execute("BEGIN")  # all that follows sees one moment
        self._take(name)
        # The database itself is older than its log, and written to by every conversation in it.
        return FileExtent(
            device=found.st_dev, inode=found.st_ino, size=self._starts[-1], modified_ns=self._evidence
        )

    def place(self) -> FileExtent:
        """Return which database it is and how long the lines are; for a time stands a sum of its times."""
        return self._place

    def read(self, offset: int, size: int) -> bytes:
        """Return that many bytes from there; fewer only at the end. `Invalid` if they cannot be read."""
        pieces = []
        place = bisect_right(self._starts, offset) - 1
        while size > 0 and place < len(self._lines):
            begin = offset - self._starts[place]
            piece = self._whole(place)[begin : begin + size]
            pieces.append(piece)
            offset += len(piece)
            size -= len(piece)
            place += 1
        return b"".join(pieces)

    def close(self) -> None:
        """Let go of the database; harmless when repeated."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _take(self, name: str) -> None:
        """Note the lines of a session, without keeping what is long."""
        rows = self._rows(_SESSION, name)
        if not rows:
            raise NotFound(f"there is no transcript {self._shown}", hint=_HINT)
        found, slug, project, directory, version, created, revert = rows[0]
        session = {"id": found, "slug": slug, "projectID": project, "directory": directory}
        self._add(opencode.head_line({**session, "version": version, "time": {"created": created}}))
        parts: dict[str, list[_Part]] = {}
        for number, part, message, updated, size in self._rows(_PARTS, name):
            parts.setdefault(message, []).append(_Part(number=number, id=part, updated=updated, size=size))
        messages = [(message, _record(data)) for message, data in self._rows(_MESSAGES, name)]
        if messages and all(isinstance(info, bytes) for _, info in messages):
            raise self._unknown("a row that is no JSON object")
        cut = None if revert is None else self._parsed(revert)
        said = _until(cut, messages, parts)
        # The next answer begins only when the one before is over, whatever became of it.
        answers = [
            place
            for place, (_, info) in enumerate(said)
            if not isinstance(info, bytes) and opencode.is_assistant(info)
        ]
        for place, (message, info) in enumerate(said):
            if isinstance(info, bytes):
                over = place + 1 < len(said)
            else:
                over = opencode.has_ended(info) or place < answers[-1]
            if not self._take_message(message, info, parts.get(message, ()), over=over):
                return

    def _take_message(self, message: str, info: _Info, parts: Sequence[_Part], *, over: bool) -> bool:
        """Note the lines of a message; False if what comes next may still change.

        Of a message that is no JSON object nobody knows whose it is; what it says lies in its parts.
        """
        role = None if isinstance(info, bytes) else str(info.get("role"))
        self._add(
            opencode.broken_line(message, info)
            if isinstance(info, bytes)
            else opencode.opening_line(message, info)
        )
        for part in parts:
            if not over and not self._is_settled(part):
                return False
            begin = opencode.part_line(part.id, message=message, role=role)
            self._lines.append((begin, part.number))
            self._starts.append(self._starts[-1] + len(begin) + part.size + len(opencode.PART_END))
            self._evidence = crc32(b"%d" % part.updated, self._evidence)
        if over and not isinstance(info, bytes) and opencode.is_assistant(info):
            self._add(opencode.ending_line(message, info))
        return over

    def _is_settled(self, part: _Part) -> bool:
        """Tell whether a part of a message that goes on will stay; what is broken is not written to."""
        record = _record(self._content(part.number))
        return isinstance(record, bytes) or opencode.is_settled(record)

    def _add(self, line: bytes) -> None:
        self._lines.append((line, None))
        self._starts.append(self._starts[-1] + len(line))
        self._evidence = crc32(line, self._evidence)

    def _whole(self, place: int) -> bytes:
        """Return a line; the last one is remembered, as a long one is read in parts."""
        begin, number = self._lines[place]
        if number is None:
            return begin
        if self._read_last[0] != place:
            try:
                self._read_last = place, begin + self._content(number) + opencode.PART_END
            except sqlite3.Error as error:
                raise self._unreadable(error) from error
        return self._read_last[1]

    def _content(self, number: int) -> bytes:
        """Return the JSON of a part on one line: an end of a line in it can only stand between values."""
        ((content,),) = self._rows(_PART, number)
        return bytes(content).replace(b"\n", b" ")

    def _rows(self, query: str, value: str | int) -> list[tuple[Any, ...]]:
        if self._connection is None:
            raise sqlite3.ProgrammingError("it is closed")
        rows = self._connection.execute(query, (value,)).fetchall()
        if self._unlogged is not None and _unlogged(self._database) != self._unlogged:
            raise Invalid(f"the transcript {self._shown} was changed while it was read", hint="save again")
        return rows

    def _parsed(self, data: object) -> dict[str, object]:
        record = _record(data)
        if isinstance(record, bytes):
            raise self._unknown("a row that is no JSON object")
        return record

    def _unreadable(self, error: sqlite3.Error) -> Invalid:
        """Return the error for a conversation that cannot be read."""
        if str(error).startswith("no such "):
            return self._unknown(str(error))
        hint = _HELD if "locked" in str(error) else _DAMAGED
        return Invalid(f"the transcript {self._shown} cannot be read: {error}", hint=hint)

    def _unknown(self, reason: str) -> Invalid:
        return Invalid(
            f"the transcript {self._shown} has a form that is not known: {reason}",
            hint="this release knows the database of opencode 1.18",
        )


def _record(data: object) -> _Info:
    """Return the JSON object that a row is, or its bytes if it is none."""
    content = data if isinstance(data, bytes) else str(data).encode("utf-8", "replace")
    record = parsed(content)
    return content if record is None else record


def _until(
    revert: Mapping[str, object] | None,
    messages: list[tuple[str, _Info]],
    parts: dict[str, list[_Part]],
) -> list[tuple[str, _Info]]:
    """Return the messages without what was taken back in opencode, which goes with the next prompt."""
    if revert is None:
        return messages
    last, part = str(revert.get("messageID")), revert.get("partID")
    if part is not None:
        parts[last] = [one for one in parts.get(last, ()) if one.id < str(part)]
    return [one for one in messages if one[0] < last or (one[0] == last and part is not None)]


def _connected(database: bytes, *, alone: bool) -> sqlite3.Connection:
    """Open a database to read it. Without a log it is ``alone``: nobody has it open.

    So no file is made beside it, and who reads on looks whether it is still the same.
    """
    from urllib.parse import quote

    mode = "immutable=1" if alone else "mode=ro"
    connection = sqlite3.connect(
        f"file:{quote(database)}?{mode}", uri=True, isolation_level=None, timeout=_PATIENCE
    )
    # What a stranger's tables would have SQLite call is not called.
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _unlogged(database: bytes) -> tuple[int, int, int] | None:
    """Return what tells that a database is the same; None while there is a log of its changes."""
    if os.path.lexists(database + b"-wal") or os.path.lexists(database + b"-journal"):
        return None
    found = os.stat(database)
    return found.st_ino, found.st_size, found.st_mtime_ns
