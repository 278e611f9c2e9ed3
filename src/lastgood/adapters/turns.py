"""Short turns of the interpreter, for work with many system calls beside busy threads."""

from __future__ import annotations

import sys
from _thread import allocate_lock

_PART = 10


class ShortTurns:
    """While entered, threads take the interpreter from each other after a tenth of the usual time.

    Each system call of ours gives a busy thread a turn; at 5 ms each, those turns would take longer
    than the work. The setting is the whole interpreter's; the last to leave puts it back.
    """

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._entered = 0
        self._usual = 0.0

    def __enter__(self) -> None:
        with self._lock:
            self._entered += 1
            if self._entered == 1:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(self._usual / _PART)

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._entered -= 1
            if not self._entered:
                sys.setswitchinterval(self._usual)


SHORT_TURNS = ShortTurns()
