"""Looks at one directory whose signature is not the known one: judges its entries and reads new ones."""

from __future__ import annotations

import os
from marshal import loads

from lastgood.files import DIGEST_BYTES
from lastgood.ignore import GITIGNORE, LASTGOODIGNORE
from lastgood.ignore import UNREADABLE as UNREADABLE_TEXT
from lastgood.paths import join
from lastgood.scanner import (
    ABOVE,
    BELOW,
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
    MODE,
    NAME,
    NESTED,
    OID,
    RACY,
    SIZE,
    STATE,
    TOKEN,
    TOO_LARGE,
    UNREADABLE,
    UNSTABLE,
    VANISHED,
)
from lastgood.scanner.cache import Blocks, pack
from lastgood.scanner.read import Reading, descend, names_of, state_of
from lastgood.scanner.select import DOT_GIT, IGNORE_FILES, PLAIN, TOO_LONG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Final

    from lastgood.ignore import Text
    from lastgood.scanner import Evidence, Record, Row
    from lastgood.scanner.beside import Came, ReadBeside
    from lastgood.scanner.cache import Packed
    from lastgood.scanner.read import ContentReader, Listing
    from lastgood.scanner.select import DirectorySelector, Selection, Selector


# Beyond so many rows of such directories, those that come are folded until their records are made.
_UNFOLDED_ROWS = 50_000
# Most directories have neither: an empty one of its own for each would take 300 bytes.
_NO_TEXTS: Final[Mapping[bytes, Text]] = {}
_NONE_BURIED: Final[frozenset[bytes]] = frozenset()


class Node:
    """A directory that was looked at: what its record is going to be made of.

    ``rows`` are sorted by name. ``below`` are the subdirectories to enter, ``buried`` those of them
    that are ignored and entered all the same. ``texts`` are its ignore files by name, as they were when its
    rules were read anew. ``waiting`` are files that another process reads,
    ``unsettled`` tells that some have to be read again.
    """

    __slots__ = (
        "_packed",
        "above",
        "before",
        "below",
        "buried",
        "flags",
        "names",
        "path",
        "private",
        "rows",
        "seen",
        "signature",
        "texts",
        "token",
        "unsettled",
        "waiting",
    )

    def __init__(self, path: bytes, *, above: bytes, listing: Listing) -> None:
        self.path: bytes = path
        self.above: bytes = above
        self.signature: bytes = listing.signature
        self.names: bytes = listing.names if listing.seen else b""
        self.seen: Evidence | tuple[()] = listing.seen
        self.token: bytes = above
        self.flags: int = 0
        self.rows: list[Row] = []
        self.below: list[bytes] = []
        self.texts: Mapping[bytes, Text] = _NO_TEXTS
        self.buried: set[bytes] | frozenset[bytes] = _NONE_BURIED
        self.private: list[bytes] = []
        self.waiting: int = 0
        self.unsettled: bool = False
        self.before: Mapping[int, Row] | None = None
        self._packed: Packed = b""

    def bury(self, name: bytes) -> None:
        """Take note of a subdirectory that is ignored, and entered all the same."""
        if isinstance(self.buried, frozenset):
            self.buried = set()
        self.buried.add(name)

    def fold(self, blocks: Blocks) -> None:
        """Keep the rows as the cache has them, in a quarter of the memory, until they are taken."""
        self._packed = blocks.hold(pack(self.rows))
        self.rows, self.before = [], None

    def take_rows(self) -> tuple[list[Row], Packed]:
        """Return the rows, and how the cache has them if they were kept so; they are forgotten."""
        rows, packed = self.rows, self._packed
        if packed:
            rows = loads(memoryview(packed)[DIGEST_BYTES:])  # noqa: S302 - our own bytes
        self.rows, self._packed = [], b""
        return rows, packed


class Unsettled:
    """An entry that was read so soon after a change that it has to be read again.

    ``folder`` is a descriptor of the directory in which it was read, -1 where none was kept open.
    """

    __slots__ = ("folder", "forced", "mark", "node", "place", "stat", "tries")

    def __init__(self, node: Node, place: int, *, reading: Reading, forced: bool, folder: int) -> None:
        assert reading.stat is not None
        node.unsettled = True
        self.folder: int = folder
        self.node: Node = node
        self.place: int = place
        self.stat: Evidence = reading.stat
        self.mark: bytes = reading.mark
        self.forced: bool = forced
        self.tries: int = 1


