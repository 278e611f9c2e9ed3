"""Reads a database without opening it: a copy in memory of its file, with what its log adds.

SQLite opens a file with a log only where it can make another one beside it, which a full disk or a
read-only medium does not take. To read the file alone would leave out the newest rows without a word,
so the log is carried into the copy here, as SQLite would do it (https://sqlite.org/fileformat2.html,
"The Write-Ahead Log").
"""

from __future__ import annotations

import os
from _struct import unpack, unpack_from

from lastgood.catalogue.sqlite import sqlite3
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    # Device, inode, size, modification and change time of a file; None where there is none.
    State = tuple[int, int, int, int, int] | None

_LOG = "-wal"
_JOURNAL = "-journal"
_HEADER_BYTES = 32
_FRAME_BYTES = 24
# Which of the two orders of bytes a log's checksums are made in is what differs between these.
_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}
_LOG_VERSION = 3007000
_WORD = 0xFFFFFFFF
# Where a database says whether it has a log (2) or not (1), for writing and for reading.
_LOGGED_AT = 18
_PAGE_SIZE_AT = 16
_PAGE_SIZES = frozenset(1 << power for power in range(9, 17))
_USUAL_PAGE_SIZE = 4096
# How long the header of a database is, in its first page.
_HEADER = 100
# So often the files are read again while somebody writes to them.
_TRIES = 20


class FileStamps(Value):
    """The two files of a database, as they were when they were copied."""

    file: State
    log: State


class KeptChanging(Exception):
    """The files never held still, or are of a kind that cannot be copied."""


def stamps_of(path: str) -> FileStamps:
    """Return what tells whether anybody wrote to a database since."""
    return FileStamps(file=_state(path), log=_state(path + _LOG))


def copy(path: str, open_file: Callable[[], sqlite3.Connection]) -> tuple[sqlite3.Connection, FileStamps]:
    """Return a connection to a copy in memory, and what was copied.

    ``open_file`` opens the file alone, without its log and without a lock. Raises OSError or
    sqlite3.Error where the files cannot be read, `KeptChanging`.
    """
    for _ in range(_TRIES):
        known = stamps_of(path)
        first = _read(path, open_file)
        # Read alike twice, in this order, they belong together: a log is emptied only when all of it
        # stands in the file, and what is carried over from it stands in the log as well.
        if _read(path, open_file) == first:
            break
    else:
        raise KeptChanging("it is written to all the time")
    file, log = first
    image = bytearray(file)
    if len(image) <= _LOGGED_AT + 1:
        raise KeptChanging("it is no database")
    _apply(image, log)
    return opened(image), known


def opened(image: bytearray) -> sqlite3.Connection:
    """Return a connection to a database that is only in memory, as one that has no log."""
    image[_LOGGED_AT : _LOGGED_AT + 2] = b"\x01\x01"
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        connection.deserialize(bytes(image))
    except BaseException:
        connection.close()
        raise
    return connection


def reheaded(path: str, *, application: int, first: bytes = b"") -> sqlite3.Connection:
    """Return a connection to a copy in memory of a database whose header is damaged, with a sound one.

    That says what is true of every database of ours, and of the rest what the damaged one does; of a version
    only where it says whose it is. ``first`` is a page to be taken in the place of the whole first one.
    OSError, and sqlite3.Error where more is damaged. It is for a file that SQLite opens for nobody: to close
    it here drops the locks of this process's other connections, which keep nobody from it then.
    """
    with open(path, "rb") as file:
        image = bytearray(file.read().ljust(_HEADER, b"\0"))
    try:
        with open(path + _LOG, "rb") as file:
            log = file.read()
    except FileNotFoundError:
        log = b""
    if _page_size(image) not in _PAGE_SIZES:
        image[_PAGE_SIZE_AT : _PAGE_SIZE_AT + 2] = _USUAL_PAGE_SIZE.to_bytes(2, "big")
    _apply(image, log)
    image[: len(first)] = first
    owner = application.to_bytes(4, "big")
    if image[68:72] != owner:
        image[60:64] = bytes(4)
    changes, pages = image[24:28], len(image) // _page_size(image)
    for at, content in (
        (0, b"SQLite format 3\0"),
        (20, b"\0\x40\x20\x20"),  # nothing reserved in a page, and the fractions, which are fixed
        (28, pages.to_bytes(4, "big")),
        (32, bytes(8)),  # which pages are free is of no concern to who only reads
        (44, b"\0\0\0\4"),  # the newest form of a schema
        (56, b"\0\0\0\1"),  # UTF-8
        (68, owner),
        (92, changes),  # the number of pages holds as of the last change
    ):
        image[at : at + len(content)] = content
    return opened(image)


