"""Ctrl-C, whenever it comes, leaves no transaction open and is told as what it is (S16)."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest

from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.testing.clock import FakeClock


@pytest.fixture
def ctrl_c() -> Iterator[partial[None]]:
    """Return a call without a line of Python in it: what it sends is met by whatever comes next."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield partial(os.kill, os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("catalogue")
def test_while_it_waits_for_its_turn_to_write(path: str, clock: FakeClock, ctrl_c: partial[None]) -> None:
    """The signal is met when the turn has come: the transaction has begun just then."""
    catalogue = SqliteCatalogue.open(path, clock=clock, wait=60)
    with (
        closing(catalogue),
        closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        about_to = threading.Event()

        def interrupt() -> None:
            about_to.wait()
            time.sleep(0.05)
            ctrl_c()
            other.execute("COMMIT")

        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it may come anywhere from here on
            about_to.set()
            catalogue._database.write(lambda _: pytest.fail("it was interrupted before"))
        interrupting.join()
        catalogue._database.write(lambda connection: connection.execute("SELECT 1").fetchall())
        other.execute("BEGIN IMMEDIATE")


@pytest.mark.parametrize("way", ["read", "write"])
def test_while_seals_are_computed(catalogue: SqliteCatalogue, ctrl_c: partial[None], way: str) -> None:
    """What is raised in a function of ours, SQLite tells as a failure of that function."""

    def interrupted(connection: sqlite3.Connection) -> object:
        connection.create_function("ctrl_c", 0, ctrl_c)
        return connection.execute("SELECT ctrl_c(), seal_of(key) FROM workspace").fetchall()

    with pytest.raises(KeyboardInterrupt):
        getattr(catalogue._database, way)(interrupted)
    assert not catalogue._database.read(lambda connection: connection.in_transaction)
