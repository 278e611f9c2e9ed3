"""Checkpoints that nobody asks for, of the workspaces that one process watches (decisions 037, 051)."""

from __future__ import annotations

import select
import time

from lastgood.errors import Busy, Conflict, LastgoodError, Storage, Unsupported, Usage
from lastgood.transaction import Draft
from lastgood.worker import resident_bytes
from lastgood.workspace.residence import forget_watch, tell_watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    from lastgood.context import Context
    from lastgood.model.checkpoint import HealthNote, SaveReport
    from lastgood.scanner.watch import DirectoryWatch
    from lastgood.workspace import WorkspaceState
    from lastgood.workspace.opened import OpenWorkspace
else:
    Protocol = object

# How long nothing must have changed, in seconds, unless the caller says otherwise.
REST = 2.0
# No two checkpoints come sooner after each other, however often somebody pauses.
LEAST_APART = 10.0
# What failed is tried again after this.
_RETRY = 30.0
# How often it is looked whether checkpoints are wanted again.
_LOOK = 5.0
# For so long at most a process that asks who watches may be in the way, in seconds.
_STATUS = 1.0
# How often what happens meanwhile is taken note of: a parallel build changes thousands of files a second.
_GLANCE = 0.25
# After so long without work, or with it, what was found is written down for others who look.
_REST_TO_WRITE, _MOST_UNWRITTEN = 2.0, 60.0
# How often a process in the background looks whether its store and its socket are still there.
_CHECK = 60.0
# After so long without work the store is tidied.
_TIDY = 300.0
# Of what others work in no more is watched than fits: a user has 128 of the queues that the kernel fills.
_MOST_WORKSPACES = 24
_MOST_BYTES = 60 << 20
_OWN_STORE_HINT = "what cannot be watched can be saved by a timer: lastgood save"


class Service(Protocol):
    """What a process that watches does for others meanwhile."""

    @property
    def descriptor(self) -> int | None:
        """What can be read when there is something for it; None if there will be nothing any more."""

    def begin(self) -> None:
        """Be there for others, if that can be by now."""

    def serve(self) -> None:
        """Do what one of them asks."""

    def is_found(self) -> bool:
        """Tell whether others can still ask, or could again."""


class Teller(Protocol):
    """Who is told what becomes of a watched workspace."""

    def begun(self) -> None:
        """Tell that it is watched from now on."""

    def saved(self, report: SaveReport) -> None:
        """Tell of a checkpoint that was made."""

    def failed(self, error: LastgoodError) -> None:
        """Tell why one could not be made, which is tried again."""

    def turned(self, *, on: bool) -> None:
        """Tell that the configuration wants checkpoints again, or no more."""

    def remarked(self, note: HealthNote) -> None:
        """Tell what is wrong with the configuration now, and was not before."""


class SilentTeller:
    """Tells nobody."""

    def begun(self) -> None:
        """Say nothing."""

    def saved(self, report: SaveReport) -> None:
        """Say nothing."""

    def failed(self, error: LastgoodError) -> None:
        """Say nothing."""

    def turned(self, *, on: bool) -> None:
        """Say nothing."""

    def remarked(self, note: HealthNote) -> None:
        """Say nothing."""


