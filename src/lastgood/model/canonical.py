"""Canonical JSON: keys sorted, no spaces, ASCII only; written without the ``json`` module.

The ``json`` module costs 3 ms at start-up, a tenth of a whole save: sound texts are read by the
scanner beneath it, and it is imported to say what is wrong with others. The form is that of RFC 8785
for the values used here (no floats beyond what `repr` gives).

The calendar arithmetic is that of the proleptic Gregorian calendar with eras of 400 years.
"""

from __future__ import annotations

from lastgood.errors import Damaged, Internal, Unsupported
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _AsJsonDoes:
    """What the scanner is to be told, so that it reads as ``json.loads`` does."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_int = int
    parse_float = float
    parse_constant = float


try:
    from _json import encode_basestring_ascii as _quote
    from _json import make_scanner

    _scan = make_scanner(cast("Any", _AsJsonDoes()))
except ImportError:  # an interpreter without CPython's accelerator
    from json.decoder import JSONDecoder
    from json.encoder import py_encode_basestring_ascii as _quote

    _scan = cast("Any", JSONDecoder()).scan_once


class Canonical:
    """A value that was written before: its text stands for it."""

    def __init__(self, text: str) -> None:
        self.text = text


def dumps(value: object) -> bytes:
    """Return a value (dict, list, tuple, str, int, float, bool, None, Canonical) as canonical JSON."""
    parts: list[str] = []
    _write(value, parts)
    return "".join(parts).encode("ascii")


def _write(value: object, parts: list[str]) -> None:
    if value is None:
        parts.append("null")
    elif value is True:
        parts.append("true")
    elif value is False:
        parts.append("false")
    elif isinstance(value, str):
        parts.append(_quote(value))
    elif isinstance(value, int | float):
        parts.append(_number(value))
    elif isinstance(value, dict):
        _write_object(value, parts)
    elif isinstance(value, list | tuple):
        _write_array(value, parts)
    elif isinstance(value, Canonical):
        parts.append(value.text)
    else:
        raise Internal(f"a {type(value).__name__} cannot be written as JSON")


def _number(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - NaN, without math
        raise Internal("JSON has no infinite numbers")
    return repr(value)


def _write_object(value: dict[str, object], parts: list[str]) -> None:
    separator = "{"
    for key in sorted(value):
        parts.append(separator)
        parts.append(_quote(key))
        parts.append(":")
        _write(value[key], parts)
        separator = ","
    parts.append("}" if value else "{}")


def _write_array(value: list[object] | tuple[object, ...], parts: list[str]) -> None:
    separator = "["
    for item in value:
        parts.append(separator)
        _write(item, parts)
        separator = ","
    parts.append("]" if value else "[]")


def loads(text: bytes | str, *, what: str) -> dict[str, object]:
    """Return a JSON object; `Damaged`, naming ``what``, if it is none."""
    try:
        value = _read(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(what, f"is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise _damaged(what, "is not a JSON object")
    return value


def _read(text: bytes | str) -> object:
    content = text.decode("utf-8") if isinstance(text, bytes) else text
    try:
        value, end = _scan(content, 0)
    except (StopIteration, SystemError):  # CPython 3.11: faults have no name while `json` is not loaded
        end = 0
    if content[end:].strip(" \t\r\n") or not end:
        import json  # lazily: for what begins with spaces, and to say what is wrong

        return json.loads(content)
    return value


def path_value(path: bytes) -> object:
    """Return a path as JSON: text where it is UTF-8, else ``{"bytes": BASE64}``."""
    try:
        return path.decode("utf-8")
    except UnicodeDecodeError:
        return {"bytes": base64_text(path)}


class Fields:
    """A JSON object being read: every wrong field is `Damaged`, naming the record and the field."""

    def __init__(self, record: dict[str, object], *, what: str) -> None:
        self._record = record
        self.what = what

    def text(self, name: str) -> str:
        """Return a text."""
        value = self._record.get(name)
        if not isinstance(value, str):
            raise self.wrong(name, "a text")
        return value

    def is_null(self, name: str) -> bool:
        """Tell whether a field is null or absent."""
        return self._record.get(name) is None

    def text_or_none(self, name: str) -> str | None:
        """Return a text, or None where it is null or absent."""
        return None if self._record.get(name) is None else self.text(name)

    def number(self, name: str) -> int:
        """Return a whole number."""
        value = self._record.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(name, "a whole number")
        return value

    def number_or_none(self, name: str) -> int | None:
        """Return a whole number, or None where it is null or absent."""
        return None if self._record.get(name) is None else self.number(name)

    def decimal(self, name: str) -> float:
        """Return a number."""
        value = self._record.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.wrong(name, "a number")
        return value

    def decimal_or_none(self, name: str) -> float | None:
        """Return a number, or None where it is null or absent."""
        return None if self._record.get(name) is None else self.decimal(name)

    def flag(self, name: str) -> bool:
        """Return true or false."""
        value = self._record.get(name)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def path(self, name: str) -> bytes:
        """Return a path."""
        return self._path(self._record.get(name), name)

    def paths(self, name: str) -> tuple[bytes, ...]:
        """Return a list of paths."""
        return tuple(self._path(item, name) for item in self._items(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts."""
        items = self._items(name)
        if not all(isinstance(item, str) for item in items):
            raise self.wrong(name, "a list of texts")
        return tuple(str(item) for item in items)

    def binary(self, name: str) -> bytes:
        """Return bytes written as base64."""
        try:
            return _bytes_of(self.text(name))
        except ValueError as error:
            raise self.wrong(name, "base64") from error

    def sub(self, name: str) -> Fields:
        """Return a nested object."""
        value = self._record.get(name)
        if not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return Fields(value, what=f"{self.what}, {name}")

    def sub_or_none(self, name: str) -> Fields | None:
        """Return a nested object, or None where it is null or absent."""
        return None if self._record.get(name) is None else self.sub(name)

    def subs(self, name: str) -> tuple[Fields, ...]:
        """Return a list of objects."""
        found = []
        for item in self._items(name):
            if not isinstance(item, dict):
                raise self.wrong(name, "a list of objects")
            found.append(Fields(item, what=f"{self.what}, {name}"))
        return tuple(found)

    def texts_by_name(self, name: str) -> dict[str, str]:
        """Return an object of texts."""
        value = self._record.get(name)
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise self.wrong(name, "an object of texts")
        return {str(key): str(item) for key, item in value.items()}

    def object_or_empty(self, name: str) -> dict[str, object]:
        """Return a JSON object as it is; an empty one where it is null or absent."""
        value = self._record.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return {} if value is None else dict(value)

    def one_of(self, name: str, allowed: tuple[str, ...]) -> str:
        """Return a text that is one of some."""
        value = self.text(name)
        if value not in allowed:
            raise self.wrong(name, "one of " + ", ".join(allowed))
        return value

    def wrong(self, name: str, wanted: str) -> Damaged:
        """Return the error for a field that is not what it should be."""
        return _damaged(self.what, f"has no good {name!r} (it should be {wanted})")

    def _items(self, name: str) -> list[object]:
        value = self._record.get(name)
        if not isinstance(value, list):
            raise self.wrong(name, "a list")
        return value

    def _path(self, value: object, name: str) -> bytes:
        if isinstance(value, str):
            return value.encode("utf-8", "surrogateescape")
        if isinstance(value, dict) and isinstance(value.get("bytes"), str):
            try:
                return _bytes_of(value["bytes"])
            except ValueError as error:
                raise self.wrong(name, "a path") from error
        raise self.wrong(name, "a path")


