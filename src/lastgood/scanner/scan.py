"""Reads a workspace into a tree, in this process."""

from __future__ import annotations

import gc
import os
import time
from _operator import eq, itemgetter
from marshal import dumps

from lastgood.errors import Damaged, Storage
from lastgood.files import digest
from lastgood.host import ScanResult, Stamp
from lastgood.ignore import GITIGNORE, LASTGOODIGNORE, UNREADABLE, Includes, TreeRules
from lastgood.model.tree import DIRECTORY, Gap, TreeId
from lastgood.paths import DEEPEST, LONGEST_PATH, join
from lastgood.scanner import (
    ABOVE,
    BARE,
    BELOW,
    BUDGET,
    BYTES,
    CTIME,
    DEPENDENT,
    DOUBTFUL,
    FILES,
    FLAGS,
    FORMAT_DIRECTORY,
    FORMAT_FILE,
    FORMAT_MASK,
    GAPS,
    IGNORED,
    INODE,
    LEFT,
    MODE,
    MODES,
    MTIME,
    NAME,
    NESTED,
    OID,
    PRIVATE,
    RACY,
    REASONS,
    SIZE,
    STATE,
    TOKEN,
    TREE,
    UNSTABLE,
    cache,
)
from lastgood.scanner.cache import CachedTree, CacheMemory, Conditions, Details, DetailsLost
from lastgood.scanner.examine import Examiner
from lastgood.scanner.read import (
    FileReader,
    Lister,
    multigrain_device,
    names_in,
    open_root,
    proving_device,
    state_of,
)
from lastgood.scanner.select import (
    IGNORE_FILES,
    Forced,
    HandWritten,
    Previous,
    Project,
    RuleBook,
    Selector,
    ignore_state,
    relative,
)
from lastgood.scanner.walk import Builder, Trust, Walk, by_parent, entry_of, never

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence

    from lastgood.engine import ObjectReader, ObjectWriter
    from lastgood.host import Clock, Proof, ScanRequest
    from lastgood.ignore import Text
    from lastgood.literals import ChangeStatus
    from lastgood.model.checkpoint import IgnoreState
    from lastgood.model.tree import Difference, Entry, Listings
    from lastgood.scanner import Record, Row
    from lastgood.scanner.parallel import ScanBegun, SharedLook
    from lastgood.scanner.read import Listing
    from lastgood.scanner.stat_cache import StatCache
    from lastgood.scanner.watch import DirectoryWatch


# --- One reading of a workspace, as the verbs see it ---

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


# --- How long a scan may take: past its budget the rest is left out (rule S9), without patience it ends ---

# Beyond so many files another process, where two look, is quicker although no thread hinders this one.
MOST_FILES = 2_000
# What a scan may take: several times what it does undisturbed (3 µs a file), and a little.
_SECONDS_A_FILE = 10e-6
_SECONDS = 0.005


class Starved(Exception):
    """The scan is not to go on here."""


class ThreadBudget:
    """Bounds the time that a scan beside other threads may take (decision 022).

    ``worn`` tells that it took longer. ``factor`` makes it longer than it has to be. More files than ``most``
    are none of its business.
    """

    def __init__(self, *, factor: float = 1.0, most: float | None = None) -> None:
        self.worn: bool = False
        self._factor = factor
        self._most = MOST_FILES if most is None else most
        self._until = 0.0

    def begin(self, records: Mapping[bytes, Record]) -> None:
        """Begin, knowing what the last scan found; `Starved` if that was too much, or nothing."""
        top = records.get(b"")
        if top is None or top[FILES] > self._most:
            raise Starved
        allowed = _SECONDS + top[FILES] * _SECONDS_A_FILE
        self._until = time.monotonic() + allowed * self._factor

    def check(self) -> None:
        """Go on, or raise `Starved`."""
        if time.monotonic() > self._until:
            self.worn = True
            raise Starved


