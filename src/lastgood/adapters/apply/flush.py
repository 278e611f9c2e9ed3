"""Carrying many files through to the disk: side by side, the file system joins the waits.

Measured on ext4: 128 files one after another took 170 to 690 ms, by eight threads 14 to 43 ms.
"""

from __future__ import annotations

import os
from _thread import allocate_lock, start_new_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Sequence

_THREADS = 8
_FEW = 4


def flush(descriptors: Sequence[int]) -> dict[int, OSError]:
    """Sync files or directories, and return what went wrong by descriptor."""
    troubles: dict[int, OSError] = {}
    if len(descriptors) <= _FEW:
        _flush(descriptors, troubles)
        return troubles
    running = []
    for first in range(1, min(_THREADS, len(descriptors))):
        ended = allocate_lock()
        ended.acquire()
        share = descriptors[first::_THREADS]
        try:
            start_new_thread(_flush, (share, troubles, ended))
        except RuntimeError:  # the system allows no more of them
            _flush(share, troubles)
        else:
            running.append(ended)
    _flush(descriptors[::_THREADS], troubles)
    for ended in running:
        ended.acquire()
    return troubles


def _flush(descriptors: Sequence[int], troubles: dict[int, OSError], ended: LockType | None = None) -> None:
    try:
        for descriptor in descriptors:
            try:
                os.fsync(descriptor)
            except OSError as error:
                troubles[descriptor] = error
    finally:
        if ended is not None:
            ended.release()
