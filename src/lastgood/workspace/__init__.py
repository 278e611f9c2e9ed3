"""The composition root, and the synchronous API."""

from __future__ import annotations

import os
import sys
from _thread import _count
from _warnings import warn  # as `warnings` has it, which no command loads

from lastgood.configuration import read_settings
from lastgood.context import Context, Writers
from lastgood.errors import Busy, Storage, Unsafe
from lastgood.files import RESERVE, count_disk_threads, path_exists
from lastgood.host import SystemClock
from lastgood.ids import SESSION_VARIABLE
from lastgood.paths import printable, to_bytes, to_text
from lastgood.settings import PACKS_DUE, PACKS_WHEN_IDLE
from lastgood.store import is_absent
from lastgood.value import cast
from lastgood.workspace.arguments import (
    JOURNAL,
    KEPT,
    admit,
    anchor_path,
    check_flags,
    find_root,
    no_store,
    place_of,
    plain,
    programs,
    store_path,
)
from lastgood.workspace.store import AbsentStore, LedgersOfStore, Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Literal, TypeVar

    from lastgood.catalogue.checkpoints import SqliteCatalogue
    from lastgood.conversation.files import EvidenceMemory
    from lastgood.engine import ObjectWriter
    from lastgood.errors import Invalid
    from lastgood.host import Clock, Processes, Reserve, ScanRequest
    from lastgood.journal import FileJournal
    from lastgood.literals import Consolidation, Durability, Maintenance
    from lastgood.model.calls import Observer
    from lastgood.model.checkpoint import HealthNote
    from lastgood.model.report import StoreSize
    from lastgood.scanner import parallel
    from lastgood.scanner.cache import CacheMemory
    from lastgood.scanner.remote import RemoteScanner
    from lastgood.scanner.scan import WorkspaceScanner
    from lastgood.scanner.watch import DirectoryWatch
    from lastgood.settings import Settings
    from lastgood.workspace.api import Workspace
    from lastgood.workspace.arguments import PathLike
    from lastgood.workspace.opened import OpenWorkspace
    from lastgood.worktree import Applier, ProjectGit, Scan, ScanBegun, TextMerger, Transcripts

    Made = TypeVar("Made")
    Opened = TypeVar("Opened", bound=OpenWorkspace)
    # The settings that count, and what is wrong with files of them.
    Configured = tuple[Settings, tuple[Invalid, ...]]
    Purpose = Literal["make", "find", "need", "repair"]

__all__ = ["Workspace", "open_workspace"]


# --- Chooses where a scan runs: here, or in a process of its own because of other Python threads here ---

# After threads kept the interpreter from a scan, so many are not tried beside them.
_SHUNNED = 16


