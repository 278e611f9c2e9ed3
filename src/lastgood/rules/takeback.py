"""Steps taken back, what changed since being kept: a merge path by path (rules T8, T17)."""

from __future__ import annotations

from lastgood.model.plan import CONFLICT, Step
from lastgood.model.tree import DIRECTORY
from lastgood.names import ancestors, parent, printable, to_text
from lastgood.rules.evidence import alike
from lastgood.rules.merge import KEPT, Sides, beside, decide
from lastgood.rules.planner import action_between
from lastgood.rules.rebase import UNTOUCHED, barred, occupied
from lastgood.rules.restore import in_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lastgood.model.plan import Merged
    from lastgood.model.tree import Entry
    from lastgood.rules.evidence import Present
    from lastgood.rules.merge import Blend, Verdict

    Look = Callable[[bytes], Entry | None]

_TRIES = 1000


def take_back(
    steps: Iterable[Step], actual: Look, *, source: Look, present: Present, blend: Blend, suffix: bytes
) -> tuple[tuple[Step, ...], tuple[Merged, ...]]:
    """Return the steps that lead to what some steps want, changes since what they have being kept.

    ``actual`` answers for every path, ``present`` for what directories hold, ``source`` for what is
    taken back. What is put beside a conflict has ``suffix`` at its name.
    """
    made: list[Step] = []
    merged: list[Merged] = []
    for step in steps:
        if step.action in UNTOUCHED:
            made.append(step)
            continue
        sides = Sides(
            path=step.path,
            base=_alone(step.have),
            target=_alone(step.want),
            present=_alone(actual(step.path)),
        )
        verdict = decide(sides, blend=blend, favour=None)
        made += _steps(sides, verdict, actual, suffix=suffix)
        if verdict.merged is not None:
            merged.append(verdict.merged)
    return in_order(_housed(_beside_new(made, present), actual, source)), tuple(merged)


def _beside_new(steps: Sequence[Step], present: Present) -> list[Step]:
    """Let a directory be that a file would take the place of, but for what somebody has put into it."""
    full = occupied(steps, present)
    return [
        _closed(step, f"holds {printable(to_text(full[step.path]))}") if step.path in full else step
        for step in steps
    ]


def _closed(step: Step, why: str) -> Step:
    return step.replace(action="skip", reason=f"{CONFLICT}: {why}", forced=False)


def _housed(steps: Sequence[Step], actual: Look, source: Look) -> Iterator[Step]:
    """Make directories again that are gone; what lies below something else by now is a conflict."""
    homes: dict[bytes, Step] = {}
    decided = {step.path for step in steps}
    for path in barred(steps, actual) - decided:
        home = source(path) if actual(path) is None else None
        if home is not None and home.kind == DIRECTORY:
            homes[path] = Step(path=path, action="mkdir", want=_alone(home))
    closed = barred((*steps, *homes.values()), actual)
    used: set[bytes] = set()
    for step in steps:
        if step.want is None or step.action in UNTOUCHED:
            yield step
            continue
        above = ancestors(step.path)
        way = next((place for place in above if place in closed), None)
        if way is None:
            used.update(above)
            yield step
        else:
            yield _closed(step, f"{printable(to_text(way))} is no folder any more")
    yield from (home for path, home in homes.items() if path in used)


def _steps(sides: Sides, verdict: Verdict, actual: Look, *, suffix: bytes) -> Iterator[Step]:
    path, present, want = sides.path, sides.present, verdict.want
    if not alike(want, present):
        forced = present is not None and present.kind != DIRECTORY
        action = action_between(want, present)
        yield Step(path=path, action=action, want=want, have=present, reason=verdict.conflict, forced=forced)
    elif verdict.conflict is not None:
        action = "keep" if verdict.conflict == KEPT else "skip"
        yield Step(path=path, action=action, reason=verdict.conflict)
    if verdict.beside is not None and verdict.beside.kind != DIRECTORY:
        yield from _beside(path, verdict.beside, actual, suffix=suffix)


def _beside(path: bytes, entry: Entry, actual: Look, *, suffix: bytes) -> Iterator[Step]:
    above = parent(path)
    there = actual(above) if above else None
    if above and (there is None or there.kind != DIRECTORY):
        return  # its folder is gone: the guard that is being taken back to has it
    for number in range(1, _TRIES):
        place = beside(path, suffix, number=number)
        if place is None:
            return  # no name is short enough: the guard has it
        found = actual(place)
        if found is None:
            yield Step(path=place, action="write", want=entry.replace(name=place.rpartition(b"/")[2]))
        if found is None or alike(found, entry):
            return


def _alone(entry: Entry | None) -> Entry | None:
    """Return a directory without what is in it: every path has a step of its own."""
    if entry is None or entry.kind != DIRECTORY:
        return entry
    return entry.replace(oid=b"", modes=b"")
