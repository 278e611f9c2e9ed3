"""task, feature, sprint, progress: say how far the work has come (rule P2)."""

from __future__ import annotations

from lastgood.actions import effects
from lastgood.actions.moments import mark
from lastgood.actions.session import unfinished, working_session
from lastgood.actions.standing import beat
from lastgood.errors import Conflict, Invalid, Usage
from lastgood.model.working import ProgressReport
from lastgood.ports.catalogue import Query
from lastgood.rules import progress as rules
from lastgood.transaction.saving import Saving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lastgood.model.effect import Effect, EffectState
    from lastgood.model.progress import Progress, TaskState
    from lastgood.model.report import SaveReport
    from lastgood.model.session import Session
    from lastgood.ports.context import Context

    Change = Callable[[Progress], Progress]
    Steps = Callable[[Progress], Sequence[Effect]]

_OUTCOMES: dict[TaskState, EffectState] = {"done": "done", "failed": "failed", "skipped": "unknown"}


class Place:
    """Where a change of progress belongs: the caller's session, or the workspace outside any."""

    def __init__(self, context: Context) -> None:
        self.session: Session | None = working_session(context)
        self.id = None if self.session is None else self.session.id
        self.key = context.key if self.id is None else self.id
        # What is saved meanwhile belongs to the same place.
        self.context = context if self.id is None else context.replace(session=self.id)

    def progress(self) -> Progress:
        """Return how far the work has come."""
        return self.context.work.progress(self.key)

    def change(self, change: Change, *, steps: Steps | None = None) -> tuple[Progress, Progress]:
        """Replace progress by what a function makes of it, with its steps; return it before and after.

        Kept apart from restores, which bring progress back too.
        """
        context = self.context
        before: list[Progress] = []

        def counted(found: Progress) -> Progress:
            before[:] = [found]
            return change(found)

        with Saving(context):
            context.catalogue.add_workspace(context.row)
            try:
                after = context.work.change_progress(
                    self.key, counted, workspace_key=context.key, steps=steps
                )
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
        found = None if task is None else rules.task(progress, task)
        return ProgressReport(progress=progress, session=self.id, task=found, saved=saved, unknown=unknown)

    def _advised(self, error: Conflict) -> Conflict:
        """Point to a session that died: what is asked about probably belongs to it."""
        dead = unfinished(self.context) if self.session is None else ()
        if not dead:
            return error
        advice = f"{error.hint}    or go on with session {dead[0].id}, which did not finish: lastgood recover"
        return Conflict(error.message, hint=advice, details=error.details)


def start_task(
    context: Context, id: str, *, risky: bool = False, irreversible: bool = False
) -> ProgressReport:
    """Start a task: count the attempt and record the step; before a risky one make a checkpoint."""
    rules.check_id(id, what="a task")
    place = Place(context)
    saved = None
    if risky or irreversible:
        saved = mark(place.context, "risky", message=f"before task {id}", task=id, moment="before")
    now = context.clock.now()
    unknown: list[Effect] = []

    def steps(after: Progress) -> list[Effect]:
        task = rules.task(after, id)
        attempt = 1 if task is None else task.attempts
        unknown[:] = _ended(place, id, state="unknown")
        begun = effects.planned(
            context, id, session=place.id, task=id, attempt=attempt, irreversible=irreversible
        )
        return [*unknown, begun]

    _, after = place.change(lambda found: rules.start_task(found, id, at=now), steps=steps)
    return place.report(after, task=id, saved=saved, unknown=tuple(unknown))


def end_task(context: Context, id: str, *, state: TaskState, reason: str = "") -> ProgressReport:
    """End a task that runs, and make its checkpoint; said again, it is made if it was not."""
    reason = rules.check_text(reason, what="the reason")
    place = Place(context)
    now = context.clock.now()

    def change(found: Progress) -> Progress:
        if state == "skipped":
            return rules.skip_task(found, id, at=now)
        return rules.end_task(found, id, state=state, at=now)

    _, after = place.change(change, steps=lambda _: _ended(place, id, state=_OUTCOMES[state]))
    return place.report(after, task=id, saved=_kept(place, after, id, state=state, reason=reason))


def _ended(place: Place, id: str, *, state: EffectState) -> list[Effect]:
    """Return the records of a task's steps under way as ended."""
    context = place.context
    found = effects.running(context, session=place.id, task=id)
    return [effects.ended(context, one, state=state) for one in found]


def _kept(place: Place, progress: Progress, id: str, *, state: TaskState, reason: str) -> SaveReport | None:
    """Make the checkpoint of a task's end, unless it was made when this was said before."""
    if state == "skipped":
        return None
    task = rules.task(progress, id)
    query = Query(workspace_key=place.context.key, session=place.id, task=id, moment="after", limit=1)
    for one in place.context.catalogue.find(query):
        if one.session == place.id and rules.task(one.manifest.progress, id) == task:
            return None
    if state == "done":
        return mark(place.context, "task", message=f"Completed task {id}", task=id, moment="after")
    message = f"Task {id} failed" + (f": {reason}" if reason else "")
    return mark(place.context, "error", message=message, task=id, moment="after")


def start_step(context: Context, name: str, *, task: str | None, irreversible: bool) -> Effect:
    """Record a step that is about to start; before an irreversible one make a checkpoint."""
    name = rules.check_text(name, what="the step")
    if task is not None:
        rules.check_id(task, what="a task")
    place = Place(context)
    if irreversible:
        mark(place.context, "risky", message=f"before {name}", task=task, moment="before")
    context.catalogue.add_workspace(context.row)
    return effects.begin(context, name, session=place.id, task=task, irreversible=irreversible)


def start_feature(context: Context, id: str) -> ProgressReport:
    """Make a feature the one being built."""
    place = Place(context)
    _, after = place.change(lambda found: rules.start_feature(found, id))
    return place.report(after)


def finish_feature(context: Context, id: str) -> ProgressReport:
    """Complete the feature being built, and make its checkpoint, which is kept for ever."""
    place = Place(context)
    before, after = place.change(lambda found: rules.finish_feature(found, id))
    if before == after and _is_marked(place, "feature", id):
        return place.report(after)
    saved = mark(
        place.context, "feature", message=f"Completed feature {id}", moment="after", metadata={"feature": id}
    )
    return place.report(after, saved=saved)


def start_sprint(context: Context, id: str) -> ProgressReport:
    """Enter a sprint."""
    place = Place(context)
    _, after = place.change(lambda found: rules.start_sprint(found, id))
    return place.report(after)


def finish_sprint(context: Context, id: str) -> ProgressReport:
    """Make the checkpoint of a sprint's end."""
    place = Place(context)
    _, after = place.change(lambda found: rules.finish_sprint(found, id))
    saved = mark(
        place.context, "sprint", message=f"Completed sprint {id}", moment="after", metadata={"sprint": id}
    )
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
    place = Place(context)

    def moved(found: Progress) -> Progress:
        made = rules.move(
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


def shown(context: Context) -> ProgressReport:
    """Return how far the work has come: of the session at hand, else of the workspace."""
    place = Place(context)
    return place.report(place.progress())


def _is_marked(place: Place, kind: str, id: str) -> bool:
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
    from lastgood.codec.canonical import dumps

    size = len(dumps(dict(state)))
    if size > rules.STATE_LIMIT:
        raise Invalid(
            f"the state would have {size:,} bytes; the limit is {rules.STATE_LIMIT:,}",
            hint="keep it in a file of the workspace, and name that under capture.state_files",
        )
