"""Ignore patterns: one line of an ignore file, taken apart once.

The format is gitignore(5), down to what git does with odd lines; see tests/rules for the proof.
"""

from __future__ import annotations

from lastgood.rules.ignore_glob import ANY, DEEP, SLASH, STAR, Exact, Suffix, read_class, shapes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.rules.ignore_glob import Element, Shape

    # One way through a path, a segment a name; None stands for any number of names.
    Segment = tuple[Shape, ...] | None
    Route = tuple[Segment, ...]

_SPECIAL = b"*?[\\"
_BOM = b"\xef\xbb\xbf"
_ANY_NAME: tuple[Shape, ...] = (Suffix(b""),)


class Pattern:
    """One rule. A floating one fits names at any depth and has only routes of one segment."""

    __slots__ = ("directories_only", "floating", "negative", "routes")

    def __init__(
        self, routes: Sequence[Route], *, floating: bool, negative: bool, directories_only: bool
    ) -> None:
        self.routes = routes
        self.floating = floating
        self.negative = negative
        self.directories_only = directories_only


def parse(text: bytes) -> tuple[Pattern, ...]:
    """Return the rules of an ignore file in order, without those that can match nothing."""
    patterns = []
    for line in text.removeprefix(_BOM).split(b"\n"):
        if line and line[0] != 0x23:
            pattern = _parse_line(line)
            if pattern is not None:
                patterns.append(pattern)
    return tuple(patterns)


def _parse_line(line: bytes) -> Pattern | None:
    text = _trim(line.removesuffix(b"\r").partition(b"\0")[0])
    negative = text.startswith(b"!")
    if negative:
        text = text[1:]
    directories_only = text.endswith(b"/")
    if directories_only:
        text = text[:-1]
    floating = b"/" not in text
    routes = _floating_routes(text) if floating else _anchored_routes(text.removeprefix(b"/"))
    if not routes:
        return None
    return Pattern(routes, floating=floating, negative=negative, directories_only=directories_only)


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


def _floating_routes(text: bytes) -> list[Route]:
    if not text:
        return []
    if _plain_length(text) == len(text):
        return [((Exact(text),),)]
    elements = _elements(text)
    if elements is None:
        return []
    # Stars that touch are one; without slashes a double one is no more than a single one.
    single = [STAR if element == DEEP else element for element in elements]
    return [(shapes(single),)]


def _anchored_routes(text: bytes) -> list[Route]:
    plain = _plain_length(text)
    head: list[Element] = list(text[:plain])
    tail = _elements(text[plain:])
    if tail is None:
        return []
    if tail[:1] != [DEEP] or not plain or text[plain - 1] == SLASH:
        return [_route(head + tail)]
    # Git compares the plain beginning of a pattern on its own, and takes the rest as a pattern by
    # itself: a double star right after it therefore counts as one at the start of a segment.
    rest = tail[1:]
    deep: list[Element] = [*head, STAR, SLASH, DEEP, *rest]
    return [_route(head + rest[1:] if rest else [*head, STAR]), _route(deep)]


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


def _route(elements: Sequence[Element]) -> Route:
    segments: list[list[Element]] = [[]]
    for element in elements:
        if element == SLASH:
            segments.append([])
        else:
            segments[-1].append(element)
    route: list[Segment] = []
    for segment in segments:
        if segment != [DEEP]:
            route.append(shapes(segment))
        elif not route or route[-1] is not None:
            route.append(None)
    if route[-1] is None:
        route.append(_ANY_NAME)
    return tuple(route)
