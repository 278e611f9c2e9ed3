"""Moments as nanoseconds since the epoch, and as ISO 8601 text in UTC, without ``datetime``.

The calendar arithmetic is that of the proleptic Gregorian calendar with eras of 400 years.
"""

from __future__ import annotations

_DAY = 86_400
_NANO = 1_000_000_000


def iso(nanoseconds: int) -> str:
    """Return a moment as ``YYYY-MM-DDTHH:MM:SS.mmmZ`` (milliseconds, cut off)."""
    seconds, rest = divmod(nanoseconds, _NANO)
    days, in_day = divmod(seconds, _DAY)
    year, month, day = civil(days)
    hour, in_hour = divmod(in_day, 3600)
    minute, second = divmod(in_hour, 60)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{rest // 1_000_000:03}Z"


def civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a number of days since 1970-01-01."""
    shifted = days + 719_468
    era, of_era = divmod(shifted, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    march_month = (5 * of_year + 2) // 153
    day = of_year - (153 * march_month + 2) // 5 + 1
    month = march_month + 3 if march_month < 10 else march_month - 9
    year = year_of_era + era * 400 + (month <= 2)
    return year, month, day


def days(year: int, month: int, day: int) -> int:
    """Return the number of days since 1970-01-01, undoing `civil`."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + of_year
    return era * 146_097 + of_era - 719_468
