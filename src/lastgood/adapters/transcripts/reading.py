"""Reading a transcript while its owner goes on writing it."""

from __future__ import annotations

import errno
import os
import stat

from lastgood.errors import Invalid, NotFound
from lastgood.model.conversation import Stretch
from lastgood.names import printable, to_text

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR})
_HINT = "name the file in which the host keeps its transcript"


class OpenTranscript:
    """A plain file, open for reading only."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: bytes) -> None:
        self._path = path
        self._descriptor = -1
        try:
            # Looked at first: to open a device can be enough to change something.
            _demand_file(os.stat(path), path)
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            _demand_file(os.fstat(self._descriptor), path)
        except OSError as error:
            self.close()
            raise unreadable(path, error) from error
        except ValueError as error:  # a NUL byte in it, which an import of earlier may have brought
            self.close()
            raise Invalid(f"{printable(to_text(path))} is no path of a file", hint=_HINT) from error
        except Invalid:
            self.close()
            raise

    def place(self) -> Stretch:
        """Return where the file lies and how long it is now."""
        try:
            found = os.fstat(self._descriptor)
        except OSError as error:
            raise unreadable(self._path, error) from error
        return Stretch(
            device=found.st_dev, inode=found.st_ino, size=found.st_size, modified_ns=found.st_mtime_ns
        )

    def read(self, offset: int, size: int) -> bytes:
        """Return that many bytes from there; fewer only at the end. `Invalid` if they cannot be read."""
        pieces = []
        while size > 0:
            try:
                piece = os.pread(self._descriptor, size, offset)
            except OSError as error:
                raise unreadable(self._path, error) from error
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            size -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Let go of the file; harmless when repeated."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def unreadable(path: bytes, error: OSError) -> NotFound | Invalid:
    """Return the error for a transcript that cannot be read."""
    shown = printable(to_text(path))
    if error.errno in _ABSENT:
        return NotFound(f"there is no transcript {shown}", hint=_HINT)
    return Invalid(f"the transcript {shown} cannot be read: {error.strerror}", hint=_HINT)


def _demand_file(found: os.stat_result, path: bytes) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Invalid(f"{printable(to_text(path))} is no plain file, so no transcript", hint=_HINT)
