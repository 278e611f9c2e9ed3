"""What is known of a store outside it: the key that seals its ledger, and how far that had come.

Whoever may write to the store may put an older copy of it back, and every byte of that is genuine.
Only what lies elsewhere can tell.
"""

from __future__ import annotations

import fcntl
import os
import time
import zlib
from _thread import get_ident
from contextlib import contextmanager, suppress

from lastgood.disk import no_room
from lastgood.errors import FULL, Damaged, Storage
from lastgood.files import PRIVATE_FILE, read_whole, sync_directory, write_private, write_whole
from lastgood.paths import printable, to_text
from lastgood.store import make_private
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_KEY_BYTES = 32
_SLOT = 192
# How long what another process writes there is waited for, in seconds: it is a few bytes.
_PATIENCE = 1.0
_STRIDE = 0.001


class LedgerState(Value):
    """The state of a ledger when it was last written: its id, how often it was, its seal."""

    ledger: str
    serial: int
    seal: bytes


class LedgerAnchor:
    """A folder that is no part of any store."""

    def __init__(self, directory: bytes, *, store: str) -> None:
        self._directory = directory
        self._path = directory + b"/" + store.encode("utf-8", "surrogateescape").hex().encode()
        # Where what was seen of the store is written.
        self.file: str = to_text(self._path)
        self._last: tuple[bytes, LedgerState | None] = (b"", None)
        self._is_private = False

    def key(self) -> bytes:
        """Return the key of this user on this machine, making it first if there is none."""
        try:
            found = self._key()
        except OSError as error:
            raise self._failed(error) from error
        if len(found) != _KEY_BYTES:
            raise Damaged(
                f"the key {printable(to_text(self._directory))}/key is damaged",
                hint="put it back from a backup, or remove it and accept the ledger anew",
            )
        return found

    def _key(self) -> bytes:
        path = self._directory + b"/key"
        found = read_whole(path)
        if found is not None:
            return found
        make_private(self._directory)
        temporary = path + b".%d.%d" % (os.getpid(), get_ident())
        write_private(temporary, os.urandom(_KEY_BYTES))
        try:
            os.link(temporary, path)  # of two that make one at once, the first counts
        except FileExistsError:
            pass
        finally:
            os.unlink(temporary)
        sync_directory(self._directory)
        return read_whole(path) or b""

    def last(self) -> LedgerState | None:
        """Return what was last seen of the store's ledger, None if it never was."""
        try:
            content = read_whole(self._path)
        except OSError as error:
            raise self._failed(error) from error
        return None if content is None else self.newest(content)

    def newest(self, content: bytes) -> LedgerState | None:
        """Return the later of the states that two slots hold; what was read just now is not read again."""
        last = self._last  # other threads may be at it
        if last[0] != content:
            self._last = last = (content, _newest(content))
        return last[1]

    def know(self, content: bytes, newest: LedgerState) -> None:
        """Know what two slots hold that were written just now."""
        self._last = (content, newest)

    @contextmanager
    def watch(self) -> Iterator[AnchorFile]:
        """Open what is written about the store, so that writing it later has no reason to fail."""
        try:
            descriptor = self._opened()
        except OSError as error:
            raise self._failed(error) from error
        try:
            try:
                watch = AnchorFile(descriptor, self)
            except OSError as error:
                raise self._failed(error) from error
            yield watch
        finally:
            os.close(descriptor)

    def _opened(self) -> int:
        """Open the file, making the folder first, or closing it to others, where that was not done yet."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        if self._is_private:
            try:
                return os.open(self._path, flags, PRIVATE_FILE)
            except FileNotFoundError:
                pass
        make_private(self._directory)
        self._is_private = True
        return os.open(self._path, flags, PRIVATE_FILE)

    def _failed(self, error: OSError) -> Storage:
        if error.errno in FULL:
            hint = "use a folder on another disk: LASTGOOD_WITNESS"
            return no_room(error, doing="remembering the ledger", place=self._directory, hint=hint)
        return Storage(
            f"the folder {printable(to_text(self._directory))} cannot be used: {error.strerror}",
            hint="check it, or name another folder outside the store: LASTGOOD_WITNESS",
        )


class AnchorFile:
    """A look at what is written about a store, and the means to write it."""

    def __init__(self, descriptor: int, anchor: LedgerAnchor) -> None:
        self._descriptor = descriptor
        self._anchor = anchor
        content = self._read()
        if len(content) < 2 * _SLOT:
            _fill(descriptor)
        self.known: LedgerState | None = anchor.newest(content)

    def advance(self, seen: LedgerState, *, anew: bool = False) -> None:
        """Remember a state unless a later one is known (``anew``: whatever is known).

        It need not reach the disk at once, and may fail: a ledger that is ahead of its anchor is fine.
        """
        with suppress(OSError):
            self._hold()
            content = self._read()
            known = self._anchor.newest(content)
            if anew:
                os.pwrite(self._descriptor, bytes(2 * _SLOT), 0)
            elif known is not None and known.ledger == seen.ledger and known.serial >= seen.serial:
                return
            # Two slots in turn: one torn by a crash leaves the other.
            slot, place = _slot(seen), seen.serial % 2 * _SLOT
            os.pwrite(self._descriptor, slot, place)
            if not anew and len(content) == 2 * _SLOT and (known is None or known.ledger == seen.ledger):
                self._anchor.know(content[:place] + slot + content[place + _SLOT :], seen)

    def _read(self) -> bytes:
        return os.pread(self._descriptor, 2 * _SLOT, 0)

    def _hold(self) -> None:
        """Keep others from writing; BlockingIOError where one of them does not end, being stopped perhaps."""
        ends = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= ends:
                    raise
                time.sleep(_STRIDE)
            else:
                return


def find_store(directory: bytes, *, ledger: str) -> str | None:
    """Return the one store whose ledger was seen to be this one, None if none or several were."""
    found = []
    try:
        for name in os.listdir(directory):
            seen = None if name == b"key" else _newest(read_whole(directory + b"/" + name) or b"")
            if seen is not None and seen.ledger == ledger:
                found.append(to_text(bytes.fromhex(name.decode("ascii"))))
    except (OSError, ValueError):
        return None
    return found[0] if len(found) == 1 else None


def _fill(descriptor: int) -> None:
    """Have the disk's room for what will be written."""
    missing = 2 * _SLOT - os.fstat(descriptor).st_size
    if missing > 0:
        os.lseek(descriptor, 0, os.SEEK_END)
        write_whole(descriptor, bytes(missing))


def _slot(seen: LedgerState) -> bytes:
    content = f"1 {seen.ledger} {seen.serial} {seen.seal.hex()}".encode()
    return (content + b" %d" % zlib.crc32(content)).ljust(_SLOT - 1) + b"\n"


def _newest(content: bytes) -> LedgerState | None:
    slots = (_decode_slot(content[place : place + _SLOT]) for place in (0, _SLOT))
    return max((one for one in slots if one is not None), key=lambda one: one.serial, default=None)


def _decode_slot(slot: bytes) -> LedgerState | None:
    content, _, checksum = slot.strip(b" \n\0").rpartition(b" ")
    if not checksum.isdigit() or zlib.crc32(content) != int(checksum):
        return None
    version, ledger, serial, seal = content.decode("ascii").split(" ")
    if version != "1":
        return None
    return LedgerState(ledger=ledger, serial=int(serial), seal=bytes.fromhex(seal))
