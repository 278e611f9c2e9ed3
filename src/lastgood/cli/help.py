"""Help for people, made from the table."""

from __future__ import annotations

import os

from lastgood.cli.table import GLOBAL_OPTIONS, all_verbs, spellings, verb_of
from lastgood.cli.wording import pairs, wrapped
from lastgood.errors import Usage
from lastgood.paths import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Argument, Option, Verb
    from lastgood.cli.opening import Console


_NARROW = 20
EXIT_CODES = {
    0: "done",
    1: "internal fault; or the disk: read-only, failing",
    2: "usage: the command line is wrong, nothing was done",
    3: "done with omissions (new gaps; skipped or failed files or tasks)",
    10: "not found",
    11: "ambiguous",
    12: "invalid value",
    13: "conflict: something changed since, or another session holds the workspace",
    14: "busy: another process is at work, a restore waits for `lastgood recover`, or a disk is full",
    15: "unsafe, refused",
    16: "damaged",
    17: "unsupported",
    130: "interrupted, or the question was answered with no",
    143: "ended by SIGTERM",
}
GROUPS = (
    ("Go back", ("restore", "rewind", "undo", "redo", "recover")),
    ("Make and look", ("save", "watch", "list", "show", "diff", "log", "blame", "cat", "status")),
    ("Carry work out", ("run", "install", "uninstall", "mcp")),
    ("Say how the work stands", ("session", "task", "feature", "sprint", "progress")),
    (
        "Keep and check",
        ("name", "pin", "unpin", "check", "delete", "prune", "purge", "verify", "maintain", "workspace"),
    ),
    ("Take elsewhere", ("export", "import")),
    ("About lastgood itself", ("report", "config", "doctor", "completion", "help")),
)
# What most who ask for help look for.
_FIRST = (
    ("lastgood", "where you are, and what to type next"),
    ("lastgood restore", "go back: pick a checkpoint from a list"),
    ("lastgood restore PATH", "bring one file or folder back"),
    ("lastgood rewind 2", "take an agent's last two turns, or runs, back"),
    ("lastgood undo", "take the last restore back"),
    ("lastgood save MESSAGE", "keep everything as it is now"),
)
REFS = """\
How to name a checkpoint (REF)

  @                    where the workspace stands: saved last, or restored to
                       as a whole (one of some paths leaves it)
  @~N                  N before that; so before any: cleanup~1, @good^, latest~2
  latest               the newest complete one that no restore saved
  ckpt_1a2b3c4d...     its id, or at least 4 digits of it, with or without ckpt_
  before-refactor      its name; of several the newest counts
  "before the rename"  its message, all of it; of several the newest counts, and
                       the others are named; on a terminal `restore` takes a
                       part of it too: it shows what is meant, and asks
  @good                the newest whose check passed
  @start               the first of the session at hand
  task:T01             after that task
  before:task:T01      the newest before that task started
  step:12              the newest at that step of the work
  @{2h}, @{3d}         the newest that is at least so old (s, m, h, d, w)
  @{14:20}             the newest at or before this time of day (local time):
                       today's, or if that is still to come, yesterday's
  @{14:20:32}          the same to the second, as `list` shows it
  @{Nov 21 09:38}      the newest at or before this minute, as `list` shows it
  @{2026-11-21}        the newest of this day, or before
  @{2026-11-21T10:00}  the newest at or before this moment (local time)

Looked for in this order: id, name, beginning of an id, message. A message that
begins with @, with task: or step: is found by its id alone. Paths are no REFs:
they come after the REF, as in `lastgood restore @ src/app.py`.
"""
ENVIRONMENT = """\
Environment variables

  LASTGOOD_WORKSPACE   the workspace, where -C is not given
  LASTGOOD_STORE       the store, where --store is not given
  LASTGOOD_WITNESS     where is kept, outside the store, what proves its ledger
                       (default ~/.local/share/lastgood-anchor)
  LASTGOOD_SESSION     the session that this process works in
  LASTGOOD_CAPTURE_EXCLUDE and so on
                       every setting of `lastgood config`: section and key in
                       capitals
  LASTGOOD_MAINTENANCE=off
                       do not tidy the store after saves; `lastgood maintain`
                       does it
  LASTGOOD_TRACE=1     on an internal fault, show the whole trace
  NO_COLOR=1           no colour
  XDG_STATE_HOME       where the store is, unless named (default ~/.local/state)
  XDG_CONFIG_HOME      where the user's configuration is (default ~/.config)
"""


def show_version(console: Console) -> int:
    """Print the version."""
    if not console.answer("version", {"version": VERSION}):
        console.line(f"lastgood {VERSION}")
    return 0


def show_topic(topic: str | None, console: Console) -> int:
    """Explain a verb or a topic; without one, all verbs in short."""
    if topic is None:
        return show_overview(console)
    verb = verb_of(topic)
    if verb is not None:
        return show_verb(verb, console)
    if topic == "exit-codes":
        rows = [(f"  {code:3}", says) for code, says in EXIT_CODES.items()]
        text = "\n".join(("Exit codes", "", *pairs(rows, limit=_room(console))))
    elif topic in {"refs", "environment"}:
        text = REFS if topic == "refs" else ENVIRONMENT
    else:
        raise _unknown(topic)
    if not console.answer("help", {"topic": topic, "text": text}):
        console.page(text.rstrip().split("\n"))
    return 0


