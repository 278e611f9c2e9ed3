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
    from lastgood.model.session import Session

_PAGE = 32


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
        return _newer(_before(context, session.workspace_key, begun.after), good)
    done = _sound(context, own.replace(kind="task", moment="after"))
    turn = _sound(context, own.replace(kind="turn"))
    if turn is not None and turn.manifest.moment == "before":
        return _newer(turn, good)
    return _newer(done, good) or _first(context, own)


def _before(context: Context, key: str, sequence: int) -> Checkpoint | None:
    """Return the newest checkpoint up to a number at which no task was under way."""
    query = Query(workspace_key=key, complete=True, guards=False)
    offset = 0
    while found := context.catalogue.find(query.replace(limit=_PAGE, offset=offset)):
        for one in found:
            quiet = not one.manifest.progress.count("running")
            if one.sequence <= sequence and quiet and one.damaged is None:
                return one
        offset += _PAGE
    return None


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
