"""The rows that compare with git, as a picture: where each side lies, on a scale on which git is 1."""

from __future__ import annotations

import math
from xml.sax.saxutils import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from rows import Row

COLOURS = {
    "lastgood": "#0b7a3b",
    "git": "#444444",
    "opencode": "#a86400",
    "PraisonAI": "#7a3bb0",
    "stepback": "#b02a5b",
    "borg": "#2a6fb0",
    "restic": "#1b9aaa",
}
_TEXT, _WIDTH, _LINE, _TOP = 430, 520, 24, 62
_LEAST, _MOST = 0.05, 50.0


def picture(rows: Iterable[Row]) -> str:
    """Return an SVG of the rows whose ratio is one to git's figure."""
    shown = [row for row in rows if row.ratio is not None and row.target.endswith("x git")]
    height = _TOP + _LINE * len(shown) + 12
    size = f'width="{_TEXT + _WIDTH + 30}" height="{height}"'
    style = 'font-family="sans-serif" font-size="13"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    parts += _legend()
    for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20):
        x = _place(tick)
        colour = "#888888" if tick == 1 else "#dddddd"
        parts.append(f'<line x1="{x}" x2="{x}" y1="{_TOP - 10}" y2="{height - 8}" stroke="{colour}"/>')
        parts.append(f'<text x="{x}" y="{_TOP - 14}" text-anchor="middle" fill="#666666">{tick:g}</text>')
    for number, row in enumerate(shown):
        parts += _line(row, _TOP + _LINE * number + _LINE / 2)
    return "\n".join([*parts, "</svg>", ""])


def _legend() -> list[str]:
    parts = []
    for number, (side, colour) in enumerate(COLOURS.items()):
        x = 16 + 95 * number
        parts.append(
            f'<circle cx="{x}" cy="16" r="5" fill="{colour}"/><text x="{x + 9}" y="20">{side}</text>'
        )
    x = 16 + 95 * len(COLOURS)
    parts.append(
        f'<path d="M{x} 9v14" stroke="#cc0000" stroke-width="2"/><text x="{x + 9}" y="20">target</text>'
    )
    return [
        *parts,
        f'<text x="{_TEXT - 10}" y="{_TOP - 14}" text-anchor="end" fill="#666666">time, git is</text>',
    ]


def _line(row: Row, y: float) -> list[str]:
    parts = [
        f'<text x="{_TEXT - 10}" y="{y + 4}" text-anchor="end">{escape(row.work.replace("`", ""))}</text>'
    ]
    target = _place(float(row.target.split()[1]))
    parts.append(f'<path d="M{target} {y - 8}v16" stroke="#cc0000" stroke-width="2"/>')
    if row.spread:
        low, high = (_place(figure) for figure in row.spread)
        parts.append(
            f'<path d="M{low} {y}H{high}" stroke="{COLOURS["lastgood"]}" stroke-width="3" opacity=".4"/>'
        )
    for side, figure in row.figures.items():
        ratio = row.ratio if side == "lastgood" and row.ratio is not None else figure / row.figures["git"]
        parts.append(f'<circle cx="{_place(ratio)}" cy="{y}" r="5" fill="{COLOURS[side]}"/>')
    return parts


def _place(ratio: float) -> float:
    """Return where a ratio lies from the left; what is beyond the scale, at its end."""
    share = math.log(min(max(ratio, _LEAST), _MOST) / _LEAST) / math.log(_MOST / _LEAST)
    return round(_TEXT + share * _WIDTH, 1)
