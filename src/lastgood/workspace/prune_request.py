"""What a prune is asked for, as callers give it: a bad argument never widens it (rule K2)."""

from __future__ import annotations

import os

from lastgood.catalogue import Query, WorkspaceRow
from lastgood.errors import Conflict, Invalid, NotFound, Usage
from lastgood.lease import living_sessions, unfinished
from lastgood.model.report import WorkspaceSummary
from lastgood.paths import printable, quoted, to_bytes, to_text
from lastgood.retention.policy import DAY, age_of
from lastgood.retention.prune import PruneRequest
from lastgood.transaction import MarkTransaction
from lastgood.workspace.arguments import check_count, expect, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.context import Context
    from lastgood.literals import SessionState
    from lastgood.model.exchange import Facts


_LONGEST_DAYS = 1_000_000


def prune_request(*, keep: int | None, older_than: str | float | None, now: bool) -> PruneRequest:
    """Return what is asked for; `Usage` for a number below 1, or an age that is none or not above 0."""
    expect(now, bool, what="now")
    if keep is not None:
        check_count(keep, least=1, what="the number of checkpoints to keep")
    return PruneRequest(keep=keep, older_than=None if older_than is None else _age(older_than), now=now)


def _age(given: str | float) -> int:
    expect(given, str, int, float, what="the age")
    if isinstance(given, str):
        return age_of(given)
    if not 0 < given <= _LONGEST_DAYS:  # also what is no number
        raise Usage(f"the age is {given}", hint="give a number of days above 0, or a text such as 12h")
    return int(given * DAY)


def refuse_more(*, keep: object, older_than: object, now: bool) -> None:
    """Refuse a verification that is to remove something as well."""
    if keep is not None or older_than is not None or now:
        raise Usage(
            "a prune that verifies removes nothing: it takes no number, no age and no now",
            hint="first lastgood prune --verify, then lastgood prune --keep N",
        )


# --- The other workspaces of the store: listed, attached after a move, forgotten ---


def workspaces(context: Context) -> tuple[WorkspaceSummary, ...]:
    """Return every workspace with checkpoints; a missing folder is no reason to leave one out (rule S19)."""
    found = (_summary(context, row) for row in context.catalogue.workspaces())
    return tuple(one for one in found if one.checkpoints)


def attach(context: Context, old: str) -> WorkspaceSummary:
    """Make a moved workspace's checkpoints those of this folder."""
    row = row_of(context, old)
    _refuse(context, row)
    with MarkTransaction(context) as marking:
        marking.catalogue.attach(row.key, path=os.fsdecode(context.root), machine=context.row.machine)
    attached = context.catalogue.workspace(row.key)
    assert attached is not None
    return _summary(context, attached)


def admit_arrival(context: Context, facts: Facts) -> None:
    """Raise, before anything is imported, if this folder could not be given the workspace of an export."""
    if len(facts.workspaces) != 1:
        raise Invalid(
            f"the file holds {len(facts.workspaces)} workspaces; nobody can tell which to attach",
            hint="nothing was imported; import without --attach, then: lastgood workspace attach KEY",
        )
    came = facts.workspaces[0]
    if came.key == context.key:
        return
    row = WorkspaceRow(key=came.key, path=came.path, machine=came.machine, created_at=came.created_at)
    try:
        _refuse(context, context.catalogue.workspace(came.key) or row)
    except Conflict as error:
        hint = f"nothing was imported; without --attach it can be\n{error.hint}"
        raise Conflict(error.message, hint=hint, details=error.details) from error


def _refuse(context: Context, row: WorkspaceRow) -> None:
    if row.key == context.key:
        raise Conflict(f"{printable(row.path)} is this workspace already", hint="nothing needs to be done")
    if _is_present(context, row) and os.path.realpath(row.path) == row.path:
        raise Conflict(
            f"{printable(row.path)} still exists: a copied folder does not inherit checkpoints",
            hint="only a workspace that was moved can be attached",
        )
    if context.catalogue.count(context.key):
        is_found = row.machine == context.row.machine and context.catalogue.workspace(row.key) is not None
        there = f"keep them, and go by the others where they are: lastgood -C {quoted(row.path)} list\nor "
        raise Conflict(
            f"{printable(os.fsdecode(context.root))} has checkpoints of its own",
            hint=f"{there if is_found else ''}forget them first: lastgood workspace forget .",
        )


def row_of(context: Context, wanted: str) -> WorkspaceRow:
    """Return the workspace that a path or a key names; `NotFound` if the store knows none."""
    wanted = to_text(plain(wanted))
    full = os.path.realpath(wanted)
    for row in context.catalogue.workspaces():
        if wanted == row.key or full == row.path or os.path.abspath(wanted) == row.path:
            return row
    raise NotFound(
        f"the store knows no workspace '{printable(wanted)}'", hint="see which: lastgood workspace list"
    )


def _summary(context: Context, row: WorkspaceRow) -> WorkspaceSummary:
    found = context.catalogue.find(Query(workspace_key=row.key))
    return WorkspaceSummary(
        key=row.key,
        path=row.path,
        checkpoints=len(found),
        present=_is_present(context, row),
        latest=found[0] if found else None,
        stored_bytes=sum(one.metrics.stored_bytes for one in found),
        session=_session(context.replace(key=row.key, row=row, session=None)),
    )


def _session(there: Context) -> SessionState | None:
    """Return how work in a workspace stands; what waits to be gone on with before what is under way."""
    if unfinished(there, brief=True):
        return "incomplete"
    return "active" if living_sessions(there, brief=True) else None


def _is_present(context: Context, row: WorkspaceRow) -> bool:
    """Tell whether a workspace's folder is here; what lies at that path of another machine cannot be seen."""
    return row.machine == context.row.machine and os.path.isdir(to_bytes(row.path))