class Watched:
    """One workspace that is watched, and when it is to be saved.

    With a ``rest`` that is whenever nothing changed for so many seconds, but never more often than every ten;
    without, and while changes go on, once in each ``auto.interval``. All files are looked at anew so often,
    too, however many checkpoints come between. The configuration is read anew before each.
    """

    def __init__(self, workspace: OpenWorkspace, watch: DirectoryWatch, *, teller: Teller) -> None:
        self.workspace = workspace
        self.rest: float | None = None
        self.used: float = time.monotonic()
        self._watch = watch
        self._teller = teller
        self._interval = workspace.settings.auto.interval
        # When the last change was heard of, and the first that is not saved.
        self._heard = self._since = self._looked = self.used
        # When all files were to be looked at anew.
        self._doubted = self.used
        self._made = 0.0
        # When all that was found so far had been written down.
        self._written = self.used
        self._pending = True  # what changed before
        self._wanted = True
        self._told: tuple[int, bool | None] | None = None
        self._lock = self._context.locks.watching(self._context.key, wait=_STATUS)
        self._lock.__enter__()

    @property
    def state(self) -> WorkspaceState:
        """What all objects of the workspace share."""
        return self.workspace._state  # noqa: SLF001 - as one of its own kind

    @property
    def _context(self) -> Context:
        return self.state.context

    @property
    def place(self) -> tuple[bytes, str]:
        """Where it is, and the key by which the catalogue knows it by now."""
        return self._context.root, self._context.key

    @property
    def is_by_hand(self) -> bool:
        """Whether a person asked for it, and did not only work there."""
        return self.rest is not None

    @property
    def descriptor(self) -> int | None:
        """What can be read when something happened; None where that is looked for now and then."""
        return None if self._pending else self._watch.descriptor

    @property
    def directories(self) -> int:
        """How many directories are watched."""
        return self._watch.count

    @property
    def unwatched(self) -> int:
        """How many directories could not be watched, because there are too many."""
        return self._watch.unwatched

    @property
    def active_at(self) -> float:
        """When somebody last asked for something here, or something changed."""
        return max(self.used, self._heard)

    def left(self, now: float) -> float:
        """Return after how many seconds there is something to do here."""
        left = max(0.0, self._due() - now)
        if self._watch.is_owing:
            left = min(left, max(0.0, self._to_be_written() - now))
        if not self._pending:
            return left
        return min(left, _GLANCE if self.is_by_hand else 1.0)

    def attend(self) -> bool:
        """Take note of what happened, make a checkpoint if one is due, and tell whether one was."""
        now = time.monotonic()
        if self._watch.hear():
            self._heard = now
            self._since = self._since if self._pending else now
            self._pending = True
        if not self._watch.is_owing:
            self._written = now
        elif now >= self._to_be_written():
            self._watch.settle_up()
        if now < self._due():
            return False
        if now >= self._doubted + self._interval:
            self._watch.doubt()
            self._doubted = now
        return self.save()

    def save(self) -> bool:
        """Make a checkpoint; where it is not to be had now, it is tried again."""
        try:
            self.keep()
        except (Busy, Conflict, Storage) as error:
            now = time.monotonic()
            self._pending = True
            self._made = now + _RETRY - LEAST_APART
            self._since = now + _RETRY - self._interval
            self._teller.failed(error)
        return True

    def keep(self, *, gives_way: bool = True) -> None:
        """Make a checkpoint if the configuration wants one and something changed.

        One that somebody else's overtakes, or a session that begins, would make the latest state of what was
        read before theirs: it counts as made, and what changed waits for the next.
        """
        now = time.monotonic()
        if self._is_wanted():
            draft = Draft(kind="auto", message="by watch", gives_way=gives_way)
            try:
                report = self.workspace._saved(draft, allow_empty=None, budget=None, given=None)  # noqa: SLF001 - as one of its own kind
            except Conflict as error:
                if not error.details.get("overtaken"):
                    raise
                self._made = self._since = time.monotonic()
                self._pending = True
                return
            if report.created:
                self._made = time.monotonic()
                self._teller.saved(report)
        self._pending = False
        self._looked = now
        self.tell()

    def prepare(self) -> None:
        """Look up what whoever asks next needs to know; if that cannot be, they will hear of it."""
        try:  # noqa: SIM105 - contextlib costs start-up time
            self.state.prepare()
        except LastgoodError:
            pass

    def keep_last(self) -> bool:
        """Make a last checkpoint."""
        self.keep(gives_way=False)
        return True

    def tell(self) -> None:
        """Leave word for `status` of what is watched here, and what is not."""
        told = self._watch.unwatched, self._watch.is_local
        if told != self._told:
            self._told = told
            tell_watch(self._context, by_hand=self.is_by_hand, unwatched=told[0], local=told[1] is not False)

    def close(self) -> None:
        """Let go of the workspace; harmless when repeated."""
        forget_watch(self._context)
        self._lock.__exit__(None, None, None)
        self.workspace.close()

    def _to_be_written(self) -> float:
        """Return when what was found is to be written down for others, if it is not yet."""
        return min(self.active_at + _REST_TO_WRITE, self._written + _MOST_UNWRITTEN)

    def _due(self) -> float:
        """Return when the next checkpoint is to be made, or at least to be tried."""
        if not self._wanted:  # nothing may be watched yet by which a change could be heard of
            return self._looked + _LOOK
        if not self._pending:
            return self._doubted + self._interval
        at_interval = self._since + max(self._interval, LEAST_APART)
        if self.rest is None:
            return at_interval
        return min(max(self._heard + self.rest, self._made + LEAST_APART), at_interval)

    def _is_wanted(self) -> bool:
        """Tell whether the configuration, as it is now, wants a checkpoint; say so where that has changed."""
        workspace, wanted, known = self.workspace, self._wanted, self.workspace.remarks
        self.state.configure()
        for note in workspace.remarks:
            if note not in known:
                self._teller.remarked(note)
        auto = workspace.settings.auto
        self._interval, self._wanted = auto.interval, auto.wants("interval")
        if self._wanted is not wanted:
            self._teller.turned(on=self._wanted)
        return self._wanted