# From here on another process reads the files that follow (`beside.py`). Each counts as so many bytes more.
_BESIDE_BYTES = 4 << 20
_BYTES_A_FILE = 8 << 10
# Larger files are read here: the memory that both share has no room for them.
_LARGEST_BESIDE = 1 << 20

# So many directories stay open in which something has to be read still, or again: only that can tell whether
# they were moved or deleted meanwhile. Only as long as many more could be opened beside them.
_KEPT_OPEN = 64
_TO_SPARE = 128


class Examiner:
    """Turns listings into nodes. ``late`` tells whether the time budget is used up."""

    def __init__(
        self,
        selector: Selector,
        *,
        reader: ContentReader,
        cap: int,
        late: Callable[[], bool],
        gone: set[bytes],
    ) -> None:
        self._selector = selector
        self._reader = reader
        self._beside: ReadBeside | None = None
        self._alone = 0  # the bytes that were read before another process is asked
        self._cap = cap
        self._late = late
        self._gone = gone  # object ids in the cache that the engine does not have
        self._fresh = selector.forced.fresh
        self.unsettled: list[Unsettled] = []
        self._folders: dict[bytes, int] = {}
        self._rows = 0
        self._blocks = Blocks()
        self.texts: dict[bytes, tuple[Text, Text]] = {}
        self.unreadable_rules: bool = False

    def examine(
        self,
        path: bytes,
        listing: Listing,
        *,
        above: bytes,
        record: Record | None,
        old: Mapping[bytes, Row],
        same_rules: bool,
        same_index: bool,
        held_by_old: bool,
    ) -> Node:
        """Return the node of a directory.

        ``old`` are its rows by name as of the last scan; ``same_rules`` and ``same_index`` say that the rules
        above and the index would decide as then, ``held_by_old`` that the previous tree was that scan's.
        """
        node = Node(path, above=above, listing=listing)
        found = sorted(zip(names_of(listing.names), listing.stats, strict=True))
        node.token, same_rules = self._rules(
            node, dict(found), listing, record=record, old=old, same=same_rules
        )
        same = same_rules and same_index and held_by_old
        held = {name for name, row in old.items() if row[STATE] <= RACY} if held_by_old else None
        selector = self._selector.directory(
            path, token=node.token, old=old, same=same, held=held, names=listing.names
        )
        settled = self._settled(record, old) if same_rules and not self._fresh.touches(path) else {}
        where = listing.descriptor
        lost = sorted(listing.lost, reverse=True)
        for name, stat in found:
            while lost and lost[-1] < name:  # in its place: rows are completed by where they stand
                node.rows.append(_lost(lost.pop()))
            before = settled.get(name)
            if before is not None and before[1:6] == stat:
                node.rows.append(before)
                continue
            if before is not None and not isinstance(stat, int) and _is_same_form(before, stat):
                row = self._file(
                    node, len(node.rows), name, stat, verdict=PLAIN, old=before, descriptor=where
                )
            else:
                row = self._row(node, name, stat, selector=selector, old=old.get(name), descriptor=where)
            if row is not None:
                node.rows.append(row)
        node.rows += [_lost(name) for name in reversed(lost)]
        self._end(node)
        return node

    def revise(
        self,
        path: bytes,
        listing: Listing,
        *,
        record: Record,
        rows: list[Row],
        changed: Mapping[bytes, Evidence | int],
    ) -> Node | None:
        """Return the node of a directory of whose entries some ``changed``, by name, and no other.

        Its ``rows`` are completed: they and its record say all of the others, which no rule ignores. None
        where something has to be decided of those that changed.
        """
        found: list[tuple[int, bytes, Evidence]] = []
        for name, stat in changed.items():
            place, row = found_row(rows, name)
            if row is None or isinstance(stat, int) or name in IGNORE_FILES:
                return None
            if row[STATE] != CAPTURED or not _is_same_form(row, stat):
                return None
            found.append((place, name, stat))
        node = Node(path, above=record[ABOVE], listing=listing)
        node.token, node.flags = record[TOKEN], record[FLAGS]
        node.rows, node.below = rows, [*record[BELOW]]
        node.before = {place: rows[place] for place, _, _ in found}
        for place, name, stat in found:
            made = self._file(
                node,
                place,
                name,
                stat,
                verdict=PLAIN,
                old=rows[place],
                descriptor=listing.descriptor,
            )
            # It keeps its place, as others are completed by theirs.
            rows[place] = (name, *stat, b"", VANISHED) if made is None else made
        self._end(node)
        return node

    def _end(self, node: Node) -> None:
        self._rows += len(node.rows)
        if self._beside is not None:
            self._beside.end(node)
            self._take_in(self._beside.came())
        self._fold(node)
        self._reader.writer.publish_part()

    def finish(self) -> None:
        """Wait for what another process reads."""
        beside, self._beside = self._beside, None
        if beside is not None:
            self._take_in(beside.came(wait=True))

    def _fold(self, node: Node) -> None:
        if self._rows > _UNFOLDED_ROWS and node.rows and not node.waiting and not node.unsettled:
            node.fold(self._blocks)

    def _take_in(self, came: Iterable[Came]) -> None:
        """Complete the rows of files that were read beside; those that were not are read now."""
        for node, places, oids in came:
            rows = node.rows
            left: list[int] = []
            for place, oid in zip(places, oids, strict=True):
                if oid:
                    name, mode, size, mtime, ctime, inode, _, _ = rows[place]
                    rows[place] = (name, mode, size, mtime, ctime, inode, oid, CAPTURED)
                else:
                    left.append(place)
            if left:
                self._read_again(node, left)
            node.waiting -= len(places)
            if not node.waiting and not node.unsettled and node.path in self._folders:
                os.close(self._folders.pop(node.path))
            self._fold(node)

    def _read_again(self, node: Node, places: Iterable[int]) -> None:
        try:
            descriptor = descend(self._reader.root, node.path)
        except OSError as error:
            state_of(error)
            descriptor = -1
        try:
            for place in places:
                name, *stat = node.rows[place][:OID]
                seen = (stat[0], stat[1], stat[2], stat[3], stat[4])
                if descriptor < 0:  # it was moved or deleted: whether anything can be read, settling tells
                    reading = Reading(RACY, seen)
                    folder = self._folders.get(node.path, -1)
                    self.unsettled.append(
                        Unsettled(node, place, reading=reading, forced=False, folder=folder)
                    )
                    continue
                row = self._read(node, place, name, seen, forced=False, descriptor=descriptor)
                node.rows[place] = (name, *seen, b"", VANISHED) if row is None else row
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _settled(self, record: Record | None, old: Mapping[bytes, Row]) -> Mapping[bytes, Row]:
        """Return the rows that need no verdict, changed or not, where the rules are those of the last scan.

        Where none is ignored, and none was forced, no captured one is captured for a reason of its own: what
        the index and the previous tree hold has no say.
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
        selector: DirectorySelector,
        old: Row | None,
        descriptor: int,
    ) -> Row | None:
        mode = stat if isinstance(stat, int) else stat[0]
        verdict = selector.verdict(name, mode, size=0 if isinstance(stat, int) else stat[1])
        if verdict.ignored:
            node.flags |= DEPENDENT
        if verdict.state == HIDDEN and name == DOT_GIT:
            node.flags |= NESTED
        if verdict.state != CAPTURED:
            sized = verdict is TOO_LONG or verdict.state not in {HIDDEN, IGNORED}
            size = stat[1] if sized and not isinstance(stat, int) else 0
            return (name, mode, size, 0, 0, 0, b"", verdict.state)
        if isinstance(stat, int):
            node.below.append(name)
            if verdict.buried and node.token != BURIED:
                node.bury(name)
                node.flags |= DOUBTFUL
            bare = verdict.buried and verdict.bare
            return (name, mode, int(bare), 0, 0, 0, b"", CAPTURED)
        row = self._file(node, len(node.rows), name, stat, verdict=verdict, old=old, descriptor=descriptor)
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
        place: int,
        name: bytes,
        stat: Evidence,
        *,
        verdict: Selection,
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
        if stat[0] & FORMAT_MASK == FORMAT_FILE and not verdict.forced:
            if self._beside is not None and stat[1] <= _LARGEST_BESIDE:
                self._kept_open(node.path, descriptor)
                self._beside.add(place, name, stat)
                return (name, *stat, b"", UNSTABLE)
            if self._alone >= 0:
                self._count(stat[1])
        return self._read(node, place, name, stat, forced=verdict.forced, descriptor=descriptor)

    def _count(self, size: int) -> None:
        self._alone += size + _BYTES_A_FILE
        if self._alone >= _BESIDE_BYTES:
            from lastgood.scanner.beside import ReadBeside

            self._alone = -1
            beside = ReadBeside(self._reader)
            self._beside = beside if beside.begin() else None

    def _is_fresh(self, directory: bytes, name: bytes) -> bool:
        return self._fresh.any and self._fresh.covers(join(directory, name))

    def _read(
        self, node: Node, place: int, name: bytes, stat: Evidence, *, forced: bool, descriptor: int
    ) -> Row | None:
        reading = self._reader.read(name, stat, directory=descriptor, forced=forced)
        if reading.stat is None:
            return None
        state, oid = reading.state, None
        if state == CAPTURED:
            oid = self._reader.store(reading, name, directory=descriptor)
            state = RACY if oid is None else CAPTURED
        if state == RACY:
            folder = self._kept_open(node.path, descriptor)
            self.unsettled.append(Unsettled(node, place, reading=reading, forced=forced, folder=folder))
        return (name, *reading.stat, oid or b"", state)

    def _kept_open(self, path: bytes, descriptor: int) -> int:
        if path not in self._folders:
            if len(self._folders) >= _KEPT_OPEN:
                return -1
            try:
                kept = os.dup(descriptor)
            except OSError:  # too many are open
                return -1
            if 0 < os.sysconf("SC_OPEN_MAX") < kept + _TO_SPARE:
                os.close(kept)
                return -1
            self._folders[path] = kept
        return self._folders[path]

    def close(self) -> None:
        """Close the directories that were kept open."""
        while self._folders:
            os.close(self._folders.popitem()[1])

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
        if same and record is not None and not record[FLAGS] & DOUBTFUL and _same_ignore_files(found, old):
            return record[TOKEN], True
        texts = (
            self._text(GITIGNORE, found, listing.descriptor),
            self._text(LASTGOODIGNORE, found, listing.descriptor),
        )
        if texts != (None, None):
            self.texts[node.path] = texts
        if GITIGNORE in found or LASTGOODIGNORE in found:
            node.texts = {GITIGNORE: texts[0], LASTGOODIGNORE: texts[1]}
        rules = self._selector.rules.enter(node.path, texts)
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


def found_row(rows: Sequence[Row], name: bytes) -> tuple[int, Row | None]:
    """Return where a name belongs among sorted rows of a directory, and the row that has it."""
    place, end = 0, len(rows)
    while place < end:  # by hand: to load `bisect` takes longer
        middle = (place + end) // 2
        if rows[middle][NAME] < name:
            place = middle + 1
        else:
            end = middle
    row = rows[place] if place < len(rows) else None
    return place, row if row is not None and row[NAME] == name else None


def _lost(name: bytes) -> Row:
    """Return the row of an entry that could not be asked."""
    return (name, FORMAT_FILE, 0, 0, 0, 0, b"", UNREADABLE)


def _is_same_form(before: Row, stat: Evidence) -> bool:
    """Tell whether what was a file, or a link, is one still."""
    return before[MODE] & FORMAT_MASK == stat[0] & FORMAT_MASK


def _same_ignore_files(found: Mapping[bytes, Evidence | int], old: Mapping[bytes, Row]) -> bool:
    """Tell whether a directory's ignore files are those that were captured last time."""
    for name in IGNORE_FILES:
        stat, row = found.get(name), old.get(name)
        if (stat is None) != (row is None):
            return False
        if row is not None and (row[1:6] != stat or row[STATE] != CAPTURED):
            return False
    return True
