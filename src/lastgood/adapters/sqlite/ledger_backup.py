"""The sound copy of a ledger beside it, and what is brought back from that.

There is one: what was removed from the ledger is gone from its copy with the next.
"""

from __future__ import annotations

import os

from lastgood.adapters.files import make_directories, sync_directory, sync_file
from lastgood.adapters.sqlite.backup import structure_fault
from lastgood.adapters.sqlite.copies import ask, clear, drop, make
from lastgood.adapters.sqlite.database import DEFAULT_WAIT, copy_into, open_uri, prepare
from lastgood.adapters.sqlite.faults import is_damage
from lastgood.adapters.sqlite.ledger_file import LedgerFile, gate
from lastgood.adapters.sqlite.ledger_mending import mend
from lastgood.adapters.sqlite.ledger_proof import faults_in
from lastgood.adapters.sqlite.ledger_seal import Sealing, read_root
from lastgood.adapters.sqlite.library import sqlite3
from lastgood.adapters.sqlite.packed import unpack
from lastgood.codec.moment import iso
from lastgood.errors import Damaged, LastgoodError, Storage
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.adapters.sqlite.ledger_seal import Root
    from lastgood.adapters.witness import Witness

BACKUP = "ledger.backup.sqlite3.gz"
_DRAFT = ".rescue"
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
    """Bring back what is damaged from the copy, and say what; nothing without a sound one.

    A file that can be opened is mended book by book: those that are sound stay as they are. What the
    owner has to decide (another copy of the whole was put here) is left alone. What is replaced is
    set aside first. May be killed at any moment and repeated. ``at`` is in nanoseconds.
    """
    backup = backup_of(path)
    if not os.path.exists(backup):
        return ()
    sealing = Sealing(witness.key())
    draft = path + _DRAFT
    if faults_of(backup, sealing):
        return ()
    if _stands(path):
        file = LedgerFile(path, witness=witness)
        try:
            unpack(backup, draft)
            return mend(file, draft, aside=lambda connection: copy_into(connection, _aside(path, at=at)))
        finally:
            file.close()
            drop(draft)
    for leftover in _SIDECARS:
        drop(draft + leftover)
    unpack(backup, draft)
    done = _sealed_anew(draft, witness=witness)
    sync_file(draft)
    _set_aside(path, at=at)
    os.rename(draft, path)
    sync_directory(os.path.dirname(path))
    return (done,)


def _sealed_anew(path: str, *, witness: Witness) -> str:
    """Make a copy the newest state that is known, before it is put into its place."""
    known = witness.last()
    file = LedgerFile(path, witness=witness)
    try:
        copied = file.read(lambda connection: read_root(connection).serial)
        # Sealed without a log or a journal beside it: these would not be where the file goes.
        file.read(lambda connection: connection.execute("PRAGMA journal_mode = MEMORY"))
        file.overwrite(lambda _connection, _root: None)
        file.read(lambda connection: connection.execute("PRAGMA journal_mode = WAL"))
    finally:
        file.close()
    sealed = _root_of(path, file.sealing)
    if sealed is None or sealed.serial <= copied:
        raise Storage(
            "the ledger was not brought back: its copy is not read as it was written",
            hint="check the disk, then run: lastgood verify --repair",
        )
    last = "" if known is None else f" of {known.serial}"
    return f"the ledger was brought back from its backup, as it was after change {copied}{last}"


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
    """Move a ledger and its log out of the way."""
    present = [suffix for suffix in ("", *_SIDECARS) if os.path.exists(path + suffix)]
    target = _aside(path, at=at) if present else ""
    for suffix in reversed(present):
        os.rename(path + suffix, target + suffix)
    if present:
        sync_directory(os.path.dirname(target))


def _aside(path: str, *, at: int) -> str:
    """Return where a damaged ledger is set aside, in a folder that is made."""
    stamp = iso(at).replace(":", "").replace("-", "")
    folder = os.path.join(os.path.dirname(path), "damaged", f"ledger-{stamp}")
    make_directories(os.fsencode(folder))
    return os.path.join(folder, os.path.basename(path))
