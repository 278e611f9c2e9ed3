"""JSON Schemas of what the verbs answer, from the table that their documents are made by."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

from lastgood import literals
from lastgood.documents import annotation_of, item_of, said_of
from lastgood.mcp_server.signatures import PATH_SCHEMA
from lastgood.type_hints import supply
from lastgood.value import Value

Schema = dict[str, Any]

_OBJECT: Schema = {"type": "object", "additionalProperties": True}
_TEXT: Schema = {"type": "string"}
_OF_PLAIN: dict[str, Schema] = {
    "str": _TEXT,
    "Text": _TEXT,
    "ObjectId": _TEXT,
    "Binary": _TEXT,
    "Timestamp": {"type": "string", "format": "date-time"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "bytes": {"$ref": "#/$defs/Path"},
    "OsText": {"$ref": "#/$defs/Path"},
}


def of_report(verb: str, cls: type[Value]) -> Schema:
    """Return the schema of a verb's document that is all that is said of a report."""
    schemas = _Schemas()
    said = schemas.of_class(cls)
    return schemas.document(verb, said["properties"], required=said["required"])


def of_fields(
    verb: str, fields: Mapping[str, str], *, late: tuple[str, ...] = (), version: int = 1
) -> Schema:
    """Return the schema of a verb's document of fields by their annotations; ``late`` ones may be missing."""
    schemas = _Schemas()
    said = {name: schemas.of(annotation) for name, annotation in fields.items()}
    required = [name for name in fields if name not in late]
    return schemas.document(verb, said, required=required, version=version)


class _Schemas:
    """The schema of one document, and of what it refers to."""

    def __init__(self) -> None:
        supply()
        self._classes = {one.__name__: one for one in _below(Value)}
        self._known: dict[str, Schema] = {}

    def document(self, verb: str, fields: Schema, *, required: list[str], version: int = 1) -> Schema:
        said = {"schema": {"const": f"lastgood.{verb}/{version}"}, **fields}
        known = {"Path": PATH_SCHEMA, **self._known}
        used = {name: one for name, one in known.items() if _refers(f"#/$defs/{name}", (said, self._known))}
        schema: Schema = {"type": "object", "properties": said, "required": ["schema", *required]}
        return schema | ({"$defs": used} if used else {})

    def of_class(self, cls: type[Value]) -> Schema:
        """Return the schema of what is said of the values of a class."""
        fields: Schema = {}
        required: list[str] = []
        for name, *rest in said_of(cls):
            if not rest:
                inner = self.of_class(self._classes[_bare(annotation_of(cls, name))])
                fields = {**inner["properties"], **fields}
                required = [*inner["required"], *required]
                continue
            way, when = rest
            fields[name] = self._at(cls, way)
            if when == "!":
                fields[name] = _or_null(fields[name])
            if when != "?":
                required.append(name)
        return {"type": "object", "properties": fields, "required": required}

    def _at(self, cls: type[Value], way: str) -> Schema:
        """Return the schema of what a field is, or a field of that."""
        first, _, inner = way.partition(".")
        annotation = annotation_of(cls, first)
        if not inner:
            return self.of(annotation)
        below = self._classes.get(_bare(annotation))
        if below is None:
            return {}
        found = self._at(below, inner)
        return _or_null(found) if annotation.endswith(" | None") else found

    def of(self, annotation: str) -> Schema:
        """Return the schema of what has an annotation."""
        if annotation.endswith(" | None"):
            return _or_null(self.of(_bare(annotation)))
        if annotation in _OF_PLAIN:
            return _OF_PLAIN[annotation]
        item = item_of(annotation)
        if item is not None:
            many = {"type": "array", "items": self.of(item)}
            return _or_null(many) if annotation[0] == "S" else many  # of what is read late, damage shows late
        words = _words(annotation)
        if words:
            return {"enum": words}
        if annotation in self._classes:
            return self._known_as(annotation)
        return dict(_OBJECT) if annotation.startswith(("Mapping[", "dict[")) else {}

    def _known_as(self, name: str) -> Schema:
        if name not in self._known:
            self._known[name] = {}  # it may be within itself
            self._known[name] = self.of_class(self._classes[name])
        return {"$ref": f"#/$defs/{name}"}


def _words(annotation: str) -> list[str]:
    """Return the words that something may be, if it is one of some."""
    if annotation.startswith("Literal["):
        return list(literal_eval(annotation.removeprefix("Literal")))
    known = getattr(literals, annotation, None)
    return list(get_args(known)) if get_origin(known) is Literal else []


def _bare(annotation: str) -> str:
    return annotation.removesuffix(" | None")


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]} if schema else schema


def _refers(name: str, said: object) -> bool:
    if isinstance(said, dict):
        return said.get("$ref") == name or any(_refers(name, one) for one in said.values())
    return isinstance(said, list | tuple) and any(_refers(name, one) for one in said)


def _below(cls: type[Value]) -> Iterator[type[Value]]:
    for one in cls.__subclasses__():
        yield one
        yield from _below(one)
