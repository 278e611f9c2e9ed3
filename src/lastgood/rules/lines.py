"""Lines out of output that comes in parts, in bounded memory and time whatever comes."""

from __future__ import annotations

# A longer line is told in pieces of this many bytes.
LINE_LIMIT = 4096


class Lines:
    """Puts lines together; a carriage return ends one too, so that a progress bar is told as it moves."""

    def __init__(self) -> None:
        self._begun = b""

    def of(self, part: bytes, *, most: int) -> tuple[list[str], int]:
        """Return the lines that a part completes, without their ends, and how many more there were.

        Empty ones are left out. Of more than ``most`` it is the first ones and the last: a flood is
        counted, and not taken apart. ``most`` is at least 1.
        """
        text, _, rest = (self._begun + part.replace(b"\r", b"\n")).rpartition(b"\n")
        *early, self._begun = _pieces(rest) or [b""]
        text = _without_empty(text)
        amount = text.count(b"\n") + 1 if text else 0
        flood = amount > most
        known = text.split(b"\n", most)[:most] if text else []
        pieces = [piece for line in known for piece in _pieces(line)] + early
        amount = amount + len(early) if flood else len(pieces)
        if amount <= most:
            return [_text(piece) for piece in pieces], 0
        if flood and not early:
            pieces.append(_pieces(text[text.rfind(b"\n") + 1 :])[-1])
        return [_text(piece) for piece in (*pieces[: most - 1], pieces[-1])], amount - most

    def rest(self) -> list[str]:
        """Return the line that has no end, if any; the output is over."""
        begun, self._begun = self._begun, b""
        return [_text(begun)] if begun else []


def _without_empty(text: bytes) -> bytes:
    while b"\n\n" in text:
        text = text.replace(b"\n\n", b"\n")
    return text.strip(b"\n")


def _pieces(line: bytes) -> list[bytes]:
    return [line[at : at + LINE_LIMIT] for at in range(0, len(line), LINE_LIMIT)]


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
