"""A report in words and columns."""

from __future__ import annotations

from lastgood.cli.wording import duration, milliseconds, moment, pairs, shortened, size, table
from lastgood.errors import count
from lastgood.model.activity import SPANS, command_states, session_states
from lastgood.paths import printable
from lastgood.redaction import redact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lastgood.cli.opening import Console
    from lastgood.model.activity import Activity, RanCommand, SessionActivity, TaskCounts, WorkedTask
    from lastgood.model.report import StoreSize

    Facts = list[tuple[str, str]]

_SESSIONS_SHOWN = 20
_TEXT = 60
_GOAL_ROOM = 24


def sections(activity: Activity, console: Console, *, detailed: bool) -> Iterator[str]:
    """Yield the lines of a report."""
    room = console.columns()
    since = "" if activity.since is None else f", since {moment(activity.since)}"
    yield console.styled(f"Report on {printable(activity.workspace)}", "bold")
    yield f"{SPANS[activity.period]}{since}{'' if activity.session is None else f', {activity.session}'}"
    for heading, facts in (
        ("Sessions", _session_facts(activity)),
        ("Tasks", _task_facts(activity)),
        ("Commands", _command_facts(activity)),
        ("Checkpoints", _checkpoint_facts(activity)),
        ("Sizes", _size_facts(activity)),
    ):
        if not facts:
            continue
        yield ""
        yield console.styled(heading, "bold")
        yield from pairs([(f"  {name}", value) for name, value in facts], limit=room)
    if activity.notes:
        yield ""
        yield console.styled("To look at", "bold")
        for note in activity.notes:
            yield f"  {_safe(note.message)}"
            yield from (f"    {line}" for line in console.hints(note.hint))
    if detailed:
        yield from _details(activity, console, room)


def _session_facts(activity: Activity) -> Facts:
    if not activity.sessions:
        return [("total", "none")]
    said = ", ".join(f"{amount} {state}" for state, amount in session_states(activity).items() if amount)
    facts = [("total", f"{len(activity.sessions)} ({said})"), ("time", duration(activity.seconds))]
    if activity.tokens is not None:
        facts.append(("tokens", f"{activity.tokens:,}"))
    return facts


def _task_facts(activity: Activity) -> Facts:
    tasks = activity.tasks
    if not tasks.total:
        return [] if activity.commands else [("total", "none")]
    states = ("done", "failed", "skipped", "running", "pending")
    said = ", ".join(f"{getattr(tasks, state)} {state}" for state in states if getattr(tasks, state))
    facts = [("total", f"{tasks.total} ({said})"), ("success", ratio(tasks))]
    ended = [one.seconds for one in activity.worked if one.seconds is not None]
    if ended:
        mean = sum(ended) / len(ended)
        facts.append(("time", f"{duration(mean)} on average, {duration(max(ended))} at most"))
    if activity.features:
        facts.append(("features", f"{len(activity.features)} complete"))
    return facts


def _command_facts(activity: Activity) -> Facts:
    """Tell what `run -- COMMAND` carried out: no task, as nobody planned any."""
    if not activity.commands:
        return []
    said = ", ".join(
        f"{amount} {_words(state)}" for state, amount in command_states(activity).items() if amount
    )
    facts = [("total", f"{len(activity.commands)} ({said})")]
    ended = [one.seconds for one in activity.commands if one.seconds is not None]
    if ended:
        mean = sum(ended) / len(ended)
        facts.append(("time", f"{duration(mean)} on average, {duration(max(ended))} at most"))
    return facts


def _words(state: str) -> str:
    return state.replace("-", " ")


def _checkpoint_facts(activity: Activity) -> Facts:
    counts = activity.checkpoints
    facts = [("total", f"{counts.total:,}")]
    if counts.by_kind:
        facts.append(("by kind", ", ".join(f"{amount:,} {kind}" for kind, amount in counts.by_kind.items())))
    words = {
        "named": counts.named,
        "pinned": counts.pinned,
        "good": counts.good,
        "failed a check": counts.bad,
    }
    if any(words.values()):
        facts.append(
            ("of these", ", ".join(f"{amount:,} {word}" for word, amount in words.items() if amount))
        )
    if counts.total:
        saves = activity.saves
        facts.append(
            (
                "save time",
                f"{milliseconds(saves.median_ms)} in the middle, {milliseconds(saves.slowest_ms)} at most",
            )
        )
    if activity.operations:
        facts.append(
            ("changes", ", ".join(count(amount, type) for type, amount in activity.operations.items()))
        )
    return facts


