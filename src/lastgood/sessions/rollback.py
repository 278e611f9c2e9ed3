"""Where a run that did not finish is taken back to (rule P7b)."""

from __future__ import annotations

from lastgood import tasks
from lastgood.catalogue import Query
from lastgood.sessions.progress import is_taken_back

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.context import Context
    from lastgood.model.checkpoint import Checkpoint
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
    way; between tasks where the last one that was done ended; without tasks before the open turn. The
    newest one of the session that passed its check takes its place if it is newer. Else it is the first one.
    """
    own = Query(workspace_key=session.workspace_key, session=session.id, complete=True, guards=False)
    good = _sound(context, own.replace(good=True))
    steps = context.work.effects(session.workspace_key, session=session.id)
    left = [one for one in steps if not is_taken_back(context, one)]
    begun = tasks.unfinished_attempt(context.work.progress(session.id), left)
    if begun is not None:
        return _newer(_before(context, begun), good)
    done = _sound(context, own.replace(kind="task", moment="after"))
    turn = _sound(context, own.replace(kind="turn"))
    if turn is not None and turn.manifest.moment == "before":
        return _newer(turn, good)
    return _newer(done, good) or _first(context, own)


def _before(context: Context, begun: Effect) -> Checkpoint | None:
    """Return the nearest ground along the history from where the workspace stood when an attempt began.

    Records of older releases do not tell where: of these it is the newest one by its number.
    """
    if begun.stood is None or context.catalogue.get(begun.stood) is None:
        return _newest_ground(context, begun)
    for facts in context.catalogue.history(begun.workspace_key, start=begun.stood):
        one = context.catalogue.get(facts.id)
        if one is not None and _is_ground(context, one):
            return one
    return None


def _newest_ground(context: Context, begun: Effect) -> Checkpoint | None:
    query = Query(workspace_key=begun.workspace_key, complete=True, guards=False)
    offset = 0
    while found := context.catalogue.find(query.replace(limit=_PAGE, offset=offset)):
        for one in found:
            if one.sequence <= begun.after and _is_ground(context, one):
                return one
        offset += _PAGE
    return None


def _is_ground(context: Context, one: Checkpoint) -> bool:
    """Tell whether a checkpoint was made while no task was under way, and not of what an attempt had left."""
    if one.damaged is not None or one.kind in _LEFTOVERS or one.manifest.progress.count("running"):
        return False
    if one.kind != "session-end" or one.session is None:
        return True
    steps = context.work.effects(one.manifest.workspace_key, session=one.session)
    begun = [step for step in steps if step.after < one.sequence]
    return tasks.unfinished_attempt(one.manifest.progress, begun) is None


def _sound(context: Context, query: Query) -> Checkpoint | None:
    found = context.catalogue.find(query.replace(limit=_PAGE))
    return next((one for one in found if one.damaged is None), None)


def _first(context: Context, query: Query) -> Checkpoint | None:
    found = [one for one in context.catalogue.find(query) if one.damaged is None]
    return found[-1] if found else None


def _newer(one: Checkpoint | None, other: Checkpoint | None) -> Checkpoint | None:
    if one is None or other is None:
        return one or other
    return one if one.sequence >= other.sequence else other
