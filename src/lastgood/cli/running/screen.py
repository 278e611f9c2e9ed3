"""Which way a run is shown, and that showing it never stops it."""

from __future__ import annotations

import os

from lastgood.errors import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Protocol, Self

    from lastgood.cli.console import Console
    from lastgood.model.running import RunEvent

    class _Display(Protocol):
        def __enter__(self) -> object: ...
        def __exit__(
            self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
        ) -> None: ...
        def __call__(self, event: RunEvent) -> None: ...


class Screen:
    """Shows a run by a display; output that cannot be written is told of when the run is over."""

    def __init__(self, display: _Display) -> None:
        self._display = display
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
            raise self._fault

    def __call__(self, event: RunEvent) -> None:
        """Show one event."""
        if self._fault is None:
            try:
                self._display(event)
            except Storage as failure:
                self._fault = failure


def display_for(console: Console, *, command: str | None) -> _Display:
    """Return the display that fits where the output goes; ``command`` is shown instead of a plan."""
    if can_draw(console):
        from lastgood.cli.running.live import LiveDisplay

        return LiveDisplay(console, command=command)
    from lastgood.cli.running.plain import CommandLines, PlanLines

    return PlanLines(console) if command is None else CommandLines(console)


def can_draw(console: Console) -> bool:
    """Tell whether lines can be drawn over: a terminal that moves its cursor, and rich to draw with."""
    if not console.out_is_terminal or console.quiet:
        return False
    if os.environ.get("TERM", "") in {"", "dumb", "unknown"}:
        return False
    from importlib.util import find_spec

    return find_spec("rich") is not None
