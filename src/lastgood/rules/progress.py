"""How the record of progress changes: what starts, ends and moves on, and what cannot (rule P2)."""

from __future__ import annotations

from lastgood.errors import Conflict, Invalid
from lastgood.model.progress import Features, Progress, Task
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lastgood.model.progress import TaskState

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
    for one in progress.tasks:
        if one.id == id:
            return one
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
    completed = tuple(one for one in progress.features.completed if one != id)
    return progress.replace(features=Features(current=id, completed=completed))


def finish_feature(progress: Progress, id: str) -> Progress:
    """Complete the feature being built; `Conflict` for another one."""
    check_id(id, what="a feature")
    features = progress.features
    if features.current != id:
        if id in features.completed:
            return progress
        raise Conflict(
            f"feature {id} cannot be done: {_instead('feature', features.current)}",
            hint=f"start it first: lastgood feature start {id}",
            details={"feature": id, "current": features.current},
        )
    completed = tuple(one for one in features.completed if one != id)
    return progress.replace(features=Features(current=None, completed=(*completed, id)))


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
    tasks, ids = progress.tasks, [one.id for one in progress.tasks]
    if changed.id in ids:
        at = ids.index(changed.id)
        return progress.replace(tasks=(*tasks[:at], changed, *tasks[at + 1 :]))
    if len(tasks) >= TASKS_LIMIT:
        raise Invalid(
            f"there are {TASKS_LIMIT} tasks already: no more can be recorded",
            hint="give work of its own a session of its own: lastgood session start",
        )
    return progress.replace(tasks=(*tasks, changed))


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
