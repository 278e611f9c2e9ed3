"""Reads work plans from files: YAML or JSON, told apart by name or else by the first character.

What a plain word means is what it means in JSON; all else is text: ``yes``, ``0755``, ``1:30`` and
``2026-01-01`` stay as they are written. No tags, no merge keys, one document; an alias may repeat
what was written before, but not swell to more than a plan can be.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]  # the stubs leave it out

from lastgood.errors import Invalid, NotFound, Unsupported
from lastgood.files import read_plain
from lastgood.paths import printable
from lastgood.workplan.form import broken_plan, plan_of, shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from lastgood.model.run import WorkPlan
    from lastgood.workplan.form import Path


SIZE_LIMIT = 1 << 20
_BOM = b"\xef\xbb\xbf"


def read_plan(path: str) -> WorkPlan:
    """Return the plan in a file, with the file's real path as its source.

    Raises `NotFound` if there is none, `Unsupported` where YAML cannot be read, and `Invalid`, with
    file, line, column and key, for anything wrong in it.
    """
    content = _content(path)
    text = _decoded(content, path)
    if _is_json(path, text):
        value, places = read_json(text, where=path)
    else:
        value, places = read_yaml(text, where=path)
    return plan_of(value, where=path, places=places).replace(source=os.path.realpath(path))


def _is_json(path: str, text: str) -> bool:
    name = path.lower()
    return name.endswith(".json") or (
        not name.endswith((".yaml", ".yml")) and text.lstrip(" \t\r\n").startswith("{")
    )


def _content(path: str) -> bytes:
    try:
        content = read_plain(path, limit=SIZE_LIMIT)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(
            f"there is no plan {printable(path)}", hint="for one command: lastgood run -- COMMAND"
        ) from error
    except (OSError, ValueError) as error:
        raise Invalid(
            f"{printable(path)} cannot be read: {printable(str(error))}", hint="name a file with a plan"
        ) from error
    if content is None:
        raise Invalid(
            f"{printable(path)} is no file that a plan could be in",
            hint="it has to be a file of at most 1 MiB",
        )
    return content


def _decoded(content: bytes, path: str) -> str:
    try:
        return content.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Invalid(f"{printable(path)}:{line}: is no UTF-8", hint="save the file as UTF-8") from error


# --- Puts a document together, whoever reads it, and notes where each key and value stands ---

DEPTH_LIMIT = 32

if TYPE_CHECKING:
    Place = tuple[int, int]


class _Open:
    """A list or an object that is being read; ``key`` is the one whose value comes next."""

    __slots__ = ("anchor", "before", "key", "path", "value")

    def __init__(self, value: Any, path: Path, *, anchor: str | None, before: int) -> None:  # noqa: ANN401 - a dict or a list
        self.value = value
        self.path = path
        self.anchor = anchor
        self.before = before
        self.key: str | None = None


class _Builder:
    """One document, as far as it was read; ``within`` are the lists and objects that have not ended.

    Of values, as many as ``most`` can be a plan.
    """

    def __init__(self, where: str, *, most: int) -> None:
        self.document: object = None
        self.places: dict[Path, Place] = {}
        self.within: list[_Open] = []
        self._where = where
        self._most = most
        self._anchors: dict[str, tuple[object, int]] = {}
        self._count = 0

    @property
    def wants_key(self) -> bool:
        """Whether what comes next is a key, or the end of an object."""
        return bool(self.within) and isinstance(self.within[-1].value, dict) and self.within[-1].key is None

    def begin(self, value: object, place: Place, *, anchor: str | None = None) -> None:
        """Take the beginning of a list or an object."""
        path = self._noted(place)
        self.within.append(_Open(value, path, anchor=anchor, before=self._count))

    def end(self) -> None:
        """Take the end of a list or an object."""
        ended = self.within.pop()
        # Only now: what holds itself would have no end.
        self._remember(ended.anchor, ended.value, self._count - ended.before + 1)
        self._put(ended.value)

    def key(self, key: str, place: Place) -> None:
        """Take a key."""
        within = self.within[-1]
        path = (*within.path, key)
        if key in within.value:
            hint = f"it stands in line {self.places[path][0]} too"
            raise self.fault(place, f"the key {shortened(key)} is here twice", hint=hint)
        self.places[path] = place
        within.key = key

    def scalar(self, value: object, place: Place, *, anchor: str | None = None) -> None:
        """Take a value that holds no others."""
        self._noted(place)
        self._remember(anchor, value, 1)
        self._put(value)

    def alias(self, anchor: str, place: Place) -> None:
        """Take what was written before under an anchor."""
        if anchor not in self._anchors:
            raise self.fault(place, f"there is no {shortened('&' + anchor)} before this")
        self._noted(place)
        value, count = self._anchors[anchor]
        self._count += count - 1
        self._put(value)

    def fault(self, place: Place, says: str, *, hint: str = "fix the line it names") -> Invalid:
        """Return the error for a place in the document."""
        return broken_plan(says, hint=hint, where=self._where, place=place)

    def _noted(self, place: Place) -> Path:
        """Count a value and note where it stands; what stands where a key belongs is refused."""
        self._count += 1
        if self._count > self._most:
            raise self.fault(place, "there is more in it than in any plan")
        if self.wants_key:
            raise self.fault(place, "a key has to be a text")
        within = self.within[-1] if self.within else None
        path: Path = ()
        if within is not None:
            path = (*within.path, len(within.value) if within.key is None else within.key)
        self.places.setdefault(path, place)
        return path

    def _put(self, value: object) -> None:
        within = self.within[-1] if self.within else None
        if within is None:
            self.document = value
        elif within.key is None:
            within.value.append(value)
        else:
            within.value[within.key] = value
            within.key = None

    def _remember(self, anchor: str | None, value: object, count: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = value, count


# --- Reads JSON as the standard reader does, which tells no places of what it has read ---

_SPACE = re.compile(r"[ \t\r\n]*")
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_DIGITS_LIMIT = 4_000
_JSON_WORDS: tuple[tuple[str, object], ...] = (("true", True), ("false", False), ("null", None))


def read_json(text: str, *, where: str) -> tuple[object, dict[Path, Place]]:
    """Return the value that a text is, and where its parts stand; `Invalid` names line and column."""
    reader = _Reader(text, where)
    end = reader.value(reader.space(0))
    if end < len(text):
        raise reader.fault(end, "there is something behind the end of the plan")
    return reader.builder.document, reader.builder.places


class _Reader:
    """Reads one text; each part of it from where it begins to behind the white space that follows it."""

    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        self.builder = _Builder(where, most=SIZE_LIMIT)

    def space(self, at: int) -> int:
        """Return where something other than white space is, from a place on."""
        found = _SPACE.match(self._text, at)
        assert found is not None
        return found.end()

    def fault(self, at: int, says: str) -> Invalid:
        """Return the error for a place in the text."""
        return self.builder.fault(self._place(at), says)

    def value(self, at: int) -> int:
        """Read the value that begins at a place."""
        if len(self.builder.within) > DEPTH_LIMIT:
            raise self.fault(at, f"is nested more than {DEPTH_LIMIT} levels deep")
        start = self._text[at : at + 1]
        if start in {"{", "["}:
            self.builder.begin({} if start == "{" else [], self._place(at))
            return self._parts(at, "}" if start == "{" else "]")
        value, end = self._string(at) if start == '"' else self._word(at)
        self.builder.scalar(value, self._place(at))
        return end

    def _parts(self, at: int, mark: str) -> int:
        """Read what an object or a list holds, to its end."""
        at = self.space(at + 1)
        ended = self._text[at : at + 1] == mark
        while not ended:
            at = self.value(self._behind_key(at) if mark == "}" else at)
            found = self._text[at : at + 1]
            if found not in {mark, ","}:
                raise self.fault(at, f"'{mark}' or ',' is missing")
            ended = found == mark
            at = at if ended else self.space(at + 1)
        self.builder.end()
        return self.space(at + 1)

    def _behind_key(self, at: int) -> int:
        if self._text[at : at + 1] != '"':
            raise self.fault(at, "a key in double quotes is missing")
        key, end = self._string(at)
        self.builder.key(key, self._place(at))
        if self._text[end : end + 1] != ":":
            raise self.fault(end, "':' is missing")
        return self.space(end + 1)

    def _string(self, at: int) -> tuple[str, int]:
        try:
            text, end = scanstring(self._text, at + 1, True)
        except JSONDecodeError as error:
            raise self.fault(error.pos, f"is no text of JSON: {error.msg}") from error
        return str(text), self.space(end)

    def _word(self, at: int) -> tuple[object, int]:
        for word, value in _JSON_WORDS:
            if self._text.startswith(word, at):
                return value, self.space(at + len(word))
        found = _JSON_NUMBER.match(self._text, at)
        if found is None or found.end() - at > _DIGITS_LIMIT:
            raise self.fault(at, "a value is missing" if found is None else "is a number without end")
        number = float(found[0]) if found[1] or found[2] else int(found[0])
        return number, self.space(found.end())

    def _place(self, at: int) -> Place:
        line = bisect_right(self._lines, at)
        return line, at - self._lines[line - 1] + 1


# --- Reads YAML by PyYAML's events, as plain JSON values ---

# An alias counts as all that it stands for.
VALUES_LIMIT = 300_000
_YAML_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,300})(\.[0-9]{1,300})?([eE][-+]?[0-9]{1,3})?")
_YAML_WORDS: dict[str, object] = {"": None, "~": None} | {
    spelling: value for word, value in _JSON_WORDS for spelling in (word, word.capitalize(), word.upper())
}
_PLAIN_TAGS = frozenset({"!", *(f"tag:yaml.org,2002:{name}" for name in ("str", "map", "seq"))})


def read_yaml(text: str, *, where: str, quick: bool = True) -> tuple[object, dict[Path, Place]]:
    """Return the value of the one document of a text, and where its parts stand.

    Raises `Invalid`, which names line and column, and `Unsupported` where PyYAML is not installed.
    ``quick`` takes PyYAML's reader in C where there is one.
    """
    try:
        import yaml
    except ImportError as error:
        from lastgood.libraries import install

        raise Unsupported(
            f"{printable(where)} is YAML, and PyYAML is not installed",
            hint=f"install it: {install('pyyaml')}\nor write the plan as JSON",
        ) from error
    builder = _Builder(where, most=VALUES_LIMIT)
    documents = 0
    for event in _events(yaml, text, where=where, quick=quick):
        kind = type(event).__name__
        documents += kind == "DocumentStartEvent"
        if documents > 1:
            raise builder.fault(_at(event), "a second document begins here", hint="one file holds one plan")
        _take(builder, event, kind)
    return builder.document, builder.places


def _take(builder: _Builder, event: Any, kind: str) -> None:  # noqa: ANN401 - PyYAML has no types of events to rely on
    """Have an event built into the document; `Invalid` for what a plan cannot be written with."""
    if kind in {"MappingEndEvent", "SequenceEndEvent"}:
        builder.end()
    elif kind == "AliasEvent":
        builder.alias(str(event.anchor), _at(event))
    elif kind in {"MappingStartEvent", "SequenceStartEvent", "ScalarEvent"}:
        if event.tag is not None and event.tag not in _PLAIN_TAGS:
            says = f"has the tag {shortened(str(event.tag))}"
            raise builder.fault(_at(event), says, hint="write it without a tag")
        if kind != "ScalarEvent":
            _begin(builder, event, {} if kind == "MappingStartEvent" else [])
        elif builder.wants_key:
            builder.key(str(event.value), _at(event))
        else:
            is_plain = event.implicit[0] and event.tag is None
            value = _plain(event.value) if is_plain else event.value
            builder.scalar(value, _at(event), anchor=event.anchor)


def _begin(builder: _Builder, event: Any, value: object) -> None:  # noqa: ANN401 - the same
    if len(builder.within) >= DEPTH_LIMIT and not builder.wants_key:
        raise builder.fault(_at(event), f"is nested more than {DEPTH_LIMIT} levels deep")
    builder.begin(value, _at(event), anchor=event.anchor)


def _events(yaml: Any, text: str, *, where: str, quick: bool) -> Iterable[Any]:  # noqa: ANN401 - a module
    """Yield PyYAML's events; what it raises becomes `Invalid`."""
    loader = getattr(yaml, "CLoader", yaml.Loader) if quick else yaml.Loader
    try:
        yield from yaml.parse(text, Loader=loader)
    except yaml.YAMLError as error:
        raise _broken(error, text, where) from error
    except (ValueError, OverflowError) as error:  # numbers in directives and escapes that PyYAML trusts
        raise broken_plan(f"is not YAML: {error}", hint="fix it", where=where, place=None) from error


def _broken(error: Exception, text: str, where: str) -> Invalid:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    place = None if mark is None else (mark.line + 1, mark.column + 1)
    says = getattr(error, "problem", None) or "a character that cannot be"
    position = getattr(error, "position", None)
    if place is None and isinstance(position, int):
        line = text.count("\n", 0, position)
        place = line + 1, position - (text.rfind("\n", 0, position) + 1) + 1
        says = getattr(error, "reason", says)
    return broken_plan(f"is not YAML: {says}", hint="fix the line it names", where=where, place=place)


def _at(event: Any) -> tuple[int, int]:  # noqa: ANN401 - the same
    return event.start_mark.line + 1, event.start_mark.column + 1


def _plain(text: str) -> object:
    """Return what a plain word means."""
    if text in _YAML_WORDS:
        return _YAML_WORDS[text]
    found = _YAML_NUMBER.fullmatch(text)
    if found is None:
        return text
    return float(text) if found[1] or found[2] else int(text)
