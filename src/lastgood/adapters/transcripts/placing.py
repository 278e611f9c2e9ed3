"""Putting a new transcript beside those of a host, and taking it away again (rule T11)."""

from __future__ import annotations

import errno
import os
import stat

from lastgood.adapters.files import PRIVATE_FILE, sync_directory, write_whole
from lastgood.adapters.transcripts.reading import OpenTranscript
from lastgood.errors import Conflict, LastgoodError, NotFound, Unsafe
from lastgood.names import printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from lastgood.ports.transcripts import Presence

_READ_BYTES = 1 << 20
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def folder_beside(path: bytes) -> bytes:
    """Return the real folder that a file lies in, fit to put another one into."""
    if b"\0" in path:  # which an import of earlier may have brought
        raise NotFound(
            f"{printable(to_text(path))} is no path of a file", hint="restore without: --only files"
        )
    folder = os.path.realpath(os.path.dirname(path))
    shown = printable(to_text(folder))
    try:
        found = os.stat(folder)
    except OSError as error:
        raise NotFound(
            f"the host's folder {shown} is not there", hint="restore without: --only files"
        ) from error
    if not stat.S_ISDIR(found.st_mode):
        raise NotFound(f"{shown} is no folder", hint="restore without: --only files")
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & _OTHERS_WRITE:
        raise Unsafe(
            f"others can write into {shown}, so no transcript is put there",
            hint="restore without: --only files",
        )
    return folder


def presence(path: bytes, *, size: int, digest: bytes) -> Presence:
    """Tell whether a path holds exactly some content (a SHA-256), something else, or nothing."""
    import hashlib

    if not os.path.lexists(path):
        return "absent"
    try:
        file = OpenTranscript(path)
    except LastgoodError:
        return "different"
    try:
        if file.place().size != size:
            return "different"
        running = hashlib.sha256()
        for offset in range(0, size, _READ_BYTES):
            running.update(file.read(offset, _READ_BYTES))
    except LastgoodError:
        return "different"
    finally:
        file.close()
    return "same" if running.digest() == digest else "different"


def place_new(path: bytes, pieces: Iterable[bytes]) -> None:
    """Write a new file of mode 0600, durable and whole when its name appears."""
    aside = aside_of(path)
    try:
        _write(aside, pieces)
        _name(aside, path)
        sync_directory(os.path.dirname(path))
    except FileExistsError as error:
        raise Conflict(
            f"{printable(to_text(path))} exists already", hint="plan the restore anew", details={}
        ) from error
    except OSError as error:
        raise Unsafe(
            f"the transcript {printable(to_text(path))} cannot be written: {error.strerror}",
            hint="restore without: --only files",
        ) from error
    finally:
        _unlink(aside)


def aside_of(path: bytes) -> bytes:
    """Return where a file is written before it gets its name."""
    return os.path.join(os.path.dirname(path), b"." + os.path.basename(path) + b".lastgood")


def remove(path: bytes) -> None:
    """Remove a file durably; harmless if it is gone."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Unsafe(
            f"{printable(to_text(path))} cannot be removed: {error.strerror}", hint="remove it by hand"
        ) from error
    sync_directory(os.path.dirname(path))


def _write(path: bytes, pieces: Iterable[bytes]) -> None:
    _unlink(path)  # what a killed restore left of this same file
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, PRIVATE_FILE)
    try:
        os.fchmod(descriptor, PRIVATE_FILE)
        for piece in pieces:
            write_whole(descriptor, piece)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _name(aside: bytes, path: bytes) -> None:
    """Give a file its name unless that is taken: a link fails where a rename would replace."""
    try:
        os.link(aside, path, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # The name itself is claimed, then replaced: file systems without links are few.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))
        os.rename(aside, path)


def _unlink(path: bytes) -> None:
    """Remove what was written aside; what a failing disk keeps of it harms nobody."""
    try:  # noqa: SIM105 - contextlib costs start-up time
        os.unlink(path)
    except OSError:
        pass
