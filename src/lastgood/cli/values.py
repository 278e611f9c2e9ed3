"""Option values as typed values; a bad one is a usage error that shows the right form (rule K2)."""

from __future__ import annotations

from lastgood.errors import Invalid, Usage
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call


def number(text: str, *, what: str) -> int:
    """Return a whole number of at least 1."""
    if text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0:
        return int(text)
    raise Usage(f"{what} is a whole number of at least 1, not '{printable(text)}'", hint="for example 10")


def number_option(call: Call, option: str) -> int | None:
    """Return the whole number given for an option, None where it was not given."""
    text = call.text(option)
    return None if text is None else number(text, what=f"--{option}")


def count_option(call: Call, option: str) -> int | None:
    """Return the number given for an option that counts something, from 0 on."""
    text = call.text(option)
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 15:
        return int(text)
    raise Usage(f"--{option} is a whole number, not '{printable(text)}'", hint=f"for example --{option} 1200")


_EVERYWHERE = frozenset({"directory", "store", "allow-root", "json", "quiet", "help", "set"})


def only(call: Call, *, takes: frozenset[str]) -> None:
    """Refuse the options of a verb that do not fit its action."""
    for option in call.options:
        if option not in takes and option not in _EVERYWHERE:
            words = f"{call.verb.name} {call.argument(0) or ''}".rstrip()
            fitting = ", ".join(f"--{one}" for one in sorted(takes)) or "none of its own"
            raise Usage(f"`{words}` does not take --{option}", hint=f"its options: {fitting}")


def seconds_option(call: Call, option: str) -> float | None:
    """Return the duration given for an option, in seconds."""
    text = call.text(option)
    if text is None:
        return None
    from lastgood.rules.quantity import parse_duration

    try:
        return parse_duration(text)
    except Invalid as error:
        raise Usage(f"--{option}: {printable(error.message)}", hint=error.hint) from error


def moment_option(call: Call, option: str, *, now: int) -> int | None:
    """Return the moment given for an option (``2h`` ago, or ISO 8601), in nanoseconds."""
    text = call.text(option)
    if text is None:
        return None
    from lastgood.rules.reference import duration, timestamp

    span = duration(text)
    moment = now - span if span is not None else timestamp(text)
    if moment is None:
        raise Usage(
            f"--{option}: '{printable(text)}' is no time", hint="write for example 2h, 7d or 2026-11-21T10:00"
        )
    return moment


def pairs_option(call: Call, option: str) -> dict[str, str]:
    """Return the ``KEY=VALUE`` pairs given for a repeatable option."""
    pairs: dict[str, str] = {}
    for text in call.texts(option):
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise Usage(
                f"--{option} takes KEY=VALUE, not '{printable(text)}'",
                hint=f"for example --{option} ticket=ABC-12",
            )
        if key in pairs and pairs[key] != value:
            raise Usage(
                f"--{option} gives '{printable(key)}' twice, with different values", hint="give it once"
            )
        pairs[key] = value
    return pairs
