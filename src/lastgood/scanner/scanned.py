"""What one reading of a workspace found, as the verbs see it."""

from __future__ import annotations

from _operator import eq, itemgetter

from lastgood.errors import Damaged, Storage
from lastgood.host import ScanResult, Stamp
from lastgood.ignore import GITIGNORE, LASTGOODIGNORE, UNREADABLE, TreeRules
from lastgood.model.tree import DIRECTORY, TreeId
from lastgood.paths import join
from lastgood.scanner import (
    ABOVE,
    BARE,
    BELOW,
    CTIME,
    DEPENDENT,
    FLAGS,
    FORMAT_DIRECTORY,
    FORMAT_FILE,
    FORMAT_MASK,
    IGNORED,
    INODE,
    LEFT,
    MODE,
    MODES,
    MTIME,
    NAME,
    OID,
    RACY,
    SIZE,
    STATE,
    TOKEN,
    TREE,
)
from lastgood.scanner.cache import CachedTree, CacheMemory, Details, DetailsLost
from lastgood.scanner.read import multigrain_device, names_in, state_of
from lastgood.scanner.select import IGNORE_FILES
from lastgood.scanner.walk import by_parent, entry_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from lastgood.engine import ObjectReader, ObjectWriter
    from lastgood.host import Proof
    from lastgood.ignore import Text
    from lastgood.literals import ChangeStatus
    from lastgood.model.checkpoint import IgnoreState
    from lastgood.model.tree import Difference, Entry, Listings
    from lastgood.scanner import Record, Row
    from lastgood.scanner.watch import DirectoryWatch


# So many of the paths that rules left out are named.
MOST_NAMED = 100
# So many directories are remembered: a plan, a guard and a report look at the same ones.
_LISTINGS = 64


class IgnoreFiles:
    """The ignore files as they were captured, by directory.

    ``fresh`` are those read by this scan, which the engine may not have published yet.
    """

    def __init__(
        self,
        records: Mapping[bytes, Record],
        *,
        details: Details,
        objects: ObjectReader,
        fresh: Mapping[bytes, tuple[Text, Text]],
    ) -> None:
        self._records = records
        self._details = details
        self._objects = objects
        self._fresh = fresh

    def of(self, path: bytes) -> tuple[Text, Text]:
        """Return the ``.gitignore`` and the ``.lastgoodignore`` of a directory; `DetailsLost`."""
        fresh = self._fresh.get(path)
        if fresh is not None:
            return fresh
        record = self._records.get(path)
        if record is None or record[TOKEN] == record[ABOVE]:
            return None, None
        rows = self._details.rows(record)
        if rows is None:
            raise DetailsLost
        found = {
            row[NAME]: self._text(row)
            for row in rows
            if row[NAME] in IGNORE_FILES and row[MODE] & FORMAT_MASK == FORMAT_FILE
        }
        return found.get(GITIGNORE), found.get(LASTGOODIGNORE)

    def _text(self, row: Row) -> Text:
        if row[STATE] > RACY:
            return UNREADABLE
        try:
            return self._objects.read_blob(row[OID])
        except Damaged as error:
            raise DetailsLost from error


