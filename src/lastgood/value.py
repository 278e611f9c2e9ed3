"""Frozen, slotted, keyword-only values, without the import cost of the standard dataclasses.

A save has to start, work and end in a few tens of milliseconds; importing ``dataclasses`` alone
would take a fifth of that (docs/decisions/002). Type checkers see these classes as frozen
keyword-only dataclasses.
"""

from __future__ import annotations

import sys
from _operator import attrgetter

__all__ = ["Alias", "Generic", "Value", "cast", "defaults", "fields", "setters"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Generic, Never, Self, TypeAlias, TypeVar, cast, dataclass_transform

    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema, SchemaSerializer

    T_co = TypeVar("T_co", covariant=True)

    class Alias(Generic[T_co]):
        """Another name for a field of a field, or for a field."""

        annotation: str
        path: str

        def __init__(self, path: str, says: str) -> None:
            """Take where it is found, and its docstring."""

        def __get__(self, instance: object, owner: object = None) -> T_co:
            """Return its value."""

        def __set__(self, instance: object, value: Never) -> None:
            """Take nothing: values are frozen."""

else:

    class Alias(property):
        """A property that knows what it is."""

        annotation = ""  # what it is: in the body of its class

        def __init__(self, path: str, says: str) -> None:
            super().__init__(attrgetter(path))
            self.path: str = path
            self.__doc__ = says

    class Generic:
        """Stand in for what only type checkers read."""

        def __class_getitem__(cls, _of: object) -> type:
            """Return the class whatever it is of."""
            return cls

    def cast(_type: object, value: object) -> object:
        """Stand in for the assertion that only type checkers read."""
        return value

    def dataclass_transform(**_options: object) -> object:
        """Stand in for the marker that only type checkers read."""
        return lambda decorated: decorated


# What a field is beside its type: by these names its JSON is made (`lastgood.model.canonical`,
# `lastgood.documents`). Times are in nanoseconds since the epoch.
Timestamp: TypeAlias = int
# Text of people or programs; what in it is not UTF-8 is shown as replacement characters.
Text: TypeAlias = str
# A name of the system, in which lone surrogates stand for bytes; shown as those bytes.
OsText: TypeAlias = str
OsValue: TypeAlias = object
# Bytes that are neither a path nor a patch: in hex, and as base64.
ObjectId: TypeAlias = bytes
Binary: TypeAlias = bytes

# How the annotation of another name for a field begins.
_ALIAS = "ClassVar[Alias["


class _ValueType(type):
    """Turns the annotations of a class body into slots, and its assignments into defaults."""

    _fields: tuple[str, ...]
    _defaults: dict[str, object]
    # What fills the slots of the fields, and reads them all; made with the first value of the class.
    _filling: tuple[Callable[[object, object], None], ...] | None
    _reading: Callable[[object], tuple[object, ...]] | None

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, object]) -> _ValueType:
        own = namespace.get("__annotations__", {})
        assert isinstance(own, dict)
        for other in [other for other, kind in own.items() if kind.startswith(_ALIAS)]:
            alias = namespace[other]
            assert isinstance(alias, Alias)
            alias.annotation = own.pop(other)[len(_ALIAS) : -2]
        names = tuple(own)
        given = {field: namespace.pop(field) for field in names if field in namespace}
        fields: tuple[str, ...] = ()
        defaults: dict[str, object] = {}
        for base in bases:
            if isinstance(base, _ValueType):
                fields += base._fields
                defaults |= base._defaults  # noqa: SLF001 - the same class
        # Into the class as it is made: to set them afterwards takes half as long again.
        namespace |= {"__slots__": names, "_fields": fields + names, "_defaults": defaults | given}
        namespace |= {"_filling": None, "_reading": None}
        return super().__new__(mcs, name, bases, namespace)


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Value(metaclass=_ValueType):
    """A record that is built whole and never changes; compares by its fields, and can be in a set."""

    def __init__(self, **given: object) -> None:
        cls = type(self)
        fields, put = cls._fields, cls._filling
        if put is None:
            put = cls._filling = setters(cls)
        whole = cls._defaults | given
        try:
            for field, fill in zip(fields, put):  # noqa: B905 - as many, and to check that takes a tenth
                fill(self, whole[field])
        except KeyError as missing:
            message = f"{cls.__name__} needs {missing}"
            raise TypeError(message) from None
        if len(whole) > len(fields):
            message = f"{cls.__name__} has no field {next(one for one in given if one not in fields)!r}"
            raise TypeError(message)

    def __setattr__(self, field: str, value: object) -> None:
        message = f"{type(self).__name__} is frozen: cannot set {field!r}"
        raise AttributeError(message)

    def __delattr__(self, field: str) -> None:
        message = f"{type(self).__name__} is frozen: cannot delete {field!r}"
        raise AttributeError(message)

    def __eq__(self, other: object) -> bool:
        return other is self or (type(other) is type(self) and other._key() == self._key())

    def __hash__(self) -> int:
        cls = type(self)
        names = _hashed.get(cls)
        if names is None:
            names = _hashed[cls] = tuple(name for name in cls._fields if not _may_be_open(cls, name))
        return hash((cls, *[getattr(self, name) for name in names]))

    def __repr__(self) -> str:
        return _line(self)

    def __reduce__(self) -> tuple[object, ...]:
        return (_build, (type(self), self.as_dict()))

    def _key(self) -> tuple[object, ...]:
        cls = type(self)
        read = cls._reading
        if read is None:
            read = cls._reading = _reader(cls._fields)
        return read(self)

    def as_dict(self) -> dict[str, object]:
        """Return the fields by name, in the order of their declaration."""
        return dict(zip(type(self)._fields, self._key()))  # noqa: B905 - as many

    def replace(self, **changes: object) -> Self:
        """Return a copy with some fields changed."""
        return type(self)(**(self.as_dict() | changes))

    def to_json(self) -> dict[str, object]:
        """Return it as a dict that `json` can write; of a report, what its verb says with ``--json``."""
        document: dict[str, object] = _package().document_of(self)
        return document

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema: CoreSchema = _package().schema_of(cls, handler)
        return schema

    @property
    def __pydantic_serializer__(self) -> SchemaSerializer:
        serializer: SchemaSerializer = _package().serializer()
        return serializer


