"""How far a rewind goes: by turns, else by runs, else by states of the files (rule T15)."""

from __future__ import annotations

from itertools import islice, pairwise

from lastgood.model.checkpoint import is_before_turn
from lastgood.model.report import RewindExtent
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from lastgood.literals import RewindUnit
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Operation
    from lastgood.model.session import Effect


# A turn's checkpoint may say under this word of its metadata at which one the turn began.
BEGAN = "began-at"


class History(Value):
    """A workspace's history from where it stands, newest first, and what has to be known beside it.

    ``starts`` are the ids of the first checkpoints of runs, ``taken_back`` of those to which a restore led
    once the run had ended. ``unended`` are the turns that nobody saw end. ``returned`` tells that a restore
    led to the place at which it stands, ``untouched`` that the files are as they are there. ``of_files``
    tells that files come back: then a turn that changed none does not count.
    """

    line: Sequence[Checkpoint]
    untouched: Callable[[], bool]
    returned: bool = False
    starts: Collection[str] = ()
    taken_back: Collection[str] = ()
    unended: Sequence[Effect] = ()
    of_files: bool = True

    @property
    def unit(self) -> RewindUnit:
        """What a rewind counts along it."""
        if any(one.kind == "turn" for one in self.line) or _under_way(self):
            return "turn"
        return "run" if self.starts else "state"


def extent(history: History, *, steps: int) -> RewindExtent | None:
    """Return how far back so many turns, runs or states are; None if there are not so many."""
    return next(islice(extents(history), steps - 1, None), None)


def extents(history: History) -> Iterator[RewindExtent]:
    """Yield how far back one turn, run or state is, then two, and so on."""
    line, unit = history.line, history.unit
    if unit == "turn":
        open_turns = _under_way(history)
        for steps, target in enumerate(_before_turns(history, open_turns), 1):
            yield _past_turns(history, target, open_turns=open_turns).replace(steps=steps)
        return
    runs = runs_of(history) if unit == "run" else []
    for steps, target in enumerate(runs if unit == "run" else states_before(line), 1):
        saves = _saves(line, target, besides=runs[:steps])
        yield RewindExtent(target=target, unit=unit, runs=tuple(runs[:steps]), saves=saves, steps=steps)


def runs_of(history: History) -> list[Checkpoint]:
    """Return the first checkpoint of each run that changed a file and was not taken back, newest first."""
    return [
        one for place, one in enumerate(history.line) if one.id in history.starts and _changed(history, place)
    ]


def _changed(history: History, place: int) -> bool:
    """Tell whether files changed in the run that began at a place.

    One that was cut short left what it changed last to the checkpoint after it, or in the workspace.
    """
    line, start = history.line, history.line[place]
    own = [at for at in range(place) if _is_of(line[at], start)]
    changed = any(line[at].manifest.root != start.manifest.root for at in own)
    ended = bool(own) and line[own[0]].kind == "session-end"
    if changed or ended or start.id in history.taken_back:
        return changed
    last = own[0] if own else place
    return line[last - 1].manifest.root != start.manifest.root if last else not history.untouched()


def _is_of(checkpoint: Checkpoint, start: Checkpoint) -> bool:
    return start.session is not None and checkpoint.session == start.session


def _saves(
    line: Sequence[Checkpoint], target: Checkpoint, *, besides: Sequence[Checkpoint] = ()
) -> tuple[Checkpoint, ...]:
    """Return the checkpoints after a target that hold a change, without those within some runs."""
    return tuple(
        later
        for later, one in pairwise(line[: line.index(target) + 1])
        if later.manifest.root != one.manifest.root
        and (later in besides or not any(_is_of(later, run) for run in besides))
    )


def _past_turns(history: History, target: Checkpoint, *, open_turns: Mapping[int, Effect]) -> RewindExtent:
    """Return a rewind past the turns after a target, and what was saved beside them.

    Of a turn that does not say where it began all since the turn before it is taken for its own.
    """
    line = history.line
    place, past = line.index(target), line[: line.index(target) + 1]
    turns = [at for at in range(place) if line[at].kind == "turn"]
    turns = [at for at, later in zip(turns, [None, *turns], strict=False) if not _is_same(line, at, later)]
    if any(
        is_before_turn(one) for one in past
    ):  # what was made after its turn is not told from what is in it
        turns = [at for at, one in enumerate(past) if is_before_turn(one)]
        idle = [
            line[at]
            for later, at in zip([None, *turns], turns, strict=False)
            if not _turn_changed(history, at, later=later)
        ]
        told = tuple(line[at] for at in turns)
        return RewindExtent(target=target, unit="turn", turns=told, idle=tuple(idle))
    ids = {one.id: at for at, one in enumerate(line)}
    within: set[int] = set()
    idle = []
    for at, before in zip(turns, [*turns[1:], place], strict=False):  # of no turn there is no end
        began = ids.get(str(line[at].manifest.metadata.get(BEGAN)), before)
        within.update(range(at, began))
        if not any(_differ(line[one], line[began]) for one in range(at, began)):
            idle.append(line[at])
    under_way = {at: one for at, one in sorted(open_turns.items()) if at <= place}
    for at in under_way:
        within.update(range(max((one for one in turns if one < at), default=-1) + 1, at))
    saves = (line[at] for at in range(place) if at not in within and _differ(line[at], line[at + 1]))
    return RewindExtent(
        target=target,
        unit="turn",
        turns=tuple(line[at] for at in turns),
        saves=tuple(saves),
        under_way=tuple(under_way.values()),
        idle=tuple(idle),
    )


