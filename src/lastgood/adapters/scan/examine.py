"""Looks at one directory whose signature is not the known one: judges its entries and reads new ones."""

from __future__ import annotations

from lastgood.adapters.scan.form import (
    BUDGET,
    BURIED,
    CAPTURED,
    DEPENDENT,
    DOUBTFUL,
    FLAGS,
    FORMAT_FILE,
    FORMAT_MASK,
    HIDDEN,
    IGNORED,
    NESTED,
    OID,
    RACY,
    SIZE,
    STATE,
    TOKEN,
    TOO_LARGE,
    UNREADABLE,
)
from lastgood.adapters.scan.judge import DOT_GIT, IGNORE_FILES
from lastgood.adapters.scan.listing import names_of
from lastgood.names import join
from lastgood.rules.ignore import GITIGNORE, LASTGOODIGNORE
from lastgood.rules.ignore import UNREADABLE as UNREADABLE_TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lastgood.adapters.scan.form import Evidence, Record, Row
    from lastgood.adapters.scan.judge import DirectoryJudge, Judge, Verdict
    from lastgood.adapters.scan.listing import Listing
    from lastgood.adapters.scan.read import FileReader, Reading
    from lastgood.rules.ignore import Text


class Node:
    """A directory that was looked at: what its record is going to be made of.

    ``rows`` are sorted by name. ``below`` are the subdirectories to enter, ``buried`` those of them
    that are ignored and entered all the same.
    """

    __slots__ = (
        "above",
        "below",
        "buried",
        "flags",
        "names",
        "path",
        "private",
        "rows",
        "seen",
        "signature",
        "token",
    )

    def __init__(self, path: bytes, *, above: bytes, listing: Listing) -> None:
        self.path = path
        self.above = above
        self.signature = listing.signature
        self.names = listing.names if listing.seen else b""
        self.seen = listing.seen
        self.token = above
        self.flags = 0
        self.rows: list[Row] = []
        self.below: list[bytes] = []
        self.buried: set[bytes] = set()
        self.private: list[bytes] = []


class Unsettled:
    """An entry that was read so soon after a change that it has to be read again."""

    __slots__ = ("forced", "mark", "node", "place", "stat", "tries")

    def __init__(self, node: Node, place: int, *, reading: Reading, forced: bool) -> None:
        assert reading.stat is not None
        self.node = node
        self.place = place
        self.stat: Evidence = reading.stat
        self.mark = reading.mark
        self.forced = forced
        self.tries = 1


