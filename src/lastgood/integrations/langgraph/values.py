"""What a graph's channels hold, as plain values: data, and nothing that runs when it is read."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from struct import pack
from typing import Any, Self

import ormsgpack
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_METHODS, SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from lastgood.errors import Invalid, Unsafe
from lastgood.ledger import LedgerEntry, LedgerReader
from lastgood.ledger.cells import NamedList, NotEncodable, Remembered

_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
_DEPTH = 150
# Extension codes of the serialiser's format: objects by constructor, by method, arrays, snapshots.
_CONSTRUCTORS = frozenset({0, 1, 2, 4, 5})
_METHOD, _ARRAY, _SNAPSHOT = 3, 6, 7
# The key by which the snapshot of a delta channel is told from a dict of the state's own.
_SNAPSHOT_OF = "\0langgraph delta snapshot of"
_CHECKED_MOST = 50_000
# Lists of so many items, and not deeper, are packed by the names of their items: their bytes in msgpack.
_NAMED_LEAST, _NAMED_DEEPEST = 16, 2
_NAMED = frozenset({type(None), bool, int, float, str, list, dict})
# With these, all but bytes has its own bytes: what is no plain value is refused.
_EXACTLY = (
    ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
# How much memory what was packed before may take up, in bytes.
_PACKED_MOST = 32 << 20
_ALLOW = "name the type when you make the saver: LastgoodSaver(workspace, allow=[TYPE])"


class Values:
    """Writes values as data, and reads them again; types beyond the known ones have to be allowed.

    Lists and dicts are kept in their own form, so that what they share with earlier states is stored
    once; objects by LangGraph's serialiser, without pickle. With a serialiser of the caller's own
    (one that encrypts) each value is whatever that makes of it.
    """

    def __init__(
        self, *, allow: Iterable[type | tuple[str, ...]] = (), serde: SerializerProtocol | None
    ) -> None:
        self._allowed = frozenset(_named(one) for one in allow)
        self._own = serde
        if serde is not None and _may_pickle(serde):
            raise Unsafe(
                "this serialiser falls back to pickle, and reading a pickle runs what is in it",
                hint="make it without pickle_fallback",
            )
        self.serde: SerializerProtocol = serde or JsonPlusSerializer(
            allowed_msgpack_modules=tuple(self._allowed) or None
        )
        self._checked: set[bytes] = set()
        self._packed: Remembered[bytes] = Remembered(most=_PACKED_MOST)
        self._msgpack = None if serde is not None else _Msgpack(self)

    def allowing(self, more: Iterable[type | tuple[str, ...]]) -> Self:
        """Return one that allows more types."""
        return type(self)(allow=[*self._allowed, *more], serde=self._own)

    def plain(self, value: object, depth: int = 0) -> object:  # noqa: PLR0911 - a form a line
        """Return a value as a plain one, to be examined; `Invalid` for what cannot be written."""
        if self._own is not None:
            return self._written(value)
        kind = type(value)
        if kind in _PLAIN:
            return value
        if depth > _DEPTH:
            raise Invalid("the state lies too deep in itself", hint=f"nest at most {_DEPTH} lists and dicts")
        if kind is list:
            assert isinstance(value, list)
            if len(value) >= _NAMED_LEAST and depth <= _NAMED_DEEPEST:
                return self._named(value, depth + 1)
            return [one if type(one) in _PLAIN else self.plain(one, depth + 1) for one in value]
        if kind is dict:
            assert isinstance(value, dict)
            if _SNAPSHOT_OF not in value and all(type(key) in _PLAIN for key in value):
                return {key: self.plain(one, depth + 1) for key, one in value.items()}
        if kind is _DeltaSnapshot:
            assert isinstance(value, _DeltaSnapshot)
            return {_SNAPSHOT_OF: self.plain(value.value, depth + 1)}
        return self._written(value)

    def _named(self, value: list[object], depth: int) -> NamedList:
        """Return a list whose items are known by their bytes in msgpack, or by their pairs."""
        names: list[object] = []
        items: list[object] = []
        for one in value:
            if type(one) in _NAMED:
                try:
                    names.append(ormsgpack.packb(one, None, _EXACTLY))
                except TypeError:  # something in it is no plain value, or a key is no text
                    pass
                else:
                    items.append(one)
                    continue
            item = self.plain(one, depth)
            names.append(item if type(item) is tuple else None)
            items.append(item)

        def plain(name: object, item: object) -> tuple[object, bool]:
            if type(name) is not bytes:
                return item, name is not None
            item = self.plain(item, depth)
            return item, _is_named_whole(item)

        return NamedList(names, items, known=self._packed, plain=plain, encoding=self._msgpack)

    def read(self, book: LedgerReader, entry: LedgerEntry) -> Any:  # noqa: ANN401 - whatever was written
        """Return what an entry's body was made of; `Unsafe` for a form that is more than data."""
        encoded = None if self._msgpack is None else book.encoded(entry, self._msgpack)
        return self.revived(book.body(entry)) if encoded is None else self._loaded("msgpack", encoded)

    def revived(self, plain: object) -> Any:  # noqa: ANN401 - whatever the channel held
        """Return what `plain` was made of; `Unsafe` for a form that is more than data."""
        kind = type(plain)
        if kind is tuple:
            assert isinstance(plain, tuple)
            return self._read(*plain)
        if kind is list:
            assert isinstance(plain, list)
            return [self.revived(one) for one in plain]
        if kind is dict:
            assert isinstance(plain, dict)
            if _SNAPSHOT_OF in plain:
                return _DeltaSnapshot(self.revived(plain[_SNAPSHOT_OF]))
            return {key: self.revived(one) for key, one in plain.items()}
        return plain

    def _written(self, value: object) -> tuple[str, bytes]:
        try:
            form, content = self.serde.dumps_typed(value)
        except (TypeError, RecursionError) as error:
            raise Invalid(
                f"the state holds a {type(value).__name__} that cannot be written as data ({error})",
                hint="keep it out of the state, or keep something that it can be made of again",
            ) from error
        if type(content) is not bytes:
            content = bytes(content)
        return form, content

    def _read(self, form: str, content: bytes) -> object:
        self.examine(form, content)
        return self._loaded(form, content)

    def _loaded(self, form: str, content: bytes) -> object:
        try:
            return self.serde.loads_typed((form, content))
        except (NotImplementedError, ValueError) as error:
            raise Invalid(
                f"a value of the form {form!r} cannot be read ({error})",
                hint="make the saver with the serialiser that wrote it: LastgoodSaver(workspace, serde=...)",
            ) from error

    def examine(self, form: str, content: bytes) -> None:
        """Refuse pickles, and types that would silently come back as something else."""
        if "pickle" in form:
            raise Unsafe(
                "a value is pickled, and reading a pickle runs what is in it",
                hint="keep data in the state; pickles are neither written nor read",
            )
        if form != "msgpack" or self._own is not None:
            return
        mark = blake2b(content, digest_size=16).digest()
        if mark in self._checked:
            return
        refused = sorted(_types(content) - SAFE_MSGPACK_TYPES - SAFE_MSGPACK_METHODS - self._allowed)
        if refused:
            raise Invalid(
                f"the state holds {'.'.join(refused[0])}, which would come back as something else",
                hint=_ALLOW,
                details={"types": [".".join(one) for one in refused]},
            )
        if len(self._checked) >= _CHECKED_MOST:
            self._checked.clear()
        self._checked.add(mark)


