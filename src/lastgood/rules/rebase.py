"""Steps made anew for what is there now, towards the same end."""

from __future__ import annotations

from lastgood.model.tree import DIRECTORY
from lastgood.names import ancestors, join, ways
from lastgood.rules.evidence import alike
from lastgood.rules.hostile import refuse
from lastgood.rules.planner import Planner, action_between
from lastgood.rules.restore import in_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lastgood.model.plan import Action, Step
    from lastgood.model.tree import Entry
    from lastgood.rules.evidence import Present

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
        replaces = step.want.kind != DIRECTORY and step.have is not None and step.have.kind == DIRECTORY
        if replaces or not asides.isdisjoint(ancestors(step.path)):
            planner.alone(step.path, step.want)
    refuse(planner.inspection.faults)
    planned = {step.path for step in planner.steps}
    return in_order((*(step for step in known if step.path not in planned), *planner.steps))


def obstacles(paths: Iterable[bytes], actual: Callable[[bytes], Entry | None]) -> set[bytes]:
    """Return the paths above others that hold no directory, though they would have to."""
    return {way for way in sorted(ways(paths)) if (entry := actual(way)) is None or entry.kind != DIRECTORY}


def barred(steps: Iterable[Step], actual: Callable[[bytes], Entry | None]) -> set[bytes]:
    """Return the paths above what steps write that hold no directory, and that no step makes one."""
    writing = tuple(step for step in steps if step.want is not None and step.action not in UNTOUCHED)
    made = {step.path for step in writing if step.action == "mkdir"}
    return obstacles((step.path for step in writing), actual) - made


def occupied(steps: Iterable[Step], present: Present) -> dict[bytes, bytes]:
    """Return the directories that a file is to take the place of, each with something that stays in it."""
    known = tuple(step for step in steps if step.action not in UNTOUCHED)
    going = {step.path for step in known if step.want is None}
    found: dict[bytes, bytes] = {}
    for step in known:
        if step.want is None or step.want.kind == DIRECTORY or step.have is None:
            continue
        stays = _staying(step.path, going, present) if step.have.kind == DIRECTORY else None
        if stays is not None:
            found[step.path] = stays
    return found


def _staying(path: bytes, going: set[bytes], present: Present) -> bytes | None:
    waiting = [path]
    while waiting:
        place = waiting.pop()
        left_out = present.left_out(place)
        if left_out:
            return join(place, left_out[0])
        for entry in present.directory(place) or ():
            inside = join(place, entry.name)
            if inside not in going:
                return inside
            if entry.kind == DIRECTORY:
                waiting.append(inside)
    return None


def is_barred(steps: Iterable[Step]) -> bool:
    """Tell whether some of what steps want could not even be planned, because of what is in its way."""
    return any(step.action == "skip" and step.want is not None for step in steps)


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
