"""Tables of text: columns as wide as their widest cell."""

from __future__ import annotations

from lastgood.cli.wording import padded, shortened, width, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP = "  "
_LEAST = 12
_NOTHING = frozenset({"-", "0", ""})


def table(
    rows: Sequence[Sequence[str]], *, flexible: int, limit: int | None, optional: Sequence[int] = ()
) -> list[str]:
    """Return rows as aligned lines that keep within ``limit`` columns.

    For that first the ``optional`` columns go in which nothing is said, then the flexible one gives
    way.
    """
    if not rows:
        return []
    widths = [max(width(row[column]) for row in rows) for column in range(len(rows[0]))]
    shown = list(range(len(widths)))
    if limit is not None and _whole(widths) > limit:
        shown = [
            column
            for column in shown
            if column not in optional or any(row[column] not in _NOTHING for row in rows[1:])
        ]
        spare = limit - _whole([widths[column] for column in shown])
        widths[flexible] = max(_LEAST, widths[flexible] + spare) if spare < 0 else widths[flexible]
    lines = []
    for row in rows:
        cells = list(row)
        cells[flexible] = shortened(cells[flexible], widths[flexible])
        lines.append(_GAP.join(padded(cells[column], widths[column]) for column in shown).rstrip())
    return lines


def _whole(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def pairs(rows: Sequence[tuple[str, str]], *, limit: int | None) -> list[str]:
    """Return names and values as two columns, the values wrapped to keep within ``limit`` columns."""
    widest = max((len(name) for name, _ in rows), default=0)
    room = None if limit is None else max(_LEAST, limit - widest - len(_GAP))
    lines = []
    for name, value in rows:
        first, *more = wrapped(value, room)
        lines.append(f"{name:{widest}}{_GAP}{first}".rstrip())
        lines += [f"{'':{widest}}{_GAP}{line}" for line in more]
    return lines
