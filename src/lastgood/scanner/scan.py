"""Reads a workspace into a tree, in this process."""

from __future__ import annotations

import gc
import os
import time
from marshal import dumps

from lastgood.files import digest
from lastgood.host import ScanResult
from lastgood.ignore import Includes
from lastgood.model.tree import Gap, TreeId
from lastgood.paths import DEEPEST, LONGEST_PATH, join
from lastgood.scanner import (
    BUDGET,
    BYTES,
    DEPENDENT,
    DOUBTFUL,
    FILES,
    FLAGS,
    GAPS,
    LEFT,
    MODES,
    NESTED,
    OID,
    PRIVATE,
    RACY,
    REASONS,
    STATE,
    TREE,
    UNSTABLE,
    cache,
)
from lastgood.scanner.cache import CacheConditions, CachedTree, CacheMemory, Details, DetailsLost
from lastgood.scanner.examine import Examiner
from lastgood.scanner.read import ContentReader, Lister, multigrain_device, open_root, proving_device
from lastgood.scanner.scanned import IgnoreFiles, WorkspaceScan
from lastgood.scanner.select import (
    Forced,
    HandWritten,
    Previous,
    Project,
    RuleBook,
    Selector,
    ignore_state,
    relative,
)
from lastgood.scanner.walk import Builder, Trust, Walk, never

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence

    from lastgood.engine import ObjectReader, ObjectWriter
    from lastgood.host import Clock, ScanRequest
    from lastgood.model.checkpoint import IgnoreState
    from lastgood.scanner import Record, Row
    from lastgood.scanner.parallel import ScanBegun, SharedLook
    from lastgood.scanner.read import Listing
    from lastgood.scanner.stat_cache import StatCache
    from lastgood.scanner.watch import DirectoryWatch


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
# So often a scan begins anew for a folder that is moved to and fro, and is looked at in neither place.
_MOST_AGAIN = 4
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
        again = 0
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
            except FolderMoved:  # a few times at most
                again += 1
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
        again: int,
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
        self, known: CachedTree, *, root: int, reader: ContentReader, begun: ScanBegun | None
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

    def _reader(self, request: ScanRequest, root: int, writer: ObjectWriter) -> ContentReader:
        cap = request.settings.max_file_size
        return ContentReader(writer, root=root, clock=self._clock, cap=cap, exact_on=self._exact_on)

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
        self.conditions: CacheConditions
        for known, self.rules, self.conditions in _latest:
            if known == asked:
                return
        self.rules = ignore_state(settings, texts)
        self.conditions = _conditions(request, self.rules, index=index)
        _latest[:] = [(asked, self.rules, self.conditions)]


# What the last scan was asked and found outside, with what came of it: a process scans again and again.
_latest: list[tuple[object, IgnoreState, CacheConditions]] = []


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
        reader: ContentReader,
        bounds: ScanLimits,
    ) -> None:
        known = check.known
        self.known: CachedTree = known
        self.reader: ContentReader = reader
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

    def run(self, root: int, *, sleep: Callable[[float], None], again: int) -> None:
        """Do it, from the open root of the workspace, so many times ``again`` as something was moved."""
        try:
            self._run(root, sleep=sleep, again=again)
        finally:
            self.examiner.close()

    def _run(self, root: int, *, sleep: Callable[[float], None], again: int) -> None:
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
        if self._walk.gone_from_listing and again < _MOST_AGAIN and watch is None:
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

    def _look_for_moved(self, root: int, *, again: int) -> None:
        """Begin anew if a folder was moved to where the walk had been; in the end it is a gap."""
        from lastgood.scanner.moved import moved_folders  # lazily: hardly ever anything vanishes

        walk = self._walk
        for path in moved_folders(root, walk.gone_at_entry, visited=walk.visited, began=self._began):
            if again < _MOST_AGAIN:
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


def _conditions(request: ScanRequest, rules: IgnoreState, *, index: bytes) -> CacheConditions:
    settings = request.settings
    where = relative(request.store, request.root)
    texts = (rules.excludes, rules.includes, rules.info_exclude, rules.global_exclude, rules.readable)
    patterns = (texts, settings.built_in_includes)
    policy = dumps((settings.max_file_size, patterns, where, LONGEST_PATH, DEEPEST, request.left_by), 2)
    return CacheConditions(
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
    known: CacheConditions | None, now: CacheConditions, *, previous: TreeId | None, writer: ObjectWriter
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
