"""The order of undo and redo, decided from the operations alone (rule T8)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Operation

_ASKED_FOR = ("restore", "delete", "prune")


def to_undo(operations: Iterable[Operation], *, session: str | None = None) -> Operation | None:
    """Return the operation that `undo` takes back: the newest that still stands.

    ``operations`` are newest first. Within a session its own count alone (rule T14).
    """
    return next(
        (
            one
            for one in operations
            if one.type in _ASKED_FOR and not one.undone and session in {None, one.session}
        ),
        None,
    )


def to_redo(operations: Sequence[Operation], *, session: str | None = None) -> Operation | None:
    """Return the operation that `redo` brings again: the last one undone.

    A new operation ends the line of those undone before it. Within a session its own count alone.
    """
    line: list[str] = []
    own = {one.id for one in operations if session in {None, one.session}}
    for one in reversed(operations):
        if (one.of or one.id) not in own:
            continue
        if one.type in _ASKED_FOR:
            line.clear()
        elif one.type == "undo" and one.of is not None:
            line.append(one.of)
        elif one.of in line:
            line.remove(one.of)
    undone = {one.id: one for one in operations if one.undone}
    return next((undone[id] for id in reversed(line) if id in undone), None)


def before_turn(checkpoints: Sequence[Checkpoint], *, turns: int) -> Checkpoint | None:
    """Return the state before the Nth last turn; without turns, N checkpoints back.

    ``checkpoints`` are a workspace's complete ones without guards, newest first. A turn's checkpoint
    holds the state after the turn unless its moment, or a note ``moment``, says before (rule S20);
    where there are any of before, they are the ones that count.
    """
    befores = [one for one in checkpoints if one.kind == "turn" and _moment(one) == "before"]
    if befores:
        return befores[turns - 1] if turns <= len(befores) else None
    ends = [index for index, one in enumerate(checkpoints) if one.kind == "turn"]
    if not ends:
        return checkpoints[turns] if turns < len(checkpoints) else None
    if turns > len(ends):
        return None
    before = ends[turns - 1] + 1
    return checkpoints[before] if before < len(checkpoints) else None


def _moment(checkpoint: Checkpoint) -> str | None:
    return checkpoint.moment or checkpoint.manifest.metadata.get("moment")
