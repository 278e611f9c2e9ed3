"""Where a run that did not finish is taken back to (rule P7b)."""

from __future__ import annotations

from itertools import takewhile

from lastgood import tasks
from lastgood.catalogue import Query
from lastgood.errors import Damaged
from lastgood.sessions.progress import restores, taken_back_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lastgood.catalogue import CheckpointFacts
    from lastgood.context import Context
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Operation
    from lastgood.model.session import Effect, Session

_PAGE = 32
# What is saved of an attempt that did not end well.
_LEFTOVERS = frozenset({"error", "interrupt"})


def left(context: Context, key: str) -> Iterator[Session]:
    """Yield the sessions of a workspace that did not finish, or not yet."""
    for state in ("active", "incomplete"):
        yield from context.work.sessions(key, state=state)


def rollback_target(context: Context, session: Session) -> Checkpoint | None:
    """Return the checkpoint before what a session left unfinished, by what is recorded of it.

    That is before the task under way, or the one whose failure ended the run, and nothing else was under
    way; where no task is, the end of the last task or turn, or what was saved before the open turn. The
    newest one of the session that passed its check, along the history from `@`, takes its place if it is
    newer. Else it is the first one; `@` where a restore led to before all of them.
    """
    own = Query(workspace_key=session.workspace_key, session=session.id, complete=True, guards=False)
    good = _good(context, session.workspace_key, own)
    begun = tasks.unfinished_attempt(context.work.progress(session.id), _steps(context, session))
    if begun is not None:
        return _newer(_before(context, begun), good)
    return _newer(_last_end(context, session, own), good) or _first(context, session, own)


def passed_over(context: Context, session: Session, target: Checkpoint | None) -> tuple[Checkpoint, ...]:
    """Return the checkpoints after a rollback's target that it cannot lead to, as their files are damaged.

    Without a target, all of the session.
    """
    own = Query(workspace_key=session.workspace_key, session=session.id, complete=True, guards=False)
    after = 0 if target is None else target.sequence
    newer = [one.id for one in _since(context, own.replace(brief=True), after) if not one.files_sound]
    if not newer:
        return ()
    begun = tasks.unfinished_attempt(context.work.progress(session.id), _steps(context, session))
    found = (context.catalogue.get(id) for id in newer)
    return tuple(
        one
        for one in found
        if one is not None and _is_idle(one) and (begun is None or one.sequence <= begun.after)
    )


def _steps(context: Context, session: Session) -> Sequence[Effect]:
    """Return the steps that count: one that all files were taken back from begins where that led.

    If it is the last of its name; what an earlier one did has gone.
    """
    found = context.work.effects(session.workspace_key, session=session.id)
    known = restores(context)
    whole = _in_force(context, session.workspace_key, known)
    last = {(step.task, step.name): step.id for step in found}
    steps = []
    for step in found:
        # Steps of older releases do not tell where the workspace stood, nor do their restores.
        back = taken_back_to(context, step, restores=known if step.stood is None else whole)
        if back is None:
            steps.append(step)
        elif last[step.task, step.name] == step.id:
            steps.append(step.replace(stood=back.id, after=back.sequence))
    return steps


def _good(context: Context, key: str, own: Query) -> Checkpoint | None:
    """Return the newest one that passed its check, of those along the history from `@`."""
    good = {one.id: one for one in context.catalogue.find(own.replace(good=True, brief=True))}
    line = (good.get(facts.id) for facts in (context.catalogue.history(key) if good else ()))
    return next((one for one in line if one is not None and one.files_sound), None)


def _in_force(context: Context, key: str, known: Sequence[Operation]) -> Sequence[Operation]:
    """Return the restores that the present files come of: the newest whole one, and those of its target."""
    found: list[Operation] = []
    line: dict[str, int] = {}  # the sequence of each checkpoint that they come of
    for one in known:
        if one.stands is None or one.target is None:
            continue
        guard = None if one.guard is None else context.catalogue.get(one.guard)
        if found and (one.target not in line or guard is None or max(line.values()) < guard.sequence):
            continue
        found.append(one)
        line = {facts.id: facts.sequence for facts in context.catalogue.history(key, start=one.target)}
    return found


def _last_end(context: Context, session: Session, own: Query) -> Checkpoint | None:
    """Return the nearest checkpoint at the end of a task, or between turns, along the history from `@`.

    Between turns there is also the one at which the open turn began, whatever it was made for: what a person
    changed before they asked for something is none of what the agent left.
    """
    begun = _open_turns(context, session)
    ends = (own.replace(kind="task", moment="after", limit=1), own.replace(kind="turn", limit=1))
    if not begun and not any(context.catalogue.find(query) for query in ends):
        return None
    near = (
        context.catalogue.get(facts.id)
        for facts in _line(context, session.workspace_key)
        if facts.kind in {"task", "turn"} or facts.id in begun
    )
    fit = (one for one in near if one is not None and (one.session == session.id or one.id in begun))
    told = (one for one in fit if one.id in begun or one.kind == "turn" or one.moment == "after")
    return next((one for one in told if _is_ground(context, one)), None)


