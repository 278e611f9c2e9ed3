"""The watched workspace, opened for commands that other processes ask for."""

from __future__ import annotations

import os

from lastgood.configuration import read_settings
from lastgood.errors import LastgoodError
from lastgood.ids import SESSION_VARIABLE
from lastgood.paths import to_bytes, to_text
from lastgood.processes import ProcFiles
from lastgood.resident.server import Declined
from lastgood.store import is_current
from lastgood.workspace.arguments import plain, programs, store_path
from lastgood.workspace.opened import OpenWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.context import Context
    from lastgood.resident.server import Request
    from lastgood.settings import Settings
    from lastgood.workspace import Opened, Purpose, WorkspaceState

# Variables in which calls may differ from each other; one that differs in another is not for this process.
_FREE = frozenset(
    {SESSION_VARIABLE, "LASTGOOD_WORKSPACE", "LASTGOOD_STORE", "NO_COLOR", "TERM", "PATH", "PWD"}
)
_COUNTING = frozenset({"HOME", "TZ", "TMPDIR"})
_BEGINNINGS = ("LASTGOOD_", "XDG_")
# Who asks waits itself for whoever is in the way; others ask meanwhile.
_PATIENCE = 0.2


class ServedWorkspaces:
    """Opens the watched workspace for clients, if it is what their call means; else `Declined`."""

    def __init__(self, workspace: OpenWorkspace) -> None:
        self._state = workspace._state  # noqa: SLF001 - as one of its own kind
        self._context = workspace._context  # noqa: SLF001 - as one of its own kind
        self._environment = dict(self._state.environment)
        self._variables = _counting(self._environment)
        self._files = self._stamps()
        if not self.is_current():
            raise Declined

    def is_current(self) -> bool:
        """Tell whether the store is the one that was opened, in the same format."""
        try:
            return self._stamps() == self._files and is_current(self._context.store)
        except OSError:
            return False

    def open(
        self,
        request: Request,
        group: type[Opened],
        *,
        directory: str | None,
        store: str | None,
        purpose: Purpose,
    ) -> Opened:
        """Return the workspace as the caller means it, who is in its folder just now."""
        environment, state = request.environment, self._state
        try:
            place = store_path(None if store is None else to_text(plain(store)), environment)
            if _counting(environment) != self._variables or not _is_same(place, self._context.store):
                raise Declined
            wanted = None if directory is None else to_text(plain(directory))
            root, key = state.place_for(wanted, environment, purpose=purpose)
            settings = self._read(environment)
        except (LastgoodError, OSError):
            raise Declined from None
        is_own = (to_bytes(root), key) == (self._context.root, self._state.context.key) and os.path.isdir(
            root
        )
        if not is_own or not self._has_same_git(environment, root) or group is not OpenWorkspace:
            raise Declined
        state.keep_as(settings.durability)
        return _Served(state, request, settings=settings)  # type: ignore[return-value]  # it is one of that class

    def _read(self, environment: Mapping[str, str]) -> Settings:
        settings, faults = read_settings(to_text(self._context.root), environment=environment)
        if faults:
            raise Declined
        return settings

    def _has_same_git(self, environment: Mapping[str, str], root: str) -> bool:
        own, theirs = (programs(one, root) for one in (self._environment, environment))
        return own == theirs or _git_in(own) == _git_in(theirs)

    def _stamps(self) -> list[tuple[int, int]]:
        store = self._context.store
        places = (store, store + b"/catalogue.sqlite3", store + b"/objects.git")
        return [(seen.st_dev, seen.st_ino) for seen in map(os.stat, places)]


class _Served(OpenWorkspace):
    """The watched workspace within one call of a client; what is open stays open after it."""

    def __init__(self, state: WorkspaceState, request: Request, *, settings: Settings) -> None:
        super().__init__(state, session=request.environment.get(SESSION_VARIABLE) or None)
        self._caller = request.pid
        self._settings = settings

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
            processes_of=lambda: ProcFiles(self._caller),
        )
        self._known = self._state.context, served
        return served

    def close(self) -> None:
        """Leave it open."""


def _counting(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name not in _FREE and (name in _COUNTING or name.startswith(_BEGINNINGS))
    }


def _is_same(place: str, store: bytes) -> bool:
    return os.path.samestat(os.stat(place), os.stat(store))


def _git_in(search_path: bytes) -> bytes | None:
    places = (folder + b"/git" for folder in search_path.split(os.fsencode(os.pathsep)))
    return next((place for place in places if os.access(place, os.X_OK)), None)
