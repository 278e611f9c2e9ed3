"""Other sessions: who is at work here now, and what they changed since (rule T14)."""

from __future__ import annotations

from lastgood.actions.holders import holder
from lastgood.actions.standing import current_session, state_of
from lastgood.errors import Conflict
from lastgood.names import printable
from lastgood.ports.catalogue import Query
from lastgood.rules.evidence import alike
from lastgood.view import Files, tree_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Operation
    from lastgood.model.session import Session
    from lastgood.ports.context import Context


def refuse_rivals(context: Context) -> None:
    """Refuse to restore while another session is at work.

    At work is one that lives and has a task running, or that holds the workspace through a process
    of its own. The caller's own is the one that it names, and the one whose owner it is or runs below.
    """
    for session in context.work.sessions(context.key):
        if session.state != "active" or _is_own(context, session) or state_of(context, session) != "active":
            continue
        running = [task.id for task in context.work.progress(session.id).tasks if task.state == "running"]
        if not running and not (session.exclusive and session.owner.pid is not None):
            continue
        doing = f"is at task {printable(running[0])}" if running else "holds this workspace"
        raise Conflict(
            f"session {session.id} {doing}; it is held by {holder(session)}",
            hint="wait until it has ended, or restore all the same: --force"
            f"    from within it: LASTGOOD_SESSION={session.id}",
            details={"session": session.id, "owner": session.owner.as_dict(), "running": running},
        )


def inside(context: Context) -> str | None:
    """Return the id of the session that the caller says it is in; None outside any that lives."""
    session = current_session(context)
    return session.id if session is not None and session.id == context.session else None


def changed_by_others(context: Context, operation: Operation, paths: Iterable[bytes]) -> dict[bytes, str]:
    """Return which of some paths another session changed since an operation, and that session's id.

    Told by the checkpoints made in it, and by its own operations. An operation made outside any session
    has no others: whatever changed since is for a person to look at.
    """
    guard = None if operation.guard is None else context.catalogue.get(operation.guard)
    left = set(paths)
    if operation.session is None or guard is None or not left:
        return {}
    by: dict[bytes, str] = {}
    for session, touched in _operations_since(context, operation):
        by.update(dict.fromkeys(left & touched, session))
    known = {step.path: step.want for step in operation.steps}
    for checkpoint in _since(context, guard):
        files = Files(tree_of(checkpoint), context.engine)
        other = checkpoint.session
        for path in left:
            entry = files.entry(path)
            if alike(entry, known.get(path)):
                continue
            known[path] = entry
            if other not in {None, operation.session}:
                by[path] = str(other)
    return by


def _operations_since(context: Context, operation: Operation) -> Iterable[tuple[str, set[bytes]]]:
    for one in context.catalogue.operations(context.key):
        if one.id == operation.id:
            return
        if one.session not in {None, operation.session}:
            yield str(one.session), {step.path for step in one.steps}


def _since(context: Context, guard: Checkpoint) -> list[Checkpoint]:
    """Return the checkpoints after an operation's guard, oldest first."""
    every = context.catalogue.find(Query(workspace_key=context.key))
    return [one for one in reversed(every) if one.sequence > guard.sequence and one.damaged is None]


def _is_own(context: Context, session: Session) -> bool:
    return session.id == context.session or context.processes.encloses(session.owner)
