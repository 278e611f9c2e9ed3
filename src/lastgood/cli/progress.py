"""How far work has come, in words, for every verb that tells of it (rule P2)."""

from __future__ import annotations

import time

from lastgood.cli.wording import ago, artifacts, place, quoted_words
from lastgood.errors import count
from lastgood.model.canonical import dumps
from lastgood.model.session import TASK_STATES, is_command, readable
from lastgood.paths import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.session import Effect, Progress, SessionReport


def standing(report: SessionReport) -> list[str]:
    """Return how far the work of a session has come, in lines."""
    progress = report.progress
    lines = [] if progress.goal is None else [f"goal: {printable(progress.goal)}"]
    lines += [] if report.turn is None else [asked_last(report.turn, now=time.time_ns())]
    if place(progress.position):
        lines.append(f"position: {place(progress.position)}")
    if progress.position.artifacts:
        lines.append(f"in-progress artifacts: {artifacts(progress.position)}")
    if progress.tasks and not is_command(progress):
        lines.append(task_counts(progress))
    session = report.session
    if session.transcript_host is not None and session.transcript_session is not None:
        lines.append(f"conversation: {session.transcript_host} {session.transcript_session}")
    elif session.transcript is not None and report.turn is None:  # its prompt tells it from others
        lines.append(f"conversation: {printable(session.transcript)}")
    return lines


def asked_last(turn: Effect, *, now: int) -> str:
    """Return what a host was asked last, and when."""
    state = ", not ended" if turn.state == "running" else ""
    return f"asked last: {quoted_words(turn.name)}, {ago(turn.started_at, now=now)}{state}"


def progress_facts(progress: Progress) -> list[tuple[str, str]]:
    """Return how far work has come, as names and values."""
    facts = []
    if progress.goal is not None:
        facts.append(("goal", printable(progress.goal)))
    if place(progress.position):
        facts.append(("position", place(progress.position)))
    if progress.position.artifacts:
        facts.append(("in progress", artifacts(progress.position)))
    return facts + _counted(progress)


def _counted(progress: Progress) -> list[tuple[str, str]]:
    facts = []
    tasks, completed = readable(progress.tasks), readable(progress.features.completed)
    if tasks is None:
        facts.append(("tasks", f"{task_counts(progress)}; which they are cannot be read"))
    if is_command(progress):
        facts += [("command", one.state) for one in tasks or () if one.state != "pending"]
        tasks = ()
    for index, task in enumerate(tasks or ()):
        again = f", attempt {task.attempts}" if task.attempts > 1 else ""
        facts.append(("" if index else "tasks", f"{task.id}  {task.state}{again}"))
    if progress.features.current is not None:
        facts.append(("feature", printable(progress.features.current)))
    if completed is None:
        features = count(len(progress.features.completed), "feature")
        facts.append(("completed", f"{features}; which they are cannot be read"))
    elif completed:
        facts.append(("completed", ", ".join(printable(one) for one in completed)))
    if progress.state:
        facts.append(("state", dumps(dict(progress.state)).decode("ascii")))
    return facts


def task_counts(progress: Progress) -> str:
    """Return how many tasks there are, and how many are in which state."""
    counted = [f"{progress.count(state)} {state}" for state in TASK_STATES if progress.count(state)]
    return f"{count(len(progress.tasks), 'task')}: {', '.join(counted)}"
