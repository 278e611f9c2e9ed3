"""A run as plain lines: for logs, pipes and terminals that cannot do more."""

from __future__ import annotations

from lastgood.cli.running.told import output_line, told, told_late

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from lastgood.cli.console import Console
    from lastgood.cli.running.board import Board
    from lastgood.cli.running.told import Line
    from lastgood.model.running import RunEvent

# What --quiet leaves out: it is kept with the session all the same.
_ROUTINE = frozenset({"started", "task-started", "checkpoint", "check-started", "output"})


class PlanLines:
    """Tells a run of a plan on standard output."""

    def __init__(self, console: Console, board: Board) -> None:
        self._console = console
        self._board = board

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._console.flush()

    def __call__(self, event: RunEvent) -> None:
        """Tell one event."""
        if self._console.quiet and event.type in _ROUTINE:
            return
        for style, text in (*self._late(), *told(event, command=False)):
            self._console.line(self._console.styled(text, style) if style else text)
        if event.type == "output":
            self._console.line(f"  | {output_line(event.line or '')}")
        self._console.flush()

    def _late(self) -> Iterator[Line]:
        if not self._console.quiet:
            yield from told_late(self._board, command=False)

    def output(self, part: bytes) -> None:
        """Show nothing: lines are shown."""


class CommandLines:
    """Passes the output of one command on to standard output; all else goes to standard error."""

    def __init__(self, console: Console, board: Board) -> None:
        self._console = console
        self._board = board

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._console.flush()

    def __call__(self, event: RunEvent) -> None:
        """Tell one event."""
        if event.type == "output" and self._board.checking:
            self._console.note(f"  | {output_line(event.line or '')}")
        elif event.type == "output" and self._console.out_is_terminal:
            self._console.line(output_line(event.line or ""))
            self._console.flush()
        for style, text in (*told_late(self._board, command=True), *told(event, command=True)):
            say = self._console.warn if style in {"yellow", "red"} else self._console.note
            say(text)

    def output(self, part: bytes) -> None:
        """Pass on what the command wrote, as it is."""
        self._console.send(part)
        self._console.flush()
