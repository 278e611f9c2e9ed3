"""Reads work plans from files: YAML or JSON, told apart by name or else by the first character.

What a plain word means is what it means in JSON; all else is text: ``yes``, ``0755``, ``1:30`` and
``2026-01-01`` stay as they are written. No tags, no merge keys, one document; an alias may repeat
what was written before, but not swell to more than a plan can be.
"""

from __future__ import annotations

import os
import re
import stat
from bisect import bisect_right
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]  # the stubs leave it out

from lastgood.errors import Invalid, NotFound, Unsupported
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
    """Return a file's bytes; a pipe or device in its place is never waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(
            f"there is no plan {printable(path)}", hint="for one command: lastgood run -- COMMAND"
        ) from error
    except (OSError, ValueError) as error:
        raise Invalid(
            f"{printable(path)} cannot be read: {printable(str(error))}", hint="name a file with a plan"
        ) from error
    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_size <= SIZE_LIMIT:
            return _all(descriptor)
    finally:
        os.close(descriptor)
    raise Invalid(
        f"{printable(path)} is no file that a plan could be in", hint="it has to be a file of at most 1 MiB"
    )


def _all(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, SIZE_LIMIT):
        parts.append(part)
    return b"".join(parts)


def _decoded(content: bytes, path: str) -> str:
    try:
        return content.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Invalid(f"{printable(path)}:{line}: is no UTF-8", hint="save the file as UTF-8") from error


# --- Reads JSON with the line and column of every key, which the standard reader does not tell ---

DEPTH_LIMIT = 32
_SPACE = re.compile(r"[ \t\r\n]*")
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_DIGITS_LIMIT = 4_000
_JSON_WORDS: tuple[tuple[str, object], ...] = (("true", True), ("false", False), ("null", None))


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
                    place, f"the key {shortened(key)} is here twice", hint=f"it stands in line {line} too"
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
        for word, value in _JSON_WORDS:
            if self._text.startswith(word, at):
                self.at = self.space(at + len(word))
                return value
        found = _JSON_NUMBER.match(self._text, at)
        if found is None or found.end() - at > _DIGITS_LIMIT:
            raise self.fault(at, "a value is missing" if found is None else "is a number without end")
        self.at = self.space(found.end())
        return float(found[0]) if found[1] or found[2] else int(found[0])

    def _place(self, at: int) -> tuple[int, int]:
        line = bisect_right(self._lines, at)
        return line, at - self._lines[line - 1] + 1


# --- Reads YAML with the line and column of every key, as plain JSON values ---

# An alias counts as all that it stands for.
VALUES_LIMIT = 300_000
_YAML_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,300})(\.[0-9]{1,300})?([eE][-+]?[0-9]{1,3})?")
_YAML_WORDS: dict[str, object] = {"": None, "~": None} | {
    spelling: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for spelling in (word, word.capitalize(), word.upper())
}
_PLAIN_TAGS = frozenset({"!", *(f"tag:yaml.org,2002:{name}" for name in ("str", "map", "seq"))})


def read_yaml(text: str, *, where: str, quick: bool = True) -> tuple[object, dict[Path, tuple[int, int]]]:
    """Return the value of the one document of a text, and where its parts stand.

    Raises `Invalid`, which names line and column, and `Unsupported` where PyYAML is not installed.
    ``quick`` takes PyYAML's reader in C where there is one.
    """
    try:
        import yaml
    except ImportError as error:
        raise Unsupported(
            f"{printable(where)} is YAML, and PyYAML is not installed",
            hint="install it (pip install pyyaml), or write the plan as JSON",
        ) from error
    builder = _Builder(where)
    builder.take(_events(yaml, text, where=where, quick=quick))
    return builder.document, builder.places


def _events(yaml: Any, text: str, *, where: str, quick: bool) -> Iterable[Any]:  # noqa: ANN401 - a module
    """Yield PyYAML's events; what it raises becomes `Invalid`."""
    loader = getattr(yaml, "CLoader", yaml.Loader) if quick else yaml.Loader
    try:
        yield from yaml.parse(text, Loader=loader)
    except yaml.YAMLError as error:
        raise _broken(error, text, where) from error
    except (ValueError, OverflowError) as error:  # numbers in directives and escapes that PyYAML trusts
        raise broken_plan(f"is not YAML: {error}", hint="mend it", where=where, place=None) from error


