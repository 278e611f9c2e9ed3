"""The grammar of REF: text in, a typed wish out; what exists is the view's business."""

from __future__ import annotations

from lastgood.errors import Invalid, Usage
from lastgood.ids import id_prefix, is_checkpoint_id, name_fault
from lastgood.names import printable
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Form = Literal[
        "id", "name", "latest", "good", "start", "back", "ago", "at", "task", "before-task", "step"
    ]

_NANO = 1_000_000_000
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_HINT = "see: lastgood help refs"


class Reference(Value):
    """What a REF asks for.

    ``text`` is a whole id, a name that may also be the beginning of an id (``digits``), a task or a
    step. ``number`` is how many checkpoints back (``back``), how many nanoseconds ago (``ago``), or the
    moment in nanoseconds since the epoch (``at``): the last one of the second, or fraction, that was given.
    """

    form: Form
    text: str = ""
    digits: str | None = None
    number: int = 0


def parse(ref: str) -> Reference:
    """Return what a REF asks for.

    Raises `Usage` for an empty one or one that looks like an option, `Invalid` for one that no
    checkpoint could ever match.
    """
    if not ref:
        raise Usage("a checkpoint reference is empty", hint=_HINT)
    if ref.startswith("-"):
        raise Usage(
            f"'{printable(ref)}' looks like an option, not like a checkpoint",
            hint="a reference is an id, a name, or one of @ @~N @good @{2h}",
        )
    if is_checkpoint_id(ref):
        return Reference(form="id", text=ref)
    if ref in {"@", "latest"}:
        return Reference(form="latest")
    if ref.startswith("@"):
        return _special(ref)
    for prefix, form in _PREFIXES:
        if ref.startswith(prefix):
            return _labelled(ref, prefix, form)
    return _name_or_prefix(ref)


_PREFIXES: tuple[tuple[str, Form], ...] = (
    ("task:", "task"),
    ("before:task:", "before-task"),
    ("step:", "step"),
)


def _labelled(ref: str, prefix: str, form: Form) -> Reference:
    label = ref.removeprefix(prefix)
    if not label or not label.isprintable():
        raise Invalid(f"'{printable(ref)}' names nothing after {prefix!r}", hint=_HINT)
    return Reference(form=form, text=label)


def _special(ref: str) -> Reference:
    if ref == "@good":
        return Reference(form="good")
    if ref == "@start":
        return Reference(form="start")
    if ref.startswith("@~") and ref[2:].isascii() and ref[2:].isdigit():
        return Reference(form="back", number=min(int(ref[2:12]), 10**6))
    if ref.startswith("@{") and ref.endswith("}"):
        inner = ref[2:-1]
        span = duration(inner)
        if span is not None:
            return Reference(form="ago", number=span)
        moment = timestamp(inner)
        if moment is not None:
            return Reference(form="at", number=moment + _grain(inner) - 1)
    raise Invalid(
        f"'{printable(ref)}' is no checkpoint reference",
        hint="forms with @: @ (latest), @~N, @good, @start, @{2h}, @{2026-11-21T10:00}",
    )


def _name_or_prefix(ref: str) -> Reference:
    digits = id_prefix(ref)
    fault = name_fault(ref)
    if fault is not None and digits is None:
        raise Invalid(f"'{printable(ref)}' cannot be a checkpoint: {fault}", hint=_HINT)
    return Reference(form="name", text=ref, digits=digits)


def duration(text: str) -> int | None:
    """Return a span such as ``90s``, ``15m``, ``2h``, ``7d``, ``1w`` in nanoseconds, None if it is none."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not number.isascii() or not number.isdigit() or len(number) > 9:
        return None
    return int(number) * _UNITS[unit] * _NANO


def timestamp(text: str) -> int | None:
    """Return an ISO 8601 moment in nanoseconds since the epoch, None if it is none.

    A moment without a zone is local time, as a person at the keyboard means it.
    """
    from datetime import datetime  # lazily: only this form pays for it

    try:
        moment = datetime.fromisoformat(text)
        return int(moment.replace(microsecond=0).timestamp()) * _NANO + moment.microsecond * 1000
    except (ValueError, OverflowError, OSError):
        return None


def _grain(text: str) -> int:
    """Return how long the shortest time is that a moment was given in, in nanoseconds.

    What is shown of a checkpoint's moment is cut off; as a REF it has to lead back to it.
    """
    digits = text.replace(",", ".").partition(".")[2]
    places = next((at for at, one in enumerate(digits) if not one.isdigit()), len(digits))
    return int(_NANO // 10 ** min(places, 6))
