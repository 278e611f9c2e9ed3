"""The ledger of a store as a workspace holds it: opened when first asked for, by whatever thread."""

from __future__ import annotations

import os
from _thread import allocate_lock

from lastgood.adapters.sqlite import ledger_exchange as exchange
from lastgood.adapters.sqlite.faults import translate
from lastgood.adapters.sqlite.ledger import Reader, Writer
from lastgood.adapters.sqlite.ledger_backup import back_up, backup_of, faults_of, repair
from lastgood.adapters.sqlite.ledger_file import LedgerFile
from lastgood.adapters.sqlite.ledger_proof import accept, check
from lastgood.adapters.sqlite.ledger_seal import Sealing
from lastgood.adapters.sqlite.library import sqlite3
from lastgood.errors import LastgoodError, Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from lastgood.adapters.sqlite.ledger_seal import Root
    from lastgood.adapters.witness import Witness
    from lastgood.model.exchange import KeptBook
    from lastgood.ports.host import Clock
    from lastgood.ports.ledger import LedgerReader, LedgerWriter

    Result = TypeVar("Result")


class SqliteLedger:
    """One space of one workspace."""

    def __init__(self, file: LedgerFile, *, workspace: str, space: str) -> None:
        self._file = file
        self._place = (workspace, space)

    def look(self, work: Callable[[LedgerReader], Result]) -> Result:
        """Ask something of one moment."""
        return self._file.look(lambda connection: work(Reader(self._file, connection, self._place)))

    def change(self, work: Callable[[LedgerWriter], Result]) -> Result:
        """Change something in one transaction, durable on return; nothing is changed if it raises."""

        def changed(connection: sqlite3.Connection, root: Root) -> Result:
            writer = Writer(self._file, connection, self._place, root=root)
            result = work(writer)
            writer.finish()
            return result

        return self._file.change(changed)

    def accept(self) -> None:
        """Declare the present state to be genuine; entries whose values are not whole are dropped."""
        accept(self._file)


class SqliteLedgers:
    """One file for all workspaces of a store."""

    def __init__(self, path: str, *, witness: Witness, clock: Clock) -> None:
        self._path = path
        self._witness = witness
        self._clock = clock
        self._lock = allocate_lock()
        self._file: LedgerFile | None = None

    def space(self, name: str, *, workspace: str) -> SqliteLedger:
        """Return one space of a workspace (its key)."""
        return SqliteLedger(self._open(), workspace=workspace, space=name)

    def check(self) -> Sequence[str]:
        """Prove everything that is stored, and say what is wrong; nothing is made if there is none."""
        if not os.path.exists(self._path) and self._witness.last() is None:
            return []
        try:
            faults = check(self._open())
        except LastgoodError as error:
            faults = [f"{error.message} ({error.hint})"]
        return [*faults, *self._faults_of_backup()]

    def back_up(self) -> bool:
        """Copy the ledger, if there is one that changed; `Damaged` if it is not sound."""
        if not os.path.exists(self._path):
            return False
        try:
            return back_up(self._open())
        except OSError as error:
            raise translate(error, self._path, what="the copy of the ledger") from error

    def repair(self) -> tuple[str, ...]:
        """Bring back what is damaged from the copy, and say what."""
        try:
            done = repair(self._path, witness=self._witness, at=self._clock.now())
            return done or self._copied_anew()
        except Unsupported:  # as `check` tells; what else a store holds is repaired all the same
            return ()
        except (sqlite3.Error, OSError) as error:
            raise translate(error, self._path, what="the ledger", hint="check the store") from error

    def _copied_anew(self) -> tuple[str, ...]:
        """Write the copy anew if it is damaged and the ledger is not."""
        if not self._faults_of_backup() or not os.path.exists(self._path) or check(self._open()):
            return ()
        back_up(self._open())
        return ("the damaged copy of the ledger was written anew",)

    def count(self, workspaces: Sequence[str]) -> int:
        """Return how many books some workspaces have."""
        return self._open().look(lambda connection: exchange.count(connection, workspaces))

    def leaving(self, workspaces: Sequence[str]) -> tuple[KeptBook, ...]:
        """Return the books of some workspaces whole; `Damaged` if one is not."""
        file = self._open()
        return file.look(lambda connection: exchange.leaving(file, connection, workspaces))

    def take_in(self, books: Sequence[KeptBook]) -> int:
        """Add proven books of another store that are not here yet, all of them or none; return how many."""
        file = self._open()
        return file.change(lambda connection, root: exchange.take_in(file, connection, root, books))

    def _faults_of_backup(self) -> Sequence[str]:
        backup = backup_of(self._path)
        if not os.path.exists(backup):
            return []
        found = faults_of(backup, Sealing(self._witness.key()))
        return [f"its backup {os.path.basename(backup)}: {fault}" for fault in found]

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._file is not None:
                self._file.close()

    def _open(self) -> LedgerFile:
        with self._lock:
            if self._file is None:
                self._file = LedgerFile.open(self._path, witness=self._witness, id=self._clock.random().hex())
            return self._file
