"""Reads the values of a work plan by their forms; each says what is wrong with it, and what to write."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lastgood.codec.workplan_forms import (
    COMMAND_LIMIT,
    COUNT_LIMIT,
    CWD_PATTERN,
    DURATION_PATTERN,
    ID_LIMIT,
    ID_PATTERN,
    PATTERNS_LIMIT,
    RESERVED_VARIABLES,
    SECONDS_LIMIT,
    TEXT_LIMIT,
    VARIABLE_PATTERN,
)
from lastgood.names import printable
from lastgood.rules.nearest import nearest
from lastgood.rules.quantity import parse_duration
from lastgood.rules.workplan import text_fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.codec.workplan_forms import Key
    from lastgood.model.workplan import Command

    # Where something stands in a plan: keys, and places in lists.
    Path = tuple[str | int, ...]

_SHOWN = 60
# Python writes no number of more than 4,300 digits.
_BITS_WRITTEN = 10_000
_BLANK = " \t\r\n"


class Wrong(ValueError):
    """A value is not of its form; ``path`` leads to it from the value that was to be read."""

    def __init__(self, says: str, *, hint: str = "", path: Path = ()) -> None:
        super().__init__(says)
        self.says = says
        self.hint = hint
        self.path = path


def read_value(value: object, key: Key) -> object:
    """Return a value as its key's form has it; `Wrong` if it is not of that form."""
    return _FORMS[key.form](value, key)


def wrong(value: object, wanted: str, *, hint: str = "", path: Path = ()) -> Wrong:
    """Return the error for a value of another form than the wanted one."""
    if not hint and wanted == "a text" and isinstance(value, int | float):
        hint = "write it in quotes"
    return Wrong(f"has to be {wanted}; it is {_kind(value)}", hint=hint, path=path)


def did_you_mean(word: object, known: tuple[str, ...]) -> str:
    """Return the hint that names what was probably meant; nothing if nothing is near."""
    close = nearest(word, known) if isinstance(word, str) and len(word) <= _SHOWN else ()
    return f"did you mean {close[0]}?" if close else ""


def shown(value: object) -> str:
    """Return a value as it may be shown, cut where it is long."""
    if isinstance(value, int) and value.bit_length() > _BITS_WRITTEN:
        return "of too many digits"
    text = printable(value if isinstance(value, str) else str(value))
    text = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return f"'{text}'" if isinstance(value, str) else text


def _kind(value: object) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "keys with values"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str):
        return f"the text {shown(value)}"
    return f"the number {shown(value)}" if isinstance(value, int | float) else f"a {type(value).__name__}"


def _id(value: object, _key: Key) -> str:
    if not isinstance(value, str):
        raise wrong(value, "a text")
    if not re.search(ID_PATTERN, value):
        hint = f"an id has 1 to {ID_LIMIT} letters, digits, '.', '_' and '-', the first a letter or digit"
        raise Wrong(f"{shown(value)} cannot be an id", hint=hint)
    return value


def _each(value: object, key: Key, *, what: str, read: Callable[[object, Key], str]) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise wrong(value, f"a list of {what}")
    found = []
    for index, item in enumerate(value):
        try:
            found.append(read(item, key))
        except Wrong as fault:
            raise Wrong(fault.says, hint=fault.hint, path=(index,)) from None
    return tuple(found)


def _ids(value: object, key: Key) -> tuple[str, ...]:
    return _each(value, key, what="ids", read=_id)


def _texts(value: object, key: Key) -> tuple[str, ...]:
    found = _each(value, key, what="texts", read=_text)
    if len(found) > PATTERNS_LIMIT:
        raise Wrong(f"has {len(found)} texts; the limit is {PATTERNS_LIMIT}")
    return found


def _text(value: object, _key: Key) -> str:
    if not isinstance(value, str):
        raise wrong(value, "a text")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise Wrong("is no Unicode text", hint="write it as UTF-8")
    return _bounded(_filled(value), TEXT_LIMIT)


def _command(value: object, key: Key) -> Command:
    if isinstance(value, str):
        return _bounded(_filled(value, missing="there is no command"), COMMAND_LIMIT)
    if not isinstance(value, list | tuple):
        raise wrong(value, "a command: a text, or a list of words")
    words = _each(value, key, what="words", read=_word)
    if not words or not words[0].strip(_BLANK):
        raise Wrong("there is no command", hint="write the program's name, then its arguments")
    return words


def _word(value: object, _key: Key) -> str:
    """Return what a program is given: a text, or a whole number as it is written."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= _BITS_WRITTEN:
        return str(value)
    if not isinstance(value, str):
        raise wrong(value, "a text")
    return _bounded(value, COMMAND_LIMIT)


def _filled(text: str, *, missing: str = "is empty") -> str:
    if not text.strip(_BLANK):
        raise Wrong(missing, hint="write something, or take the key away")
    return text


def _bounded(text: str, limit: int) -> str:
    if len(text) > limit:
        raise Wrong(f"has {len(text)} characters; the limit is {limit}", hint="keep long texts in a file")
    fault = text_fault(text)
    if fault:
        raise Wrong(fault, hint="no program can be given that")
    return text


def _count(value: object, _key: Key) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= COUNT_LIMIT:
        raise wrong(value, f"a whole number from 0 to {COUNT_LIMIT}")
    return value


def _duration(value: object, _key: Key) -> float:
    seconds = 0.0
    if isinstance(value, str) and re.search(DURATION_PATTERN, value):
        seconds = parse_duration(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value
    if not 0 < seconds <= SECONDS_LIMIT:
        raise wrong(value, "a time of more than 0 seconds and at most a week: 90, 90s, 15m, 1h30m")
    return float(seconds)


def _flag(value: object, _key: Key) -> bool:
    if not isinstance(value, bool):
        raise wrong(value, "true or false")
    return value


def _choice(value: object, key: Key) -> str:
    if not isinstance(value, str) or value not in key.choices:
        raise wrong(value, f"one of {', '.join(key.choices)}", hint=did_you_mean(value, key.choices))
    return value


def _env(value: object, key: Key) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise wrong(value, "variables with values")
    found: dict[str, str] = {}
    for name, item in value.items():
        path = (name if isinstance(name, str) else str(name),)
        if not isinstance(name, str) or not re.search(VARIABLE_PATTERN, name) or text_fault(name):
            raise Wrong("cannot be the name of a variable", hint="a name has no '=' and no NUL", path=path)
        if name in RESERVED_VARIABLES:
            raise Wrong("is set by the runner itself", hint="take it away", path=path)
        try:
            found[name] = _word(item, key)
        except Wrong as fault:
            raise Wrong(fault.says, hint=fault.hint, path=path) from None
    return found


def _cwd(value: object, _key: Key) -> str:
    """Return a folder without needless parts; the workspace itself is ``.``."""
    if not isinstance(value, str):
        raise wrong(value, "a text")
    if not re.search(CWD_PATTERN, value):
        hint = "write it relative to the workspace, without a leading '/' and without '..'"
        raise Wrong(f"{shown(value)} is no folder of the workspace", hint=hint)
    _bounded(value, TEXT_LIMIT)
    return "/".join(part for part in value.split("/") if part not in {"", "."}) or "."


_FORMS: dict[str, Callable[[object, Key], object]] = {
    "id": _id,
    "ids": _ids,
    "text": _text,
    "texts": _texts,
    "command": _command,
    "count": _count,
    "duration": _duration,
    "flag": _flag,
    "choice": _choice,
    "env": _env,
    "cwd": _cwd,
}
