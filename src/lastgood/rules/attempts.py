"""What becomes of a task of a work plan: where it stands, told from records alone (rules P6, P7).

Nothing is remembered between two starts of a run but what the catalogue holds: the task as progress has
it, the steps that its attempts were recorded as, checkpoints and restores.
"""

from __future__ import annotations

from lastgood.model.progress import Task
from lastgood.names import printable
from lastgood.rules.progress import task as task_of
from lastgood.rules.progress import with_task
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Literal

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.effect import Effect
    from lastgood.model.progress import Progress
    from lastgood.model.workplan import PlannedTask

    # Nothing to do; an attempt; its check alone, since the command has ended well; a person's word.
    Way = Literal["done", "attempt", "check", "ask"]

# The key under which a checkpoint of what an attempt left says which attempt that was.
ATTEMPT = "attempt"
_LOOK = "look whether it happened"
_LEFTOVERS = ("error", "interrupt")
_NOBODY_SAW = ("unknown", "running")


class Outlook(Value):
    """How a task goes on. ``back`` is the attempt whose files are to be taken back before anything else."""

    way: Way
    back: Effect | None = None
    last: Effect | None = None


def outlook(planned: PlannedTask, *, task: Task, steps: Sequence[Effect]) -> Outlook:
    """Return how a task goes on, from how it is recorded and the steps of its attempts, oldest first.

    The command of an irreversible task is never run again when it is known, or possible, that it has had
    its effect: its check may be made again, else somebody has to say what is to be done.
    """
    last = steps[-1] if steps else None
    if task.state == "done":
        return Outlook(way="done", last=last)
    if last is None:
        return Outlook(way="attempt")
    back = None
    if planned.on_failure == "rollback" and last.checkpoint is not None and _is_left_behind(last, task):
        back = last
    return Outlook(way=_way(planned, task=task, steps=steps), back=back, last=last)


def _way(planned: PlannedTask, *, task: Task, steps: Sequence[Effect]) -> Way:
    last = steps[-1]
    if planned.irreversible:
        if last.state in _NOBODY_SAW:
            return "ask"
        if all(step.state != "done" for step in steps):
            return "attempt"
        return "check" if last.state == "done" and planned.check is not None else "ask"
    waits = last.state == "done" and task.state == "pending" and last.attempt == task.attempts
    return "check" if waits and planned.check is not None else "attempt"


def doubt_of(id: str, look: Outlook, *, within: Sequence[Effect]) -> str | None:
    """Return why a task is not carried out without a person's word, None if it may be.

    ``within`` are irreversible steps that its command did, and of which nobody saw the end.
    """
    if look.way == "ask" and look.last is not None:
        if look.last.state in _NOBODY_SAW:
            return f"nobody saw the end of task {id}, which cannot be taken back: {_LOOK}"
        return f"task {id}, which cannot be taken back, was carried out before, though it is not done now"
    if within and look.last is not None:
        step = printable(within[0].name)
        return f"nobody saw the end of {step}, a step of task {id} that cannot be taken back: {_LOOK}"
    return None


def _is_left_behind(last: Effect, task: Task) -> bool:
    """Tell whether an attempt ended otherwise than well, and left its files."""
    if last.attempt != task.attempts:
        return False  # progress was taken back since: so were the files, or somebody wants them so
    return last.state in {"failed", *_NOBODY_SAW} or task.state == "failed"


def attempts_of(steps: Iterable[Effect], task: str) -> tuple[Effect, ...]:
    """Return the steps that are attempts of a task, rather than something done within it."""
    return tuple(one for one in steps if one.task == one.name == task)


def leftover(checkpoints: Iterable[Checkpoint], attempt: Effect) -> Checkpoint | None:
    """Return the newest checkpoint of what an attempt left; ``checkpoints`` are newest first."""
    for one in checkpoints:
        manifest = one.manifest
        if (
            manifest.kind in _LEFTOVERS
            and manifest.task == attempt.task
            and manifest.session == attempt.session
            and manifest.metadata.get(ATTEMPT) == str(attempt.attempt)
            and one.sequence > attempt.after
            and not manifest.partial
            and one.damaged is None
        ):
            return one
    return None


def begin(progress: Progress, id: str, *, steps: Sequence[Effect], at: int) -> Progress:
    """Start an attempt: its number is higher than that of any before, also of those no longer in progress."""
    tried = max((one.attempt for one in steps), default=0)
    before = _task(progress, id)
    number = max(before.attempts, tried) + 1
    begun = before.replace(state="running", attempts=number, started_at=at, ended_at=None)
    return with_task(progress, begun)


def end(progress: Progress, id: str, *, state: Literal["done", "failed"], at: int) -> Progress:
    """End a task, whatever was said of it meanwhile from within."""
    before = _task(progress, id)
    if before.state == state:
        return progress
    return with_task(progress, before.replace(state=state, ended_at=at))


def registered(progress: Progress, ids: Sequence[str], *, without: Iterable[str] = ()) -> Progress:
    """Return progress with every task of a plan, in its order and before others; some of them gone."""
    known = {task.id: task for task in progress.tasks}
    gone = set(without)
    planned = [known.get(id, Task(id=id)) for id in ids]
    wanted = set(ids)
    others = [task for task in progress.tasks if task.id not in wanted and task.id not in gone]
    return progress.replace(tasks=(*planned, *others))


def _task(progress: Progress, id: str) -> Task:
    return task_of(progress, id) or Task(id=id)
