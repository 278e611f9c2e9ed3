"""How a growing transcript is cut into stored segments: new bytes are added, small ones joined (P5).

Joining works by tiers of size. Once the segments at the end make up a full tier they become one, so
that each byte is stored again at most once a tier, and a long history of small additions does not
leave as many small blobs. Large segments are never touched again.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SEGMENT_BYTES = 1 << 18
# Sizes up to which segments count as of one tier, and how many of them make one of the next.
TIERS = (1 << 7, 1 << 11, 1 << 16)
FULL = 32
# Segments a subtree: a save rewrites one subtree and the list of subtrees.
FOLDER = 64
WINDOW = 1 << 10
_WINDOWS = 14
MOST = 10_000 * FOLDER


def pieces(size: int) -> list[int]:
    """Return the sizes of the segments that hold so many new bytes."""
    whole, rest = divmod(size, SEGMENT_BYTES)
    return [SEGMENT_BYTES] * whole + ([rest] if rest else [])


def joined(sizes: Sequence[int]) -> tuple[int, list[int]]:
    """Return how many segments stay as they are, and the sizes of those that take the others' place."""
    rest = list(sizes)
    kept = len(rest)
    below = -1
    for tier in TIERS:
        start = len(rest)
        while start and rest[start - 1] <= tier:
            start -= 1
        if sum(size > below for size in rest[start:]) >= FULL:
            rest[start:] = [sum(rest[start:])]
            kept = min(kept, start)
        below = tier
    return kept, rest[kept:]


def turn(sizes: Sequence[int], since: tuple[int, int], *, budget: int) -> tuple[list[int], tuple[int, int]]:
    """Return whose turn it is to be read again, within a budget of bytes, and where to go on next time.

    What was not spent is saved up, so that segments larger than the budget have their turn too.
    """
    place, credit = since[0], since[1] + budget
    whose: list[int] = []
    for _ in sizes:
        place %= len(sizes)
        if sizes[place] > credit:
            return whose, (place, credit)
        whose.append(place)
        credit -= sizes[place]
        place += 1
    return whose, (place, 0)


def name(place: int) -> tuple[bytes, bytes]:
    """Return the names of subtree and blob of a segment; their order is that of the places."""
    folder, rest = divmod(place, FOLDER)
    return b"%04d" % folder, b"%02d" % rest


def windows(size: int) -> list[int]:
    """Return where to look, a window each, at the first so many bytes: both ends and between."""
    last = max(0, size - WINDOW)
    return sorted({last * step // (_WINDOWS - 1) for step in range(_WINDOWS)})
