"""Opens a store: its layout, its engine, its catalogue."""

from __future__ import annotations

import os
from _thread import allocate_lock

from lastgood.adapters.identity import make_private, system_machine, workspace_key
from lastgood.adapters.locks import FlockLocks
from lastgood.adapters.sqlite.catalogue import SqliteCatalogue
from lastgood.adapters.store_format import ensure_store
from lastgood.errors import Damaged
from lastgood.names import printable, to_text
from lastgood.ports.catalogue import WorkspaceRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.adapters.git.engine import GitEngine
    from lastgood.model.report import HealthNote
    from lastgood.model.settings import Durability
    from lastgood.ports.engine import Engine
    from lastgood.ports.host import Clock, Locks


class Shelf:
    """A store that is open: what is kept, whichever workspace it is of."""

    rescued: tuple[str, ...] = ()
    remarks: tuple[HealthNote, ...] = ()

    def __init__(self, directory: bytes, *, clock: Clock, repair: bool = False) -> None:
        if repair:
            from lastgood.workspace.rescue import rescue

            self.rescued = rescue(directory, clock=clock)
        was_open = ensure_store(directory, random=clock.random())
        self._name(os.path.realpath(directory), clock=clock)
        if was_open:
            from lastgood.workspace.exposure import closed

            self.remarks = (closed(self.directory),)
        self._lock = allocate_lock()
        self._engine: GitEngine | None = None
        if not repair:
            self._complete()
        make_private(self.temporary)

    def _name(self, directory: bytes, *, clock: Clock) -> None:
        self.clock = clock
        self.directory = directory
        self.temporary = directory + b"/tmp"
        self.repository = directory + b"/objects.git"
        self._catalogue = directory + b"/catalogue.sqlite3"

    def engine(self) -> Engine:
        """Return the engine, opened when it is first asked for: a list of checkpoints has no use for it."""
        with self._lock:
            if self._engine is None:
                from lastgood.adapters.git.engine import GitEngine

                self._engine = GitEngine.create(self.repository, temporary=self.temporary)
            return self._engine

    def catalogue(self, *, durability: Durability) -> SqliteCatalogue:
        """Open the catalogue, making it in a store that is new."""
        return SqliteCatalogue.open(to_text(self._catalogue), clock=self.clock, durability=durability)

    def close(self) -> None:
        """Let go of the engine's files; harmless when repeated."""
        if self._engine is not None:
            self._engine.close()

    def locks(self) -> Locks:
        """Return the store's locks."""
        return FlockLocks(self.directory)

    def machine(self, catalogue: SqliteCatalogue) -> str:
        """Return what tells this machine from others: its own id, or (without one) the store's."""
        try:
            found = system_machine()
        except OSError:  # it has one: its workspaces are those that were saved under it
            from lastgood.workspace.marks import agreed_machine

            found = agreed_machine(catalogue.workspaces())
        if found is not None:
            return found
        from lastgood.workspace.marks import own_machine

        return own_machine(self.directory, catalogue.workspaces())

    def place(self, catalogue: SqliteCatalogue, root: bytes) -> WorkspaceRow:
        """Return the row of a workspace: the one that is there, or one to be added (rule S19).

        A workspace that was attached bears the key of the place where it was before; it comes
        before one of this place whose checkpoints were forgotten.
        """
        machine = self.machine(catalogue)
        path = to_text(root)
        key = workspace_key(machine, root)
        row = catalogue.workspace(key)
        if row is not None and row.path == path and catalogue.latest_facts(key) is not None:
            return row
        here = [one for one in catalogue.workspaces() if one.path == path and one.machine == machine]
        if here:
            return next((one for one in here if catalogue.latest_facts(one.key) is not None), here[0])
        if row is not None:  # the place of a workspace that moved away; this one is another
            key = workspace_key(f"{machine} again {row.created_at}", root)
        return WorkspaceRow(key=key, path=path, machine=machine, created_at=self.clock.now())

    def _complete(self) -> None:
        """Refuse a store whose catalogue is gone: an empty one would hide every checkpoint."""
        packs = self.repository + b"/objects/pack"
        if os.path.lexists(self._catalogue) or not os.path.isdir(packs) or not os.listdir(packs):
            return
        raise Damaged(
            f"the catalogue of the store {printable(to_text(self.directory))} is gone",
            hint="bring it back from its backup and the checkpoints themselves: lastgood verify --repair",
        )
