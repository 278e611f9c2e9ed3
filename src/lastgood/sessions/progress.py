"""task, feature, sprint, progress: say how far the work has come (rule P2)."""

from __future__ import annotations

from lastgood import tasks
from lastgood.catalogue import Query
from lastgood.errors import Conflict, Invalid, NotFound, Usage
from lastgood.lease import beat, unfinished
from lastgood.model.report import ProgressReport
from lastgood.model.session import COMMAND_TASK
from lastgood.save import mark
from lastgood.sessions import session as effects
from lastgood.sessions.session import command_of, command_words, working_session
from lastgood.tasks import task as task_of
from lastgood.transaction import SaveTransaction
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Literal

    from lastgood.context import Context, SessionTransaction
    from lastgood.literals import EffectState, TaskState
    from lastgood.model.checkpoint import Actor, Checkpoint, SaveReport
    from lastgood.model.operation import Operation
    from lastgood.model.session import Effect, Progress, Session

    Change = Callable[[Progress], Progress]
    # What of the work takes several tasks.
    Stretch = Literal["feature", "sprint"]
    Steps = Callable[[Progress], Sequence[Effect]]


_STARTS = {"feature": tasks.start_feature, "sprint": tasks.start_sprint}
_ENDS = {"feature": tasks.finish_feature, "sprint": tasks.finish_sprint}
_OUTCOMES: dict[TaskState, EffectState] = {"done": "done", "failed": "failed", "skipped": "unknown"}


class ProgressOwner:
    """Where a change of progress belongs: the caller's session, or the workspace outside any."""

    def __init__(self, context: Context) -> None:
        self.session: Session | None = working_session(context)
        self.id: str | None = None if self.session is None else self.session.id
        self.key: str = context.key if self.id is None else self.id
        # What is saved meanwhile belongs to the same place.
        self.context: Context = context if self.id is None else context.replace(session=self.id)

    def change(self, change: Change, *, steps: Steps | None = None) -> tuple[Progress, Progress]:
        """Replace progress by what a function makes of it, with its steps; return it before and after.

        Kept apart from restores, which bring progress back too.
        """
        context = self.context
        before: list[Progress] = []

        def counted(found: Progress) -> Progress:
            before[:] = [found]
            return change(found)

        def changed(work: SessionTransaction) -> Progress:
            work.add_workspace(context.row)
            return work.change_progress(self.key, counted, workspace_key=context.key, steps=steps)

        with SaveTransaction(context):
            try:
                after = context.work.change(changed)
            except Conflict as error:
                raise self._advised(error) from None
        if self.session is not None:
            beat(context, self.session)
        return before[0], after

    def report(
        self,
        progress: Progress,
        *,
        task: str | None = None,
        saved: SaveReport | None = None,
        unknown: tuple[Effect, ...] = (),
    ) -> ProgressReport:
        """Return what became of the progress."""
        found = None if task is None else tasks.task(progress, task)
        return ProgressReport(progress=progress, session=self.id, task=found, saved=saved, unknown=unknown)

    def _advised(self, error: Conflict) -> Conflict:
        """Point to a session that died: what is asked about probably belongs to it."""
        dead = unfinished(self.context) if self.session is None else ()
        if not dead:
            return error
        advice = f"{error.hint}\nor go on with session {dead[0].id}, which did not finish: lastgood recover"
        return Conflict(error.message, hint=advice, details=error.details)


def start_task(
    context: Context, id: str, *, risky: bool = False, irreversible: bool = False
) -> ProgressReport:
    """Start a task: count the attempt and record the step; before a risky one make a checkpoint."""
    tasks.check_id(id, what="a task")
    place = ProgressOwner(context)
    saved = None
    if risky or irreversible:
        saved = mark(place.context, "risky", message=f"before task {id}", task=id, moment="before")
    now = context.clock.now()
    unknown: list[Effect] = []

    def steps(after: Progress) -> list[Effect]:
        task = tasks.task(after, id)
        attempt = 1 if task is None else task.attempts
        unknown[:] = _ended(place, id, state="unknown")
        begun = effects.planned(
            context, id, session=place.id, task=id, attempt=attempt, irreversible=irreversible
        )
        return [*unknown, begun]

    _, after = place.change(lambda found: tasks.start_task(found, id, at=now), steps=steps)
    return place.report(after, task=id, saved=saved, unknown=tuple(unknown))


