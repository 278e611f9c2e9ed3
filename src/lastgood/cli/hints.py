"""Hints: what to type next, for the workspace and the store that were given."""

from __future__ import annotations

from lastgood.cli.grammar import NAME, program
from lastgood.paths import printable, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Sequence

    from lastgood.cli.grammar import Call
    from lastgood.model.checkpoint import HealthNote


# A word as `quoted` and `shlex.quote` write it.
WORD = r"""(?:\$'(?:[^'\\]|\\.)*'|'[^']*'|"[^"]*"|\\.|[^\s'"\\])+"""


def hint_lines(text: str, call: Call | None) -> list[str]:
    """Return a hint as lines to be shown, its commands completed."""
    return [printable(line) for line in typable(completed(text, call)).split("\n")]


def note_lines(notes: Sequence[HealthNote], call: Call | None) -> Iterator[tuple[str, bool]]:
    """Yield what notes say, each with whether it is no hint; one that is the same for several comes once."""
    for place, note in enumerate(notes):
        yield printable(note.message), True
        if note.hint and all(after.hint != note.hint for after in notes[place + 1 : place + 2]):
            yield from ((line, False) for line in hint_lines(note.hint, call))


def typable(text: str) -> str:
    """Return a text whose commands can be typed where the program was started."""
    name = program() if f"{NAME} " in text else NAME
    if name == NAME:
        return text
    import re  # lazily: who starts it by its name pays nothing

    from lastgood.cli.table import spellings

    words = "|".join((*map(re.escape, spellings()), "-C", "--store"))
    command = re.compile(rf"(?<![\w./-])(?<!-m ){NAME} (?=(?:{words})(?![\w-]))")
    return command.sub(lambda _: f"{name} ", text)


def completed(text: str, call: Call | None) -> str:
    """Return a hint whose commands are for the workspace and the store that a call was given."""
    if call is None or not (call.has("directory") or call.has("store")):
        return text
    import re  # lazily: only what is told beside the data pays for it

    from lastgood.cli.table import spellings

    options = rf"(?: -C (?P<folder>{WORD}))?(?: --store (?P<store>{WORD}))?"
    command = re.compile(rf"\blastgood{options} (?=(?:{'|'.join(spellings())})\b)")
    return command.sub(lambda found: _whole(found, call), text)


def completed_within(said: object, call: Call) -> object:
    """Return what a program is told with each hint in it completed; notes are their author's."""
    if isinstance(said, dict):
        return {
            key: completed(value, call)
            if key == "hint" and isinstance(value, str)
            else value
            if key == "metadata"
            else completed_within(value, call)
            for key, value in said.items()
        }
    return [completed_within(one, call) for one in said] if isinstance(said, list | tuple) else said


def _whole(found: re.Match[str], call: Call) -> str:
    words = ["lastgood"]
    for option, spelling, group in (("directory", "-C", "folder"), ("store", "--store", "store")):
        value, given = found[group], call.text(option)
        if value is not None or given is not None:
            words += [spelling, value or quoted(given or "")]
    return " ".join(words) + " "
