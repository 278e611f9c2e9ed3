"""The output of a task as lines, as many as anybody can follow."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# A line that is longer is told in parts.
LINE_LIMIT = 4096
# Beyond so many lines a second only the last one of each part is told.
_LINES_A_SECOND = 1000


class Lines:
    """Takes output in parts, and gives lines; a carriage return ends one too, as terminals see it."""

    def __init__(self, tell: Callable[[str], None], *, monotonic: Callable[[], float]) -> None:
        self._tell = tell
        self._monotonic = monotonic
        self._rest = b""
        self._second = 0
        self._told = 0
        self.untold = 0

    def write(self, part: bytes) -> None:
        """Take what was written."""
        *whole, rest = (self._rest + part.replace(b"\r", b"\n")).split(b"\n")
        while len(rest) > LINE_LIMIT:
            whole.append(rest[:LINE_LIMIT])
            rest = rest[LINE_LIMIT:]
        self._rest = rest
        lines = [line for line in whole if line]
        room = self._room()
        if len(lines) > room:
            shown = max(room - 1, 0)
            self.untold += len(lines) - shown - 1
            lines = [*lines[:shown], lines[-1]]
        for line in lines:
            self._say(line)

    def end(self) -> None:
        """Tell what has no end yet."""
        rest, self._rest = self._rest, b""
        if rest:
            self._say(rest)

    def _say(self, line: bytes) -> None:
        self._told += 1
        for start in range(0, len(line), LINE_LIMIT):
            self._tell(line[start : start + LINE_LIMIT].decode("utf-8", "replace"))

    def _room(self) -> int:
        second = int(self._monotonic())
        if second != self._second:
            self._second, self._told = second, 0
        return max(_LINES_A_SECOND - self._told, 0)
