"""A report as one HTML page: everything in it, nothing loaded, nothing run.

Colours are variables of the page's style sheet: one drawing is right by day and by night. What a mark
says (``says`` of its row) becomes its title, which browsers show when it is pointed at.
"""

from __future__ import annotations

import os
from xml.etree import ElementTree as ET

from lastgood.errors import Unsupported, count
from lastgood.ids import short
from lastgood.model.activity import SPANS, command_states, session_states
from lastgood.model.canonical import iso
from lastgood.model.checkpoint import KINDS
from lastgood.paths import printable
from lastgood.redaction import redact
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from lastgood.model.activity import Activity, Bucket

    Spec = dict[str, object]
    Units = tuple[tuple[int, str], ...]


# --- Draws a plot as SVG that belongs into a page: by Vega-Lite, now, so that the page needs no script ---

INSTALL = (
    "the command that installs it here: lastgood doctor\ntext and --json need no library: lastgood report"
)
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


# --- Which plots a report has, and what they show ---

_MILLION = 10**6
# Beyond that many, marks hide each other: circles say how many there are.
_SINGLE_MARKS = 400
_LONGEST = 12

# Fifteen colours tell nothing apart: kinds are shown by what they have in common.
_FAMILIES = {
    "by itself": ("turn", "tool", "auto", "compaction"),
    "of the work": ("session-start", "task", "sprint", "feature", "iteration", "session-end"),
    "by hand": ("manual",),
    "before a risk": ("risky", "guard"),
    "trouble": ("error", "interrupt"),
}
_FAMILY_OF = {kind: family for family, kinds in _FAMILIES.items() for kind in kinds}
_COLOUR_OF = {
    "by itself": "var(--blue)",
    "of the work": "var(--green)",
    "by hand": "var(--violet)",
    "before a risk": "var(--amber)",
    "trouble": "var(--red)",
}
_STATES = {
    "done": "var(--green)",
    "failed": "var(--red)",
    "interrupted": "var(--amber)",
    "skipped": "var(--muted)",
    "taken-back": "var(--muted)",
    "given-up": "var(--muted)",
}
_BAR: Spec = {"type": "rect", "cornerRadius": 2}
# How the marks of an axis are written: the units from large to small, and the steps between marks.
_DECIMAL = tuple(digit * 10**power for power in range(19) for digit in (1, 2, 5))
_BYTES: Units = ((1 << 40, " TiB"), (1 << 30, " GiB"), (1 << 20, " MiB"), (1 << 10, " KiB"), (1, " B"))
_SECONDS: Units = ((86_400, " d"), (3600, " h"), (60, " min"), (1, " s"))
_MILLISECONDS: Units = ((60_000, " min"), (1000, " s"), (1, " ms"))
_COUNT: Units = ((10**9, " G"), (10**6, " M"), (10**3, " k"), (1, ""))
_MARKS = 4
_CLOCK = {"hours": "%H:%M", "minutes": "%H:%M", "seconds": "%H:%M:%S"}
_LEAST_BUCKETS = 12


class Plot(Value):
    """One plot: its title, what it shows in a sentence, and the drawings, wide and narrow.

    Two, because scaling would make the letters of one of them too small.
    """

    title: str
    says: str
    wide: str
    narrow: str


def plots(activity: Activity, *, offset: int) -> tuple[Plot, ...]:
    """Draw what there is to draw; ``offset`` is the local time's distance from UTC in seconds."""
    found = (
        _timeline(activity, offset),
        _tasks(activity, offset),
        _task_times(activity),
        _command_times(activity),
        _bytes(activity, offset),
        _tokens(activity, offset),
        _saves(activity, offset),
    )
    return tuple(plot for plot in found if plot is not None)


def _timeline(activity: Activity, offset: int) -> Plot | None:
    if not activity.marks:
        return None
    few = len(activity.marks) <= _SINGLE_MARKS
    encoding: Spec = {
        "x": _time(activity, offset, field="at"),
        "y": {
            "field": "kind",
            "type": "nominal",
            "sort": [kind for kind in KINDS if kind in activity.checkpoints.by_kind],
            "title": None,
            "axis": {"grid": True},
        },
    }
    mark: Spec = {"type": "tick", "thickness": 3, "size": 14, "cornerRadius": 1, "opacity": 0.9}
    rows = _marks(activity, offset) if few else _bubbles(activity, offset)
    if not few:
        mark = {"type": "circle", "opacity": 0.85}
        encoding["size"] = {
            "field": "count",
            "type": "quantitative",
            "legend": None,
            "scale": {"range": [16, 240]},
        }
    encoding["color"] = _colours(_COLOUR_OF, {str(row["group"]) for row in rows})
    how = "one mark each" if few else "the larger the circle, the more"
    says = f"{count(activity.checkpoints.total, 'checkpoint')} by kind, {how}."
    return _plot("Checkpoints over time", says, rows, mark, encoding, height={"step": 25})


