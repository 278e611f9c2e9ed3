"""How far a rewind goes: by turns, else by runs, else by states of the files (rule T15)."""

from __future__ import annotations

from itertools import pairwise

from lastgood.model.report import RewindExtent
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from lastgood.literals import RewindUnit
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Operation


# A turn's checkpoint may say under this word of its metadata at which one the turn began.
BEGAN = "began-at"


class History(Value):
    """A workspace's history from where it stands, newest first, and what has to be known beside it.

    ``starts`` are the ids of the first checkpoints of runs, ``taken_back`` of those to which a restore led
    once the run had ended. ``returned`` tells that one led to the place at which it stands, ``untouched``
    that the files are as they are there.
    """

    line: Sequence[Checkpoint]
    untouched: Callable[[], bool]
    returned: bool = False
    starts: Collection[str] = ()
    taken_back: Collection[str] = ()

    @property
    def unit(self) -> RewindUnit:
        """What a rewind counts along it."""
        if any(one.kind == "turn" for one in self.line):
            return "turn"
        return "run" if self.starts else "state"


def extent(history: History, *, steps: int) -> RewindExtent | None:
    """Return how far back so many turns, runs or states are; None if there are not so many."""
    line, unit = history.line, history.unit
    if unit == "turn":
        target = _before_turn(history, turns=steps)
        return None if target is None else _past_turns(line, target)
    runs = runs_of(history) if unit == "run" else []
    states = runs if unit == "run" else states_before(line)
    if steps > len(states):
        return None
    target, runs = states[steps - 1], runs[:steps]
    return RewindExtent(target=target, unit=unit, runs=tuple(runs), saves=_saves(line, target, besides=runs))


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


def _past_turns(line: Sequence[Checkpoint], target: Checkpoint) -> RewindExtent:
    """Return a rewind past the turns after a target, and what was saved beside them.

    Of a turn that does not say where it began all since the turn before it is taken for its own.
    """
    place, past = line.index(target), line[: line.index(target) + 1]
    turns = [at for at in range(place) if line[at].kind == "turn"]
    turns = [at for at, later in zip(turns, [None, *turns], strict=False) if not _is_same(line, at, later)]
    if any(
        is_before_turn(one) for one in past
    ):  # what was made after its turn is not told from what is in it
        turns = [at for at, one in enumerate(past) if is_before_turn(one)]
        return RewindExtent(target=target, unit="turn", turns=tuple(line[at] for at in turns))
    ids = {one.id: at for at, one in enumerate(line)}
    within: set[int] = set()
    for at, before in zip(turns, [*turns[1:], place], strict=True):
        began = ids.get(str(line[at].manifest.metadata.get(BEGAN)), before)
        within.update(range(at, began))
    saves = (line[at] for at in range(place) if at not in within and _differ(line[at], line[at + 1]))
    return RewindExtent(target=target, unit="turn", turns=tuple(line[at] for at in turns), saves=tuple(saves))


def _is_same(line: Sequence[Checkpoint], at: int, later: int | None) -> bool:
    """Tell whether a turn is the one after it, which went on after its end was told."""
    began = line[at].manifest.metadata.get(BEGAN)
    return began is not None and later is not None and line[later].manifest.metadata.get(BEGAN) == began


def _differ(one: Checkpoint, other: Checkpoint) -> bool:
    return one.manifest.root != other.manifest.root


def states_before(line: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Return the checkpoints whose files differ from those of the one after them; all are newest first."""
    return [one for later, one in pairwise(line) if one.manifest.root != later.manifest.root]


def _before_turn(history: History, *, turns: int) -> Checkpoint | None:
    """Return the state before the Nth last turn.

    A turn's checkpoint holds the state after the turn unless its moment, or a note ``moment``, says before
    (rule S20); where there are any of before, or that say where their turn began, they are the ones that
    count: the one at which it stands too, unless it has returned there and nothing changed since.
    """
    line = history.line
    befores = [place for place, one in enumerate(line) if is_before_turn(one)]
    if befores and not befores[0] and history.returned and history.untouched():
        befores.pop(0)
    began = {one.manifest.metadata.get(BEGAN) for one in line if one.kind == "turn"}
    starts = sorted({*befores, *(place for place, one in enumerate(line) if one.id in began)})
    if starts:
        return line[starts[turns - 1]] if turns <= len(starts) else None
    ends = [place for place, one in enumerate(line) if one.kind == "turn"]
    before = ends[turns - 1] + 1 if turns <= len(ends) else len(line)
    return line[before] if before < len(line) else None


def has_returned(operations: Iterable[Operation], place: str) -> bool:
    """Tell whether the workspace came to stand at a checkpoint by a restore; ``operations`` newest first."""
    moved = next((one for one in operations if one.stands is not None), None)
    return moved is not None and moved.type != "undo" and moved.stands == place


def led_to(operations: Iterable[Operation]) -> set[str]:
    """Return the checkpoints to which restores led that still stand."""
    return {one.stands for one in operations if one.type == "restore" and not one.undone and one.stands}


def is_before_turn(checkpoint: Checkpoint) -> bool:
    """Tell whether a checkpoint holds the state before a turn."""
    moment = checkpoint.moment or checkpoint.manifest.metadata.get("moment")
    return checkpoint.kind == "turn" and moment == "before"
