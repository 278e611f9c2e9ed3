"""Did you mean: the known words nearest to one that is not known."""

from __future__ import annotations

from lastgood.paths import join, to_bytes, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def nearest(word: str, known: Iterable[str], *, limit: int = 3) -> tuple[str, ...]:
    """Return the known words nearest to a word, if they are no more than a slip or two away from it."""
    allowed = 1 if len(word) <= 4 else 2 if len(word) <= 7 else 3
    scored: list[tuple[int, str]] = []
    for candidate in known:
        begun = len(word) >= 3 and candidate.startswith(word)
        if abs(len(word) - len(candidate)) > allowed and not begun:
            continue
        distance = _distance(word.lower(), candidate.lower())
        if begun:
            distance = min(distance, 1)
        if distance <= allowed and distance < len(candidate):
            scored.append((distance, candidate))
    least = min(scored, default=(0, ""))[0]
    return tuple(sorted(candidate for distance, candidate in scored if distance == least)[:limit])


def nearest_path(path: bytes, names: Callable[[bytes], Iterable[bytes]]) -> bytes | None:
    """Return the path that may have been meant by one that is not there, None if none is near.

    ``names`` returns what a directory holds; nothing for a directory that is none.
    """
    reached = b""
    for name in path.split(b"/"):
        known = list(names(reached))
        if name in known:
            reached = join(reached, name)
            continue
        close = nearest(to_text(name), map(to_text, known), limit=1)
        if not close:
            return None
        reached = join(reached, to_bytes(close[0]))
    return reached


def _distance(left: str, right: str) -> int:
    """Count insertions, deletions, replacements and swaps of neighbours (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(right, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and b == left[i - 2]:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
