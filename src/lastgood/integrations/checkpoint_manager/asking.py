"""What a recoverer is asked for, read before anything is tried: a slip must not end in a rollback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lastgood.errors import Usage
from lastgood.integrations.checkpoint_manager.judging import ErrorCategory, RecoveryStrategy
from lastgood.workspace.arguments import expect

# More seconds than a clock can sleep.
_ENDLESS = 1e9
_STRATEGIES = ", ".join(one.value for one in RecoveryStrategy)


def context_of(context: object) -> dict[str, Any]:
    """Return a context as a dict: it may be one, or an object with such attributes; a text says nothing.

    `Usage` for what it cannot be, before anything is tried: a slip must not end in a rollback.
    """
    if context is None or isinstance(context, str):
        return {}
    known = context if isinstance(context, Mapping) else getattr(context, "__dict__", None)
    if known is None or isinstance(context, type) or callable(context):
        raise Usage(f"the context is {type(context).__name__}, not dict", hint="give the context as a dict")
    called(known.get("operation"), "the operation")
    called(known.get("fix"), "the fix")
    expect(known.get("checkpoint"), str, type(None), what="the checkpoint")
    return dict(known)


def called(given: object, what: str) -> None:
    """Refuse what is neither a function nor None."""
    if given is not None and not callable(given):
        raise Usage(f"{what} is {type(given).__name__}, not a call", hint="hand over a function")


def seconds(given: float, what: str) -> float:
    """Return a number of seconds; `Usage` for what is none."""
    expect(given, int, float, what=what)
    if not given >= 0:
        raise Usage(f"{what} is {given}", hint="give a number of seconds")
    return float(min(given, _ENDLESS))


def orders_of(given: object) -> dict[ErrorCategory, tuple[RecoveryStrategy, ...]]:
    """Return strategies by category."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise Usage(f"the orders are {type(given).__name__}, not dict", hint="give strategies by category")
    try:
        return {ErrorCategory(category): order_of(order) for category, order in given.items()}
    except ValueError as error:
        raise Usage(f"{error}", hint="categories: " + ", ".join(one.value for one in ErrorCategory)) from None


def order_of(given: object) -> tuple[RecoveryStrategy, ...]:
    """Return strategies in order, of one or several, as values or as texts."""
    several = given if isinstance(given, (list, tuple)) else (given,)
    try:
        return tuple(RecoveryStrategy(one) for one in several)
    except ValueError:
        raise Usage(f"{given!r} is no strategy", hint=f"strategies: {_STRATEGIES}") from None
