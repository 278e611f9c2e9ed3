"""A session: one run of autonomous work, and the lease by which its owner holds the workspace (P1).

A run encodes and decodes its whole progress several times for each of its tasks, and nearly all of it is
what it was a moment ago. So the last tasks that were written are remembered with their texts; a text is
taken for theirs only if it is the same, byte for byte.
"""

from __future__ import annotations

from lastgood.model.canonical import Canonical, Converter, Form, dumps, loads, sequence, words
from lastgood.value import Alias, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from lastgood.value import Text, Timestamp

    TaskState = Literal["pending", "running", "done", "failed", "skipped"]
    OwnerState = Literal["alive", "dead", "unknown"]
    SessionState = Literal["active", "ended", "incomplete"]
    EffectState = Literal["running", "done", "failed", "unknown"]


# --- How far the work has come: position, tasks, features, and whatever else the caller keeps (rule P2) ---

TASK_STATES: tuple[TaskState, ...] = ("pending", "running", "done", "failed", "skipped")


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
    completed: tuple[str, ...] = ()


class Progress(Value):
    """Everything said about how far the work has come.

    ``tasks`` are in the order in which they were first named. ``state`` is a JSON object of the
    caller's own.
    """

    goal: str | None = None
    position: Position = _NO_POSITION
    tasks: tuple[Task, ...] = ()
    features: Features = Features()
    state: Mapping[str, object] = {}

    @property
    def empty(self) -> bool:
        """Whether nothing was ever said."""
        return self == NO_PROGRESS

    def count(self, *states: TaskState) -> int:
        """Return how many tasks are in some states."""
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


class Usage(Value):
    """What some processes use: resident memory in bytes, processor time in seconds."""

    memory_bytes: int
    cpu_seconds: float


class Session(Value):
    """One run. Times are in nanoseconds since the epoch.

    ``state`` is what was recorded; an active one whose owner is dead or whose heartbeat is too old
    counts as incomplete (`lastgood.lease`). ``exclusive`` is False for sessions that hosts
    open by hooks. ``transcript`` is the file that the conversation is captured from at every
    checkpoint, ``transcript_host`` the program that writes it, and ``transcript_session`` what that
    calls the conversation; None where nobody knows. ``took_over`` names the session that this one pushed
    aside by force, ``ended_by`` says why one ended (``finished``, ``interrupted``, ``unfinished``,
    ``taken over``, ``fresh``, ``error``, or ``failed``: its start did). ``heartbeat_uptime`` is when the
    last heartbeat was by a clock that nobody sets, in nanoseconds of the machine's run
    ``heartbeat_boot``. ``ancestry`` is what is known of an owner that nobody named; once it is found, it
    stands in ``owner`` too.
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
    recorded as active lives.
    """

    session: Session
    state: SessionState
    progress: Progress
    words: tuple[str, ...] = ()
    owner_state: OwnerState = "unknown"

    id = Alias["str"]("session.id", "The session's id.")


class CurrentWork(Value):
    """The session that a verb belongs to (None outside one), and how far its work has come.

    ``key`` is where that progress is kept: the session's id, or the workspace's key.
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


# --- The tasks of a progress as JSON: of thousands, only what changed is written and read ---

# Where tasks stand in a canonical text: no quoted text can hold this, its quotes being escaped.
_PLACE = '"tasks":'
# What stands there instead of those that are known; no task is a number.
_STAND_IN = [0]
_TASK = Form(Task, TaskState=words(*TASK_STATES))


class _Written:
    """Tasks with the text of each, and of all together."""

    def __init__(self, tasks: tuple[Task, ...], texts: list[str]) -> None:
        self.tasks = tasks
        self.texts = texts
        self.whole = Canonical("[" + ",".join(texts) + "]")
        self.placed = _PLACE + self.whole.text


_last = _Written((), [])


def tasks_text(given: tuple[Task, ...]) -> Canonical:
    """Return tasks as canonical JSON."""
    global _last  # noqa: PLW0603 - one slot, replaced as a whole: threads cannot see half of it
    last, tasks = _last, tuple(given)  # what is no tuple could change, and be taken for what it was
    if tasks is last.tasks:
        return last.whole
    known = zip(tasks, last.tasks, last.texts, strict=False)
    texts = [text if task is before else _TASK.encode(task) for task, before, text in known]
    texts += [_TASK.encode(task) for task in tasks[len(texts) :]]
    _last = made = _Written(tasks, texts)
    return made.whole


def read(text: bytes | str, *, what: str, within: str | None = None) -> dict[str, object]:
    """Return a JSON object; its tasks as values if they are the last ones.

    They belong to the object itself, or to the one that it has ``within``. Raises `Damaged`, naming
    ``what``, if it is none.
    """
    last = _last
    whole = _ascii(text) if isinstance(text, bytes) and last.tasks else text
    if isinstance(whole, str) and last.tasks:
        before, found, after = whole.rpartition(last.placed)
        record = loads(f"{before}{_PLACE}{dumps(_STAND_IN).decode()}{after}", what=what) if found else {}
        holder = record if within is None else record.get(within)
        # The caller's own state may hold the same words: what was found is ours only in our place.
        if isinstance(holder, dict) and holder.get("tasks") == _STAND_IN:
            holder["tasks"] = last.tasks
            return record
    return loads(text, what=what)


def _ascii(text: bytes) -> str | None:
    """Return a text as canonical ones are written; None for another, which the known tasks are not in."""
    return text.decode("ascii") if text.isascii() else None


# --- Progress, sessions and steps of the work as canonical JSON ---

VERSION = 1
PROGRESS = Form(
    Progress,
    "a progress record",
    version=VERSION,
    # Tasks that were read before come as they are.
    tasks=Converter(sequence(_TASK).read, lambda tasks: tasks_text(tasks) if tasks else [], kind=tuple),
    Position=Form(Position),
    Features=Form(Features),
)
# Where the tasks are not asked for, thousands need not be read.
BRIEF_PROGRESS = Form(
    Progress,
    "a progress record",
    version=VERSION,
    without="tasks",
    Position=Form(Position),
    Features=Form(Features),
)
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

encode_progress = PROGRESS.encode
encode_session, decode_session = SESSION.encode, SESSION.decode
encode_effect, decode_effect = EFFECT.encode, EFFECT.decode


def progress_record(progress: Progress) -> dict[str, object]:
    """Return progress as plain JSON, which the table reads back exactly."""
    return PROGRESS.write(progress) | {"tasks": [_TASK.write(task) for task in progress.tasks]}


def decode_progress(text: str | bytes) -> Progress:
    """Return the progress that a text holds; `Damaged` if it is none."""
    found = PROGRESS.take(read(text, what=PROGRESS.what))
    if found.tasks:
        tasks_text(found.tasks)  # a run of thousands of tasks reads its record many times for each
    return found