class ScanLimits:
    """What bounds one scan; ``budget`` is in seconds from now."""

    def __init__(self, clock: Clock, *, budget: float | None, thread_budget: ThreadBudget | None) -> None:
        self.clock = clock
        self._deadline = None if budget is None else clock.monotonic() + budget
        self._thread_budget = thread_budget
        self.is_over: Callable[[], bool] = never if budget is None else self._is_over
        # Not asked where a scan waits: that is no sign of other threads.
        self.is_late: Callable[[], bool] = self.is_over if thread_budget is None else self._is_late

    def _is_over(self) -> bool:
        assert self._deadline is not None
        return self.clock.monotonic() > self._deadline

    def _is_late(self) -> bool:
        assert self._thread_budget is not None
        self._thread_budget.check()
        return self.is_over()


# --- Reads a workspace into a tree, in this process ---

# Asking about the file system takes as long as listing so many directories.
_SEVERAL_DIRECTORIES = 16
# If more than one directory in so many proves more than before, that is worth keeping for itself.
_A_PART = 8


class ImportLost(Exception):
    """Objects of the project that a scan relied on could not be copied: their files have to be read again."""


class LinkMet(Exception):
    """A file has a link that is new: what was taken over without a look may have been written through it."""


class FolderMoved(Exception):
    """A folder was moved to where the scan had been already: under neither name it was seen."""