class WorkspaceScan:
    """One reading of a workspace.

    ``rules`` are the ignore rules outside its files as they were.
    """

    def __init__(
        self,
        result: ScanResult,
        *,
        folder: bytes,
        snapshot: CachedTree,
        known: Mapping[bytes, Record],
        objects: ObjectReader,
        rules: IgnoreState,
        texts: Mapping[bytes, tuple[Text, Text]],
        worth_keeping: bool,
        memory: CacheMemory | None = None,
    ) -> None:
        self.result = result
        self._folder = folder
        self._objects = objects
        self._rules = rules
        self._fresh = texts
        self._tree_rules: TreeRules | None = None
        self._rows: dict[bytes, dict[bytes, Row] | None] = {}
        self._rows_then: dict[bytes, dict[bytes, Row] | None] = {}
        self._differing: dict[bytes, Listings | None] = {}
        # What `edits` came to, and the paths of files and links among them that have other contents.
        self._edits: tuple[Sequence[Difference] | None] | None = None
        self._read: Collection[bytes] = ()
        self._listings: dict[bytes, Sequence[Entry]] = {}
        # The records of the last scan, whose details are among this one's.
        self._known = known
        self.snapshot = snapshot
        self.worth_keeping: bool = worth_keeping
        # Who hears of changes, and is told what was kept.
        self.watch: DirectoryWatch | None = None
        # The directories that were looked at, where all others are as the last scan knew them.
        self.visited: Collection[bytes] | None = None
        # The rows of files with other contents than the last scan found, by path, where nothing else differs.
        self.edited: Sequence[tuple[bytes, Row, Row]] | None = None
        self._visited_by_parent: Mapping[bytes, Collection[bytes]] | None = None
        self.exact_on: Callable[[int], int | None] = multigrain_device
        # Who is told where nobody watches.
        self.memory: CacheMemory = CacheMemory(folder) if memory is None else memory

    def directory(self, path: bytes) -> Sequence[Entry] | None:
        """Return the captured entries of a directory, sorted by name; None if it was not captured."""
        if path in self._listings:
            return self._listings[path]
        listing = self._list(path)
        if listing is not None:
            if len(self._listings) >= _LISTINGS:
                self._listings.clear()
            self._listings[path] = listing
        return listing

    def _list(self, path: bytes) -> Sequence[Entry] | None:
        record = self.snapshot.records.get(path)
        if record is None or not self._captured(path, record):
            return None
        rows = self._rows_of(path)
        if rows is None:
            return self._objects.directory(TreeId(tree=record[TREE], modes=record[MODES]))
        return _entries(path, rows.values(), self.snapshot.records)

    def left_out(self, path: bytes) -> Sequence[bytes]:
        """Return the names in a captured directory that were not captured: ignored, gaps, ``.git``."""
        if path not in self.snapshot.records:
            return ()
        rows = self._rows_of(path)
        if rows is not None:
            return [name for name, row in rows.items() if row[STATE] > RACY]
        captured = {entry.name for entry in self.directory(path) or ()}
        try:
            return sorted(set(names_in(self._root, path)) - captured)
        except OSError as error:
            state_of(error)
            return ()

    def ignored_paths(self) -> tuple[bytes, ...]:
        """Return the topmost paths that rules left out, with a slash at the end of a directory's.

        Only the first are named: those nearest the top, in a directory the subdirectories before the rest.
        """
        found: list[bytes] = []
        level, records = [b""], self.snapshot.records
        while level and len(found) < MOST_NAMED:
            below: list[bytes] = []
            for path in level:
                record = records.get(path)
                if record is None or not record[LEFT] or len(found) >= MOST_NAMED:
                    continue
                rows = self.snapshot.details.rows(record) if record[FLAGS] & DEPENDENT else ()
                here = _ignored_in(path, rows or ())
                found += here
                inside = (join(path, name) for name in record[BELOW])
                # One that was entered, and turned out to be ignored whole, has nothing topmost in it.
                below += [one for one in inside if one + b"/" not in here]
            level = below
        return tuple(found[:MOST_NAMED])

    def ignored(self, path: bytes, *, directory: bool) -> bool | None:
        """Tell whether the present rules ignore a path, present or not; None if rules are unreadable."""
        if self._tree_rules is None:
            self._tree_rules = TreeRules(self._rules, self._texts)
        return self._tree_rules.ignored(path, directory=directory)

    def stamp(self, path: bytes) -> Stamp | None:
        """Return the evidence for a captured file or link."""
        above, _, name = path.rpartition(b"/")
        rows = self._rows_of(above) if above in self.snapshot.records else None
        row = None if rows is None else rows.get(name)
        if row is None or row[STATE] > RACY or row[MODE] & FORMAT_MASK == FORMAT_DIRECTORY:
            return None
        return Stamp(size=row[SIZE], mtime_ns=row[MTIME], ctime_ns=row[CTIME], inode=row[INODE])

    def remembered(self, path: bytes, tree: TreeId) -> Sequence[Entry] | None:
        """Return what a directory held when it had an identity; None unless the last scan says so."""
        known = self._known
        record = known.get(path)
        if record is None or not _is(record, tree):
            return None
        rows = self._known_rows(path)
        if rows is None:
            return None
        return _entries(path, rows.values(), known)

    def differing(self, path: bytes, before: TreeId, now: TreeId) -> Listings | None:
        """Return what a directory held when it had an identity, and holds now, without what is in both alike.

        None unless the last scan says what it held, and it is now what it was captured as.
        """
        known, record = self._known.get(path), self.snapshot.records.get(path)
        if known is None or record is None or not (_is(known, before) and _is(record, now)):
            return None
        if path not in self._differing:  # a plan and a guard ask for the same ones
            if len(self._differing) >= _LISTINGS:
                self._differing.clear()
            self._differing[path] = self._different(path)
        return self._differing[path]

    def edits(self, before: TreeId) -> Sequence[Difference] | None:
        """Return what of an earlier tree has other contents or permissions now, sorted by path.

        None unless the last scan says what it held, and nothing came, went or became of another kind since.
        """
        known = self._known.get(b"")
        if known is None or not _is(known, before) or self.result.partial:
            return None
        if self._edits is None:  # a plan and a guard ask for the same ones
            found = self._read_edits() if self.edited is None else _told(self.edited)
            self._edits = (None if found is None else sorted(found, key=_first),)
            self._read = {path for path, status, *_ in found or () if status == "modified"}
        return self._edits[0]

    def _read_edits(self) -> list[Difference] | None:
        found: list[Difference] = []
        left = [b""]
        while left:
            path = left.pop()
            pairs, below = self._unlike(path), self._below_unlike(path)
            if pairs is None or below is None:
                return None
            left += below
            for was, row in pairs:
                one, other = entry_of(was, self._known.get(join(path, was[NAME]))), self._entry(path, row)
                if one.mode != other.mode or (one.oid != other.oid and one.kind != DIRECTORY):
                    status: ChangeStatus = (
                        "mode" if one.oid == other.oid or one.kind == DIRECTORY else "modified"
                    )
                    found.append((join(path, row[NAME]), status, one, other))
        return found

    def _unlike(self, path: bytes) -> Sequence[tuple[Row, Row]] | None:
        """Return the captured rows of a directory that are not as they were; None if more is otherwise."""
        details = self.snapshot.details
        old, new = details.rows(self._known[path]), details.rows(self.snapshot.records[path])
        if old is None or new is None or len(old) != len(new):
            return None
        # Both are sorted by name: where each that differs has the name that it had, they have the same names.
        found = []
        for was, row in [(was, row) for was, row in zip(old, new, strict=True) if was is not row]:
            if was[NAME] != row[NAME] or (was[MODE] ^ row[MODE]) & FORMAT_MASK:
                return None
            if (was[STATE] > RACY) != (row[STATE] > RACY):
                return None
            if was != row and row[STATE] <= RACY:
                found.append((was, row))
        return found

    def _below_unlike(self, path: bytes) -> Sequence[bytes] | None:
        """Return the directories in one that hold something else by now; None where one has no record."""
        visited = self._visited_in(path)
        found = []
        for name in self.snapshot.records[path][BELOW]:
            if visited is not None and name not in visited:
                continue
            below = join(path, name)
            was, now = self._known.get(below), self.snapshot.records.get(below)
            if was is None or now is None or (was[FLAGS] | now[FLAGS]) & BARE:
                return None
            if not _is_alike(was, now):
                found.append(below)
        return found

    def _entry(self, path: bytes, row: Row) -> Entry:
        return entry_of(row, self.snapshot.records.get(join(path, row[NAME])))

    def _different(self, path: bytes) -> Listings | None:
        details, known, present = self.snapshot.details, self._known, self.snapshot.records
        old, new = details.rows(known[path]), details.rows(present[path])
        if old is None or new is None:
            return None
        gone, came = [], []
        visited = self._visited_in(path)
        for was, row in _paired(old, new):
            if row is not None and (was is row or was == row):
                name = row[NAME]
                entered = row[MODE] & FORMAT_MASK == FORMAT_DIRECTORY and (visited is None or name in visited)
                below = join(path, name) if entered else b""
                if not entered or _is_alike(known.get(below), present.get(below)):
                    continue
            if was is not None:
                gone.append(was)
            if row is not None:
                came.append(row)
        return _entries(path, gone, known), _entries(path, came, present)

    def _visited_in(self, path: bytes) -> Collection[bytes] | None:
        """Return the names of those directories in one that were looked at; None where all may have been."""
        if self.visited is None:
            return None
        if self._visited_by_parent is None:
            self._visited_by_parent = by_parent(filter(None, self.visited))
        return self._visited_by_parent.get(path, ())

    def was_read(self, path: bytes) -> bool:
        """Tell whether it is certain that this scan read a file or link, and no cache told of it."""
        if path in self._read:  # what it holds was not known before
            return True
        above, _, name = path.rpartition(b"/")
        if above not in self._known or above not in self.snapshot.records:
            return False
        old, new = self._known_rows(above), self._rows_of(above)
        row = None if new is None else new.get(name)
        if old is None or row is None or row[STATE] > RACY or not row[OID]:
            return False
        return old.get(name) != row

    def _known_rows(self, path: bytes) -> Mapping[bytes, Row] | None:
        """Return the rows of a directory as they were in the last scan; None if they are lost."""
        if path not in self._rows_then:
            if len(self._rows_then) >= _LISTINGS:
                self._rows_then.clear()
            rows = self.snapshot.details.rows(self._known[path])
            self._rows_then[path] = None if rows is None else {row[NAME]: row for row in rows}
        return self._rows_then[path]

    def keep(self) -> None:
        """Write the scan cache; called only after what was scanned is durable and acknowledged.

        Where this process scans again and again that is put off, as long as it is little.
        """
        if not self.worth_keeping:
            return
        self.worth_keeping = False
        if self.watch is None:
            self.memory.keep(self.snapshot)
        else:
            self.watch.keep(self._folder, self.snapshot, result=self.result)

    def keep_restored(
        self,
        brought: Mapping[bytes, Proof],
        *,
        folders: Mapping[bytes, int],
        trial: Callable[[], ObjectWriter],
        cap: int,
    ) -> None:
        """Do so, with what a restore has brought since, as far as that can be taken in.

        ``folders`` are directories in which it was proven, open. ``trial`` begins a pack that becomes
        nothing, for trees that have to be put together. Where somebody watches, who hears of all that the
        restore did, no directory may be gone.
        """
        found = self._restored(brought, opened=folders, trial=trial, cap=cap) if brought else None
        if found is None or (self.watch is not None and len(found.records) != len(self.snapshot.records)):
            self.keep()
            return
        self.worth_keeping = False
        if self.watch is None:
            self.memory.keep(found, restored=True)
        else:
            self._keep_watched(self.watch, found, places=by_parent(brought), opened=folders)

    def _keep_watched(
        self,
        watch: DirectoryWatch,
        found: CachedTree,
        *,
        places: Mapping[bytes, Collection[bytes]],
        opened: Mapping[bytes, int],
    ) -> None:
        from lastgood.scanner.restored import TouchedFolders, look_again  # lazily: no save needs it

        def again(known: CachedTree) -> None:
            try:
                with TouchedFolders(self._root, exact_on=watch.device_at, opened=opened) as folders:
                    look_again(folders, places, scanned=self.snapshot.records, known=known, watch=watch)
            except OSError:  # one is gone, or replaced: the next scan finds out
                pass

        watch.keep_restored(
            self._folder, found, scanned=self.snapshot.records, places=places.keys(), look_again=again
        )

    def _restored(
        self,
        brought: Mapping[bytes, Proof],
        *,
        opened: Mapping[bytes, int],
        trial: Callable[[], ObjectWriter],
        cap: int,
    ) -> CachedTree | None:
        from lastgood.scanner.restored import Restored, TouchedFolders  # lazily: no save needs it

        try:
            folders = TouchedFolders(self._root, exact_on=self.exact_on, opened=opened)
        except OSError:
            return None
        with folders:
            restored = Restored(
                self.snapshot,
                then=self._known,
                missing=self._objects.missing,
                ignored=lambda path: self.ignored(path, directory=False),
                folders=folders,
                cap=cap,
            )
            try:
                return restored.taken_in(brought, trial=trial)
            except Storage:  # what was to be done is: the next scan will be slower, that is all
                return None

    @property
    def fresh_texts(self) -> Mapping[bytes, tuple[Text, Text]]:
        """The ignore files that this scan read, by directory."""
        return self._fresh

    @property
    def outer_rules(self) -> IgnoreState:
        """The ignore rules outside the workspace's files."""
        return self._rules

    @property
    def _root(self) -> bytes:
        assert self.snapshot.conditions is not None
        return self.snapshot.conditions.root

    def _captured(self, path: bytes, record: Record) -> bool:
        if not path or not record[FLAGS] & BARE:
            return True
        above, _, name = path.rpartition(b"/")
        rows = self._rows_of(above) if above in self.snapshot.records else None
        row = None if rows is None else rows.get(name)
        return row is not None and row[STATE] <= RACY

    def _rows_of(self, path: bytes) -> dict[bytes, Row] | None:
        if path not in self._rows:
            rows = self.snapshot.details.rows(self.snapshot.records[path])
            self._rows[path] = None if rows is None else {row[NAME]: row for row in rows}
        return self._rows[path]

    def _texts(self, path: bytes) -> tuple[Text, Text]:
        texts = IgnoreFiles(
            self.snapshot.records,
            details=self.snapshot.details,
            objects=self._objects,
            fresh=self._fresh,
        )
        try:
            return texts.of(path)
        except DetailsLost:
            return UNREADABLE, UNREADABLE