def _open_turns(context: Context, session: Session) -> set[str]:
    """Return where the turns of a host's session began of which nobody saw the end."""
    if session.exclusive:  # a step of it that is of no task is no turn
        return set()
    steps = context.work.effects(session.workspace_key, session=session.id)
    # A rollback, too, leaves its turn without a known end: the next one leads there again, and no further.
    turns = [one for one in steps if one.task is None and one.state in {"running", "unknown"}]
    return {one.stood for one in turns if one.stood is not None}


def _before(context: Context, begun: Effect) -> Checkpoint | None:
    """Return the nearest ground along the history from where the workspace stood when an attempt began.

    Records of older releases do not tell where: of these it is the newest one by its number.
    """
    if begun.stood is None or context.catalogue.get(begun.stood) is None:
        return _newest_ground(context, begun)
    return _nearest_ground(context, begun.workspace_key, start=begun.stood)


def _nearest_ground(context: Context, key: str, *, start: str) -> Checkpoint | None:
    found = (context.catalogue.get(facts.id) for facts in _line(context, key, start=start))
    return next((one for one in found if one is not None and _is_ground(context, one)), None)


def _line(context: Context, key: str, *, start: str | None = None) -> Iterator[CheckpointFacts]:
    """Yield the checkpoints from where a workspace stands, or from one of them, back along its history."""
    seen: set[str] = set()  # it leads back to itself by damage, or as imports brought it
    found = list(context.catalogue.history(key, start=start, limit=_PAGE))
    while found:
        yield from found
        seen.update(one.id for one in found)
        further = context.catalogue.history(key, start=found[-1].id, limit=_PAGE + 1)[1:]
        found = list(takewhile(lambda one: one.id not in seen, further))


def _newest_ground(context: Context, begun: Effect) -> Checkpoint | None:
    query = Query(workspace_key=begun.workspace_key, complete=True, guards=False)
    fit = (one for one in _paged(context, query) if one.sequence <= begun.after)
    return next((one for one in fit if _is_ground(context, one)), None)


def _since(context: Context, query: Query, after: int) -> Iterator[Checkpoint]:
    """Yield what a query finds with a number beyond another, newest first."""
    return takewhile(lambda one: one.sequence > after, _paged(context, query))


def _paged(context: Context, query: Query) -> Iterator[Checkpoint]:
    """Yield what a query finds, reading a few at a time."""
    offset = 0
    while found := context.catalogue.find(query.replace(limit=_PAGE, offset=offset)):
        yield from found
        offset += _PAGE


def _is_ground(context: Context, one: Checkpoint) -> bool:
    """Tell whether a checkpoint was made while no task was under way, and not of what an attempt had left."""
    if not one.files_sound or not _is_idle(one):
        return False
    if one.kind != "session-end" or one.session is None:
        return True
    steps = context.work.effects(one.manifest.workspace_key, session=one.session)
    begun = [step for step in steps if step.after < one.sequence]
    try:
        return tasks.unfinished_attempt(one.manifest.progress, begun) is None
    except Damaged:  # its tasks are lost, so nobody can tell
        return False


def _is_idle(one: Checkpoint) -> bool:
    return one.kind not in _LEFTOVERS and not one.manifest.progress.count("running")


def _first(context: Context, session: Session, query: Query) -> Checkpoint | None:
    """Return the first checkpoint of a session; the place where one stands if that leads back to none of it.

    Then a restore went to before all of them, and the first one may hold what was taken back.
    """
    first = next((one for one in _paged(context, query.replace(oldest=True)) if one.files_sound), None)
    if first is None:
        return None
    line = (context.catalogue.get(facts.id) for facts in _line(context, session.workspace_key))
    since = takewhile(lambda one: one is None or one.sequence >= first.sequence, line)
    if any(one is not None and one.session == session.id for one in since):
        return first
    place = next(_line(context, session.workspace_key), None)
    stands = None if place is None else context.catalogue.get(place.id)
    return stands if stands is not None and stands.files_sound else first


def _newer(one: Checkpoint | None, other: Checkpoint | None) -> Checkpoint | None:
    if one is None or other is None:
        return one or other
    return one if one.sequence >= other.sequence else other
