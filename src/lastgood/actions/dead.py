"""Which run is meant: the one that died, and the checkpoint that it is seen from (rule P7)."""

from __future__ import annotations

from lastgood.actions.holders import living
from lastgood.actions.session import named, unfinished
from lastgood.actions.standing import report_on
from lastgood.errors import Ambiguous, Conflict
from lastgood.ports.catalogue import Query
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.recovery import Choice
    from lastgood.model.session import SessionReport
    from lastgood.ports.context import Context
    from lastgood.view import View

SESSION_PREFIX = "sess_"


class Found(Value):
    """A run that died (None: none that is meant), and the checkpoint that it is seen from.

    That is its last one (the newest), or the one asked for; ``returned`` says that it is another, at which
    the workspace stands.
    """

    run: SessionReport | None
    checkpoint: Checkpoint | None
    returned: bool = False


def choose(
    context: Context, view: View, ref: str | None, *, choice: Choice | None, strict: bool = True
) -> Found:
    """Return what a recovery is about.

    A session is meant by its id, or by a checkpoint of it; without either it is the only one that
    died. Raises `Ambiguous` with the sessions if there are several, unless they are only looked at;
    not ``strict``, none of several is meant where nothing was chosen.
    """
    dead = unfinished(context)
    if ref is not None and ref.startswith(SESSION_PREFIX):
        meant = report_on(context, named(context, ref))
        _demand_dead(context, meant)
        return Found(run=meant, checkpoint=_last(context, meant))
    if ref is None:
        if not dead:
            return Found(run=None, checkpoint=view.latest())
        if len(dead) > 1 and choice is None and not strict:
            return Found(run=None, checkpoint=view.latest())
        if len(dead) > 1 and choice != "review":
            raise _ambiguous(dead)
        return Found(run=dead[0], checkpoint=_last(context, dead[0]))
    checkpoint = view.resolve(ref)
    run = next((one for one in dead if one.id == checkpoint.session), None)
    if run is None and choice in {"continue", "fresh"} and dead:
        if len(dead) > 1:
            raise _ambiguous(dead)
        run = dead[0]
    return Found(run=run, checkpoint=checkpoint)


def _last(context: Context, run: SessionReport) -> Checkpoint | None:
    found = context.catalogue.find(
        Query(workspace_key=context.key, session=run.id, complete=True, guards=False, limit=1)
    )
    return found[0] if found else None


def _demand_dead(context: Context, run: SessionReport) -> None:
    if run.state == "incomplete":
        return
    if run.state == "active":
        raise living(context, run.session, doing="is active, so that there is nothing to recover of it")
    raise Conflict(
        f"session {run.id} has ended: there is nothing to recover of it",
        hint="see all: lastgood session list",
        details={"sessions": [run.id], "state": run.state},
    )


def _ambiguous(dead: Sequence[SessionReport]) -> Ambiguous:
    return Ambiguous(
        f"{len(dead)} runs died",
        hint=f"say which, for example: lastgood recover {dead[0].id} --continue"
        "    (or --fresh; --review tells about the newest)",
        details={"candidates": [one.id for one in dead]},
    )
