"""What SQLite complains about, in the words of `lastgood.errors`."""

from __future__ import annotations

from lastgood.adapters.sqlite.library import sqlite3
from lastgood.errors import Busy, Conflict, Damaged, Internal, LastgoodError, Storage
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    Failure = sqlite3.Error | OSError | UnicodeDecodeError

REPAIR_HINT = "run: lastgood verify --repair"

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH}
_STORAGE = {
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "check the permissions of the store"),
    sqlite3.SQLITE_FULL: ("the disk is full", "free some space and try again"),
    sqlite3.SQLITE_IOERR: ("the disk failed", "check the disk that the store is on"),
    sqlite3.SQLITE_NOMEM: ("there is no memory left", "free some memory and try again"),
    sqlite3.SQLITE_PERM: ("permission is denied", "check the permissions of the store"),
    sqlite3.SQLITE_READONLY: ("it is read-only", "make the store writable, or name another one"),
}

# The tables are not those of the version that the file says.
_SHAPELESS = ("no such ", "duplicate column name")
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
    if isinstance(error, OSError):
        return Storage(
            f"{shown} failed: {error.strerror}",
            hint="check that the store can be written and has room, then try again",
        )
    code = sqlite3.SQLITE_CORRUPT if isinstance(error, UnicodeDecodeError) else primary_code(error)
    if code in _BUSY:
        return Busy(
            f"{shown} is locked by another process",
            hint="wait until the other lastgood command has finished, then try again",
        )
    if code in _STORAGE:
        why, hint = _STORAGE[code]
        return Storage(f"{shown} failed: {why} ({error})", hint=hint)
    if code == sqlite3.SQLITE_CONSTRAINT:
        return Conflict(f"{shown} refuses a contradiction ({error})")
    if code in DAMAGED or str(error).startswith(_SHAPELESS) or str(error).endswith(" already exists"):
        return Damaged(f"{shown} is damaged ({error})", hint=hint)
    return Internal(f"{shown} failed ({type(error).__name__}: {error})")


def primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code, 0 when the error is not SQLite's own."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF
