"""The ledger of a store as a workspace holds it: opened when first asked for, by whatever thread."""

from __future__ import annotations

import os
from _thread import allocate_lock

from lastgood.adapters.sqlite.ledger import Reader, Writer
from lastgood.adapters.sqlite.ledger_file import LedgerFile
from lastgood.adapters.sqlite.ledger_proof import accept, check
from lastgood.errors import LastgoodError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from lastgood.adapters.sqlite.ledger_file import Root
    from lastgood.adapters.witness import Witness
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
            return check(self._open())
        except LastgoodError as error:
            return [f"{error.message} ({error.hint})"]

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
