"""The manual page, made from the same table as the help: man(7) macros."""

from __future__ import annotations

import re

from lastgood.cli.help import ENVIRONMENT, EXIT_CODES, GROUPS, REFS, VERSION, argument_row, option_row
from lastgood.cli.table import GLOBAL_OPTIONS, spellings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lastgood.cli.grammar import Verb

# Rows in the texts of the help: what is explained, its words two columns or more further on, or below.
_ROW = re.compile(r"(?:  )?(\S+(?: \S+)*)  +(\S.*)\Z")
_NAME = re.compile(r"  \S+(?: \S+)*\Z")
_SAYS = "checkpoints of a workspace, and safe ways back to them"


def manual() -> str:
    """Return the page as troff reads it."""
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    yield f'.TH LASTGOOD 1 "" "lastgood {VERSION}" "User Commands"'
    yield from (".SH NAME", f"lastgood \\- {_text(_SAYS)}", ".SH SYNOPSIS")
    yield from (".B lastgood", _text("[-C DIR] [--store DIR] VERB ..."))
    yield from (".SH DESCRIPTION", *_described())
    yield ".SH OPTIONS OF EVERY VERB"
    yield from _rows(option_row(option) for option in GLOBAL_OPTIONS)
    known = spellings()
    for heading, names in GROUPS:
        yield f'.SH "{_text(heading.upper())}"'
        for name in names:
            yield from _verb(known[name])
    yield from (".SH HOW TO NAME A CHECKPOINT", *_of_text(REFS))
    yield ".SH EXIT STATUS"
    yield from _rows((str(code), says) for code, says in EXIT_CODES.items())
    yield from (".SH ENVIRONMENT", *_of_text(ENVIRONMENT))


def _described() -> Iterator[str]:
    yield _text(
        "lastgood takes checkpoints of a folder in which coding agents work: its files, the conversation,"
    )
    yield _text(
        "the progress and the project's git state, at one moment and under one id. It brings any of them"
    )
    yield _text(
        "back, together or apart, also after a crash and into a folder that somebody has edited since."
    )
    yield from (
        ".PP",
        _text(
            "Start with `lastgood save`, look with `lastgood list`, and go back with `lastgood restore @`."
        ),
    )


def _verb(verb: Verb) -> Iterator[str]:
    yield f'.SS "lastgood {_text(verb.usage)}"'
    yield _text(f"{verb.says[:1].upper()}{verb.says[1:]}.")
    if verb.spellings:
        yield from (".PP", _text(f"Also spelled: {', '.join(verb.spellings)}."))
    if verb.about:
        yield from _paragraphs(verb.about)
    yield from _rows(row for row in map(argument_row, verb.arguments) if row[1])
    yield from _rows(option_row(option) for option in verb.options)
    if verb.examples:
        yield from (".PP", "Examples:")
        yield from _rows(verb.examples)
    if verb.codes:
        yield from (".PP", _text(f"Exit codes: {', '.join(map(str, verb.codes))}."))


def _paragraphs(text: str) -> Iterator[str]:
    """Yield a text: what is set in two columns as rows, all else as running words."""
    yield ".PP"
    in_row = False
    for line in text.split("\n"):
        row = _ROW.match(line)
        if row is not None:
            yield from _rows([(row[1], row[2])])
        elif _NAME.match(line):  # its words stand on the lines below
            yield from (".TP", f'.B "{_text(line.strip())}"')
        else:
            if not line.strip() or (in_row and not line.startswith(" ")):
                yield ".PP"
            if line.strip():
                yield _text(line.strip())
        in_row = row is not None or (in_row and line.startswith(" ")) or _NAME.match(line) is not None


def _of_text(text: str) -> Iterator[str]:
    """Yield a topic of the help but for its heading."""
    yield from _paragraphs(text.partition("\n")[2].strip("\n"))


def _rows(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, says in rows:
        yield from (".TP", f'.B "{_text(name)}"', _text(says) or "\\&")


def _text(text: str) -> str:
    """Return a text that troff shows as it is."""
    shown = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("'", "\\(aq")
    shown = shown.replace("`", "\\(ga").replace("^", "\\(ha").replace("~", "\\(ti")
    return f"\\&{shown}" if shown.startswith(".") else shown