class ScannerOfChoice:
    """Scans here when alone, or as long as the other threads leave room for it; else elsewhere.

    A busy thread could make a scan a thousand times slower (decision 022). Where a workspace is watched from
    here (``watch``) a large one is scanned here, too, so that the next one looks only where anything changed.
    """

    def __init__(
        self,
        here: Callable[[CacheMemory, DirectoryWatch | None], WorkspaceScanner],
        elsewhere: Callable[[], RemoteScanner] | None,
        *,
        memory: Callable[[], CacheMemory],
        watch: Callable[[], DirectoryWatch | None],
    ) -> None:
        self._watch = watch
        self._here = here
        self._memory_of = memory
        # What scans here know of the cache need not be read again.
        self._memory: CacheMemory | None = None
        self._elsewhere = elsewhere
        self._remote: RemoteScanner | None = None
        self._shunning = 0
        self._is_large = False

    def begin(self, root: bytes) -> ScanBegun | None:
        """Begin what a scan needs not wait for, where it would be here; None where that is nothing.

        Of a large workspace another process begins to look. Of one of many folders the cache is read.
        """
        if _count() or self._watch() is not None:
            return None
        memory = self._remembering()
        if memory.is_small:
            return None
        known = memory.load(root)
        if not known.is_large and memory.remembers(known):
            return None
        from lastgood.scanner.parallel import begin_scan

        # As for a scan, whatever clock a caller has.
        return begin_scan(root, known, clock=SystemClock())

    def scan(self, request: ScanRequest, *, writer: ObjectWriter, begun: ScanBegun | None = None) -> Scan:
        """Read the workspace."""
        watch = self._watch()
        if watch is None or not watch.take_turn():
            return self._scan(request, writer=writer, watch=None, begun=begun)
        whole = False
        try:
            found = self._scan(request, writer=writer, watch=watch)
            whole = True
        finally:
            watch.end_turn(whole=whole)
        return found

    def close(self) -> None:
        """Write what was put off, and let go of the process that scans; harmless when repeated."""
        if self._memory is not None:
            self._memory.settle_up()
        if self._remote is not None:
            self._remote.close()

    def _scan(
        self,
        request: ScanRequest,
        *,
        writer: ObjectWriter,
        watch: DirectoryWatch | None,
        begun: ScanBegun | None = None,
    ) -> Scan:
        # Where the process has nothing else to do, no thread hinders it; of no store another can know.
        elsewhere = self._elsewhere
        if elsewhere is None or not _busy_threads() or (watch is not None and not watch.is_guest):
            return self._next(watch).scan(
                request, writer=writer, begun=cast("parallel.ScanBegun | None", begun)
            )
        found = self._beside_threads(request, writer=writer, watch=watch)
        if found is not None:
            return found
        if self._remote is None:
            self._remote = elsewhere()
        found = self._remote.scan(request, writer=writer)
        from lastgood.scanner import scan

        self._is_large = found.result.files > scan.MOST_FILES
        return found

    def _next(self, watch: DirectoryWatch | None) -> WorkspaceScanner:
        return self._here(self._remembering(), watch)

    def _remembering(self) -> CacheMemory:
        if self._memory is None:
            self._memory = self._memory_of()
        return self._memory

    def _beside_threads(
        self, request: ScanRequest, *, writer: ObjectWriter, watch: DirectoryWatch | None
    ) -> Scan | None:
        """Scan here while that goes well; None if it does not, or did not lately, or there is too much."""
        if self._is_large and watch is None:
            return None
        if self._shunning > 0:  # threads that count down together pass it by
            self._shunning -= 1
            return None
        from lastgood.scanner.scan import Starved, ThreadBudget

        thread_budget = ThreadBudget(most=None if watch is None else float("inf"))
        try:
            return self._next(watch).scan(request, writer=writer, thread_budget=thread_budget)
        except Starved:
            if watch is not None:
                watch.forget()  # where it was is not known
            self._shunning = _SHUNNED if thread_budget.worn else 0
            return None


def _busy_threads() -> int:
    """Return how many other threads may keep the interpreter: those that only wait to write do not.

    Nor do those that wait for the disk: the last one of a restore may end when the next has begun.
    """
    threads = _count() - count_disk_threads()
    if threads <= 0:
        return 0
    from lastgood.scanner.rest import RestThread  # lazily: hardly any process has threads

    return threads - RestThread.count()


# --- Starts maintenance in a separate action when it is due; no save waits for it ---

# A count of checkpoints costs about a millisecond; every so many packs is often enough.
_ASKED_EVERY = 8


class AutoMaintenance:
    """Decides whether maintenance is due, after a save and before a ledger is used; starts it detached."""

    def __init__(self, mode: Maintenance) -> None:
        self._mode = mode
        self._child: int | None = None

    def after_save(self, context: Context) -> None:
        """Start maintenance where it is due and wanted; failing to start it harms nothing."""
        if not path_exists(context.store + RESERVE):
            context.reserve.lay_in()
        self._start_if(_is_due, context)

    def when_idle(self, context: Context) -> None:
        """Start it where nobody has worked for a while, and there is something to tidy."""
        self._start_if(_is_worthwhile, context, extent="idle")

    def before_ledger(self, context: Context) -> None:
        """Start it where nobody saves, and what changed in the ledger has no copy."""
        self._start_if(lambda context: context.ledgers.is_copy_old(), context)

    def _start_if(
        self, is_due: Callable[[Context], bool], context: Context, *, extent: Consolidation = "due"
    ) -> None:
        if self._mode == "off":
            return
        if self._is_running():
            return
        try:
            due = is_due(context)
        except (Storage, Busy):
            return  # what was saved is saved
        if due:
            from lastgood.workspace.maintenance import start  # most saves need none of it

            root, store = os.fsdecode(context.root), os.fsdecode(context.store)
            packs, settings = context.engine.packs(), context.settings
            self._child = start(root, store, packs=packs, settings=settings, extent=extent)
            if self._child is not None:
                WorkspaceState.log("maintenance of %s started, process %d", store, self._child)

    def _is_running(self) -> bool:
        """Tell whether the maintenance started last still runs; one that ended is let go."""
        if self._child is None:
            return False
        try:
            ended, _ = os.waitpid(self._child, os.WNOHANG)
        except ChildProcessError:  # the caller collects all its children, or is a fork of ours
            ended = self._child
        if ended:
            self._child = None
        return self._child is not None


