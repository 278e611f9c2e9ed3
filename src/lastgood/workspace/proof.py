"""verify and repair, with the folder that trial restores go to."""

from __future__ import annotations

import os

from lastgood.actions import verify as proving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.report import VerifyReport
    from lastgood.ports.context import Context


def verify(context: Context, checkpoints: Sequence[Checkpoint], *, deep: bool) -> VerifyReport:
    """Prove what is kept; deep also by restoring each checkpoint aside."""
    report = proving.verify(context, checkpoints, aside=_aside_in(context.store) if deep else None)
    faults = tuple(f"ledger.sqlite3: {fault}" for fault in context.ledgers.check())
    return report.replace(faults=report.faults + faults) if faults else report


def repair(context: Context) -> tuple[str, ...]:
    """Mend the engine's files, the catalogue's rows and the ledger, and set a damaged journal aside."""
    return (
        *proving.repair(context),
        *proving.readopt(context),
        *_mended_ledger(context),
        *proving.set_journal_aside(context),
    )


def _mended_ledger(context: Context) -> tuple[str, ...]:
    """Mend the ledger; no other repair does meanwhile, and no maintenance copies it."""
    with context.locks.maintenance(wait=context.wait):
        return context.ledgers.repair()


def _aside_in(store: bytes) -> Callable[[Callable[[bytes], None]], None]:
    def aside(attempt: Callable[[bytes], None]) -> None:
        from tempfile import TemporaryDirectory  # lazily: only a deep proof pays for it

        with TemporaryDirectory(prefix=b"trial-", dir=os.path.join(store, b"tmp")) as folder:
            attempt(folder)

    return aside