class _Msgpack:
    """Plain values in the serialiser's own format, in which they are read at once."""

    def __init__(self, values: Values) -> None:
        self._examine = values.examine

    def scalar(self, value: object) -> bytes:
        """Return None, a bool, an int or a float."""
        try:
            return ormsgpack.packb(value)
        except TypeError as error:  # a long number
            raise NotEncodable from error

    def text(self, content: bytes) -> bytes:
        """Return a text."""
        try:
            content.decode()
        except UnicodeDecodeError as error:
            raise NotEncodable from error
        return _header(len(content), _TEXTS) + content

    def content(self, content: bytes) -> bytes:
        """Return bytes."""
        return _header(len(content), _CONTENTS) + content

    def row(self, count: int, items: list[bytes]) -> list[bytes]:
        """Return a list."""
        return [_header(count, _ROWS), *items]

    def table(self, count: int, items: list[bytes]) -> list[bytes]:
        """Return a dict, or the snapshot of a delta channel."""
        if items and items[0].startswith(_SNAPSHOT_KEY):
            inner = b"".join(items)[len(_SNAPSHOT_KEY) :]
            return [pack(">BIB", 0xC9, len(inner), _SNAPSHOT), inner]
        return [_header(count, _TABLES), *items]

    def pair(self, form: str, content: bytes) -> bytes:
        """Return what the serialiser wrote, examined."""
        self._examine(form, content)
        if form != "msgpack":
            raise NotEncodable
        return content


