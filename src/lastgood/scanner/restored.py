"""Takes what a restore has brought, and read again to prove it, into what the scan before it found.

The next scan then reads none of it, if it is as it was then. The rules are those of a scan (rule S8): a file
whose version no time proves is read again. Nothing is taken in unless every directory comes to be one that
the store holds, for nobody stores what is made here; and nothing where rules may have changed, or a directory
was made.
"""

from __future__ import annotations

from lastgood.paths import ancestors, join
from lastgood.scanner import (
    ABOVE,
    BARE,
    BELOW,
    BURIED,
    CAPTURED,
    DEPENDENT,
    DOUBTFUL,
    FLAGS,
    FORMAT_DIRECTORY,
    FORMAT_MASK,
    MODE,
    MODES,
    NAMES,
    PRIVATE,
    RACY,
    SEEN,
    STATE,
    TOKEN,
    TREE,
    evidence,
)
from lastgood.scanner.cache import CachedTree, DetailsLost
from lastgood.scanner.read import Listing, names_of
from lastgood.scanner.select import IGNORE_FILES, Node
from lastgood.scanner.states import packed
from lastgood.scanner.walk import Builder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lastgood.engine import ObjectWriter
    from lastgood.host import Proof
    from lastgood.scanner import Evidence, Record, Row

    # What came to be at the names in one directory, None where nothing is any more.
    Brought = dict[bytes, Row | None]


class NotTaken(Exception):
    """What a restore brought cannot be taken in."""


class Restored:
    """What a restore did to a workspace, by path, as a walk for `Builder`.

    ``rows_of`` returns the rows of a directory by name, ``proves`` tells of a file that nobody was writing
    whether any later change gives it other times. ``cap`` is the size from which a file is none of a scan's.
    """

    def __init__(
        self,
        known: CachedTree,
        *,
        rows_of: Callable[[bytes], Mapping[bytes, Row] | None],
        ignored: Callable[[bytes], bool | None],
        proves: Callable[[Proof], bool],
        cap: int,
    ) -> None:
        self._known = known
        self._rows_of = rows_of
        self._ignored = ignored
        self._proves = proves
        self._cap = cap
        self.kept: dict[bytes, Record] = dict(known.records)
        self.nodes: dict[bytes, Node] = {}
        self.order: list[bytes] = []
        self.barred: dict[bytes, int] = {}

    def taken_in(self, brought: Mapping[bytes, Proof], *, writer: ObjectWriter) -> CachedTree | None:
        """Return what is known now; None if it cannot be."""
        try:
            self._take_in(brought)
            before = writer.stored_bytes
            records = Builder(
                self, before=self._known.records, details=self._known.details, writer=writer
            ).run()
        except (NotTaken, DetailsLost):
            return None
        top, conditions = records[b""], self._known.conditions
        if writer.stored_bytes != before or conditions is None:
            return None
        return CachedTree(
            conditions.replace(tree=(top[TREE], top[MODES])),
            records=records,
            details=self._known.details,
            source=self._known.source,
        )

    def _take_in(self, brought: Mapping[bytes, Proof]) -> None:
        places: dict[bytes, Brought] = {}
        for path, proof in brought.items():
            above, _, name = path.rpartition(b"/")
            if proof.entry is None:
                self.kept.pop(path, None)
            places.setdefault(above, {})[name] = self._row(name, proof)
        there = [place for place in places if place in self.kept]
        if any(place not in self.kept and place not in brought for place in places):
            raise NotTaken
        self.order = sorted({*there, *(above for place in there for above in (b"", *ancestors(place)))})
        for path in self.order:
            if self.kept[path][FLAGS] & (DOUBTFUL | BARE):
                raise NotTaken
        for place in there:
            self.nodes[place] = self._node(place, places[place])

    def _row(self, name: bytes, proof: Proof) -> Row | None:
        if name in IGNORE_FILES:
            raise NotTaken
        if proof.entry is None:
            return None
        if proof.stat is None or proof.stat.st_size > self._cap:
            raise NotTaken
        state = CAPTURED if self._proves(proof) else RACY
        return (name, *evidence(proof.stat), proof.entry.oid, state)

    def _node(self, path: bytes, brought: Brought) -> Node:
        record, old = self.kept[path], self._rows_of(path)
        if old is None or BURIED in {record[ABOVE], record[TOKEN]}:
            raise NotTaken
        rows = dict(old)
        for name, row in brought.items():
            before = rows.pop(name, None)
            if before is not None and before[STATE] > RACY:
                raise NotTaken
            if row is None:
                continue
            if before is not None and before[MODE] & FORMAT_MASK == FORMAT_DIRECTORY:
                raise NotTaken
            if (before is None or record[FLAGS] & DEPENDENT) and self._ignored(join(path, name)) is not False:
                raise NotTaken
            rows[name] = row
        listing = _listing(record, rows, brought)
        # Names are not kept: as young as the directory is, its times prove none.
        node = Node(path, above=record[ABOVE], listing=listing or _UNTOLD)
        if listing is None:
            node.signature = b""  # which no listing has
        node.token, node.flags = record[TOKEN], record[FLAGS]
        node.rows = sorted(rows.values())
        node.private = [name for name in record[PRIVATE] if name in rows]
        node.below = [name for name in record[BELOW] if name in rows]
        return node


def _listing(record: Record, rows: Mapping[bytes, Row], brought: Brought) -> Listing | None:
    """Return how a directory would be listed now; None where that cannot be told."""
    names = names_of(record[NAMES]) if record[SEEN] else []
    if not brought.keys() <= set(names):
        return None
    stats: list[Evidence | int] = []
    for name in names:
        row = rows.get(name)
        if row is None or (row[STATE] > RACY and row[MODE] & FORMAT_MASK != FORMAT_DIRECTORY):
            if row is None and name in brought:
                continue
            return None  # of what is left out no row says all
        stats.append(row[MODE] if row[MODE] & FORMAT_MASK == FORMAT_DIRECTORY else row[1:6])
    left = record[NAMES] if len(stats) == len(names) else b"\0".join(name for name in names if name in rows)
    return Listing(-1, left, states=packed(stats), seen=())


_UNTOLD = Listing(-1, b"", states=b"", seen=())