class WorkspaceScanner:
    """Scans workspaces; ``cache`` is the folder for what one scan remembers for the next.

    ``objects`` are what checkpoints so far hold. ``sleep`` waits for some seconds. ``exact_on`` returns, for
    an open directory, the device on which times prove each version of a file, None where they do not.
    What ``watch`` vouches for is not looked at. ``memory`` is what earlier scans know of the cache.
    """

    def __init__(
        self,
        *,
        cache: bytes,
        clock: Clock,
        objects: ObjectReader,
        sleep: Callable[[float], None] = time.sleep,
        exact_on: Callable[[int], int | None] = multigrain_device,
        watch: DirectoryWatch | None = None,
        memory: CacheMemory | None = None,
    ) -> None:
        self._watch = watch
        self.memory: CacheMemory = CacheMemory(cache) if memory is None else memory
        self._folder = cache
        self._clock = clock
        self._objects = objects
        self._sleep = sleep
        self._exact_on = exact_on

    def scan(
        self,
        request: ScanRequest,
        *,
        writer: ObjectWriter,
        thread_budget: ThreadBudget | None = None,
        begun: ScanBegun | None = None,
    ) -> WorkspaceScan:
        """Read the workspace; `NotFound` or `Unsafe` for the root, `Storage` for the store's disk.

        With ``thread_budget`` it may raise `Starved`; what was added to the writer until then is whole.
        """
        pausing = gc.isenabled()
        gc.disable()  # nothing here is cyclic, and looking for cycles takes a third of a first scan
        try:
            root = open_root(request.root) if begun is None else os.dup(begun.root)
            try:
                outside = Outside(request)
                found = (
                    None
                    if self._watch is None
                    else self._found_again(request, root, self._watch, outside=outside, writer=writer)
                )
                if found is not None:
                    return found
                known = self._known(request.root) if begun is None else begun.known
                if thread_budget is not None:
                    thread_budget.begin(known.records)
                return self._scan_again(
                    request,
                    root=root,
                    outside=outside,
                    known=known,
                    writer=writer,
                    thread_budget=thread_budget,
                    begun=begun,
                )
            finally:
                os.close(root)
        finally:
            if pausing:
                gc.enable()

    def _scan_again(
        self,
        request: ScanRequest,
        *,
        root: int,
        outside: Outside,
        known: CachedTree,
        writer: ObjectWriter,
        thread_budget: ThreadBudget | None,
        begun: ScanBegun | None,
    ) -> WorkspaceScan:
        """Scan, as often as it turns out that something has to be looked at once more."""
        again = False
        while True:
            try:
                return self._scan(
                    request,
                    root=root,
                    outside=outside,
                    known=known,
                    writer=writer,
                    thread_budget=thread_budget,
                    again=again,
                    begun=begun,
                )
            except LinkMet:  # once at most: then everything is looked at
                pass
            except FolderMoved:  # once at most: another time it is a gap
                again = True
            except (DetailsLost, ImportLost):  # each of them once at most
                known = CachedTree(None, records={}, details=Details(self._folder, b""))
            outside, begun = Outside(request), None
            if self._watch is not None:
                self._watch.begin(root, device_of=proving_device)

    def _known(self, root: bytes) -> CachedTree:
        """Return what the last scan left; it is read again unless it was this process's."""
        if self._watch is None:
            return self.memory.load(root)
        held = self._watch.known
        if held is not None and cache.is_of(held, self._folder, root):
            return cache.again(held, self._folder)
        return cache.load(self._folder, root)

    def _found_again(
        self,
        request: ScanRequest,
        root: int,
        watch: DirectoryWatch,
        *,
        outside: Outside,
        writer: ObjectWriter,
    ) -> WorkspaceScan | None:
        """Return what the last scan found if nothing was heard since, and nothing else changed."""
        last = watch.last_scan(root, device_of=proving_device)
        if last is None or request.forced or request.fresh or request.budget is not None:
            return None
        result, snapshot = last
        trust = _trust(snapshot.conditions, outside.conditions, previous=request.previous, writer=writer)
        if not trust.is_whole or result.partial or snapshot.source != cache.source_of(self._folder):
            return None
        return self._as_before(result, snapshot, outside=outside)

    def _as_before(self, result: ScanResult, snapshot: CachedTree, *, outside: Outside) -> WorkspaceScan:
        """Return what an earlier scan found, with what the project's repository says now."""
        nested = () if result.git is None else [one.path for one in result.git.nested]
        git = outside.project.state(nested)
        found = WorkspaceScan(
            result if git == result.git else result.replace(git=git),
            folder=self._folder,
            snapshot=snapshot,
            known=snapshot.records,
            objects=self._objects,
            rules=outside.rules,
            texts={},
            worth_keeping=False,
            memory=self.memory,
        )
        found.watch, found.exact_on = self._watch, self._exact_on
        return found

    def _scan(
        self,
        request: ScanRequest,
        *,
        root: int,
        outside: Outside,
        known: CachedTree,
        writer: ObjectWriter,
        thread_budget: ThreadBudget | None,
        again: bool,
        begun: ScanBegun | None,
    ) -> WorkspaceScan:
        project, conditions = outside.project, outside.conditions
        if not known.records and project.objects:
            writer.import_blobs(project.objects, project.named_objects())
        trust = _trust(known.conditions, conditions, previous=request.previous, writer=writer)
        bounds = ScanLimits(self._clock, budget=request.budget, thread_budget=thread_budget)
        reader = self._reader(request, root, writer)
        check = self._quick_check(known, root=root, reader=reader, begun=begun)
        try:
            if not request.forced and not request.fresh:
                check.run(root, trust=trust, late=bounds.is_late)
            if check.result is not None:
                check.end(check.result)
                return self._as_before(check.result, known, outside=outside)
            scan_pass = ScanPass(
                request,
                outside=outside,
                check=check,
                trust=trust,
                objects=self._objects,
                reader=reader,
                bounds=bounds,
            )
            scan_pass.run(root, sleep=self._sleep, again=again)
        finally:
            check.close()
        if not writer.settle_imports():
            raise ImportLost
        found = self._found(scan_pass, outside)
        check.end(found.result)
        return found

    def _quick_check(
        self, known: CachedTree, *, root: int, reader: FileReader, begun: ScanBegun | None
    ) -> QuickCheck:
        lister = Lister(
            device=_proving(root, known),
            clock=self._clock,
            exact_on=lambda: reader.exact_on(root),
            watch=self._watch,
        )
        if begun is None:
            return QuickCheck(known, lister=lister, began=self._clock.now())
        check = QuickCheck(known, lister=lister, began=begun.began)
        check.shared = begun.look
        return check

    def _reader(self, request: ScanRequest, root: int, writer: ObjectWriter) -> FileReader:
        cap = request.settings.max_file_size
        return FileReader(writer, root=root, clock=self._clock, cap=cap, exact_on=self._exact_on)

    def _found(self, scan_pass: ScanPass, outside: Outside) -> WorkspaceScan:
        records, known = scan_pass.records, scan_pass.known
        conditions = outside.conditions.replace(tree=(records[b""][TREE], records[b""][MODES]))
        found = WorkspaceScan(
            scan_pass.result(outside),
            folder=self._folder,
            snapshot=known.followed(conditions, records=records),
            known=known.records,
            objects=self._objects,
            rules=outside.rules,
            texts=scan_pass.examiner.texts,
            worth_keeping=scan_pass.changed or conditions != known.conditions,
            memory=self.memory,
        )
        found.watch, found.exact_on = self._watch, scan_pass.reader.exact_on
        found.visited, found.edited = scan_pass.visited, scan_pass.edited
        if self._watch is not None and not found.worth_keeping:
            self._watch.remember(found.result, found.snapshot, scanned=records)
        return found


