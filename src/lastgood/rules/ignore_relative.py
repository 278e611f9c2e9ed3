"""Ignore rules of a directory, rewritten for one below it."""

from __future__ import annotations

from lastgood.rules.ignore_glob import ANY, DEEP, SLASH, STAR, shapes
from lastgood.rules.ignore_pattern import read_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.rules.ignore_glob import Element

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+,@=~%")


def relative(text: bytes, names: Sequence[bytes]) -> bytes:
    """Return the rules of an ignore file as they bear on the directory that ``names`` lead down to.

    The result is an ignore file for that directory; what cannot matter below it is gone.
    """
    lines = []
    for line in read_lines(text):
        for way in line.ways:
            ends = b"/\n" if line.directories_only else b"\n"
            begins = b"!" if line.negative else b""
            if line.floating:
                lines.append(begins + _render(way[0]) + ends)
                continue
            lines += [begins + b"/" + rest + ends for rest in _rests(way, names)]
    return b"".join(lines)


def _rests(route: Sequence[Sequence[Element]], names: Sequence[bytes]) -> list[bytes]:
    reached = _settled({0}, route)
    for name in names:
        following = set()
        for at in reached:
            if route[at] == [DEEP]:
                following.add(at)
            elif at + 1 < len(route) and any(shape.matches(name) for shape in shapes(route[at])):
                following.add(at + 1)
        reached = _settled(following, route)
    return [b"/".join(_render(segment) for segment in route[at:]) for at in sorted(reached)]


def _settled(reached: set[int], route: Sequence[Sequence[Element]]) -> set[int]:
    """Add the places behind a double star, which may stand for no name at all."""
    return reached | {at + 1 for at in reached if route[at] == [DEEP]}


def _render(segment: Sequence[Element]) -> bytes:
    return b"".join(_render_element(element) for element in segment)


def _render_element(element: Element) -> bytes:
    if isinstance(element, bytes):
        return _render_class(element)
    if element < 0:
        return {ANY: b"?", STAR: b"*", DEEP: b"**"}[element]
    if element in _PLAIN:
        return bytes((element,))
    # A carriage return would be lost at the end of a line, even escaped.
    return b"[\r]" if element == 0x0D else b"\\" + bytes((element,))


def _render_class(members: bytes) -> bytes:
    # A newline cannot be written; it is a member only where most bytes are.
    negated = 0x0A in members
    others = (byte for byte in range(1, 256) if byte != SLASH and byte not in members)
    listed = list(others) if negated else list(members)
    body = b"".join(b"\\" + bytes((byte,)) for byte in listed)
    return b"[" + (b"!" if negated else b"") + body + b"]"
