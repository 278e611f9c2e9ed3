"""The output of a task, told line by line, as far as anybody can follow."""

from __future__ import annotations

from lastgood.rules.lines import Lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Beyond so many lines a second only the last one of each part is told.
LINES_A_SECOND = 1000


class Spoken:
    """Takes output in parts and tells lines; ``untold`` counts those that came too fast."""

    def __init__(self, tell: Callable[[str], None], *, monotonic: Callable[[], float]) -> None:
        self._tell = tell
        self._monotonic = monotonic
        self._lines = Lines()
        self._second = 0
        self._told = 0
        self.untold = 0

    def write(self, part: bytes) -> None:
        """Take what was written."""
        lines, untold = self._lines.of(part, most=max(self._room(), 1))
        self.untold += untold
        self._told += len(lines)
        for line in lines:
            self._tell(line)

    def end(self) -> None:
        """Tell the line that has no end."""
        for line in self._lines.rest():
            self._tell(line)

    def _room(self) -> int:
        second = int(self._monotonic())
        if second != self._second:
            self._second, self._told = second, 0
        return max(LINES_A_SECOND - self._told, 0)