def _is_due(context: Context) -> bool:
    """Tell whether there are many packs, or (asked now and then) clearly too many checkpoints."""
    packs = context.engine.packs(lately=True)
    if packs >= PACKS_DUE:
        return True
    limit = context.settings.limits.max_checkpoints
    return packs % _ASKED_EVERY == 0 and context.catalogue.count_loose(context.key) > limit + limit // 10


def _is_worthwhile(context: Context) -> bool:
    """Tell whether there are packs to join, or too many checkpoints."""
    if context.engine.packs() >= PACKS_WHEN_IDLE:
        return True
    return context.catalogue.count_loose(context.key) > context.settings.limits.max_checkpoints


def maintain(root: str, store: str, extent: Consolidation = "due") -> None:
    """Tidy a store as the process that was started for it, by the settings of whoever started it.

    `NotFound` if the store has gone meanwhile.
    """
    from lastgood.workspace.api import Workspace
    from lastgood.workspace.maintenance import SETTINGS_VARIABLE, decode_settings

    settings = decode_settings(os.environ.pop(SETTINGS_VARIABLE))
    with open_as(
        Workspace, root, store=store, allow_root=True, settings=settings, maintenance="off", purpose="need"
    ) as workspace:
        workspace._maintained(extent)  # noqa: SLF001 - as one of its own kind


# --- Opens a workspace: one store, one folder, and all that works on them ---


def open_workspace(
    path: PathLike | None = None,
    *,
    store: PathLike | None = None,
    allow_root: bool = False,
    environment: Mapping[str, str] | None = None,
    settings: Settings | None = None,
    maintenance: Maintenance | None = None,
    clock: Clock | None = None,
    repair: bool = False,
    watch: bool = False,
) -> Workspace:
    """Open a workspace, making the store if there is none.

    Without a path it is the folder that ``LASTGOOD_WORKSPACE`` names, else the nearest one at or
    above the current folder that has checkpoints, else the git top level, else the current folder.
    ``settings`` take the place of all configuration files; what is wrong with one of those is left out,
    and told by ``remarks``. ``repair`` brings back a damaged or
    missing catalogue first. With ``watch`` the kernel tells the workspace what changes while it is open, so
    that only this is looked at, and everything once in each ``auto.interval``; as ever where it cannot
    (`watching`). That takes one of the few queues that a user has (``fs.inotify.max_user_instances``), and
    what is stored through a mapping, or written by a name that lies elsewhere, is seen later.
    Raises `NotFound`, `Unsafe` (home, system folders, another user's
    store), `Unsupported` (a newer store), `Damaged`, `Storage`.
    """
    from lastgood.workspace.api import Workspace

    check_flags(watch=watch)
    if settings is not None:
        from lastgood.workspace.arguments import check_settings

        check_settings(settings)
    opened = open_as(
        Workspace,
        path,
        store=store,
        allow_root=allow_root,
        environment=environment,
        settings=settings,
        maintenance=maintenance,
        clock=clock,
        purpose="repair" if repair else "make",
    )
    if watch:
        opened._state.watch_by_itself()  # noqa: SLF001 - as one of its own kind
    return opened