def _broken(error: Exception, text: str, where: str) -> Invalid:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    place = None if mark is None else (mark.line + 1, mark.column + 1)
    says = getattr(error, "problem", None) or "a character that cannot be"
    position = getattr(error, "position", None)
    if place is None and isinstance(position, int):
        line = text.count("\n", 0, position)
        place = line + 1, position - (text.rfind("\n", 0, position) + 1) + 1
        says = getattr(error, "reason", says)
    return broken_plan(f"is not YAML: {says}", hint="mend the line it names", where=where, place=place)


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
    """Puts a document together from PyYAML's events, without recursion."""

    def __init__(self, where: str) -> None:
        self.document: object = None
        self.places: dict[Path, tuple[int, int]] = {}
        self._where = where
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[object, int]] = {}
        self._count = 0
        self._documents = 0

    def take(self, events: Iterable[Any]) -> None:
        """Read all events; `Invalid` for what a plan cannot be written with."""
        take = {
            "DocumentStartEvent": self._document_start,
            "MappingStartEvent": self._start,
            "SequenceStartEvent": self._start,
            "MappingEndEvent": self._end,
            "SequenceEndEvent": self._end,
            "ScalarEvent": self._scalar,
            "AliasEvent": self._alias,
        }
        for event in events:
            taker = take.get(type(event).__name__)
            if taker is not None:
                taker(event)

    def _document_start(self, event: Any) -> None:  # noqa: ANN401 - PyYAML has no types of events to rely on
        self._documents += 1
        if self._documents > 1:
            raise self._fault(event, "a second document begins here", hint="one file holds one plan")

    def _start(self, event: Any) -> None:  # noqa: ANN401 - the same
        self._check_tag(event)
        path = self._place(event)
        if len(self._open) >= DEPTH_LIMIT:
            raise self._fault(event, f"is nested more than {DEPTH_LIMIT} levels deep")
        value: object = {} if type(event).__name__ == "MappingStartEvent" else []
        self._open.append(_Open(value, path, anchor=event.anchor, before=self._count))

    def _end(self, _event: Any) -> None:  # noqa: ANN401 - the same
        ended = self._open.pop()
        # Only now: what holds itself would have no end.
        self._remember(ended.anchor, ended.value, self._count - ended.before + 1)
        self._put(ended.value)

    def _scalar(self, event: Any) -> None:  # noqa: ANN401 - the same
        self._check_tag(event)
        within = self._open[-1] if self._open else None
        if within is not None and isinstance(within.value, dict) and within.key is None:
            self._key(event, within)
            return
        self._place(event)
        value = _plain(event.value) if event.implicit[0] and event.tag is None else event.value
        self._remember(event.anchor, value, 1)
        self._put(value)

    def _key(self, event: Any, within: _Open) -> None:  # noqa: ANN401 - the same
        key = str(event.value)
        path = (*within.path, key)
        if key in within.value:
            line = self.places[path][0]
            hint = f"it stands in line {line} too"
            raise self._fault(event, f"the key {shortened(key)} is here twice", hint=hint)
        self.places[path] = _at(event)
        within.key = key

    def _alias(self, event: Any) -> None:  # noqa: ANN401 - the same
        if event.anchor not in self._anchors:
            raise self._fault(event, f"there is no {shortened('&' + str(event.anchor))} before this")
        self._place(event)
        value, count = self._anchors[event.anchor]
        self._count += count - 1
        self._put(value)

    def _place(self, event: Any) -> Path:  # noqa: ANN401 - the same
        """Count a value and note where it stands; what stands where a key belongs is refused."""
        self._count += 1
        if self._count > VALUES_LIMIT:
            raise self._fault(event, "there is more in it than in any plan")
        within = self._open[-1] if self._open else None
        if within is None:
            path: Path = ()
        elif isinstance(within.value, list):
            path = (*within.path, len(within.value))
        elif within.key is None:
            raise self._fault(event, "a key has to be a text")
        else:
            path = (*within.path, within.key)
        self.places.setdefault(path, _at(event))
        return path

    def _put(self, value: object) -> None:
        if not self._open:
            self.document = value
            return
        within = self._open[-1]
        if isinstance(within.value, list):
            within.value.append(value)
        else:
            within.value[within.key] = value
            within.key = None

    def _remember(self, anchor: str | None, value: object, count: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = value, count

    def _check_tag(self, event: Any) -> None:  # noqa: ANN401 - the same
        if event.tag is not None and event.tag not in _PLAIN_TAGS:
            raise self._fault(
                event, f"has the tag {shortened(str(event.tag))}", hint="write it without a tag"
            )

    def _fault(self, event: Any, says: str, *, hint: str = "mend the line it names") -> Invalid:  # noqa: ANN401 - the same
        return broken_plan(says, hint=hint, where=self._where, place=_at(event))


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
