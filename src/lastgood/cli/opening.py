"""Opens the workspace that a call means; where its words go; the values of its options."""

from __future__ import annotations

import os
import sys
import time

from lastgood.errors import Invalid, Storage, Usage
from lastgood.ids import SESSION_VARIABLE
from lastgood.paths import printable
from lastgood.value import Value, cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import FrameType
    from typing import Self

    from lastgood.cli.grammar import Call
    from lastgood.workspace import Opened, Purpose, Workspace
    from lastgood.workspace.opened import OpenWorkspace

    # Given a row's number, a column's and the filled up cell.
    Painter = Callable[[int, int, str], str]


# Exit codes: something was left out, or a person said no.
OMISSIONS = 3
DECLINED = 130
_READ_BYTES = 1 << 16
# What a person types to be asked no further: nothing is done.
NO_ANSWER = frozenset({"", "n", "no", "q", "quit"})


def open_for(call: Call, *, purpose: Purpose = "find", anywhere: bool = False) -> Workspace:
    """Return the workspace of a call, with all verbs."""
    from lastgood.workspace import Workspace

    return open_group(call, Workspace, purpose=purpose, anywhere=anywhere)


def open_at_work(call: Call) -> Workspace:
    """Return the workspace of a call that tells of work: where a session is named, it is there already."""
    return open_for(call, purpose="find" if os.environ.get(SESSION_VARIABLE) else "make")


def open_group(call: Call, group: type[Opened], *, purpose: Purpose, anywhere: bool = False) -> Opened:
    """Return the workspace of a call with the verbs of one class: others are not even loaded.

    To ``find`` or ``need`` one makes no store; to ``repair`` mends first what keeps it from being opened.
    Of a call that is about the store ``anywhere`` any folder will do, whatever its file says.
    A configuration file with a fault in it is told of, and stops nothing: an agent may have broken that
    very file, or a merge has.
    """
    opened = open_silently(call, group, purpose=purpose, anywhere=anywhere)
    if purpose == "find" and call.has("store"):
        _tell_absent(call)
    # What reads the configuration itself refuses what is wrong with it; a status tells people among all else.
    told = call.verb.name == "config" or (call.verb.name == "status" and not call.has("json"))
    if opened.remarks and not told:
        from lastgood.cli.hints import note_lines

        lines = note_lines(opened.remarks, call)
        text = "".join(f"lastgood: {said}\n" if first else f"  {said}\n" for said, first in lines)
        os.write(2, text.encode("utf-8", "replace"))
    return opened


def open_silently(call: Call, group: type[Opened], *, purpose: Purpose, anywhere: bool = False) -> Opened:
    """Return the workspace of a call as `open_group` does, but say nothing of faults in files."""
    from lastgood.workspace import open_as

    opened = open_as(
        group,
        call.text("directory"),
        store=call.text("store"),
        allow_root=anywhere or call.has("allow-root"),
        environment=os.environ,
        flags=call.texts("set"),
        purpose=purpose,
        project=not anywhere,
        passing=True,
    )
    if purpose == "make" and not anywhere and not os.path.isdir(opened.path):
        _refuse_gone(opened)
    return opened


def _tell_absent(call: Call) -> None:
    """Say that a store that was named is not there: it is not an empty one, a mistyped path perhaps."""
    from lastgood.store import is_absent
    from lastgood.workspace.arguments import store_path

    store = store_path(call.text("store"), os.environ)
    if is_absent(os.fsencode(store)) and not call.has("json"):
        text = f"lastgood: there is no store at {printable(store)}\n  to make it: {call.command('save')}\n"
        os.write(2, text.encode("utf-8", "replace"))


def _refuse_gone(opened: OpenWorkspace) -> None:
    """Refuse what would begin something in a folder that is gone (rule T12a)."""
    from lastgood.root import gone, is_gone, no_folder

    root = os.fsencode(opened.path)
    opened.close()
    raise gone(root) if is_gone(root) else no_folder(root)


# --- Where a verb's words go: data to standard output, everything else to standard error ---

# How a change is shown, wherever one is.
CHANGES = {"added": "green", "deleted": "red", "modified": "yellow", "renamed": "yellow", "mode": "yellow"}
STATES = {"idle": "green", "active": "cyan", "incomplete": "yellow", "interrupted": "red"}
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_BLOCK = 1 << 16
_ROWS = 24