def open_as(  # noqa: PLR0913 - what `open_workspace` takes, and what a command line says beside
    kind: type[Opened],
    path: PathLike | None = None,
    *,
    store: PathLike | None = None,
    allow_root: bool = False,
    environment: Mapping[str, str] | None = None,
    settings: Settings | None = None,
    flags: Sequence[str] = (),
    maintenance: Maintenance | None = None,
    clock: Clock | None = None,
    purpose: Purpose = "make",
    project: bool = True,
    passing: bool = False,
) -> Opened:
    """Open a workspace as `open_workspace` does, for one group of verbs: no other is loaded.

    To ``find`` makes no store (one that is not there reads as empty), to ``need`` it is `NotFound`. ``flags``
    are settings ``KEY=VALUE``. Without ``project`` its own file is not read; ``passing`` ends with the call.
    """
    given = dict(os.environ) if environment is None else environment
    directory = store_path(None if store is None else to_text(plain(store)), given)
    wanted = None if path is None else to_text(plain(path))
    stored = os.path.lexists(f"{directory}/format")
    chosen = _Chosen(settings, given, flags=flags, project=project)
    if wanted is not None or not stored:  # nothing is made for what cannot be one, or is set up wrongly
        first = find_root(wanted, given, known=_nothing)
        if not stored or os.path.isdir(first):
            admit(first, given, allow_root=allow_root)
            chosen.of(first)
        if not stored and purpose == "make" and not allow_root:
            _outside(directory, first)
    opened = _opened(to_bytes(directory), clock=clock or SystemClock(), purpose=purpose)
    catalogue = opened.catalogue(durability=chosen.durability)
    try:
        root = _root(wanted, given, opened, catalogue=catalogue, purpose=purpose, allow_root=allow_root)
        state = WorkspaceState(
            opened,
            catalogue,
            chosen=chosen,
            root=to_bytes(root),
            environment=given,
            maintenance=_mode(maintenance, given),
            passing=passing,
        )
        return kind(state)
    except BaseException:
        catalogue.close()
        opened.close()
        raise


class _Chosen:
    """The settings of a call, read once: for the first folder that is asked about, or as they are given."""

    def __init__(
        self,
        settings: Settings | None,
        environment: Mapping[str, str],
        *,
        flags: Sequence[str],
        project: bool,
    ) -> None:
        self._is_given = settings is not None
        self._known: Configured | None = None if settings is None else (settings, ())
        self._environment = environment
        self._flags = flags
        self._project = project

    def of(self, folder: str) -> Configured:
        """Return the settings that count in a folder, and what is wrong with files of them."""
        if self._known is None:
            self._known = read_settings(
                folder if self._project else None, environment=self._environment, flags=self._flags
            )
        return self._known

    def anew(self, folder: str) -> Configured:
        """Return what `of` does, as the files say it by now."""
        if not self._is_given:
            self._known = None
        return self.of(folder)

    @property
    def durability(self) -> Durability:
        """How durable the catalogue is to be as far as that is known yet."""
        return "full" if self._known is None else self._known[0].durability


def _opened(directory: bytes, *, clock: Clock, purpose: Purpose) -> Store:
    if purpose in {"find", "need"} and is_absent(directory):
        if purpose == "need":
            raise no_store(directory)
        return AbsentStore(directory, clock=clock)
    return Store(directory, clock=clock, repair=purpose == "repair")


