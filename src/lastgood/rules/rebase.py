"""Steps made anew for what is there now, towards the same end."""

from __future__ import annotations

from lastgood.model.tree import DIRECTORY
from lastgood.rules.evidence import alike
from lastgood.rules.planner import action_between
from lastgood.rules.restore import in_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lastgood.model.plan import Action, Step
    from lastgood.model.tree import Entry


UNTOUCHED: frozenset[Action] = frozenset({"keep", "skip"})


def rebase(steps: Iterable[Step], actual: Callable[[bytes], Entry | None]) -> tuple[Step, ...]:
    """Return the steps that lead from what paths hold now to what some steps want.

    Paths that are right already are left out; every present file is forced, so that the guard holds
    it whatever the ignore rules say by now. ``actual`` answers for every path.
    """
    anew = []
    for step in steps:
        if step.action in UNTOUCHED:
            continue
        have = actual(step.path)
        if not alike(have, step.want):
            action = action_between(step.want, have)
            forced = have is not None and have.kind != DIRECTORY
            anew.append(step.replace(action=action, have=have, reason=None, forced=forced))
    return in_order(anew)


def unsettled(steps: Iterable[Step], actual: Callable[[bytes], Entry | None]) -> tuple[Step, ...]:
    """Leave out the steps whose paths hold already what they want."""
    return tuple(
        step for step in steps if step.action in UNTOUCHED or not alike(actual(step.path), step.want)
    )


def of_directories(step: Step) -> bool:
    """Tell whether a step is about a directory alone: nothing of it could be lost."""
    return all(entry is None or entry.kind == DIRECTORY for entry in (step.have, step.want))


def turned(step: Step) -> Step:
    """Return the step that takes one step back."""
    return step.replace(action=action_between(step.have, step.want), want=step.have, have=step.want)


def foreign(step: Step, present: Entry | None) -> bool:
    """Tell whether a path holds neither what a step found nor what it wanted: somebody was there."""
    if present is None or alike(present, step.want) or alike(present, step.have):
        # A path in the way of another kind is set aside first: nothing there is a state of our own.
        return False
    # A directory is made closed, and gets its permissions last: nothing but those can differ.
    directories = DIRECTORY in {entry.kind for entry in (step.want, step.have) if entry is not None}
    return not (directories and present.kind == DIRECTORY)