# How a text, bytes, a list and a dict begin in msgpack: the short forms with the count in the first byte
# (the first, and up to which count), and the longer ones with counts of one, two and four bytes.
_TEXTS = (0xA0, 32, ((0xD9, ">BB"), (0xDA, ">BH"), (0xDB, ">BI")))
_CONTENTS = (0, 0, ((0xC4, ">BB"), (0xC5, ">BH"), (0xC6, ">BI")))
_ROWS = (0x90, 16, ((0xDC, ">BH"), (0xDD, ">BI")))
_TABLES = (0x80, 16, ((0xDE, ">BH"), (0xDF, ">BI")))
_MOST = {">BB": 0xFF, ">BH": 0xFFFF, ">BI": 0xFFFFFFFF}


def _header(count: int, kind: tuple[int, int, tuple[tuple[int, str], ...]]) -> bytes:
    first, short, longer = kind
    if count < short:
        return bytes((first + count,))
    for tag, layout in longer:
        if count <= _MOST[layout]:
            return pack(layout, tag, count)
    raise NotEncodable


_SNAPSHOT_KEY = _header(len(_SNAPSHOT_OF), _TEXTS) + _SNAPSHOT_OF.encode()


def _is_named_whole(plain: object) -> bool:
    """Tell whether the bytes in msgpack of a plain value are those of no other: bytes are like bytearrays."""
    kind = type(plain)
    if kind is list:
        assert isinstance(plain, list)
        return all(map(_is_named_whole, plain))
    if kind is dict:
        assert isinstance(plain, dict)
        return all(map(_is_named_whole, plain.values()))
    return kind is not bytes and kind in _PLAIN


def _named(one: type | tuple[str, ...]) -> tuple[str, ...]:
    return (one.__module__, one.__name__) if isinstance(one, type) else tuple(one)


def _may_pickle(serde: object) -> bool:
    """Tell whether a serialiser, or one within it, pickles what it cannot write otherwise."""
    seen = 0
    while serde is not None and seen < 5:
        if getattr(serde, "pickle_fallback", False):
            return True
        serde = getattr(serde, "serde", None)
        seen += 1
    return False


def _types(content: bytes) -> set[tuple[str, ...]]:
    """Return the types that reading would construct, without constructing any."""
    found: set[tuple[str, ...]] = set()

    def note(code: int, inner: bytes) -> None:
        fields = ormsgpack.unpackb(inner, ext_hook=note, option=ormsgpack.OPT_NON_STR_KEYS)
        if code in _CONSTRUCTORS:
            found.add((str(fields[0]), str(fields[1])))
        elif code == _METHOD:
            found.add((str(fields[0]), str(fields[1]), str(fields[3])))
        elif code not in {_ARRAY, _SNAPSHOT}:
            found.add(("an extension of the number", str(code)))

    try:
        ormsgpack.unpackb(content, ext_hook=note, option=ormsgpack.OPT_NON_STR_KEYS)
    except (ValueError, TypeError, IndexError, KeyError) as error:
        raise Invalid(f"a value cannot be read ({error})", hint="run: lastgood verify") from error
    return found
