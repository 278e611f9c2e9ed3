"""Which way a run is shown, and that showing it never stops it."""

from __future__ import annotations

import os

from lastgood.errors import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Protocol, Self, TypeVar

    from lastgood.cli.console import Console
    from lastgood.cli.running.board import Board
    from lastgood.model.running import RunEvent

    Shown = TypeVar("Shown")

    class Display(Protocol):
        """What shows a run while it is entered; called with each event."""

        def __enter__(self) -> object: ...
        def __exit__(
            self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
        ) -> None: ...
        def __call__(self, event: RunEvent) -> None:
            """Show one event; the board has taken it in."""

        def output(self, part: bytes) -> None:
            """Show what a command wrote, if it is shown as it is."""


class Screen:
    """Shows a run by a display; output that cannot be written is told of when the run is over."""

    def __init__(self, display: Display, board: Board, console: Console) -> None:
        self._console = console
        self._display = display
        self._board = board
        self._fault: Storage | None = None

    def __enter__(self) -> Self:
        self._display.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._display.__exit__(kind, fault, trace)
        except Storage as failure:
            self._fault = self._fault or failure
        if self._fault is not None and fault is None:
            # Nothing more can be said where the documents went.
            self._console.json = False
            raise self._fault

    def __call__(self, event: RunEvent) -> None:
        """Show one event."""
        self._board.take(event)
        self._show(self._display, event)

    def output(self, part: bytes) -> None:
        """Show what a command wrote."""
        self._show(self._display.output, part)

    def _show(self, show: Callable[[Shown], None], shown: Shown) -> None:
        if self._fault is None:
            try:
                show(shown)
            except Storage as failure:
                self._fault = failure


def display_for(console: Console, board: Board, *, command: str | None) -> Display:
    """Return the display that fits where the output goes; ``command`` is shown instead of a plan."""
    if can_draw(console):
        from lastgood.cli.running.live import LiveDisplay

        return LiveDisplay(console, board, command=command)
    from lastgood.cli.running.plain import CommandLines, PlanLines

    return PlanLines(console, board) if command is None else CommandLines(console, board)


def can_draw(console: Console) -> bool:
    """Tell whether lines can be drawn over: a terminal that moves its cursor, and rich to draw with."""
    if not console.out_is_terminal or console.quiet:
        return False
    if os.environ.get("TERM", "") in {"", "dumb", "unknown"}:
        return False
    from importlib.util import find_spec

    return find_spec("rich") is not None
