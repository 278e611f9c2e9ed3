"""What one segment of an ignore pattern matches: a name, without any slash.

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
        self.name = name

    def matches(self, name: bytes) -> bool:
        """Tell whether a name is matched."""
        return name == self.name


class Prefix:
    """Matches names that begin so."""

    __slots__ = ("prefix",)

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix

    def matches(self, name: bytes) -> bool:
        """Tell whether a name is matched."""
        return name.startswith(self.prefix)


class Suffix:
    """Matches names that end so."""

    __slots__ = ("suffix",)

    def __init__(self, suffix: bytes) -> None:
        self.suffix = suffix

    def matches(self, name: bytes) -> bool:
        """Tell whether a name is matched."""
        return name.endswith(self.suffix)


class Pieces:
    """Matches names that hold some pieces in order, the first at the start and the last at the end."""

    __slots__ = ("first", "last", "least", "middle")

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.first = pieces[0]
        self.last = pieces[-1]
        self.middle = tuple(piece for piece in pieces[1:-1] if piece)
        self.least = len(self.first) + len(self.last)

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
