"""Reads YAML with the line and column of every key, as plain JSON values.

What a plain word means is what it means in JSON; all else is text: ``yes``, ``0755``, ``1:30`` and
``2026-01-01`` stay as they are written. No tags, no merge keys, one document; an alias may repeat
what was written before, but not swell to more than a plan can be.
"""

from __future__ import annotations

import re

from lastgood.codec.workplan import broken_plan
from lastgood.codec.workplan_values import shown
from lastgood.errors import Unsupported
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from lastgood.codec.workplan_values import Path
    from lastgood.errors import Invalid

DEPTH_LIMIT = 32
# An alias counts as all that it stands for.
VALUES_LIMIT = 300_000
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,300})(\.[0-9]{1,300})?([eE][-+]?[0-9]{1,3})?")
_WORDS: dict[str, object] = {"": None, "~": None} | {
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
            raise self._fault(event, f"the key {shown(key)} is here twice", hint=hint)
        self.places[path] = _at(event)
        within.key = key

    def _alias(self, event: Any) -> None:  # noqa: ANN401 - the same
        if event.anchor not in self._anchors:
            raise self._fault(event, f"there is no {shown('&' + str(event.anchor))} before this")
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
            raise self._fault(event, f"has the tag {shown(str(event.tag))}", hint="write it without a tag")

    def _fault(self, event: Any, says: str, *, hint: str = "mend the line it names") -> Invalid:  # noqa: ANN401 - the same
        return broken_plan(says, hint=hint, where=self._where, place=_at(event))


def _at(event: Any) -> tuple[int, int]:  # noqa: ANN401 - the same
    return event.start_mark.line + 1, event.start_mark.column + 1


def _plain(text: str) -> object:
    """Return what a plain word means."""
    if text in _WORDS:
        return _WORDS[text]
    found = _NUMBER.fullmatch(text)
    if found is None:
        return text
    return float(text) if found[1] or found[2] else int(text)
