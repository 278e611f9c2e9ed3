"""Starts processes of ours that outlive the command that starts them, and have nothing of it."""

from __future__ import annotations

import fcntl
import os
import sys
import time

from lastgood.files import PRIVATE_FILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Where Python finds lastgood.
PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# So long (in seconds) after a start there is no other: what could not be done just now cannot be done yet.
REST = 5.0


def take_turn(path: bytes) -> int | None:
    """Return a descriptor that holds the lock of whoever is starting or working, unless it is held."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, PRIVATE_FILE)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _rests(descriptor):
            os.close(descriptor)
            return None
        os.pwrite(descriptor, b"\n", 0)  # its time is that of the last start
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _rests(descriptor: int) -> bool:
    status = os.fstat(descriptor)
    return status.st_size > 0 and 0 <= time.time() - status.st_mtime < REST


def spawn(
    program: str,
    words: Sequence[str],
    *,
    environment: Mapping[str, str],
    keeping: tuple[int, int] | None = None,
) -> int | None:
    """Start a Python program in a session of its own, without standard streams, and return its process id.

    Of the open files it has one at most, ``keeping`` that as another number. None where no Python is known
    that could be started.
    """
    if not sys.executable:  # a program that embeds Python
        return None
    actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = []
    if keeping is not None:
        actions.append((os.POSIX_SPAWN_DUP2, *keeping))
    actions += [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    command = [sys.executable, "-I", "-c", program, *words]
    return os.posix_spawn(sys.executable, command, environment, file_actions=actions, setsid=True)
