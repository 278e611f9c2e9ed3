"""All that the package has for programs, found by looking at it."""

from __future__ import annotations

import inspect
import pkgutil
import typing
from collections.abc import Iterator
from importlib import import_module

import lastgood
import lastgood.integrations
from lastgood.value import Value

# The drop-ins have the names, and the annotations, of what they take the place of.
_DROP_INS = "lastgood.integrations"


def names() -> Iterator[tuple[str, object]]:
    """Yield every public name of the package with what it is."""
    for name in dir(lastgood):
        found = getattr(lastgood, name)
        if not getattr(found, "__module__", "").startswith(_DROP_INS):
            yield name, found


def classes() -> dict[str, type]:
    return {name: found for name, found in names() if isinstance(found, type) and _is_ours(found)}


def values() -> dict[str, type[Value]]:
    return {name: found for name, found in classes().items() if issubclass(found, Value)}


def callables() -> dict[str, object]:
    """Return functions and classes, and what the classes have: methods and properties."""
    found: dict[str, object] = {name: one for name, one in names() if inspect.isfunction(one)}
    for name, cls in classes().items():
        found[name] = cls
        found |= {f"{name}.{key}": member for key, member in members(cls)}
    return found


def of_modules() -> dict[str, object]:
    """Return what the public modules beside the package have: each class and function, and their methods."""
    adapters = [one.name for one in pkgutil.iter_modules(lastgood.integrations.__path__)]
    found: dict[str, object] = {}
    for place in ["aio", "errors", "integrations", *(f"integrations.{name}" for name in adapters)]:
        module = import_module(f"lastgood.{place}")
        for name, one in vars(module).items():
            if name.startswith("_") or not getattr(one, "__module__", "").startswith(module.__name__):
                continue
            if isinstance(one, type):
                found |= {
                    f"{place}.{name}.{key}": member
                    for key, member in members(one)
                    if member.__module__.startswith("lastgood.")
                }
            if isinstance(one, type) or inspect.isfunction(one):
                found[f"{place}.{name}"] = one
    return found


def members(cls: type) -> Iterator[tuple[str, object]]:
    """Yield the public methods of a class, and the functions of its properties."""
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        found = member.fget if isinstance(member, property) else member
        if not name.startswith("_") and inspect.isfunction(found):
            yield name, found


def verbs(cls: type) -> list[str]:
    """Return the names of the public methods of a class."""
    return [name for name, _ in members(cls) if inspect.isfunction(inspect.getattr_static(cls, name))]


def named_in(hint: object) -> Iterator[type]:
    """Yield the classes of ours that a type is made of."""
    if isinstance(hint, list | tuple):
        for one in hint:
            yield from named_in(one)
    yield from (one for part in typing.get_args(hint) for one in named_in(part))
    found = typing.get_origin(hint) or hint
    if isinstance(found, type) and _is_ours(found):
        yield found


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "lastgood"