def end_task(
    context: Context,
    id: str,
    *,
    state: TaskState,
    reason: str = "",
    replaces: Checkpoint | None = None,
    actor: Actor | None = None,
) -> ProgressReport:
    """End a task that runs, and make its checkpoint; said again, it is made if it was not."""
    reason = tasks.check_text(reason, what="the reason")
    place = ProgressOwner(context)
    now = context.clock.now()

    def change(found: Progress) -> Progress:
        if state == "skipped":
            return tasks.skip_task(found, id, at=now)
        return tasks.end_task(found, id, state=state, at=now)

    _, after = place.change(change, steps=lambda _: _ended(place, id, state=_OUTCOMES[state]))
    saved = _kept(place, after, id, state=state, reason=reason, replaces=replaces, actor=actor)
    return place.report(after, task=id, saved=saved)


def _ended(place: ProgressOwner, id: str, *, state: EffectState) -> list[Effect]:
    """Return the records of a task's steps under way as ended."""
    context = place.context
    found = effects.running(context, session=place.id, task=id)
    return [effects.ended(context, one, state=state) for one in found]


def _kept(
    place: ProgressOwner,
    progress: Progress,
    id: str,
    *,
    state: TaskState,
    reason: str,
    replaces: Checkpoint | None,
    actor: Actor | None,
) -> SaveReport | None:
    """Make the checkpoint of a task's end, unless it was made when this was said before."""
    if state == "skipped":
        return None
    task = tasks.task(progress, id)
    query = Query(workspace_key=place.context.key, session=place.id, task=id, moment="after", limit=1)
    for one in place.context.catalogue.find(query):
        if one.session == place.id and tasks.told_of(one.manifest.progress, id) == task:
            return None
    command = command_of(place.context, place.id) if place.id is not None and id == COMMAND_TASK else None
    if state == "done":
        message = f"Completed task {id}" if command is None else command_words("after", command)
        return mark(
            place.context,
            "task",
            message=message,
            task=id,
            moment="after",
            replaces=replaces,
            actor=actor,
        )
    message = f"Task {id} failed" + (f": {reason}" if reason else "")
    return mark(place.context, "error", message=message, task=id, moment="after")


def start_step(
    context: Context, name: str, *, task: str | None, irreversible: bool, digits: str | None = None
) -> Effect:
    """Record a step that is about to start; before an irreversible one make a checkpoint.

    ``digits`` are those of its id, where it may have been recorded before.
    """
    name = tasks.check_text(name, what="the step")
    if task is not None:
        tasks.check_id(task, what="a task")
    place = ProgressOwner(context)
    if irreversible:
        mark(place.context, "risky", message=f"before {name}", task=task, moment="before")
    return effects.begin(context, name, session=place.id, task=task, irreversible=irreversible, digits=digits)


def start(context: Context, kind: Stretch, id: str) -> ProgressReport:
    """Make a feature the one being built, or enter a sprint."""
    place = ProgressOwner(context)
    _, after = place.change(lambda found: _STARTS[kind](found, id))
    return place.report(after)


def finish(context: Context, kind: Stretch, id: str) -> ProgressReport:
    """End a feature or sprint, and make its checkpoint; a feature's is made once, and kept for ever."""
    place = ProgressOwner(context)
    before, after = place.change(lambda found: _ENDS[kind](found, id))
    if kind == "feature" and before == after and _is_marked(place, kind, id):
        return place.report(after)
    saved = mark(place.context, kind, message=f"Completed {kind} {id}", moment="after", metadata={kind: id})
    return place.report(after, saved=saved)


def move(
    context: Context,
    *,
    goal: str | None = None,
    phase: str | None = None,
    iteration: int | None = None,
    step: int | None = None,
    steps: int | None = None,
    artifacts: Sequence[bytes] | None = None,
    state: Mapping[str, object] | None = None,
) -> ProgressReport:
    """Say where the work stands; another iteration makes a checkpoint."""
    laid = None if state is None else _plain(state)
    place = ProgressOwner(context)

    def moved(found: Progress) -> Progress:
        made = tasks.move(
            found,
            goal=goal,
            phase=phase,
            iteration=iteration,
            step=step,
            steps=steps,
            artifacts=artifacts,
            state=laid,
        )
        if laid is not None:
            _check_size(made.state)
        return made

    before, after = place.change(moved)
    saved = None
    if iteration is not None and before.position.iteration != iteration:
        saved = mark(place.context, "iteration")
    return place.report(after, saved=saved)


