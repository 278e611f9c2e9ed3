"""The forms of settings: how a value is written, and whether it is one."""

from __future__ import annotations

from lastgood.errors import Invalid
from lastgood.rules.quantity import parse_duration, parse_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    Form = Literal["texts", "text", "size", "duration", "count", "flag", "choice", "choices", "rungs"]

RUNGS = ("last", "hourly", "daily")
# Beyond that nothing is a setting but a slip: a century, and what SQLite counts.
_LONGEST = 100 * 365.25 * 86_400
_MOST = (1 << 63) - 1
_FLAGS = {"true": True, "1": True, "yes": True, "on": True} | {
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}


def from_text(raw: object, form: Form) -> object:
    """Return what a text (an environment variable) says, still to be looked at by `typed`."""
    text = str(raw)
    if form in {"texts", "choices"}:
        return [item.strip() for item in text.split(",") if item.strip()]
    if form == "count":
        return _number(text)
    if form == "flag":
        return _FLAGS.get(text.strip().lower(), text)
    if form == "rungs":
        return _rungs_from_text(text)
    return text


def _number(text: str) -> object:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text


def _rungs_from_text(text: str) -> object:
    """Read ``last=100,hourly=24,daily=14``; a number alone is how many of the newest stay."""
    if "=" not in text:
        return {"last": _number(text.strip())}
    pairs = [part.partition("=") for part in text.split(",")]
    names = [name.strip() for name, _, _ in pairs]
    if len(set(names)) != len(names):
        return text
    return {name.strip(): _number(amount.strip()) for name, _, amount in pairs}


def typed(form: Form, raw: object, *, choices: Sequence[str] = ()) -> object | None:
    """Return a value in its own type, None if it is of a wrong one."""
    if form in {"texts", "choices"}:
        return _texts(raw, choices)
    if form in {"size", "duration"}:
        return _quantity(raw, form=form)
    if form == "count":
        return raw if _is_count(raw, least=1) else None
    if form == "flag":
        return raw if isinstance(raw, bool) else None
    if form == "rungs":
        return _rungs(raw)
    allowed = isinstance(raw, str) and raw and _plain(raw) and (not choices or raw in choices)
    return raw if allowed else None


def wanted(form: Form, choices: Sequence[str]) -> str:
    """Say what a value of a form looks like."""
    return {
        "texts": "a list of texts",
        "text": "a text",
        "size": 'a size above 0, for example "32MiB"',
        "duration": 'a duration above 0, for example "15m"',
        "count": "a whole number above 0",
        "flag": "true or false",
        "choice": "one of: " + ", ".join(choices),
        "choices": "a list of some of: " + ", ".join(choices),
        "rungs": "a table of whole numbers, one of them above 0: " + ", ".join(RUNGS),
    }[form]


def _texts(raw: object, choices: Sequence[str]) -> object | None:
    if not isinstance(raw, list) or not all(isinstance(item, str) and item and _plain(item) for item in raw):
        return None
    if choices and not set(raw) <= set(choices):
        return None
    return tuple(raw)


def _plain(text: str) -> bool:
    """Tell whether a text is one line: a pattern with a line break would be two."""
    return not any(sign in text for sign in "\0\n\r")


def _quantity(raw: object, *, form: str) -> object | None:
    if form == "size" and _is_count(raw, least=1):
        return raw
    if not isinstance(raw, str):
        return None
    try:
        amount = parse_size(raw) if form == "size" else parse_duration(raw)
    except Invalid:
        return None
    return amount if 0 < amount <= (_MOST if form == "size" else _LONGEST) else None


def _rungs(raw: object) -> object | None:
    if not isinstance(raw, dict) or not set(raw) <= set(RUNGS):
        return None
    good = all(_is_count(item, least=0) for item in raw.values())
    # Nothing but zeros would mean to keep none: that is said by deleting, not by a table (rule K2).
    return dict(raw) if good and any(raw.values()) else None


def _is_count(raw: object, *, least: int) -> bool:
    return isinstance(raw, int) and not isinstance(raw, bool) and least <= raw <= _MOST
