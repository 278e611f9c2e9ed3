"""Canonical JSON: keys sorted, no spaces, ASCII only; written without the ``json`` module.

The ``json`` module costs 3 ms at start-up, a tenth of a whole save: texts are written by the encoder beneath
it and sound ones read by the scanner there, and it is imported to say what is wrong with others. The form is
that of RFC 8785 for the values used here (no floats beyond what `repr` gives).

The calendar arithmetic is that of the proleptic Gregorian calendar with eras of 400 years.
"""

from __future__ import annotations

from _operator import attrgetter

from lastgood.errors import Damaged, Internal, Unsupported
from lastgood.paths import to_bytes, to_text
from lastgood.value import Generic, Value, cast, defaults, setters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias, TypeVar

    T = TypeVar("T", bound=Value)
    Codec: TypeAlias = "Converter | Form[Any]"
    # What fills a field, its name in JSON, the type that is read as it is, and what reads others.
    _Reader = tuple[Callable[[Any, object], None], str, type | None, Callable[[Any], object]]
    # The names in JSON, what gets their values, those to be left out, and what writes those that need it.
    _Writers = tuple[
        list[str],
        Callable[[Any], tuple[object, ...]],
        list[tuple[str, object]],
        list[tuple[str, Callable[[Any], object]]],
    ]
else:
    T = None


