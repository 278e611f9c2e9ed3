"""Ignore patterns: one line of an ignore file, taken apart once.

The format is gitignore(5), down to what git does with odd lines; see tests/rules for the proof.
"""

from __future__ import annotations

from lastgood.rules.ignore_glob import ANY, DEEP, SLASH, STAR, read_class, shapes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.rules.ignore_glob import Element, Shape

    # One way through a path as it is written, a segment a name; [DEEP] stands for any number of names.
    Way = list[list[Element]]
    # The same, ready to match; None stands for any number of names.
    Segment = tuple[Shape, ...] | None
    Route = tuple[Segment, ...]

_SPECIAL = b"*?[\\"
_BOM = b"\xef\xbb\xbf"


class Line:
    """One rule as it is written; a floating one fits names at any depth and has one way of one segment."""

    __slots__ = ("directories_only", "floating", "negative", "ways")

    def __init__(
        self, ways: Sequence[Way], *, floating: bool, negative: bool, directories_only: bool
    ) -> None:
        self.ways = ways
        self.floating = floating
        self.negative = negative
        self.directories_only = directories_only


class Pattern:
    """One rule, ready to match."""

    __slots__ = ("directories_only", "floating", "negative", "routes")

    def __init__(self, line: Line) -> None:
        self.routes: tuple[Route, ...] = tuple(_route(way) for way in line.ways)
        self.floating = line.floating
        self.negative = line.negative
        self.directories_only = line.directories_only


def _route(way: Way) -> Route:
    return tuple(None if segment == [DEEP] else shapes(segment) for segment in way)


def parse(text: bytes) -> list[Pattern]:
    """Return the rules of an ignore file in order, ready to match."""
    return [Pattern(line) for line in read_lines(text)]


def read_lines(text: bytes) -> list[Line]:
    """Return the rules of an ignore file in order, without those that can match nothing."""
    lines = []
    for written in text.removeprefix(_BOM).split(b"\n"):
        if written and written[0] != 0x23:
            line = _read_line(written)
            if line is not None:
                lines.append(line)
    return lines


def _read_line(written: bytes) -> Line | None:
    text = _trim(written.removesuffix(b"\r").partition(b"\0")[0])
    negative = text.startswith(b"!")
    if negative:
        text = text[1:]
    directories_only = text.endswith(b"/")
    if directories_only:
        text = text[:-1]
    floating = b"/" not in text
    ways = _floating_ways(text) if floating else _anchored_ways(text.removeprefix(b"/"))
    if not ways:
        return None
    return Line(ways, floating=floating, negative=negative, directories_only=directories_only)


def _trim(line: bytes) -> bytes:
    """Drop trailing spaces but an escaped one."""
    if not line.endswith(b" "):
        return line
    kept = line.rstrip(b" ")
    escapes = len(kept) - len(kept.rstrip(b"\\"))
    return line[: len(kept) + 1] if escapes % 2 else kept


def _plain_length(text: bytes) -> int:
    for at, byte in enumerate(text):
        if byte in _SPECIAL:
            return at
    return len(text)


def _floating_ways(text: bytes) -> list[Way]:
    elements = _elements(text)
    if not elements:
        return []
    # Stars that touch are one; without slashes a double one is no more than a single one.
    single = [STAR if element == DEEP else element for element in elements]
    return [[single]]


def _anchored_ways(text: bytes) -> list[Way]:
    plain = _plain_length(text)
    head: list[Element] = list(text[:plain])
    tail = _elements(text[plain:])
    if tail is None:
        return []
    if tail[:1] != [DEEP] or not plain or text[plain - 1] == SLASH:
        return [_way(head + tail)]
    # Git compares the plain beginning of a pattern on its own, and takes the rest as a pattern by
    # itself: a double star right after it therefore counts as one at the start of a segment.
    rest = tail[1:]
    deep: list[Element] = [*head, STAR, SLASH, DEEP, *rest]
    return [_way(head + rest[1:] if rest else [*head, STAR]), _way(deep)]


def _elements(text: bytes) -> list[Element] | None:
    """Take a pattern apart; `DEEP` only where git gives a double star its meaning.

    ``DEEP`` is followed by a slash or nothing. None if the pattern can match nothing.
    """
    elements: list[Element] = []
    at = 0
    while at < len(text):
        byte = text[at]
        if byte == 0x2A:
            stars, at = _read_stars(text, at)
            if stars == [DEEP] and elements[-2:] == [DEEP, SLASH]:
                del elements[-2:]
            elements.extend(stars)
            continue
        if byte == 0x5B:
            found = read_class(text, at + 1)
            if found is None or not found[0]:
                return None
            elements.append(found[0])
            at = found[1]
            continue
        if byte == 0x5C:
            at += 1
            if at == len(text):
                return None
            byte = text[at]
            elements.append(byte)
        else:
            elements.append(ANY if byte == 0x3F else byte)
        at += 1
    return elements


def _read_stars(text: bytes, start: int) -> tuple[list[Element], int]:
    end = start
    while text[end : end + 1] == b"*":
        end += 1
    if end == start + 1 or (start and text[start - 1] != SLASH):
        return [STAR], end
    if text[end : end + 1] in {b"", b"/"}:
        return [DEEP], end
    if text[end : end + 2] == b"\\/":
        # An escaped slash does not vanish with the double star: one name at least goes before it.
        return [STAR, SLASH, DEEP, SLASH], end + 2
    return [STAR], end


def _way(elements: Sequence[Element]) -> Way:
    segments: Way = [[]]
    for element in elements:
        if element == SLASH:
            segments.append([])
        else:
            segments[-1].append(element)
    way = [
        segment
        for at, segment in enumerate(segments)
        if segment != [DEEP] or segments[at - 1 : at] != [[DEEP]]
    ]
    return [*way, [STAR]] if way[-1] == [DEEP] else way
