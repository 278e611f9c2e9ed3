"""Time cut into equal stretches, and what fell into each; robust against clocks that jump."""

from __future__ import annotations

from bisect import bisect_right

from lastgood.model.activity import Bucket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lastgood.model.activity import WorkedTask
    from lastgood.model.checkpoint import Checkpoint

_SECOND = 10**9
_MINUTE = 60
_DAY = 86_400
# Widths that people count in; the epoch was a Thursday, weeks begin on Monday.
_WIDTHS = (
    *(_MINUTE * width for width in (1, 5, 15, 30, 60, 180, 360)),
    _DAY,
    7 * _DAY,
    28 * _DAY,
    364 * _DAY,
    3640 * _DAY,
)
_MONDAY = 4 * _DAY
_MOST = 48


def seconds_between(start: int | None, end: int | None) -> float | None:
    """Return how long something took, None if it did not end; a clock that went back makes it nothing."""
    if start is None or end is None:
        return None
    return max(0, end - start) / _SECOND


def steady(times: Sequence[int], *, now: int) -> list[int]:
    """Return times, given in the order in which things happened, so that none goes back or lies ahead.

    As many as possible stay as they are; each of the others, told by a clock that was wrong then, is
    shown at the time of the one before it (at the first right one, if there is none before).
    """
    right = _longest_rise([at if at <= now else None for at in times])
    if not right:
        return [now] * len(times)
    shown: list[int] = []
    last = times[right[0]]
    places = iter(right)
    following: int | None = next(places)
    for place in range(len(times)):
        if place == following:
            last = times[place]
            following = next(places, None)
        shown.append(last)
    return shown


def _longest_rise(times: Sequence[int | None]) -> list[int]:
    """Return the places of a longest series of times that never goes back."""
    ends: list[int] = []  # for each length, the least time that a series of that length ends with
    places: list[int] = []
    before: list[int | None] = []
    for place, at in enumerate(times):
        length = len(ends) if at is None else bisect_right(ends, at)
        before.append(places[length - 1] if length and at is not None else None)
        if at is None:
            continue
        ends[length : length + 1] = [at]
        places[length : length + 1] = [place]
    found: list[int] = []
    last = places[-1] if places else None
    while last is not None:
        found.append(last)
        last = before[last]
    return found[::-1]


def bucketed(
    placed: Sequence[tuple[int, Checkpoint]],
    worked: Iterable[WorkedTask],
    gained: Sequence[int],
    *,
    since: int | None,
    now: int,
    offset: int,
) -> tuple[Bucket, ...]:
    """Return what fell into each stretch of a period, or of the time of all that is known."""
    ends = [(min(one.task.ended_at, now), one.task.state) for one in worked if one.task.ended_at is not None]
    ends = [(at, state) for at, state in ends if since is None or at >= since]
    moments = [at for at, _ in placed] + [at for at, _ in ends]
    if not moments:
        return ()
    first = min(moments) if since is None else since
    last = max(moments) if since is None else now
    width = next((one for one in _WIDTHS if (last - first) // _SECOND // one < _MOST), _WIDTHS[-1])
    start = _floor(first, width=width, offset=offset)
    step = width * _SECOND
    count = (last - start) // step + 1
    rows = [_Row() for _ in range(count)]
    for (at, one), tokens in zip(placed, gained, strict=True):
        rows[(at - start) // step].save(one, tokens)
    for at, state in ends:
        rows[max(0, (at - start) // step)].end(state)
    return tuple(row.bucket(start + n * step, start + (n + 1) * step) for n, row in enumerate(rows))


def _floor(at: int, *, width: int, offset: int) -> int:
    origin = (_MONDAY if width % (7 * _DAY) == 0 else 0) - offset
    seconds = at // _SECOND - origin
    return (seconds - seconds % width + origin) * _SECOND


class _Row:
    """What is being counted for one bucket."""

    __slots__ = ("done", "failed", "kinds", "milliseconds", "stored", "tokens")

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}
        self.done = self.failed = self.tokens = self.stored = 0
        self.milliseconds = 0.0

    def save(self, checkpoint: Checkpoint, tokens: int) -> None:
        metrics = checkpoint.manifest.metrics
        self.kinds[checkpoint.kind] = self.kinds.get(checkpoint.kind, 0) + 1
        self.tokens += tokens
        self.stored += metrics.stored_bytes
        self.milliseconds += metrics.save_ms

    def end(self, state: str) -> None:
        self.done += state == "done"
        self.failed += state == "failed"

    def bucket(self, start: int, end: int) -> Bucket:
        count = sum(self.kinds.values())
        return Bucket(
            start=start,
            end=end,
            kinds=self.kinds,
            tasks_done=self.done,
            tasks_failed=self.failed,
            tokens=self.tokens,
            stored_bytes=self.stored,
            save_ms=self.milliseconds / count if count else None,
        )
