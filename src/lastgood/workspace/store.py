"""Opens a store: its layout, its engine, its catalogue."""

from __future__ import annotations

import os
from _thread import allocate_lock

from lastgood.catalogue import WorkspaceRow
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.errors import Damaged, Unsafe
from lastgood.host import ExclusiveHold
from lastgood.paths import printable, to_bytes, to_text
from lastgood.store import ensure_store, make_private, system_machine, workspace_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from lastgood.engine import Engine
    from lastgood.host import Clock, Locks
    from lastgood.ledger import Ledger
    from lastgood.ledger.store import SqliteLedgers
    from lastgood.literals import Durability
    from lastgood.locks import FlockLocks
    from lastgood.model.checkpoint import HealthNote
    from lastgood.model.exchange import ExportedBook
    from lastgood.objects.engine import GitEngine

    Result = TypeVar("Result")


class Store:
    """A store that is open: what is kept, whichever workspace it is of."""

    rescued: tuple[str, ...] = ()
    remarks: tuple[HealthNote, ...] = ()

    def __init__(self, directory: bytes, *, clock: Clock, repair: bool = False) -> None:
        if repair:
            from lastgood.workspace.rescue import repair_opening

            self.rescued = repair_opening(directory, clock=clock)
        was_open = ensure_store(directory, random=clock.random())
        self._name(os.path.realpath(directory), clock=clock)
        if was_open:
            from lastgood.workspace.health import closed

            self.remarks = (closed(self.directory),)
        self._lock = allocate_lock()
        self._engine: GitEngine | None = None
        self._locks: FlockLocks | None = None
        if not repair:
            self._complete()
        make_private(self.temporary)

    def _name(self, directory: bytes, *, clock: Clock) -> None:
        self.clock = clock
        self.directory = directory
        self.temporary: bytes = directory + b"/tmp"
        self.repository: bytes = directory + b"/objects.git"
        self._catalogue = directory + b"/catalogue.sqlite3"

    def engine(self) -> Engine:
        """Return the engine, opened when it is first asked for: a list of checkpoints has no use for it."""
        if self._engine is not None:
            return self._engine
        with self._lock:
            if self._engine is None:
                from lastgood.objects.engine import GitEngine

                self._engine = GitEngine.create(self.repository, temporary=self.temporary)
            return self._engine

    def locks(self) -> Locks:
        """Return the locks, which a list of checkpoints takes none of."""
        if self._locks is None:
            from lastgood.locks import FlockLocks

            self._locks = FlockLocks(self.directory)
        return self._locks

    def catalogue(self, *, durability: Durability) -> SqliteCatalogue:
        """Open the catalogue, making it in a store that is new."""
        return SqliteCatalogue.open(
            to_text(self._catalogue), clock=self.clock, durability=durability, objects=self.engine
        )

    def make_folder(self, path: bytes) -> None:
        """Make a folder for what is known of a workspace, and can be found out again."""
        make_private(path)

    def close(self) -> None:
        """Let go of the engine's files; harmless when repeated."""
        if self._engine is not None:
            self._engine.close()

    def machine(self, catalogue: SqliteCatalogue) -> str:
        """Return what tells this machine from others: its own id, or (without one) the store's."""
        try:
            found = system_machine()
        except OSError:  # it has one: its workspaces are those that were saved under it
            from lastgood.workspace.verify import agreed_machine

            found = agreed_machine(catalogue.workspaces())
        if found is not None:
            return found
        from lastgood.workspace.verify import own_machine

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


# --- A store that is not there, looked into: it reads as an empty one, and nothing is made ---


class AbsentStore(Store):
    """What a store would be; whatever is asked of it is answered as by one without checkpoints."""

    def __init__(self, directory: bytes, *, clock: Clock) -> None:
        self._name(os.path.realpath(directory), clock=clock)

    def engine(self) -> Engine:
        """Return an engine that holds nothing."""
        from lastgood.objects.engine import AbsentEngine

        return AbsentEngine(self.repository)

    def locks(self) -> Locks:
        """Return locks that keep nobody out."""
        return _NoLocks()

    def catalogue(self, *, durability: Durability) -> SqliteCatalogue:  # noqa: ARG002 - nothing is written
        """Return a catalogue that knows nothing."""
        return SqliteCatalogue.of_nothing(to_text(self._catalogue))

    def make_folder(self, path: bytes) -> None:
        """Make none: what would be kept there is found out each time."""

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

    def __exit__(self, *_error: object) -> None:
        """Nothing was held."""


class _NoLocks:
    """The locks of a store that nobody else can have open."""

    def share_workspace(self, key: str, *, wait: float) -> _NoHold:  # noqa: ARG002 - as in all of these, the port's words
        """Keep nobody out."""
        return _NoHold()

    hold_workspace = recovery = running = watching = share_workspace

    def is_watched(self, key: str) -> bool:  # noqa: ARG002 - as above
        """Tell that nobody is there."""
        return False

    def is_served(self) -> bool:
        """Tell that nobody is there."""
        return False

    def server(self) -> int | None:
        """Return nobody."""
        return None

    def share_store(self, *, wait: float) -> _NoHold:  # noqa: ARG002 - as above
        """Keep nobody out."""
        return _NoHold()

    hold_store = maintenance = serving = share_store


