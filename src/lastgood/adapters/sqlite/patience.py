"""Waiting for others who have a database open, but not for those who are stopped.

SQLite waits for a lock as long as it was told, whoever holds it; and while a database is set up (the
index of its log is made) it tries again for ten seconds whatever it was told. So it is let wait for a
slice at a time, and between them the kernel is asked who is in the way (rule S16: nobody is robbed).
"""

from __future__ import annotations

import os
import time

from lastgood.adapters.sqlite.faults import is_busy
from lastgood.adapters.sqlite.library import sqlite3
from lastgood.adapters.stopping import heed, pause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Result = TypeVar("Result")

# How long SQLite waits by itself, in seconds.
SLICE = 1.0
_STRIDE = 0.02
# The byte of the index that is locked by whoever sets it up: UNIX_SHM_DMS of SQLite's os_unix.c.
_SET_UP = 128


def patiently(act: Callable[[], Result], *, path: str, wait: float) -> Result:
    """Do something that may be repeated until nobody is in its way, or `wait` seconds are over.

    Raises SQLite's own error; that of one who is in the way at once when he is stopped.
    """
    ends = time.monotonic() + wait
    while True:
        try:
            return act()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= ends or in_the_way(path) is not None:
                raise
        heed()


def in_the_way(path: str) -> int | None:
    """Return a stopped process that holds what others of a database cannot share."""
    from lastgood.adapters.owner import stopped_holder

    return stopped_holder((os.fsencode(path), os.fsencode(path + "-shm")), alone=True)


def await_set_up(path: str, *, wait: float) -> None:
    """Wait until nobody sets a database up; `Busy` for one who is stopped at it, or does not end.

    Where nobody has it open there is no index, and nothing to ask.
    """
    index = path + "-shm"
    if not os.path.exists(index):
        return
    from lastgood.adapters.owner import holders
    from lastgood.adapters.sqlite.faults import busy

    started = time.monotonic()
    while next(holders(os.fsencode(index), alone=True, at=_SET_UP), None) is not None:
        passed = time.monotonic() - started
        if passed >= wait or (passed >= SLICE and in_the_way(path) is not None):
            raise busy(path)
        pause(_STRIDE)
