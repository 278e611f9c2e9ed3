"""Numbers and moments in words for people."""

from __future__ import annotations

import sys
import time

from lastgood.cli.grammar import NAME, program
from lastgood.errors import count
from lastgood.paths import printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.session import Effect, Position
    from lastgood.model.tree import Counts


_LONG_PATH = 1000
_PATH_END = 100
_LEAST_PATH = 20
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_STEPS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def size(amount: int) -> str:
    """Return a number of bytes with a binary unit."""
    if amount < 1024:
        return f"{amount} B"
    power = min(4, (amount.bit_length() - 1) // 10)
    return f"{amount / (1 << 10 * power):.1f} {_UNITS[power]}"


def span(seconds: float) -> str:
    """Return a duration as configuration files write it."""
    for unit, letter in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds / unit:g}{letter}"
    return f"{seconds:g}s"


_PERIODS = ((86_400, "d"), (3600, "h"), (60, "m"))


def duration(seconds: float) -> str:
    """Return a duration in its two largest units."""
    if seconds < 60:
        return f"{int(seconds)}s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f}s"
    words: list[str] = []
    rest = int(seconds)
    for unit, letter in _PERIODS:
        if rest >= unit or words:
            words.append(f"{rest // unit}{letter}")
            rest %= unit
    words.append(f"{rest}s")
    return " ".join(words[:2])


def milliseconds(amount: float) -> str:
    """Return a short time: ``240 ms``, ``45.9 s``, ``2m 5s``."""
    if amount < 1000:
        return f"{amount:.0f} ms"
    return f"{amount / 1000:.1f} s" if amount < 60_000 else duration(amount / 1000)


def path_text(path: bytes) -> str:
    """Return a path for people, without its middle where it would fill the screen."""
    text = printable(to_text(path))
    if len(text) <= _LONG_PATH:
        return text
    return f"{text[:_PATH_END]}…{text[-_PATH_END:]} ({len(path):,} bytes)"


def few_paths(paths: Sequence[bytes]) -> str:
    """Return the first of some paths, and how many more there are."""
    if not paths:
        return ""
    return path_text(paths[0]) + (f" +{len(paths) - 1:,}" if len(paths) > 1 else "")


# So many of some paths are named where they stand within a sentence.
_NAMED = 3


def paths_named(paths: Sequence[bytes]) -> str:
    """Return the first of some paths within a sentence, and how many more there are."""
    return words_named([path_text(one) for one in paths])


def words_named(words: Sequence[str]) -> str:
    """Return the first of some words within a sentence, and how many more there are."""
    if len(words) <= _NAMED:
        return ", ".join(words[:-1]) + (" and " if words[:-1] else "") + "".join(words[-1:])
    return f"{', '.join(words[:_NAMED])} and {len(words) - _NAMED:,} more"


# So much is shown of what somebody said.
_QUOTED = 48


def quoted_words(text: str) -> str:
    """Return what somebody said, its first line and in quotes, without the end of a long one."""
    return f'"{shortened(printable(text.strip().partition(chr(10))[0]), _QUOTED)}"'


def path_within(path: bytes, room: int | None) -> str:
    """Return a path for people, without its middle where it takes more columns than a terminal has."""
    text = path_text(path)
    return text if room is None else _without_middle(text, max(room, _LEAST_PATH))


def _without_middle(text: str, room: int) -> str:
    if width(text) <= room:
        return text
    end = room * 2 // 3
    while width(text[-end:]) > room * 2 // 3:
        end -= 1
    name = text.rfind("/", -end)  # whole folders, if there are any
    tail = text[name:] if name > 0 else text[-end:]
    return shortened(text, room - width(tail)) + tail


