"""Reading the database of opencode, while it goes on writing: never locked, never changed.

``DATA/opencode/opencode.db`` is SQLite with a log. A conversation in it is named by a path as if it were a
folder, ``DATA/opencode/opencode.db/ses_ID``, and read as the lines of `lastgood.conversation.opencode`.
"""

from __future__ import annotations

import os
import stat
import time
from bisect import bisect_right
from functools import partial
from zlib import crc32

from lastgood.catalogue.sqlite import sqlite3
from lastgood.conversation import opencode
from lastgood.conversation.reader import REST, agent_name, parsed
from lastgood.errors import Invalid, NotFound
from lastgood.model.checkpoint import FileExtent
from lastgood.paths import printable, to_text
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    # What a row says of a message; its bytes where that is no JSON object.
    _Info = dict[str, object] | bytes

_HINT = "name a conversation that opencode has: opencode session list"
_HELD = "save again when opencode has finished what it is at"
_DAMAGED = "the database is damaged; see what opencode itself can still read of it: opencode session list"
# Seconds: longer than SQLite is at its log, shorter than anybody minds.
_PATIENCE = 0.25
# Seconds: what was written less long ago may be written again under the same time.
_YOUNG = 2
_SESSION = (
    "SELECT id, slug, project_id, directory, version, time_created, revert, title, parent_id, permission"
    " FROM session WHERE id = ?"
)
_AGENTS = (
    "WITH RECURSIVE below (id) AS (SELECT id FROM session WHERE parent_id = ? UNION"
    " SELECT session.id FROM session JOIN below ON session.parent_id = below.id)"
    " SELECT id FROM below ORDER BY id"
)
# What is another one as soon as a session, its messages or their parts are.
_STAMP = (
    "SELECT time_updated, title, parent_id, permission,"
    " (SELECT count(*) || ' ' || sum(time_updated) FROM message WHERE session_id = session.id),"
    " (SELECT count(*) || ' ' || sum(time_updated) FROM part WHERE session_id = session.id),"
    " (SELECT max(time_updated) FROM part WHERE session_id = session.id) FROM session WHERE id = ?"
)
_TODO = "SELECT content, status, priority FROM todo WHERE session_id = ? ORDER BY position"
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


class _Line(Value):
    """A line of a message: its bytes, or how it begins, and the row of the part that it goes on with."""

    text: bytes
    part: _Part | None = None


class _Kept:
    """What is kept beside a conversation."""

    __slots__ = ("_pieces", "name", "stamp")

    def __init__(self, name: str, pieces: Callable[[], Iterator[bytes]], *, stamp: bytes = b"") -> None:
        self.name = name
        self.stamp = stamp
        self._pieces = pieces

    def pieces(self) -> Iterator[bytes]:
        """Yield its bytes."""
        return self._pieces()


