"""Draws a plot as SVG that belongs into a page: by Vega-Lite, now, so that the page needs no script.

Colours are variables of the page's style sheet: one drawing is right by day and by night. What a mark
says (``says`` of its row) becomes its title, which browsers show when it is pointed at.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from lastgood.errors import Unsupported
from lastgood.names import printable
from lastgood.rules.redact import redact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Spec = dict[str, object]

INSTALL = "pip install 'lastgood[report]'"
WIDE, NARROW = 700, 330
_LABELS = {WIDE: 200, NARROW: 104}
_TEXT = 120
_SVG = "http://www.w3.org/2000/svg"
_CONFIG: Spec = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--muted)",
        "labelFontSize": 12,
        "gridColor": "var(--line)",
        "domainColor": "var(--line)",
        "tickColor": "var(--line)",
    },
    "axisY": {"domain": False, "ticks": False, "labelPadding": 8},
    "legend": {
        "labelColor": "var(--muted)",
        "labelFontSize": 12,
        "orient": "top",
        "title": None,
        "symbolType": "circle",
        "offset": 6,
        "columnPadding": 22,
    },
}


def draw(rows: Sequence[Spec], mark: Spec, encoding: Spec, *, height: object, width: int) -> str:
    """Return a plot as an SVG element; raises `Unsupported` if the library is not installed."""
    try:
        from vl_convert import vegalite_to_svg
    except ImportError:
        raise Unsupported("drawing plots needs the library vl-convert-python", hint=INSTALL) from None
    legend = {**_part(_CONFIG, "legend"), "columns": 3 if width == NARROW else 6}
    axis = {**_part(_CONFIG, "axis"), "labelLimit": _LABELS[width]}
    axis["tickCount"] = 4 if width == NARROW else 7
    spec: Spec = {
        "width": width,
        "height": height,
        # Browsers' letters may be wider than those that the drawing was measured with.
        "padding": {"left": 18, "right": 14, "top": 0, "bottom": 0},
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": list(rows)},
        "mark": mark,
        "encoding": {**encoding, "description": {"field": "says"}},
        "config": {**_CONFIG, "axis": axis, "legend": legend},
    }
    return _for_page(vegalite_to_svg(spec, allowed_base_urls=[]))


def _part(spec: Spec, name: str) -> Spec:
    part = spec[name]
    assert isinstance(part, dict)
    return part


def _for_page(drawn: str) -> str:
    ET.register_namespace("", _SVG)
    root = ET.fromstring(drawn)  # noqa: S314 - our own drawing, made a moment ago
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    root.set("aria-hidden", "true")  # the table beside it says the same in words
    for mark in root.iter():
        said = mark.attrib.pop("aria-label", None)
        if said is not None and mark.get("aria-roledescription") != "axis":
            ET.SubElement(mark, f"{{{_SVG}}}title").text = said
    return ET.tostring(root, encoding="unicode")


def safe(text: str) -> str:
    """Return a text that may be shown to others (rule S17), on one line of moderate length."""
    return printable(redact(text))[:_TEXT]