def moment(nanoseconds: int) -> str:
    """Return a moment in local time."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(nanoseconds // 1_000_000_000))
    except (OverflowError, ValueError, OSError):
        return "?"


def brief_moment(nanoseconds: int, *, now: int, oldest: int | None = None) -> str:
    """Return a moment in local time as a list on a screen shows it: the nearer, the more exact.

    ``09:38:38`` today, ``Nov 21 09:38`` within the year, else ``2025-11-21 09:38``. In a list that goes back
    to an ``oldest`` one all have the form of that.
    """
    first = nanoseconds if oldest is None else min(nanoseconds, oldest)
    try:
        then, begin, today = (time.localtime(one // 1_000_000_000) for one in (nanoseconds, first, now))
        same_year = begin.tm_year == then.tm_year == today.tm_year
        same_day = begin[:3] == then[:3] == today[:3]
        form = "%H:%M:%S" if same_day else "%b %d %H:%M" if same_year else "%Y-%m-%d %H:%M"
        return time.strftime(form, then)
    except (OverflowError, ValueError, OSError):
        return "?"


def oldest_of(checkpoints: Iterable[Checkpoint]) -> int | None:
    """Return when the first of some checkpoints was made, None if there are none."""
    return min((one.manifest.created_at for one in checkpoints), default=None)


def ago(nanoseconds: int, *, now: int) -> str:
    """Return how long ago a moment is."""
    seconds = (now - nanoseconds) // 1_000_000_000
    if seconds < 0:
        return "in the future"
    if seconds < 2:
        return "just now"
    # Up to two of a unit the smaller one says: an hour is a long time if it may be nearly two.
    unit, noun = next((step for step in _STEPS if seconds >= 2 * step[0]), _STEPS[-1])
    return count(seconds // unit, noun) + " ago"


def changes(counts: Counts) -> str:
    """Return what a comparison found."""
    if not (counts.added or counts.modified or counts.deleted):
        return "no changes"
    return f"{counts.added:,} added, {counts.modified:,} modified, {counts.deleted:,} deleted"


UNTITLED = "(auto)"


def title(checkpoint: Checkpoint) -> str:
    """Return the name, else the first line of the message, else ``(auto)``."""
    text = checkpoint.name or checkpoint.message.strip().partition("\n")[0].rstrip()
    return printable(text) if text else UNTITLED


# How the title of a turn begins that says already of which state it is.
_OF_STATE = ("before: ", "after: ", "interrupted: ")


def label(checkpoint: Checkpoint) -> str:
    """Return its title; of a turn's, with whether it is the state before or after that (rule S20)."""
    text = title(checkpoint)
    if checkpoint.kind != "turn" or checkpoint.name or text == UNTITLED or text.startswith(_OF_STATE):
        return text
    from lastgood.model.checkpoint import is_before_turn  # lazily: only what tells of turns needs it

    return f"{'before' if is_before_turn(checkpoint) else 'after'}: {text}"


def called(checkpoint: Checkpoint, *, said: str | None = None, made: bool = False) -> str:
    """Return a checkpoint's short id with its title where it has one, or what is ``said`` in its place.

    When it was ``made`` stands beside its id, where it cannot be taken for the age of something else.
    """
    text = label(checkpoint) if said is None else said
    title = "" if text == UNTITLED else f" ({shortened(text, 60) if said is None else text})"
    age = f", made {ago(checkpoint.manifest.created_at, now=time.time_ns())}" if made else ""
    return f"{checkpoint.short_id}{age}{title}"


def place(position: Position) -> str:
    """Return a position in words: ``Construction phase, iteration 3, step 12/15``."""
    step = "" if position.steps is None else f"/{position.steps}"
    words = [
        "" if position.phase is None else f"{printable(position.phase)} phase",
        "" if position.sprint is None else f"sprint {printable(position.sprint)}",
        "" if position.iteration is None else f"iteration {position.iteration}",
        "" if position.step is None else f"step {position.step}{step}",
    ]
    return ", ".join(word for word in words if word)


def place_cell(position: Position | None) -> str:
    """Return a position as lists show it: ``Construction / iter 3, step 12``; ``-`` where there is none."""
    if position is None:
        return "-"
    where = position.phase or position.sprint
    words = [
        "" if position.iteration is None else f"iter {position.iteration}",
        "" if position.step is None else f"step {position.step}",
    ]
    rest = ", ".join(word for word in words if word)
    return " / ".join(part for part in ("" if where is None else printable(where), rest) if part) or "-"


