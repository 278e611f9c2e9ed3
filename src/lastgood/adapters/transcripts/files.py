"""The files of conversations on this machine."""

from __future__ import annotations

from lastgood.adapters.transcripts.reading import OpenTranscript
from lastgood.adapters.transcripts.remembering import Memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from lastgood.model.conversation import Evidence
    from lastgood.ports.transcripts import Presence


class TranscriptFiles:
    """Transcripts where hosts keep them; ``cache`` is the workspace's folder in the store."""

    __slots__ = ("_memory",)

    def __init__(self, cache: bytes) -> None:
        self._memory = Memory(cache)

    def open(self, path: bytes) -> OpenTranscript:
        """Open a file for reading, without ever waiting for one."""
        return OpenTranscript(path)

    def recall(self, source: bytes) -> Evidence | None:
        """Return what was remembered of a source; None in any doubt."""
        return self._memory.recall(source)

    def remember(self, source: bytes, evidence: Evidence) -> None:
        """Remember something of a source; that this fails harms nothing."""
        self._memory.remember(source, evidence)

    # What only a restore needs is loaded when one does.
    def beside(self, path: bytes) -> bytes:
        """Return the real folder that a file lies in, fit to put another one into."""
        from lastgood.adapters.transcripts.placing import folder_beside

        return folder_beside(path)

    def present(self, path: bytes, *, size: int, digest: bytes) -> Presence:
        """Tell whether a path holds exactly some content (a SHA-256), something else, or nothing."""
        from lastgood.adapters.transcripts.placing import presence

        return presence(path, size=size, digest=digest)

    def place(self, path: bytes, pieces: Iterable[bytes]) -> None:
        """Write a new file of mode 0600, durable and whole when its name appears."""
        from lastgood.adapters.transcripts.placing import place_new

        place_new(path, pieces)

    def remove(self, path: bytes) -> None:
        """Remove a file durably; harmless if it is gone."""
        from lastgood.adapters.transcripts.placing import remove

        remove(path)

    def tidy(self, path: bytes) -> None:
        """Remove what a killed `place` of a file left beside it."""
        from lastgood.adapters.transcripts.placing import aside_of, remove

        remove(aside_of(path))
