"""A run on a terminal: what is over scrolls away, what is going on stays in sight below."""

from __future__ import annotations

import os
import signal
from collections import deque
from io import StringIO

from rich.console import Console as Renderer
from rich.text import Text

from lastgood.cli.running.display import Display, output_line, told_late
from lastgood.cli.wording import duration, shortened
from lastgood.errors import Storage, count
from lastgood.paths import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType
    from typing import Self

    from lastgood.cli.opening import Console
    from lastgood.cli.running.display import Board, Line
    from lastgood.model.run import RunEvent


# --- The lines at the bottom of a terminal that are drawn again and again, below those that stay ---

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


# --- A run on a terminal: what is over scrolls away, what is going on stays in sight below ---

_EVERY = 0.1
_BAR = 20
# As many columns as the name of a task keeps at least.
_LEAST = 8
# What the lines below the scrolling ones say already.
_SHOWN_BELOW = frozenset({"task-started", "check-started", "checkpoint"})


class LiveDisplay(Display):
    """Draws a run at most ten times a second.

    Driven by the interval timer rather than by a thread: beside a second thread each checkpoint's
    scan would have to leave the process. ``command`` is what runs where it is one command: its
    output then scrolls by, else only the last line is shown.
    """

    def __init__(self, console: Console, board: Board, *, command: str | None = None) -> None:
        super().__init__(console, board)
        self._command = command
        self._region = Region(colour=console.colour)
        self._above: deque[str] = deque()
        self._shown: object = None
        self._drawing = False
        self._fault: Exception | None = None

    def __enter__(self) -> Self:
        signal.signal(signal.SIGALRM, self._tick)
        signal.signal(signal.SIGCONT, self._continued)
        self.enter_terminal()
        return self

    def __exit__(self, *_error: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGCONT, signal.SIG_DFL)
        # The handler stays: an alarm may be on its way, and what is ignored would be inherited.
        self._drawing = True
        if self._fault is None:
            self._draw([])
            return
        if not isinstance(self._fault, Storage):
            self._tell_plainly()
        raise self._fault

    def leave_terminal(self) -> None:
        """Clear what is drawn, and draw nothing while a command has the terminal."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self._fault is None:
            self._drawing = True
            self._draw([])
        self._continued()

    def enter_terminal(self) -> None:
        """Draw again, below whatever the command wrote."""
        self._drawing = False
        signal.setitimer(signal.ITIMER_REAL, _EVERY, _EVERY)

    def __call__(self, event: RunEvent) -> None:
        """Take one event in; the next drawing shows it."""
        if event.type == "attempt-failed" and self._command is None:
            self._above.extend(f"  | {output_line(line)}" for line in self._board.tail)
        if event.type == "output" and self._command is not None:
            self._above.append(output_line(event.line or ""))
        command = self._command is not None
        self._keep(told_late(self._board, command=command))
        if command or event.terminal or event.type not in _SHOWN_BELOW:
            self._keep(self.told(event, command=command))

    def _keep(self, lines: Iterator[Line]) -> None:
        for style, text in lines:
            self._above.append(self._console.styled(text, style) if style else text)

    def _tick(self, _number: int, _frame: FrameType | None) -> None:
        if self._drawing or self._fault is not None:
            return
        self._drawing = True
        try:
            self._draw(self._lines())
        except Exception as fault:  # noqa: BLE001 - told at the end: showing may not stop what is being done
            self._fault = fault
        self._drawing = False

    def _continued(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Draw anew below whatever the shell wrote while this process was stopped."""
        self._region.forget()
        self._shown = None

    def _draw(self, lines: list[Text]) -> None:
        if not _in_foreground():
            self._tell_plainly()
            return
        columns = _size()[0]
        shown = (columns, [(str(line), line.style) for line in lines])
        if not self._above and shown == self._shown:
            return
        above = []
        while self._above:
            above.append(self._above.popleft())
        self._console.send(self._region.drawn(lines, above=above, columns=columns))
        self._console.flush()
        self._shown = shown

    def _tell_plainly(self) -> None:
        """Say what stays, and move no cursor: another program has the terminal."""
        self._continued()
        while self._above:
            self._console.line(self._above.popleft())
        self._console.flush()

    def _lines(self) -> list[Text]:
        """Return what is to be seen at the bottom."""
        columns, rows = _size()
        if self._command is not None:
            return [self._command_line()]
        lines = self._task_lines(columns) if rows > 3 else []
        lines += self._pending_lines(min(rows // 2, rows - len(lines) - 3))
        return [*lines, self._summary(columns)]

    def _command_line(self) -> Text:
        board = self._board
        doing = "checking" if board.checking else printable(self._command or "")
        words = [duration(int(board.elapsed)), count(board.checkpoints, "checkpoint"), doing]
        return Text(" · ".join(words), style="dim")

    def _task_lines(self, columns: int) -> list[Text]:
        board = self._board
        if board.task is None:
            return []
        attempt = "" if board.attempt == 1 else f"  attempt {board.attempt}"
        doing = "  checking" if board.checking else ""
        beside = f"{attempt}  {duration(int(board.attempt_elapsed))}{doing}"
        name = shortened(printable(board.task), max(_LEAST, columns - len(beside) - 3))
        active = Text(f"▸ {name}", style="bold cyan").append(beside, style="not bold")
        if not board.line:
            return [active]
        return [active, Text(f"  │ {output_line(board.line, limit=columns)}", style="dim")]

    def _pending_lines(self, room: int) -> list[Text]:
        pending = self._board.pending()
        if room <= 0 or not pending:
            return []
        if len(pending) > room:
            shown = pending[: room - 1]
            more = [Text(f"  and {len(pending) - len(shown):,} more", style="dim")]
        else:
            shown, more = pending, []
        return [Text(f"  {printable(task)}", style="dim") for task in shown] + more

    def _summary(self, columns: int) -> Text:
        board = self._board
        total, done = len(board.states), board.count("done")
        if not total:
            return Text(f"starting · {duration(int(board.elapsed))}", style="dim")
        others = [(board.count("failed"), "failed"), (board.count("skipped"), "skipped")]
        words = [f"{done}/{total} done", *(f"{amount} {state}" for amount, state in others if amount)]
        words += [duration(int(board.elapsed)), count(board.checkpoints, "checkpoint")]
        if board.sprint is not None:
            words.append(printable(board.sprint))
        line = Text()
        if total and columns >= 3 * _BAR:
            filled = _BAR * done // total
            line.append("━" * filled, style="green").append("─" * (_BAR - filled) + "  ", style="dim")
        return line.append(" · ".join(words))


def _size() -> tuple[int, int]:
    """Return columns and rows of the terminal; where it does not say, the usual ones."""
    try:
        columns, rows = os.get_terminal_size(1)
    except OSError:
        return 80, 24
    return columns or 80, rows or 24


def _in_foreground() -> bool:
    try:
        return os.tcgetpgrp(1) == os.getpgrp()
    except OSError:
        return True