# --- The ledger of a store, composed when first asked for: no save pays for it ---

_FILE = b"/ledger.sqlite3"
_BACKUP = b"/ledger.backup.sqlite3.gz"
_RESCUE = _FILE + b".rescue"
_DAY = 24 * 3600 * 1_000_000_000


class LedgersOfStore:
    """What programs keep in a store beside checkpoints."""

    def __init__(self, opened: Store, *, anchor: str) -> None:
        self._opened = opened
        self._anchor = anchor
        self._lock = allocate_lock()
        self._ledgers: SqliteLedgers | None = None

    def space(self, name: str, *, workspace: str) -> Ledger:
        """Return one space of a workspace (its key)."""
        return self._composed().space(name, workspace=workspace)

    def check(self) -> Sequence[str]:
        """Prove everything that is stored, and say what is wrong; nothing is made if there is none."""
        store = self._opened.directory
        if not os.path.exists(store + _FILE) and not (os.path.isdir(store) and os.path.isdir(self._anchor)):
            return []
        return self._composed().check()

    def back_up(self) -> bool:
        """Write a sound copy beside the ledger; False if nothing changed since the last, or there is none."""
        return self._is_there() and self._composed().back_up()

    def is_copy_old(self) -> bool:
        """Tell whether the ledger changed since its copy was made, and that is more than a day ago."""
        store = self._opened.directory
        copied = _written(store + _BACKUP)
        written = max(_written(store + _FILE), _written(store + _FILE + b"-wal"))
        return written > copied and self._opened.clock.now() - copied > _DAY

    def repair(self) -> tuple[str, ...]:
        """Bring back what is not whole, and say what was done; what is whole stays."""
        store = self._opened.directory
        present = any(os.path.exists(store + name) for name in (_FILE, _RESCUE, _BACKUP))
        return self._composed().repair() if present else ()

    def count(self, workspaces: Sequence[str]) -> int:
        """Return how many books some workspaces have; nothing is made if there is none."""
        return self._composed().count(workspaces) if self._is_there() else 0

    def leaving(self, workspaces: Sequence[str]) -> tuple[ExportedBook, ...]:
        """Return the books of some workspaces whole; `Damaged` if one is not."""
        return self._composed().leaving(workspaces) if self._is_there() else ()

    def prove(self, books: Sequence[ExportedBook]) -> None:
        """Raise `Damaged` for a book of another store that is not whole, or expands beyond reason."""
        if books:
            from lastgood.ledger.store import prove

            prove(books)

    def take_in(self, books: Sequence[ExportedBook], *, beside: Callable[[], Result]) -> tuple[int, Result]:
        """Add proven books of another store that are not here, and do something beside: both or neither."""
        return self._composed().take_in(books, beside=beside) if books else (0, beside())

    def seen_as(self) -> str | None:
        """Return the id of the store under which its ledger was last seen, None if it never was."""
        path = to_text(self._opened.directory + _FILE)
        if not self._is_there() or not os.path.isdir(self._anchor):
            return None
        from lastgood.ledger.file import ledger_id
        from lastgood.ledger_anchor import find_store

        named = ledger_id(path)
        return None if named is None else find_store(to_bytes(self._anchor), ledger=named)

    def _is_there(self) -> bool:
        return os.path.exists(self._opened.directory + _FILE)

    def close(self) -> None:
        """Let go of the file; harmless when repeated."""
        if self._ledgers is not None:
            self._ledgers.close()

    def _composed(self) -> SqliteLedgers:
        from lastgood.ledger.store import SqliteLedgers
        from lastgood.ledger_anchor import LedgerAnchor
        from lastgood.store import store_machine, stored_machine

        with self._lock:
            if self._ledgers is None:
                opened = self._opened
                self._refuse_inside(to_text(opened.directory))
                store = stored_machine(opened.directory)
                anchor = LedgerAnchor(to_bytes(self._anchor), store=store or store_machine(opened.directory))
                if store is None or not os.path.lexists(anchor.file):
                    seen = self.seen_as()
                    anchor = anchor if seen is None else LedgerAnchor(to_bytes(self._anchor), store=seen)
                path = to_text(opened.directory + _FILE)
                self._ledgers = SqliteLedgers(path, anchor=anchor, clock=opened.clock)
            return self._ledgers

    def _refuse_inside(self, store: str) -> None:
        """Refuse an anchor that whoever puts an older store back would put back with it."""
        if f"{os.path.realpath(self._anchor)}/".startswith(f"{store}/"):
            raise Unsafe(
                f"{printable(self._anchor)} is inside the store that it is to watch",
                hint="name another folder: LASTGOOD_WITNESS",
            )


def _written(path: bytes) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:  # there is none
        return 0