def versioned(text: str | bytes, *, what: str, version: int) -> Fields:
    """Return the fields of a record; `Unsupported` if it is not of the one version that is read."""
    return checked(loads(text, what=what), what=what, version=version)


def checked(record: dict[str, object], *, what: str, version: int) -> Fields:
    """Return the fields of a record that was read; `Unsupported` if it is not of the one version."""
    fields = Fields(record, what=what)
    found = fields.number("version")
    if found != version:
        raise Unsupported(
            f"{what} has the format {found}; this lastgood reads {version}", hint="use a newer lastgood"
        )
    return fields


def base64_text(content: bytes) -> str:
    """Return bytes as base64 text."""
    if not content:
        return ""
    from binascii import b2a_base64  # lazily: most manifests have nothing of it

    return b2a_base64(content, newline=False).decode("ascii")


def _bytes_of(text: str) -> bytes:
    if not text:
        return b""
    from binascii import a2b_base64

    return a2b_base64(text.encode("ascii", "replace"))


def _damaged(what: str, fault: str) -> Damaged:
    return Damaged(f"{what} {fault}", hint="run: lastgood verify --repair")


# --- Moments as nanoseconds since the epoch, and as ISO 8601 text in UTC, without ``datetime`` ---

_DAY = 86_400
_NANO = 1_000_000_000


def iso(nanoseconds: int) -> str:
    """Return a moment as ``YYYY-MM-DDTHH:MM:SS.mmmZ`` (milliseconds, cut off)."""
    seconds, rest = divmod(nanoseconds, _NANO)
    days, in_day = divmod(seconds, _DAY)
    year, month, day = civil(days)
    hour, in_hour = divmod(in_day, 3600)
    minute, second = divmod(in_hour, 60)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{rest // 1_000_000:03}Z"


def civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a number of days since 1970-01-01."""
    shifted = days + 719_468
    era, of_era = divmod(shifted, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    march_month = (5 * of_year + 2) // 153
    day = of_year - (153 * march_month + 2) // 5 + 1
    month = march_month + 3 if march_month < 10 else march_month - 9
    year = year_of_era + era * 400 + (month <= 2)
    return year, month, day


def days(year: int, month: int, day: int) -> int:
    """Return the number of days since 1970-01-01, undoing `civil`."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + of_year
    return era * 146_097 + of_era - 719_468
