"""What SQLite complains about, in the words of `lastgood.errors`.

The package ``sqlite3`` adds adapters for dates to it, and imports for them that cost a save 2 ms. Its C part
takes nothing of ``functools`` but the cache of statements, and that brings along five modules: another 2 ms.
"""

from __future__ import annotations

import errno
import os
import sys
from _thread import _count

from lastgood.errors import FULL, Busy, Conflict, Damaged, Internal, LastgoodError, Storage, crowded
from lastgood.files import crowd
from lastgood.paths import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    Failure = sqlite3.Error | OSError | UnicodeDecodeError
else:

    class _Functools:
        """What stands in for ``functools`` while SQLite's C part is loaded."""

        def __init__(self, wrapper: type) -> None:
            # As `functools.lru_cache` does; nobody asks a cache of statements how it fares.
            self.lru_cache = lambda maxsize: lambda ask: wrapper(ask, maxsize, False, tuple)

    def _loaded() -> object:
        """Load SQLite's C part, without ``functools`` where no thread could meet the stand-in."""
        if "functools" not in sys.modules and not _count():
            from _functools import _lru_cache_wrapper

            sys.modules["functools"] = _Functools(_lru_cache_wrapper)
            try:
                import _sqlite3
            finally:
                del sys.modules["functools"]
        import _sqlite3

        return _sqlite3

    try:
        sqlite3 = _loaded()
    except ImportError:  # an interpreter that binds SQLite in another way
        import sqlite3

__all__ = ["sqlite3"]


REPAIR_HINT = "run: lastgood verify --repair"

# The last is said by those who looked for too long whether a database was set up.
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH}
_STORAGE = {
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "check the permissions of the store"),
    sqlite3.SQLITE_IOERR: ("the disk failed", "check the disk that the store is on"),
    sqlite3.SQLITE_NOMEM: ("there is no memory left", "free some memory and try again"),
    sqlite3.SQLITE_PERM: ("permission is denied", "check the permissions of the store"),
    sqlite3.SQLITE_READONLY: ("it is read-only", "make the store writable, or name another one"),
}

_MAYBE_FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}

# The database, its log, the index of that, and the folder they are in.
_FILES = 4

# The tables are not those of the version that the file says, or its header names a form that there is not.
_SHAPELESS = ("no such ", "duplicate column name", "unsupported file format")
# What SQLite is asked to call raises nothing by itself: it met a signal, whose handler did.
_INTERRUPTED = "user-defined function raised exception"

# Where the names of tables are damaged, what SQLite says of it is no text, which is all that Python tells.
BROKEN = (sqlite3.DatabaseError, UnicodeDecodeError)


def translate(
    error: Failure, path: str, *, what: str = "the catalogue", hint: str = REPAIR_HINT
) -> LastgoodError:
    """Return the error of ours that says what an error of SQLite or the disk means for the caller.

    ``hint`` is what to do about damage. An interruption that SQLite took for an error goes on as what it is.
    """
    if str(error) == _INTERRUPTED:
        raise KeyboardInterrupt from error
    shown = f"{what} {printable(path)}"
    full = _full(error, path, what)
    if full is not None:
        return full
    if isinstance(error, OSError):
        return Storage(
            f"{shown} failed: {error.strerror}",
            hint="check that the store can be written and has room, then try again",
        )
    if is_damage(error):
        return Damaged(f"{shown} is damaged ({error})", hint=hint)
    return _named(error, primary_code(error), path=path, what=what)


def is_damage(error: sqlite3.Error | UnicodeDecodeError) -> bool:
    """Tell whether an error speaks of the file, and not of the disk or of others that are at it."""
    text = str(error)
    return (
        isinstance(error, UnicodeDecodeError)
        or primary_code(error) in DAMAGED
        or text.startswith(_SHAPELESS)
        or text.endswith(" already exists")
    )


def _named(error: sqlite3.Error | UnicodeDecodeError, code: int, *, path: str, what: str) -> LastgoodError:
    """Return what SQLite's own name of an error means."""
    if code in _BUSY:
        return busy(path, what=what)
    shown = f"{what} {printable(path)}"
    # What could not be opened for writing is opened for reading, and called read-only.
    if code in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}:
        many = _crowd()
        if many is not None:
            return many
    if code in _STORAGE:
        why, hint = _STORAGE[code]
        return Storage(f"{shown} failed: {why} ({error})", hint=hint)
    if code == sqlite3.SQLITE_CONSTRAINT:
        return Conflict(f"{shown} refuses a contradiction ({error})")
    return Internal(f"{shown} failed ({type(error).__name__}: {error})")


def _crowd() -> Busy | None:
    """Return what is said if the files of a database could not be opened because too many are open."""
    error = crowd(_FILES)
    return None if error is None else crowded(error)


def busy(path: str, *, what: str = "the catalogue") -> Busy:
    """Return the error for whoever waited for others that have a database open, naming them."""
    from lastgood.lock_owner import holders, named, stopped_holder, suspended

    shown = f"{what} {printable(path)}"
    files = [os.fsencode(path), os.fsencode(path + "-shm")]
    stopped = stopped_holder(files, alone=True)
    if stopped is not None:
        return suspended(shown, stopped)
    pid = next((pid for file in files for pid in holders(file, alone=True)), None)
    owner = "" if pid is None else named(pid)
    return Busy(
        f"{shown} is locked by {owner or 'another process'}",
        hint="wait until the other lastgood command has finished, then try again",
        details={"owner": owner},
    )


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether an error says no more than that somebody else is at it."""
    return primary_code(error) in _BUSY - {sqlite3.SQLITE_PROTOCOL}


def _full(error: Failure, path: str, what: str) -> LastgoodError | None:
    """Return what is said where the disk is full, whatever SQLite calls it when its files find no room."""
    code = primary_code(error) if isinstance(error, sqlite3.Error) else 0
    if code not in _MAYBE_FULL and not isinstance(error, OSError):
        return None
    from lastgood.disk import no_room, shortage  # lazily: a disk is seldom full

    folder = os.path.dirname(path)
    full: OSError | None = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if isinstance(error, OSError):
        full = error if error.errno in FULL else None
    elif code != sqlite3.SQLITE_FULL:
        full = shortage(folder)
    return None if full is None else no_room(full, doing=f"writing {what}", place=folder)


def primary_code(error: sqlite3.Error | UnicodeDecodeError) -> int:
    """Return SQLite's primary result code, 0 when the error is not SQLite's own."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF
