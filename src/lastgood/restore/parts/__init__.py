"""What a restore changes beside files: one module a scope, loaded when that scope is wanted (rule T11)."""

from __future__ import annotations

from lastgood.errors import Conflict, Damaged, NotFound, Unsafe, Unsupported
from lastgood.model.operation import PartOutcome
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Protocol

    from lastgood.context import Context
    from lastgood.literals import PartScope, Scope
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.long_list import LongList
    from lastgood.model.operation import Part
    from lastgood.model.session import CurrentWork
    from lastgood.transaction import RestoreTransaction

    class PartModule(Protocol):
        """What each of the modules offers."""

        def refuse(self, context: Context, part: Part) -> None:
            """Raise, before the first write, if the part cannot be brought about from what is there now."""

        def settle(self, restoring: RestoreTransaction, part: Part) -> PartOutcome:
            """Bring about how the part is to stand; can be repeated after a kill."""


# The order in which they are settled: the project's git last, it is what others look at.
ORDER: tuple[PartScope, ...] = ("progress", "conversation", "git")


def for_scope(scope: PartScope) -> PartModule:
    """Return the module of a scope."""
    if scope == "progress":
        from lastgood.restore.parts import progress

        return progress
    if scope == "conversation":
        from lastgood.restore.parts import conversation

        return conversation
    from lastgood.restore.parts import git

    return git


class PlannedParts(Value):
    """What a restore would change beside files, in the order of settling.

    ``left`` stays as it is, because that of the checkpoint cannot be read.
    """

    changes: tuple[Part, ...]
    left: tuple[PartOutcome, ...]


def planned(
    context: Context, target: Checkpoint, *, scopes: Sequence[Scope], standing: CurrentWork
) -> PlannedParts:
    """Return what a restore to a checkpoint would change of some scopes.

    ``standing`` is how far the work has come.
    """
    changes: list[Part] = []
    left: list[PartOutcome] = []
    for scope in ORDER:
        if scope not in scopes or (scope == "conversation" and target.manifest.conversation is None):
            continue
        found = _planned(context, target, scope=scope, standing=standing)
        if isinstance(found, PartOutcome):
            left.append(found)
        else:
            changes += found
    return PlannedParts(changes=tuple(changes), left=tuple(left))


def _planned(
    context: Context, target: Checkpoint, *, scope: PartScope, standing: CurrentWork
) -> tuple[Part, ...] | PartOutcome:
    if scope == "progress":
        from lastgood.restore.parts import progress

        return progress.plan(context, target, standing=standing)
    if scope == "conversation":
        from lastgood.restore.parts import conversation

        return conversation.plan(context, target)
    from lastgood.restore.parts import git

    return git.plan(context, target)


def lists_beside(
    context: Context, parts: Iterable[Part], *, target: Checkpoint | None
) -> dict[str, LongList[Any]]:
    """Return the lists of progress that a guard has to hold beside its own, by their names in it."""
    changed = [part for part in parts if part.scope == "progress"]
    if not changed:
        return {}
    from lastgood.restore.parts import progress

    return progress.lists_beside(context, changed, target=target)


def are_lost(context: Context, parts: Iterable[Part]) -> bool:
    """Tell whether progress that some parts would put back is not stored any more."""
    changed = [part for part in parts if part.scope == "progress"]
    if not changed:
        return False
    from lastgood.restore.parts import progress

    return any(progress.is_lost(context, part) for part in changed)


def refuse(context: Context, parts: Iterable[Part]) -> None:
    """Raise, before the first write, if a part cannot be brought about from what is there now."""
    for part in parts:
        for_scope(part.scope).refuse(context, part)


def settled(restoring: RestoreTransaction, parts: Iterable[Part]) -> tuple[PartOutcome, ...]:
    """Bring parts about and say what became of each; can be repeated after a kill."""
    return tuple(for_scope(part.scope).settle(restoring, part) for part in parts)


def reversed_parts(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the way back from some parts, in the order of settling."""
    return tuple(part.turned() for part in parts)


def parts_possible(
    context: Context, parts: Iterable[Part], *, forced: bool
) -> tuple[tuple[Part, ...], tuple[PartOutcome, ...]]:
    """Return the parts that can be brought about although things changed since, and say what stays.

    Forced, progress is put back over what came since: a guard holds it. A conversation that went on,
    or a HEAD that moved or cannot be put back any more, is left as it is all the same.
    """
    from lastgood.restore.parts import progress

    found: list[Part] = []
    kept: list[PartOutcome] = []
    for part in parts:
        fresh = progress.renewed(context, part) if forced and part.scope == "progress" else part
        try:
            refuse(context, (fresh,))
        except (Conflict, Damaged, NotFound, Unsafe, Unsupported) as error:
            kept.append(PartOutcome(scope=part.scope, result="kept", reason=error.message))
        else:
            found.append(fresh)
    return tuple(found), tuple(kept)