class Outside:
    """What decides beside the files, asked for once: the project's repository, and outer rules."""

    __slots__ = ("conditions", "project", "rules")

    def __init__(self, request: ScanRequest) -> None:
        settings, place = request.settings, (request.root, request.store)
        self.project: Project = Project(request.root, settings=settings)
        texts, index = self.project.outer_texts(settings), self.project.signature
        asked = place, settings, request.generation, request.left_by, texts, index
        self.rules: IgnoreState
        self.conditions: Conditions
        for known, self.rules, self.conditions in _latest:
            if known == asked:
                return
        self.rules = ignore_state(settings, texts)
        self.conditions = _conditions(request, self.rules, index=index)
        _latest[:] = [(asked, self.rules, self.conditions)]


# What the last scan was asked and found outside, with what came of it: a process scans again and again.
_latest: list[tuple[object, IgnoreState, Conditions]] = []


class QuickCheck:
    """A look at the folders that this process knows, before any is judged.

    ``changed`` are those that are not as they were; None where all have to be walked through. ``result`` is
    what a scan came to that found everything as it is. ``began`` is when it did. ``shared`` is the look of
    two processes that has begun already.
    """

    def __init__(self, known: CachedTree, *, lister: Lister, began: int) -> None:
        self.known: CachedTree = known
        self.lister: Lister = lister
        self.began: int = began
        self.shared: SharedLook | None = None
        self.changed: dict[bytes, Listing] | None = None
        self.result: ScanResult | None = None
        self._folders: StatCache | None = None
        self._is_as_it_was = False

    def run(self, root: int, *, trust: Trust, late: Callable[[], bool]) -> None:
        """Check, as far as the cache is believed."""
        known = self.known
        if self.lister.watch is not None or not known.states or not (trust.verdicts and trust.objects):
            return
        if known.is_large:  # two processes look
            return
        folders = _taken_out(known)
        if folders is None:
            return
        doubt = DOUBTFUL if trust.index and trust.previous else DOUBTFUL | DEPENDENT
        self.changed = folders.changed(
            root, lister=self.lister, doubt=doubt, late=None if late is never else late
        )
        self._folders, self._is_as_it_was = folders, self.changed == {}
        # What its rules left out depends on index and previous tree, which are not in the records.
        if self._is_as_it_was and trust.is_whole:
            self.result = folders.result

    def end(self, result: ScanResult) -> None:
        """Put back what is known for the next scan, with what this came to if it found everything as it was.

        Not before: by then another thread's scan may know more, and say what this came to of that.
        """
        if self._folders is None:
            return
        if self._is_as_it_was:
            self._folders.result = result
        self.known.folders[:] = [self._folders]

    def close(self) -> None:
        """Close what no walk has taken."""
        self.lister.close()
        for listing in (self.changed or {}).values():
            os.close(listing.descriptor)
        self.changed = None


def _taken_out(known: CachedTree) -> StatCache | None:
    """Return the folders that this process looked at last; None where it did not, or cannot go by them.

    Another scan that begins before they are put back has some of its own.
    """
    try:
        folders = known.folders.pop()
    except IndexError:
        folders = None
    if folders is not None and folders.follows(known.records, known.states):
        return folders  # type: ignore[no-any-return]  # what the cache keeps has no type there
    from lastgood.scanner.stat_cache import folders_of  # lazily: a command looks once

    return folders_of(known.records, known.states)