class OpenConversation:
    """One session, read as it was when it was opened.

    Raises `NotFound` if there is none, `Invalid` for what cannot be read, `OSError` as the disk does.
    """

    __slots__ = (
        "_connection",
        "_database",
        "_evidence",
        "_lines",
        "_name",
        "_open",
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
        # What comes behind them, and may still change.
        self._open: list[_Line] = []
        self._starts = [0]
        self._read_last = (-1, b"")
        self._evidence = 0
        self._connection: sqlite3.Connection | None = None
        try:
            self._name = name.decode("ascii")
            self._place = self._taken(self._name)
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

    def beside(self, form: str) -> Iterator[_Kept]:  # noqa: ARG002 - as of every transcript
        """Yield what may still change of the session, and the conversations of its sub-agents."""
        try:
            agents = {str(agent): self._stamp(str(agent)) for (agent,) in self._rows(_AGENTS, self._name)}
        except sqlite3.Error as error:
            raise self._unreadable(error) from error
        yield _Kept(REST, partial(self._reading, self._rest))
        for agent, stamp in agents.items():
            name = agent_name(agent)
            if name is not None:
                yield _Kept(name, partial(self._reading, partial(self._of_agent, agent)), stamp=stamp)

    def _reading(self, lines: Callable[[], Iterator[bytes]]) -> Iterator[bytes]:
        """Yield lines that are read only now."""
        try:
            yield from lines()
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    def _rest(self) -> Iterator[bytes]:
        """Yield the lines of what may still change, as it stands."""
        ((*_, title, _, _),) = self._rows(_SESSION, self._name)
        yield opencode.title_line(str(title))
        try:
            todo = self._rows(_TODO, self._name)
        except sqlite3.OperationalError:  # an opencode that keeps it elsewhere
            todo = []
        if todo:
            keys = ("content", "status", "priority")
            yield opencode.todo_line(dict(zip(keys, row, strict=True)) for row in todo)
        yield from map(self._text, self._open)

    def _of_agent(self, name: str) -> Iterator[bytes]:
        """Yield the lines of a sub-agent's session, as it stands."""
        head, said = self._said(name, agent=True)
        yield head
        for message, info, parts, over in said:
            yield from (self._text(line) for line in _lines_of(message, info, parts, over=over))

    def _stamp(self, name: str) -> bytes:
        (row,) = self._rows(_STAMP, name)
        if max(row[0] or 0, row[-1] or 0) > (time.time() - _YOUNG) * 1000:
            return b""
        return repr(row).encode("utf-8", "backslashreplace")

    def _take(self, name: str) -> None:
        """Note the lines of a session, without keeping what is long."""
        head, said = self._said(name)
        self._add(head)
        stays = True
        for message, info, parts, over in said:
            for line in _lines_of(message, info, parts, over=over):
                stays = stays and (over or line.part is None or self._is_settled(line.part))
                if stays:
                    self._note(line)
                else:
                    self._open.append(line)
            stays = stays and over

    def _said(
        self, name: str, *, agent: bool = False
    ) -> tuple[bytes, list[tuple[str, _Info, Sequence[_Part], bool]]]:
        """Return the first line of a session, and its messages: id, row, parts, whether it is over."""
        rows = self._rows(_SESSION, name)
        if not rows:
            raise NotFound(f"there is no transcript {self._shown}", hint=_HINT)
        found, slug, project, directory, version, created, revert, title, parent, permission = rows[0]
        session = {"id": found, "slug": slug, "projectID": project, "directory": directory}
        session |= {"version": version, "time": {"created": created}}
        if agent:
            session |= {"parentID": parent, "title": title}
            session |= {} if permission is None else {"permission": self._list(permission)}
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
        return opencode.head_line(session), [
            (
                message,
                info,
                parts.get(message, ()),
                place + 1 < len(said)
                if isinstance(info, bytes)
                else opencode.has_ended(info) or place < answers[-1],
            )
            for place, (message, info) in enumerate(said)
        ]

    def _is_settled(self, part: _Part) -> bool:
        """Tell whether a part of a message that goes on will stay; what is broken is not written to."""
        record = _record(self._content(part.number))
        return isinstance(record, bytes) or opencode.is_settled(record)

    def _note(self, line: _Line) -> None:
        if line.part is None:
            self._add(line.text)
            return
        self._lines.append((line.text, line.part.number))
        self._starts.append(self._starts[-1] + len(line.text) + line.part.size + len(opencode.PART_END))
        self._evidence = crc32(b"%d" % line.part.updated, self._evidence)

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

    def _text(self, line: _Line) -> bytes:
        if line.part is None:
            return line.text
        return line.text + self._content(line.part.number) + opencode.PART_END

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

    def _list(self, text: object) -> object:
        """Return the JSON list that a column is."""
        return self._parsed('{"list":' + str(text) + "}")["list"]

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


def _lines_of(message: str, info: _Info, parts: Sequence[_Part], *, over: bool) -> Iterator[_Line]:
    """Yield the lines of a message.

    Of one that is no JSON object nobody knows whose it is; what it says lies in its parts.
    """
    if isinstance(info, bytes):
        yield _Line(text=opencode.broken_line(message, info))
        role = None
    else:
        yield _Line(text=opencode.opening_line(message, info))
        role = str(info.get("role"))
    for part in parts:
        yield _Line(text=opencode.part_line(part.id, message=message, role=role), part=part)
    if over and not isinstance(info, bytes) and opencode.is_assistant(info):
        yield _Line(text=opencode.ending_line(message, info))


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
