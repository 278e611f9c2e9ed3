"""What the facts of a workspace add up to over a period (rule K5)."""

from __future__ import annotations

from bisect import bisect_right

from lastgood.catalogue import Query
from lastgood.errors import LastgoodError, count
from lastgood.lease import left_elsewhere, session_of
from lastgood.model.activity import (
    Activity,
    Bucket,
    CheckpointCounts,
    Mark,
    RanCommand,
    Records,
    Saves,
    SessionActivity,
    Sizes,
    TaskCounts,
    WorkedTask,
)
from lastgood.model.checkpoint import HealthNote
from lastgood.model.session import COMMAND_TASK
from lastgood.retention.prune import PruneRequest, plan_prune, waiting
from lastgood.sessions.session import session_reports
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lastgood.context import Context
    from lastgood.literals import CommandState, Period
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.session import SessionReport, Task


# --- Time cut into equal stretches, and what fell into each; robust against clocks that jump ---

_SECOND = 10**9
_MINUTE = 60
_DAY_SECONDS = 86_400
# Widths that people count in; the epoch was a Thursday, weeks begin on Monday.
_WIDTHS = (
    *(_MINUTE * width for width in (1, 5, 15, 30, 60, 180, 360)),
    _DAY_SECONDS,
    7 * _DAY_SECONDS,
    28 * _DAY_SECONDS,
    364 * _DAY_SECONDS,
    3640 * _DAY_SECONDS,
)
_MONDAY = 4 * _DAY_SECONDS
_MOST = 48


def seconds_between(start: int | None, end: int | None) -> float | None:
    """Return how long something took, None if it did not end; a clock that went back makes it nothing."""
    if start is None or end is None:
        return None
    return max(0, end - start) / _SECOND


def steady(times: Sequence[int], *, now: int) -> list[int]:
    """Return times, given in the order in which things happened, so that none goes back or lies ahead.

    As many as possible stay as they are; each of the others, told by a clock that was wrong then, is
    shown at the time of the one before it (at the first right one, if there is none before).
    """
    right = _longest_rise([at if at <= now else None for at in times])
    if not right:
        return [now] * len(times)
    shown: list[int] = []
    last = times[right[0]]
    places = iter(right)
    following: int | None = next(places)
    for place in range(len(times)):
        if place == following:
            last = times[place]
            following = next(places, None)
        shown.append(last)
    return shown


def _longest_rise(times: Sequence[int | None]) -> list[int]:
    """Return the places of a longest series of times that never goes back."""
    ends: list[int] = []  # for each length, the least time that a series of that length ends with
    places: list[int] = []
    before: list[int | None] = []
    for place, at in enumerate(times):
        length = len(ends) if at is None else bisect_right(ends, at)
        before.append(places[length - 1] if length and at is not None else None)
        if at is None:
            continue
        ends[length : length + 1] = [at]
        places[length : length + 1] = [place]
    found: list[int] = []
    last = places[-1] if places else None
    while last is not None:
        found.append(last)
        last = before[last]
    return found[::-1]