class ScanPass:
    """Walk, settle and build once; ``records`` are what came of it."""

    # The directories with gaps, private files or repositories in them; None where nobody knows which.
    telling: Collection[bytes] | None = None
    # The directories that were looked at, where all others are as before; None where that are all.
    visited: Collection[bytes] | None = None
    # The rows of files with other contents than before, by path; None where more is otherwise.
    edited: Sequence[tuple[bytes, Row, Row]] | None = None

    def __init__(
        self,
        request: ScanRequest,
        *,
        outside: Outside,
        check: QuickCheck,
        trust: Trust,
        objects: ObjectReader,
        reader: FileReader,
        bounds: ScanLimits,
    ) -> None:
        known = check.known
        self.known: CachedTree = known
        self.reader: FileReader = reader
        self._bounds, self._token, self._began = bounds, outside.conditions.policy, check.began
        forced = Forced(request.forced, fresh=request.fresh)
        previous = Previous(request.previous, objects=objects)
        texts = IgnoreFiles(known.records, details=known.details, objects=objects, fresh={})
        selector = Selector(
            rules=RuleBook(outside.rules, texts=texts.of),
            includes=Includes(request.settings.include),
            hand_written=HandWritten(request.settings.built_in_includes),
            forced=forced,
            index=outside.project.index,
            previous=previous,
            store=relative(request.store, request.root),
            is_ours=_names_of(request.left_by),
        )
        self.examiner: Examiner = Examiner(
            selector,
            reader=reader,
            cap=request.settings.max_file_size,
            late=bounds.is_late,
            gone=set() if trust.objects else _gone(known, reader.writer),
        )
        self._walk = Walk(
            known,
            trust=trust,
            lister=check.lister,
            examiner=self.examiner,
            forced=forced,
            previous=previous,
            late=bounds.is_late,
            found=check.changed,
            shared=check.shared,
        )
        self.records: MutableMapping[bytes, Record] = {}
        self.changed: bool = True

    def run(self, root: int, *, sleep: Callable[[float], None], again: bool) -> None:
        """Do it, from the open root of the workspace; ``again`` because of what was moved meanwhile."""
        try:
            self._run(root, sleep=sleep, again=again)
        finally:
            self.examiner.close()

    def _run(self, root: int, *, sleep: Callable[[float], None], again: bool) -> None:
        watch = self._walk.watch
        self._walk.run(root, token=self._token)
        self.examiner.finish()
        if self._walk.gone_at_entry:
            self._look_for_moved(root, again=again)
        if (
            (self._walk.dropped or self._walk.gone_from_listing)
            and not again
            and watch is not None
            and watch.has_more()
        ):
            raise FolderMoved  # what is gone may be where the walk passed by
        if self._walk.gone_from_listing and not again and watch is None:
            self._look_for_gone(root)
        if watch is not None and watch.refutes():
            raise LinkMet
        if self.examiner.unsettled:
            bounds = self._bounds
            from lastgood.scanner.settlement import Settlement

            Settlement(root, reader=self.reader, clock=bounds.clock, sleep=sleep, late=bounds.is_over).run(
                self.examiner.unsettled
            )
        builder = Builder(
            self._walk, before=self.known.records, details=self.known.details, writer=self.reader.writer
        )
        self.records = builder.run()
        self.edited = builder.edits
        self.visited = self._walk.order if self._walk.is_sparing else None
        if watch is not None:
            watch.end(self.records, visited=self.visited, gone=self._walk.dropped)
            self.telling = watch.telling
        self.changed = builder.changed or self._walk.renewed * _A_PART > len(self.records)

    def result(self, outside: Outside) -> ScanResult:
        """Return what this came to."""
        readable = not self.examiner.unreadable_rules
        return _result(self.records, outside, readable=readable, among=self.telling)

    def _look_for_moved(self, root: int, *, again: bool) -> None:
        """Begin anew if a folder was moved to where the walk had been; the second time it is a gap."""
        from lastgood.scanner.moved import moved_folders  # lazily: hardly ever anything vanishes

        walk = self._walk
        for path in moved_folders(root, walk.gone_at_entry, visited=walk.visited, began=self._began):
            if not again:
                raise FolderMoved
            walk.not_entered[path] = UNSTABLE

    def _look_for_gone(self, root: int) -> None:
        """Begin anew if a folder was moved to where the walk had been before it came to where that was."""
        from lastgood.scanner.moved import has_come  # lazily: folders seldom go

        if has_come(root, self._walk.gone_from_listing, visited=self._walk.visited, began=self._began):
            raise FolderMoved