_name: Callable[[Row], bytes] = itemgetter(NAME)
_first: Callable[[Difference], bytes] = itemgetter(0)


def _told(edited: Iterable[tuple[bytes, Row, Row]]) -> list[Difference]:
    """Return files with other contents as differences."""
    return [(path, "modified", entry_of(was, None), entry_of(row, None)) for path, was, row in edited]


def _paired(old: Sequence[Row], new: Sequence[Row]) -> Iterable[tuple[Row | None, Row | None]]:
    """Return the rows of one directory then and now by name, None where there is none; both are sorted."""
    if len(old) == len(new) and all(map(eq, map(_name, old), map(_name, new))):
        return zip(old, new, strict=True)
    gone = {row[NAME]: row for row in old}
    came = [(gone.pop(row[NAME], None), row) for row in new]
    return [*came, *((row, None) for row in gone.values())]


def _is(record: Record, tree: TreeId) -> bool:
    """Tell whether a directory had an identity when a record of it was made."""
    return record[TREE] == tree.tree and record[MODES] == tree.modes


def _entries(path: bytes, rows: Iterable[Row], records: Mapping[bytes, Record]) -> list[Entry]:
    """Return the captured entries of a directory."""
    return [entry_of(row, records.get(join(path, row[NAME]))) for row in rows if row[STATE] <= RACY]


def _ignored_in(path: bytes, rows: Iterable[Row]) -> list[bytes]:
    ignored = [row for row in rows if row[STATE] == IGNORED]
    directories = [row[NAME] + b"/" for row in ignored if row[MODE] & FORMAT_MASK == FORMAT_DIRECTORY]
    others = [row[NAME] for row in ignored if row[MODE] & FORMAT_MASK != FORMAT_DIRECTORY]
    return [join(path, name) for name in (*directories, *others)[:MOST_NAMED]]


def _is_alike(one: Record | None, other: Record | None) -> bool:
    """Tell whether a directory has the same identity by two scans."""
    if one is other:
        return True
    return one is not None and other is not None and one[TREE : MODES + 1] == other[TREE : MODES + 1]
