"""Sizes and durations as people write them: ``32MiB``, ``5GB``, ``15m``, ``1h30m``."""

from __future__ import annotations

from lastgood.errors import Invalid

_SIZE_UNITS = {
    "": 1,
    "b": 1,
    "k": 1 << 10,
    "kib": 1 << 10,
    "kb": 10**3,
    "m": 1 << 20,
    "mib": 1 << 20,
    "mb": 10**6,
    "g": 1 << 30,
    "gib": 1 << 30,
    "gb": 10**9,
    "t": 1 << 40,
    "tib": 1 << 40,
    "tb": 10**12,
}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DIGITS = frozenset("0123456789")
_NUMERAL = frozenset("0123456789.")
# More digits than that are no amount of anything, and longer than Python converts.
_MOST_DIGITS = 18


def parse_size(text: str) -> int:
    """Return a number of bytes (``32MiB``, ``5GB``, ``4096``); `Invalid` if it is none."""
    number, unit = _split(text.strip())
    factor = _SIZE_UNITS.get(unit.strip().lower())
    amount = _amount(number)
    if factor is None or amount is None:
        raise Invalid(f"{text!r} is not a size", hint="write for example 32MiB, 5GB or 4096 (bytes)")
    return int(amount * factor)


def parse_duration(text: str) -> float:
    """Return a number of seconds (``2s``, ``15m``, ``1h30m``, ``7d``); `Invalid` if it is none."""
    total = 0.0
    rest = text.strip().lower()
    while rest:
        number, tail = _split(rest)
        unit = ""
        while len(unit) < len(tail) and tail[len(unit)].isalpha():
            unit += tail[len(unit)]
        amount = _amount(number)
        if amount is None or unit not in _SECONDS:
            break
        total += amount * _SECONDS[unit]
        rest = tail[len(unit) :]
    if rest or not text.strip():
        raise Invalid(f"{text!r} is not a duration", hint="write for example 500ms, 2s, 15m, 1h30m or 7d")
    return total


def _split(text: str) -> tuple[str, str]:
    length = 0
    while length < len(text) and text[length] in _NUMERAL:
        length += 1
    return text[:length], text[length:]


def _amount(number: str) -> float | None:
    whole, dot, fraction = number.partition(".")
    if not whole or (dot and not fraction) or "." in fraction or not _DIGITS.issuperset(whole + fraction):
        return None
    if len(number) > _MOST_DIGITS:
        return None
    return float(number) if dot else int(whole)


def span(seconds: float) -> str:
    """Return how long something was, by its largest unit."""
    for unit, word in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{int(seconds // unit)} {word}"
    return f"{int(seconds)} s"