def _size_facts(activity: Activity) -> Facts:
    sizes = activity.sizes
    facts = [
        ("stored then", size(activity.saves.stored_bytes)),
        ("workspace", f"{size(sizes.workspace)} as it was saved"),
        ("store", f"{size(sizes.store)} on the disk: {_store_parts(sizes.store_parts)}"),
    ]
    if sizes.deleted:
        waiting = "" if sizes.waiting is None else f"about {size(sizes.waiting)}, "
        facts.append(("deleted", f"{waiting}freed when it cannot be undone any more, after a day"))
    if sizes.prunable is not None:
        facts.append(("prune frees", size(sizes.prunable)))
    return facts


def _store_parts(parts: StoreSize) -> str:
    """Return what takes the room in a store."""
    return ", ".join(f"{name} {size(amount)}" for name, amount in parts.parts.items() if amount)


def _details(activity: Activity, console: Console, room: int | None) -> Iterator[str]:
    if activity.sessions:
        rows: list[tuple[str, ...]] = [
            ("Session", "State", "Started", "Time", "Tasks", "Success", "Tokens", "Stored", "Goal")
        ]
        rows += [_session_row(one) for one in activity.sessions[:_SESSIONS_SHOWN]]
        # Those that say least go first where there is no room for the goal.
        yield from _titled("Sessions in detail", rows, console, room, expendable=(6, 7, 2, 5))
        if len(activity.sessions) > _SESSIONS_SHOWN:
            yield f"  and {len(activity.sessions) - _SESSIONS_SHOWN:,} more: lastgood session list"
    if activity.worked:
        tasks = [("Task", "State", "Attempts", "Time", "Ended"), *map(_task_row, activity.worked)]
        yield from _titled("Tasks in detail", tasks, console, room)
    if activity.commands:
        commands = [("State", "Attempts", "Time", "Ended", "Command"), *map(_command_row, activity.commands)]
        yield from _titled("Commands in detail", commands, console, room)
    if activity.buckets:
        buckets = [("From", "Checkpoints", "Done", "Failed", "Tokens", "Stored")]
        buckets += [
            (
                moment(one.start),
                str(one.checkpoints),
                str(one.tasks_done),
                str(one.tasks_failed),
                f"{one.tokens:,}",
                size(one.stored_bytes),
            )
            for one in activity.buckets
            if one.checkpoints or one.tasks_done or one.tasks_failed
        ]
        yield from _titled("Over time", buckets, console, room)


def _titled(
    title: str,
    rows: Sequence[tuple[str, ...]],
    console: Console,
    room: int | None,
    *,
    expendable: Sequence[int] = (),
) -> Iterator[str]:
    yield ""
    yield console.styled(title, "bold")
    limit, last = room and room - 2, len(rows[0]) - 1
    for line in table(rows, flexible=(last,), limit=limit, expendable=expendable, room=_GOAL_ROOM):
        yield f"  {line}"


def _session_row(one: SessionActivity) -> tuple[str, ...]:
    session = one.report.session
    return (
        session.id,
        one.report.state,
        moment(session.started_at),
        duration(one.seconds),
        f"{one.tasks.done}/{one.tasks.total}" if one.command is None else _words(one.command.state),
        ratio(one.tasks),
        "-" if one.tokens is None else f"{one.tokens:,}",
        size(one.stored_bytes),
        shortened(_safe(session.goal or "-"), _TEXT),
    )


def _task_row(one: WorkedTask) -> tuple[str, ...]:
    ended = one.task.ended_at
    return (
        shortened(_safe(one.task.id), _TEXT),
        one.task.state,
        str(one.task.attempts),
        "-" if one.seconds is None else duration(one.seconds),
        "-" if ended is None else moment(ended),
    )


def _command_row(one: RanCommand) -> tuple[str, ...]:
    return (
        _words(one.state),
        str(one.attempts),
        "-" if one.seconds is None else duration(one.seconds),
        "-" if one.ended_at is None else moment(one.ended_at),
        shortened(_safe(one.command), _TEXT),
    )


def _safe(text: str) -> str:
    """Return a text that may be shown to others (rule S17) and on a terminal."""
    return printable(redact(text))


def ratio(tasks: TaskCounts) -> str:
    """Return the success ratio in per cent, a dash where nothing has ended."""
    return "-" if tasks.success_ratio is None else f"{tasks.success_ratio:.0%}"
