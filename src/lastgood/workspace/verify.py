"""verify and repair, with the folder that trial restores go to."""

from __future__ import annotations

from lastgood.retention import verify as proving
from lastgood.store import (
    STORE_DIGITS,
    format_fault,
    is_absent,
    mend_format,
    mend_machine,
    store_machine,
    stored_machine,
)
from lastgood.transaction import MaintenanceTransaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lastgood.catalogue import WorkspaceRow
    from lastgood.context import Context
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.report import VerifyReport


# --- The small files of a store, and what tells them where they are lost: none is the only proof of
# anything ---

# An id that differs in more characters than these is another one, not this one damaged.
_NEAR = 2


def own_machine(store: bytes, rows: Sequence[WorkspaceRow]) -> str:
    """Return the store's own id: as it is stored, or as all rows of workspaces that were given it say."""
    stored = stored_machine(store)
    told = _machine_of_rows(rows)
    if stored is not None and (told is None or not _is_near(stored, told)):
        return stored
    return told or store_machine(store)


def agreed_machine(rows: Sequence[WorkspaceRow]) -> str | None:
    """Return the machine that all rows of workspaces agree on."""
    known = {row.machine for row in rows if row.machine}
    return known.pop() if len(known) == 1 else None


def mark_faults(context: Context) -> tuple[str, ...]:
    """Return what is wrong with the small files of a store that can be opened all the same."""
    store = context.store
    found = {"format": format_fault(store), "machine": _machine_fault(context)}
    return tuple(f"{name}: {fault}" for name, fault in found.items() if fault is not None)


def mend(context: Context) -> tuple[str, ...]:
    """Write anew what is lost of them; repeated, it does nothing more."""
    done = []
    if format_fault(context.store) is not None:
        mend_format(context.store)
        done.append("the store's mark of format was written anew")
    if _machine_fault(context) is not None:
        right = context.ledgers.seen_as() or own_machine(context.store, context.catalogue.workspaces())
        mend_machine(context.store, right)
        done.append("the store's own id was written anew")
    return tuple(done)


def _machine_fault(context: Context) -> str | None:
    stored = stored_machine(context.store)
    if stored is None:
        return "the store's own id is missing or garbled"
    if context.ledgers.seen_as() not in {None, stored}:
        return "it is not the id under which the ledger was seen"
    if own_machine(context.store, context.catalogue.workspaces()) != stored:
        return "it is not the id that the workspaces were given"
    return None


def _machine_of_rows(rows: Sequence[WorkspaceRow]) -> str | None:
    """Return the store's id as rows of machines without an id of their own have it."""
    return agreed_machine([row for row in rows if len(row.machine) == STORE_DIGITS])


def _is_near(one: str, other: str) -> bool:
    return 0 < sum(a != b for a, b in zip(one, other, strict=True)) <= _NEAR


# --- verify and repair, with the folder that trial restores go to ---


def verify(context: Context, chosen: Callable[[], Sequence[Checkpoint]], *, deep: bool) -> VerifyReport:
    """Prove what is kept; deep also by restoring each checkpoint aside."""
    aside = None
    if deep:
        from lastgood.workspace.scratch import in_copy  # lazily: only a deep proof pays for it

        aside = in_copy(context.store, name=b"trial")
    report = proving.verify(context, chosen, aside=aside)
    small = () if is_absent(context.store) else mark_faults(context)
    faults = (*small, *(f"ledger.sqlite3: {fault}" for fault in context.ledgers.check()))
    return report.replace(faults=report.faults + faults) if faults else report


def repair(context: Context) -> tuple[str, ...]:
    """Mend the store's small files, engine, catalogue and ledger, and set a damaged journal aside."""
    with MaintenanceTransaction(context) as maintenance:  # no other repair meanwhile, nor any copy
        done = (
            *mend(context),
            *proving.repair(maintenance),
            *proving.readopt(maintenance),
            *proving.mend_catalogue(maintenance),
            *proving.find_place(maintenance),
            *maintenance.catalogue.mend_copies(),
            *maintenance.ledgers.repair(),
        )
    return (*done, *proving.set_journal_aside(context))