def bucketed(
    placed: Sequence[tuple[int, Checkpoint]],
    worked: Iterable[WorkedTask],
    gained: Sequence[int],
    *,
    since: int | None,
    now: int,
    offset: int,
) -> tuple[Bucket, ...]:
    """Return what fell into each stretch of a period, or of the time of all that is known."""
    ends = [(min(one.task.ended_at, now), one.task.state) for one in worked if one.task.ended_at is not None]
    ends = [(at, state) for at, state in ends if since is None or at >= since]
    moments = [at for at, _ in placed] + [at for at, _ in ends]
    if not moments:
        return ()
    first = min(moments) if since is None else since
    last = max(moments) if since is None else now
    width = next((one for one in _WIDTHS if (last - first) // _SECOND // one < _MOST), _WIDTHS[-1])
    start = _floor(first, width=width, offset=offset)
    step = width * _SECOND
    count = (last - start) // step + 1
    rows = [_Row() for _ in range(count)]
    for (at, one), tokens in zip(placed, gained, strict=True):
        rows[(at - start) // step].save(one, tokens)
    for at, state in ends:
        rows[max(0, (at - start) // step)].end(state)
    return tuple(row.bucket(start + n * step, start + (n + 1) * step) for n, row in enumerate(rows))


def _floor(at: int, *, width: int, offset: int) -> int:
    origin = (_MONDAY if width % (7 * _DAY_SECONDS) == 0 else 0) - offset
    seconds = at // _SECOND - origin
    return (seconds - seconds % width + origin) * _SECOND


class _Row:
    """What is being counted for one bucket."""

    __slots__ = ("done", "failed", "kinds", "milliseconds", "stored", "tokens")

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}
        self.done = self.failed = self.tokens = self.stored = 0
        self.milliseconds = 0.0

    def save(self, checkpoint: Checkpoint, tokens: int) -> None:
        metrics = checkpoint.manifest.metrics
        self.kinds[checkpoint.kind] = self.kinds.get(checkpoint.kind, 0) + 1
        self.tokens += tokens
        self.stored += metrics.stored_bytes
        self.milliseconds += metrics.save_ms

    def end(self, state: str) -> None:
        self.done += state == "done"
        self.failed += state == "failed"

    def bucket(self, start: int, end: int) -> Bucket:
        count = sum(self.kinds.values())
        return Bucket(
            start=start,
            end=end,
            kinds=self.kinds,
            tasks_done=self.done,
            tasks_failed=self.failed,
            tokens=self.tokens,
            stored_bytes=self.stored,
            save_ms=self.milliseconds / count if count else None,
        )


# --- What the facts of a workspace add up to over a period (rule K5) ---

_DAYS = {"day": 1, "week": 7, "month": 30}
_DAY = 86_400 * 10**9
_MANY_ATTEMPTS = 3
_TITLE = 120
_NAMED = 3


def summarised(
    records: Records,
    *,
    workspace: str,
    store: str,
    sizes: Sizes,
    now: int,
    period: Period = "all",
    session: str | None = None,
    offset: int = 0,
) -> Activity:
    """Add up what happened in a period that ends now, of one session only if given.

    ``offset`` is the local time's distance from UTC, in seconds: buckets begin at round local times.
    """
    since = now - _DAYS[period] * _DAY if period in _DAYS else None
    frame = Frame(since=since, now=now, session=session)
    placed, gained = _placed(records.checkpoints, frame)
    checkpoints = [one for _, one in placed]
    sessions = _within(frame, records.sessions)
    commands = {one.id: _command(one) for one in sessions if one.id in records.commands}
    with_tasks = [one for one in sessions if one.id not in commands]
    worked = _worked(with_tasks, () if session is not None else records.outside, frame)
    numbers = zip(checkpoints, gained, strict=True)
    activity = Activity(
        workspace=workspace,
        store=store,
        period=period,
        since=since,
        until=now,
        session=session,
        sessions=_sessions(sessions, worked, numbers, commands=commands, now=now),
        tasks=_counted(worked),
        worked=worked,
        features=_features(sessions, () if session is not None else records.outside_features),
        checkpoints=_checkpoints(checkpoints),
        operations=_operations(records, frame),
        effects=tuple(
            one for one in records.effects if session in {None, one.session} and frame.reaches(one.started_at)
        ),
        saves=_saves(checkpoints),
        sizes=sizes,
        tokens=sum(gained) if any(one.manifest.metrics.tokens is not None for one in checkpoints) else None,
        buckets=bucketed(placed, worked, gained, since=since, now=now, offset=offset),
        marks=tuple(_mark(at, one) for at, one in placed),
        notes=(),
        commands=tuple(commands.values()),
    )
    return activity.replace(notes=_notes(activity))


class Frame(Value):
    """What a report is limited to: a time from which on (None: all), now, and a session (None: all)."""

    since: int | None
    now: int
    session: str | None

    def reaches(self, at: int) -> bool:
        """Tell whether a moment is within the period."""
        return self.since is None or at >= self.since


def _within(frame: Frame, sessions: Iterable[SessionReport]) -> list[SessionReport]:
    return [
        one
        for one in sessions
        if frame.session in {None, one.id} and frame.reaches(_last_sign(one, now=frame.now))
    ]


def _mark(at: int, one: Checkpoint) -> Mark:
    return Mark(id=one.id, at=at, kind=one.kind, title=(one.name or one.message).strip()[:_TITLE])


def _features(sessions: Iterable[SessionReport], outside: Iterable[str]) -> tuple[str, ...]:
    completed = [name for one in sessions for name in one.progress.features.completed]
    return tuple(dict.fromkeys((*completed, *outside)))


def _placed(
    checkpoints: Iterable[Checkpoint], frame: Frame
) -> tuple[list[tuple[int, Checkpoint]], list[int]]:
    """Return the checkpoints of a period oldest first, and the tokens used since the one before.

    Their times never go back (rule S15).
    """
    standing = [one for one in checkpoints if one.deleted_at is None]
    standing.sort(key=lambda one: one.sequence)
    times = steady([one.manifest.created_at for one in standing], now=frame.now)
    within = [
        (at, one, tokens)
        for at, one, tokens in zip(times, standing, _gained(standing), strict=True)
        if frame.reaches(at) and frame.session in {None, one.session}
    ]
    return [(at, one) for at, one, _ in within], [tokens for _, _, tokens in within]


def _last_sign(report: SessionReport, *, now: int) -> int:
    session = report.session
    if report.state == "active":
        return now
    return max(session.heartbeat_at, session.ended_at or 0)


def _worked(
    sessions: Iterable[SessionReport], outside: Iterable[Task], frame: Frame
) -> tuple[WorkedTask, ...]:
    of_sessions = [(task, one.id) for one in sessions for task in one.progress.tasks]
    found = [*of_sessions, *((task, None) for task in outside)]
    return tuple(
        WorkedTask(task=task, session=session, seconds=seconds_between(task.started_at, task.ended_at))
        for task, session in found
        if frame.reaches(_touched(task, otherwise=frame.now))
    )


def _command(report: SessionReport) -> RanCommand:
    """Return what became of the one command that a session carries out."""
    task = next(iter(report.progress.tasks), None)
    said = RanCommand(
        command=report.session.goal or "", session=report.id, state=_command_state(report, task)
    )
    if task is None:
        return said
    return said.replace(
        attempts=task.attempts,
        started_at=task.started_at,
        ended_at=task.ended_at,
        seconds=seconds_between(task.started_at, task.ended_at),
    )


def _command_state(report: SessionReport, task: Task | None) -> CommandState:
    if report.session.ended_by == "rolled back":
        return "taken-back"
    if report.state == "active":
        return "running"
    if task is not None and task.state == "done":
        return "done"
    if task is not None and task.state == "failed":
        return "failed"
    return "interrupted" if report.state == "incomplete" else "given-up"


def _touched(task: Task, *, otherwise: int) -> int:
    known = task.started_at if task.ended_at is None else task.ended_at
    return otherwise if known is None else known


def _counted(worked: Iterable[WorkedTask]) -> TaskCounts:
    states = dict.fromkeys(("done", "failed", "skipped", "running", "pending"), 0)
    attempts, seconds = 0, 0.0
    for one in worked:
        states[one.task.state] += 1
        attempts += one.task.attempts
        seconds += one.seconds or 0.0
    return TaskCounts(**states, attempts=attempts, seconds=seconds)


def _sessions(
    reports: Sequence[SessionReport],
    worked: Sequence[WorkedTask],
    saves: Iterable[tuple[Checkpoint, int]],
    *,
    commands: Mapping[str, RanCommand],
    now: int,
) -> tuple[SessionActivity, ...]:
    tasks: dict[str | None, list[WorkedTask]] = {}
    saved: dict[str | None, list[tuple[Checkpoint, int]]] = {}
    for done in worked:
        tasks.setdefault(done.session, []).append(done)
    for one, tokens in saves:
        saved.setdefault(one.session, []).append((one, tokens))
    return tuple(
        _session(report, tasks.get(report.id, ()), saved.get(report.id, ()), now=now).replace(
            command=commands.get(report.id)
        )
        for report in reports
    )


def _session(
    report: SessionReport,
    worked: Sequence[WorkedTask],
    saves: Sequence[tuple[Checkpoint, int]],
    *,
    now: int,
) -> SessionActivity:
    last = max([_last_sign(report, now=now), *(one.manifest.created_at for one, _ in saves)])
    metrics = [one.manifest.metrics for one, _ in saves]
    told = any(one.tokens is not None for one in metrics)
    return SessionActivity(
        report=report,
        seconds=seconds_between(report.session.started_at, min(last, now)) or 0.0,
        tasks=_counted(worked),
        checkpoints=len(saves),
        stored_bytes=sum(one.stored_bytes for one in metrics),
        tokens=sum(tokens for _, tokens in saves) if told else None,
        memory_bytes=max((one.memory_bytes for one in metrics if one.memory_bytes is not None), default=None),
        cpu_seconds=max((one.cpu_seconds for one in metrics if one.cpu_seconds is not None), default=None),
    )


def _gained(checkpoints: Iterable[Checkpoint]) -> list[int]:
    """Return for each checkpoint how many tokens its session had used since the one before.

    What is told is a running total; where it falls, it began anew.
    """
    before: dict[str | None, int] = {}
    gained = []
    for one in checkpoints:
        reading = one.manifest.metrics.tokens
        if reading is None:
            gained.append(0)
            continue
        earlier = before.get(one.session, 0)
        gained.append(reading - earlier if reading >= earlier else reading)
        before[one.session] = reading
    return gained


def _checkpoints(checkpoints: Sequence[Checkpoint]) -> CheckpointCounts:
    kinds: dict[str, int] = {}
    for one in checkpoints:
        kinds[one.kind] = kinds.get(one.kind, 0) + 1
    return CheckpointCounts(
        total=len(checkpoints),
        by_kind=dict(sorted(kinds.items(), key=lambda item: (-item[1], item[0]))),
        named=sum(one.name is not None for one in checkpoints),
        pinned=sum(one.pinned for one in checkpoints),
        good=sum(one.good is True for one in checkpoints),
        bad=sum(one.good is False for one in checkpoints),
        partial=sum(one.manifest.partial for one in checkpoints),
        gaps=sum(bool(one.manifest.gaps) for one in checkpoints),
        damaged=sum(one.damaged is not None for one in checkpoints),
    )


def _operations(records: Records, frame: Frame) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in records.operations:
        if frame.session is None and frame.reaches(one.at):
            counts[one.type] = counts.get(one.type, 0) + 1
    return counts


def _saves(checkpoints: Sequence[Checkpoint]) -> Saves:
    times = sorted(one.manifest.metrics.save_ms for one in checkpoints)
    if not times:
        return Saves()
    return Saves(
        mean_ms=sum(times) / len(times),
        median_ms=times[len(times) // 2],
        slowest_ms=times[-1],
        stored_bytes=sum(one.manifest.metrics.stored_bytes for one in checkpoints),
    )


def _notes(activity: Activity) -> tuple[HealthNote, ...]:
    dead = [one.report.id for one in activity.sessions if one.report.state == "incomplete"]
    tried = [one.task.id for one in activity.worked if one.task.attempts >= _MANY_ATTEMPTS]
    again = [one.command for one in activity.commands if one.attempts >= _MANY_ATTEMPTS]
    run = {one.session: one.command for one in activity.commands}
    unknown = [
        run.get(one.session or "", one.name) if one.name == one.task else one.name
        for one in activity.effects
        if one.state == "unknown"
    ]
    counts = activity.checkpoints
    found = (
        (len(dead), "incomplete-sessions", "session", f"incomplete: {_some(dead)}", "lastgood recover"),
        (
            len(tried),
            "many-attempts",
            "task",
            f"took {_MANY_ATTEMPTS} tries or more: {_some(tried)}",
            "look at what went wrong: lastgood list --kind error",
        ),
        (
            len(again),
            "many-attempts",
            "command",
            f"took {_MANY_ATTEMPTS} tries or more: {_some(again)}",
            "look at what went wrong: lastgood list --kind error",
        ),
        (counts.damaged, "damaged-checkpoints", "checkpoint", "damaged", "lastgood verify"),
        (
            counts.partial,
            "partial-checkpoints",
            "checkpoint",
            "partial: a time budget ended the save",
            "lastgood list",
        ),
        (counts.gaps, "gaps", "checkpoint", "with gaps: files that are not held", "which: lastgood show @"),
        (
            len(unknown),
            "unknown-effects",
            "step",
            f"started and nobody saw the end: {_some(unknown)}",
            "look whether it happened before it is done again",
        ),
    )
    return tuple(
        HealthNote(code=code, message=f"{count(amount, noun)} {says}", hint=hint)
        for amount, code, noun, says, hint in found
        if amount
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")


# --- report: what was done in a period, and what it takes up (rule K5) ---


def report(context: Context, *, period: Period, session: str | None, offset: int) -> Activity:
    """Report on a workspace; ``session`` is an id or the beginning of one, ``offset`` as in the rule.

    Raises `NotFound` or `Ambiguous` for a session that is not there. Nothing is changed.
    """
    wanted = None if session is None else session_of(context, session).id
    outside = context.work.progress(context.key)
    sessions, alone = session_reports(context), [one.id for one in outside.tasks] == [COMMAND_TASK]
    runs = context.work.runs(context.key, limit=len(sessions))
    records = Records(
        checkpoints=tuple(context.catalogue.find(Query(workspace_key=context.key, deleted=True))),
        sessions=sessions,
        outside=() if alone else tuple(outside.tasks),
        outside_features=tuple(outside.features.completed),
        operations=tuple(context.catalogue.operations(context.key)),
        effects=tuple(context.work.effects(context.key)),
        commands=frozenset(one.session for one in runs if one.plan.command),
    )
    activity = summarised(
        records,
        workspace=context.root.decode("utf-8", "surrogateescape"),
        store=context.store.decode("utf-8", "surrogateescape"),
        sizes=_sizes(context, records),
        now=context.clock.now(),
        period=period,
        session=wanted,
        offset=offset,
    )
    # A checkout made anew has nothing of its own, and its predecessor may wait to be gone on with (P7d).
    return activity.replace(notes=(*activity.notes, *left_elsewhere(context)))


def _sizes(context: Context, records: Records) -> Sizes:
    stored = [(one.manifest.metrics.stored_bytes, one.deleted_at) for one in records.checkpoints]
    size = context.measure()
    return Sizes(
        workspace=sum(size for size, _ in stored),
        deleted=sum(size for size, deleted in stored if deleted is not None),
        store=size.total,
        prunable=_known_bytes(
            lambda: plan_prune(context, PruneRequest(), known=records.checkpoints).freed_bytes
        ),
        waiting=_known_bytes(lambda: waiting(context, records.checkpoints)),
        store_parts=size,
    )


def _known_bytes(amount: Callable[[], int]) -> int | None:
    """Return an amount of bytes, None where that cannot be told (damage)."""
    try:
        return amount()
    except LastgoodError:
        return None
