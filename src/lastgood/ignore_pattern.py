"""Ignore patterns: one line of an ignore file, taken apart once.

The format is gitignore(5), down to what git does with odd lines; see tests/test_ignore_git.py for the proof.

The dialect is git's ``wildmatch`` (gitignore(5), glob(7)). Nearly all patterns in use are one of
the cheap shapes; the rest run as a bit-parallel automaton, whose work is the length of the name
whatever the pattern (no backtracking, so that ``a*a*a*a*b`` costs nothing either).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    # A literal byte, one of the marks below, or the members of a class.
    Element = int | bytes
    Shape: TypeAlias = "Exact | Prefix | Suffix | Pieces | Automaton"


# --- What one segment of an ignore pattern matches: a name, without any slash ---

SLASH = 0x2F
ANY = -1  # one byte
STAR = -2  # any bytes of one name
DEEP = -3  # any number of whole names, none included

# More spellings than this and a class is left to the automaton.
_MOST_SPELLINGS = 16
# No file system has longer names; it bounds what a hostile pattern can cost.
_LONGEST_NAME = 1024
_UPPER = bytes(range(0x41, 0x5B))
_LOWER = bytes(range(0x61, 0x7B))
_DIGIT = bytes(range(0x30, 0x3A))
_PUNCTUATION = bytes(
    byte for byte in range(0x21, 0x7F) if byte not in _UPPER and byte not in _LOWER and byte not in _DIGIT
)
_NAMED = {
    b"alnum": _UPPER + _LOWER + _DIGIT,
    b"alpha": _UPPER + _LOWER,
    b"blank": b" \t",
    b"cntrl": bytes(range(0x20)) + b"\x7f",
    b"digit": _DIGIT,
    b"graph": bytes(range(0x21, 0x7F)),
    b"lower": _LOWER,
    b"print": bytes(range(0x20, 0x7F)),
    b"punct": _PUNCTUATION,
    b"space": b" \t\n\r",  # git's own ctype: neither \v nor \f
    b"upper": _UPPER,
    b"xdigit": _DIGIT + b"ABCDEFabcdef",
}


class Exact:
    """Matches one name."""

    __slots__ = ("name",)

    def __init__(self, name: bytes) -> None:
        self.name: bytes = name

    def matches(self, name: bytes) -> bool:
        """Tell whether a name is matched."""
        return name == self.name


class Prefix:
    """Matches names that begin so."""

    __slots__ = ("prefix",)

    def __init__(self, prefix: bytes) -> None:
        self.prefix: bytes = prefix

    def matches(self, name: bytes) -> bool:
        """Tell whether a name is matched."""
        return name.startswith(self.prefix)


class Suffix:
    """Matches names that end so."""

    __slots__ = ("suffix",)

    def __init__(self, suffix: bytes) -> None:
        self.suffix: bytes = suffix

    def matches(self, name: bytes) -> bool:
        """Tell whether a name is matched."""
        return name.endswith(self.suffix)


class Pieces:
    """Matches names that hold some pieces in order, the first at the start and the last at the end."""

    __slots__ = ("first", "last", "least", "middle", "rarest")

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.first: bytes = pieces[0]
        self.last: bytes = pieces[-1]
        self.middle: tuple[bytes, ...] = tuple(piece for piece in pieces[1:-1] if piece)
        self.least: int = len(self.first) + len(self.last)
        # What every name that is matched holds, of that the longest.
        self.rarest: bytes = max(pieces, key=len)

    def matches(self, name: bytes) -> bool:
        """Tell whether a name is matched."""
        if len(name) < self.least or not name.startswith(self.first) or not name.endswith(self.last):
            return False
        at, end = len(self.first), len(name) - len(self.last)
        for piece in self.middle:
            at = name.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return True


class Automaton:
    """Matches any sequence of elements; bit N of its state says that the first N elements have matched.

    The technique is the Shift-And of Baeza-Yates and Gonnet (1992), with stars as states that stay.
    """

    __slots__ = ("_elements", "_masks", "_stars")

    def __init__(self, elements: Sequence[Element]) -> None:
        self._elements = elements
        self._masks: dict[int, int] = {}
        self._stars = sum(1 << at for at, element in enumerate(elements) if element == STAR)

    def matches(self, name: bytes) -> bool:
        """Tell whether a name is matched."""
        masks, stars = self._masks, self._stars
        state = 1 | (stars & 1) << 1
        for byte in name:
            mask = masks.get(byte)
            if mask is None:
                mask = self._mask(byte)
            state = (state & mask) << 1 | state & stars
            state |= (state & stars) << 1
            if not state:
                return False
        return bool(state >> len(self._elements) & 1)

    def _mask(self, byte: int) -> int:
        mask = 0
        for at, element in enumerate(self._elements):
            if byte in element if isinstance(element, bytes) else element in {ANY, byte}:
                mask |= 1 << at
        self._masks[byte] = mask
        return mask


def shapes(elements: Sequence[Element]) -> tuple[Shape, ...]:
    """Return the matchers of one segment; a name fits the segment if it fits any of them.

    Two stars never touch in the elements.
    """
    if sum(element != STAR for element in elements) > _LONGEST_NAME:
        return ()
    if all(isinstance(element, int) and element >= 0 for element in elements):
        return (Exact(bytes(elements)),)  # type: ignore[arg-type]  # just proven
    runs: list[list[Element]] = [[]]
    for element in elements:
        if element == STAR:
            runs.append([])
        else:
            runs[-1].append(element)
    spellings = _spell(runs)
    if spellings is None:
        return (Automaton(elements),)
    return tuple(_shape(spelling) for spelling in spellings)


def _shape(pieces: Sequence[bytes]) -> Shape:
    if len(pieces) == 1:
        return Exact(pieces[0])
    if not any(pieces[:-1]):
        return Suffix(pieces[-1])
    if not any(pieces[1:]):
        return Prefix(pieces[0])
    return Pieces(pieces)


def _spell(runs: Sequence[Sequence[Element]]) -> list[list[bytes]] | None:
    """Spell small classes out; None if that is not possible, or too much."""
    spelled: list[list[bytes]] = [[]]
    for run in runs:
        spellings = _spell_run(run, room=_MOST_SPELLINGS // len(spelled))
        if spellings is None:
            return None
        spelled = [[*pieces, spelling] for pieces in spelled for spelling in spellings]
    return spelled


def _spell_run(run: Sequence[Element], *, room: int) -> list[bytes] | None:
    """Spell a run without a star out; None if it takes any byte, or has more than so many spellings."""
    spellings = [b""]
    for element in run:
        if element == ANY:
            return None
        members = element if isinstance(element, bytes) else bytes((element,))
        if len(spellings) * len(members) > room:
            return None
        spellings = [spelling + bytes((member,)) for spelling in spellings for member in members]
    return spellings


def read_class(pattern: bytes, start: int) -> tuple[bytes, int] | None:
    """Read a bracket expression whose ``[`` lies before ``start``: its members, and where it ends.

    None if it is malformed: the whole pattern then matches nothing. A slash is never a member.
    """
    at = start
    negated = pattern[at : at + 1] in {b"!", b"^"}
    if negated:
        at += 1
    members: set[int] = set()
    previous = 0
    first = True
    while first or pattern[at : at + 1] != b"]":
        first = False
        item = _read_item(pattern, at, previous=previous)
        if item is None:
            return None
        found, previous, at = item
        members.update(found)
    if negated:
        members = set(range(1, 256)) - members
    members.discard(SLASH)
    return bytes(sorted(members)), at + 1


def _read_item(pattern: bytes, at: int, *, previous: int) -> tuple[bytes, int, int] | None:
    """Read one item of a bracket expression: its members, the byte a range may start from, the end."""
    if at >= len(pattern):
        return None
    byte = pattern[at]
    if byte == 0x5C:
        return _read_escaped(pattern, at + 1)
    if byte == 0x2D and previous and pattern[at + 1 : at + 2] not in {b"", b"]"}:
        end = _read_escaped(pattern, at + 2) if pattern[at + 1] == 0x5C else _read_escaped(pattern, at + 1)
        return None if end is None else (bytes(range(previous, end[1] + 1)), 0, end[2])
    if pattern[at : at + 2] == b"[:":
        close = pattern.find(b"]", at + 2)
        if close < 0:
            return None
        if close > at + 2 and pattern[close - 1] == 0x3A:
            named = _NAMED.get(pattern[at + 2 : close - 1])
            return None if named is None else (named, 0, close + 1)
    return bytes((byte,)), byte, at + 1


def _read_escaped(pattern: bytes, at: int) -> tuple[bytes, int, int] | None:
    if at >= len(pattern):
        return None
    return pattern[at : at + 1], pattern[at], at + 1


# --- Ignore patterns: one line of an ignore file, taken apart once ---

if TYPE_CHECKING:
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
        self.ways: Sequence[Way] = ways
        self.floating: bool = floating
        self.negative: bool = negative
        self.directories_only: bool = directories_only


class Pattern:
    """One rule, ready to match."""

    __slots__ = ("directories_only", "floating", "negative", "routes")

    def __init__(self, line: Line) -> None:
        self.routes: tuple[Route, ...] = tuple(_route(way) for way in line.ways)
        self.floating: bool = line.floating
        self.negative: bool = line.negative
        self.directories_only: bool = line.directories_only


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
