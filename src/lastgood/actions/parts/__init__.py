"""What a restore changes beside files: one module a scope, loaded when that scope is wanted (rule T11)."""

from __future__ import annotations

from lastgood.errors import Conflict
from lastgood.model.part import SCOPES, PartOutcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Protocol

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.part import Part, PartScope, Scope
    from lastgood.ports.context import Context

    class PartModule(Protocol):
        """What each of the modules offers."""

        def plan(self, context: Context, target: Checkpoint) -> Part | None:
            """Return what would be changed; None if nothing."""

        def refuse(self, context: Context, part: Part) -> None:
            """Raise, before the first write, if the part cannot be brought about from what is there now."""

        def settle(self, context: Context, part: Part) -> PartOutcome:
            """Bring about how the part is to stand; can be repeated after a kill."""


# The order in which they are settled: the project's git last, it is what others look at.
ORDER: tuple[PartScope, ...] = ("progress", "conversation", "git")


def for_scope(scope: PartScope) -> PartModule | None:
    """Return the module of a scope."""
    from importlib import import_module
    from importlib.util import find_spec

    name = f"lastgood.actions.parts.{scope}"
    if find_spec(name) is None:
        return None
    module: PartModule = import_module(name)
    return module


def planned(context: Context, target: Checkpoint, *, scopes: Sequence[Scope]) -> tuple[Part, ...]:
    """Return what a restore to a checkpoint would change of some scopes, in the order of settling."""
    modules = (for_scope(scope) for scope in ORDER if scope in scopes)
    parts = (module.plan(context, target) for module in modules if module is not None)
    return tuple(part for part in parts if part is not None)


def refuse(context: Context, parts: Iterable[Part]) -> None:
    """Raise, before the first write, if a part cannot be brought about from what is there now."""
    for part in parts:
        module = for_scope(part.scope)
        if module is not None:
            module.refuse(context, part)


def settled(context: Context, parts: Iterable[Part]) -> tuple[PartOutcome, ...]:
    """Bring parts about and say what became of each; can be repeated after a kill."""
    outcomes = []
    for part in parts:
        module = for_scope(part.scope)
        if module is not None:
            outcomes.append(module.settle(context, part))
    return tuple(outcomes)


def turned(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the way back from some parts, in the order of settling."""
    return tuple(part.turned() for part in parts)


def renewed(context: Context, parts: Iterable[Part]) -> tuple[tuple[Part, ...], tuple[PartOutcome, ...]]:
    """Return the parts that can be brought about although things changed since, and say what stays.

    Only progress is put back over what came since: a guard holds it. A conversation that went on,
    or a HEAD that moved, is left as it is.
    """
    from lastgood.actions.parts import progress

    able: list[Part] = []
    kept: list[PartOutcome] = []
    for part in parts:
        fresh = progress.renewed(context, part) if part.scope == "progress" else part
        try:
            refuse(context, (fresh,))
        except Conflict as error:
            kept.append(PartOutcome(scope=part.scope, result="kept", reason=error.message))
        else:
            able.append(fresh)
    return tuple(able), tuple(kept)


def in_scopes(names: Iterable[str]) -> tuple[Scope, ...]:
    """Return scopes in their own order, each once."""
    given = set(names)
    return tuple(scope for scope in SCOPES if scope in given)
