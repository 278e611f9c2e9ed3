"""Sound copies of the catalogue beside it."""

from __future__ import annotations

import errno
import fcntl
import os
import zlib

from lastgood.catalogue.database import (
    BACKUP,
    BACKUPS,
    CURRENT,
    broken_rows,
    copy_into,
    create,
    gate,
    open_uri,
    prepare,
    tables,
    version,
)
from lastgood.catalogue.image import form_fault
from lastgood.catalogue.sqlite import REPAIR_HINT, sqlite3
from lastgood.errors import FULL, Damaged, LastgoodError
from lastgood.files import (
    PRIVATE_FILE,
    make_directories,
    sync_directory,
    unlink_quietly,
    write_private,
    write_whole,
)
from lastgood.paths import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    Answer = TypeVar("Answer")
    # Table: what there is to it, in no order; columns stand where the version that added them put them.
    Shape = dict[str, set[tuple[object, ...]]]


# --- The form of a backup on the disk: a database compressed whole, as gzip does it (RFC 1952) ---

SUFFIX = ".gz"
_GZIP = 31
_LEVEL = 6
_PIECE_BYTES = 1 << 20


def pack(source: str, target: str) -> None:
    """Write a file compressed, private and durable; read again, it is proven by its checksum.

    Raises OSError, and ValueError when what is read is not what was written.
    """
    write_private(os.fsencode(target), b"")
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    descriptor = os.open(target, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        for piece in _read(source):
            write_whole(descriptor, deflate.compress(piece))
        write_whole(descriptor, deflate.flush())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    for _ in contents(target):
        pass


def unpack(source: str, target: str) -> None:
    """Write what a backup holds, compressed or not, into a private file; OSError, ValueError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(target, flags, PRIVATE_FILE)
    try:
        os.fchmod(descriptor, PRIVATE_FILE)
        for piece in contents(source):
            write_whole(descriptor, piece)
    finally:
        os.close(descriptor)


def contents(path: str) -> Iterator[bytes]:
    """Yield what a backup holds, compressed or not; ValueError when it is not whole."""
    if not path.endswith(SUFFIX):
        yield from _read(path)
        return
    inflate = zlib.decompressobj(_GZIP)
    pieces = _read(path)
    try:
        while not inflate.eof:
            packed = inflate.unconsumed_tail or next(pieces, b"")
            if not packed:
                raise ValueError("it ends too early")
            yield inflate.decompress(packed, _PIECE_BYTES)
        if inflate.unused_data or next(pieces, b""):
            raise ValueError("something follows its end")
    except zlib.error as error:
        raise ValueError(f"it does not decompress ({error})") from None


def _read(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


# --- Sound copies of a database: made whole and compressed, and proven before they take the place of others
# ---

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
        unlink_quietly(packed)
        raise OSError(errno.EIO, f"a backup is not read as it was written: {error}") from error
    except OSError:
        unlink_quietly(packed)
        raise
    finally:
        unlink_quietly(fresh + ".new")
        unlink_quietly(fresh)
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
    from lastgood.catalogue.image import opened  # lazily: only a full disk needs it

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
        unlink_quietly(plain)
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
        unlink_quietly(left)
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
        unlink_quietly(path)
    except OSError:
        return  # somebody looks into it
    finally:
        os.close(descriptor)


# --- Whether the tables are those of their version: a flipped bit in a name of theirs damages no page ---

# Types are left out: a release wrote another one for manifests.
_COLUMNS = 'SELECT name, "notnull", dflt_value, pk FROM pragma_table_info(?)'
_REFERENCES = 'SELECT "table", "from", "to" FROM pragma_foreign_key_list(?)'
_INDEXES = 'SELECT name, "unique", origin, partial FROM pragma_index_list(?)'
_INDEXED = "SELECT name FROM pragma_index_info(?) ORDER BY seqno"

_wanted: Shape = {}


def shape_fault(connection: sqlite3.Connection) -> str | None:
    """Return which table of a catalogue of the present version is not as it was made, None if all are."""
    if version(connection) != CURRENT.version:
        return None
    if not _wanted:
        _wanted.update(of_new(_shape))
    wanted, found = _wanted, _shape(connection)
    wrong = sorted(table for table in wanted.keys() | found.keys() if wanted.get(table) != found.get(table))
    return f"the table {wrong[0]} is not as it was made" if wrong else None


def of_new(look: Callable[[sqlite3.Connection], Answer]) -> Answer:
    """Return what there is to see of an empty catalogue of the present version."""
    pattern = sqlite3.connect(":memory:", isolation_level=None)
    try:
        create(pattern, CURRENT, generation="")
        return look(pattern)
    finally:
        pattern.close()


def _shape(connection: sqlite3.Connection) -> Shape:
    named = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite#_%' ESCAPE '#'"
    return {str(table): _parts(connection, str(table)) for (table,) in connection.execute(named).fetchall()}


def _parts(connection: sqlite3.Connection, table: str) -> set[tuple[object, ...]]:
    parts = {("column", *row) for row in connection.execute(_COLUMNS, (table,))}
    parts |= {("reference", *row) for row in connection.execute(_REFERENCES, (table,))}
    for index in connection.execute(_INDEXES, (table,)).fetchall():
        over = [name for (name,) in connection.execute(_INDEXED, (index[0],))]
        parts.add(("index", *index, *over))
    return parts


# --- Sound copies of the catalogue beside it ---

# What is wrong with a catalogue that a backup is ahead of.
OLDER = "is older than its backup"
# Where repairs put what they replace.
DAMAGED = "damaged"
_CHANGES = "SELECT value FROM meta WHERE name = 'changes'"


def back_up(connection: sqlite3.Connection, path: str, *, alone: bool = False) -> bool:
    """Copy the catalogue to its backup, keeping the one before; False when nothing changed since.

    ``alone``: the one before goes, once the new one is there and proven. `Damaged` if the copy is not sound,
    or older than the backup: it must not push out a better one.
    """
    backup = os.path.join(os.path.dirname(path), BACKUP)
    clear(backup)
    there = backups(path)
    if is_older(connection, path):
        raise Damaged(f"the catalogue {printable(path)} {OLDER}: not backed up", hint=REPAIR_HINT)
    if there and _changes(there[0]) == connection.execute(_CHANGES).fetchone()[0]:
        if alone and is_sound(there[0]):
            _drop_older(path)
        return False
    refusal = Damaged(f"the catalogue {printable(path)} is damaged: not backed up", hint=REPAIR_HINT)
    packed = make(connection, backup, is_sound=_is_whole, refusal=refusal)
    try:
        _put(packed, backup, before=there[0] if there else None)
    finally:
        unlink_quietly(packed)
    if alone:
        _drop_older(path)
    return True


def _drop_older(path: str) -> None:
    older = backups(path)[1:]
    for one in older:
        unlink_quietly(one)
    if older:
        sync_directory(os.path.dirname(path))


def _put(packed: str, backup: str, *, before: str | None) -> None:
    """Make a copy the newest backup, and the newest until now the one before; all others go."""
    if before == backup + SUFFIX:
        before = backup + ".1" + SUFFIX
        os.rename(backup + SUFFIX, before)
    os.rename(packed, backup + SUFFIX)
    sync_directory(os.path.dirname(backup))
    for other in backups(backup):
        if other not in {backup + SUFFIX, before}:
            unlink_quietly(other)


def backups(path: str) -> list[str]:
    """Return the backups beside a catalogue, the newest first."""
    places = (os.path.join(os.path.dirname(path), name) for name in BACKUPS)
    return [place for place in places if os.path.exists(place)]


def _changes(backup: str) -> object:
    def changes(connection: sqlite3.Connection) -> object:
        return connection.execute(_CHANGES).fetchone()[0]

    try:
        return ask(backup, changes)
    except (sqlite3.DatabaseError, ValueError, TypeError):  # a TypeError where the row is missing
        return None


def soundest_backup(path: str) -> str | None:
    """Return the newest backup beside a catalogue that proves whole, None if there is none."""
    sound = [one for one in backups(path) if is_sound(one)]
    return max(sound, key=_count, default=None)  # of two alike the first, which is the newer one


def is_older(connection: sqlite3.Connection, path: str) -> bool:
    """Tell whether a sound backup is ahead of a catalogue: then an older copy was put into its place."""
    mine = connection.execute(_CHANGES).fetchone()
    count = mine[0] if mine is not None and isinstance(mine[0], int) else 0
    return any(_count(one) > count and is_sound(one) for one in backups(path))


def _count(backup: str) -> int:
    found = _changes(backup)
    return found if isinstance(found, int) else 0


def is_sound(path: str) -> bool:
    """Tell whether a catalogue or backup that nobody has open is sound, and of a version that can be read."""
    return _proves(path, integrity_fault)


def _is_whole(path: str) -> bool:
    return _proves(path, lambda connection: integrity_fault(connection) or loss(connection))


def _proves(path: str, fault: Callable[[sqlite3.Connection], str | None]) -> bool:
    def proven(connection: sqlite3.Connection) -> bool:
        prepare(connection)
        gate(connection, CURRENT, path=path)
        return fault(connection) is None

    try:
        return ask(path, proven)
    except (sqlite3.DatabaseError, LastgoodError, ValueError):
        return False


def integrity_fault(connection: sqlite3.Connection) -> str | None:
    """Return what is wrong with a catalogue: its structure, or rows that were altered from outside."""
    fault = structure_fault(connection)
    if fault is None:
        fault = "; ".join(f"altered: {row}" for row in broken_rows(connection)) or None
    return fault


def loss(connection: sqlite3.Connection) -> str | None:
    """Return which lists a sound catalogue lacks parts of: all else of it is as good as ever."""
    if "progress" not in tables(connection):
        return None
    from lastgood.catalogue.work import torn_lists

    return "; ".join(map(str, torn_lists(connection))) or None


def structure_fault(connection: sqlite3.Connection) -> str | None:
    """Return what SQLite finds wrong with its own pages and indexes, or which table is not as it was made."""
    findings = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
    if findings != ["ok"]:
        return "; ".join(findings)
    return form_fault(connection) or shape_fault(connection)


def unsound_backups(path: str) -> list[str]:
    """Return the backups beside a catalogue that do not prove whole."""
    return [one for one in backups(path) if not is_sound(one)]


def set_aside(backup: str) -> str:
    """Move a backup out of the way, durably, under a name that is free, and return where it is; OSError."""
    folder, name = os.path.split(backup)
    target = os.path.join(folder, DAMAGED, name)
    make_directories(os.fsencode(os.path.dirname(target)))
    number = 0
    while os.path.lexists(target):
        number += 1
        target = os.path.join(folder, DAMAGED, f"{name}.{number}")
    os.rename(backup, target)
    sync_directory(os.path.dirname(target))
    sync_directory(folder)
    return printable(target)