def artifacts(position: Position) -> str:
    """Return the paths of what is being worked on, as one line."""
    return ", ".join(printable(to_text(path)) for path in position.artifacts)


def where_it_stands(position: Position) -> str:
    """Return the sentences that tell a recorded position."""
    where, working_on = place(position), artifacts(position)
    told = f"Recorded position: {where}." if where else ""
    working_on = f"In-progress artifacts: {working_on}." if working_on else ""
    return " ".join(sentence for sentence in (told, working_on) if sentence)


def effect_words(effect: Effect, *, now: int) -> str:
    """Return a step of the work in words."""
    from lastgood.model.session import COMMAND_TASK  # lazily: few verbs tell of one

    if effect.name == effect.task == COMMAND_TASK:
        return f"what the command did elsewhere, started {ago(effect.started_at, now=now)}"
    of = f" of task {printable(effect.task)}" if effect.task and effect.task != effect.name else ""
    what = "task" if effect.task == effect.name else "step"
    marked = ", irreversible" if effect.irreversible else ""
    return f"{what} {printable(effect.name)}{of}{marked}, started {ago(effect.started_at, now=now)}"


def width(text: str) -> int:
    """Return how many columns of a terminal a text takes, styles of ours not counted."""
    if "\x1b" in text:
        import re  # lazily: only coloured text pays for it

        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if character.isascii():
        return 1
    from unicodedata import category, east_asian_width

    if category(character) in {"Mn", "Me"}:
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def shortened(text: str, limit: int) -> str:
    """Return a text cut to a number of columns, the cut shown."""
    if (len(text) <= limit or "\x1b" in text) and width(text) <= limit:
        return text
    used = kept = 0
    for place, character in enumerate(text, 1):
        used += _columns(character)
        kept = place if used < limit else kept
        if used > limit:
            return text[:kept] + "…"
    return text


def padded(text: str, columns: int) -> str:
    """Return a text filled up to a number of columns."""
    return text + " " * (columns - width(text))


def wrapped(text: str, limit: int | None, *, marks: str = "") -> list[str]:
    """Return a text as lines of at most so many columns, broken at spaces; a long word stays whole.

    So does what stands between backquotes, and a command in brackets. A line ends after one of the ``marks``
    if its second half has one.
    """
    if limit is None or width(text) <= limit:
        return [text]
    lines: list[str] = []
    line = ""
    for word in _words(text):
        longer = f"{line} {word}" if line else word
        while line and width(longer) > limit:
            end = max((f"{line} ".rfind(f"{mark} ") + 1 for mark in marks), default=0)
            if not end or width(line[:end]) * 2 < limit or line[:end].endswith(_LEADING):
                end = len(line)
            lines.append(line[:end])
            line = line[end:].lstrip(" ")
            longer = f"{line} {word}" if line else word
        line = longer
    return [*lines, line]


def _words(text: str) -> list[str]:
    """Return the words between which a text may be broken."""
    if "`" not in text and f"({program()} " not in text and not any(one in text for one in _LEADING):
        return text.split(" ")
    import re  # lazily: only what is too long for a line, and has a command in it, pays for it

    whole = rf"`[^`]*`|\({re.escape(program())} [^()]*\)|(?:{'|'.join(_LEADING)}) "
    glued = re.sub(whole, lambda found: found[0].replace(" ", "\0"), text)
    return [one.replace("\0", " ") for one in glued.split(" ")]


# What leads the title of a turn: no line ends between these.
_LEADING = ("before:", "after:", "interrupted:")
# After these a line of prose ends rather than elsewhere.
_MARKS = ",:;"


def beside_or_below(first: str, text: str, *, limit: int | None) -> list[str]:
    """Return a text behind a first one, or below it where a line has no room for both."""
    if limit is None or width(first) + 1 + width(text) <= limit:
        return [f"{first} {text}"]
    return [first, *(f"  {line}" for line in wrapped(text, limit - 2))]


