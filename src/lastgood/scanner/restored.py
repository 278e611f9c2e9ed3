"""Takes what a restore has brought, and read again to prove it, into what the scan before it found.

The next scan then reads none of it, if it is as it was then. The rules are those of a scan (rule S8): a file
whose version no time proves is read again. Nothing is taken in unless every directory comes to be one that
the store holds, for nobody stores what is made here; and nothing where rules may have changed, or a directory
was made.
"""

from __future__ import annotations

import os

from lastgood.directories import Nearby
from lastgood.host import SystemClock
from lastgood.paths import join, ways
from lastgood.renames import is_temporary
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
    GAPS,
    MODE,
    MODES,
    NAME,
    NAMES,
    OID,
    PASSING,
    PRIVATE,
    RACY,
    SEEN,
    SIGNATURE,
    SIZE,
    START,
    STATE,
    TOKEN,
    TREE,
    evidence,
)
from lastgood.scanner.cache import CachedTree, Details, DetailsLost
from lastgood.scanner.examine import Node, found_row
from lastgood.scanner.read import (
    DIRECTORY_FLAGS,
    Lister,
    Listing,
    is_exact,
    names_of,
    place_of,
    proven_names,
    stats_of,
)
from lastgood.scanner.select import IGNORE_FILES
from lastgood.scanner.states import packed, patched
from lastgood.scanner.walk import Builder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
    from typing import Self

    from lastgood.engine import ObjectWriter
    from lastgood.host import Proof
    from lastgood.scanner import Evidence, Record, Row, Seen
    from lastgood.scanner.watch import DirectoryWatch

    # What came to be at the names in one directory, None where nothing is any more.
    Brought = dict[bytes, Row | None]


class NotTaken(Exception):
    """What a restore brought cannot be taken in."""


