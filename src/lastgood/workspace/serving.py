"""The watched workspaces, opened for commands that other processes ask for."""

from __future__ import annotations

import os
import time

from lastgood.configuration import read_settings
from lastgood.errors import LastgoodError
from lastgood.ids import SESSION_VARIABLE
from lastgood.paths import to_bytes, to_text
from lastgood.processes import ProcFiles
from lastgood.resident.server import Declined
from lastgood.store import is_current
from lastgood.workspace import open_as
from lastgood.workspace.arguments import plain, programs, store_path
from lastgood.workspace.opened import OpenWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from lastgood.context import Context
    from lastgood.resident.server import Request
    from lastgood.settings import Settings
    from lastgood.workspace import Opened, Purpose, WorkspaceState
    from lastgood.workspace.watching import Watched, Watches

# Variables in which calls may differ from each other; one that differs in another is not for this process.
_FREE = frozenset(
    {SESSION_VARIABLE, "LASTGOOD_WORKSPACE", "LASTGOOD_STORE", "NO_COLOR", "TERM", "PATH", "PWD"}
)
_COUNTING = frozenset({"HOME", "TZ", "TMPDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"})
_BEGINNING = "LASTGOOD_"
# Who asks waits itself for whoever is in the way; others ask meanwhile.
_PATIENCE = 0.2


class ServedWorkspaces:
    """Opens the watched workspaces of a store for clients, if they are what a call means; else `Declined`.

    ``store`` is where it is, and ``environment`` that of this process.
    """

    def __init__(self, watches: Watches, *, store: bytes, environment: Mapping[str, str]) -> None:
        self._watches = watches
        self._store = store
        self._environment = dict(environment)
        self._variables = _counting(self._environment)
        # Where callers were that needed no second look since: what that rests on, and what they meant.
        self._places: dict[str, tuple[WorkspaceState, tuple[object, ...], tuple[str, str]]] = {}
        self._files = self._stamps()
        if not is_current(store):
            raise Declined

    def is_current(self) -> bool:
        """Tell whether the store is the one that was opened, in the same format."""
        try:
            return self._stamps() == self._files
        except OSError:
            return False

    def find(
        self, request: Request, *, directory: str | None, store: str | None, purpose: Purpose
    ) -> tuple[str, str, Settings]:
        """Return the workspace that a call means, who is in its folder just now, its key and its settings."""
        environment = request.environment
        try:
            place = store_path(None if store is None else to_text(plain(store)), environment)
            if _counting(environment) != self._variables or not _is_same(place, self._store):
                raise Declined
            root, key = self._place(directory, environment, purpose=purpose)
            settings, faults = read_settings(root, environment=environment)
        except (LastgoodError, OSError):
            raise Declined from None
        if faults or not os.path.isdir(root) or not self._has_same_git(environment, root):
            raise Declined
        return root, key, settings

    def _place(
        self, directory: str | None, environment: Mapping[str, str], *, purpose: Purpose
    ) -> tuple[str, str]:
        """Return where a call is and the key of that; as long as nothing changed, as it was found before."""
        wanted = None if directory is None else to_text(plain(directory))
        here = wanted
        if wanted is None and not environment.get("LASTGOOD_WORKSPACE"):
            here = os.getcwd()
        watched = None if here is None else self._watches.find(to_bytes(here))
        known = None if here is None or watched is None else self._places.get(here)
        if here is not None and watched is not None and known is not None:
            state, evidence, place = known
            if state is watched.state and evidence == _evidence(state, here):
                return place
        place = self._watches.last_used.state.place_for(wanted, environment, purpose=purpose)
        watched = self._watches.find(to_bytes(place[0]))
        # Only where somebody is at its top, and it has a checkpoint: what lies above cannot count then. What
        # this process does for callers takes neither away, and gives no folder to another workspace.
        if here == place[0] and watched is not None and watched.workspace.stands_at() is not None:
            self._places[here] = watched.state, _evidence(watched.state, here), place
        return place

    def open(
        self,
        request: Request,
        group: type[Opened],
        *,
        directory: str | None,
        store: str | None,
        purpose: Purpose,
        verb: str,
    ) -> Opened:
        """Return the workspace as the caller means it, watched from now on where its verb starts that."""
        root, key, settings = self.find(request, directory=directory, store=store, purpose=purpose)
        watched = self._watches.find(to_bytes(root))
        if watched is None:
            if not settings.watch.wants(verb):
                raise Declined
            watched = self._begun(root)
        if watched.place[1] != key:  # another has its folder by now
            self._watches.drop(watched)
            raise Declined
        watched.used = time.monotonic()
        watched.state.keep_as(settings.durability)
        return served_as(group)(watched.state, request, settings=settings)  # type: ignore[return-value]  # it is one of that class

    def begin(self, root: str, *, rest: float) -> None:
        """Watch a workspace because somebody asks for it; what `Watches.add` raises, and opening it."""
        watched = self._watches.find(to_bytes(root))
        if watched is None:
            watched = self._watches.add(self._opened(root), rest=rest)
        watched.rest = rest
        watched.used = time.monotonic()
        watched.save()

    def release(self, root: str) -> None:
        """Watch a workspace no longer, unless somebody asked for it by hand."""
        watched = self._watches.find(to_bytes(root))
        if watched is not None and not watched.is_by_hand:
            self._watches.drop(watched)

    def _begun(self, root: str) -> Watched:
        try:
            return self._watches.add(self._opened(root))
        except (LastgoodError, OSError):
            raise Declined from None

    def _opened(self, root: str) -> OpenWorkspace:
        return open_as(
            OpenWorkspace,
            root,
            store=to_text(self._store),
            environment=self._environment,
            passing=True,
        )

    def _has_same_git(self, environment: Mapping[str, str], root: str) -> bool:
        if environment.get("PATH") == self._environment.get("PATH"):
            return True
        own, theirs = (programs(one, root) for one in (self._environment, environment))
        return own == theirs or _git_in(own) == _git_in(theirs)

    def _stamps(self) -> list[tuple[int, int]]:
        store = self._store
        places = (store, store + b"/catalogue.sqlite3", store + b"/objects.git", store + b"/format")
        return [(seen.st_dev, seen.st_ino) for seen in map(os.stat, places)]


