"""Tables of text: columns as wide as their widest cell."""

from __future__ import annotations

from lastgood.cli.wording import padded, shortened, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP = "  "


def table(rows: Sequence[Sequence[str]], *, flexible: int, limit: int | None) -> list[str]:
    """Return rows as aligned lines; the flexible column gives way to keep within ``limit`` columns."""
    if not rows:
        return []
    widths = [max(width(row[column]) for row in rows) for column in range(len(rows[0]))]
    if limit is not None:
        spare = limit - (sum(widths) + len(_GAP) * (len(widths) - 1))
        widths[flexible] = max(12, widths[flexible] + spare) if spare < 0 else widths[flexible]
    lines = []
    for row in rows:
        cells = list(row)
        cells[flexible] = shortened(cells[flexible], widths[flexible])
        lines.append(_GAP.join(map(padded, cells, widths)).rstrip())
    return lines


def pairs(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return names and values as two columns."""
    widest = max((len(name) for name, _ in rows), default=0)
    return [f"{name:{widest}}{_GAP}{value}".rstrip() for name, value in rows]