# With these the title of a checkpoint begins that was made before or after a command.
_MOMENTS = ("checkpoint before", "checkpoint after", "checkpoint interrupted")


def fitted(line: str, limit: int) -> list[str]:
    """Return a line of prose as lines of at most so many columns; a command at its end stays whole, below it.

    What is to be typed must not be broken: who copies it would run a part of it. So a line of its own stays
    as it is, and each of several has one. "2 files to write" is not where a comma or a colon comes before it.
    What is indented is a row: it goes on further to the right, lest that be taken for another row.
    """
    if width(line) <= limit:
        return [line]
    text = line.lstrip(" ")
    indent = " " * (len(line) - len(text))
    if indent and _is_typed(text):
        return _command_lines(text, indent, limit)
    found = min((place for mark in _typed() if (place := _typed_at(text, mark)) >= 0), default=-1)
    if found < 0:
        return _broken(text, indent, limit)
    command, end, rest = text[found + 2 :].partition("; ")
    if not any(f": {mark} " in rest for mark in _typed()):  # it is in the command
        command, rest = command + end + rest, ""
    return [
        *_broken(text[: found + 1], indent, limit),
        *_command_lines(command, f"{indent}  ", limit),
        *(fitted(indent + rest, limit) if rest else ()),
    ]


def _typed_at(text: str, mark: str) -> int:
    """Return where a command is told to be typed; what is in a title is none."""
    place = text.find(f": {mark} ")
    while place >= 0 and _is_in_title(text, place):
        place = text.find(f": {mark} ", place + 1)
    return place


def _is_in_title(text: str, place: int) -> bool:
    """Tell whether a place is in what was asked, or in a checkpoint's name: in quotes or brackets."""
    before, after = text[:place], text[place:]
    quoted = before.count('"') % 2 == 1 and '"' in after
    bracketed = before.count("(") > before.count(")") and ")" in after
    return quoted or bracketed or before.endswith(_MOMENTS)


def _broken(text: str, indent: str, limit: int) -> list[str]:
    """Return an indented text as lines, those after the first indented further."""
    further = indent and f"{indent}  "
    first, *rest = wrapped(text, limit - len(further), marks=_MARKS)
    return [indent + first, *(further + one for one in rest)]


def _command_lines(command: str, indent: str, limit: int) -> list[str]:
    """Return a command as a line; one that is too long with its verb on a line of its own, if that helps.

    The first ends as a shell takes it to go on: a terminal would break it within a word.
    """
    if width(indent + command) > limit and command.startswith(f"{program()} -"):
        import re  # lazily: most commands name no folder

        from lastgood.cli.hints import WORD

        whole = rf"({re.escape(program())}(?: (?:-C|--store) {WORD})+) (.+)"
        found = re.fullmatch(whole, command)
        if found is not None and width(f"{indent}{found[1]} \\") <= limit:
            return [f"{indent}{found[1]} \\", f"{indent}  {found[2]}"]
    return [indent + command]


def _is_typed(text: str) -> bool:
    return text.startswith(tuple(f"{mark} " for mark in _typed()))


def _typed() -> tuple[str, ...]:
    """Return how commands begin that are told to be typed."""
    return (
        program(),
        NAME,
        "export",
        "git switch",
        "kill",
        "mv",
        "rm",
        "mkdir -p",
        "chmod go-w",
        "claude",
        "codex",
        "gemini",
        "opencode",
        "pipx",
        "uv",
        sys.executable,
    )


# --- Tables of text: columns as wide as their widest cell ---

_GAP = "  "
_LEAST, _MOST = 12, 72
_SHORTEST = 4
_NOTHING = frozenset({"-", "0", ""})


