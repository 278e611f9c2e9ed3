"""What came out of a path, looked at once more before it goes for good (rule T12b).

A read lease (fcntl(2), F_SETLEASE) is granted only while nobody has a file open for writing; a shared
mapping that can be written keeps its file open, also when its descriptor is closed (measured on ext4
and tmpfs; on overlayfs, which maps the file below, only as long as a descriptor is open). So the order
is: lease, then look, then unlink, then let the lease go.

- Who had the file open before the lease is seen by it: the file is told as held, whatever it holds.
- Who wrote and closed before the lease is seen by the look, which reads every byte: times alone do not
  tell, for what is stored through a mapping need not change them.
- Who opens it for writing while the lease is held waits in the kernel until it is let go, and is seen
  just before the unlink: the file is told as held. By then no path leads to it but our temporary name,
  another link (which keeps it, whatever becomes of ours), and the descriptor of a reader.

Nothing more can be known where the file system has no leases (some network ones, and FUSE), the file is
another user's, or the system is not Linux: there what the look says counts.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

from lastgood.adapters.apply.reading import entry_at, is_unreadable, open_regular, steady_id
from lastgood.model.tree import DIRECTORY, FILE, Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    # Deleted or not there; open for writing; or not what it was expected to be.
    Fate = Literal["gone", "held", "other"]
    # Refused because somebody has the file open for writing; unknown where nobody gets one.
    Lease = Literal["ours", "refused", "unknown"]

if sys.platform == "linux":
    import fcntl
    from signal import SIGURG


def discard(name: bytes, directory: int, *, expected: Callable[[Entry], bool]) -> Fate:
    """Delete what a name holds if that is expected, and nobody can be about to write to it."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return "gone"
    if stat.S_ISREG(found.st_mode):
        return _discard_file(name, directory, found, expected=expected)
    entry = entry_at(name, directory)
    if entry is None or entry.kind == DIRECTORY or not expected(entry):
        return "other"
    os.unlink(name, dir_fd=directory)
    return "gone"


def _lease(descriptor: int) -> Lease:
    """Take a read lease on an open file, which ends with its descriptor.

    Who opens it for writing meanwhile has us told by a signal, and the usual one would end us: so it is
    one that programs ignore unless they ask for it.
    """
    if sys.platform != "linux":
        return "unknown"
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return "refused" if error.errno == errno.EAGAIN else "unknown"
    return "ours"


def _discard_file(
    name: bytes, directory: int, found: os.stat_result, *, expected: Callable[[Entry], bool]
) -> Fate:
    try:
        descriptor = open_regular(name, directory)
    except OSError as error:
        if not is_unreadable(error):
            raise
        # Nobody could read it before either: all that is known of it is that.
        if not expected(Entry(name=name, kind=FILE, mode=stat.S_IMODE(found.st_mode), oid=b"")):
            return "other"
        os.unlink(name, dir_fd=directory)
        return "gone"
    try:
        lease = _lease(descriptor)
        oid = steady_id(descriptor)
        found = os.fstat(descriptor)
        if not expected(Entry(name=name, kind=FILE, mode=stat.S_IMODE(found.st_mode), oid=oid)):
            return "other"
        # By another name it goes on living.
        if found.st_nlink < 2 and (lease == "refused" or (lease == "ours" and _is_awaited(descriptor))):
            return "held"
        os.unlink(name, dir_fd=directory)
    finally:
        os.close(descriptor)  # and the lease with it
    return "gone"


def _is_awaited(descriptor: int) -> bool:
    """Tell whether somebody waits for our lease to end."""
    return sys.platform == "linux" and fcntl.fcntl(descriptor, fcntl.F_GETLEASE) != fcntl.F_RDLCK
