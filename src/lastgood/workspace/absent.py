"""A store that is not there, looked into: it reads as an empty one, and nothing is made."""

from __future__ import annotations

import os

from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.host import ExclusiveHold
from lastgood.objects.memory import MemoryEngine
from lastgood.paths import to_text
from lastgood.store import system_machine
from lastgood.workspace.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from lastgood.engine import Engine
    from lastgood.host import Clock, Locks
    from lastgood.settings import Durability


class AbsentStore(Store):
    """What a store would be; whatever is asked of it is answered as by one without checkpoints."""

    def __init__(self, directory: bytes, *, clock: Clock) -> None:
        self._name(os.path.realpath(directory), clock=clock)

    def engine(self) -> Engine:
        """Return an engine that holds nothing."""
        return MemoryEngine()

    def catalogue(self, *, durability: Durability) -> SqliteCatalogue:  # noqa: ARG002 - nothing is written
        """Return a catalogue that knows nothing."""
        return SqliteCatalogue.of_nothing(to_text(self._catalogue))

    def locks(self) -> Locks:
        """Return locks that keep nobody out: there is nothing to be kept from."""
        return _NoLocks()

    def close(self) -> None:
        """Let go of nothing."""

    def machine(self, catalogue: SqliteCatalogue) -> str:  # noqa: ARG002 - it knows no workspace
        """Return what tells this machine from others; without an id of its own, by chance."""
        try:
            found = system_machine()
        except OSError:
            found = None
        return found or self.clock.random().hex()


class _NoHold:
    """Entered in the place of a lock."""

    def __enter__(self) -> ExclusiveHold:
        return ExclusiveHold()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing was held."""


class _NoLocks:
    """The locks of a store that nobody else can have open."""

    def share_workspace(self, key: str, *, wait: float) -> _NoHold:  # noqa: ARG002 - as in all of these, the port's words
        """Keep nobody out."""
        return _NoHold()

    hold_workspace = recovery = running = share_workspace

    def share_store(self, *, wait: float) -> _NoHold:  # noqa: ARG002 - as above
        """Keep nobody out."""
        return _NoHold()

    hold_store = maintenance = share_store
