"""A session: one run of autonomous work, and the lease by which its owner holds the workspace (P1)."""

from __future__ import annotations

from lastgood.errors import Damaged
from lastgood.model.canonical import TEXT, Converter, Form, Wrong, dumps, loads, sequence, words
from lastgood.value import Alias, Value, cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, ClassVar, TypeVar

    from lastgood.literals import EffectState, OwnerState, SessionState, TaskState
    from lastgood.model.long_list import ListKind, LongList, PartReader
    from lastgood.value import Text, Timestamp

    Item = TypeVar("Item")


# --- How far the work has come: position, tasks, features, and whatever else the caller keeps (rule P2) ---

TASK_STATES: tuple[TaskState, ...] = ("pending", "running", "done", "failed", "skipped")
# The one task of `run -- COMMAND`.
COMMAND_TASK = "command"


class Position(Value):
    """Where in a workflow the work stands; ``step`` is the present one of ``steps``.

    ``artifacts`` are the paths, relative to the workspace, of what is being worked on.
    """

    phase: str | None = None
    iteration: int | None = None
    step: int | None = None
    steps: int | None = None
    sprint: str | None = None
    artifacts: tuple[bytes, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing is known."""
        return self == _NO_POSITION


_NO_POSITION = Position()


class Task(Value):
    """One piece of work. Times are in nanoseconds since the epoch; ``attempts`` counts its starts."""

    id: str
    state: TaskState = "pending"
    attempts: int = 0
    started_at: Timestamp | None = None
    ended_at: Timestamp | None = None


class Features(Value):
    """The feature being built, and those that are complete."""

    current: str | None = None
    completed: Sequence[str] = ()


class Progress(Value):
    """Everything said about how far the work has come.

    ``tasks`` are in the order in which they were first named: a tuple, or where there are many a sequence
    whose parts are read when they are asked for. ``state`` is a JSON object of the caller's own.
    """

    goal: str | None = None
    position: Position = _NO_POSITION
    tasks: Sequence[Task] = ()
    features: Features = Features()
    state: Mapping[str, object] = {}

    @property
    def empty(self) -> bool:
        """Whether nothing was ever said."""
        return self == NO_PROGRESS

    def count(self, *states: TaskState) -> int:
        """Return how many tasks are in some states."""
        tasks = long_list(self.tasks)
        if tasks is not None:
            return sum(tasks.counts.get(state, 0) for state in states)
        return len([None for task in self.tasks if task.state in states])


NO_PROGRESS = Progress()


# --- A session: one run of autonomous work, and the lease by which its owner holds the workspace (P1) ---

SESSION_STATES: tuple[SessionState, ...] = ("active", "ended", "incomplete")


class Owner(Value):
    """The process on whose life a lease depends; without ``pid`` the lease lives by heartbeat.

    ``started`` is the process's start time as the kernel counts it, ``boot`` the id of the machine's
    run, and ``namespace`` the space in which ``pid`` counts: together they tell a process from a
    later one, or one elsewhere, of the same number.
    """

    host: str
    pid: int | None = None
    command: str | None = None
    started: str | None = None
    boot: str | None = None
    namespace: str | None = None


class Ancestor(Value):
    """A process above a verb; ``started`` is its start as the kernel counts it."""

    pid: int
    started: str


class Ancestry(Value):
    """The processes above a session's verbs, nearest first, if nobody named its owner (`lastgood.ancestry`).

    The first ``owners`` of them may own it; the others are witnesses, by whose death alone something is
    proven. ``found`` says that the first one is above all verbs, and so owns it; ``open`` that somebody
    whom nobody saw may be at work. ``verb`` is the last one that was counted.
    """

    host: str
    processes: tuple[Ancestor, ...]
    verb: Ancestor
    boot: str | None = None
    namespace: str | None = None
    owners: int = 0
    found: bool = False
    open: bool = False


class Living(Value):
    """A process that still runs."""

    pid: int
    command: Text


class ProcessUsage(Value):
    """What some processes use: resident memory in bytes, processor time in seconds."""

    memory_bytes: int
    cpu_seconds: float


class Session(Value):
    """One run. Times are in nanoseconds since the epoch.

    ``state`` is what was recorded; an active one whose owner is dead or whose heartbeat is too old
    counts as incomplete (`lastgood.lease`). ``exclusive`` is False for sessions that hosts
    open by hooks. ``transcript`` is the file that the conversation is captured from at every
    checkpoint, ``transcript_host`` the program whose conversation it is, and ``transcript_session`` what that
    calls the conversation; None where nobody knows. ``took_over`` names the session that this one pushed
    aside by force, ``ended_by`` says why one ended (``finished``, ``interrupted``, ``unfinished``,
    ``taken over``, ``set aside`` by its own owner for another, ``fresh``, ``error``, ``rolled back``, or
    ``failed``: its start did).
    ``heartbeat_uptime`` is when the last heartbeat was by a clock that nobody sets, in nanoseconds of the
    machine's run ``heartbeat_boot``. ``ancestry`` is what is known of an owner that nobody named; once it
    is found, it stands in ``owner`` too.
    """

    id: str
    workspace_key: str
    owner: Owner
    started_at: Timestamp
    heartbeat_at: Timestamp
    state: SessionState = "active"
    goal: Text | None = None
    sprint: str | None = None
    exclusive: bool = True
    ended_at: Timestamp | None = None
    ended_by: str | None = None
    transcript: str | None = None
    took_over: str | None = None
    heartbeat_uptime: int | None = None
    heartbeat_boot: str | None = None
    ancestry: Ancestry | None = None
    transcript_host: str | None = None
    transcript_session: str | None = None


class SessionReport(Value):
    """A session as it stands now: ``state`` is the one that counts, whatever was recorded.

    ``words`` are what to give to ``lastgood`` so that a plan goes on that the session carries out; none
    where there is no plan, or nothing left to do. ``owner_state`` says whether who was at work in a session
    recorded as active lives. ``turn`` is what a host was asked last, where hooks keep the session and
    `status` tells of it.
    """

    session: Session
    state: SessionState
    progress: Progress
    words: tuple[str, ...] = ()
    owner_state: OwnerState = "unknown"
    turn: Effect | None = None

    id: ClassVar[Alias[str]] = Alias("session.id", "The session's id.")


class CurrentWork(Value):
    """The session that a verb belongs to (None outside one), and how far its work has come.

    ``key`` is where that progress is kept: the session's id, or the workspace's key, which hooks' share.
    """

    key: str
    session: Session | None = None
    progress: Progress = Progress()


# --- What was done that must not be done twice unawares (rule P6) ---

EFFECT_STATES: tuple[EffectState, ...] = ("running", "done", "failed", "unknown")


class Effect(Value):
    """One step of the work, recorded before it starts and after it ends; "step" in the JSON.

    ``name`` says what it does (a task's own step bears the task's id); ``irreversible`` marks what no
    restore takes back: a push, a deployment, a mail. ``after`` is the sequence of the newest checkpoint
    when it started, by which it is placed whatever the clocks say. Times are in nanoseconds.
    ``unknown`` means that it started and nobody saw it end. ``checkpoint`` holds what was there before
    it, if that was made; ``result`` has under ``value`` what it came to, if that was asked to be kept.
    ``stood`` is the checkpoint at which the workspace stood when it started; None where nobody noted it.
    """

    id: str
    workspace_key: str
    name: Text
    started_at: Timestamp
    session: str | None = None
    task: str | None = None
    attempt: int = 1
    irreversible: bool = False
    state: EffectState = "running"
    after: int = 0
    ended_at: Timestamp | None = None
    checkpoint: str | None = None
    result: Mapping[str, object] | None = None
    stood: str | None = None


# --- Progress as JSON: short lists stand in it, long ones are named by the tree of their parts ---

VERSION = 1
_IN_PARTS = 2
# A list of up to so many items stands in the record that has it.
SHORT = 16
# Under these names lie the parts of a checkpoint's long lists, and of a session's.
TASKS, COMPLETED = "tasks", "completed"
LISTS = (TASKS, COMPLETED)
_TASK = Form(Task, TaskState=words(*TASK_STATES))
_HEX = frozenset("0123456789abcdef")
_kinds: dict[str, ListKind[Any]] = {}


def long_list(items: Sequence[Item]) -> LongList[Item] | None:
    """Return a list as one in parts; None if it is a short one, or not in parts yet."""
    return None if isinstance(items, tuple | list) else cast("LongList[Item]", items)


def is_command(progress: Progress) -> bool:
    """Tell whether progress is that of `run -- COMMAND` alone, of which nobody told any task."""
    tasks = progress.tasks
    return isinstance(tasks, tuple) and [one.id for one in tasks] == [COMMAND_TASK]


def readable(items: Sequence[Item]) -> Sequence[Item] | None:
    """Return a list whose items can all be read; None where a part of it is damaged or missing."""
    try:
        return tuple(items)
    except Damaged:
        return None


def list_kind(name: str) -> ListKind[Any]:
    """Return what the list of a name is of."""
    if not _kinds:
        from lastgood.model.long_list import ListKind  # lazily: most progress has no long list

        _kinds[TASKS] = ListKind(
            write=_TASK.encode,
            read=_all_of(sequence(_TASK)),
            key=lambda task: task.id,
            mark=lambda key: f'"id":{_quoted(key)}',
            tally=lambda task: task.state,
        )
        _kinds[COMPLETED] = ListKind(
            write=_quoted, read=_all_of(sequence(TEXT)), key=lambda item: item, mark=_quoted
        )
    return _kinds[name]


def _quoted(text: str) -> str:
    return dumps(text).decode("ascii")


def _all_of(one: Converter) -> Callable[[list[object]], tuple[Any, ...]]:
    def read(given: list[object]) -> tuple[Any, ...]:
        try:
            return cast("tuple[Any, ...]", one.read(given))
        except Wrong as wrong:
            raise wrong.of("a part of a list") from wrong

    return read


def in_parts(progress: Progress) -> Progress:
    """Return progress whose long lists are in parts."""
    tasks, features = _in_parts(TASKS, progress.tasks), progress.features
    completed = _in_parts(COMPLETED, features.completed)
    if completed is not features.completed:
        features = features.replace(completed=completed)
    if tasks is progress.tasks and features is progress.features:
        return progress
    return progress.replace(tasks=tasks, features=features)


def _in_parts(name: str, items: Sequence[Item]) -> Sequence[Item]:
    if len(items) <= SHORT or long_list(items) is not None:
        return items
    from lastgood.model.long_list import LongList

    return LongList.of(list_kind(name), items)


def lists_in_parts(progress: Progress) -> dict[str, LongList[Any]]:
    """Return those lists of progress that are in parts, by name."""
    named: dict[str, Sequence[Any]] = {TASKS: progress.tasks, COMPLETED: progress.features.completed}
    lists = ((name, long_list(items)) for name, items in named.items())
    return {name: items for name, items in lists if items is not None}


def read_from(progress: Progress, source: Callable[[], PartReader]) -> Progress:
    """Return the same progress, told where the parts of its lists are stored."""
    for items in lists_in_parts(progress).values():
        items.read_from(source)
    return progress


def _named_list(name: str, short: Converter, *, as_it_is: bool) -> Converter:
    """Return the converter of a list that is named by the tree of its parts where it is long.

    ``as_it_is``: where it is in parts already.
    """

    def read(given: object) -> object:
        if not isinstance(given, dict):
            return short.read(given)
        from lastgood.model.long_list import LongList

        tree, size, counts = (given.get(field) for field in ("tree", "size", "counts"))
        if not isinstance(tree, str) or len(tree) != 40 or not _HEX.issuperset(tree):
            raise Wrong("a list")
        if type(size) is not int or size <= SHORT or not isinstance(counts, dict):
            raise Wrong("a list")
        kind, numbers = list_kind(name), list(counts.values())
        if not all(type(one) is int and one > 0 for one in numbers) or sum(numbers) != (
            0 if kind.tally is None else size
        ):
            raise Wrong("a list")
        return LongList(kind, size=size, counts=counts, oid=bytes.fromhex(tree))

    def write(items: Sequence[object]) -> object:
        found = long_list(items if as_it_is else _in_parts(name, items))
        if found is None:
            return short.write(items) if short.write is not None else list(items)
        return {"tree": found.oid.hex(), "size": found.size, "counts": dict(found.counts)}

    return Converter(read, write)


def _progress_form(*, parts: bool, brief: bool = False, as_it_is: bool = False) -> Form[Progress]:
    """Return the form of progress: with its long lists in ``parts`` or whole; in ``brief`` without tasks."""
    tasks, ids = sequence(_TASK), sequence(TEXT)
    if parts:
        tasks = _named_list(TASKS, tasks, as_it_is=as_it_is)
        ids = _named_list(COMPLETED, ids, as_it_is=as_it_is)
    return Form(
        Progress,
        "a progress record",
        version=_IN_PARTS if parts else VERSION,
        without="tasks" if brief else "",
        tasks=tasks,
        Position=Form(Position),
        Features=Form(Features, completed=ids),
    )


PROGRESS = _progress_form(parts=False)
PROGRESS_IN_PARTS = _progress_form(parts=True)
# For what stores no parts itself: lists that are stored in parts are named, others stand whole.
PROGRESS_AS_STORED = _progress_form(parts=True, as_it_is=True)
# Where the tasks are not asked for, thousands need not be read.
BRIEF_PROGRESS = _progress_form(parts=False, brief=True)
BRIEF_PROGRESS_IN_PARTS = _progress_form(parts=True, brief=True)

# --- Sessions and steps of the work as canonical JSON ---

_ANCESTOR = Form(Ancestor)
SESSION = Form(
    Session,
    "a session",
    version=VERSION,
    sparse="ancestry transcript_host transcript_session",
    Owner=Form(Owner),
    Ancestry=Form(Ancestry, Ancestor=_ANCESTOR),
    SessionState=words(*SESSION_STATES),
)
EFFECT = Form(
    Effect, "a step of the work", version=VERSION, sparse="stood", EffectState=words(*EFFECT_STATES)
)


def is_long(progress: Progress) -> bool:
    """Tell whether progress has a list that is to be kept in parts."""
    return len(progress.tasks) > SHORT or len(progress.features.completed) > SHORT


def encode_progress(progress: Progress) -> str:
    """Return progress as canonical JSON: equal progress gives equal texts."""
    return (PROGRESS_IN_PARTS if is_long(progress) else PROGRESS).encode(progress)


def decode_progress(text: str | bytes) -> Progress:
    """Return the progress that a text holds; `Damaged` if it is none."""
    record = loads(text, what=PROGRESS.what)
    return (PROGRESS_IN_PARTS if record.get("version") == _IN_PARTS else PROGRESS).take(record)