def _unknown(topic: str) -> Usage:
    from lastgood.cli.other_words import answer
    from lastgood.suggestions import nearest

    known = [*spellings(), "refs", "exit-codes", "environment"]
    close = nearest(topic, known)
    hint = answer(topic)
    if hint is None:
        hint = f"did you mean `lastgood help {close[0]}`?" if close else "see all verbs: lastgood help"
    return Usage(f"there is no help on '{printable(topic)}'", hint=hint)


def show_overview(console: Console) -> int:
    """Print what lastgood is, and every verb in a line."""
    if console.answer("help", {"verbs": [_record(verb) for verb in all_verbs() if not verb.hidden]}):
        return 0
    limit, known = _room(console), spellings()
    lines = [*wrapped("lastgood: checkpoints of a workspace, and safe ways back to them", limit), ""]
    lines += [*pairs([(f"  {left}", right) for left, right in _FIRST], limit=limit), ""]
    lines.append("  lastgood [-C DIR] [--store DIR] VERB ...")
    for heading, names in GROUPS:
        rows = [(f"{f'  {known[name].name}':12}", known[name].says) for name in names]
        lines += ["", console.styled(heading, "bold"), *pairs(rows, limit=limit)]
    place = (
        "A checkpoint is named by its id, name or message; `@` is the one saved last, or last gone back to,"
        " `@~1` the one before it."
    )
    lines += ["", *wrapped(place, limit)]
    lines += wrapped("More: lastgood help VERB, lastgood help refs, lastgood help exit-codes", limit)
    console.page(lines)
    return 0


def _room(console: Console) -> int:
    """Return how wide help may be: as the terminal, else as ``COLUMNS`` says, else 80 columns."""
    said = os.environ.get("COLUMNS", "")
    return console.columns() or (
        int(said) if said.isascii() and said.isdigit() and int(said) >= _NARROW else 80
    )


def show_verb(verb: Verb, console: Console) -> int:
    """Print all about one verb."""
    if console.answer("help", {"verbs": [_record(verb)]}):
        return 0
    limit = _room(console)
    lines = _indented(f"lastgood {verb.usage}", limit=limit, by="    ", first="")
    lines += _indented(verb.says, limit=limit)
    if verb.spellings:
        lines.append(f"  also spelled: {', '.join(verb.spellings)}")
    if verb.examples:  # first, as they are what most look for
        lines += ["", *pairs([(f"  {left}", right) for left, right in verb.examples], limit=limit)]
    if verb.about:
        lines += ["", *_paragraphs(verb.about, limit=limit)]
    for heading, rows in (
        ("Arguments", [row for row in map(argument_row, verb.arguments) if row[1]]),
        ("Options", [option_row(option) for option in verb.options]),
        ("Options of every verb", [option_row(option) for option in GLOBAL_OPTIONS]),
        ("Exit codes", [(str(code), EXIT_CODES[code]) for code in verb.codes]),
    ):
        if rows:
            lines += ["", console.styled(heading, "bold")]
            lines += pairs([(f"  {left}", right) for left, right in rows], limit=limit)
    console.page(lines)
    return 0


def _indented(text: str, *, limit: int, by: str = "  ", first: str = "  ") -> list[str]:
    """Return a text as lines that keep within ``limit`` columns, all but the first indented by the same."""
    lines = wrapped(text, limit - len(by))
    return [f"{by if number else first}{line}".rstrip() for number, line in enumerate(lines)]


def _paragraphs(text: str, *, limit: int) -> list[str]:
    """Return the lines of a text: running words filled, columns with what hangs below in their column."""
    lines: list[str] = []
    words: list[str] = []
    rows: list[tuple[str, str]] = []
    for line in [*text.split("\n"), ""]:
        name, gap, value = line.partition("  ")
        if rows and line.startswith(" "):
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line.strip()}")
            continue
        if words and (not name or gap):
            lines += _indented(" ".join(words), limit=limit)
            words = []
        if rows and not (name and gap):
            lines += pairs([(f"  {left}", right) for left, right in rows], limit=limit)
            rows = []
        if name and gap:
            rows.append((name, value.strip()))
        elif name and not line.startswith(" "):
            words.append(line)
        else:
            lines += _indented(line, limit=limit)
    return lines[:-1]


def argument_row(argument: Argument) -> tuple[str, str]:
    """Return the name of an argument, and what may stand there."""
    if argument.choices:
        return argument.name, "one of " + ", ".join(argument.choices)
    if argument.form == "ref":
        return (
            argument.name,
            "a checkpoint: @ (saved last, or gone back to), @~2, its id, name or message (help refs)",
        )
    return argument.name, ""


def option_row(option: Option) -> tuple[str, str]:
    """Return how an option is spelled, and what it does."""
    short = f"-{option.short}" if option.short else ""
    long = f"--{option.name}" if option.name != "directory" else ""
    spelled = ", ".join(word for word in (short, long) if word)
    value = f" {option.value}" if option.value else ""
    more = " (may be repeated)" if option.repeated and not option.choices else ""
    if option.choices:
        more += f" ({', '.join(option.choices)})"
    return spelled + value, option.says + more


def _record(verb: Verb) -> dict[str, object]:
    return {
        "name": verb.name,
        "spellings": list(verb.spellings),
        "usage": verb.usage,
        "says": verb.says,
        "options": [
            {
                "name": option.name,
                "short": option.short or None,
                "value": option.value or None,
                "repeated": option.repeated,
                "choices": list(option.choices),
                "says": option.says,
            }
            for option in verb.options
        ],
        "examples": [command for command, _ in verb.examples],
        "exit_codes": list(verb.codes),
    }


# --- The version, written here once more so that asking for it reads no package metadata (35 ms) ---

VERSION = "0.1.0"
