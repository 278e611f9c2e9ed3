"""Sound copies of a database: made whole and compressed, and proven before they take the place of others."""

from __future__ import annotations

import errno
import os

from lastgood.adapters.sqlite.database import copy_into, open_uri
from lastgood.adapters.sqlite.packed import SUFFIX, pack, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from typing import TypeVar

    from lastgood.errors import Damaged

    Answer = TypeVar("Answer")


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
        drop(fresh)
    return packed


def ask(path: str, question: Callable[[sqlite3.Connection], Answer]) -> Answer:
    """Ask a database that nobody has open, unpacked first if need be; ValueError if that cannot be."""
    plain = path.removesuffix(SUFFIX) + ".plain" if path.endswith(SUFFIX) else path
    try:
        if plain != path:
            unpack(path, plain)
        connection = open_uri(plain, "immutable=1", wait=0)
        try:
            return question(connection)
        finally:
            connection.close()
    finally:
        if plain != path:
            drop(plain)


def clear(backup: str) -> None:
    """Remove what an interrupted copy left beside the place of a backup."""
    for left in (backup + ".fresh", backup + ".new", backup.removesuffix(SUFFIX) + ".plain"):
        drop(left)


def drop(path: str) -> None:
    """Remove a file that may be gone."""
    try:
        os.unlink(path)
    except OSError:
        return  # it is gone, or will be written over
