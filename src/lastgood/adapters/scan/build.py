"""Puts the result together from the bottom up: tree objects, and the records for the next scan."""

from __future__ import annotations

from lastgood.adapters.scan.cache import DetailsLost, pack
from lastgood.adapters.scan.form import (
    BARE,
    BELOW,
    BUDGET,
    BURIED,
    BYTES,
    CAPTURED,
    DOUBTFUL,
    FILES,
    FLAGS,
    FORMAT_DIRECTORY,
    FORMAT_FILE,
    FORMAT_MASK,
    GAPS,
    HIDDEN,
    IGNORED,
    LEFT,
    MODE,
    MODES,
    NAME,
    NAMES,
    OID,
    PASSING,
    PERMISSIONS,
    PRIVATE,
    RACY,
    SEEN,
    SIZE,
    STATE,
    TOO_LARGE,
    TREE,
    VANISHED,
    kind_of,
)
from lastgood.model.tree import DIRECTORY, LINK, Entry
from lastgood.names import join

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastgood.adapters.scan.cache import Details
    from lastgood.adapters.scan.examine import Node
    from lastgood.adapters.scan.form import Record, Row
    from lastgood.adapters.scan.walk import Walk
    from lastgood.ports.engine import ObjectWriter


# So many of the directories made anew are remembered as they are listed: whoever compares asks for those.
_LISTINGS = 32


class Builder:
    """Makes the records of a walk's directories. ``changed`` tells that one of them is not the old one.

    ``listings`` are the entries captured in some of those that were made anew.
    """

    def __init__(
        self, walk: Walk, *, before: Mapping[bytes, Record], details: Details, writer: ObjectWriter
    ) -> None:
        self._walk = walk
        self._before = before
        self._details = details
        self._writer = writer
        self.records: dict[bytes, Record] = walk.kept
        self.listings: dict[bytes, Sequence[Entry]] = {}
        self.changed = False

    def run(self) -> dict[bytes, Record]:
        """Return the record of every directory visited."""
        walk = self._walk
        again = {path.rpartition(b"/")[0] for path in walk.barred if path}
        if not walk.nodes and not again:
            self.changed = len(self.records) != len(self._before)
            return self.records
        self.changed = True
        for path in reversed(walk.order):
            node = walk.nodes.get(path)
            if node is None and path not in again:
                continue
            record = self._from_rows(path, self._rows_of(path)) if node is None else self._from_node(node)
            self.records[path] = record
            if path and not _same_result(record, self._before.get(path)):
                again.add(path.rpartition(b"/")[0])
        return self.records

    def _rows_of(self, path: bytes) -> list[Row]:
        rows = self._details.rows(self.records[path])
        if rows is None:
            raise DetailsLost
        return rows

    def _from_rows(self, path: bytes, rows: list[Row]) -> Record:
        """Make a record anew for a directory that is as it was, though something below it is not."""
        old = self.records[path]
        return self._record(path, rows, (old[0], old[1], old[2], old[FLAGS] & ~(DOUBTFUL | BARE)), old)

    def _from_node(self, node: Node) -> Record:
        head = (node.signature, node.above, node.token, node.flags)
        record = self._record(node.path, node.rows, head, None, node=node)
        node.rows = []
        return record

    def _record(
        self,
        path: bytes,
        rows: list[Row],
        head: tuple[bytes, bytes, bytes, int],
        old: Record | None,
        *,
        node: Node | None = None,
    ) -> Record:
        tally = Tally()
        settled = [
            tally.take(self._settled(path, row), self.records.get(join(path, row[NAME]))) for row in rows
        ]
        kept = [row for row in settled if row[STATE] != VANISHED]
        flags = head[3] | (DOUBTFUL if tally.passing else 0)
        if head[1] == BURIED and not tally.entries and not tally.gaps:
            flags |= BARE
        elif len(self.listings) < _LISTINGS:
            self.listings[path] = tally.entries
        identity = self._writer.directory(tally.entries)
        start, length = self._details.add(pack(kept))
        if node is not None:
            private, below = tuple(node.private), tuple(sorted(node.below))
            names, seen = node.names, node.seen
        else:
            assert old is not None
            private, below = old[PRIVATE], old[BELOW]
            names, seen = old[NAMES], old[SEEN]
        captured = {row[NAME] for row in kept if row[STATE] <= RACY} if private else frozenset()
        return (
            *head[:3],
            flags,
            identity.tree,
            identity.modes,
            tally.files,
            tally.bytes,
            tally.ignored,
            tuple(tally.gaps),
            tuple(name for name in private if name in captured),
            below,
            names,
            seen,
            start,
            length,
        )

    def _settled(self, path: bytes, row: Row) -> Row:
        """Return a row with what has become of it, if it is a directory that was to be entered."""
        if row[MODE] & FORMAT_MASK != FORMAT_DIRECTORY:
            return row
        if row[STATE] not in {CAPTURED, IGNORED, BUDGET}:
            return row
        below = join(path, row[NAME])
        record = self.records.get(below)
        if record is not None:
            bare = row[SIZE] == 1 and record[FLAGS] & BARE
            return _with_state(row, IGNORED if bare else CAPTURED)
        barred = self._walk.barred.get(below)
        if barred is None:
            return row
        return _with_state(row, barred)


class Tally:
    """Adds up the rows of one directory."""

    __slots__ = ("bytes", "entries", "files", "gaps", "ignored", "passing")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.gaps: list[tuple[bytes, int, int]] = []
        self.files = 0
        self.bytes = 0
        self.ignored = 0
        self.passing = False

    def take(self, row: Row, below: Record | None) -> Row:
        """Count one row; ``below`` is the record of the directory that it names."""
        state = row[STATE]
        if state in PASSING:
            self.passing = True
        if state <= RACY:
            self._capture(row, below)
        elif state == IGNORED:
            self.ignored += 1
        elif state not in {HIDDEN, VANISHED}:
            self.gaps.append((row[NAME], state, row[SIZE] if state == TOO_LARGE else -1))
        return row

    def _capture(self, row: Row, below: Record | None) -> None:
        entry = entry_of(row, below)
        self.entries.append(entry)
        if entry.kind == DIRECTORY:
            assert below is not None
            self.files += below[FILES]
            self.bytes += below[BYTES]
            self.ignored += below[LEFT]
            return
        self.files += 1
        if row[MODE] & FORMAT_MASK == FORMAT_FILE:
            self.bytes += row[SIZE]


def entry_of(row: Row, below: Record | None) -> Entry:
    """Return the entry that a captured row stands for."""
    kind = kind_of(row[MODE])
    if kind == DIRECTORY:
        assert below is not None
        return Entry(
            name=row[NAME], kind=kind, mode=row[MODE] & PERMISSIONS, oid=below[TREE], modes=below[MODES]
        )
    mode = 0 if kind == LINK else row[MODE] & PERMISSIONS
    return Entry(name=row[NAME], kind=kind, mode=mode, oid=row[OID])


def _with_state(row: Row, state: int) -> Row:
    return (row[0], row[1], row[2], row[3], row[4], row[5], row[6], state)


def _same_result(record: Record, old: Record | None) -> bool:
    """Tell whether the directory above would count and store the same for both."""
    return (
        old is not None
        and record[TREE] == old[TREE]
        and record[MODES:GAPS] == old[MODES:GAPS]
        and (record[FLAGS] ^ old[FLAGS]) & BARE == 0
    )
