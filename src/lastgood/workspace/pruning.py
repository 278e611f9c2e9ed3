"""What a prune is asked for, as callers give it: a bad argument never widens it (rule K2)."""

from __future__ import annotations

from lastgood.actions.prune import Wish
from lastgood.errors import Usage
from lastgood.rules.retention import DAY, age_of
from lastgood.workspace.arguments import check_count, expect

_LONGEST_DAYS = 1_000_000


def wish(*, keep: int | None, older_than: str | float | None, now: bool) -> Wish:
    """Return a wish; `Usage` for a number below 1, or an age that is none or not above 0."""
    expect(now, bool, what="now")
    if keep is not None:
        check_count(keep, least=1, what="the number of checkpoints to keep")
    return Wish(keep=keep, older_than=None if older_than is None else _age(older_than), now=now)


def _age(given: str | float) -> int:
    expect(given, str, int, float, what="the age")
    if isinstance(given, str):
        return age_of(given)
    if not 0 < given <= _LONGEST_DAYS:  # also what is no number
        raise Usage(f"the age is {given}", hint="give a number of days above 0, or a text such as 12h")
    return int(given * DAY)


def refuse_more(*, keep: object, older_than: object, now: bool) -> None:
    """Refuse a verification that is to remove something as well."""
    if keep is not None or older_than is not None or now:
        raise Usage(
            "a prune that verifies removes nothing: it takes no number, no age and no now",
            hint="first lastgood prune --verify, then lastgood prune --keep N",
        )
