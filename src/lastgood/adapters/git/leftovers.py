"""Deletes temporary files that nobody writes any more: whoever gets a file's lock alone, proves it."""

from __future__ import annotations

import fcntl
import os
import time

from lastgood.adapters.apply.removal import remove_tree
from lastgood.adapters.git.files import storage
from lastgood.adapters.git.temporary import HANDED_SUFFIX, PREFIX

# A pack on its way to another process is given this long, in seconds.
_HANDED_SECONDS = 3600


def collect(folder: bytes) -> int:
    """Delete the left-overs in a folder and return their bytes; `Storage`."""
    try:
        names = [name for name in os.listdir(folder) if name.startswith(PREFIX)]
        return sum(_collect(folder + b"/" + name) for name in names)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise storage(error, doing="collecting left-over files", at=folder) from error


def _collect(path: bytes) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return 0
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _delete(path, os.fstat(descriptor))
    except (BlockingIOError, FileNotFoundError):
        return 0
    finally:
        os.close(descriptor)


def _delete(path: bytes, found: os.stat_result) -> int:
    if path.endswith(HANDED_SUFFIX) and time.time() - found.st_mtime < _HANDED_SECONDS:
        return 0
    if os.path.isdir(path):
        return remove_tree(path)
    os.unlink(path)
    return found.st_size