def table(
    rows: Sequence[Sequence[str]],
    *,
    flexible: Sequence[int],
    limit: int | None,
    optional: Sequence[int] = (),
    expendable: Sequence[int] = (),
    room: int = _LEAST,
    whole: Sequence[int] = (),
    paths: Sequence[int] = (),
    paint: Callable[[int, int, str], str] | None = None,
) -> list[str]:
    """Return rows as aligned lines that keep within ``limit`` columns, those of a terminal.

    Without the ``optional`` columns in which nothing is said, nor, as far as need be, the ``expendable`` ones
    that leave the last of those which give way less than some ``room``; then the ``flexible`` ones give way,
    the first of them first. Those to be ``whole`` give way only where nothing else is left to go, and then
    before a slash; ``paths`` in their middle. Where there is no limit, nothing is cut, and a long cell of a
    flexible column moves the rest of its row alone. ``paint`` is given a row's number, a column's and the
    filled up cell.
    """
    if not rows:
        return []
    widths = [max(width(row[column]) for row in rows) for column in range(len(rows[0]))]
    widths = [min(one, _MOST) if column in flexible else one for column, one in enumerate(widths)]
    shown = [
        column
        for column in range(len(widths))
        if column not in optional or any(row[column] not in _NOTHING for row in rows[1:])
    ]
    if limit is not None:
        for column in expendable:
            keep = {one: room if one == flexible[-1] else _LEAST for one in flexible}
            keep |= {one: _MOST for one in whole if one != column}
            least = [min(keep.get(one, widths[one]), widths[one]) for one in shown]
            if _whole(least) > limit and column in shown:
                shown.remove(column)
        for column, least_wide in (*((one, _LEAST) for one in flexible), *((one, 1) for one in flexible)):
            over = _whole([widths[one] for one in shown]) - limit
            if over > 0 and column in shown:
                widths[column] = max(min(least_wide, widths[column]), widths[column] - over)
    lines = []
    for number, row in enumerate(rows):
        said = row if limit is None else _cut(row, widths, whole=whole, paths=paths)
        cells = [padded(said[column], widths[column]) for column in shown]
        cells[-1] = cells[-1].rstrip()
        if paint is not None:
            cells = [paint(number, column, cell) for column, cell in zip(shown, cells, strict=True)]
        lines.append(_GAP.join(cells).rstrip())
    return lines


def _cut(
    row: Sequence[str], widths: Sequence[int], *, whole: Sequence[int], paths: Sequence[int]
) -> list[str]:
    """Return a row's cells cut to the widths of their columns."""
    own = {**dict.fromkeys(whole, _before_slash), **dict.fromkeys(paths, _without_middle)}
    ways = [own.get(column, shortened) for column in range(len(row))]
    return [way(cell, columns) for way, cell, columns in zip(ways, row, widths, strict=True)]


def _before_slash(text: str, limit: int) -> str:
    """Return a text cut to a number of columns, before its slash where there is room for what follows it."""
    head, slash, tail = text.partition(" / ")
    room = limit - width(tail) - len(slash)
    if not slash or width(text) <= limit or room < _SHORTEST:
        return shortened(text, limit)
    return shortened(head, room) + slash + tail


def _whole(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def pairs(
    rows: Sequence[tuple[str, str]],
    *,
    limit: int | None,
    paint: Callable[[str], str] = str,
    prose: bool = False,
) -> list[str]:
    """Return names and values as two columns, the values wrapped to keep within ``limit`` columns.

    What is to be typed stays whole, as by `fitted`, and ``prose``, and what is indented, ends its lines as
    there. A name that
    takes more than half of the columns has a line to itself. ``paint`` is given the filled up names.
    """
    most = None if limit is None else limit // 2
    beside = [len(name) for name, _ in rows if most is None or len(name) <= most]
    widest = max(beside, default=_LEAST)
    room = None if limit is None else max(_LEAST, limit - widest - len(_GAP))
    lines = []
    for name, value in rows:
        whole = prose or value.startswith(" ") or any(f": {mark} " in value for mark in _typed())
        below = fitted(value, room) if room is not None and whole else wrapped(value, room)
        if len(name) > widest:
            lines.append(paint(name))
        else:
            lines.append(f"{paint(f'{name:{widest}}')}{_GAP}{below.pop(0)}".rstrip())
        lines += [f"{'':{widest}}{_GAP}{line}" for line in below]
    return lines
