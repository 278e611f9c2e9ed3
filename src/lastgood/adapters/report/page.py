"""A report as one HTML page: everything in it, nothing loaded, nothing run."""

from __future__ import annotations

import os

from lastgood.adapters.report.drawing import INSTALL, safe
from lastgood.adapters.report.plots import plots
from lastgood.codec.moment import iso
from lastgood.errors import Unsupported
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.activity import Activity

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_SPANS = {"day": "the last day", "week": "the last 7 days", "month": "the last 30 days", "all": "all time"}
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
        "size": _size,
        "span": _span,
        "moment": lambda at: _moment(at, offset),
        "percent": lambda ratio: _NOTHING if ratio is None else f"{ratio:.0%}",
        "number": lambda amount: _NOTHING if amount is None else f"{amount:,}",
    }
    return environment.get_template("page.html").render(
        activity=activity,
        plots=plots(activity, offset=offset),
        period=_SPANS[activity.period],
        states=_states(activity),
        rows=_ROWS,
    )


def _states(activity: Activity) -> str:
    counts = {
        state: sum(one.report.state == state for one in activity.sessions)
        for state in ("active", "ended", "incomplete")
    }
    return ", ".join(f"{amount} {state}" for state, amount in counts.items() if amount)


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