class Examiner:
    """Turns listings into nodes. ``late`` tells whether the time budget is used up."""

    def __init__(
        self,
        judge: Judge,
        *,
        reader: FileReader,
        cap: int,
        late: Callable[[], bool],
        gone: set[bytes],
    ) -> None:
        self._judge = judge
        self._reader = reader
        self._cap = cap
        self._late = late
        self._gone = gone  # object ids in the cache that the engine does not have
        self._fresh = judge.forced.fresh
        self.unsettled: list[Unsettled] = []
        self.texts: dict[bytes, tuple[Text, Text]] = {}
        self.unreadable_rules = False

    def examine(
        self,
        path: bytes,
        listing: Listing,
        *,
        above: bytes,
        record: Record | None,
        old: Mapping[bytes, Row],
        same: bool,
        held_by_old: bool,
    ) -> Node:
        """Return the node of a directory.

        ``old`` are its rows by name as of the last scan; ``same`` says that rules, index and
        previous tree would decide as then, ``held_by_old`` that the previous tree was that scan's.
        """
        node = Node(path, above=above, listing=listing)
        found = sorted(zip(names_of(listing.names), listing.stats, strict=True))
        node.token, same = self._rules(node, dict(found), listing, record=record, old=old, same=same)
        held = {name for name, row in old.items() if row[STATE] <= RACY} if held_by_old else None
        judge = self._judge.directory(path, token=node.token, old=old, same=same, held=held)
        settled = self._settled(record, old) if same and not self._fresh.touches(path) else {}
        for name, stat in found:
            before = settled.get(name)
            if before is not None and before[1:6] == stat:
                node.rows.append(before)
                continue
            row = self._row(node, name, stat, judge=judge, old=old.get(name), descriptor=listing.descriptor)
            if row is not None:
                node.rows.append(row)
        for lost in listing.lost:
            node.rows.append((lost, FORMAT_FILE, 0, 0, 0, 0, b"", UNREADABLE))
        if listing.lost:
            node.rows.sort()
        return node

    def _settled(self, record: Record | None, old: Mapping[bytes, Row]) -> Mapping[bytes, Row]:
        """Return the rows that need no verdict where nothing that decides has changed since.

        Where none is ignored, and none was forced, no captured one is captured for a reason of its own.
        """
        if record is None or record[FLAGS] & (DEPENDENT | DOUBTFUL) or self._gone:
            return {}
        return {name: row for name, row in old.items() if row[STATE] == CAPTURED}

    def _row(
        self,
        node: Node,
        name: bytes,
        stat: Evidence | int,
        *,
        judge: DirectoryJudge,
        old: Row | None,
        descriptor: int,
    ) -> Row | None:
        mode = stat if isinstance(stat, int) else stat[0]
        verdict = judge.verdict(name, mode)
        if verdict.ignored:
            node.flags |= DEPENDENT
        if verdict.state == HIDDEN and name == DOT_GIT:
            node.flags |= NESTED
        if verdict.state != CAPTURED:
            size = stat[1] if verdict.state not in {HIDDEN, IGNORED} and not isinstance(stat, int) else 0
            return (name, mode, size, 0, 0, 0, b"", verdict.state)
        if isinstance(stat, int):
            node.below.append(name)
            if verdict.buried and node.token != BURIED:
                node.buried.add(name)
                node.flags |= DOUBTFUL
            bare = verdict.buried and verdict.bare
            return (name, mode, int(bare), 0, 0, 0, b"", CAPTURED)
        row = self._file(node, name, stat, verdict=verdict, old=old, descriptor=descriptor)
        if row is not None:
            oversized = verdict.forced and row[SIZE] > self._cap
            if verdict.private or oversized:
                node.private.append(name)
            if oversized:
                node.flags |= DOUBTFUL
        return row

    def _file(
        self,
        node: Node,
        name: bytes,
        stat: Evidence,
        *,
        verdict: Verdict,
        old: Row | None,
        descriptor: int,
    ) -> Row | None:
        if stat[0] & FORMAT_MASK == FORMAT_FILE and stat[1] > self._cap and not verdict.forced:
            return (name, *stat, b"", TOO_LARGE)
        known = old is not None and old[1:6] == stat and old[STATE] == CAPTURED
        if old is not None and known and old[OID] not in self._gone and not self._is_fresh(node.path, name):
            return old
        if self._late():
            return (name, *stat, b"", BUDGET)
        return self._read(node, name, stat, forced=verdict.forced, descriptor=descriptor)

    def _is_fresh(self, directory: bytes, name: bytes) -> bool:
        return self._fresh.any and self._fresh.covers(join(directory, name))

    def _read(self, node: Node, name: bytes, stat: Evidence, *, forced: bool, descriptor: int) -> Row | None:
        reading = self._reader.read(name, stat, directory=descriptor, forced=forced)
        if reading.stat is None:
            return None
        state, oid = reading.state, None
        if state == CAPTURED:
            oid = self._reader.store(reading, name, directory=descriptor)
            state = RACY if oid is None else CAPTURED
        if state == RACY:
            self.unsettled.append(Unsettled(node, len(node.rows), reading=reading, forced=forced))
        return (name, *reading.stat, oid or b"", state)

    def _rules(
        self,
        node: Node,
        found: Mapping[bytes, Evidence | int],
        listing: Listing,
        *,
        record: Record | None,
        old: Mapping[bytes, Row],
        same: bool,
    ) -> tuple[bytes, bool]:
        """Return the token of the rules inside, and whether they are those of the last scan."""
        if node.above == BURIED:
            return BURIED, same
        if same and record is not None and _same_ignore_files(found, old):
            return record[TOKEN], True
        texts = (
            self._text(GITIGNORE, found, listing.descriptor),
            self._text(LASTGOODIGNORE, found, listing.descriptor),
        )
        if texts != (None, None):
            self.texts[node.path] = texts
        rules = self._judge.rules.enter(node.path, texts)
        if not rules.readable:
            self.unreadable_rules = True
            node.flags |= DOUBTFUL
        return rules.fingerprint, same and record is not None and record[TOKEN] == rules.fingerprint

    def _text(self, name: bytes, found: Mapping[bytes, Evidence | int], descriptor: int) -> Text:
        """Return what an ignore file says; a link or directory of that name is none, as in git."""
        stat = found.get(name)
        if stat is None or isinstance(stat, int) or stat[0] & FORMAT_MASK != FORMAT_FILE:
            return None
        reading = self._reader.read(name, stat, directory=descriptor)
        if reading.stat is None:
            return None
        return UNREADABLE_TEXT if reading.content is None else reading.content


def _same_ignore_files(found: Mapping[bytes, Evidence | int], old: Mapping[bytes, Row]) -> bool:
    """Tell whether a directory's ignore files are those that were captured last time."""
    for name in IGNORE_FILES:
        stat, row = found.get(name), old.get(name)
        if (stat is None) != (row is None):
            return False
        if row is not None and (row[1:6] != stat or row[STATE] != CAPTURED):
            return False
    return True
