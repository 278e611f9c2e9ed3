"""The ledger of a store, composed when first asked for: no save pays for it."""

from __future__ import annotations

import os
from _thread import allocate_lock

from lastgood.errors import Unsafe
from lastgood.names import printable, to_bytes, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.adapters.sqlite.ledgers import SqliteLedgers
    from lastgood.model.exchange import KeptBook
    from lastgood.ports.ledger import Ledger
    from lastgood.workspace.shelf import Shelf

_FILE = b"/ledger.sqlite3"
_BACKUP = b"/ledger.backup.sqlite3.gz"
_RESCUE = _FILE + b".rescue"
_DAY = 24 * 3600 * 1_000_000_000


class LedgersOfStore:
    """What programs keep in a store beside checkpoints."""

    def __init__(self, shelf: Shelf, *, witness: str) -> None:
        self._shelf = shelf
        self._witness = witness
        self._lock = allocate_lock()
        self._ledgers: SqliteLedgers | None = None

    def space(self, name: str, *, workspace: str) -> Ledger:
        """Return one space of a workspace (its key)."""
        return self._composed().space(name, workspace=workspace)

    def check(self) -> Sequence[str]:
        """Prove everything that is stored, and say what is wrong; nothing is made if there is none."""
        store = self._shelf.directory
        if not os.path.exists(store + _FILE) and not (os.path.isdir(store) and os.path.isdir(self._witness)):
            return []
        return self._composed().check()

    def back_up(self) -> bool:
        """Write a sound copy beside the ledger; False if nothing changed since the last, or there is none."""
        return self._is_there() and self._composed().back_up()

    def is_copy_old(self) -> bool:
        """Tell whether the ledger changed since its copy was made, and that is more than a day ago."""
        store = self._shelf.directory
        copied = _written(store + _BACKUP)
        written = max(_written(store + _FILE), _written(store + _FILE + b"-wal"))
        return written > copied and self._shelf.clock.now() - copied > _DAY

    def repair(self) -> tuple[str, ...]:
        """Bring back what is not whole, and say what was done; what is whole stays."""
        store = self._shelf.directory
        present = any(os.path.exists(store + name) for name in (_FILE, _RESCUE, _BACKUP))
        return self._composed().repair() if present else ()

    def count(self, workspaces: Sequence[str]) -> int:
        """Return how many books some workspaces have; nothing is made if there is none."""
        return self._composed().count(workspaces) if self._is_there() else 0

    def leaving(self, workspaces: Sequence[str]) -> tuple[KeptBook, ...]:
        """Return the books of some workspaces whole; `Damaged` if one is not."""
        return self._composed().leaving(workspaces) if self._is_there() else ()

    def prove(self, books: Sequence[KeptBook]) -> None:
        """Raise `Damaged` for a book of another store that is not whole, or expands beyond reason."""
        if books:
            from lastgood.adapters.sqlite.ledger_exchange import prove

            prove(books)

    def take_in(self, books: Sequence[KeptBook]) -> int:
        """Add proven books of another store that are not here yet, all of them or none; return how many."""
        return self._composed().take_in(books) if books else 0

    def seen_as(self) -> str | None:
        """Return the id of the store under which its ledger was last seen, None if it never was."""
        path = to_text(self._shelf.directory + _FILE)
        if not self._is_there() or not os.path.isdir(self._witness):
            return None
        from lastgood.adapters.sqlite.ledger_seal import ledger_id
        from lastgood.adapters.witness import find_store

        named = ledger_id(path)
        return None if named is None else find_store(to_bytes(self._witness), ledger=named)

    def _is_there(self) -> bool:
        return os.path.exists(self._shelf.directory + _FILE)

    def close(self) -> None:
        """Let go of the file; harmless when repeated."""
        if self._ledgers is not None:
            self._ledgers.close()

    def _composed(self) -> SqliteLedgers:
        from lastgood.adapters.identity import store_machine
        from lastgood.adapters.sqlite.ledgers import SqliteLedgers
        from lastgood.adapters.store_format import stored_machine
        from lastgood.adapters.witness import Witness

        with self._lock:
            if self._ledgers is None:
                shelf = self._shelf
                self._refuse_inside(to_text(shelf.directory))
                store = stored_machine(shelf.directory)
                witness = Witness(to_bytes(self._witness), store=store or store_machine(shelf.directory))
                if store is None or not os.path.lexists(witness.file):
                    seen = self.seen_as()
                    witness = witness if seen is None else Witness(to_bytes(self._witness), store=seen)
                path = to_text(shelf.directory + _FILE)
                self._ledgers = SqliteLedgers(path, witness=witness, clock=shelf.clock)
            return self._ledgers

    def _refuse_inside(self, store: str) -> None:
        """Refuse a witness that whoever puts an older store back would put back with it."""
        if f"{os.path.realpath(self._witness)}/".startswith(f"{store}/"):
            raise Unsafe(
                f"{printable(self._witness)} is inside the store that it is to watch",
                hint="name another folder: LASTGOOD_WITNESS",
            )


def _written(path: bytes) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:  # there is none
        return 0
