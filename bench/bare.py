"""What nobody is spared who keeps files, and the programs of which an answer to a hook is made.

It asks for the state of every file by names that it knows, reads and hashes what changed, writes it
compressed, syncs as a durable save has to, and commits a row. Imported by a program that measures its own
start, it loads no more than that needs.
"""

from __future__ import annotations

import os
import sys
import zlib
from _ctypes import FUNCFLAG_CDECL, FUNCFLAG_PYTHONAPI, CFuncPtr, _SimpleCData, dlopen, dlsym
from _sha1 import sha1
from itertools import repeat

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    connect = sqlite3.connect
else:
    # Of `functools` SQLite takes one thing, and five modules would come along.
    known = "functools" in sys.modules
    if not known:
        from _functools import _lru_cache_wrapper

        sys.modules["functools"] = stand_in = type(sys)("functools")
        stand_in.lru_cache = lambda most: lambda ask: _lru_cache_wrapper(ask, most, False, tuple)
    from _sqlite3 import connect

    if not known:
        del sys.modules["functools"]

Listed = list[tuple[str, list[bytes]]]

# A hook: it hands on what it is told, and waits for an answer.
CLIENT = """
import os, sys
from _socket import AF_UNIX, SOCK_STREAM, socket
told = os.read(0, 1 << 16)
asking = socket(AF_UNIX, SOCK_STREAM)
asking.connect(sys.argv[1])
asking.sendall(told)
asking.recv(16)
os._exit(0)
"""


class Kept:
    """A store: packs with an index each, and a table of rows."""

    def __init__(self, store: str) -> None:
        os.makedirs(f"{store}/packs", exist_ok=True)
        self._store = store
        self._rows = connect(f"{store}/rows", isolation_level=None)
        self._rows.execute("PRAGMA journal_mode = WAL")
        self._rows.execute("PRAGMA synchronous = FULL")
        self._rows.execute("CREATE TABLE IF NOT EXISTS row (number INTEGER PRIMARY KEY, said BLOB)")

    def keep(self, contents: Iterable[bytes]) -> None:
        """Keep contents in a pack of their own, durably."""
        packed = [(sha1(content).digest(), zlib.compress(content, 1)) for content in contents]
        stem = f"{self._store}/packs/{os.urandom(8).hex()}"
        self.write(f"{stem}.pack", b"".join(content for _, content in packed))
        self.write(f"{stem}.idx", b"".join(sorted(oid for oid, _ in packed)))
        sync([f"{self._store}/packs"])

    def commit(self, said: bytes) -> None:
        """Add a row, durably."""
        self._rows.execute("INSERT INTO row (said) VALUES (?)", (said * 50,))

    def last(self) -> object:
        """Return what the last row says."""
        return self._rows.execute("SELECT said FROM row ORDER BY number DESC LIMIT 1").fetchone()

    def write(self, path: str, content: bytes) -> None:
        """Write a file, durable when it has its name."""
        descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(descriptor, content)
        os.fsync(descriptor)
        os.close(descriptor)
        os.rename(f"{path}.new", path)


class _Int(_SimpleCData):  # type: ignore[type-arg]  # at run time it has no arguments
    _type_ = "i"


class Answer(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "c"


class Call(CFuncPtr):
    _flags_ = FUNCFLAG_CDECL | FUNCFLAG_PYTHONAPI
    _restype_ = _Int


STATX_BYTES, NOFOLLOW, BASIC = 256, 0x100, 0x7FF


def listed(root: str) -> Listed:
    """Return every folder with the names in it."""
    return [
        (folder, [os.fsencode(name) for name in folders + names]) for folder, folders, names in os.walk(root)
    ]


def look(known: Listed) -> None:
    """Ask for the state of every file, in the way that takes Python least: no object is made of an answer."""
    ask = Call(dlsym(dlopen(None, 0), "statx"))  # type: ignore[arg-type]  # what is loaded already
    answer = (Answer * STATX_BYTES)()
    for folder, names in known:
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        if any(map(ask, repeat(directory), names, repeat(NOFOLLOW), repeat(BASIC), repeat(answer))):
            raise FileNotFoundError(folder)
        os.close(directory)


def read(path: str) -> bytes:
    """Return what a file holds."""
    descriptor = os.open(path, os.O_RDONLY)
    content = os.read(descriptor, os.fstat(descriptor).st_size)
    os.close(descriptor)
    return content


def sync(folders: Iterable[str]) -> None:
    """Have the names in folders survive a power cut."""
    for folder in folders:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(descriptor)
        os.close(descriptor)