class WorkspaceState:
    """What all objects of one open workspace share: its context, and what that is made of."""

    # The process that has to close it; 0 before it is open, and once it is closed.
    _opened_by = 0

    def __init__(
        self,
        opened: Store,
        catalogue: SqliteCatalogue,
        *,
        chosen: _Chosen,
        root: bytes,
        environment: Mapping[str, str],
        maintenance: Maintenance,
        passing: bool,
    ) -> None:
        self.environment = environment
        self._session = environment.get(SESSION_VARIABLE) or None
        self._passing = passing
        self._search_path = programs(environment, to_text(root))
        self._opened = opened
        self._catalogue = catalogue
        self._chosen = chosen
        self._settings, self._faults = chosen.of(to_text(root))
        self._root = root
        self._ledgers = LedgersOfStore(opened, anchor=anchor_path(environment))
        self._scanner: ScannerOfChoice | None = None
        self._watch: DirectoryWatch | None = None
        self._spoken: EvidenceMemory | None = None
        if not passing:  # it asks again
            catalogue.remember()
        self.auto_maintenance: AutoMaintenance = AutoMaintenance(maintenance)
        self.rescued: tuple[str, ...] = opened.rescued
        self.observers: list[Observer] = []
        self.context: Context = self.recompose()
        self._opened_by = os.getpid()
        self.log("opened %s, with the store %s", to_text(root), to_text(opened.directory), detail=True)

    @staticmethod
    def log(message: str, *words: object, detail: bool = False) -> None:
        """Log what a user may want to know (INFO), or a ``detail`` (DEBUG), where anybody can listen.

        Of the words those in bytes are paths.
        """
        if "logging" in sys.modules:
            from logging import getLogger

            logger = getLogger("lastgood")
            said = [os.fsdecode(word) if isinstance(word, bytes) else word for word in words]
            (logger.debug if detail else logger.info)(message, *said)

    def __del__(self) -> None:
        if self._opened_by == os.getpid():
            place = printable(to_text(self._root))
            warn(f"a workspace was not closed: {place}", ResourceWarning)

    def release(self) -> None:
        """Let go of the store; harmless when repeated."""
        if self._opened_by:
            self._opened_by = 0
            self.log("closed %s", to_text(self._root), detail=True)
        if self._scanner is not None:
            self._scanner.close()
        if self._watch is not None:
            self._watch.close()
        if self._spoken is not None:
            self._spoken.write()
        self._ledgers.close()
        self._catalogue.close()
        self._opened.close()

    def place_for(
        self, wanted: str | None, environment: Mapping[str, str], *, purpose: Purpose
    ) -> tuple[str, str]:
        """Return the workspace that a call means who is in its caller's folder: its path and its key."""
        opened, catalogue = self._opened, self._catalogue
        root = _root(wanted, environment, opened, catalogue=catalogue, purpose=purpose, allow_root=False)
        return root, opened.place(catalogue, to_bytes(root)).key

    def catalogue_version(self) -> tuple[int, int]:
        """Return what is another once somebody else has changed anything in the catalogue."""
        return self._catalogue.version()

    def configure(self) -> None:
        """Go on by the configuration as it is now."""
        settings, faults = self._chosen.anew(to_text(self._root))
        if settings != self._settings or faults or self._faults:
            self._settings, self._faults = settings, faults
            counting, told = self._carried_on(self.context.key)
            self.context = self.context.replace(settings=counting, remarks=(*self._opened.remarks, *told))
        self.keep_as(self.context.settings.durability)

    def keep_as(self, durability: Durability) -> None:
        """Have what changes in the catalogue be as durable as that from now on."""
        self._catalogue.keep_as(durability)

    def settle(self) -> None:
        """Have what was heard until the last scan began count as saved."""
        if self._watch is not None:
            self._watch.settle()

    def doubt(self) -> None:
        """Believe nothing of what was heard: some work broke off in between."""
        if self._watch is not None:
            self._watch.forget()

    def watch(self, *, most: Callable[[], int] | None = None) -> DirectoryWatch:
        """Hear of changes from now on, so that scans look only where there are some; OSError if none can.

        ``most`` returns how many directories may be watched.
        """
        if self._watch is None:
            from lastgood.scanner.watch import DirectoryWatch

            self._watch = DirectoryWatch(self._opened.directory, most=most)
            self._spoken = _memory()
            self._stay()
        return self._watch

    def watch_by_itself(self) -> None:
        """Hear of changes from now on, in a process that does other work, too; do without where none can."""
        try:
            from lastgood.scanner.rest import RestThread
            from lastgood.scanner.watch import DirectoryWatch

            interval = lambda: self.context.settings.auto.interval  # noqa: E731
            self._watch = DirectoryWatch(self._opened.directory, interval=interval, rest=RestThread())
        except (OSError, AttributeError, ImportError) as error:  # none is to be had, or no more
            self.log("what changes in %s cannot be heard of: %s", to_text(self._root), error)
            return
        self._stay()

    @property
    def is_watching(self) -> bool:
        """Whether scans look only where something was heard."""
        watch = self._watch
        return watch is not None and watch.is_here and watch.is_local is not False

    def _stay(self) -> None:
        """Keep what a process that goes on has a use for."""
        self._catalogue.remember()
        import hashlib  # noqa: F401 - whose sums are several times as fast: from now on all are made so

    def prepare(self) -> None:
        """Do, while nobody waits, what a save left to be done, and what the next one would have to."""
        if self._spoken is not None:
            self._spoken.write()
        self._catalogue.ask_again(self.context.key)

    def recompose(self) -> Context:
        """Return the context of the folder, under the key that the catalogue knows it by now."""
        opened = self._opened
        row = opened.place(self._catalogue, self._root)
        settings, told = self._carried_on(row.key)
        cache = opened.directory + b"/workspaces/" + row.key.encode()
        self._scanner = scanner = ScannerOfChoice(
            lambda memory, watch: _here(opened, cache, watch=watch, memory=memory),
            None if isinstance(opened, AbsentStore) else lambda: _elsewhere(opened, cache),
            memory=lambda: _cache_memory(opened, cache, stays=not self._passing),
            watch=lambda: self._watch,
        )
        journal_of = _once(lambda: _journal(cache))
        project_of = _once(lambda: _project(opened, self._search_path, cache=cache))
        writers = Writers(
            catalogue=self._catalogue,
            engine_of=opened.engine,
            journal_of=journal_of,
            applier_of=lambda: _applier(self._root, kept=cache + KEPT),
            project_of=project_of,
            transcripts_of=lambda: _transcripts(opened, self.environment, cache=cache, memory=self._spoken),
            ledgers=self._ledgers,
        )
        return Context(
            key=row.key,
            row=row,
            root=self._root,
            store=opened.directory,
            settings=settings,
            engine_of=opened.engine,
            catalogue=self._catalogue,
            locks_of=opened.locks,
            clock=opened.clock,
            journal_of=journal_of,
            scanner=scanner,
            applier_of=lambda root: _applier(root, kept=cache + KEPT),
            merger=lambda: _merger(opened, self._search_path),
            project_of=project_of,
            work_of=lambda: self._catalogue.work,
            processes_of=_processes,
            transcripts_of=lambda: _transcripts(opened, self.environment, cache=cache, memory=self._spoken),
            reserve_of=lambda: _reserve(opened),
            ledgers=self._ledgers,
            measure=lambda: _measured(opened.directory),
            writers=lambda _hold: writers,
            session=self._session,
            passing=self._passing,
            remarks=(*opened.remarks, *told),
        )

    def _carried_on(self, key: str) -> tuple[Settings, tuple[HealthNote, ...]]:
        """Return the settings that count, whatever is wrong with configuration files, and what that is."""
        if not self._faults:
            return self._settings, ()
        from lastgood.workspace.configuration import remarks, sound_settings

        settings = sound_settings(self._settings, self._faults, self._catalogue, key=key)
        return settings, remarks(self._faults, self._catalogue, key=key)