class _Served(OpenWorkspace):
    """A watched workspace within one call of a client; what is open stays open after it."""

    def __init__(
        self, state: WorkspaceState, request: Request, *, settings: Settings, session: str | None = None
    ) -> None:
        super().__init__(state, session=session or request.environment.get(SESSION_VARIABLE) or None)
        self._request = request
        self._settings = settings
        # Where hosts keep their transcripts is for the caller to say.
        self._own, state.environment = state.environment, request.environment

    @property
    def _context(self) -> Context:
        context = super()._context
        if context.wait == _PATIENCE:
            return context
        served = context.replace(
            session=self._session,
            settings=self._settings,
            remarks=(),
            passing=True,
            wait=_PATIENCE,
            processes_of=lambda: ProcFiles(self._request.pid),
        )
        self._known = self._state.context, served
        return served

    def _again(self, session: str) -> Self:
        return type(self)(self._state, self._request, settings=self._settings, session=session)

    def close(self) -> None:
        """Leave it open."""
        self._state.environment = self._own


_classes: dict[type[OpenWorkspace], type[_Served]] = {}


def served_as(group: type[OpenWorkspace]) -> type[_Served]:
    """Return the class of a served workspace with the verbs of another."""
    if group is OpenWorkspace:
        return _Served
    found = _classes.get(group)
    if found is None:
        found = _classes[group] = type(f"Served{group.__name__}", (_Served, group), {})
    return found


def _counting(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name not in _FREE and (name in _COUNTING or name.startswith(_BEGINNING))
    }


def _evidence(state: WorkspaceState, here: str) -> tuple[object, ...]:
    """Return what has to be the same for a folder to be the workspace that it was."""
    folder = os.open(here, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        seen = os.fstat(folder)
        is_real = os.readlink(f"/proc/self/fd/{folder}") == here  # no link is on the way there
    finally:
        os.close(folder)
    return state.catalogue_version(), is_real, seen.st_dev, seen.st_ino, seen.st_mode, seen.st_uid


def _is_same(place: str, store: bytes) -> bool:
    return place == to_text(store) or os.path.samestat(os.stat(place), os.stat(store))


def _git_in(search_path: bytes) -> bytes | None:
    places = (folder + b"/git" for folder in search_path.split(os.fsencode(os.pathsep)))
    return next((place for place in places if os.access(place, os.X_OK)), None)
