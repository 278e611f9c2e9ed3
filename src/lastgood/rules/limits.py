"""The simple limit on count and size: what goes when a store grows too full."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.model.checkpoint import Checkpoint

# What a size limit takes away at a time, of the checkpoints that may go.
_SHARE = 10
# However full the store is, this many of the newest stay.
LEAST = 10


def over_count(checkpoints: Sequence[Checkpoint], *, limit: int) -> tuple[str, ...]:
    """Return the ids that go so that at most ``limit`` removable checkpoints of a workspace stay.

    ``checkpoints`` are one workspace's, newest first. Permanent ones neither count nor go; the
    newest complete one and the newest good one are permanent.
    """
    removable = _removable(checkpoints)
    excess = len(removable) - max(limit, LEAST)
    return tuple(one.id for one in removable[-excess:]) if excess > 0 else ()


def over_size(checkpoints: Sequence[Checkpoint]) -> tuple[str, ...]:
    """Return the ids that go when the store is too large: the oldest tenth of what may go."""
    removable = _removable(checkpoints)
    spare = removable[LEAST:]
    return tuple(one.id for one in spare[-max(1, len(spare) // _SHARE) :]) if spare else ()


def _removable(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    newest = next((one.id for one in checkpoints if not one.partial and one.kind != "guard"), None)
    good = next((one.id for one in checkpoints if one.good), None)
    return [one for one in checkpoints if one.id not in {newest, good} and not _permanent(one)]


def _permanent(checkpoint: Checkpoint) -> bool:
    return checkpoint.pinned or checkpoint.name is not None or checkpoint.kind == "feature"