def _once(make: Callable[[], Made]) -> Callable[[], Made]:
    """Return what makes something when it is first asked for, and has it then."""
    made: list[Made] = []

    def get() -> Made:
        if not made:
            made.append(make())
        return made[0]

    return get


# What only some verbs need is loaded when they do: it is a third of the start-up of `list`.
def _cache_memory(opened: Store, cache: bytes, *, stays: bool) -> CacheMemory:
    from lastgood.scanner.cache import CacheMemory

    opened.make_folder(cache)
    return CacheMemory(cache, stays=stays)


def _here(
    opened: Store, cache: bytes, *, watch: DirectoryWatch | None, memory: CacheMemory
) -> WorkspaceScanner:
    from lastgood.scanner.scan import WorkspaceScanner

    # How young a file is can only be told by the clock that its times come from, whatever a caller's says.
    return WorkspaceScanner(
        cache=cache,
        clock=SystemClock(),
        objects=opened.engine(),
        watch=watch,
        memory=memory,
    )


def _project(opened: Store, search_path: bytes, *, cache: bytes) -> ProjectGit:
    from lastgood.project_git.history import SealedGit

    opened.make_folder(cache)
    return SealedGit(opened.repository, search_path=search_path, folder=cache)


def _journal(cache: bytes) -> FileJournal:
    from lastgood.journal import FileJournal

    return FileJournal(cache + b"/" + JOURNAL)


