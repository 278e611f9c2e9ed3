"""Values as Pydantic sees them: taken as they are, and written as documents say.

Loaded by Pydantic alone, for those who make tools or models of what is public.
"""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic_core import SchemaSerializer, core_schema

from lastgood.documents import is_its_fields, told
from lastgood.type_hints import supply
from lastgood.value import Value, defaults, fields

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler

_PLAIN = (str, int, float, bool, type(None))
_CHOICES = (Literal, Union, UnionType)


def schema_of(cls: type[Value], handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
    """Return what takes a value of a class, also as a dict if that is all it is, and writes its document."""
    supply()
    hints = {name: hint for name, hint in get_type_hints(cls).items() if name in fields(cls)}
    given: core_schema.CoreSchema = core_schema.is_instance_schema(cls)
    shape = _anything()
    if is_its_fields(cls) and all(map(_is_plain, hints.values())):
        shape = _of_fields(cls, hints, handler)
        given = core_schema.union_schema([given, shape])
    return core_schema.json_or_python_schema(
        json_schema=shape, python_schema=given, serialization=_written(), metadata={"title": cls.__name__}
    )


@cache
def serializer() -> SchemaSerializer:
    """Return what writes any value, where Pydantic meets one that it was not told of."""
    return SchemaSerializer(core_schema.any_schema(serialization=_written()))


def _of_fields(
    cls: type[Value], hints: dict[str, Any], handler: GetCoreSchemaHandler
) -> core_schema.CoreSchema:
    usual = defaults(cls)
    shapes = {
        name: core_schema.typed_dict_field(handler.generate_schema(hint), required=name not in usual)
        for name, hint in hints.items()
    }

    def made(found: dict[str, Any]) -> Value:
        return cls(**found)

    return core_schema.no_info_after_validator_function(
        made, core_schema.typed_dict_schema(shapes, extra_behavior="forbid")
    )


def _is_plain(hint: object) -> bool:
    """Tell whether a field is text, a number or the like, which JSON has as it is."""
    return hint in _PLAIN or (get_origin(hint) in _CHOICES and all(map(_is_word, get_args(hint))))


def _is_word(part: object) -> bool:
    return isinstance(part, str) or _is_plain(part)


def _anything() -> core_schema.CoreSchema:
    return core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema())


def _written() -> core_schema.PlainSerializerFunctionSerSchema:
    return core_schema.plain_serializer_function_ser_schema(told, return_schema=_anything())
