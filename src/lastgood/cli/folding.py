"""Which checkpoints a list for people leaves out, because another row says the same."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lastgood.model.checkpoint import Checkpoint

_BORDERS = frozenset({"session-start", "session-end"})
# What is said of a prompt, before its turn.
_PROMPTED = "before: "
_LOOKED_AT = 50


def folded(found: Sequence[Checkpoint]) -> Mapping[str, str]:
    """Return the ids that a list leaves out of what it found, each with the id of the row that stands for it.

    These are what runs, sessions and turns save where they begin and end, as far as the files are those of
    the checkpoint before, which was found too (rule S21). Of each session at least one stays, and so does
    what somebody named, pinned or checked. They are given newest first.
    """
    by_id = {one.id: one for one in found}
    told = {one.session for one in found if not _repeats(one, by_id)}
    standing: dict[str, str] = {}
    for one in reversed(found):
        previous = one.manifest.previous
        if previous is not None and one.session in told and _repeats(one, by_id):
            standing[one.id] = standing.get(previous, previous)
        told.add(one.session)
    return standing


def is_settled(rows: Sequence[Checkpoint], found: Sequence[Checkpoint]) -> bool:
    """Tell whether some rows of what a list found would stay if it had found more, older checkpoints."""
    by_id = {one.id: one for one in found}
    return all(
        not _is_border(one) or (one.manifest.previous in {None, *by_id} and not _repeats(one, by_id))
        for one in rows
    )


def row_of(one: Checkpoint, newest: Callable[[int], Sequence[Checkpoint]]) -> Checkpoint:
    """Return the checkpoint whose row stands for one in a list; ``newest`` gives so many of them."""
    looked_at = _LOOKED_AT
    while _is_border(one):
        found = newest(looked_at)
        standing = folded(found)
        for place, row in enumerate(found):
            # What came before the last ones is not known yet.
            if row.id == standing.get(one.id, one.id) and (place * 2 < looked_at or len(found) < looked_at):
                return row
        if len(found) < looked_at:
            break
        looked_at *= 2
    return one


def worked_by(found: Sequence[Checkpoint]) -> str | None:
    """Return in what an agent worked among some checkpoints, as a rewind counts it; None if none did."""
    if any(one.kind == "turn" for one in found):
        return "turn"
    return "run" if any(one.message.startswith(_PROMPTED) for one in found) else None


def _is_border(one: Checkpoint) -> bool:
    return one.kind in _BORDERS or one.moment == "before" or _begins_turn(one)


def _begins_turn(one: Checkpoint) -> bool:
    """Tell whether a checkpoint was made because a prompt came: what is new in it are last words at most."""
    return one.kind == "auto" and one.message.startswith(_PROMPTED)


def _repeats(one: Checkpoint, by_id: Mapping[str, Checkpoint]) -> bool:
    """Tell whether a checkpoint at the border of a run holds nothing that the one before it does not."""
    before = by_id.get(one.manifest.previous or "")
    if before is None or not _is_border(one) or one.name or one.pinned or one.good is not None:
        return False
    says_more = one.manifest.conversation not in {None, before.manifest.conversation}
    has_more = one.damaged or one.partial or (says_more and not _begins_turn(one))
    return not has_more and one.manifest.root == before.manifest.root