def _measured(store: bytes) -> StoreSize:
    from lastgood.disk_usage import disk_usage

    return disk_usage(store)


def _processes() -> Processes:
    from lastgood.processes import ProcFiles

    return ProcFiles()


def _transcripts(
    opened: Store, environment: Mapping[str, str], *, cache: bytes, memory: EvidenceMemory | None
) -> Transcripts:
    from lastgood.conversation.files import TranscriptFiles

    opened.make_folder(cache)
    return TranscriptFiles(cache, environment, memory=memory)


def _memory() -> EvidenceMemory:
    from lastgood.conversation.files import EvidenceMemory

    return EvidenceMemory()


def _reserve(opened: Store) -> Reserve:
    from lastgood.objects.repository import collect
    from lastgood.reserve import StoreReserve

    return StoreReserve(opened.directory, collect=lambda: collect(opened.temporary))


def _applier(root: bytes, *, kept: bytes) -> Applier:
    from lastgood.restore.apply import DescriptorApplier

    return DescriptorApplier(root, kept=kept)


def _merger(opened: Store, search_path: bytes) -> TextMerger:
    from lastgood.objects.merge_text import GitMerger

    return GitMerger(opened.repository, temporary=opened.temporary, search_path=search_path)


def _elsewhere(opened: Store, cache: bytes) -> RemoteScanner:
    from lastgood.scanner.remote import RemoteScanner

    opened.make_folder(cache)
    return RemoteScanner(cache=cache, store=opened.directory, engine=opened.engine())


def _root(
    wanted: str | None,
    environment: Mapping[str, str],
    opened: Store,
    *,
    catalogue: SqliteCatalogue,
    purpose: Purpose,
    allow_root: bool,
) -> str:
    """Return where the workspace is; or was, if the store has checkpoints of it: it can be made again."""
    known = _places(opened, catalogue)
    paths = {row.path for row in catalogue.workspaces()} if wanted is None else set()
    root = find_root(wanted, environment, known=paths.__contains__)
    if purpose != "make" or not os.path.isdir(root):
        root = place_of(root, wanted, environment, known=known)
    is_there = os.path.isdir(root) and not os.path.islink(root)
    if is_there or not known(root):

        def below() -> Sequence[HealthNote]:
            from lastgood.lease import gone_below  # lazily: only a folder that is refused pays for it

            return gone_below(catalogue, root, machine=opened.place(catalogue, to_bytes(root)).machine)

        admit(root, environment, allow_root=allow_root, gone_below=below)
    _apart(root, opened)
    return root


def _places(opened: Store, catalogue: SqliteCatalogue) -> Callable[[str], bool]:
    """Return what tells of a place whether this machine has checkpoints of it."""

    def known(folder: str) -> bool:
        row = opened.place(catalogue, to_bytes(folder))
        return catalogue.latest_facts(row.key) is not None

    return known


def _nothing(_folder: str) -> bool:
    return False


def _apart(root: str, opened: Store) -> None:
    """Refuse a workspace inside the store."""
    store = to_text(opened.directory)
    if root == store or root.startswith(store + "/"):
        raise Unsafe(f"{printable(root)} is inside the store", hint="name a project folder: -C DIR")


def _outside(directory: str, root: str) -> None:
    """Refuse to make a store inside the workspace: what deletes that would delete its safety net."""
    if f"{os.path.realpath(directory)}/".startswith(f"{root}/"):
        raise Unsafe(
            f"the store {printable(directory)} would lie inside the workspace {printable(root)}",
            hint="name a place outside it: --store DIR, or LASTGOOD_STORE",
        )


def _mode(given: Maintenance | None, environment: Mapping[str, str]) -> Maintenance:
    if given is not None:
        return given
    return "off" if environment.get("LASTGOOD_MAINTENANCE") == "off" else "background"


# --- The composition root, and the synchronous API ---


def __getattr__(name: str) -> object:
    if name != "Workspace":
        message = f"module 'lastgood.workspace' has no attribute {name!r}"
        raise AttributeError(message)
    from lastgood.workspace.api import Workspace  # lazily: a list has no use for all the verbs

    globals()[name] = Workspace
    return Workspace
