"""Steps of a program that are done once in a session (rule P6)."""

from __future__ import annotations

from lastgood.actions.progress import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.effect import Effect
    from lastgood.model.operation import Operation
    from lastgood.ports.context import Context


def found(context: Context, name: str, *, task: str | None) -> Effect | None:
    """Return the last step of a name, within a task or outside any; None if it has to be done (again).

    One that ended well does not count where files were taken back to before it since, unless it is
    irreversible: that no restore takes back.
    """
    place = Place(context)
    steps = context.work.effects(context.key, session=place.id, name=name)
    mine = [one for one in steps if one.session == place.id and one.task == task]
    if not mine:
        return None
    last = mine[-1]
    if last.state == "done" and not last.irreversible and _is_taken_back(context, last):
        return None
    return last


def _is_taken_back(context: Context, step: Effect) -> bool:
    """Tell whether files were taken back since a step to where they were before it."""
    for one in context.catalogue.operations(context.key):
        if one.type != "restore" or one.undone or not one.steps or not _is_later(context, one, step):
            continue
        target = None if one.target is None else context.catalogue.get(one.target)
        if target is not None and target.sequence <= step.after:
            return True
    return False


def _is_later(context: Context, operation: Operation, step: Effect) -> bool:
    """Tell whether a restore came after a step: by the number of its guard, as clocks jump."""
    guard = None if operation.guard is None else context.catalogue.get(operation.guard)
    if guard is None or guard.sequence == step.after:
        return operation.at >= (step.ended_at or step.started_at)
    return guard.sequence > step.after
