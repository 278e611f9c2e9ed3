"""verify and repair, with the folder that trial restores go to."""

from __future__ import annotations

from lastgood.actions import verify as proving
from lastgood.adapters.store_format import is_absent
from lastgood.workspace import marks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.report import VerifyReport
    from lastgood.ports.context import Context


def verify(context: Context, checkpoints: Sequence[Checkpoint], *, deep: bool) -> VerifyReport:
    """Prove what is kept; deep also by restoring each checkpoint aside."""
    aside = None
    if deep:
        from lastgood.workspace.aside import in_copy  # lazily: only a deep proof pays for it

        aside = in_copy(context.store, name=b"trial")
    report = proving.verify(context, checkpoints, aside=aside)
    small = () if is_absent(context.store) else marks.faults(context)
    faults = (*small, *(f"ledger.sqlite3: {fault}" for fault in context.ledgers.check()))
    return report.replace(faults=report.faults + faults) if faults else report


def repair(context: Context) -> tuple[str, ...]:
    """Mend the store's small files, engine, catalogue and ledger, and set a damaged journal aside."""
    return (
        *marks.mend(context),
        *proving.repair(context),
        *proving.readopt(context),
        *context.catalogue.mend_copies(),
        *_mended_ledger(context),
        *proving.set_journal_aside(context),
    )


def _mended_ledger(context: Context) -> tuple[str, ...]:
    """Mend the ledger; no other repair does meanwhile, and no maintenance copies it."""
    with context.locks.maintenance(wait=context.wait):
        return context.ledgers.repair()