def form_fault(connection: sqlite3.Connection) -> str | None:
    """Return what is wrong with the byte that says in which form a database is written.

    SQLite reads one whose form for writing is not known, writes to it never, and calls that read-only.
    """
    form = connection.serialize()[_LOGGED_AT : _LOGGED_AT + 1]
    return f"its header bears the form {form[0]} for writing, which there is not" if form > b"\x02" else None


def _state(path: str) -> State:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read(path: str, open_file: Callable[[], sqlite3.Connection]) -> tuple[bytes, bytes]:
    if (_state(path + _JOURNAL) or (0, 0, 0))[2]:
        raise KeptChanging("a change of it was interrupted")
    # By SQLite: to open and close the file here would drop the locks of this process's other connections.
    connection = open_file()
    try:
        file = connection.serialize()
    finally:
        connection.close()
    try:
        with open(path + _LOG, "rb") as stream:
            return file, stream.read()
    except FileNotFoundError:
        return file, b""


def _apply(image: bytearray, log: bytes) -> None:
    """Carry the pages of all transactions that a log has whole into the image of its database."""
    pages, count = _committed(log, size=_page_size(image))
    if not count:
        return
    size = _page_size(image)
    for number, at in pages.items():
        if number > count:
            continue
        start = (number - 1) * size
        if start > len(image):
            image.extend(bytes(start - len(image)))
        image[start : start + size] = log[at : at + size]
    del image[count * size :]


def _page_size(image: bytearray) -> int:
    size = int.from_bytes(image[_PAGE_SIZE_AT : _PAGE_SIZE_AT + 2], "big")
    return 0x10000 if size == 1 else size


def _committed(log: bytes, *, size: int) -> tuple[dict[int, int], int]:
    """Return where in a log the newest version of each page lies, and of how many pages the database is.

    Only what is before the last frame that ends a transaction counts, and only up to the first that
    does not prove whole or is left over from an earlier use of the log.
    """
    committed: dict[int, int] = {}
    count = 0
    head = log[:_HEADER_BYTES]
    if len(head) < _HEADER_BYTES:
        return committed, count
    magic, version, page, _, salts = *unpack_from(">IIII", head), head[16:24]
    order = _MAGIC.get(magic)
    if order is None or version != _LOG_VERSION or page != size:
        return committed, count
    sums = _checksum(order, head[:24], (0, 0))
    if sums != unpack_from(">II", head, 24):
        return committed, count
    latest: dict[int, int] = {}
    for at in range(_HEADER_BYTES, len(log) - _FRAME_BYTES - size + 1, _FRAME_BYTES + size):
        number, pages = unpack_from(">II", log, at)
        sums = _checksum(order, log[at : at + 8], sums)
        sums = _checksum(order, log[at + _FRAME_BYTES : at + _FRAME_BYTES + size], sums)
        if not number or log[at + 8 : at + 16] != salts or sums != unpack_from(">II", log, at + 16):
            break
        latest[number] = at + _FRAME_BYTES
        if pages:
            committed.update(latest)
            latest.clear()
            count = pages
    return committed, count


def _checksum(order: str, content: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    one, two = sums
    words = unpack(f"{order}{len(content) // 4}I", content)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        one = (one + even + two) & _WORD
        two = (two + odd + one) & _WORD
    return one, two
