"""A value of any public class, made by its type hints."""

from __future__ import annotations

import collections.abc
import types
import typing
from typing import Any

from lastgood.value import Value, fields

TEXT = "long \u00e9 text\n" * 20


def sample(hint: Any) -> Any:
    """Return something of a type, with odd bytes and long texts in it."""
    origin, words = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, type) and issubclass(hint, Value):
        hints = typing.get_type_hints(hint)
        return hint(**{name: sample(hints[name]) for name in fields(hint)})
    if origin is typing.Literal:
        return words[0]
    if origin in {tuple, collections.abc.Sequence}:
        return (sample(words[0]),) * 3
    if origin in {typing.Union, types.UnionType}:
        return sample(words[0])
    if origin in {collections.abc.Mapping, dict}:
        return {sample(words[0]): sample(words[1])}
    return _PLAIN[hint]


_PLAIN: dict[Any, object] = {
    str: TEXT,
    bytes: b"odd \xff" * 20,
    int: 10**18,
    float: 0.5,
    bool: True,
    object: "anything",
}
