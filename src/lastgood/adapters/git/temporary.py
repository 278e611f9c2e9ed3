"""Temporary files that prove whether their writer lives: each is held by ``flock`` while written.

A writer holds its file shared, a collector must get it alone. A writer that locked a file looks
whether a collector was quicker, and then takes another name.
"""

from __future__ import annotations

import fcntl
import os

from lastgood.adapters.apply.removal import remove_tree
from lastgood.adapters.git.files import DIRECTORY_MODE, FILE_MODE, unlink_quietly
from lastgood.errors import Storage

PREFIX = b"engine-"
# A pack between two processes: nobody holds it for a moment, so its age counts too.
HANDED_SUFFIX = b".handed"

_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


def fresh_path(folder: bytes, suffix: bytes) -> bytes:
    """Return a path that nobody else chooses."""
    return folder + b"/" + PREFIX + os.urandom(8).hex().encode() + suffix


class TemporaryFile:
    """One file being written, locked as long as it is open."""

    __slots__ = ("descriptor", "path")

    def __init__(self, path: bytes, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def create(cls, folder: bytes, suffix: bytes) -> TemporaryFile:
        """Create and lock a file under a name of its own; OSError when that cannot be."""
        while True:
            path = fresh_path(folder, suffix)
            descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, FILE_MODE)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if os.fstat(descriptor).st_nlink:
                return cls(path, descriptor)
            os.close(descriptor)

    @classmethod
    def take_over(cls, path: bytes) -> TemporaryFile:
        """Lock a file that another process handed over."""
        descriptor = os.open(path, _FLAGS)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        taken = cls(path, descriptor)
        if os.fstat(descriptor).st_nlink:
            return taken
        taken.close()
        raise _collected()

    def rename(self, path: bytes) -> None:
        """Give the file another name."""
        os.rename(self.path, path)
        self.path = path

    def find(self, folder: bytes) -> None:
        """Find out what the file is called by now, in the folder where it was created; `Storage`."""
        number = os.fstat(self.descriptor).st_ino
        with os.scandir(folder) as entries:
            path = next((entry.path for entry in entries if entry.inode() == number), b"")
        if not path:
            raise _collected()
        self.path = path

    def close(self) -> None:
        """Close the file, which frees its lock."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def discard(self) -> None:
        """Delete and close the file."""
        if self.descriptor >= 0:
            unlink_quietly(self.path)
            self.close()


def _collected() -> Storage:
    return Storage("a pack was collected between the process that began it and this one", hint="save again")


class TemporaryFolder:
    """A folder for another program's files, locked as long as it is open."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, folder: bytes) -> None:
        """Create and lock a folder under a name of its own; OSError when that cannot be."""
        while True:
            self.path = fresh_path(folder, b".folder")
            os.mkdir(self.path, DIRECTORY_MODE)
            try:
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)
            if os.path.lexists(self.path):
                return
            os.close(self._descriptor)

    def adopt(self, name: bytes) -> TemporaryFile:
        """Open a file that the other program wrote, and make it private."""
        path = self.path + b"/" + name
        os.chmod(path, FILE_MODE)
        return TemporaryFile(path, os.open(path, _FLAGS))

    def discard(self) -> None:
        """Delete the folder with all that is in it; what cannot be deleted is collected later."""
        try:
            remove_tree(self.path)
        except OSError:
            return
        finally:
            os.close(self._descriptor)
