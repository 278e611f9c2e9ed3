"""Where secrets stand in a text, by their known shapes (rule S17); what has no shape is not found."""

from __future__ import annotations

import re

from lastgood.rules.secret_shapes import (
    ASSIGNED,
    AUTHORIZATION,
    CONTEXTS,
    KEY_BLOCK,
    KEYED,
    KEYED_LIMIT,
    STEMS,
    TOKENS,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lastgood.rules.secret_shapes import Row

    Span = tuple[int, int, str]

# Nothing shorter can be a secret together with what announces it.
LEAST = 8
# Up to so many literals with one first letter are looked for one by one; together they cost a look at
# each place with that letter.
_FEW = 2
# Characters whose lower case is no letter of the literals, and that match one all the same.
_ODD = re.compile("[\u0130\u0131\u017f\u212a]")
# What stands where a secret would, but is none: a reference to one, a type, a blank.
_HARMLESS = re.compile(
    r"(?i)^(?:[*x.•_-]+|\$\{?.*|<.*|\{.*|%.*|\[.*|none|null|true|false|undefined|required|optional|string|bytes?|str|int"
    r"|redacted.*|your[_-].*|.*placeholder.*|(?:os|process|env|self|settings|config|request|args|options)[.\[(].*)$"
)
_CALL = re.compile(r"^[A-Za-z_][\w.]*[(\[]|^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$|::|->")
_WORD = re.compile(r"^[A-Za-z_ -]+$")
_ASSIGNED = re.compile(ASSIGNED)
_KEY_BLOCK = re.compile(KEY_BLOCK)
_KEYED = re.compile(rf"{KEYED}\Z")


class _Shape:
    """A shape, ready to be looked for."""

    __slots__ = ("_before", "_reach", "literals", "name", "pattern")

    def __init__(self, row: Row) -> None:
        self.name, literals, before, self._reach, pattern = row
        self.literals = tuple(literals.split())
        self.pattern = re.compile(pattern)
        self._before = re.compile(rf"{before}\Z") if before else None

    def places(self, text: str, at_hand: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield what `finditer` would, given where the literals stand: a match begins at no other place."""
        group, over = self.pattern.groups, 0
        for at in at_hand:
            start = at if self._before is None else self._start(text, at, over=over)
            if start < over:
                continue
            match = self.pattern.match(text, start)
            if match is None:
                continue
            over = match.end()
            if not group or not harmless(match[1]):
                yield match.span(group)

    def _start(self, text: str, at: int, *, over: int) -> int:
        assert self._before is not None
        before = self._before.search(text, max(over, at - self._reach), at)
        return -1 if before is None else before.start()


_TOKENS = tuple(map(_Shape, TOKENS))
_CONTEXTS = tuple(map(_Shape, CONTEXTS))
_AUTHORIZATION = _Shape(AUTHORIZATION)


def _sieves() -> tuple[tuple[str, ...], tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]]:
    """Return the literals to be looked for one by one, and those together that begin alike."""
    literals = sorted({literal for shape in (*_TOKENS, *_CONTEXTS) for literal in shape.literals})
    alike: dict[str, list[str]] = {}
    for literal in literals:
        alike.setdefault(literal[0], []).append(literal)
    lone = tuple(literal for group in alike.values() if len(group) <= _FEW for literal in group)
    together = tuple(
        (re.compile(first + "(?:" + "|".join(re.escape(one[1:]) for one in group) + ")"), tuple(group))
        for first, group in alike.items()
        if len(group) > _FEW
    )
    return lone, together


_LONE, _TOGETHER = _sieves()


def spans(text: str, *, named: bool) -> list[Span]:
    """Return where secrets stand, and their shapes; what tells most comes first, some perhaps twice.

    ``named`` also looks for what is assigned to names such as ``password``.
    """
    if len(text) < LEAST:
        return []
    found: list[Span] = []
    if "PRIVATE KEY" in text:
        found += [(*match.span(), "private-key") for match in _KEY_BLOCK.finditer(text)]
    present = _present(text)
    odd = not text.isascii() and _ODD.search(text) is not None
    lower = "" if odd else text.lower()
    found += _of(_TOKENS, text, present=present)
    found += [(*place, "authorization") for place in _authorized(text, lower)]
    found += _of(_CONTEXTS, text, present=present)
    if named:
        assigned = _ASSIGNED.finditer(text) if odd else _assigned(text, lower)
        found += [
            (*match.span(_value_of(match)), "assigned-secret") for match in assigned if _is_secret(match)
        ]
    found.sort(key=_order)
    return found


def harmless(value: str) -> bool:
    """Tell whether what stands where a secret would is none."""
    return _HARMLESS.match(value) is not None


def _present(text: str) -> set[str]:
    """Return the literals that are in a text; hardly ever are there any."""
    present = {literal for literal in _LONE if literal in text}
    for pattern, literals in _TOGETHER:
        if pattern.search(text) is not None:
            present.update(literal for literal in literals if literal in text)
    return present


def _of(shapes: Iterable[_Shape], text: str, *, present: set[str]) -> Iterator[Span]:
    for shape in shapes if present else ():
        literals = present.intersection(shape.literals)
        if literals:
            for start, end in shape.places(text, _places(literals, text)):
                yield start, end, shape.name


def _places(literals: Iterable[str], text: str) -> list[int]:
    """Return where literals stand, in order."""
    found = set()
    for literal in literals:
        at = text.find(literal)
        while at >= 0:
            found.add(at)
            at = text.find(literal, at + 1)
    return sorted(found)


def _authorized(text: str, lower: str) -> Iterator[tuple[int, int]]:
    if lower:
        yield from _AUTHORIZATION.places(text, _places(_AUTHORIZATION.literals, lower))
        return
    for match in _AUTHORIZATION.pattern.finditer(text):
        if not harmless(match[1]):
            yield match.span(1)


def _assigned(text: str, lower: str) -> Iterator[re.Match[str]]:
    """Yield what `finditer` would: an assignment can begin only at a stem, or at what leads to a key."""
    starts = set(_places(STEMS, lower))
    for at in _places(("key",), lower):
        before = _KEYED.search(lower, max(0, at - KEYED_LIMIT), at)
        if before is not None:
            starts.add(before.start())
    over = 0
    for start in sorted(starts):
        match = _ASSIGNED.match(text, start) if start >= over else None
        if match is not None:
            over = match.end()
            yield match


def _value_of(match: re.Match[str]) -> str:
    return "quoted" if match["quoted"] is not None else "bare"


def _order(span: Span) -> tuple[int, bool, int]:
    """Put what tells most first: a vendor's shape before a name, the longer before the shorter."""
    start, end, shape = span
    return start, shape == "assigned-secret", -end


def _is_secret(match: re.Match[str]) -> bool:
    quoted = match["quoted"]
    value = quoted if quoted is not None else match["bare"]
    if harmless(value):
        return False
    if value.isdigit() and "token" in match["name"].lower():
        return False  # a count of tokens, of which transcripts are full
    if quoted is not None:
        return True
    if value.lower() == match["name"].lower():
        return False  # code that hands a name on
    if _CALL.search(value):
        return False
    # Code assigns names to names (`token = token_of`); a bare word counts where settings are written.
    tight = match["sign"] == "=" and not match["gap"]
    return tight or not _WORD.match(value)
