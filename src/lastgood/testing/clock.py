"""A clock that a test moves by hand."""

from __future__ import annotations

NANOSECONDS = 1_000_000_000
# 2026-01-01T00:00:00Z
_START = 1_767_225_600 * NANOSECONDS


class FakeClock:
    """Time that advances by ``step`` seconds at each look, and chance that repeats."""

    def __init__(self, *, start: int = _START, step: float = 0.0, seed: int = 0) -> None:
        self._now = start
        self._monotonic = 0.0
        self._boots = 1
        self._booted = 0.0
        self._step = step
        self._drawn = seed

    def now(self) -> int:
        """Return nanoseconds since the epoch."""
        self.advance(self._step)
        return self._now

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        self.advance(self._step)
        return self._monotonic

    def since_boot(self) -> tuple[str, int] | None:
        """Return the present boot and the nanoseconds since."""
        return f"boot {self._boots}", round((self._monotonic - self._booted) * NANOSECONDS)

    def random(self) -> bytes:
        """Return eight bytes that differ from all drawn before."""
        self._drawn += 1
        # An odd factor makes this a permutation of the numbers below 2**64 that looks mixed.
        return (self._drawn * 0x9E3779B97F4A7C15 % (1 << 64)).to_bytes(8, "big")

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += round(seconds * NANOSECONDS)
        self._monotonic += seconds

    def reboot(self, *, after: float = 0.0) -> None:
        """Start the machine anew, after it was off for some seconds."""
        self.advance(after)
        self._boots += 1
        self._booted = self._monotonic

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator or NTP does."""
        self._now += round(seconds * NANOSECONDS)