class TouchedFolders:
    """The directories in which a restore changed names, looked at after it has changed the last one.

    Those ``opened`` since then are not opened again: what has come to lie at the path of one has other times,
    or another number.
    """

    def __init__(
        self, root: bytes, *, exact_on: Callable[[int], int | None], opened: Mapping[bytes, int] = {}
    ) -> None:
        self._opened = opened
        self._root = os.open(root, DIRECTORY_FLAGS)
        self._nearby = Nearby(self._root)
        # Where each change gives a file, or a directory, other times than a look before it saw; or where a
        # watch hears of each.
        self.device: int | None = exact_on(self._root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._nearby.close()
        os.close(self._root)

    def proves(self, proof: Proof) -> bool:
        """Tell of a file that nobody was writing whether any later change gives it other times."""
        return proof.stat is not None and proof.steady and is_exact(proof.stat, self.device)

    def names(self, path: bytes) -> tuple[bytes, Evidence] | None:
        """Return the names in a directory, and the times that prove them; None where none do."""
        if self.device is None:
            return None
        try:
            return proven_names(self._open(path), self.device)
        except OSError:  # gone, or replaced: the next scan finds out
            return None

    def tell(self, watch: DirectoryWatch, path: bytes, *, restored: RestoredFolder, lister: Lister) -> None:
        """Have a watch vouch for a directory that is as it is recorded, from before it is looked at."""
        record, heard = restored.record, watch.heard_of(path, restored.before)
        if heard is not None and restored.explains(heard):
            # Nor has anything else come to lie at its path, of which nothing was heard.
            told = lister.ask_alone(self._open(path), restored.names, known=record)
            if told is not None:
                if restored.holds(told):
                    watch.asked_alone(path)
                return
        descriptor = self._nearby.open(path)
        covered = watch.cover(descriptor, path)
        listing = lister.list(descriptor, known=record)
        if listing.fits(record):
            watch.listed(
                path,
                descriptor,
                names=listing.names,
                states=listing.states,
                covered=covered,
                may_have_links=lister.may_have_links,
            )

    def _open(self, path: bytes) -> int:
        """Return the descriptor of a directory, good until the next one is opened."""
        descriptor = self._opened.get(path, -1)
        return self._nearby.open(path) if descriptor < 0 else descriptor


class RestoredFolder:
    """A directory in which a restore changed ``names``: as it was recorded before, and as it is now."""

    def __init__(self, names: Collection[bytes], *, before: Record, record: Record, details: Details) -> None:
        self.names: Collection[bytes] = names
        self.before: Record = before
        self.record: Record = record
        self._rows = details.rows(record) or ()

    def explains(self, heard: Iterable[bytes]) -> bool:
        """Tell whether files of which something was heard are those that the restore brought, or made beside.

        Where a name is another one, what happened may be of a file that is called otherwise by now.
        """
        return all(name in self.names or is_temporary(name) for name in heard)

    def holds(self, told: Mapping[bytes, Evidence]) -> bool:
        """Tell whether some files are as they are recorded."""
        rows = [found_row(self._rows, name)[1] for name in told]
        return [row and row[1:6] for row in rows] == [*told.values()]


def look_again(
    folders: TouchedFolders,
    places: Mapping[bytes, Collection[bytes]],
    *,
    scanned: Mapping[bytes, Record],
    known: CachedTree,
    watch: DirectoryWatch,
) -> None:
    """Have a watch vouch for those directories that are as they are known; OSError where one is gone."""
    lister = Lister(device=folders.device, clock=SystemClock(), watch=watch)
    try:
        for path in sorted(filter(watch.hears_of, places)):
            restored = RestoredFolder(
                places[path], before=scanned[path], record=known.records[path], details=known.details
            )
            folders.tell(watch, path, restored=restored, lister=lister)
    finally:
        lister.close()


class Restored:
    """What a restore did to a workspace, by path, as a walk for `Builder`.

    ``cap`` is the size from which a file is none of a scan's. ``then`` are the records of the scan before, of
    which the same details tell. ``missing`` returns those of some trees that are not stored.
    """

    def __init__(
        self,
        known: CachedTree,
        *,
        then: Mapping[bytes, Record],
        ignored: Callable[[bytes], bool | None],
        missing: Callable[[Collection[bytes]], Collection[bytes]],
        folders: TouchedFolders,
        cap: int,
    ) -> None:
        self._missing = missing
        self._known = known
        self._then = dict(then.items())
        self._ignored = ignored
        self._folders = folders
        self._cap = cap
        self.kept: MutableMapping[bytes, Record] = dict(known.records.items())
        # What came to be in directories that are there, by their paths.
        self._places: dict[bytes, Brought] = {}
        self.nodes: dict[bytes, Node] = {}
        self.order: list[bytes] = []
        self.not_entered: dict[bytes, int] = {}

    def taken_in(
        self, brought: Mapping[bytes, Proof], *, trial: Callable[[], ObjectWriter]
    ) -> CachedTree | None:
        """Return what is known now; None if it cannot be."""
        conditions = self._known.conditions
        if conditions is None:
            return None
        try:
            self._take_in(brought)
            records = self._as_then() or self._put_together(trial())
        except (NotTaken, DetailsLost):
            return None
        top = records[b""]
        return self._known.followed(conditions.replace(tree=(top[TREE], top[MODES])), records=records)

    def _put_together(self, writer: ObjectWriter) -> MutableMapping[bytes, Record]:
        """Return the records of directories put together anew, of which the store has every tree."""
        before = writer.stored_bytes
        try:
            builder = Builder(self, before=self._known.records, details=self._known.details, writer=writer)
            records = builder.run()
            if writer.stored_bytes != before:
                raise NotTaken
        finally:
            writer.abandon()
        return records

    def _take_in(self, brought: Mapping[bytes, Proof]) -> None:
        places: dict[bytes, Brought] = {}
        lower: list[bytes] = []  # what lay in directories that are gone
        for path, proof in brought.items():
            above, _, name = path.rpartition(b"/")
            if proof.entry is None and path in self.kept:
                lower += [join(path, one) for one in self.kept.pop(path)[BELOW]]
            places.setdefault(above, {})[name] = self._row(name, proof)
        there = [place for place in places if place in self.kept]
        if any(place not in self.kept and place not in brought for place in places):
            raise NotTaken
        if any(path in self.kept for path in lower):  # somebody moved it away with the one above
            raise NotTaken
        self.order = sorted({b"", *there, *ways(there)})
        for path in self.order:
            if self.kept[path][FLAGS] & (DOUBTFUL | BARE):
                raise NotTaken
        for place in there:
            self._places[place] = places[place]
            self.nodes[place] = self._node(place, places[place])

    def _as_then(self) -> MutableMapping[bytes, Record] | None:
        """Return records where each directory holds what it held in the scan before; None where one does not.

        So it is when what was edited since is taken back. No tree has to be made anew for that, if the store
        still has those of then.
        """
        then, records = self._then, dict(self.kept)
        if records.keys() != then.keys():
            return None
        between, trees = frozenset(self.order), set()
        for path, record in self.kept.items():
            old = then[path]
            if path in between:
                node = self.nodes.get(path)
                made = self._above(path, old) if node is None else self._with_times(node, old)
                if made is None:
                    return None
                records[path] = made
                trees |= {old[TREE], old[MODES]}
            elif record is not old and record[TREE:NAMES] != old[TREE:NAMES]:
                return None
        return None if self._missing(trees - {b""}) else records

    def _above(self, path: bytes, old: Record) -> Record | None:
        """Return the record of a directory in which nothing but directories below it was touched."""
        record = self.kept[path]
        if record[ABOVE:TREE] != old[ABOVE:TREE] or record[GAPS:NAMES] != old[GAPS:NAMES]:
            return None
        if record[SIGNATURE] != old[SIGNATURE] and self._rows(record) != self._rows(old):
            return None
        return (*record[:TREE], *old[TREE:NAMES], *record[NAMES:START], *old[START:])

    def _with_times(self, node: Node, old: Record) -> Record | None:
        """Return the record of a directory in which nothing but times is another by now, None if more is."""
        head = (node.above, node.token, node.flags)
        if head != (old[ABOVE], old[TOKEN], old[FLAGS] & ~DOUBTFUL):
            return None
        if (tuple(node.private), tuple(node.below)) != (old[PRIVATE], old[BELOW]):
            return None
        rows, flags = [*self._rows(old)], node.flags
        for name, row in self._places[node.path].items():
            at, was = found_row(rows, name)
            if row is None or was is None or not _differ_in_times(was, row):
                return None
            rows[at] = row
            if row[STATE] in PASSING:  # of the others none is: their record would be in doubt
                flags |= DOUBTFUL
        if rows != node.rows:
            return None
        place = self._known.details.add(node.rows)
        return (node.signature, *head[:2], flags, *old[TREE:NAMES], node.names, node.seen, *place)

    def _row(self, name: bytes, proof: Proof) -> Row | None:
        if name in IGNORE_FILES:
            raise NotTaken
        if proof.entry is None:
            return None
        if proof.stat is None or proof.stat.st_size > self._cap:
            raise NotTaken
        state = CAPTURED if self._folders.proves(proof) else RACY
        return (name, *evidence(proof.stat), proof.entry.oid, state)

    def _node(self, path: bytes, brought: Brought) -> Node:
        record = self.kept[path]
        if BURIED in {record[ABOVE], record[TOKEN]}:
            raise NotTaken
        rows, gone = [*self._rows(record)], set()
        for name, row in brought.items():
            at, before = found_row(rows, name)
            if before is not None and before[STATE] > RACY:
                raise NotTaken
            if row is None:
                del rows[at : at + (before is not None)]
                gone.add(name)
                continue
            if before is not None and before[MODE] & FORMAT_MASK == FORMAT_DIRECTORY:
                raise NotTaken
            if (before is None or record[FLAGS] & DEPENDENT) and self._ignored(join(path, name)) is not False:
                raise NotTaken
            rows[at : at + (before is not None)] = [row]
        known = self._known.states
        names, seen = self._folders.names(path) or _left(record, brought)
        states = known.get(record[SIGNATURE]) if names == record[NAMES] else None
        listing = _listing(names, rows, brought, states=states, seen=seen)
        node = Node(path, above=record[ABOVE], listing=listing or _UNTOLD)
        if listing is None:
            node.signature = b""  # which no listing has
        elif known:  # else nobody remembers any
            known[node.signature] = listing.states
        node.token, node.flags = record[TOKEN], record[FLAGS]
        node.rows = rows
        node.private = [name for name in record[PRIVATE] if name not in gone]
        node.below = [name for name in record[BELOW] if name not in gone]
        return node

    def _rows(self, record: Record) -> Sequence[Row]:
        """Return the rows of a directory, sorted by name."""
        rows = self._known.details.rows(record)
        if rows is None:
            raise DetailsLost
        return rows


def _differ_in_times(one: Row, other: Row) -> bool:
    """Tell whether two rows stand for the same content under the same name, both captured."""
    same = one[NAME] == other[NAME] and one[MODE : SIZE + 1] == other[MODE : SIZE + 1]
    return same and one[OID] == other[OID] and max(one[STATE], other[STATE]) <= RACY


def _left(record: Record, brought: Brought) -> tuple[bytes, Seen]:
    """Return the names that a restore left of those that were proven before; no times prove these."""
    gone = {name for name, row in brought.items() if row is None}
    if not gone or not record[SEEN]:
        return record[NAMES], ()
    return b"\0".join([name for name in names_of(record[NAMES]) if name not in gone]), ()


def _listing(
    names: bytes, rows: Sequence[Row], brought: Brought, *, states: bytes | None, seen: Seen
) -> Listing | None:
    """Return how a directory would be listed now; None where that cannot be told.

    ``states`` are what was said of the same names before, if that is known.
    """
    if states is not None:
        came = [(place_of(name, names), row[1:6]) for name, row in brought.items() if row is not None]
        told = {place: stat for place, stat in came if place is not None}
        if len(told) == len(brought):
            return Listing(-1, names, states=patched(states, told), seen=seen)
    found = names_of(names)
    # A stranger's name is no row's, and a row whose name is gone has none.
    if len(found) != len(rows):
        return None
    by_name = {row[NAME]: row for row in rows}
    stats = stats_of([by_name.get(name) for name in found])
    return None if stats is None else Listing(-1, names, states=packed(stats), seen=seen)


_UNTOLD = Listing(-1, b"", states=b"", seen=())
