"""A place in the queue of those who want to write.

SQLite looks again, ever more seldom, whether a database is free: beside somebody who writes one transaction
after the other it hardly ever is, and the others starve. So whoever wants to write stands first in line here
until the transaction has begun, and who has just written has to stand behind.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress

from lastgood.adapters.stopping import pause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_STRIDE = 0.002
_PATIENCE = 0.05


class Place:
    """The first place in the line before a folder, from when a block begins until it is left.

    It is a courtesy: who cannot have it within ``wait`` seconds goes on without, and soon where who
    stands first is stopped.
    """

    def __init__(self, folder: str, *, wait: float) -> None:
        self._folder = folder
        self._wait = wait
        self._held = -1

    def __enter__(self) -> Self:
        try:
            self._held = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._stand()
        except OSError:  # it is gone, or on a disk without locks: SQLite says what is to be said
            self.leave()
        except BaseException:  # an interruption
            self.leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def leave(self) -> None:
        """Let the next one stand first; harmless when repeated."""
        held, self._held = self._held, -1
        if held < 0:
            return
        with suppress(OSError):
            # Explicitly, because a child between fork and exec may have the open folder too.
            fcntl.flock(held, fcntl.LOCK_UN)
        os.close(held)

    def _stand(self) -> None:
        started = looked = time.monotonic()
        while not self._is_first() and (now := time.monotonic()) < started + self._wait:
            if now - looked >= _PATIENCE:
                looked = now
                if self._is_stopped():
                    return
            pause(_STRIDE)

    def _is_stopped(self) -> bool:
        from lastgood.adapters.owner import stopped_holder

        return stopped_holder((os.fsencode(self._folder),)) is not None

    def _is_first(self) -> bool:
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
