"""A database in memory: the catalogue of a store that is not there."""

from __future__ import annotations

from lastgood.adapters.sqlite.database import Database, prepare
from lastgood.adapters.sqlite.library import sqlite3
from lastgood.adapters.sqlite.schema import create


class MemoryDatabase(Database):
    """An empty database that ends with its connection; its path is only what errors call it."""

    def _no_room(self, *, beside: int = 0) -> None:
        """Nothing is on any disk."""

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        prepare(connection)
        create(connection, self._schema, generation="none")
        return connection