class _AsJsonDoes:
    """What the scanner is to be told, so that it reads as ``json.loads`` does."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_int = int
    parse_float = float
    parse_constant = float


def _refuse_value(value: object) -> object:
    raise Internal(f"a {type(value).__name__} cannot be written as JSON")


try:
    from _json import encode_basestring_ascii, make_encoder, make_scanner

    _scan = make_scanner(cast("Any", _AsJsonDoes()))
    # No check for cycles, no indentation, keys sorted, none left out, no infinite numbers.
    _how = (None, _refuse_value, encode_basestring_ascii, None, ":", ",", True, False, False)
    _pieces: Callable[[object, int], Sequence[str]] = make_encoder(*_how)
except ImportError:  # an interpreter without CPython's accelerator
    from json import JSONDecoder, JSONEncoder

    _scan = cast("Any", JSONDecoder()).scan_once

    def _written(value: object, _level: int) -> Sequence[str]:
        encoder = JSONEncoder(
            check_circular=False,
            allow_nan=False,
            sort_keys=True,
            separators=(",", ":"),
            default=_refuse_value,
        )
        return (encoder.encode(value),)

    _pieces = _written


def dumps(value: object) -> bytes:
    """Return a value (dict, list, tuple, str, int, float, bool, None) as canonical JSON."""
    try:
        return "".join(_pieces(value, 0)).encode("ascii")
    except ValueError as error:
        raise Internal(f"JSON has no infinite numbers ({error})") from error


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


# --- Values as JSON: each class by one table of its fields, made from its annotations ---


class Wrong(Exception):
    """A JSON value is not ``wanted``; ``place`` are the names that lead to it, innermost first."""

    def __init__(self, wanted: str) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.place: list[str] = []

    def of(self, what: str) -> Damaged:
        """Return the error that names the record."""
        name, *outer = self.place or [""]
        whole = ", ".join([what, *reversed(outer)])
        return _damaged(whole, f"has no good {name!r} (it should be {self.wanted})")


class Converter:
    """How a value is read from JSON and written to it.

    What is exactly of type ``kind`` is read as it is. Without ``write`` a value is its JSON; None always is.
    """

    def __init__(
        self,
        read: Callable[[Any], Any],
        write: Callable[[Any], Any] | None = None,
        *,
        kind: type | None = None,
    ) -> None:
        self.read = read
        self.write = write
        self.kind = kind


def optional(one: Codec) -> Converter:
    """Return the converter of what may be null or absent."""
    read, kind = one.read, one.kind

    def read_optional(given: object) -> object:
        return given if given is None or type(given) is kind else read(given)

    return Converter(read_optional, one.write, kind=kind)


def sequence(one: Codec) -> Converter:
    """Return the converter of a list of what another converts."""
    read, write, kind = one.read, one.write, one.kind

    def read_all(given: object) -> tuple[object, ...]:
        if not isinstance(given, list):
            raise Wrong("a list")
        try:
            return tuple([item if type(item) is kind else read(item) for item in given])
        except Wrong as wrong:
            if not wrong.place:
                wrong.wanted = _OF_LISTS.get(wrong.wanted, wrong.wanted)
            raise

    return Converter(read_all, list if write is None else lambda items: [write(item) for item in items])


def words(*allowed: str) -> Converter:
    """Return the converter of a text that is one of some."""

    def read(given: object) -> object:
        if not isinstance(given, str):
            raise Wrong("a text")
        if given not in allowed:
            raise Wrong("one of " + ", ".join(allowed))
        return given

    return Converter(read)


def _refuse(wanted: str) -> Callable[[object], object]:
    def read(_given: object) -> object:
        raise Wrong(wanted)

    return read


def _decimal(given: object) -> object:
    if not isinstance(given, int) or isinstance(given, bool):
        raise Wrong("a number")
    return given


def _decoded(given: str, decode: Callable[[str], bytes], wanted: str) -> bytes:
    try:
        return decode(given)
    except ValueError as error:
        raise Wrong(wanted) from error


def _path(given: object) -> bytes:
    if isinstance(given, dict):
        given = given.get("bytes")
        if isinstance(given, str):
            return _decoded(given, _bytes_of, "a path")
    elif isinstance(given, str):
        return given.encode("utf-8", "surrogateescape")
    raise Wrong("a path")


def _binary(given: object) -> bytes:
    if not isinstance(given, str):
        raise Wrong("a text")
    return _decoded(given, _bytes_of, "base64")


def _object_id(given: object) -> bytes:
    if not isinstance(given, str):
        raise Wrong("a text")
    return _decoded(given, bytes.fromhex, "an object id in hex")


def _texts(given: object) -> dict[str, str]:
    if not isinstance(given, dict) or not all(isinstance(item, str) for item in given.values()):
        raise Wrong("an object of texts")
    return given


def _object(given: object) -> dict[str, object]:
    if given is not None and not isinstance(given, dict):
        raise Wrong("an object")
    return given or {}


TEXT = Converter(_refuse("a text"), kind=str)
NUMBER = Converter(_refuse("a whole number"), kind=int)
DECIMAL = Converter(_decimal, kind=float)
FLAG = Converter(_refuse("true or false"), kind=bool)
PATH = Converter(_path, path_value)
BINARY = Converter(_binary, base64_text)
OS_TEXT = Converter(lambda given: to_text(_path(given)), lambda text: path_value(to_bytes(text)))
OBJECT = Converter(_object, dict)
_BY_ANNOTATION: dict[str, Codec] = {
    "str": TEXT,
    "Text": TEXT,
    "OsText": OS_TEXT,
    "int": NUMBER,
    "Timestamp": NUMBER,
    "float": DECIMAL,
    "bool": FLAG,
    "bytes": PATH,
    "ObjectId": Converter(_object_id, bytes.hex),
    "Binary": BINARY,
    "Mapping[str, str]": Converter(_texts, dict),
    "Mapping[Text, Text]": Converter(_texts, dict),
    "Mapping[str, object]": OBJECT,
}
_OF_LISTS = {"a text": "a list of texts", "an object": "a list of objects"}
_new, _assign = object.__new__, object.__setattr__


def _converter(annotation: str, known: dict[str, Codec]) -> Codec:
    found = known.get(annotation) or _BY_ANNOTATION.get(annotation)
    if found is not None:
        return found
    inner = annotation.removesuffix(" | None")
    if inner != annotation:
        found = optional(_converter(inner, known))
    elif annotation.startswith("tuple["):
        inner = annotation[len("tuple[") : -len(", ...]")]
        found = sequence(_converter(inner, known))
    else:
        raise Internal(f"a field of type {annotation} has no JSON")
    if inner in _BY_ANNOTATION:
        _BY_ANNOTATION[annotation] = found  # the same for every form
    return found


class Form(Generic[T]):
    """The JSON object of a class of values: a field for each of theirs, converted by its annotation.

    ``converters`` are those of fields by name, or of annotations that are not plain ones. ``names`` are those
    in JSON where they differ. ``late`` fields have their default where they are null or absent, as in records
    of releases that did not know them; ``sparse`` ones are not even written where they have it, and those
    ``without`` never. The fields of a ``flat`` one stand among the others. What is a record of its own is
    called ``what`` in errors, and has a ``version``.
    """

    kind = None

    def __init__(
        self,
        of: type[T],
        what: str = "",
        *,
        version: int | None = None,
        names: dict[str, str] | None = None,
        late: str = "",
        sparse: str = "",
        without: str = "",
        flat: dict[str, Form[Any]] | None = None,
        **converters: Codec,
    ) -> None:
        self._of = of
        self.what = what
        self._version = version
        self._names = names or {}
        self._late = (late + " " + sparse).split()
        self._sparse = sparse.split()
        self._without = without.split()
        self._flat = flat or {}
        self._converters = converters
        # Made when they are first used, and whole: what a save writes, it need not read.
        self._fields: list[tuple[str, str, Codec]] | None = None
        self._readers: list[_Reader] | None = None
        self._writers: _Writers | None = None

    def read(self, given: object) -> T:
        """Return the value that a JSON object is; `Wrong` if it is none."""
        if not isinstance(given, dict):
            raise Wrong("an object")
        made, key = _new(self._of), ""
        try:
            for put, key, kind, read in self._readers or self._made_readers():
                value = given.get(key)
                put(made, value if type(value) is kind else read(value))
        except Wrong as wrong:
            wrong.place.append(key)
            raise
        for name, form in self._flat.items():
            _assign(made, name, form.read(given))
        return made

    def write(self, value: T) -> dict[str, object]:
        """Return a value as a JSON object."""
        keys, get, omitted, writers = self._writers or self._made_writers()
        record: dict[str, object] = dict(zip(keys, get(value)))  # noqa: B905 - to say so takes a tenth of it
        for key, default in omitted:
            if record[key] == default:
                del record[key]
        for key, write in writers:
            if (item := record.get(key)) is not None:
                record[key] = write(item)
        if self._flat:
            for name, form in self._flat.items():
                record |= form.write(getattr(value, name))
        return record

    def encode(self, value: T) -> str:
        """Return a value as canonical JSON; equal values give equal texts."""
        return dumps(self.record(value)).decode("ascii")

    def record(self, value: T) -> dict[str, object]:
        """Return a value as a record of its own, for `dumps`."""
        return self.write(value) | ({} if self._version is None else {"version": self._version})

    def decode(self, text: str | bytes) -> T:
        """Return the value that a text holds; `Damaged` if it is none, `Unsupported` if it is newer."""
        return self.take(loads(text, what=self.what))

    def take(self, record: dict[str, object], *, what: str = "") -> T:
        """Return the value of a record; `Damaged` if it is none, `Unsupported` if it is newer."""
        what = what or self.what
        found = self._version if self._version is None else Fields(record, what=what).number("version")
        if found != self._version:
            raise Unsupported(
                f"{what} has the format {found}; this lastgood reads {self._version}",
                hint="use a newer lastgood",
            )
        try:
            return self.read(record)
        except Wrong as wrong:
            raise wrong.of(what) from wrong

    def _table(self) -> list[tuple[str, str, Codec]]:
        """Return the fields that are converted one by one, with their names in JSON."""
        if self._fields is None:
            own, aside = self._converters, {*self._flat, *self._without}
            self._fields = [
                (name, self._names.get(name, name), own.get(name) or _converter(annotation, own))
                for name, annotation in self._of.__annotations__.items()
                if name not in aside
            ]
        return self._fields

    def _made_readers(self) -> list[_Reader]:
        default = defaults(self._of)
        put = dict(zip(self._of.__annotations__, setters(self._of), strict=True))
        self._readers = [
            *(
                (
                    put[name],
                    key,
                    one.kind,
                    _or_default(one, default[name]) if name in self._late else one.read,
                )
                for name, key, one in self._table()
            ),
            *((put[name], "", None, _constant(default[name])) for name in self._without),
        ]
        return self._readers

    def _made_writers(self) -> _Writers:
        table, default = self._table(), defaults(self._of)
        self._writers = (
            [key for _, key, _ in table],
            # Of one name alone it would return no tuple.
            attrgetter(*(name for name, _, _ in table), table[0][0]),
            [(key, default[name]) for name, key, _ in table if name in self._sparse],
            [(key, one.write) for _, key, one in table if one.write is not None],
        )
        return self._writers


def _constant(value: object) -> Callable[[object], object]:
    return lambda _given: value


def _or_default(one: Codec, default: object) -> Callable[[Any], object]:
    read, kind = one.read, one.kind
    return lambda given: default if given is None else given if type(given) is kind else read(given)


class Fields:
    """A JSON object being read: every wrong field is `Damaged`, naming the record and the field."""

    def __init__(self, record: dict[str, object], *, what: str) -> None:
        self.record = record
        self.what = what

    def read(self, name: str, one: Codec) -> Any:  # noqa: ANN401 - what it converts to
        """Return a field."""
        value = self.record.get(name)
        try:
            return value if type(value) is one.kind else one.read(value)
        except Wrong as wrong:
            wrong.place.append(name)
            raise wrong.of(self.what) from wrong

    def text(self, name: str) -> str:
        """Return a text."""
        return cast("str", self.read(name, TEXT))

    def number(self, name: str) -> int:
        """Return a whole number."""
        return cast("int", self.read(name, NUMBER))

    def one_of(self, name: str, allowed: tuple[str, ...]) -> str:
        """Return a text that is one of some."""
        return cast("str", self.read(name, words(*allowed)))

    def object_or_empty(self, name: str) -> dict[str, object]:
        """Return a JSON object as it is; an empty one where it is null or absent."""
        return cast("dict[str, object]", self.read(name, OBJECT))

    def all(self, form: Form[T]) -> T:
        """Return the value that the fields together are."""
        return form.take(self.record, what=self.what)

    def wrong(self, name: str, wanted: str) -> Damaged:
        """Return the error for a field that is not what it should be."""
        return _damaged(self.what, f"has no good {name!r} (it should be {wanted})")


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
