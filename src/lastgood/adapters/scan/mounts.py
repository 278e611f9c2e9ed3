"""On which file systems the times of a directory prove what names are in it (decision 021)."""

from __future__ import annotations

import os

# Local ones, which change a directory's times together with its entries. What is served from elsewhere, or
# by a program, may say the times that it remembers.
_KEEPING = frozenset({b"btrfs", b"ext3", b"ext4", b"f2fs", b"overlay", b"tmpfs", b"xfs", b"zfs"})


def proving_device(directory: int) -> int | None:
    """Return the device of an open directory; None unless times are known to prove names there."""
    try:
        mount = _fields(b"/proc/self/fdinfo/%d" % directory, named=b"mnt_id:")[1]
        line = _fields(b"/proc/self/mountinfo", named=mount)
        return os.fstat(directory).st_dev if line[line.index(b"-") + 1] in _KEEPING else None
    except (OSError, ValueError, IndexError):  # not Linux, or without /proc
        return None


def _fields(path: bytes, *, named: bytes) -> list[bytes]:
    """Return the fields of the line that begins with a word; none if there is no such line."""
    with open(path, "rb", buffering=0) as file:
        for line in file.read().splitlines():
            fields = line.split()
            if fields and fields[0] == named:
                return fields
    return []
