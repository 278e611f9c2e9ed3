"""Entries in a JSON text of somebody else's, which stays as it is but for them, byte for byte (RFC 8259)."""

from __future__ import annotations

import json
import re

from lastgood.errors import Invalid
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_BLANK = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
_UNIT = "  "


class _Span(Value):
    """A member of an object, or an element of an array: where it begins, where its value does, and ends."""

    key: str | None
    start: int
    value: int
    end: int


def read(text: str, *, what: str) -> dict[str, object]:
    """Return the object that a text is; `Invalid` if it is none. ``what`` names it."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Invalid(f"{what} is no JSON: {error}", hint="fix it by hand, then try again") from error
    if not isinstance(found, dict):
        raise Invalid(f"{what} is no JSON object", hint="fix it by hand, then try again")
    return found


def appended(text: str, keys: Sequence[str], value: object) -> str:
    """Return a text with a value as the last element of the array at a path, which is made where missing."""
    at = _blank(text, 0)
    for place, key in enumerate(keys):
        spans = _spans(text, at)
        if all(one.key != key for one in spans):
            made: object = [value]
            for missing in reversed(keys[place + 1 :]):
                made = {missing: made}
            return _inserted(text, at, f"{json.dumps(key, ensure_ascii=False)}: ", made)
        at = spans[_place(spans, key)].value
    return _inserted(text, at, "", value)


def without(text: str, keys: Sequence[str], goes: Callable[[object], bool]) -> str:
    """Return a text without some elements of the array at a path, nor what is empty then on the way to it."""
    while (found := _first(text, keys, goes)) is not None:
        ways, place = found
        while True:
            text = _cut(text, ways[-1], place)
            if _spans(text, ways.pop()) or not ways:
                break
            place = _place(_spans(text, ways[-1]), keys[len(ways) - 1])
    return text


def _first(text: str, keys: Sequence[str], goes: Callable[[object], bool]) -> tuple[list[int], int] | None:
    """Return where the containers on the way to an element that goes begin, and its place in the last."""
    ways = [_blank(text, 0)]
    for key in keys:
        spans = _spans(text, ways[-1])
        if all(one.key != key for one in spans):
            return None
        ways.append(spans[_place(spans, key)].value)
    values = (_DECODER.raw_decode(text, one.value)[0] for one in _spans(text, ways[-1]))
    place = next((place for place, value in enumerate(values) if goes(value)), None)
    return None if place is None else (ways, place)


def _place(spans: Sequence[_Span], key: str) -> int:
    """Return which member has a key: of several the last, as JSON's readers have it."""
    return max(place for place, one in enumerate(spans) if one.key == key)


def _spans(text: str, at: int) -> list[_Span]:
    """Return what is in the object or array that begins at a place; `Invalid` if neither does."""
    if text[at] not in "{[":
        raise Invalid("the hooks in it are of a form that nobody knows", hint="fix them by hand")
    found = []
    place = _blank(text, at + 1)
    while text[place] not in "}]":
        start, key = place, None
        if text[at] == "{":
            key, place = _DECODER.raw_decode(text, place)
            place = _blank(text, _blank(text, place) + 1)
        _value, end = _DECODER.raw_decode(text, place)
        found.append(_Span(key=key, start=start, value=place, end=end))
        place = _blank(text, end)
        if text[place] == ",":
            place = _blank(text, place + 1)
    return found


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None
    return found.end()


def _inserted(text: str, at: int, head: str, value: object) -> str:
    """Return a text with a value at the end of the object or array that begins at a place."""
    spans = _spans(text, at)
    above = _indent(text, at)
    if spans:
        gap = text[at + 1 : spans[0].start]
        inner = gap.rpartition("\n")[2] if "\n" in gap else None
        said = _written(value, inner, unit=_unit(text))
        between = gap if spans[1:] or "\n" in gap else " "
        return f"{text[: spans[-1].end]},{between}{head}{said}{text[spans[-1].end :]}"
    end = _blank(text, at + 1)
    inner = above + _unit(text)
    return f"{text[: at + 1]}\n{inner}{head}{_written(value, inner, unit=_unit(text))}\n{above}{text[end:]}"


def _written(value: object, indent: str | None, *, unit: str) -> str:
    if indent is None:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, ensure_ascii=False, indent=unit).splitlines()
    return f"\n{indent}".join(lines)


def _indent(text: str, at: int) -> str:
    """Return what the line of a place begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: _blank(line, 0)]


def _unit(text: str) -> str:
    """Return by what a text indents."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else _UNIT


def _cut(text: str, at: int, place: int) -> str:
    """Return a text without one of the members or elements of what begins at a place."""
    spans = _spans(text, at)
    if place:
        return text[: spans[place - 1].end] + text[spans[place].end :]
    if spans[1:]:
        return text[: spans[0].start] + text[spans[1].start :]
    return text[: at + 1] + text[_blank(text, spans[0].end) :]
