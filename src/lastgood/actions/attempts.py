"""run: what is recorded of a plan's tasks, each attempt before it starts and after it ends (rule P6)."""

from __future__ import annotations

from lastgood.actions import effects, progress
from lastgood.actions.progress import Place
from lastgood.errors import NotFound
from lastgood.ports.catalogue import Query
from lastgood.rules import attempts as rules
from lastgood.rules.progress import task as task_of
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.effect import Effect, EffectState
    from lastgood.model.progress import Progress
    from lastgood.model.working import ProgressReport
    from lastgood.ports.context import Context

# What the leftovers of one attempt are looked for among.
_NEWEST = 200


class Begun(Value):
    """An attempt that may start now: its record is durable."""

    report: ProgressReport
    effect: Effect


def begin(context: Context, id: str, *, irreversible: bool, start: str | None) -> Begun:
    """Record that an attempt of a task starts; ``start`` is the checkpoint of what is there before it."""
    place = Place(context)
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

    _, after = place.change(lambda found: rules.begin(found, id, steps=known, at=now), steps=steps)
    return Begun(report=place.report(after, task=id), effect=begun[0])


def command_ended(context: Context, effect: Effect) -> Effect:
    """Record that an attempt's command has ended well, though its check is still to be made."""
    return effects.finish(context, effect, state="done")


def done(context: Context, id: str) -> ProgressReport:
    """Record that a task is done, with the step of its attempt, and make its checkpoint."""
    place = Place(context)
    now = context.clock.now()
    task = task_of(place.progress(), id)
    if task is None or task.state != "running":  # its check was made again, or something else said of it
        place.change(
            lambda found: rules.end(found, id, state="done", at=now),
            steps=lambda _: _ended(context, id, state="done"),
        )
    return progress.end_task(context, id, state="done")


def failed(context: Context, id: str, *, state: EffectState) -> ProgressReport:
    """Record that an attempt failed; ``state`` is what is known of its step, if that has not ended."""
    place = Place(context)
    now = context.clock.now()
    _, after = place.change(
        lambda found: rules.end(found, id, state="failed", at=now),
        steps=lambda _: _ended(context, id, state=state),
    )
    return place.report(after, task=id)


def happened(context: Context, id: str) -> ProgressReport:
    """Record a person's word: a task has been done, though nobody saw its end."""
    place = Place(context)
    now = context.clock.now()

    def steps(_: Progress) -> list[Effect]:
        return [one.replace(state="done", ended_at=now) for one in attempts(context, id)[-1:]]

    place.change(lambda found: rules.end(found, id, state="done", at=now), steps=steps)
    return progress.end_task(context, id, state="done")


def attempts(context: Context, id: str) -> tuple[Effect, ...]:
    """Return the attempts of a task in the caller's session, oldest first."""
    assert context.session is not None
    return rules.attempts_of(context.work.effects(context.key, session=context.session, name=id), id)


def left_by(context: Context, attempt: Effect) -> Checkpoint | None:
    """Return the checkpoint of what an attempt left, if one was made."""
    query = Query(workspace_key=context.key, session=attempt.session, task=attempt.task, limit=_NEWEST)
    return rules.leftover(context.catalogue.find(query), attempt)


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


def _ended(context: Context, id: str, *, state: EffectState) -> Sequence[Effect]:
    running = (one for one in attempts(context, id) if one.state == "running")
    return [effects.ended(context, one, state=state) for one in running]
