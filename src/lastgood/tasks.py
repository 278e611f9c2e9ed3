"""What becomes of a task of a work plan: where it stands, told from records alone (rules P6, P7).

Nothing is remembered between two starts of a run but what the catalogue holds: the task as progress has
it, the steps that its attempts were recorded as, checkpoints and restores.
"""

from __future__ import annotations

from lastgood.errors import Conflict, Damaged, Invalid
from lastgood.model.session import Features, Progress, Task, long_list, readable
from lastgood.paths import printable
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Literal

    from lastgood.literals import TaskState
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.run import PlannedTask
    from lastgood.model.session import Effect

    # Nothing to do; an attempt; its check alone, since the command has ended well; a person's word.
    Way = Literal["done", "attempt", "check", "ask"]


# --- How the record of progress changes: what starts, ends and moves on, and what cannot (rule P2) ---

# Every checkpoint carries the progress: what is kept in it stays small.
ID_LIMIT = 100
TEXT_LIMIT = 2_000
STATE_LIMIT = 1 << 18
TASKS_LIMIT = 10_000
ARTIFACTS_LIMIT = 1_000
_NUMBER_LIMIT = 10**9


def check_id(id: str, *, what: str) -> None:
    """Refuse what cannot be the id of a task, feature or sprint."""
    if not 1 <= len(id) <= ID_LIMIT or not id.isprintable() or id != id.strip():
        raise Invalid(
            f"'{printable(id[:ID_LIMIT])}' cannot be the id of {what}",
            hint=f"an id has 1 to {ID_LIMIT} printable characters, none of them a space at its ends",
        )


def check_text(text: str, *, what: str) -> str:
    """Return a text that a record can hold; `Invalid` if it is too long or no Unicode."""
    if len(text) > TEXT_LIMIT:
        raise Invalid(
            f"{what} has {len(text)} characters; the limit is {TEXT_LIMIT}",
            hint="keep long texts in a file of the workspace",
        )
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise Invalid(f"{what} is not Unicode text", hint="write it as UTF-8")
    return text


def task(progress: Progress, id: str) -> Task | None:
    """Return a task by its id, None if nobody named it yet."""
    place = _place(progress.tasks, id)
    return None if place is None else progress.tasks[place]


def told_of(progress: Progress, id: str) -> Task | None:
    """Return what an old record tells of a task; None too where what it tells cannot be read."""
    try:
        return task(progress, id)
    except Damaged:
        return None


def start_task(progress: Progress, id: str, *, at: int) -> Progress:
    """Start a task, whatever it was before: one more attempt."""
    check_id(id, what="a task")
    before = task(progress, id) or Task(id=id)
    return with_task(
        progress, before.replace(state="running", attempts=before.attempts + 1, started_at=at, ended_at=None)
    )


def end_task(progress: Progress, id: str, *, state: TaskState, at: int) -> Progress:
    """End a task that runs; one that ended so already stays as it is.

    Raises `Conflict` for one that does not run.
    """
    check_id(id, what="a task")
    before = task(progress, id)
    if before is not None and before.state == state:
        return progress
    if before is None or before.state != "running":
        raise Conflict(
            f"task {id} cannot be {state}: {_why(before)}",
            hint=f"start it first: lastgood task start {id}",
            details={"task": id, "state": None if before is None else before.state},
        )
    return with_task(progress, before.replace(state=state, ended_at=at))


def skip_task(progress: Progress, id: str, *, at: int) -> Progress:
    """Leave a task out; `Conflict` for one that is done."""
    check_id(id, what="a task")
    before = task(progress, id) or Task(id=id)
    if before.state == "skipped":
        return progress
    if before.state == "done":
        raise Conflict(
            f"task {id} cannot be skipped: it is done",
            hint=f"to do it once more: lastgood task start {id}",
            details={"task": id, "state": "done"},
        )
    return with_task(progress, before.replace(state="skipped", ended_at=at))


def start_feature(progress: Progress, id: str) -> Progress:
    """Make a feature the one being built; a complete one is no longer complete."""
    check_id(id, what="a feature")
    completed = _without(progress.features.completed, id)
    return progress.replace(features=Features(current=id, completed=completed))


def finish_feature(progress: Progress, id: str) -> Progress:
    """Complete the feature being built; `Conflict` for another one."""
    check_id(id, what="a feature")
    features = progress.features
    if features.current != id:
        if _without(features.completed, id) is not features.completed:
            return progress
        raise Conflict(
            f"feature {id} cannot be done: {_instead('feature', features.current)}",
            hint=f"start it first: lastgood feature start {id}",
            details={"feature": id, "current": features.current},
        )
    completed = _without(features.completed, id)
    long = long_list(completed)
    with_it = (*completed, id) if long is None else long.with_item(long.size, id)
    return progress.replace(features=Features(current=None, completed=with_it))


