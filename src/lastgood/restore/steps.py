"""Steps made anew for what is there now, towards the same end or back again."""

from __future__ import annotations

from lastgood.model.path_safety import refuse
from lastgood.model.tree import (
    DIRECTORY,
    PERMISSION_BITS,
    is_content,
    is_directory,
    is_unfinished,
    same_content,
)
from lastgood.paths import ancestors
from lastgood.restore.plan import UNTOUCHED, action_between, in_order, obstacles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lastgood.model.operation import Step
    from lastgood.model.tree import Entry
    from lastgood.restore.plan import Planner


_OWNER = 0o700


def retarget_steps(steps: Iterable[Step], actual: Callable[[bytes], Entry | None]) -> tuple[Step, ...]:
    """Return the steps that lead from what paths hold now to what some steps want.

    Paths that are right already are left out; every present file is forced, so that the guard holds
    it whatever the ignore rules say by now. ``actual`` answers for every path.
    """
    anew = []
    for step in steps:
        if step.action in UNTOUCHED:
            continue
        have = actual(step.path)
        if not same_content(have, step.want):
            action = action_between(step.want, have)
            anew.append(step.replace(action=action, have=have, reason=None, forced=is_content(have)))
    return in_order(anew)


def around(
    steps: Iterable[Step], actual: Callable[[bytes], Entry | None], *, planner: Planner
) -> tuple[Step, ...]:
    """Return rebased steps with those that clear the way where paths became another kind.

    What is in the way goes only as far as a restore may take it away (rule T4). ``planner`` is a new
    one, of the tree from which the steps come.
    """
    known = tuple(steps)
    asides = obstacles((step.path for step in known if step.want is not None), actual)
    for step in known:
        if step.want is None:
            continue
        replaces = step.want.kind != DIRECTORY and is_directory(step.have)
        if replaces or not asides.isdisjoint(ancestors(step.path)):
            planner.alone(step.path, step.want)
    refuse(planner.inspection.faults)
    planned = {step.path for step in planner.steps}
    return in_order((*(step for step in known if step.path not in planned), *planner.steps))


def unsettled(steps: Iterable[Step], actual: Callable[[bytes], Entry | None]) -> tuple[Step, ...]:
    """Leave out the steps whose paths hold already what they want."""
    return tuple(
        step for step in steps if step.action in UNTOUCHED or not same_content(actual(step.path), step.want)
    )


def of_directories(step: Step) -> bool:
    """Tell whether a step is about a directory alone: nothing of it could be lost."""
    return not is_content(step.have) and not is_content(step.want)


def reversed_step(step: Step) -> Step:
    """Return the step that takes one step back."""
    return step.replace(action=action_between(step.have, step.want), want=step.have, have=step.want)


def is_foreign(step: Step, present: Entry | None) -> bool:
    """Tell whether a path holds neither what a step found nor what it wanted: somebody was there."""
    if present is None or same_content(present, step.want) or same_content(present, step.have):
        # A path in the way of another kind is set aside first: nothing there is a state of our own.
        return False
    if present.kind != DIRECTORY:
        return True
    # A directory is made with a mark, one that was there is opened: both get their permissions last.
    sides = (one for one in (step.want, step.have) if one is not None and one.kind == DIRECTORY)
    return not any(is_unfinished(present.mode) or _is_opened(present, one) for one in sides)


def _is_opened(present: Entry, closed: Entry) -> bool:
    """Tell whether a directory has its permissions, and perhaps what it takes to work in it."""
    return not (present.mode ^ (closed.mode | present.mode & _OWNER)) & PERMISSION_BITS