def _proving(root: int, known: CachedTree) -> int | None:
    """Return the device on which times prove names, None also where asking for it would cost more."""
    return None if 0 < len(known.records) < _SEVERAL_DIRECTORIES else proving_device(root)


def _is_alike(one: Record | None, other: Record | None) -> bool:
    """Tell whether a directory has the same identity by two scans."""
    if one is other:
        return True
    return one is not None and other is not None and one[TREE : MODES + 1] == other[TREE : MODES + 1]


def _conditions(request: ScanRequest, rules: IgnoreState, *, index: bytes) -> Conditions:
    settings = request.settings
    where = relative(request.store, request.root)
    texts = (rules.excludes, rules.includes, rules.info_exclude, rules.global_exclude, rules.readable)
    patterns = (texts, settings.built_in_includes)
    policy = dumps((settings.max_file_size, patterns, where, LONGEST_PATH, DEEPEST, request.left_by), 2)
    return Conditions(
        root=request.root,
        generation=request.generation,
        policy=digest(policy),
        index=index,
        tree=(b"", b""),
    )


def _names_of(restores: tuple[str, ...]) -> Callable[[bytes], bool] | None:
    """Return what tells the temporary names of some restores, None where there are none."""
    if not restores:
        return None
    from lastgood.renames import is_of  # lazily: hardly any save meets such names

    return lambda name: any(is_of(name, token) for token in restores)


def _trust(
    known: Conditions | None, now: Conditions, *, previous: TreeId | None, writer: ObjectWriter
) -> Trust:
    """Return what a cache proves; of the objects nothing where its own tree is not stored.

    A store that was put back from a copy has the same generation, and may lack what the cache names.
    """
    if known is None:
        return Trust(verdicts=False, objects=False, index=False, previous=False)
    return Trust(
        verdicts=known.policy == now.policy,
        objects=known.generation == now.generation and not writer.lacks(filter(None, known.tree)),
        index=known.index == now.index,
        previous=previous is not None and known.tree == (previous.tree, previous.modes),
    )


def _gone(known: CachedTree, writer: ObjectWriter) -> set[bytes]:
    """Return the objects that the cache names and the engine cannot be trusted to have (invariant 4)."""
    named: set[bytes] = set()
    for record in known.records.values():
        rows = known.details.rows(record)
        if rows is None:
            raise DetailsLost
        named.update(row[OID] for row in rows if row[STATE] <= RACY and row[OID])
    return writer.lacks(named) if named else named


def _result(
    records: Mapping[bytes, Record],
    outside: Outside,
    *,
    readable: bool,
    among: Collection[bytes] | None = None,
) -> ScanResult:
    """Return what a scan came to; ``among`` are the directories with gaps, private or nested ones."""
    gaps: list[Gap] = []
    private: list[bytes] = []
    nested: list[bytes] = []
    partial = False
    for path in records if among is None else among:
        record = records[path]
        for name, state, size in record[GAPS]:
            gaps.append(Gap(path=join(path, name), reason=REASONS[state], size=None if size < 0 else size))
            partial = partial or state == BUDGET
        if record[PRIVATE]:
            private.extend(join(path, name) for name in record[PRIVATE])
        if record[FLAGS] & NESTED and path:
            nested.append(path)
    gaps.sort(key=_path)
    top = records[b""]
    return ScanResult(
        tree=TreeId(tree=top[TREE], modes=top[MODES]),
        files=top[FILES],
        size=top[BYTES],
        ignored=top[LEFT],
        gaps=tuple(gaps),
        partial=partial,
        private=tuple(sorted(private)),
        git=outside.project.state(nested),
        ignore=outside.rules if readable else outside.rules.replace(readable=False),
    )


def _path(gap: Gap) -> bytes:
    return gap.path