def _without(ids: Sequence[str], id: str) -> Sequence[str]:
    """Return ids without one of them; the very same if it is not among them."""
    long = long_list(ids)
    is_there = id in ids if long is None else long.place(id) is not None
    return tuple(one for one in ids if one != id) if is_there else ids


def start_sprint(progress: Progress, id: str) -> Progress:
    """Enter a sprint."""
    check_id(id, what="a sprint")
    return progress.replace(position=progress.position.replace(sprint=id))


def finish_sprint(progress: Progress, id: str) -> Progress:
    """Accept the end of the sprint that the work stands in (it stands there until another starts)."""
    check_id(id, what="a sprint")
    current = progress.position.sprint
    if current != id:
        raise Conflict(
            f"sprint {id} cannot be done: {_instead('sprint', current)}",
            hint=f"start it first: lastgood sprint start {id}",
            details={"sprint": id, "current": current},
        )
    return progress


def move(
    progress: Progress,
    *,
    goal: str | None = None,
    phase: str | None = None,
    iteration: int | None = None,
    step: int | None = None,
    steps: int | None = None,
    artifacts: Iterable[bytes] | None = None,
    state: Mapping[str, object] | None = None,
) -> Progress:
    """Say where the work stands; what is None stays.

    ``artifacts`` take the place of the earlier ones. ``state`` is laid over the caller's own by key;
    a key given as None goes. Raises `Invalid` for what cannot be.
    """
    position = progress.position
    for what, number in (("iteration", iteration), ("step", step), ("number of steps", steps)):
        if number is not None:
            _check_number(number, what=what)
            position = position.replace(**{"steps" if what == "number of steps" else what: number})
    if position.step is not None and position.steps is not None and position.step > position.steps:
        raise Invalid(f"step {position.step} of {position.steps} cannot be", hint="write for example 12/15")
    if phase is not None:
        position = position.replace(phase=check_text(phase, what="the phase") or None)
    if artifacts is not None:
        position = position.replace(artifacts=_artifacts(artifacts))
    if goal is not None:
        progress = progress.replace(goal=check_text(goal, what="the goal") or None)
    if state is not None:
        laid = {**progress.state, **state}
        progress = progress.replace(state={key: value for key, value in laid.items() if value is not None})
    return progress.replace(position=position)


def with_task(progress: Progress, changed: Task) -> Progress:
    """Return progress with a task in the place of the one of its id, else after all others.

    The other tasks stay the very same: what is known of them need not be found out anew.
    """
    tasks = progress.tasks
    place = _place(tasks, changed.id)
    if place is None and len(tasks) >= TASKS_LIMIT:
        raise Invalid(
            f"there are {TASKS_LIMIT} tasks already: no more can be recorded",
            hint="give work of its own a session of its own: lastgood session start",
        )
    at = len(tasks) if place is None else place
    long = long_list(tasks)
    if long is not None:
        return progress.replace(tasks=long.with_item(at, changed))
    return progress.replace(tasks=(*tasks[:at], changed, *tasks[at + 1 :]))


def _place(tasks: Sequence[Task], id: str) -> int | None:
    """Return where a task is among others."""
    long = long_list(tasks)
    if long is not None:
        return long.place(id)
    return next((place for place, one in enumerate(tasks) if one.id == id), None)


def _why(before: Task | None) -> str:
    if before is None or before.state == "pending":
        return "it never started"
    return f"it is {before.state}"


def _instead(what: str, current: str | None) -> str:
    return f"no {what} is under way" if current is None else f"the one under way is {current}"


def _check_number(number: int, *, what: str) -> None:
    if not 0 <= number <= _NUMBER_LIMIT:
        raise Invalid(f"the {what} cannot be {number}", hint=f"give a whole number from 0 to {_NUMBER_LIMIT}")


def _artifacts(paths: Iterable[bytes]) -> tuple[bytes, ...]:
    kept = tuple(dict.fromkeys(paths))
    if len(kept) > ARTIFACTS_LIMIT:
        raise Invalid(
            f"{len(kept)} artifacts are too many; the limit is {ARTIFACTS_LIMIT}", hint="name their folder"
        )
    return kept


