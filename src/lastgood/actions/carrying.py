"""Carrying out a plan that a guard protects: refusals first, then journal, apply, record."""

from __future__ import annotations

import os

from lastgood.actions import parts
from lastgood.errors import Conflict, Damaged, Unsafe
from lastgood.model.operation import Journal
from lastgood.model.tree import DIRECTORY
from lastgood.names import printable, to_text, ways
from lastgood.rules.rebase import UNTOUCHED, barred, occupied
from lastgood.rules.restore import conflicts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lastgood.actions.survey import Survey
    from lastgood.model.operation import Operation, OperationType
    from lastgood.model.plan import RestorePlan, Step
    from lastgood.model.tree import Entry
    from lastgood.ports.context import Context
    from lastgood.transaction.restoring import Changed, Restoring

_SHOWN = 5
_OWNER = 0o700
_GOING = frozenset({"write", "delete", "mkdir"})


def refuse_changed(steps: Sequence[Step], survey: Survey, *, hint: str) -> None:
    """Refuse if a path is no longer as the steps found it (rules T1, T8).

    A file that the scan held then and leaves out by now, because the ignore rules changed, counts as
    changed: the guard would not hold it. So do a directory that is none any more, if something is to be
    written into it, and what came into one that a file is to take the place of.
    """
    held = {step.path for step in steps if not step.forced and _is_content(step.have)}

    def actual(path: bytes) -> Entry | None:
        return survey.files.entry(path) if path in held else survey.actual(path)

    with survey.looking():
        ways, inside = barred(steps, survey.actual), occupied(steps, survey.scan)
        changed = sorted({*conflicts(steps, actual), *ways, *inside.values()})
    if changed:
        raise Conflict(
            f"{len(changed)} path(s) changed since: {_some(changed)}",
            hint=hint,
            details={"paths": [to_text(path) for path in changed]},
        )


def refuse_unheld(steps: Sequence[Step], survey: Survey) -> None:
    """Refuse if the guard could not take in what is going to be overwritten (rule T2)."""
    unheld = [
        step.path
        for step in steps
        if step.forced and step.have is not None and survey.files.entry(step.path) is None
    ]
    if unheld:
        raise Unsafe(
            f"what is there now could not be copied, and would be lost: {_some(unheld)}",
            hint="move it away, or restore with --discard to lose it",
            details={"paths": [to_text(path) for path in unheld]},
        )


def goes(step: Step) -> bool:
    """Tell whether a step takes a content away, or overwrites it."""
    return step.action in _GOING and _is_content(step.have)


def carry_out(
    restoring: Restoring,
    plan: RestorePlan,
    survey: Survey,
    *,
    guard: str,
    type: OperationType,
    of: str | None = None,
) -> tuple[Operation, Changed]:
    """Journal, apply and record a plan; return the operation and what became of paths and parts."""
    context, session = restoring.context, survey.standing.session
    _available(context, plan)
    _held(context, plan)
    journal = Journal(
        operation=restoring.new_operation(),
        type=type,
        of=of,
        started_at=context.clock.now(),
        guard=guard,
        target_tree=plan.target,
        plan=plan,
        session=None if session is None else session.id,
        closed=_closed(context, plan.steps),
    )
    return restoring.change(
        journal, scan=survey.scan, settle_parts=lambda: parts.settled(context, plan.parts)
    )


def _closed(context: Context, steps: Iterable[Step]) -> dict[bytes, int]:
    """Return the directories that have to be opened to carry out steps, with their permissions.

    Those that get others by a step of their own are left out.
    """
    touched = [step for step in steps if step.action not in UNTOUCHED]
    if not touched:
        return {}
    going = {step.path for step in touched if step.have is not None and step.have.kind == DIRECTORY}
    settled = {step.path for step in touched if step.want is not None and step.want.kind == DIRECTORY}
    places = ({b"", *ways(step.path for step in touched)} | going) - settled
    with context.applier.looking() as present:
        found = {path: present(path) for path in sorted(places)}
    return {
        path: entry.mode
        for path, entry in found.items()
        if entry is not None and entry.kind == DIRECTORY and entry.mode & _OWNER != _OWNER
    }


def _available(context: Context, plan: RestorePlan) -> None:
    """Refuse before the first write if something to be written is not in the store."""
    missing = context.engine.missing(step.want.oid for step in plan.of("write") if step.want is not None)
    if missing:
        raise Damaged(
            f"{len(missing)} of the contents to put back are not in the store",
            hint="see what is hit: lastgood verify",
            details={"missing": sorted(oid.hex() for oid in missing)},
        )


def _held(context: Context, plan: RestorePlan) -> None:
    """Refuse before the first write if the store cannot give back what is going to go (rule T2).

    What the guard found stored already may have rotted since: only reading it tells.
    """
    going = {step.have.oid for step in plan.steps if goes(step) and step.have is not None and step.have.oid}
    if plan.discard:
        going -= context.engine.missing(going)
    rotten = _rotten(context, sorted(going))
    if rotten:
        raise Damaged(
            f"the store cannot hold what is there now: {rotten[0]}",
            hint="set the damage aside, then try again: lastgood verify --repair",
            details={"reasons": rotten},
        )


def _rotten(context: Context, oids: Iterable[bytes]) -> list[str]:
    """Read contents through to their ends, and return what is wrong with them."""
    reasons = []
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        for oid in oids:
            reason = _fault(context, oid, nowhere)
            if reason is not None:
                reasons.append(reason)
    finally:
        os.close(nowhere)
    return reasons


def _fault(context: Context, oid: bytes, nowhere: int) -> str | None:
    try:
        context.engine.copy_blob(oid, nowhere)
    except Damaged as error:
        return error.message
    return None


def _is_content(entry: Entry | None) -> bool:
    return entry is not None and entry.kind != DIRECTORY


def _some(paths: Sequence[bytes]) -> str:
    shown = ", ".join(printable(to_text(path)) for path in paths[:_SHOWN])
    return f"{shown} and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else shown
