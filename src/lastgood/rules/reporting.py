"""What the facts of a workspace add up to over a period (rule K5)."""

from __future__ import annotations

from lastgood.model.activity import (
    Activity,
    CheckpointCounts,
    Mark,
    Saves,
    SessionActivity,
    TaskCounts,
    WorkedTask,
)
from lastgood.model.report import HealthNote
from lastgood.rules.buckets import bucketed, seconds_between, steady

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lastgood.model.activity import Period, Records, Sizes
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.progress import Task
    from lastgood.model.session import SessionReport

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
    placed = _placed(records.checkpoints, now=now, since=since, session=session)
    sessions = [
        one
        for one in records.sessions
        if (session is None or one.id == session) and (since is None or _last_sign(one, now=now) >= since)
    ]
    worked = _worked(sessions, () if session is not None else records.outside, since=since)
    checkpoints = [one for _, one in placed]
    gained = _gained(placed)
    features = [name for one in sessions for name in one.progress.features.completed]
    if session is None:
        features += records.outside_features
    activity = Activity(
        workspace=workspace,
        store=store,
        period=period,
        since=since,
        until=now,
        session=session,
        sessions=_sessions(sessions, worked, checkpoints, now=now),
        tasks=_counted(worked),
        worked=worked,
        features=tuple(dict.fromkeys(features)),
        checkpoints=_checkpoints(checkpoints),
        operations=_operations(records, since=since) if session is None else {},
        effects=tuple(
            one
            for one in records.effects
            if (session is None or one.session == session) and (since is None or one.started_at >= since)
        ),
        saves=_saves(checkpoints),
        sizes=sizes,
        tokens=sum(gained) if any(one.manifest.metrics.tokens is not None for one in checkpoints) else None,
        buckets=bucketed(placed, worked, gained, since=since, now=now, offset=offset),
        marks=tuple(
            Mark(id=one.id, at=at, kind=one.kind, title=(one.name or one.message).strip()[:_TITLE])
            for at, one in placed
        ),
        notes=(),
    )
    return activity.replace(notes=_notes(activity))


def _placed(
    checkpoints: Iterable[Checkpoint], *, now: int, since: int | None, session: str | None
) -> list[tuple[int, Checkpoint]]:
    """Return the checkpoints of a period oldest first, with times that never go back (rule S15)."""
    standing = [one for one in checkpoints if one.deleted_at is None]
    standing.sort(key=lambda one: one.sequence)
    times = steady([one.manifest.created_at for one in standing], now=now)
    return [
        (at, one)
        for at, one in zip(times, standing, strict=True)
        if (since is None or at >= since) and (session is None or one.session == session)
    ]


def _last_sign(report: SessionReport, *, now: int) -> int:
    session = report.session
    if report.state == "active":
        return now
    return max(session.heartbeat_at, session.ended_at or 0)


def _worked(
    sessions: Iterable[SessionReport], outside: Iterable[Task], *, since: int | None
) -> tuple[WorkedTask, ...]:
    of_sessions = [(task, one.id) for one in sessions for task in one.progress.tasks]
    found = [*of_sessions, *((task, None) for task in outside)]
    return tuple(
        WorkedTask(task=task, session=session, seconds=seconds_between(task.started_at, task.ended_at))
        for task, session in found
        if since is None or _touched(task) is None or (_touched(task) or 0) >= since
    )


def _touched(task: Task) -> int | None:
    return task.started_at if task.ended_at is None else task.ended_at


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
    checkpoints: Sequence[Checkpoint],
    *,
    now: int,
) -> tuple[SessionActivity, ...]:
    tasks: dict[str | None, list[WorkedTask]] = {}
    saves: dict[str | None, list[Checkpoint]] = {}
    for done in worked:
        tasks.setdefault(done.session, []).append(done)
    for one in checkpoints:
        saves.setdefault(one.session, []).append(one)
    return tuple(
        _session(report, tasks.get(report.id, ()), saves.get(report.id, ()), now=now) for report in reports
    )


def _session(
    report: SessionReport, worked: Sequence[WorkedTask], saves: Sequence[Checkpoint], *, now: int
) -> SessionActivity:
    last = max([_last_sign(report, now=now), *(one.manifest.created_at for one in saves)])
    metrics = [one.manifest.metrics for one in saves]
    known = [one.tokens for one in metrics if one.tokens is not None]
    return SessionActivity(
        report=report,
        seconds=seconds_between(report.session.started_at, min(last, now)) or 0.0,
        tasks=_counted(worked),
        checkpoints=len(saves),
        stored_bytes=sum(one.stored_bytes for one in metrics),
        tokens=_sum_of(known) if known else None,
        memory_bytes=max((one.memory_bytes for one in metrics if one.memory_bytes is not None), default=None),
        cpu_seconds=max((one.cpu_seconds for one in metrics if one.cpu_seconds is not None), default=None),
    )


def _sum_of(readings: Iterable[int]) -> int:
    """Return what a running total rose by; where it fell, it began anew."""
    total = before = 0
    for reading in readings:
        total += reading - before if reading >= before else reading
        before = reading
    return total


def _gained(placed: Iterable[tuple[int, Checkpoint]]) -> list[int]:
    """Return for each checkpoint how many tokens its session had used since the one before."""
    before: dict[str | None, int] = {}
    gained = []
    for _, one in placed:
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


def _operations(records: Records, *, since: int | None) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in records.operations:
        if since is None or one.at >= since:
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
    notes = []
    dead = [one.report.id for one in activity.sessions if one.report.state == "incomplete"]
    if dead:
        notes.append(
            HealthNote(
                code="incomplete-sessions",
                message=f"{_count(len(dead), 'session')} incomplete: {_some(dead)}",
                hint="lastgood recover",
            )
        )
    tried = [one.task.id for one in activity.worked if one.task.attempts >= _MANY_ATTEMPTS]
    if tried:
        notes.append(
            HealthNote(
                code="many-attempts",
                message=f"{_count(len(tried), 'task')} took {_MANY_ATTEMPTS} tries or more: {_some(tried)}",
                hint="look at what went wrong: lastgood list --kind error",
            )
        )
    counts = activity.checkpoints
    for amount, code, says, hint in (
        (counts.damaged, "damaged-checkpoints", "damaged", "lastgood verify"),
        (counts.partial, "partial-checkpoints", "partial: a time budget ended the save", "lastgood list"),
        (counts.gaps, "gaps", "with gaps: files that are not held", "which: lastgood show @"),
    ):
        if amount:
            notes.append(HealthNote(code=code, message=f"{_count(amount, 'checkpoint')} {says}", hint=hint))
    unknown = [one.name for one in activity.effects if one.state == "unknown"]
    if unknown:
        notes.append(
            HealthNote(
                code="unknown-effects",
                message=f"{_count(len(unknown), 'step')} started and nobody saw the end: {_some(unknown)}",
                hint="look whether it happened before it is done again",
            )
        )
    return tuple(notes)


def _count(amount: int, noun: str) -> str:
    return f"{amount:,} {noun}" if amount == 1 else f"{amount:,} {noun}s"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