# --- What becomes of a task of a work plan: where it stands, told from records alone (rules P6, P7) ---

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
    before = task(progress, id) or Task(id=id)
    number = max(before.attempts, tried) + 1
    begun = before.replace(state="running", attempts=number, started_at=at, ended_at=None)
    return with_task(progress, begun)


def end(progress: Progress, id: str, *, state: Literal["done", "failed"], at: int) -> Progress:
    """End a task, whatever was said of it meanwhile from within."""
    before = task(progress, id) or Task(id=id)
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


# --- What becomes of a run that died: its tasks, its steps, its session (rules P6, P7) ---


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


def as_known(then: Progress, *, present: Progress, at: int) -> Progress:
    """Return the progress of an earlier moment; lists that cannot be read, as the present one tells of them.

    A task that had not ended by then counts as one that waits: to do it again is the lesser harm.
    """
    features = then.features
    if readable(features.completed) is None:
        completed = tuple(present.features.completed)[: len(features.completed)]
        then = then.replace(features=features.replace(completed=completed))
    if readable(then.tasks) is not None:
        return then
    known = tuple(present.tasks)[: len(then.tasks)]
    return then.replace(tasks=tuple(_as_of(task, at) for task in known))


def as_of(task: Task, at: int) -> Task:
    """Return a task as it was at an earlier moment, if it was tried once."""
    if task.ended_at is not None and task.ended_at <= at:
        return task
    if task.started_at is not None and task.started_at <= at:
        return task.replace(state="running", ended_at=None)
    return Task(id=task.id)


def _as_of(task: Task, at: int) -> Task:
    ended = task.ended_at is not None and task.ended_at <= at
    return task if ended else Task(id=task.id, attempts=task.attempts)


def unfinished_attempt(progress: Progress, steps: Sequence[Effect]) -> Effect | None:
    """Return the attempt with which what is unfinished began; None if no task is under way (rule P7b).

    ``steps`` are those of one run in the order of their start, without those that were taken back since.
    Of a task that was tried several times it is the first attempt since it was done last. Where none is
    under way, it is that of the task that was begun last, unless another one was done later.
    """
    first: dict[str, Effect] = {}
    begun: dict[str, int] = {}
    for place, step in enumerate(steps):
        if step.task is None or step.task != step.name:
            continue
        begun[step.task] = place
        if step.state == "done":
            first.pop(step.task, None)
        else:
            first.setdefault(step.task, step)
    running = [first[task.id] for task in progress.tasks if task.state == "running" and task.id in first]
    if running:
        return min(running, key=lambda step: step.after)
    left = [task for task in progress.tasks if task.state in {"failed", "pending"} and task.id in first]
    last = max(left, key=lambda task: begun[task.id], default=None)
    if last is None or any(_is_done_after(task, last, begun=begun) for task in progress.tasks):
        return None
    return first[last.id]


def _is_done_after(task: Task, other: Task, *, begun: Mapping[str, int]) -> bool:
    if task.state != "done":
        return False
    later = None not in {task.ended_at, other.ended_at} and (task.ended_at or 0) > (other.ended_at or 0)
    return later or begun.get(task.id, -1) > begun[other.id]


def unfinished_tasks(progress: Progress) -> tuple[Task, ...]:
    """Return the tasks that are left to be done."""
    return tuple(task for task in progress.tasks if task.state in {"running", "pending"})


def done_since(present: Progress, then: Progress) -> tuple[str, ...]:
    """Return the tasks that are done, and were not at an earlier moment."""
    before = {task.id for task in then.tasks if task.state == "done"}
    return tuple(task.id for task in present.tasks if task.state == "done" and task.id not in before)


def unknown_effects(effects: Sequence[Effect]) -> tuple[Effect, ...]:
    """Return the steps of which nobody saw the end, irreversible ones first.

    ``effects`` are those of one run in the order of their start. A step that was done later, or whose
    later attempt is the one that nobody saw the end of, is not told again.
    """
    last: dict[tuple[str | None, str], Effect] = {}
    for effect in effects:
        last[effect.task, effect.name] = effect
    unseen = [effect for effect in last.values() if effect.state in _NOBODY_SAW]
    return tuple(sorted(unseen, key=lambda effect: not effect.irreversible))


def unseen(effects: Sequence[Effect]) -> tuple[Effect, ...]:
    """Return the records of the steps under way as ones whose end nobody saw."""
    return tuple(effect.replace(state="unknown") for effect in effects if effect.state == "running")


def _released(task: Task) -> Task:
    return task.replace(state="pending", started_at=None) if task.state == "running" else task


def _tried(task: Task, now: Task | None) -> Task:
    return task if now is None else task.replace(attempts=max(task.attempts, now.attempts))
