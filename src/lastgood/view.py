"""The one read path: which checkpoints exist, and what a reference means."""

from __future__ import annotations

from lastgood.catalogue import Query
from lastgood.errors import Ambiguous, Invalid, NotFound, Usage
from lastgood.ids import CHECKPOINT_PREFIX, id_prefix, is_bare_id, is_checkpoint_id, name_fault, short
from lastgood.model.checkpoint import Checkpoint, is_before_turn
from lastgood.paths import printable
from lastgood.trees import Files, tree_of
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal

    from lastgood.catalogue import CheckpointFacts
    from lastgood.context import CatalogueReader, WorkReader
    from lastgood.engine import ObjectReader
    from lastgood.host import Clock
    from lastgood.model.checkpoint import HealthNote, Ref

    Form = Literal[
        "id",
        "name",
        "message",
        "latest",
        "good",
        "start",
        "back",
        "ago",
        "at",
        "clock",
        "date",
        "task",
        "before-task",
        "step",
    ]


# --- The grammar of REF: text in, a typed reference out; whether it exists is for the view to say ---

_NANO = 1_000_000_000
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_UNIT_WORDS = frozenset(
    [
        "s",
        "sec",
        "secs",
        "second",
        "seconds",
        "m",
        "min",
        "mins",
        "minute",
        "minutes",
        "h",
        "hr",
        "hrs",
        "hour",
        "hours",
        "d",
        "day",
        "days",
        "w",
        "week",
        "weeks",
    ]
)
_HINT = "see: lastgood help refs"