class Watches:
    """The workspaces of one store that this process watches.

    ``share`` is how many directories may be watched in all of them. Where there is not room for all, those
    go that nobody asked to be watched, the least used first.
    """

    def __init__(self, *, share: int | None = None) -> None:
        self._all: list[Watched] = []
        self._share = share
        self._used = time.monotonic()
        self._tidied = self._checked = self._used

    def __iter__(self) -> Iterator[Watched]:
        return iter(self._all)

    @property
    def is_by_hand(self) -> bool:
        """Whether any is watched because a person asked for it."""
        return any(one.is_by_hand for one in self._all)

    @property
    def last_used(self) -> Watched:
        """The one that was used last."""
        return max(self._all, key=lambda one: one.used)

    def find(self, root: bytes) -> Watched | None:
        """Return the one in a folder."""
        return next((one for one in self._all if one.place[0] == root), None)

    def add(
        self, workspace: OpenWorkspace, *, rest: float | None = None, teller: Teller | None = None
    ) -> Watched:
        """Watch a workspace, which is closed with these.

        With a ``rest`` it is one that a person asks for. Raises `Busy` where another process watches it
        already, `Usage` where the configuration wants no checkpoints by themselves, and `Unsupported` where
        the system tells of no changes.
        """
        if rest is not None and not workspace.settings.auto.wants("interval"):
            raise Usage(
                "the configuration wants no such checkpoints: auto.enabled, or 'interval' in auto.on",
                hint="see: lastgood config",
            )
        context = workspace._context  # noqa: SLF001 - as one of its own kind
        if context.locks.is_watched(context.key):
            raise Busy(
                "another process watches this workspace already",
                hint="it goes on making checkpoints; to end it: lastgood watch --stop",
            )
        added = Watched(workspace, self._watch_of(workspace), teller=teller or SilentTeller())
        added.rest = rest
        self._all.append(added)
        added.tell()
        if teller is not None:
            teller.begun()
        return added

    def drop(self, one: Watched) -> None:
        """Watch a workspace no longer."""
        self._all.remove(one)
        one.close()
        _return_memory()

    def fit(self) -> None:
        """Drop what there is no room for."""
        while len(self._all) > 1 and self._is_too_much():
            latest = self.last_used
            others = [one for one in self._all if one is not latest and not one.is_by_hand]
            if not others:
                return
            self.drop(min(others, key=lambda one: one.used))

    def run(self, stop: int, *, service: Service | None = None, idle: float | None = None) -> None:
        """Make checkpoints, and serve, until a byte can be read from ``stop``; last ones then.

        Without ``idle`` this is for the first workspace, and raises what a save of it raises once there is
        nothing to save any more (`NotFound`). With it what has gone is dropped, and it ends when for so many
        seconds nobody asked for anything and nothing changed, or nobody can ask any more.
        """
        own = self._all[0] if idle is None else None
        for one in self:
            if one.is_by_hand:
                self._attempt(one.save, one, own=own)
        self._serve_from_now_on(service)
        while not self._is_over(service, idle=idle):
            ready = self._ready(stop, service=service, idle=idle)
            if stop in ready:
                break
            if service is not None and service.descriptor in ready:
                service.serve()
                self._used = time.monotonic()
                self.fit()
                if self._all and not self._is_asked(service):
                    self.last_used.prepare()
            for one in tuple(self._all):
                if self._attempt(one.attend, one, own=own):
                    self._serve_from_now_on(service)
            self._tidy()
        for one in reversed(tuple(self._all)):
            self._attempt(one.keep_last, one, own=own)

    def close(self) -> None:
        """Let go of all; harmless when repeated."""
        while self._all:
            self._all.pop().close()

    def _attempt(self, work: Callable[[], bool], one: Watched, *, own: Watched | None) -> bool:
        """Do some work for a workspace, which is dropped where it has gone, say."""
        try:
            return work()
        except LastgoodError:
            if one is own:
                raise
            self.drop(one)
            return False

    def _serve_from_now_on(self, service: Service | None) -> None:
        if service is not None and service.descriptor is None:
            service.begin()

    def _ready(self, stop: int, *, service: Service | None, idle: float | None) -> set[int]:
        """Wait until there is something to do, and return what can be read from."""
        waiting = select.poll()
        asking = None if service is None else service.descriptor
        for descriptor in (stop, asking, *(one.descriptor for one in self)):
            if descriptor is not None:
                waiting.register(descriptor, select.POLLIN)
        now = time.monotonic()
        left = [one.left(now) for one in self]
        if idle is not None:
            left += [_CHECK, max(0.0, self._active_at() + idle - now)]
        if self._tidied < self._active_at():
            left.append(max(0.0, self._active_at() + _TIDY - now))
        return {descriptor for descriptor, _ in waiting.poll(min(left) * 1000)}

    def _is_asked(self, service: Service) -> bool:
        """Tell whether somebody waits for an answer."""
        asking, waiting = service.descriptor, select.poll()
        if asking is not None:
            waiting.register(asking, select.POLLIN)
        return bool(waiting.poll(0))

    def _is_over(self, service: Service | None, *, idle: float | None) -> bool:
        if idle is None:
            return False
        now = time.monotonic()
        if not self._all or service is None or service.descriptor is None or now >= self._active_at() + idle:
            return True
        if now < self._checked + _CHECK:
            return False
        self._checked = now
        return not service.is_found()

    def _active_at(self) -> float:
        return max((self._used, *(one.active_at for one in self)))

    def _tidy(self) -> None:
        """Have the store be tidied, once, when nobody has worked for a while."""
        now, active = time.monotonic(), self._active_at()
        if self._tidied < active and now >= active + _TIDY:
            self._tidied = now
            for one in self:
                one.state.auto_maintenance.when_idle(one.state.context)

    def _is_too_much(self) -> bool:
        if len(self._all) > _MOST_WORKSPACES or resident_bytes() > _MOST_BYTES:
            return True
        latest = self.last_used
        return bool(latest.unwatched) and latest.directories + latest.unwatched <= self._watchable()

    def _watchable(self) -> int:
        if self._share is None:
            from lastgood.scanner.watch import share

            self._share = share()
        return self._share

    def _watch_of(self, workspace: OpenWorkspace) -> DirectoryWatch:
        state = workspace._state  # noqa: SLF001 - as one of its own kind

        def most() -> int:
            return self._watchable() - sum(one.directories for one in self if one.state is not state)

        try:
            return state.watch(most=most)
        except (OSError, AttributeError) as error:  # no inotify(7), or no more of it for this user
            raise Unsupported(
                f"changes cannot be watched here: {error}",
                hint=f"raise fs.inotify.max_user_instances where that is the limit; {_OWN_STORE_HINT}",
            ) from error


def _return_memory() -> None:
    """Give back to the system what was freed; where the C library has no such call it does so by itself."""
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
