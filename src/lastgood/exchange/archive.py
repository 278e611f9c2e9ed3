"""Writes and reads an export: a plain tar of four members in a fixed order (POSIX ustar).

Reading believes nothing: names, order, kinds and sizes have to be exactly what was written, so that
no path of an archive ever becomes a path on the disk.
"""

from __future__ import annotations

import fcntl
import os
import stat

from lastgood.disk import no_room
from lastgood.errors import FULL, Damaged, Invalid, NotFound, Storage
from lastgood.exchange.form import encode_header
from lastgood.files import sync_directory, unlink_quietly
from lastgood.paths import printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lastgood.model.exchange import Header

HEADER, FACTS, PACK, SUMS = b"lastgood.json", b"facts.jsonl", b"objects.pack", b"SHA256SUMS"
MEMBERS = (HEADER, FACTS, PACK, SUMS)
MOST_FACTS = 1 << 28
_MOST = {HEADER: 1 << 16, FACTS: MOST_FACTS, PACK: 1 << 62, SUMS: 1 << 12}
_BLOCK = 512
_STEP = 1 << 20
_OCTAL_LIMIT = 1 << 33
# What a file's name goes on with as long as it is being written.
_PART = b".part-"
_RANDOM_BYTES = 6
_AGAIN = "export again; nothing was imported"


def sha256_of(pieces: Iterable[bytes]) -> str:
    """Return the SHA-256 of bytes that come in pieces, in hex."""
    import hashlib

    running = hashlib.sha256()
    for piece in pieces:
        running.update(piece)
    return running.hexdigest()


def pieces_of(path: bytes) -> Iterator[bytes]:
    """Yield the bytes of a file."""
    with open(path, "rb") as stream:
        while piece := stream.read(_STEP):
            yield piece


def write_archive(path: bytes, *, header: Header, facts: bytes, pack: bytes) -> int:
    """Write an export durably, whole or not at all, and return its size; ``pack`` is a file's path.

    The sizes and checksums of both are those that the header tells.
    `Invalid` if the file is there already, `Storage`.
    """
    _collect_parts(path)
    try:
        fresh, descriptor = _begin(path)
    except OSError as error:
        raise _storage(error, path) from error
    try:
        with open(descriptor, "wb") as stream:
            head = encode_header(header)
            sums = ((sha256_of([head]), HEADER), (header.facts.sha256, FACTS), (header.pack.sha256, PACK))
            checks = b"".join(_line(digest, name) for digest, name in sums)
            stream.writelines(_member(HEADER, len(head), [head]))
            stream.writelines(_member(FACTS, header.facts.size, [facts]))
            stream.writelines(_member(PACK, header.pack.size, pieces_of(pack)))
            stream.writelines(_member(SUMS, len(checks), [checks]))
            stream.write(bytes(2 * _BLOCK))
            stream.flush()
            os.fsync(stream.fileno())
            size = stream.tell()
            _put(fresh, path)  # while it is locked: what is not may be collected
        sync_directory(os.path.dirname(path) or b".")
    except FileExistsError as error:
        raise Invalid(
            f"{printable(to_text(path))} is there already", hint="choose another name, or move it away"
        ) from error
    except OSError as error:
        raise _storage(error, path) from error
    finally:
        unlink_quietly(fresh)
    return size


def _begin(path: bytes) -> tuple[bytes, int]:
    """Create and lock the file that an export is written to."""
    while True:
        fresh = path + _PART + os.urandom(_RANDOM_BYTES).hex().encode()
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        except OSError:  # a file system without locks: then nobody collects there either
            return fresh, descriptor
        if os.fstat(descriptor).st_nlink:
            return fresh, descriptor
        os.close(descriptor)


def _collect_parts(path: bytes) -> None:
    """Delete what killed exports to a path left, empty or begun as an export is; what lives is locked."""
    above, name = os.path.split(path)
    try:
        found = [one for one in os.listdir(above or b".") if _is_part(one, name)]
    except OSError:
        return  # who creates one there says why
    for one in found:
        _collect_part(os.path.join(above, one))


def _is_part(name: bytes, of: bytes) -> bool:
    digits = name.removeprefix(of + _PART)
    is_hex = not digits.strip(b"0123456789abcdef")
    return name != digits and len(digits) == 2 * _RANDOM_BYTES and is_hex


