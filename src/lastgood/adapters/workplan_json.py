"""Reads JSON with the line and column of every key, which the standard reader does not tell."""

from __future__ import annotations

import re
from bisect import bisect_right
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]  # the stubs leave it out

from lastgood.codec.workplan import broken_plan
from lastgood.codec.workplan_values import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.codec.workplan_values import Path
    from lastgood.errors import Invalid

DEPTH_LIMIT = 32
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_DIGITS_LIMIT = 4_000
_WORDS: tuple[tuple[str, object], ...] = (("true", True), ("false", False), ("null", None))


def read_json(text: str, *, where: str) -> tuple[object, dict[Path, tuple[int, int]]]:
    """Return the value that a text is, and where its parts stand; `Invalid` names line and column."""
    reader = _Reader(text, where)
    value = reader.value((), reader.space(0), 0)
    if reader.at < len(text):
        raise reader.fault(reader.at, "there is something behind the end of the plan")
    return value, reader.places


class _Reader:
    """Reads one text; ``at`` is how far it has come, always past white space."""

    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._where = where
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        self.places: dict[Path, tuple[int, int]] = {}
        self.at = 0

    def space(self, at: int) -> int:
        """Return where something other than white space is, from a place on."""
        found = _SPACE.match(self._text, at)
        assert found is not None
        return found.end()

    def fault(self, at: int, says: str, *, hint: str = "mend the line it names") -> Invalid:
        """Return the error for a place in the text."""
        return broken_plan(says, hint=hint, where=self._where, place=self._place(at))

    def value(self, path: Path, at: int, depth: int) -> object:
        """Read the value that begins at a place."""
        self.places.setdefault(path, self._place(at))
        if depth > DEPTH_LIMIT:
            raise self.fault(at, f"is nested more than {DEPTH_LIMIT} levels deep")
        start = self._text[at : at + 1]
        if start == "{":
            return self._object(path, at, depth)
        if start == "[":
            return self._array(path, at, depth)
        return self._string(at) if start == '"' else self._scalar(at)

    def _object(self, path: Path, at: int, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        at = self.space(at + 1)
        if self._text[at : at + 1] == "}":
            self.at = self.space(at + 1)
            return found
        while True:
            if self._text[at : at + 1] != '"':
                raise self.fault(at, "a key in double quotes is missing")
            place, key = at, self._string(at)
            within = (*path, key)
            if key in found:
                line = self.places[within][0]
                raise self.fault(
                    place, f"the key {shown(key)} is here twice", hint=f"it stands in line {line} too"
                )
            self.places[within] = self._place(place)
            found[key] = self.value(within, self._past(":", self.at), depth + 1)
            if self._ended("}"):
                return found
            at = self.at

    def _array(self, path: Path, at: int, depth: int) -> list[object]:
        found: list[object] = []
        at = self.space(at + 1)
        if self._text[at : at + 1] == "]":
            self.at = self.space(at + 1)
            return found
        while True:
            found.append(self.value((*path, len(found)), at, depth + 1))
            if self._ended("]"):
                return found
            at = self.at

    def _ended(self, mark: str) -> bool:
        """Tell whether an object or list ends here, after moving past what divides it or ends it."""
        found = self._text[self.at : self.at + 1]
        if found not in {mark, ","}:
            raise self.fault(self.at, f"'{mark}' or ',' is missing")
        self.at = self.space(self.at + 1)
        return found == mark

    def _past(self, mark: str, at: int) -> int:
        if self._text[at : at + 1] != mark:
            raise self.fault(at, f"'{mark}' is missing")
        return self.space(at + 1)

    def _string(self, at: int) -> str:
        try:
            text, end = scanstring(self._text, at + 1, True)
        except JSONDecodeError as error:
            raise self.fault(error.pos, f"is no text of JSON: {error.msg}") from error
        self.at = self.space(end)
        return str(text)

    def _scalar(self, at: int) -> object:
        for word, value in _WORDS:
            if self._text.startswith(word, at):
                self.at = self.space(at + len(word))
                return value
        found = _NUMBER.match(self._text, at)
        if found is None or found.end() - at > _DIGITS_LIMIT:
            raise self.fault(at, "a value is missing" if found is None else "is a number without end")
        self.at = self.space(found.end())
        return float(found[0]) if found[1] or found[2] else int(found[0])

    def _place(self, at: int) -> tuple[int, int]:
        line = bisect_right(self._lines, at)
        return line, at - self._lines[line - 1] + 1
