"""The lines at the bottom of a terminal that are drawn again and again, below those that stay."""

from __future__ import annotations

from io import StringIO

from rich.console import Console as Renderer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

_UP = "\x1b[A"
# Line by line: to clear the whole screen moves it into the history of some terminals.
_LINE = "\x1b[2K"
_REST_OF_LINE = "\x1b[K"
_TO_THE_END = "\x1b[J"
# A width that terminal and program do not agree on must not break a line in two.
_UNWRAPPED = ("\x1b[?7l", "\x1b[?7h")


class Region:
    """Knows what it has drawn, and so how to draw over it.

    The cursor waits on the line below and is never hidden: a program that is killed leaves a
    terminal that needs no mending.
    """

    def __init__(self, *, colour: bool) -> None:
        self._renderer = Renderer(
            file=StringIO(),
            force_terminal=True,
            color_system="auto" if colour else None,
            no_color=not colour,
            highlight=False,
            markup=False,
            emoji=False,
        )
        self._widths: list[int] = []
        self._columns = 0

    def drawn(self, lines: Sequence[Text], *, above: Sequence[str], columns: int) -> bytes:
        """Return what draws the lines in the place of those drawn before, ``above`` staying over them."""
        rows = self._rows(columns)
        if above or columns != self._columns:
            parts = ["\r", _LINE, rows * f"{_UP}{_LINE}"]
        else:
            parts = ["\r", rows * _UP]
        parts += [f"{line}\n" for line in above]
        parts.append(_UNWRAPPED[0])
        for line in lines:
            line.truncate(columns - 1, overflow="ellipsis")
            parts += [self._rendered(line), _REST_OF_LINE, "\n"]
        parts += [_TO_THE_END, _UNWRAPPED[1]]
        self._widths, self._columns = [line.cell_len for line in lines], columns
        return "".join(parts).encode("utf-8", "backslashreplace")

    def forget(self) -> None:
        """Leave what was drawn where it is: somebody else has written below it."""
        self._widths = []

    def _rows(self, columns: int) -> int:
        """Return how far up the first line is; a terminal that became narrower has broken lines in two."""
        return sum(max(1, -(-width // columns)) for width in self._widths)

    def _rendered(self, line: Text) -> str:
        with self._renderer.capture() as captured:
            self._renderer.print(line, end="", soft_wrap=True)
        return captured.get()