def _collect_part(path: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return  # a pipe reads as if it were empty
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        block = os.read(descriptor, _BLOCK)
        if not block or block == _head(HEADER, _number(block[124:136])):
            os.unlink(path)
    except OSError:
        return
    finally:
        os.close(descriptor)


def _put(fresh: bytes, path: bytes) -> None:
    """Give a file its name, unless another one bears it."""
    try:
        os.link(fresh, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            raise FileExistsError from None
        os.rename(fresh, path)


class Archive:
    """An export that is open for reading. Its methods raise `Damaged` and `Storage`."""

    def __init__(self, path: bytes) -> None:
        self._path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError as error:
            raise NotFound(f"there is no file {self._name}", hint="name the file of an export") from error
        except OSError as error:
            raise _storage(error, path) from error
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            self.close()
            raise Invalid(f"{self._name} is no file", hint="name the file of an export")
        try:
            self._places = self._find()
        except BaseException:
            self.close()
            raise

    @property
    def _name(self) -> str:
        return printable(to_text(self._path))

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def size(self, name: bytes) -> int:
        """Return the size of a member in bytes."""
        return self._places[name][1]

    def read(self, name: bytes) -> bytes:
        """Return a member whole (not the pack, which may be large)."""
        return b"".join(self.pieces(name))

    def pieces(self, name: bytes) -> Iterator[bytes]:
        """Yield the bytes of a member."""
        start, size = self._places[name]
        while size:
            piece = self._at(start, min(size, _STEP))
            yield piece
            start += len(piece)
            size -= len(piece)

    def prove(self) -> None:
        """Refuse the file unless every member has the checksum that the list at its end gives."""
        wanted = b"".join(_line(sha256_of(self.pieces(name)), name) for name in MEMBERS if name is not SUMS)
        if self.read(SUMS) != wanted:
            raise self._damaged("its checksums do not fit its contents")

    def _find(self) -> dict[bytes, tuple[int, int]]:
        places: dict[bytes, tuple[int, int]] = {}
        at = 0
        end = os.fstat(self._descriptor).st_size
        for name in MEMBERS:
            size = self._size_of(self._at(at, _BLOCK), name)
            if size > _MOST[name] or at + _BLOCK + size > end:
                raise self._damaged(f"{name.decode()} is cut short, or absurdly large")
            places[name] = (at + _BLOCK, size)
            at += _BLOCK + _padded(size)
        if end - at > 64 * _BLOCK or any(self._at(at, end - at) if at < end else b"\1"):
            raise self._damaged("there is more or less in it than an export has")
        return places

    def _size_of(self, block: bytes, name: bytes) -> int:
        if block != _head(name, _number(block[124:136])):
            raise self._damaged(f"it is no export, or its member {name.decode()} is damaged")
        return _number(block[124:136])

    def _at(self, start: int, size: int) -> bytes:
        try:
            piece = os.pread(self._descriptor, size, start)
        except OSError as error:
            raise _storage(error, self._path) from error
        if not piece:
            raise self._damaged("it is cut short")
        return piece

    def _damaged(self, reason: str) -> Damaged:
        return Damaged(f"{self._name} cannot be imported: {reason}", hint=_AGAIN)


def _member(name: bytes, size: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    yield _head(name, size)
    yield from pieces
    yield bytes(_padded(size) - size)


def _head(name: bytes, size: int) -> bytes:
    """Return the block in front of a member: nothing in it depends on who wrote it, or when."""
    digits = b"%011o\0" % size if size < _OCTAL_LIMIT else b"\x80" + size.to_bytes(11, "big")
    block = bytearray(_BLOCK)
    block[: len(name)] = name
    block[100:136] = b"0000600\0" + b"0000000\0" * 2 + digits
    block[136:148] = b"%011o\0" % 0
    block[148:157] = b" " * 8 + b"0"
    block[257:265] = b"ustar\x0000"
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def _number(digits: bytes) -> int:
    if digits[:1] == b"\x80":
        return int.from_bytes(digits[1:], "big")
    text = digits[:11]
    return int(text, 8) if len(text) == 11 and all(48 <= digit < 56 for digit in text) else 0


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _line(digest: str, name: bytes) -> bytes:
    return b"%b  %b\n" % (digest.encode(), name)


def _storage(error: OSError, path: bytes) -> Storage:
    if error.errno in FULL:
        doing = f"writing {printable(to_text(path))}"
        return no_room(error, doing=doing, place=os.path.dirname(path) or b".", hint="name another place")
    return Storage(
        f"{printable(to_text(path))}: {error.strerror or error}",
        hint="look at its folder, space and permissions",
    )
