"""Adapters for frameworks; each is loaded by its own user only."""

from __future__ import annotations

from lastgood.errors import Unsupported


class Missing(Unsupported, ImportError):
    """A package that an adapter needs is not installed; an `ImportError` too, for those who expect one."""


def missing(error: ModuleNotFoundError, *, extra: str) -> Missing:
    """Return what is said of a module that was not found."""
    command = f"pip install 'lastgood[{extra}]'"
    return Missing(f"{error.name} is not installed: {command}", hint=command)
