"""Chooses where a scan runs: here, or in a process of its own when other Python threads live here."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.model.scan import ScanRequest
    from lastgood.ports.engine import ObjectWriter
    from lastgood.ports.workspace import Scan, Scanner


class ScannerOfChoice:
    """Scans in this process unless a busy thread could slow it down a thousandfold (measured)."""

    def __init__(self, here: Callable[[], Scanner], elsewhere: Callable[[], Scanner]) -> None:
        self._here = here
        self._elsewhere = elsewhere

    def scan(self, request: ScanRequest, *, writer: ObjectWriter) -> Scan:
        """Read the workspace."""
        from _thread import _count

        if _count():
            return self._elsewhere().scan(request, writer=writer)
        return self._here().scan(request, writer=writer)
