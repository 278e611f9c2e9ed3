"""Checkpoints that nobody asks for: whenever the workspace came to rest after a change, and at intervals."""

from __future__ import annotations

import select
import time

from lastgood.errors import Busy, Conflict, LastgoodError, Storage, Unsupported, Usage
from lastgood.workspace.opened import OpenWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from lastgood.model.checkpoint import HealthNote, SaveReport
    from lastgood.scanner.watch import DirectoryWatch
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
_OWN_STORE_HINT = "what cannot be watched can be saved by a timer: lastgood save"


class Service(Protocol):
    """What a watched workspace does for others meanwhile."""

    @property
    def descriptor(self) -> int | None:
        """What can be read when there is something for it; None if there will be nothing any more."""

    def begin(self) -> None:
        """Be there for others, if that can be by now."""

    def serve(self) -> None:
        """Do what one of them asks."""


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


class WatchedWorkspace(OpenWorkspace):
    """An open workspace that is watched."""

    def watch(
        self,
        *,
        stop: int,
        rest: float = REST,
        service: Service | None = None,
        teller: Teller,
    ) -> None:
        """Make checkpoints of kind ``auto`` until a byte can be read from ``stop``, and a last one then.

        One is made when nothing has changed for ``rest`` seconds, but never more often than every ten; while
        changes go on, one at each ``auto.interval``. All files are looked at anew so often, too. The
        configuration is read anew before each. ``service`` is asked to serve when there is something for it.
        Raises `Busy` where another process watches the workspace already, `Usage` where the configuration
        wants no checkpoints by themselves, `Unsupported` where the system tells of no changes, and what
        `save` raises once there is nothing to save any more (`NotFound`).
        """
        auto = self.settings.auto
        if not auto.wants("interval"):
            raise Usage(
                "the configuration wants no such checkpoints: auto.enabled, or 'interval' in auto.on",
                hint="see: lastgood config",
            )
        context = self._context
        if context.locks.is_watched(context.key):
            raise Busy("another process watches this workspace already", hint="it goes on making checkpoints")
        with context.locks.watching(context.key, wait=_STATUS):
            loop = _Loop(self, _watch_of(self), service=service, rest=rest, teller=teller)
            teller.begun()
            loop.run(stop)


def _watch_of(workspace: WatchedWorkspace) -> DirectoryWatch:
    try:
        return workspace._state.watch()  # noqa: SLF001 - this is its own class
    except (OSError, AttributeError) as error:  # no inotify(7), or no more of it for this user
        raise Unsupported(
            f"changes cannot be watched here: {error}",
            hint=f"raise fs.inotify.max_user_instances where that is the limit; {_OWN_STORE_HINT}",
        ) from error


class _Loop:
    """When to save: ``heard`` tells when the last change was heard of, ``since`` the first not saved."""

    def __init__(
        self,
        workspace: OpenWorkspace,
        watch: DirectoryWatch,
        *,
        service: Service | None,
        rest: float,
        teller: Teller,
    ) -> None:
        self._workspace = workspace
        self._watch = watch
        self._service = service
        self._rest = rest
        self._interval = workspace.settings.auto.interval
        self._teller = teller
        self._heard = self._since = self._made = self._looked = 0.0
        self._pending = True  # what changed before
        self._wanted = True

    def run(self, stop: int) -> None:
        self._save()
        while not self._is_stopped(stop):
            now = time.monotonic()
            if self._watch.hear():
                self._heard = now
                self._since = self._since if self._pending else now
                self._pending = True
            if now >= self._due():
                if now >= self._looked + self._interval:
                    self._watch.doubt()
                self._save()
        self._make()

    def _due(self) -> float:
        """Return when the next checkpoint is to be made, or at least to be tried."""
        if not self._wanted:  # nothing may be watched yet by which a change could be heard of
            return self._looked + _LOOK
        if not self._pending:
            return self._looked + self._interval
        at_rest = max(self._heard + self._rest, self._made + LEAST_APART)
        return min(at_rest, self._since + max(self._interval, LEAST_APART))

    def _is_stopped(self, stop: int) -> bool:
        """Wait until there is something to do, serve who asks, and tell whether it is to stop."""
        waiting = select.poll()
        waiting.register(stop, select.POLLIN)
        asking = None if self._service is None else self._service.descriptor
        if asking is not None:
            waiting.register(asking, select.POLLIN)
        left = max(0.0, self._due() - time.monotonic())
        if self._pending:
            left = min(left, _GLANCE)
        else:
            waiting.register(self._watch.descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in waiting.poll(left * 1000)}
        if self._service is not None and asking in ready and stop not in ready:
            self._service.serve()
        return stop in ready

    def _save(self) -> None:
        try:
            self._make()
        except (Busy, Conflict, Storage) as error:
            now = time.monotonic()
            self._pending = True
            self._made = now + _RETRY - LEAST_APART
            self._since = now + _RETRY - self._interval
            self._teller.failed(error)

    def _make(self) -> None:
        now = time.monotonic()
        if self._is_wanted():
            report = self._workspace.save("by watch", kind="auto")
            if report.created:
                self._made = time.monotonic()
                self._teller.saved(report)
        self._pending = False
        self._looked = now
        if self._service is not None:
            self._service.begin()

    def _is_wanted(self) -> bool:
        """Tell whether the configuration, as it is now, wants a checkpoint; say so where that has changed."""
        workspace, wanted, known = self._workspace, self._wanted, self._workspace.remarks
        workspace._state.configure()  # noqa: SLF001 - this is its own class
        for note in workspace.remarks:
            if note not in known:
                self._teller.remarked(note)
        auto = workspace.settings.auto
        self._interval, self._wanted = auto.interval, auto.wants("interval")
        if self._wanted is not wanted:
            self._teller.turned(on=self._wanted)
        return self._wanted
