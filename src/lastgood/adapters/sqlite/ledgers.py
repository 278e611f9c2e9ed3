"""The ledger of a store as a workspace holds it: opened when first asked for, by whatever thread."""

from __future__ import annotations

import os
from _thread import allocate_lock

from lastgood.adapters.sqlite.ledger import SqliteLedger
from lastgood.adapters.sqlite.ledger_file import LedgerFile
from lastgood.adapters.sqlite.ledger_proof import check
from lastgood.errors import LastgoodError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.adapters.witness import Witness
    from lastgood.ports.host import Clock


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
            return [error.message]

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
