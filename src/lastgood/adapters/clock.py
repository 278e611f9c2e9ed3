"""The machine's own clocks and randomness."""

from __future__ import annotations

import os
import time


class SystemClock:
    """Time and chance as the operating system gives them."""

    __slots__ = ()

    def now(self) -> int:
        """Return nanoseconds since the epoch, UTC; may jump."""
        return time.time_ns()

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def random(self) -> bytes:
        """Return eight random bytes."""
        return os.urandom(8)