class Streams:
    """The standard streams of this process."""

    # Whether what is written can be seen while the verb goes on.
    is_live = True

    def is_terminal(self, descriptor: int) -> bool:
        """Tell whether a stream is a terminal."""
        try:
            return os.isatty(descriptor)
        except OSError:
            return False

    def columns(self, descriptor: int) -> int | None:
        """Return the width of a terminal, None where there is none."""
        try:
            return os.get_terminal_size(descriptor).columns or None
        except OSError:
            return None

    def write(self, descriptor: int, content: bytes) -> None:
        """Write all of something; OSError."""
        view = memoryview(content)
        while view:
            try:
                view = view[os.write(descriptor, view) :]
            except BlockingIOError:
                _wait_until_writable(descriptor)


class Console:
    """The standard streams of one run of the command, and how it opens its workspace.

    A reader that goes away (``| head``) silences the stream and nothing else: the verb goes on.
    """

    # Whether it is another process, which would carry the command out itself, that asks for it.
    is_served = False

    def __init__(self, environment: Mapping[str, str], *, streams: Streams | None = None) -> None:
        self.environment: Mapping[str, str] = environment
        self._streams = Streams() if streams is None else streams
        self.json: bool = False
        self.quiet: bool = False
        # The digits of the checkpoint that a save is to make, or has made before it broke off.
        self.proposed: str | None = None
        # The process that was started for the command: this one, or the one that asks.
        self.caller: int = os.getpid()
        # What came on standard input, once it is read.
        self.given: bytes | None = None
        # What was asked for, once it is read.
        self.call: Call | None = None
        # What is known to be left by a verb that was interrupted, and what to type then.
        self.left: str = ""
        self.left_hint: str = ""
        self.out_is_terminal: bool = self._streams.is_terminal(1)
        self.err_is_terminal: bool = self._streams.is_terminal(2)
        plain = bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"
        self.colour: bool = self.out_is_terminal and not plain
        self._colours_errors = self.err_is_terminal and not plain
        self._is_dumb = environment.get("TERM", "dumb") in {"", "dumb", "unknown"}
        self._pending: list[bytes] = []
        self._size = 0
        self._silent: set[int] = set()

    def take(self, call: Call) -> None:
        """Take note of what was asked for, and how it is to be told."""
        self.call = call
        self.json = call.has("json")
        self.quiet = call.has("quiet")

    def open(self, call: Call, group: type[Opened], *, purpose: Purpose) -> Opened:
        """Return the workspace of a call, with the verbs of one class."""
        return open_group(call, group, purpose=purpose)

    def have_watched(self, workspace: OpenWorkspace, call: Call) -> None:
        """Have a workspace be watched from now on where the configuration says that a verb starts that."""
        if not self.is_served and workspace.settings.watch.wants(call.verb.name):
            from lastgood.cli.background import start_on_demand

            start_on_demand(workspace, self.environment)

    def input(self) -> bytes:
        """Return all that comes on standard input; OSError."""
        if self.given is None:
            parts = []
            with open(0, "rb", buffering=0, closefd=False) as stream:
                while (part := stream.read(_READ_BYTES)) != b"":
                    if part is None:
                        _wait_until_readable(0)
                    else:
                        parts.append(part)
            self.given = b"".join(parts)
        return self.given

    @property
    def shows_progress(self) -> bool:
        """Whether a person sees how a verb goes on."""
        return self.err_is_terminal and not self.quiet and not self.json and self._streams.is_live

    @property
    def is_attended(self) -> bool:
        """Whether somebody types and reads here."""
        return self.err_is_terminal and self._streams.is_terminal(0)

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer: a terminal on both sides, and no JSON wanted."""
        return not self.json and self.is_attended

    @property
    def can_draw(self) -> bool:
        """Whether a person is there whose terminal can be drawn upon."""
        return self.can_ask and not self._is_dumb

    def line(self, text: str = "") -> None:
        """Print one line of what was asked for."""
        self.send(text.encode("utf-8", "backslashreplace") + b"\n")

    def sentence(self, text: str) -> None:
        """Print what was done, in words; on a terminal broken between them."""
        self.line(self._fitting(text, 1))

    def sentences(self, texts: Iterable[str]) -> None:
        """Print what was done or found, in words, each sentence on lines of its own."""
        for text in texts:
            self.sentence(text)

    def _fitting(self, text: str, descriptor: int) -> str:
        columns = self._streams.columns(descriptor)
        if columns is None or len(text) < columns:
            return text
        from lastgood.cli.wording import fitted

        return "\n".join(part for line in text.split("\n") for part in fitted(line, columns))

    def lines(self, texts: Iterable[str]) -> None:
        """Print lines of what was asked for."""
        for text in texts:
            self.line(text)

    def page(self, texts: Iterable[str], *, hints: Sequence[str] = ()) -> None:
        """Print lines of what was asked for, through the pager where they fill more than the screen.

        A person on a terminal is told ``hints``: above what is paged, where they are seen before it is left,
        else beside it.
        """
        if not self.out_is_terminal:
            self.lines(texts)
            return
        from lastgood.cli.hints import typable
        from lastgood.cli.pager import paged

        content = "".join(f"{text}\n" for text in texts).encode("utf-8", "backslashreplace")
        told = [*hints, ""] if hints and not self.quiet else []
        above = "".join(f"{self._fitting(typable(one), 1)}\n" for one in told)
        self.flush()
        if paged(above.encode("utf-8", "backslashreplace") + content):
            return
        self.send(content)
        for one in hints:
            self.note(one)

    def send(self, content: bytes) -> None:
        """Print bytes of what was asked for, as they are."""
        self._pending.append(content)
        self._size += len(content)
        if self._size >= _BLOCK:
            self.flush()

    def document(self, document: dict[str, object]) -> None:
        """Print the one JSON document, its hints for the same workspace and store."""
        from lastgood.model.canonical import dumps

        said: object = document
        if self.call is not None and (self.call.has("directory") or self.call.has("store")):
            from lastgood.cli.hints import completed_within

            said = completed_within(document, self.call)
        self.send(dumps(said) + b"\n")

    def answer(self, verb: str, said: Value | Mapping[str, object]) -> bool:
        """Print what a verb found as its document if that is wanted, and tell whether it was."""
        if self.json:
            from lastgood.documents import document

            self.document(document(verb, cast("dict[str, object]", _recorded(said))))
        return self.json

    def note(self, text: str) -> None:
        """Say something beside the data, unless quiet."""
        if not self.quiet:
            self.warn(text)

    def warn(self, text: str, *, style: str | None = None) -> None:
        """Say something beside the data that must not be missed."""
        from lastgood.cli.hints import typable

        self.flush()
        shown = self._fitting(typable(text), 2)
        if style is not None and self._colours_errors:
            shown = f"\x1b[{_STYLES[style]}m{shown}\x1b[0m"
        self._write(2, shown.encode("utf-8", "backslashreplace") + b"\n")

    def height(self, lines: Sequence[str]) -> int:
        """Return how many rows of a terminal some lines take that are said beside the data."""
        return sum(self._fitting(line, 2).count("\n") + 1 for line in lines)

    def overwrite(self, text: str) -> None:
        """Replace the current line of the terminal on standard error."""
        self._write(2, b"\r\x1b[K" + text.encode("utf-8", "backslashreplace"))

    def hints(self, text: str) -> list[str]:
        """Return what to do next, a line each, its commands for the same workspace and store."""
        from lastgood.cli.hints import hint_lines

        return hint_lines(text, self.call)

    def ask(self, question: str) -> str:
        """Return a person's answer, stripped; empty at the end of input."""
        self.flush()
        self._write(2, question.encode("utf-8", "backslashreplace"))
        try:
            answer = sys.stdin.readline()
        except KeyboardInterrupt:
            self._write(2, b"\n")  # what the terminal shows of Ctrl-C stands behind the question
            raise
        if not answer.endswith("\n"):
            self._write(2, b"\n")
        return answer.strip()

    def styled(self, text: str, style: str) -> str:
        """Return a text in a style where standard output shows colour."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.colour and text else text

    def painter(self, styles: Mapping[int, str | Mapping[str, str]]) -> Painter | None:
        """Return what paints the cells of a table, None where nothing is painted: its header is bold.

        The others have the style of their column, or of the first word that they say.
        """
        if not self.colour:
            return None

        def paint(row: int, column: int, cell: str) -> str:
            style = "bold" if row == 0 else styles.get(column, "")
            if not isinstance(style, str):
                style = style.get(cell.split(maxsplit=1)[0] if cell.strip() else "", "")
            return self.styled(cell, style) if style else cell

        return paint

    def moment(self, nanoseconds: int, *, oldest: int | None = None) -> str:
        """Return a moment in local time; in brief on a terminal, in a list as the ``oldest`` is told."""
        from lastgood.cli.wording import brief_moment, moment

        if not self.out_is_terminal:
            return moment(nanoseconds)
        return brief_moment(nanoseconds, now=time.time_ns(), oldest=oldest)

    def facts(self, rows: Sequence[tuple[str, str]]) -> list[str]:
        """Return names and values as lines of two columns, the names dimmed."""
        from lastgood.cli.wording import pairs

        return pairs(rows, limit=self.columns(), paint=lambda name: self.styled(name, "dim"), prose=True)

    def columns(self, descriptor: int = 1) -> int | None:
        """Return the width of the terminal, None where that stream (standard output) is none."""
        return self._streams.columns(descriptor)

    def rows(self) -> int:
        """Return how many lines a person sees at once."""
        try:
            return os.get_terminal_size(2).lines or _ROWS
        except OSError:
            return _ROWS

    def flush(self) -> None:
        """Write out what is pending."""
        pending, self._pending, self._size = self._pending, [], 0
        if pending:
            self._write(1, b"".join(pending))

    def _write(self, descriptor: int, content: bytes) -> None:
        if descriptor in self._silent:
            return
        try:
            self._streams.write(descriptor, content)
        except OSError as error:
            self._silent.add(descriptor)
            if descriptor == 1 and not isinstance(error, BrokenPipeError):
                raise unwritten(error) from error


def unwritten(error: OSError) -> Storage:
    """Return what is said where standard output takes nothing."""
    return Storage(f"the output could not be written: {error.strerror}")


def _recorded(said: object) -> object:
    from lastgood.documents import record

    if isinstance(said, Value):
        return record(said)
    if isinstance(said, dict):
        return {key: _recorded(one) for key, one in said.items()}
    return [_recorded(one) for one in said] if isinstance(said, list | tuple) else said


def _wait_until_readable(descriptor: int) -> None:
    from select import select  # lazily: as below

    select([descriptor], [], [])


def _wait_until_writable(descriptor: int) -> None:
    from select import select  # lazily: only a stream that does not block pays for it

    select([], [descriptor], [])


# --- Option values as typed values; a bad one is a usage error that shows the right form (rule K2) ---


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
            hint = f"its options: {fitting}"
            if call.verb.name == "progress" and call.has(option):
                from lastgood.paths import quoted

                given = " ".join(f"--{option} {quoted(one)}" for one in call.texts(option))
                hint = f"to record it: {call.command(f'progress set {given}')}"
            raise Usage(f"`{words}` does not take --{option}", hint=hint)


def seconds_option(call: Call, option: str) -> float | None:
    """Return the duration given for an option, in seconds."""
    text = call.text(option)
    if text is None:
        return None
    from lastgood.quantities import parse_duration

    try:
        return parse_duration(text)
    except Invalid as error:
        raise Usage(f"--{option}: {printable(error.message)}", hint=error.hint) from error


def moment_option(call: Call, option: str, *, now: int) -> int | None:
    """Return the moment given for an option (``2h`` or ``2 hours ago``, or ISO 8601), in nanoseconds."""
    text = call.text(option)
    if text is None:
        return None
    from lastgood.view import duration, time_meant, timestamp

    span = duration(time_meant(text) or text)
    moment = now - span if span is not None else timestamp(text)
    if moment is None:
        raise Usage(
            f"--{option}: '{printable(text)}' is no time", hint="write for example 2h, 7d or 2026-11-21T10:00"
        )
    return moment


def one_of(call: Call, *options: str) -> str | None:
    """Return which of some options was given, of which only one can be."""
    given = [option for option in options if call.has(option)]
    if len(given) > 1:
        raise Usage(f"--{given[0]} and --{given[1]} do not go together", hint="give one of them")
    return given[0] if given else None


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


# --- A sign of life on a terminal, shown only when something takes longer than half a second ---

_AFTER = 0.5
_EVERY = 0.1
_BAR = 16
_MOVING = 4


class ProgressLine:
    """Shows a moving bar while a verb works.

    Driven by the interval timer rather than by a thread: beside a second thread the scan would have
    to leave the process.
    """

    def __init__(self, console: Console, doing: str) -> None:
        self._console = console
        self._doing = doing
        self._began = 0.0
        self._shown = False
        self._on = console.shows_progress

    def __enter__(self) -> Self:
        if self._on:
            import signal  # lazily: only a terminal pays for it

            self._began = time.monotonic()
            signal.signal(signal.SIGALRM, self._tick)
            signal.setitimer(signal.ITIMER_REAL, _AFTER, _EVERY)
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()

    def end(self) -> None:
        """Take the bar away, and show no more: the verb is done, or a person is asked."""
        if self._on:
            import signal

            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            if self._shown:
                self._console.overwrite("")
            self._on = False

    def _tick(self, _number: int, _frame: FrameType | None) -> None:
        # By the clock: while one long call into C runs, no alarm is heard, however many are due.
        seconds = time.monotonic() - self._began
        self._shown = True
        self._console.overwrite(f"{self._doing} {bar(int(seconds / _EVERY))} {int(seconds)} s")


def bar(tick: int) -> str:
    """Return a bar of which a block has moved on by a number of ticks, to and fro."""
    way = _BAR - _MOVING
    place = tick % (2 * way)
    place = min(place, 2 * way - place)
    return "[" + " " * place + "=" * _MOVING + " " * (way - place) + "]"