def progress_report(context: Context) -> ProgressReport:
    """Return how far the work has come: of the session at hand, else of the workspace."""
    place = ProgressOwner(context)
    return place.report(place.context.work.progress(place.key))


def _is_marked(place: ProgressOwner, kind: str, id: str) -> bool:
    query = Query(workspace_key=place.context.key, session=place.id, kind=kind)
    return any(one.metadata.get(kind) == id for one in place.context.catalogue.find(query))


def _plain(state: Mapping[str, object]) -> dict[str, object]:
    """Return a JSON object of our own; `Usage` if it is none."""
    import json  # lazily: only this pays for it

    try:
        made: object = json.loads(json.dumps(dict(state), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise Usage(f"the state is no JSON object ({error})", hint='for example {"retries": 2}') from None
    assert isinstance(made, dict)
    return made


def _check_size(state: Mapping[str, object]) -> None:
    from lastgood.model.canonical import dumps

    size = len(dumps(dict(state)))
    if size > tasks.STATE_LIMIT:
        raise Invalid(
            f"the state would have {size:,} bytes; the limit is {tasks.STATE_LIMIT:,}",
            hint="keep it in a file of the workspace, and name that under capture.state_files",
        )


# --- Steps of a program that are done once in a session (rule P6) ---


def last_step(context: Context, name: str, *, task: str | None) -> Effect | None:
    """Return the last step of a name, within a task or outside any; None if it has to be done (again).

    One that ended well does not count where files were taken back to before it since, unless it is
    irreversible: that no restore takes back.
    """
    place = ProgressOwner(context)
    steps = context.work.effects(context.key, session=place.id, name=name)
    mine = [one for one in steps if one.session == place.id and one.task == task]
    if not mine:
        return None
    last = mine[-1]
    if last.state == "done" and not last.irreversible and is_taken_back(context, last):
        return None
    return last


def is_taken_back(context: Context, step: Effect) -> bool:
    """Tell whether files were taken back since a step to where they were before it."""
    return taken_back_to(context, step, restores=restores(context)) is not None


def restores(context: Context) -> Sequence[Operation]:
    """Return the restores of files that hold, newest first."""
    known = context.catalogue.operations(context.key)
    return [one for one in known if one.type == "restore" and not one.undone and one.steps]


def taken_back_to(context: Context, step: Effect, *, restores: Sequence[Operation]) -> Checkpoint | None:
    """Return where the newest of some restores led that went to before a step; None if none did."""
    for one in restores:
        target = None if one.target is None else context.catalogue.get(one.target)
        if target is not None and target.sequence <= step.after and _is_later(context, one, step):
            return target
    return None


def _is_later(context: Context, operation: Operation, step: Effect) -> bool:
    """Tell whether a restore came after a step: by the number of its guard, as clocks jump."""
    guard = None if operation.guard is None else context.catalogue.get(operation.guard)
    if guard is None or guard.sequence == step.after:
        return operation.at >= (step.ended_at or step.started_at)
    return guard.sequence > step.after


# --- run: what is recorded of a plan's tasks, each attempt before it starts and after it ends (rule P6) ---

# What the leftovers of one attempt are looked for among.
_NEWEST = 200


class Begun(Value):
    """An attempt that may start now: its record is durable."""

    report: ProgressReport
    effect: Effect


def begin(context: Context, id: str, *, irreversible: bool, start: str | None) -> Begun:
    """Record that an attempt of a task starts; ``start`` is the checkpoint of what is there before it."""
    place = ProgressOwner(context)
    now = context.clock.now()
    known = attempts(context, id)
    begun: list[Effect] = []

    def steps(after: Progress) -> list[Effect]:
        task = task_of(after, id)
        assert task is not None
        planned = effects.planned(
            context, id, session=place.id, task=id, attempt=task.attempts, irreversible=irreversible
        )
        begun[:] = [planned.replace(checkpoint=start)]
        unseen = [effects.ended(context, one, state="unknown") for one in known if one.state == "running"]
        return [*unseen, *begun]

    _, after = place.change(lambda found: tasks.begin(found, id, steps=known, at=now), steps=steps)
    return Begun(report=place.report(after, task=id), effect=begun[0])


def done(
    context: Context, id: str, *, replaces: Checkpoint | None = None, actor: Actor | None = None
) -> ProgressReport:
    """Record that a task is done, with the step of its attempt, and make its checkpoint."""
    place = ProgressOwner(context)
    now = context.clock.now()
    task = task_of(place.context.work.progress(place.key), id)
    if task is None or task.state != "running":  # its check was made again, or something else said of it
        place.change(
            lambda found: tasks.end(found, id, state="done", at=now),
            steps=lambda _: _ended_attempt(context, id, state="done"),
        )
    return end_task(context, id, state="done", replaces=replaces, actor=actor)


def failed(context: Context, id: str, *, state: EffectState) -> ProgressReport:
    """Record that an attempt failed; ``state`` is what is known of its step, if that has not ended."""
    place = ProgressOwner(context)
    now = context.clock.now()
    _, after = place.change(
        lambda found: tasks.end(found, id, state="failed", at=now),
        steps=lambda _: _ended_attempt(context, id, state=state),
    )
    return place.report(after, task=id)


def happened(context: Context, id: str) -> ProgressReport:
    """Record a person's word: a task has been done, though nobody saw its end."""
    place = ProgressOwner(context)
    now = context.clock.now()

    def steps(_: Progress) -> list[Effect]:
        return [one.replace(state="done", ended_at=now) for one in attempts(context, id)[-1:]]

    place.change(lambda found: tasks.end(found, id, state="done", at=now), steps=steps)
    return end_task(context, id, state="done")


def attempts(context: Context, id: str) -> tuple[Effect, ...]:
    """Return the attempts of a task in the caller's session, oldest first."""
    assert context.session is not None
    return tasks.attempts_of(context.work.effects(context.key, session=context.session, name=id), id)


def left_by(context: Context, attempt: Effect) -> Checkpoint | None:
    """Return the checkpoint of what an attempt left, if one was made."""
    query = Query(workspace_key=context.key, session=attempt.session, task=attempt.task, limit=_NEWEST)
    return tasks.leftover(context.catalogue.find(query), attempt)


def taken_back(context: Context, attempt: Effect, left: Checkpoint | None) -> frozenset[bytes] | None:
    """Return which paths were taken back to where an attempt began since it ``left`` them, by whomever.

    None if that was never tried: there may have been nothing that could be, or need be. Without the
    checkpoint of what it left, which may have been deleted, it is the time of its end that tells.
    """
    ended = attempt.ended_at if left is None else left.manifest.created_at
    if ended is None:
        return None
    tried = False
    paths: set[bytes] = set()
    for one in context.catalogue.operations(context.key):
        if one.type != "restore" or one.target != attempt.checkpoint:
            continue
        guard = None if one.guard is None or left is None else context.catalogue.get(one.guard)
        if one.at > ended if guard is None or left is None else guard.sequence >= left.sequence:
            tried = True
            paths.update(step.path for step in one.steps)
    return frozenset(paths) if tried else None


def starts(context: Context, key: str) -> dict[str, str]:
    """Return the checkpoints from which attempts began that are not over, each with its task.

    Those of sessions of a workspace that live or wait to be continued, of tasks that are not done.
    """
    found: dict[str, str] = {}
    work = context.work
    for session in (*work.sessions(key, state="active"), *work.sessions(key, state="incomplete")):
        over = {task.id for task in work.progress(session.id).tasks if task.state == "done"}
        last = {
            one.task: one.checkpoint
            for one in work.effects(key, session=session.id)
            if one.task == one.name and one.task not in over
        }
        found |= {start: task for task, start in last.items() if task is not None and start is not None}
    return found


def kept_start(context: Context, attempt: Effect) -> Checkpoint:
    """Return the checkpoint that an attempt began from; `NotFound` if it is gone."""
    found = None if attempt.checkpoint is None else context.catalogue.get(attempt.checkpoint)
    if found is None or found.deleted_at is not None:
        raise NotFound(
            f"the checkpoint from which attempt {attempt.attempt} of task {attempt.task} began is gone",
            hint="put the files right yourself, then go on with on_failure: keep",
        )
    return found


def _ended_attempt(context: Context, id: str, *, state: EffectState) -> Sequence[Effect]:
    running = (one for one in attempts(context, id) if one.state == "running")
    return [effects.ended(context, one, state=state) for one in running]
