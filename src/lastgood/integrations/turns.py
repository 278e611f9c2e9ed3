"""Turns of those who work on one thing: a call that is cancelled while it waits never has its turn."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from lastgood.cancellation import pause
from lastgood.errors import Busy

_STRIDE = 0.005
_LONGEST = 30.0


@contextmanager
def turn(lock: Lock) -> Iterator[None]:
    """Be the only thread that works on something."""
    while not lock.acquire(blocking=False):
        pause(_STRIDE)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def alone(folder: str) -> Iterator[None]:
    """Be the only process that works on something of a folder; nothing is written there.

    Raises `Busy` if somebody else holds it for long.
    """
    try:
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # it is gone: nobody works there
        yield
        return
    try:
        _hold(file, folder)
        yield
    finally:
        os.close(file)


def _hold(file: int, folder: str) -> None:
    deadline = time.monotonic() + _LONGEST
    while not _is_held(file):
        if time.monotonic() > deadline:
            raise Busy(f"another program holds the folder {folder}", hint="wait for it, and try again")
        pause(_STRIDE)


def _is_held(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
