"""Clocks that are wrong."""

from __future__ import annotations

import os
import time

from lastgood.host import SystemClock

DAY = 24 * 3600 * 1_000_000_000


class ShiftedClock:
    """The system's clocks, moved by some nanoseconds; ``shift`` may be changed at any time."""

    def __init__(self, shift: int = 0) -> None:
        self.shift = shift

    def now(self) -> int:
        return time.time_ns() + self.shift

    def monotonic(self) -> float:
        return time.monotonic()

    def since_boot(self) -> tuple[str, int] | None:
        told = SystemClock().since_boot()
        return None if told is None else (told[0], told[1] + self.shift)

    def random(self) -> bytes:
        return os.urandom(8)


class StoppedClock(ShiftedClock):
    """A clock on which everything happens in the same nanosecond."""

    def now(self) -> int:
        return 1_700_000_000_000_000_000 + self.shift
