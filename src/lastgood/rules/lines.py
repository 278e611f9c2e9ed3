"""Lines out of output that comes in parts, in bounded memory whatever comes."""

from __future__ import annotations

# A longer line is told in pieces of this many bytes.
LINE_LIMIT = 4096


class Lines:
    """Puts lines together; a carriage return ends one too, so that a progress bar is told as it moves."""

    def __init__(self) -> None:
        self._begun = b""

    def of(self, part: bytes) -> list[str]:
        """Return the lines that a part completes, without their ends; empty ones are left out."""
        *whole, rest = (self._begun + part.replace(b"\r", b"\n")).split(b"\n")
        lines = [piece for line in whole for piece in _pieces(line)]
        *early, self._begun = _pieces(rest) or [b""]
        return [_text(line) for line in (*lines, *early)]

    def rest(self) -> list[str]:
        """Return the line that has no end, if any; the output is over."""
        begun, self._begun = self._begun, b""
        return [_text(begun)] if begun else []


def _pieces(line: bytes) -> list[bytes]:
    return [line[at : at + LINE_LIMIT] for at in range(0, len(line), LINE_LIMIT)]


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