class Reference(Value):
    """What a REF asks for.

    ``text`` is a whole id, a name that may also be the beginning of an id (``digits``) or a message, a
    message that can be no name, a task or a step. ``number`` is how many checkpoints back from where the
    workspace stands (``back``), how many nanoseconds ago (``ago``), the moment in nanoseconds since the
    epoch (``at``): the last one of the second, or fraction, that was given; the time of day in seconds
    since midnight (``clock``); or minutes as `minutes_of_date` counts them, without a year (``date``).
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
    if not ref.strip():
        raise Usage("a checkpoint reference is empty", hint=_HINT)
    if ref.startswith("-"):
        raise Usage(
            f"'{printable(ref)}' looks like an option, not like a checkpoint",
            hint="a reference is an id, a name, or one of @ @~N @good @{2h}",
        )
    if is_checkpoint_id(ref):
        return Reference(form="id", text=ref)
    if ref == "@":
        return Reference(form="back")
    if ref == "latest":
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
        raise Invalid(
            f"'{printable(ref)}' names nothing after {prefix!r}",
            hint="a checkpoint whose message begins so is named by its id: lastgood list",
        )
    return Reference(form=form, text=label)


def _special(ref: str) -> Reference:
    if ref == "@good":
        return Reference(form="good")
    if ref == "@start":
        return Reference(form="start")
    if ref.startswith("@~") and ref[2:].isascii() and ref[2:].isdigit():
        return Reference(form="back", number=min(int(ref[2:12]), 10**6))
    if ref.startswith("@{") and ref.endswith("}"):
        timed = _timed(time_meant(ref[2:-1]) or ref[2:-1])
        if timed is not None:
            return timed
    bare = time_meant(ref[1:].strip("{}"))
    details: dict[str, object] = {} if bare is None else {"meant": f"@{{{bare}}}"}
    meant = _hint_at_meant(ref) if bare is None else f"did you mean @{{{bare}}}?\n"
    raise Invalid(
        f"'{printable(ref)}' is no checkpoint reference",
        hint=meant + "forms with @: @ (where you stand), @~N, @good, @start, @{2h}, @{14:20},"
        " @{Nov 21 09:38}, @{2026-11-21T10:00}"
        "\na checkpoint whose message begins with @ is named by its id: lastgood list",
        details=details,
    )


def _timed(inner: str) -> Reference | None:
    """Return what a time in braces asks for, None if it is no time."""
    span = duration(inner)
    if span is not None:
        return Reference(form="ago", number=span)
    time_of_day = _time_of_day(inner)
    if time_of_day is not None:
        return Reference(form="clock", number=time_of_day)
    date = minutes_of_date(inner)
    if date is not None:
        return Reference(form="date", number=date)
    moment = timestamp(inner)
    if moment is not None:
        return Reference(form="at", number=moment + _grain(inner) - 1)
    return None


def _name_or_prefix(ref: str) -> Reference:
    digits = id_prefix(ref)
    if name_fault(ref) is not None and digits is None:
        return Reference(form="message", text=ref)
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


def _time_of_day(text: str) -> int | None:
    """Return a time such as ``14:20`` or ``14:20:32`` in seconds since midnight, None if it is none."""
    parts = text.split(":")
    if not 2 <= len(parts) <= 3 or not all(one.isascii() and one.isdigit() for one in parts):
        return None
    if len(parts[0]) > 2 or any(len(one) != 2 for one in parts[1:]):
        return None
    hour, minute, second = (*map(int, parts), 0)[:3]
    return None if hour > 23 or minute > 59 or second > 59 else (hour * 60 + minute) * 60 + second


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def minutes_of_date(text: str) -> int | None:
    """Return a date as lists show it within a year (``Nov 21 09:38``) in minutes, None if it is none.

    Every month counts as one of 31 days. Without a time of day it is the last minute of that day.
    """
    words = text.lower().split()
    if (
        not 2 <= len(words) <= 3
        or words[0] not in _MONTHS
        or not words[1].isascii()
        or not words[1].isdigit()
    ):
        return None
    seconds = 86_340 if len(words) == 2 else _time_of_day(words[2])
    day = int(words[1][:3])
    if seconds is None or not 1 <= day <= 31:
        return None
    return (_MONTHS.index(words[0]) * 31 + day - 1) * 1440 + seconds // 60


def last_date(minutes: int, *, now: int) -> int:
    """Return the end of the last minute of that date, without a year, in nanoseconds since the epoch."""
    from datetime import datetime  # lazily: only this form pays for it

    present = datetime.fromtimestamp(now // _NANO)  # noqa: DTZ006 - local time, as a person means it
    days, minute = divmod(minutes, 1440)
    month, day = divmod(days, 31)
    for year in range(present.year, present.year - 9, -1):
        try:
            found = datetime(year, month + 1, day + 1, minute // 60, minute % 60)  # noqa: DTZ001 - the same
        except ValueError:  # no leap year, or a day that no year has
            continue
        if found <= present:
            return (int(found.timestamp()) + 60) * _NANO - 1
    return 0


def last_time_of_day(seconds: int, *, now: int) -> int:
    """Return when it was last so late in the day by local time, in nanoseconds since the epoch."""
    from datetime import datetime, timedelta  # lazily: only this form pays for it

    present = datetime.fromtimestamp(now // _NANO)  # noqa: DTZ006 - local time, as a person means it
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    found = present.replace(hour=hour, minute=minute, second=second, fold=0)
    if found > present:
        found -= timedelta(days=1)
    return int(found.timestamp()) * _NANO


def _split_back(ref: str) -> tuple[str, int]:
    """Return the REF in ``REF~N`` or ``REF^``, and how many before it are meant; 0 if it is none of these."""
    start, tilde, digits = ref.rpartition("~")
    if tilde and start and digits.isascii() and (digits or "1").isdigit():
        return start, min(int(digits[:9] or "1"), 10**6)
    start = ref.rstrip("^")
    return (start, len(ref) - len(start)) if start else (ref, 0)


_SAID = {
    "before": "@~1",
    "all": "@",
    "earlier": "@~1",
    "everything": "@",
    "good": "@good",
    "last": "latest",
    "lastgood": "@good",
    "newest": "latest",
    "older": "@~1",
    "prev": "@~1",
    "previous": "@~1",
    "start": "@start",
}


_MEANT = {
    "@": "where you are",
    "@good": "the newest that passed its check",
    "@start": "the first of the session",
    "latest": "the newest",
}


def meant_by(ref: str) -> str | None:
    """Return our REF for what git, or a person, calls so: ``HEAD~2``, ``@^``, ``last``; None for others."""
    import re  # lazily: only what is no REF pays for it

    word = ref.lower()
    found = re.fullmatch(r"(?:head|latest|last|@)(?:(\^*)|~(\d+)|@?\{(\d{1,9})\})", word)
    if word in _SAID or found is None:
        return _SAID.get(word)
    ups, *numbers = found.groups()
    back = len(ups or "") + int(next(filter(None, numbers), "0"))
    return f"@~{back}" if back else "@"


def _hint_at_meant(ref: str) -> str:
    """Return a line with what may have been meant by what is no REF, nothing where that is not known."""
    first, dots, second = ref.partition("..")
    second = second.strip(".")
    if dots and first and second:
        return f"between two: lastgood diff {first} {second}\n"
    meant = meant_by(ref)
    return "" if meant is None else f"did you mean {meant}?\n"


_AGO = frozenset({"ago", "back", "before", "earlier", "old"})
_NUMBER_WORDS = {
    **dict.fromkeys(("a", "an", "one", "last"), "1"),
    "two": "2",
    "three": "3",
    "four": "4",
    "five": "5",
    "six": "6",
    "ten": "10",
}


def time_meant(text: str) -> str | None:
    """Return the time meant by ``2h``, ``two hours ago``, ``1.5h``, ``2pm``, ``14:20`` or a date, or None."""
    said = text.lower()
    words = said.removeprefix("before ").split()
    words = words[: len(words) - (len(words) > 1 and words[-1] in _AGO)]
    if words == ["yesterday"]:
        return "1d"
    if words[:1] == ["half"] and words[1:-1] in ([], ["a"], ["an"]) and words[-1] in {"hour", "day"}:
        return "30m" if words[-1] == "hour" else "12h"
    if len(words) == 1 and words[0] in _UNIT_WORDS and said.endswith(" ago"):
        words = ["1", *words]
    if len(words) == 1:
        unit = words[0].lstrip("0123456789")
        words = [words[0].removesuffix(unit), unit] if unit else words
    if len(words) == 2 and words[1] in _UNIT_WORDS:
        span = _NUMBER_WORDS.get(words[0], words[0]) + words[1][0]
        if duration(span) is not None:
            return span
    if _time_of_day(text) is not None or minutes_of_date(text) is not None:
        return text
    if len(text) >= len("2026-11-21") and timestamp(text) is not None:
        return text
    return _odd_time("".join(words)) if text[:1].isdigit() else None


def _odd_time(text: str) -> str | None:
    """Return the time meant by ``1h30m``, ``1.5h``, ``2pm`` or ``9:41 pm``, None if it is none of these."""
    import re  # lazily: only what is no REF pays for it

    found = re.fullmatch(r"(\d{1,2})(?::?(\d\d))?([ap])m", text)
    if found is not None:
        hour = int(found[1]) % 12 + 12 * (found[3] == "p")
        clock = f"{hour}:{found[2] or '00'}"
        return clock if int(found[1]) <= 12 and _time_of_day(clock) is not None else None
    found = re.fullmatch(r"(\d{1,6})h(?:ours?)?(?:and)?(\d{1,4})m?(?:in(?:utes)?)?", text)
    if found is not None:
        return f"{int(found[1]) * 60 + int(found[2])}m"
    found = re.fullmatch(r"(\d{1,4})[.,](\d)([a-z]+)", text)
    if found is None or found[3] not in _UNIT_WORDS:  # a month is no minute
        return None
    tenths = int(found[1]) * 10 + int(found[2])
    seconds = tenths * _UNITS[found[3][0]] // 10
    return f"{seconds // 60}m" if seconds >= 60 else f"{seconds}s"


def _grain(text: str) -> int:
    """Return how long the shortest time is that a moment was given in, in nanoseconds.

    What is shown of a checkpoint's moment is cut off; as a REF it has to lead back to it.
    """
    if len(text) == len("2026-11-21"):
        return 86_400 * _NANO
    if len(text) == len("2026-11-21 10:00") and text[10] == " ":  # as a list shows one of another year
        return 60 * _NANO
    digits = text.replace(",", ".").partition(".")[2]
    places = next((at for at, one in enumerate(digits) if not one.isdigit()), len(digits))
    return int(_NANO // 10 ** min(places, 6))


# --- The one read path: which checkpoints exist, what a reference means ---

_LIST = "see what there is: lastgood list"
_TIMES = frozenset({"ago", "at", "clock", "date"})
_PAGE = 32
# Among so many of the newest is looked for what may have been meant.
_LOOKED_AT = 1000
# What has so many letters and digits is found without what is between them.
_LEAST_SQUEEZED = 4
_SHOWN = 3


def _near(ref: str, request: Reference, known: Sequence[Checkpoint]) -> tuple[str, dict[str, object]]:
    """Return lines with what is near to a REF by name or message, and as details the only one, if it is."""
    from shlex import quote  # lazily: only who mistook a name pays for it

    from lastgood.suggestions import nearest

    word = ref.strip().removesuffix("…").lower()  # as a table cuts a name
    texts = [(one, f"{one.name or ''}\n{one.message}".lower()) for one in known]
    saying = [one for one, text in texts if word and word in text]
    moment, _, of_turn = word.partition(": ")
    if not saying and of_turn and moment in {"before", "after"}:  # as a list shows a turn's
        turns = [(one, text) for one, text in texts if one.kind == "turn" and of_turn in text]
        saying = [one for one, _ in turns if is_before_turn(one) == (moment == "before")]
    if not saying and len(squeezed := _squeezed(word)) >= _LEAST_SQUEEZED:  # `all-good` for "all good"
        saying = [one for one, text in texts if squeezed in _squeezed(text)]
    if len(saying) > 1:
        told = "".join(
            f"  {short(one.id)} ({printable(one.name or one.message)})\n" for one in saying[:_SHOWN]
        )
        more = f"{len(saying)} in all: lastgood list {quote(ref.strip())}\n" if len(saying) > _SHOWN else ""
        said = f"with that in their name or message, newest first:\n{told}{more}"
        return said, {"alike": len(saying)}
    by_word = {word: one for one in reversed(known) for word in (one.name, one.message.strip()) if word}
    close = nearest(ref, by_word) if request.form in {"name", "message"} and not saying else ()
    found = [(one, by_word[one]) for one in close] or [(one.name or one.message, one) for one in saying]
    told = " or ".join(f"'{printable(text)}' ({short(one.id)})" for text, one in found)
    return f"did you mean {told}?\n" if found else "", {"near": found[0][1].id} if len(found) == 1 else {}


def _squeezed(text: str) -> str:
    """Return the letters and digits of a text."""
    return "".join(filter(str.isalnum, text))


def _called(checkpoint: Checkpoint) -> str:
    """Return the title of a checkpoint in brackets, nothing where it has none."""
    said = printable(checkpoint.name or checkpoint.message.strip().partition("\n")[0])
    return f" ({said})" if said else ""


class View:
    """The store as one workspace sees it."""

    def __init__(
        self,
        *,
        catalogue: CatalogueReader,
        objects: Callable[[], ObjectReader],
        key: str,
        clock: Clock,
        work: Callable[[], WorkReader],
        session: Callable[[], str | None],
        gone_below: Callable[[], Sequence[HealthNote]] = tuple,
        left_elsewhere: Callable[[], Sequence[HealthNote]] = tuple,
        commit: Callable[[str], tuple[str, int] | None] = lambda _revision: None,
    ) -> None:
        self._commit = commit
        self._gone_below = gone_below
        self._left_elsewhere = left_elsewhere
        self._work = work
        self._session = session
        self._catalogue = catalogue
        self._objects = objects
        self._key = key
        self._clock = clock

    def latest(self) -> Checkpoint | None:
        """Return the newest complete checkpoint that is no guard."""
        return self._first(Query(workspace_key=self._key, complete=True, guards=False, limit=1))

    def at(self, *, back: int = 0) -> Checkpoint | None:
        """Return the checkpoint at which the workspace stands, or that many before it along its history."""
        return self._nth(self._catalogue.history(self._key, limit=back + 1), number=back)

    def history(self) -> list[Checkpoint]:
        """Return the checkpoints from where the workspace stands back along its history, in brief."""
        places = {one.id: number for number, one in enumerate(self._catalogue.history(self._key))}
        query = Query(workspace_key=self._key, complete=True, guards=False, brief=True)
        known = [one for one in self._catalogue.find(query) if one.id in places]
        return sorted(known, key=lambda one: places[one.id])

    def resolve(self, ref: Ref) -> Checkpoint:
        """Return the one checkpoint that a REF names, or the present state of one that was had before.

        Raises `Usage` or `Invalid` for a malformed REF, `NotFound`, or `Ambiguous` with the
        candidates.
        """
        ref = ref.id if isinstance(ref, Checkpoint) else ref
        if not isinstance(ref, str):
            raise Usage(
                f"a checkpoint is named by a text, not by {type(ref).__name__}", hint="give its id or name"
            )
        try:
            request = parse(ref)
            found = self._follow(request) or self._before_another(ref)
        except Invalid:
            found = self._before_another(ref)
            if found is None:
                raise
            return found
        if found is None:
            raise self._nothing(ref, request)
        return found

    def _before_another(self, ref: str) -> Checkpoint | None:
        """Return what ``REF~N`` or ``REF^`` names: so many back along the history of another."""
        start, back = _split_back(ref)
        if not back:
            return None
        try:
            start_at = self._follow(parse(start))
        except (Invalid, NotFound, Usage):
            return None
        if start_at is None:
            return None
        key, id = start_at.manifest.workspace_key, start_at.id
        line = [one for one in self._catalogue.history(key, start=id, limit=back + 1) if one.id != id]
        found = self._nth(line, number=back - 1)
        if found is None:
            raise _before_the_beginning(ref, start, before=len(line))
        return found

    def previous(self, checkpoint: Checkpoint) -> Checkpoint | None:
        """Return the nearest complete checkpoint before another one along its history, no guard."""
        key, id = checkpoint.manifest.workspace_key, checkpoint.id
        line = [one for one in self._catalogue.history(key, start=id, limit=2) if one.id != id]
        return self._nth(line[:1], number=0)

    def tree(self, checkpoint: Checkpoint) -> Files:
        """Return the files of a checkpoint."""
        return Files(tree_of(checkpoint), self._objects())

    def _follow(self, request: Reference) -> Checkpoint | None:
        if request.form == "id":
            return self._by_id(request.text)
        if request.form in {"name", "message"}:
            return self._by_message(request.text) if request.form == "message" else self._by_name(request)
        if request.form in {"latest", "back"}:
            return self.latest() if request.form == "latest" else self.at(back=request.number)
        if request.form == "good":
            return self._first(Query(workspace_key=self._key, good=True, limit=1))
        if request.form in _TIMES:
            return self._at(self._moment(request))
        return self._of_work(request)

    def _of_work(self, request: Reference) -> Checkpoint | None:
        """Return what a REF means within the session at hand; outside any, in the whole workspace."""
        session = self._session()
        whole = Query(workspace_key=self._key, session=session, complete=True, guards=False)
        if request.form == "start":
            return self._start(whole)
        if request.form == "step":
            return self._first(whole.replace(step=_number(request.text), limit=1))
        if request.form == "task":
            return self._first(whole.replace(task=request.text, moment="after", limit=1))
        return self._before(request.text, whole)

    def _start(self, whole: Query) -> Checkpoint | None:
        if whole.session is None:
            raise NotFound("no session is under way, so @start means nothing", hint=_LIST)
        return self._first(whole.replace(oldest=True, limit=1))

    def _before(self, task: str, whole: Query) -> Checkpoint | None:
        """Return the newest checkpoint when a task was last started, whatever it was made for."""
        starts = [
            one
            for one in self._work().effects(self._key, session=whole.session)
            if one.task == one.name == task
        ]
        if not starts:  # its steps were recorded in another store
            return self._first(whole.replace(task=task, moment="before", limit=1))
        query = Query(workspace_key=self._key, complete=True, guards=False)
        return self._last_until(starts[-1].after, query)

    def _last_until(self, sequence: int, query: Query) -> Checkpoint | None:
        """Return the newest checkpoint of a sequence up to some number, looking at a few at a time."""
        offset = 0
        while found := self._catalogue.find(query.replace(limit=_PAGE, offset=offset)):
            fits = next((one for one in found if one.sequence <= sequence), None)
            if fits is not None:
                return fits
            offset += _PAGE
        return None

    def _by_id(self, checkpoint: str) -> Checkpoint | None:
        found = self._catalogue.get(checkpoint)
        return None if found is None or found.deleted_at is not None else found

    def _by_name(self, request: Reference) -> Checkpoint | None:
        if is_bare_id(request.text):  # all of an id is an id, also where a checkpoint bears it as its name
            whole = self._by_id(CHECKPOINT_PREFIX + request.text)
            if whole is not None and whole.manifest.workspace_key == self._key:
                return whole
        named = self._first(Query(workspace_key=self._key, called=request.text, limit=1))
        if named is not None:
            return named
        candidates = self._with_prefix(request.digits)
        said = self._by_message(request.text)
        if said is not None and all(one.id != said.id for one in candidates):
            candidates.append(said)
        if len(candidates) > 1:
            raise Ambiguous(
                f"{request.text!r} fits {len(candidates)} checkpoints: "
                + ", ".join(
                    f"{short(one.id)} ({printable(one.message) or one.kind})" for one in candidates[:5]
                ),
                hint="give more digits of the id",
                details={"candidates": [one.id for one in candidates]},
            )
        return candidates[0] if candidates else None

    def _with_prefix(self, digits: str | None) -> list[Checkpoint]:
        """Return the checkpoints whose id begins so.

        Only a whole id leads into another workspace: a few digits could hit a stranger's by chance.
        """
        if digits is None:
            return []
        matches = self._catalogue.with_prefix(digits)
        return [one for one in matches if one.manifest.workspace_key == self._key]

    def _by_message(self, message: str) -> Checkpoint | None:
        return self._first(Query(workspace_key=self._key, message=message, limit=1))

    def _nothing(self, ref: str, request: Reference) -> NotFound:
        """Return what is said of a REF that fits no checkpoint: why, and what is near it."""
        known = self._catalogue.find(Query(workspace_key=self._key, brief=True, limit=_LOOKED_AT))
        if not known:
            return self.nothing_left()
        if request.form in {"latest", "back"}:
            return self._too_far_back(ref)
        if request.form == "good":
            return NotFound(
                "no checkpoint has passed a check",
                hint=f"let one be judged: lastgood check @ -- COMMAND\n{_LIST}",
            )
        if request.form in _TIMES:
            return self._too_early(ref, request)
        message = f"no checkpoint '{printable(ref)}' in this workspace"
        meant = time_meant(ref)
        if meant is not None:
            age = duration(meant) is not None
            which = "the newest that is at least so old" if age else "the newest of then, or before"
            hint = f"a time is written @{{{meant}}}: {which}\n{_LIST}"
            return NotFound(message, hint=hint, details={"meant": f"@{{{meant}}}"})
        below = [one for one in self._gone_below() if f"{ref}/".startswith(f"{one.message.split(',')[0]}/")]
        gone = "".join(f"{one.message}\n{one.hint}\n" for one in below)
        meant_here, is_word = _hint_at_meant(ref), ref.isalpha()
        near, only = (
            ("", {})
            if meant_here and not is_word
            else _near(ref, request, [one for one in known if one.kind != "guard" or one.name])
        )
        at_commit, instead = self._at_commit(ref, known)
        meant = meant_by(ref)
        if meant == "@good" and self._first(Query(workspace_key=self._key, good=True, limit=1)) is None:
            meant, meant_here = None, ""
        if meant is not None:
            back = meant.removeprefix("@~")
            before = f"{back} checkpoint{'s' * (back != '1')} before where you are"
            instead += ({"ref": meant, "says": _MEANT.get(meant, before)},)
            if "near" in only:
                called = next(one for one in known if one.id == only["near"])
                instead += ({"ref": short(called.id), "says": f"as in{_called(called)}"},)
        details = only | ({"instead": instead} if instead else {})
        return NotFound(message, hint=gone + at_commit + (meant_here or near) + _LIST, details=details)

    def _at_commit(self, ref: str, known: Sequence[Checkpoint]) -> tuple[str, tuple[dict[str, str], ...]]:
        """Return a line, and as details, with the checkpoint nearest to a commit of the project's git.

        That is the first that was made at it, else the last before it.
        """
        commit = self._commit(ref)
        if commit is None:
            return "", ()
        id, made = commit
        whole = [one for one in known if not one.partial and one.kind != "guard"]
        at = [one for one in whole if one.manifest.git is not None and one.manifest.git.head == id]
        before = [one for one in whole if one.manifest.created_at < made + _NANO]  # git counts in seconds
        if not at and not before:
            return "", ()
        nearest, where = (at[-1], "first checkpoint at") if at else (before[0], "last checkpoint before")
        says = f"the {where} that commit{_called(nearest)}"
        return f"{says} is {short(nearest.id)}\n", ({"ref": short(nearest.id), "says": says},)

    def nothing_left(self) -> NotFound:
        """Return what is said where there is no checkpoint: none was made, or all are deleted."""
        if self._first(Query(workspace_key=self._key, deleted=True, brief=True, limit=1)) is None:
            if any(one.checkpoints for one in self._catalogue.operations(self._key)):
                return NotFound(
                    "every checkpoint of this workspace was deleted, and nothing of them is kept any more",
                    hint="begin anew: lastgood save",
                )
            other = "".join(f"{one.message}\n{one.hint}\n" for one in self._left_elsewhere())
            return NotFound(
                "there is no checkpoint of this workspace yet", hint=f"{other}make the first: lastgood save"
            )
        return NotFound(
            "every checkpoint of this workspace is deleted",
            hint="bring back what was deleted last: lastgood undo\nor begin anew: lastgood save",
        )

    def _too_far_back(self, ref: str) -> NotFound:
        """Return what is said of a place before the beginning of the history."""
        line = self._catalogue.history(self._key)
        if not line:
            return NotFound(
                "no checkpoint of this workspace is complete: guards and partial ones do not count",
                hint="see what there is: lastgood list --all",
            )
        return _before_the_beginning(ref, "@", before=len(line) - 1)

    def _too_early(self, ref: str, request: Reference) -> NotFound:
        whole = Query(workspace_key=self._key, complete=True, guards=False, brief=True)
        found = self._catalogue.find(whole)
        if not found:
            return NotFound(f"no complete checkpoint '{printable(ref)}' in this workspace", hint=_LIST)
        oldest_one = min(found, key=lambda one: one.manifest.created_at)
        made = oldest_one.manifest.created_at
        hint = f"the oldest is {short(oldest_one.id)}{_called(oldest_one)}\n{_LIST}"
        oldest_says = {"ref": short(oldest_one.id), "says": f"as in the oldest{_called(oldest_one)}"}
        details: dict[str, object] = {"instead": (oldest_says,)}
        if request.form == "ago":
            wanted, age = _span(request.number), _span(self._clock.now() - made)
            return NotFound(f"no checkpoint is {wanted} old; the oldest is {age}", hint=hint, details=details)
        from time import localtime, strftime

        oldest = strftime("%Y-%m-%d %H:%M:%S", localtime(made // _NANO))
        return NotFound(
            f"no checkpoint is of {printable(ref[2:-1])} or before; the oldest is of {oldest}",
            hint=hint,
            details=details,
        )

    def _moment(self, request: Reference) -> int:
        """Return the last moment, in nanoseconds since the epoch, at which what is asked for was made."""
        if request.form == "ago":
            return self._clock.now() - request.number
        if request.form == "clock":
            return last_time_of_day(request.number, now=self._clock.now()) + _NANO - 1
        if request.form == "date":
            return last_date(request.number, now=self._clock.now())
        return request.number

    def _at(self, moment: int) -> Checkpoint | None:
        return self._first(Query(workspace_key=self._key, complete=True, guards=False, until=moment, limit=1))

    def _nth(self, line: Sequence[CheckpointFacts], *, number: int) -> Checkpoint | None:
        """Return the checkpoint of that number in a line, which may be too short."""
        return self._by_id(line[number].id) if number < len(line) else None

    def _first(self, query: Query) -> Checkpoint | None:
        found = self._catalogue.find(query)
        return found[0] if found else None


def _before_the_beginning(ref: str, start: str, *, before: int) -> NotFound:
    there = f"are {before:,} checkpoints" if before > 1 else "is 1 checkpoint" if before else "is none"
    return NotFound(f"there is no '{printable(ref)}': before `{printable(start)}` there {there}", hint=_LIST)


def _span(nanoseconds: int) -> str:
    """Return a span in its largest unit: ``16 min``."""
    seconds = max(0, nanoseconds // _NANO)
    for unit, word in (("w", "weeks"), ("d", "days"), ("h", "h"), ("m", "min")):
        if seconds >= (2 if unit in "wd" else 1) * _UNITS[unit]:
            return f"{seconds // _UNITS[unit]} {word}"
    return f"{seconds} s"


def _number(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return int(text)
    raise Invalid(f"'{printable(text)}' is no number of a step", hint="write for example step:12")
