"""Sound copies of a database: made whole and compressed, and proven before they take the place of others."""

from __future__ import annotations

import errno
import fcntl
import os

from lastgood.adapters.files import PRIVATE_FILE
from lastgood.adapters.room import FULL
from lastgood.adapters.sqlite.database import copy_into, open_uri
from lastgood.adapters.sqlite.packed import SUFFIX, contents, pack, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from typing import TypeVar

    from lastgood.errors import Damaged

    Answer = TypeVar("Answer")

_PLAIN = ".plain-"


def make(
    connection: sqlite3.Connection, backup: str, *, is_sound: Callable[[str], bool], refusal: Damaged
) -> str:
    """Write a compressed copy beside the place of a backup, and return its path, for the caller to put there.

    Raises the ``refusal`` if the copy is not sound: it must not push out one that is.
    """
    fresh, packed = backup + ".fresh", backup + ".new"
    try:
        copy_into(connection, fresh)
        if not is_sound(fresh):
            raise refusal
        pack(fresh, packed)
    except ValueError as error:
        drop(packed)
        raise OSError(errno.EIO, f"a backup is not read as it was written: {error}") from error
    except OSError:
        drop(packed)
        raise
    finally:
        drop(fresh + ".new")
        drop(fresh)
    return packed


def ask(path: str, question: Callable[[sqlite3.Connection], Answer]) -> Answer:
    """Ask a database that nobody has open, unpacked first if need be; OSError, ValueError if that cannot be.

    Where the disk has no room for that, it is unpacked in memory.
    """
    if not path.endswith(SUFFIX):
        return _asked(path, question)
    try:
        return _asked_unpacked(path, question)
    except OSError as error:
        if error.errno not in FULL:
            raise
    from lastgood.adapters.sqlite.image import opened  # lazily: only a full disk needs it

    connection = opened(bytearray().join(contents(path)))
    try:
        return question(connection)
    finally:
        connection.close()


def _asked_unpacked(path: str, question: Callable[[sqlite3.Connection], Answer]) -> Answer:
    plain, held = _own(path.removesuffix(SUFFIX))
    try:
        unpack(path, plain)
        return _asked(plain, question)
    finally:
        drop(plain)
        os.close(held)


def _asked(path: str, question: Callable[[sqlite3.Connection], Answer]) -> Answer:
    connection = open_uri(path, "immutable=1", wait=0)
    try:
        return question(connection)
    finally:
        connection.close()


def _own(stem: str) -> tuple[str, int]:
    """Make a file whose name nobody else chooses, locked: several may look into one copy at once."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        plain = stem + _PLAIN + os.urandom(8).hex()
        held = os.open(plain, flags, PRIVATE_FILE)
        fcntl.flock(held, fcntl.LOCK_SH)
        if os.fstat(held).st_nlink:
            return plain, held
        os.close(held)


def clear(backup: str) -> None:
    """Remove what an interrupted copy left beside the place of a backup, and what nobody looks into."""
    stem = backup.removesuffix(SUFFIX)
    for left in (backup + ".fresh", backup + ".fresh.new", backup + ".new", stem + ".plain"):
        drop(left)
    folder, name = os.path.split(stem)
    for left in os.listdir(folder):
        if left.startswith(name) and _PLAIN in left:
            _collect(os.path.join(folder, left))


def _collect(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return  # it is gone
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        drop(path)
    except OSError:
        return  # somebody looks into it
    finally:
        os.close(descriptor)


def drop(path: str) -> None:
    """Remove a file that may be gone."""
    try:
        os.unlink(path)
    except OSError:
        return  # it is gone, or will be written over
