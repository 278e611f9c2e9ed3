"""Carrying many files through to the disk: side by side, the file system joins the waits.

Measured on ext4: 128 files one after another took 170 to 690 ms, by eight threads 14 to 43 ms.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_THREADS = 8
_FEW = 4


def flush(descriptors: Sequence[int]) -> dict[int, OSError]:
    """Sync files or directories, and return what went wrong by descriptor."""
    troubles: dict[int, OSError] = {}
    if len(descriptors) <= _FEW:
        _flush(descriptors, troubles)
        return troubles
    from threading import Thread

    shares = [descriptors[first::_THREADS] for first in range(_THREADS)]
    threads = [Thread(target=_flush, args=(share, troubles)) for share in shares if share]
    started = []
    for thread in threads:
        try:
            thread.start()
        except RuntimeError:  # the system allows no more of them
            thread.run()
        else:
            started.append(thread)
    for thread in started:
        thread.join()
    return troubles


def _flush(descriptors: Sequence[int], troubles: dict[int, OSError]) -> None:
    for descriptor in descriptors:
        try:
            os.fsync(descriptor)
        except OSError as error:
            troubles[descriptor] = error
