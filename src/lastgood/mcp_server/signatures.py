"""What a tool takes and says of itself, read off the method of `Workspace` that it calls."""

from __future__ import annotations

import binascii
import inspect
import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BeforeValidator, Field, StrictBool, WithJsonSchema

from lastgood.model.checkpoint import Checkpoint
from lastgood.type_hints import supply

# A path as JSON has it: text, or the bytes of a name that is not UTF-8.
PATH_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {"bytes": {"type": "string", "description": "base64"}},
            "required": ["bytes"],
            "additionalProperties": False,
        },
    ]
}
_UNIONS = (Union, UnionType)
_RULE = re.compile(r" \(rules? [A-Z]\d+\w?(?:, [A-Z]\d+\w?)*\)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")


def path_of(given: object) -> str | bytes:
    """Return a path that JSON gives; ValueError for what is none."""
    if isinstance(given, str):
        return given
    if isinstance(given, dict) and given.keys() == {"bytes"} and isinstance(given["bytes"], str):
        try:
            return b64decode(given["bytes"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"no base64: {error}") from error
    message = 'a path is a text, or {"bytes": BASE64} where it is not UTF-8'
    raise ValueError(message)


def parameters(
    verb: Callable[..., object],
    takes: Sequence[str],
    *,
    usual: Mapping[str, object] = {},
    described_by: Callable[..., object] | None = None,
) -> list[inspect.Parameter]:
    """Return some parameters of a verb, as a tool has them: each with what the verb's documentation says.

    ``usual`` are defaults other than the verb's own, ``described_by`` documents what both verbs take.
    """
    supply()
    given = inspect.signature(verb, eval_str=True).parameters
    made = []
    for name in takes:
        said = clause(verb, name) or (clause(described_by, name) if described_by else "")
        kind = as_json(given[name].annotation)
        made.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=usual.get(name, given[name].default),
                annotation=Annotated[kind, Field(description=said)] if said else kind,
            )
        )
    return made


def as_json(hint: Any) -> Any:  # noqa: ANN401 - a type, of whatever form
    """Return what a type is for whoever writes JSON: a REF is a text, a path the JSON form of one."""
    parts = get_args(hint)
    if get_origin(hint) in _UNIONS:
        kept = [one for one in parts if one is not Checkpoint]
        if bytes in kept:  # paths alone may be bytes
            rest = [one for one in kept if one is type(None)]
            return _Path | None if rest else _Path
        return Union[tuple(kept)]  # noqa: UP007 - of parts that are known when this runs
    if get_origin(hint) is Sequence:
        # One that is left out means all, so that an empty one does not.
        return Annotated[list[as_json(parts[0])], Field(min_length=1)]  # type: ignore[misc]  # a type, made when this runs
    return StrictBool if hint is bool else hint  # "no" is not to be a guess


_Path = Annotated[Any, BeforeValidator(path_of), WithJsonSchema(PATH_SCHEMA)]


# --- What the documentation of a verb says, of itself and of each parameter ---


def description(verb: Callable[..., object]) -> str:
    """Return what a verb says of itself: its first sentence, and those that are about no parameter."""
    names = inspect.signature(verb).parameters
    first, *rest = _sentences(verb)
    return _plain(
        " ".join([first, *(one for one in rest if not any(f"``{name}``" in one for name in names))])
    )


def first_sentence(verb: Callable[..., object]) -> str:
    """Return what a verb does."""
    return _plain(_sentences(verb)[0])


def clause(verb: Callable[..., object], name: str) -> str:
    """Return what a verb says of one parameter, nothing where it says nothing."""
    names = "|".join(inspect.signature(verb).parameters)
    # A clause begins where another parameter is spoken of.
    between = re.compile(rf"[,;]\s+(?=``(?:{names})``)")
    said = [part for one in _sentences(verb) for part in between.split(one) if f"``{name}``" in part]
    return _plain(" ".join(part if part.endswith(".") else f"{part}." for part in said))


def _sentences(verb: Callable[..., object]) -> list[str]:
    said = inspect.getdoc(verb)
    assert said is not None
    return _SENTENCE.split(" ".join(said.split()))


def _plain(text: str) -> str:
    return _RULE.sub("", text).replace("``", "`")
