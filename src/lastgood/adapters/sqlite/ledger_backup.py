"""The sound copy of a ledger beside it, and what is brought back from that.

There is one: what was removed from the ledger is gone from its copy with the next.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from lastgood.adapters.files import make_directories, sync_directory, sync_file
from lastgood.adapters.sqlite.backup import structure_fault
from lastgood.adapters.sqlite.copies import ask, clear, drop, make
from lastgood.adapters.sqlite.database import DEFAULT_WAIT, RESCUE, copy_into, open_uri, prepare
from lastgood.adapters.sqlite.faults import BROKEN, is_damage, primary_code
from lastgood.adapters.sqlite.ledger_file import LedgerFile, gate, lay_out, prove_genuine, sighting
from lastgood.adapters.sqlite.ledger_mending import complete, mend
from lastgood.adapters.sqlite.ledger_proof import faults_in
from lastgood.adapters.sqlite.ledger_salvage import take_over
from lastgood.adapters.sqlite.ledger_seal import Sealing, read_root
from lastgood.adapters.sqlite.library import sqlite3
from lastgood.adapters.sqlite.packed import unpack
from lastgood.codec.moment import iso
from lastgood.errors import Damaged, LastgoodError, Storage
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lastgood.adapters.sqlite.ledger_seal import Root
    from lastgood.adapters.witness import Sighting, Witness

BACKUP = "ledger.backup.sqlite3.gz"
_NEW = ".new"
_SIDECARS = ("-wal", "-shm", "-journal")


def backup_of(path: str) -> str:
    """Return where the copy of a ledger lies."""
    return os.path.join(os.path.dirname(path), BACKUP)


def back_up(file: LedgerFile) -> bool:
    """Copy the ledger; False when nothing changed since. `Damaged` if it is not sound: the copy stays."""
    backup = backup_of(file.path)
    clear(backup)
    standing = file.look(lambda connection: file.sealing.root(connection, path=file.path))
    known = _root_of(backup, file.sealing)
    if known is not None and (known.ledger, known.serial) == (standing.ledger, standing.serial):
        os.utime(backup)  # it is as good as new
        return False
    refusal = Damaged(
        f"the ledger {printable(file.path)} is damaged: not backed up", hint="run: lastgood verify --repair"
    )

    def copied(connection: sqlite3.Connection) -> str:
        return make(
            connection,
            backup,
            is_sound=lambda copy: not faults_of(copy, file.sealing),
            refusal=refusal,
        )

    packed = file.read(copied)
    try:
        os.rename(packed, backup)
        sync_directory(os.path.dirname(backup))
    finally:
        drop(packed)
    return True


def faults_of(path: str, sealing: Sealing) -> Sequence[str]:
    """Prove a copy of a ledger whole, and say what is wrong with it."""

    def proven(connection: sqlite3.Connection) -> Sequence[str]:
        _prove(connection, sealing, path=path)
        return list(faults_in(sealing, connection))

    try:
        return ask(path, proven)
    except (sqlite3.DatabaseError, LastgoodError, ValueError, OSError) as error:
        return [error.message if isinstance(error, LastgoodError) else str(error)]


def _root_of(path: str, sealing: Sealing) -> Root | None:
    """Return how a copy stands, None if there is none that can be trusted."""

    def read(connection: sqlite3.Connection) -> Root:
        return _prove(connection, sealing, path=path)

    try:
        return ask(path, read)
    except (sqlite3.DatabaseError, LastgoodError, ValueError, OSError):
        return None


def _prove(connection: sqlite3.Connection, sealing: Sealing, *, path: str) -> Root:
    prepare(connection)
    gate(connection, path=path)
    root = sealing.root(connection, path=path)
    sealing.prove_books(connection, root, path=path)
    return root


def repair(path: str, *, witness: Witness, at: int) -> tuple[str, ...]:
    """Bring back what is damaged, and say what; nothing where nothing genuine can be read.

    A file that SQLite can read and write is mended by a sound copy, book by book; any other is replaced by a
    new one, of all that can be read of it and what the copy has beside that. What the owner has to decide
    (another ledger was put here) is left alone. What is replaced is set aside first. May be killed at any
    moment and repeated. ``at`` is in nanoseconds.
    """
    if not any(os.path.exists(place) for place in (path, path + RESCUE, backup_of(path))):
        return ()
    sealing = Sealing(witness.key())
    draft = path + RESCUE + _NEW
    try:
        if _stands(path):
            return _mended(path, draft, witness=witness, at=at)
        with witness.watch() as watch, _held(path) as damaged:
            done = _replacement(path, sealing, damaged, known=watch.known)
            if done:
                root = _put(path, sealing, at=at)
                watch.advance(sighting(root))
            return done
    finally:
        for leftover in ("", *_SIDECARS):
            drop(draft + leftover)


def _mended(path: str, draft: str, *, witness: Witness, at: int) -> tuple[str, ...]:
    file = LedgerFile(path, witness=witness)
    try:
        backup = backup_of(path)
        if not os.path.exists(backup) or faults_of(backup, file.sealing):
            return ()
        unpack(backup, draft)
        return mend(file, draft, aside=lambda connection: copy_into(connection, _aside(path, at=at)))
    finally:
        file.close()


def _sound_backup(path: str, sealing: Sealing) -> str | None:
    """Return the copy of a ledger if it is whole; errors that say nothing about it are raised."""
    backup = backup_of(path)

    def proven(connection: sqlite3.Connection) -> bool:
        _prove(connection, sealing, path=backup)
        return not any(faults_in(sealing, connection))

    return backup if os.path.exists(backup) and _asked(backup, proven) else None


@contextmanager
def _held(path: str) -> Iterator[sqlite3.Connection | None]:
    """Keep everybody from writing to a damaged ledger that can be written to; None if it is gone."""
    if not os.path.exists(path):
        yield None
        return
    connection = open_uri(path, "mode=rw", wait=DEFAULT_WAIT)
    try:
        prepare(connection)
        for begin in ("BEGIN IMMEDIATE", "BEGIN"):
            try:
                connection.execute(begin)
                break
            except sqlite3.DatabaseError as error:
                if not is_damage(error) and primary_code(error) != sqlite3.SQLITE_READONLY:
                    raise
        yield connection
    finally:
        connection.close()


def _replacement(
    path: str, sealing: Sealing, damaged: sqlite3.Connection | None, *, known: Sighting | None
) -> tuple[str, ...]:
    """Write what is to lie in the place of a ledger beside it, whole, and say what that is."""
    if damaged is None and _is_finished(path, sealing, known=known):
        return ("an interrupted repair of the ledger was finished",)
    draft = path + RESCUE + _NEW
    backup = _sound_backup(path, sealing)
    done = None if damaged is None else _rebuilt(draft, sealing, damaged, backup=backup, known=known)
    if done is None:
        if backup is None:
            return ()
        unpack(backup, draft)
        done = _sealed_anew(draft, sealing, known=known)
    if not _is_sound(draft, sealing):
        raise Storage(
            "the ledger was not brought back: its copy is not read as it was written",
            hint="check the disk, then run: lastgood verify --repair",
        )
    sync_file(draft)
    os.rename(draft, path + RESCUE)
    sync_directory(os.path.dirname(path))
    return done


def _rebuilt(
    draft: str,
    sealing: Sealing,
    damaged: sqlite3.Connection,
    *,
    backup: str | None,
    known: Sighting | None,
) -> tuple[str, ...] | None:
    """Write what can be read of a damaged ledger, completed by a copy; None unless that is genuine."""
    done: tuple[str, ...] = ("the ledger was made anew of what can be read of the damaged one",)

    def fill(connection: sqlite3.Connection) -> None:
        nonlocal done
        take_over(damaged, connection, tags=sealing)
        root = prove_genuine(connection, sealing, known, path=draft)
        before = root.total
        if backup is None:
            done += complete(sealing, connection, root, source=None)
        else:
            done += ask(backup, lambda source: complete(sealing, connection, root, source=source))
        if root.total != before:
            sealing.seal(connection, root)

    try:
        lay_out(draft, fill)
    except BROKEN as error:
        if not is_damage(error):
            raise
        return None
    except Damaged:
        return None
    return done


def _sealed_anew(draft: str, sealing: Sealing, *, known: Sighting | None) -> tuple[str, ...]:
    """Make a copy the newest state that is known, before it is put into its place."""
    connection = open_uri(draft, "mode=rw", wait=0)
    try:
        # Sealed without a log or a journal beside it: these would not be where the file goes.
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("BEGIN IMMEDIATE")
        root = read_root(connection)
        copied = root.serial
        root.serial = max(copied, 0 if known is None else known.serial)
        sealing.seal(connection, root)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    last = "" if known is None else f" of {known.serial}"
    return (f"the ledger was brought back from its backup, as it was after change {copied}{last}",)


def _is_sound(path: str, sealing: Sealing) -> bool:
    """Tell whether a ledger that nobody has open stands, and its root for its books."""

    def proven(connection: sqlite3.Connection) -> bool:
        _prove(connection, sealing, path=path)
        return structure_fault(connection) is None

    return _asked(path, proven)


def _asked(path: str, question: Callable[[sqlite3.Connection], bool]) -> bool:
    """Ask a ledger that nobody has open; False if it is damaged."""
    try:
        return ask(path, question)
    except BROKEN as error:
        if not is_damage(error):
            raise
        return False
    except (LastgoodError, ValueError):
        return False


def _is_finished(path: str, sealing: Sealing, *, known: Sighting | None) -> bool:
    """Tell whether an interrupted repair left a replacement that is the newest state known."""
    rescue = path + RESCUE

    def genuine(connection: sqlite3.Connection) -> bool:
        return prove_genuine(connection, sealing, known, path=rescue) is not None

    return os.path.exists(rescue) and _is_sound(rescue, sealing) and _asked(rescue, genuine)


def _put(path: str, sealing: Sealing, *, at: int) -> Root:
    """Put a finished replacement into its place, and return its root."""
    root = ask(path + RESCUE, lambda connection: _prove(connection, sealing, path=path))
    _set_aside(path, at=at)
    os.rename(path + RESCUE, path)
    sync_directory(os.path.dirname(path))
    return root


def _stands(path: str) -> bool:
    """Tell whether a ledger is there that SQLite can read and write.

    What says nothing about the file (others are at it, the disk is full) is no reason to replace it.
    """
    if not os.path.exists(path):
        return False
    connection = open_uri(path, "mode=rw", wait=DEFAULT_WAIT)
    try:
        prepare(connection)
        gate(connection, path=path)
        return structure_fault(connection) is None
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return False
    except (Damaged, UnicodeDecodeError):  # in the words of SQLite for a damaged table
        return False
    finally:
        connection.close()


def _set_aside(path: str, *, at: int) -> None:
    """Move a ledger and its log out of the way, first the file itself: while it is there it has its log."""
    present = [suffix for suffix in ("", *_SIDECARS) if os.path.exists(path + suffix)]
    target = _aside(path, at=at) if present else ""
    for suffix in present:
        os.rename(path + suffix, target + suffix)
        sync_directory(os.path.dirname(path))
    if present:
        sync_directory(os.path.dirname(target))


def _aside(path: str, *, at: int) -> str:
    """Return where a damaged ledger is set aside, in a folder that is made."""
    stamp = iso(at).replace(":", "").replace("-", "")
    folder = os.path.join(os.path.dirname(path), "damaged", f"ledger-{stamp}")
    make_directories(os.fsencode(folder))
    return os.path.join(folder, os.path.basename(path))