def _package() -> ModuleType:
    """Return the package, which is above all rooms, and has those show values outside that can."""
    return sys.modules["lastgood"]


# The fields that hashes are made of: not those that may hold a dict, nor what is read when looked at.
_hashed: dict[type, tuple[str, ...]] = {}


def _may_be_open(cls: type[Value], field: str) -> bool:
    kind: str = next(
        base.__annotations__[field] for base in cls.__mro__ if field in getattr(base, "__annotations__", ())
    )
    return kind.startswith(("Mapping[", "Sequence[", "dict[", "list[", "object"))


def _reader(fields: tuple[str, ...]) -> Callable[[object], tuple[object, ...]]:
    """Return what reads all fields of a value."""
    if len(fields) > 1:
        return attrgetter(*fields)
    return lambda value: tuple(getattr(value, field) for field in fields)


def setters(cls: type[Value]) -> tuple[Callable[[object, object], None], ...]:
    """Return what fills the slots of a value, for the `__init__` of a class that is built very often."""
    return tuple(getattr(cls, field).__set__ for field in cls._fields)


def fields(cls: type[Value]) -> tuple[str, ...]:
    """Return the names of the fields of a value."""
    return cls._fields


def defaults(cls: type[Value]) -> dict[str, object]:
    """Return what fields are where nothing is given."""
    return cls._defaults


# --- How a value is shown: in one line, of which whoever debugs reads the beginning ---

_WIDTH = 100
_TEXT_WIDTH = 32


def _line(value: Value) -> str:
    """Return a value on one line, without the fields that are what they usually are."""
    cls = type(value)
    usual = cls._defaults
    line, separator = f"{cls.__name__}(", ""
    for name in getattr(cls, "_telling", cls._fields):
        item = getattr(value, name)
        if name in usual and item == usual[name]:
            continue
        part = f"{separator}{name}={_brief(item)}"
        if len(line) + len(part) > _WIDTH - len(", ...)"):
            return f"{line}{separator}...)"
        line, separator = line + part, ", "
    return f"{line})"


def _brief(item: object) -> str:
    """Return what is to be seen of a field."""
    if isinstance(item, Value):
        id = getattr(item, "short_id", None) or getattr(item, "id", None)
        return f"<{id}>" if isinstance(id, str) and id.isprintable() else f"{type(item).__name__}(...)"
    if isinstance(item, dict):
        return f"<{len(item)} keys>" if item else "{}"
    if not isinstance(item, str | bytes) and hasattr(item, "__len__") and hasattr(item, "__getitem__"):
        many = f"<{len(item)} {_kind(item)}>" if len(item) > 1 else ""
        return many or (f"({_brief(item[0])},)" if len(item) else "()")
    shown = repr(item)
    return shown if len(shown) <= _TEXT_WIDTH else f"{shown[: _TEXT_WIDTH - 4]}...{shown[-1]}"


def _kind(items: object) -> str:
    """Return what a sequence is of; one that has its items elsewhere is not read for that."""
    return type(items[0]).__name__ if isinstance(items, tuple | list) else "items"


def _build(cls: type[Value], fields: dict[str, object]) -> Value:
    return cls(**fields)
