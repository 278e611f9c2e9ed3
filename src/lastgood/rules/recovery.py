"""What becomes of a run that died: its tasks, its steps, its session (rules P6, P7)."""

from __future__ import annotations

from lastgood.model.progress import Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.model.effect import Effect
    from lastgood.model.progress import Progress
    from lastgood.model.session import Owner, Session

_UNSEEN = ("running", "unknown")


def released(progress: Progress) -> Progress:
    """Return progress with no task running: those that were wait to be done again, attempts kept."""
    return progress.replace(tasks=tuple(_released(task) for task in progress.tasks))


def back_to(present: Progress, then: Progress) -> Progress:
    """Return the progress of an earlier moment, no task running, no attempt and no task forgotten.

    What came after that moment has to be done again, as the files that it made are gone.
    """
    now = {task.id: task for task in present.tasks}
    known = {task.id for task in then.tasks}
    tasks = [_tried(task, now.get(task.id)) for task in released(then).tasks]
    tasks += [Task(id=task.id, attempts=task.attempts) for task in present.tasks if task.id not in known]
    return then.replace(goal=then.goal or present.goal, tasks=tuple(tasks))


def unknown_effects(effects: Sequence[Effect]) -> tuple[Effect, ...]:
    """Return the steps of which nobody saw the end, irreversible ones first.

    ``effects`` are those of one run in the order of their start. A step that was done later, or whose
    later attempt is the one that nobody saw the end of, is not told again.
    """
    last: dict[tuple[str | None, str], Effect] = {}
    for effect in effects:
        last[effect.task, effect.name] = effect
    unseen = [effect for effect in last.values() if effect.state in _UNSEEN]
    return tuple(sorted(unseen, key=lambda effect: not effect.irreversible))


def unseen(effects: Sequence[Effect]) -> tuple[Effect, ...]:
    """Return the records of the steps under way as ones whose end nobody saw."""
    return tuple(effect.replace(state="unknown") for effect in effects if effect.state == "running")


def revived(session: Session, *, owner: Owner, now: int, uptime: int, boot: str | None) -> Session:
    """Return a dead session as it goes on under another owner."""
    return session.replace(
        owner=owner,
        state="active",
        heartbeat_at=now,
        heartbeat_uptime=uptime,
        heartbeat_boot=boot,
        ended_at=None,
        ended_by=None,
    )


def given_up(session: Session, *, now: int) -> Session:
    """Return a dead session as ended, because another is to begin afresh."""
    return session.replace(state="ended", ended_at=now, ended_by="fresh")


def _released(task: Task) -> Task:
    return task.replace(state="pending", started_at=None) if task.state == "running" else task


def _tried(task: Task, now: Task | None) -> Task:
    return task if now is None else task.replace(attempts=max(task.attempts, now.attempts))
