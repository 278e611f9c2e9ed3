"""Transcripts: files of others, only ever read; and the new ones that a restore puts beside them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal, Protocol

    from lastgood.model.conversation import Evidence, Stretch

    Presence = Literal["absent", "same", "different"]
else:
    Protocol = object


class Transcript(Protocol):
    """Bytes that grow at their end, open for reading."""

    def place(self) -> Stretch:
        """Return where the file lies and how long it is now."""

    def read(self, offset: int, size: int) -> bytes:
        """Return that many bytes from there; fewer only at the end. `Invalid` if they cannot be read."""

    def close(self) -> None:
        """Let go of the file; harmless when repeated."""


class Transcripts(Protocol):
    """The files of conversations, and what is remembered of them between saves."""

    def open(self, path: bytes) -> Transcript:
        """Open a file for reading, without ever waiting for one.

        Raises `NotFound` if there is none, `Invalid` for what is no plain file or cannot be read.
        """

    def recall(self, source: bytes) -> Evidence | None:
        """Return what was remembered of a source; None in any doubt."""

    def remember(self, source: bytes, evidence: Evidence) -> None:
        """Remember something of a source; that this fails harms nothing."""

    def beside(self, path: bytes) -> bytes:
        """Return the real folder that a file lies in, fit to put another one into.

        Raises `NotFound` if it is not there, `Unsafe` if somebody else could meddle with it.
        """

    def present(self, path: bytes, *, size: int, digest: bytes) -> Presence:
        """Tell whether a path holds exactly some content (a SHA-256), something else, or nothing."""

    def place(self, path: bytes, pieces: Iterable[bytes]) -> None:
        """Write a new file of mode 0600, durable and whole when its name appears.

        Raises `Conflict` if the name is taken, `Unsafe` if the file cannot be written.
        """

    def remove(self, path: bytes) -> None:
        """Remove a file durably; harmless if it is gone."""

    def tidy(self, path: bytes) -> None:
        """Remove what a killed `place` of a file left beside it."""
