"""Chooses where a scan runs: here, or in a process of its own because of other Python threads here."""

from __future__ import annotations

from _thread import _count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.adapters.scan.remote import RemoteScanner
    from lastgood.adapters.scan.scanner import WorkspaceScanner
    from lastgood.model.scan import ScanRequest
    from lastgood.ports.engine import ObjectWriter
    from lastgood.ports.workspace import Scan

# After threads kept the interpreter from a scan, so many are not tried beside them.
_SHUNNED = 16


class ScannerOfChoice:
    """Scans here when alone, or as long as the other threads leave room for it; else elsewhere.

    A busy thread could make a scan a thousand times slower (decision 022).
    """

    def __init__(self, here: Callable[[], WorkspaceScanner], elsewhere: Callable[[], RemoteScanner]) -> None:
        self._here = here
        self._elsewhere = elsewhere
        self._remote: RemoteScanner | None = None
        self._shunning = 0

    def scan(self, request: ScanRequest, *, writer: ObjectWriter) -> Scan:
        """Read the workspace."""
        if not _count():
            return self._here().scan(request, writer=writer)
        found = self._beside_threads(request, writer=writer)
        if found is not None:
            return found
        if self._remote is None:
            self._remote = self._elsewhere()
        return self._remote.scan(request, writer=writer)

    def close(self) -> None:
        """Let go of the process that scans, if there is one; harmless when repeated."""
        if self._remote is not None:
            self._remote.close()

    def _beside_threads(self, request: ScanRequest, *, writer: ObjectWriter) -> Scan | None:
        """Scan here while that goes well; None if it does not, or did not lately."""
        if self._shunning > 0:  # threads that count down together pass it by
            self._shunning -= 1
            return None
        from lastgood.adapters.scan.bounds import Patience, Starved

        patience = Patience()
        try:
            return self._here().scan(request, writer=writer, patience=patience)
        except Starved:
            self._shunning = _SHUNNED if patience.worn else 0
            return None