def _marks(activity: Activity, offset: int) -> list[Spec]:
    return [
        {
            "at": _local(one.at, offset),
            "kind": one.kind,
            "group": _FAMILY_OF[one.kind],
            "says": safe(f"{short(one.id)} {one.kind} {one.title}".rstrip()),
        }
        for one in activity.marks
    ]


def _bubbles(activity: Activity, offset: int) -> list[Spec]:
    return [
        {
            "at": _local((one.start + one.end) // 2, offset),
            "kind": kind,
            "group": _FAMILY_OF[kind],
            "count": amount,
            "says": f"{amount:,} {kind}",
        }
        for one in activity.buckets
        for kind, amount in one.kinds.items()
    ]


def _tasks(activity: Activity, offset: int) -> Plot | None:
    rows = []
    for one in activity.buckets:
        low = 0
        for state, amount in (("done", one.tasks_done), ("failed", one.tasks_failed)):
            if amount:
                rows.append({**_bar(one, offset, amount, f"{amount:,} {state}", low=low), "group": state})
            low += amount
    if not rows:
        return None
    says = f"{activity.tasks.done:,} done and {activity.tasks.failed:,} failed, by when they ended."
    encoding = _bars(activity, offset, rows, _COUNT)
    encoding["color"] = _colours(_STATES, {str(row["group"]) for row in rows})
    return _plot("Tasks over time", says, rows, _BAR, encoding)


def _task_times(activity: Activity) -> Plot | None:
    timed = [(one.seconds, one.task.id, one.task.state) for one in activity.worked if one.seconds is not None]
    return _durations("task", timed)


def _command_times(activity: Activity) -> Plot | None:
    timed = [(one.seconds, one.command, one.state) for one in activity.commands if one.seconds is not None]
    return _durations("command", timed)


def _durations(noun: str, found: Sequence[tuple[float, str, str]]) -> Plot | None:
    """Return the longest of what took some seconds, has a name and came to a state."""
    if not found:
        return None
    timed = sorted(found, key=lambda one: (-one[0], one[1]))
    rows: list[Spec] = []
    names: dict[str, int] = {}
    for seconds, named, state in timed[:_LONGEST]:
        name = safe(named)
        names[name] = names.get(name, 0) + 1
        shown = name if names[name] == 1 else f"{name} ({names[name]})"
        says = f"{shown}: {seconds:,.0f} s, {_words(state)}"
        rows.append({"task": shown, "count": seconds, "group": state, "says": says})
    encoding: Spec = {
        "y": {"field": "task", "type": "nominal", "sort": [row["task"] for row in rows], "title": None},
        "x": _amount("count", timed[0][0], _SECONDS),
        "color": _colours(_STATES, {str(row["group"]) for row in rows}),
    }
    which = "" if len(timed) <= _LONGEST else f"; the longest {_LONGEST} of {len(timed)}"
    mark: Spec = {"type": "bar", "cornerRadius": 3, "height": {"band": 0.66}}
    says = f"From the start of a {noun}'s last attempt to its end{which}."
    return _plot(f"How long {noun}s took", says, rows, mark, encoding, height={"step": 25})


def _bytes(activity: Activity, offset: int) -> Plot | None:
    rows = [
        _bar(one, offset, one.stored_bytes, f"{one.stored_bytes:,} bytes")
        for one in activity.buckets
        if one.stored_bytes
    ]
    return _series(activity, offset, rows, _BYTES, ("Bytes stored", "What saves added to the store.", "blue"))


def _tokens(activity: Activity, offset: int) -> Plot | None:
    rows = [_bar(one, offset, one.tokens, f"{one.tokens:,} tokens") for one in activity.buckets if one.tokens]
    says = f"{activity.tokens or 0:,} tokens, as they were told with the saves."
    return _series(activity, offset, rows, _COUNT, ("Tokens used", says, "violet"))


def _saves(activity: Activity, offset: int) -> Plot | None:
    rows = [
        _bar(one, offset, one.save_ms, f"{one.save_ms:,.0f} ms") for one in activity.buckets if one.save_ms
    ]
    says = f"The mean of each stretch of time; the slowest of all took {activity.saves.slowest_ms:,.0f} ms."
    return _series(activity, offset, rows, _MILLISECONDS, ("How long saves took", says, "amber"))


def _series(
    activity: Activity, offset: int, rows: Sequence[Spec], units: Units, words: tuple[str, str, str]
) -> Plot | None:
    """Return bars over time of one colour; ``words`` are title, sentence and colour."""
    if not rows:
        return None
    title, says, colour = words
    encoding = _bars(activity, offset, rows, units)
    return _plot(title, says, rows, {**_BAR, "color": f"var(--{colour})"}, encoding)


def _plot(
    title: str, says: str, rows: Sequence[Spec], mark: Spec, encoding: Spec, *, height: object = 150
) -> Plot:
    wide, narrow = (draw(rows, mark, encoding, height=height, width=width) for width in (WIDE, NARROW))
    return Plot(title=title, says=says, wide=wide, narrow=narrow)


def _bars(activity: Activity, offset: int, rows: Sequence[Spec], units: Units) -> Spec:
    top = max(float(str(row["high"])) for row in rows)
    return {
        "x": _time(activity, offset, field="start"),
        "x2": {"field": "end"},
        "y": _amount("high", top, units),
        "y2": {"field": "low"},
    }


def _bar(bucket: Bucket, offset: int, amount: float, says: str, *, low: float = 0) -> Spec:
    start, end = _local(bucket.start, offset), _local(bucket.end, offset)
    return {
        "start": start,
        "end": end - (end - start) // 10,  # bars beside each other keep apart
        "low": low,
        "high": low + amount,
        "says": says,
    }


def _amount(field: str, top: float, units: Units) -> Spec:
    """Return an axis of amounts from nothing to ``top``, its marks at round numbers of their unit."""
    factor, unit = next((one for one in units if top >= one[0]), units[-1])
    least = max(top / factor / _MARKS, 1e-9)
    steps = (step for step in _DECIMAL if step >= least)
    step = next(steps, least)
    marks = [number * step * factor for number in range(_MARKS + 1) if (number - 1) * step * factor < top]
    axis = {
        "values": marks,
        "labelExpr": f"datum.value ? format(datum.value / {factor}, ',') + '{unit}' : '0'",
    }
    scale = {"domain": [0, marks[-1]], "nice": False}
    return {
        "field": field,
        "type": "quantitative",
        "title": None,
        "axis": axis,
        "scale": scale,
        "stack": None,
    }


def _time(activity: Activity, offset: int, *, field: str) -> Spec:
    """Return the axis of time: the same for all plots, so that they can be read one below the other."""
    start, end = _local(activity.buckets[0].start, offset), _local(activity.buckets[-1].end, offset)
    # A bar as wide as the page says nothing: little time is shown amid some more.
    spare = max(0, _LEAST_BUCKETS - len(activity.buckets)) * ((end - start) // len(activity.buckets)) // 2
    span = [start - spare, end + spare]
    return {
        "field": field,
        "type": "temporal",
        "scale": {"type": "utc", "domain": span, "nice": False},
        "title": None,
        "axis": {"grid": False, "labelOverlap": True, "format": _CLOCK},
    }


def _colours(known: dict[str, str], present: set[str]) -> Spec:
    shown = {name: colour for name, colour in known.items() if name in present}
    scale = {"domain": list(shown), "range": list(shown.values())}
    return {"field": "group", "type": "nominal", "scale": scale}


def _local(at: int, offset: int) -> int:
    """Return a moment in milliseconds that, read as UTC, shows the local time."""
    return at // _MILLION + offset * 1000


# --- A report as one HTML page: everything in it, nothing loaded, nothing run ---

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
_ROWS = 200
_NOTHING = "\u2013"


def page(activity: Activity, *, offset: int) -> str:
    """Return a report as HTML; ``offset`` is the local time's distance from UTC in seconds.

    Raises `Unsupported` if the libraries are not installed.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise Unsupported("a page needs the library Jinja2", hint=INSTALL) from None
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "safe_text": safe,
        "plain": printable,
        "words": _words,
        "said": _said,
        "size": _size,
        "span": _span,
        "moment": lambda at: _moment(at, offset),
        "percent": lambda ratio: _NOTHING if ratio is None else f"{ratio:.0%}",
        "number": lambda amount: _NOTHING if amount is None else f"{amount:,}",
    }
    return environment.get_template("page.html").render(
        activity=activity,
        plots=plots(activity, offset=offset),
        period=SPANS[activity.period],
        states=_said(session_states(activity)),
        commands=command_states(activity),
        rows=_ROWS,
    )


def _said(states: Mapping[Any, int]) -> str:
    return ", ".join(f"{amount} {_words(state)}" for state, amount in states.items() if amount)


def _words(state: str) -> str:
    return state.replace("-", " ")


def _size(amount: int) -> str:
    power = min(len(_SIZES) - 1, max(0, amount.bit_length() - 1) // 10)
    return f"{amount / (1 << 10 * power):.3g} {_SIZES[power]}" if power else f"{amount} B"


def _span(seconds: float | None) -> str:
    if seconds is None:
        return _NOTHING
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes = int(seconds) // 60
    days, hours = minutes // 1440, minutes // 60 % 24
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min {int(seconds) % 60} s"


def _moment(at: int | None, offset: int) -> str:
    return _NOTHING if at is None else iso(at + offset * 10**9)[:16].replace("T", " ")
