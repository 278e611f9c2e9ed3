"""How long a scan may take: past its budget the rest is left out (rule S9), without patience it ends."""

from __future__ import annotations

import time

from lastgood.adapters.scan.form import FILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.adapters.scan.form import Record
    from lastgood.ports.host import Clock

# Beyond so many files another process, where two look, is quicker although no thread hinders this one.
MOST_FILES = 2_000
# What a scan may take: several times what it does undisturbed (3 µs a file), and a little.
_SECONDS_A_FILE = 10e-6
_SECONDS = 0.005


class Starved(Exception):
    """The scan is not to go on here."""


class Patience:
    """Bounds the time that a scan beside other threads may take (decision 022).

    ``worn`` tells that it took longer. ``factor`` makes it longer than it has to be.
    """

    def __init__(self, *, factor: float = 1.0) -> None:
        self.worn = False
        self._factor = factor
        self._until = 0.0

    def begin(self, records: Mapping[bytes, Record]) -> None:
        """Begin, knowing what the last scan found; `Starved` if that was too much, or nothing."""
        top = records.get(b"")
        if top is None or top[FILES] > MOST_FILES:
            raise Starved
        allowed = _SECONDS + top[FILES] * _SECONDS_A_FILE
        self._until = time.monotonic() + allowed * self._factor

    def heed(self) -> None:
        """Go on, or raise `Starved`."""
        if time.monotonic() > self._until:
            self.worn = True
            raise Starved


class Bounds:
    """What bounds one scan; ``budget`` is in seconds from now."""

    def __init__(self, clock: Clock, *, budget: float | None, patience: Patience | None) -> None:
        self.clock = clock
        self._deadline = None if budget is None else clock.monotonic() + budget
        self._patience = patience
        self.is_over = _never if budget is None else self._is_over
        # Not asked where a scan waits: that is no sign of other threads.
        self.is_late = self.is_over if patience is None else self._is_late

    def _is_over(self) -> bool:
        assert self._deadline is not None
        return self.clock.monotonic() > self._deadline

    def _is_late(self) -> bool:
        assert self._patience is not None
        self._patience.heed()
        return self.is_over()


def _never() -> bool:
    return False