def _is_same(line: Sequence[Checkpoint], at: int, later: int | None) -> bool:
    """Tell whether a turn is the one after it, which went on after its end was told."""
    began = line[at].manifest.metadata.get(BEGAN)
    return began is not None and later is not None and line[later].manifest.metadata.get(BEGAN) == began


def _differ(one: Checkpoint, other: Checkpoint) -> bool:
    return one.manifest.root != other.manifest.root


def states_before(line: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Return the checkpoints whose files differ from those of the one after them; all are newest first."""
    return [one for later, one in pairwise(line) if one.manifest.root != later.manifest.root]


def _before_turns(history: History, open_turns: Collection[int]) -> Iterator[Checkpoint]:
    """Yield the states before the last turn that changed a file, before the last two, and so on.

    A turn's checkpoint holds the state after the turn unless its moment, or a note ``moment``, says before
    (rule S20); where there are any of before, or that say where their turn began, they are the ones that
    count: the one at which it stands too, unless it has returned there and nothing changed since.
    """
    line = history.line
    befores = [place for place, one in enumerate(line) if is_before_turn(one)]
    if befores and not befores[0] and history.returned and history.untouched():
        befores.pop(0)
    began = _places_of_starts(line)
    starts = {*befores, *began}
    if not starts:
        ends = [place for place, one in enumerate(line) if one.kind == "turn"]
        starts = {place + 1 for place in ends if place + 1 < len(line)}
    places = sorted({*starts, *open_turns})
    counts = False
    for later, place in zip([None, *places], places, strict=False):
        if not history.of_files or place in open_turns or _turn_changed(history, place, later=later):
            counts = True
            yield line[place]
    if not counts:  # they are all about the conversation
        yield from (line[place] for place in places)


def _turn_changed(history: History, place: int, *, later: int | None) -> bool:
    """Tell whether files changed in the turn that began at a place, ``later`` being where the next one did.

    Whether the talk alone is worth a checkpoint depends on when its host wrote it down: a turn that changed
    no file may have one, or none. What the last one changed may still be in the workspace alone.
    """
    line, since = history.line, later or 0
    ends = [at for at in range(since, place) if line[at].kind == "turn" and not is_before_turn(line[at])]
    if any(_differ(line[at], line[place]) for at in range(ends[0] if ends else since, place)):
        return True
    return not ends and later is None and not history.untouched()


def _places_of_starts(line: Sequence[Checkpoint]) -> list[int]:
    """Return the places at which turns began, as far as their checkpoints say so."""
    began = {one.manifest.metadata.get(BEGAN) for one in line if one.kind == "turn"}
    return [place for place, one in enumerate(line) if one.id in began]


def _under_way(history: History) -> dict[int, Effect]:
    """Return the turns that nobody saw end, by where they began; not one since which no file changed.

    What changed since is looked for until where another turn began.
    """
    line = history.line
    found: dict[int, Effect] = {}
    ids = {one.id: place for place, one in enumerate(line)}
    began = set(_places_of_starts(line))
    places = {ids[one.stood]: one for one in history.unended if one.stood in ids}
    for place, turn in places.items():
        later = max((one for one in (*began, *places) if one < place), default=None)
        changed = any(_differ(line[at], line[place]) for at in range(later or 0, place))
        if place not in began and (changed or (later is None and not history.untouched())):
            found[place] = turn
    return found


def has_returned(operations: Iterable[Operation], place: str) -> bool:
    """Tell whether the workspace came to stand at a checkpoint by a restore; ``operations`` newest first."""
    moved = next((one for one in operations if one.stands is not None), None)
    return moved is not None and moved.type != "undo" and moved.stands == place


def moves(operations: Iterable[Operation]) -> list[Operation]:
    """Return the restores that hold and had the workspace stand somewhere, newest first if they are."""
    return [one for one in operations if one.type == "restore" and not one.undone and one.stands]
