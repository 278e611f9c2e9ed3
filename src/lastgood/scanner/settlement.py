"""Reads again what was read in the very moment of a change (rule S8).

Stat data cannot tell two changes within one tick of the clock apart, except where file systems see to
that (decision 033). So whatever else was that young is read once more when the tick is over; only what is
the same both times is one whole version.
"""

from __future__ import annotations

import os

from lastgood.scanner import BUDGET, CAPTURED, RACY, UNSTABLE, VANISHED
from lastgood.scanner.read import TRIES, descend, mark_of, state_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lastgood.host import Clock
    from lastgood.scanner.examine import Unsettled
    from lastgood.scanner.read import ContentReader


# Twice the longest tick of a kernel's clock, in nanoseconds: so long a scan waits at its end.
_SETTLE = 20_000_000
_NANOSECONDS = 1_000_000_000
_READ = frozenset({CAPTURED, RACY})


class Settlement:
    """Brings unsettled entries to an end: captured, or a gap."""

    def __init__(
        self,
        root: int,
        *,
        reader: ContentReader,
        clock: Clock,
        sleep: Callable[[float], None],
        late: Callable[[], bool],
    ) -> None:
        self._root = root
        self._reader = reader
        self._clock = clock
        self._sleep = sleep
        self._late = late
        self._unstable: list[Unsettled] = []

    def run(self, unsettled: Sequence[Unsettled]) -> None:
        """Read all of them again, as often as it takes or is allowed.

        What would not hold still and is gone at the end was a temporary file, and is no gap; what was moved
        with its directory is one.
        """
        self._run(unsettled)
        for entry in self._unstable:
            if self._is_gone(entry):
                self._put(entry, oid=b"", state=VANISHED)

    def _run(self, unsettled: Sequence[Unsettled]) -> None:
        pending = list(unsettled)
        while pending:
            if self._late():
                self._give_up(pending, BUDGET)
                return
            self._wait(pending)
            pending = self._round(pending)
            self._give_up([entry for entry in pending if entry.tries >= TRIES], UNSTABLE)
            pending = [entry for entry in pending if entry.tries < TRIES]

    def _wait(self, pending: Sequence[Unsettled]) -> None:
        now = self._clock.now()
        ends = [max(entry.stat[2], entry.stat[3]) + _SETTLE for entry in pending]
        waits = [end - now for end in ends if 0 < end - now <= _SETTLE]
        if waits:
            self._sleep(max(waits) / _NANOSECONDS)

    def _round(self, pending: Sequence[Unsettled]) -> list[Unsettled]:
        """Read every entry once more, and return those that differ."""
        again: list[Unsettled] = []
        path, descriptor = b"", os.dup(self._root)
        try:
            for entry in pending:
                if entry.node.path != path:
                    _close(descriptor)
                    path, descriptor = entry.node.path, self._open(entry.node.path)
                if descriptor < 0:  # where it lay is gone: what was read cannot be confirmed
                    self._give_up([entry], UNSTABLE)
                elif not self._settled(entry, descriptor):
                    entry.tries += 1
                    again.append(entry)
        finally:
            _close(descriptor)
        return again

    def _open(self, path: bytes) -> int:
        try:
            return descend(self._root, path)
        except OSError as error:
            state_of(error)
            return -1

    def _settled(self, entry: Unsettled, descriptor: int) -> bool:
        name = entry.node.rows[entry.place][0]
        reading = self._reader.read(name, entry.stat, directory=descriptor, forced=entry.forced)
        if reading.stat is None:
            self._put(entry, oid=b"", state=VANISHED if self._is_gone(entry) else UNSTABLE)
            return True
        before = entry.stat, entry.mark
        entry.stat = reading.stat
        if reading.state in _READ:
            entry.mark = mark_of(reading)
            if before != (entry.stat, entry.mark):
                return False
            oid = self._reader.store(reading, name, directory=descriptor)
            if oid is not None:
                self._put(entry, oid=oid, state=reading.state)
            return oid is not None
        if reading.state != UNSTABLE:
            self._put(entry, oid=b"", state=reading.state)
        return reading.state != UNSTABLE

    def _put(self, entry: Unsettled, *, oid: bytes, state: int) -> None:
        rows = entry.node.rows
        rows[entry.place] = (rows[entry.place][0], *entry.stat, oid, state)

    def _give_up(self, entries: Sequence[Unsettled], state: int) -> None:
        for entry in entries:
            self._put(entry, oid=b"", state=state)
        if state == UNSTABLE:
            self._unstable += entries

    def _is_gone(self, entry: Unsettled) -> bool:
        """Tell whether nothing has an entry's name by now, where it lay, and wherever that was moved."""
        name = entry.node.rows[entry.place][0]
        directory = -1
        try:
            directory = descend(self._root, entry.node.path)
        except OSError as error:
            if state_of(error) is not None or entry.folder < 0:
                return False
        try:
            return all(_lacks(one, name) for one in (directory, entry.folder) if one >= 0)
        finally:
            _close(directory)


def _lacks(directory: int, name: bytes) -> bool:
    """Tell whether nothing in an open directory has a name; False where nobody can tell."""
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        return state_of(error) is None
    return False


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)
