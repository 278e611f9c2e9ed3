"""status: where a workspace stands, and what a person should know about its store."""

from __future__ import annotations

from lastgood.actions.survey import Survey
from lastgood.model.report import HealthNote, StatusReport
from lastgood.ports.catalogue import Query
from lastgood.rules.compare import tally
from lastgood.transaction.saving import Saving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.tree import Counts
    from lastgood.ports.context import Context
    from lastgood.view import View

# Beyond this many packs reading slows down noticeably (measured: 17 ms a look-up at 1,000).
_MANY_PACKS = 256


def status(context: Context, view: View) -> StatusReport:
    """Report without changing anything; an interrupted restore is named instead of the drift."""
    latest = view.latest()
    interrupted = context.journal.read() is not None
    drift = None if latest is None or interrupted else drift_since(context, view, latest)
    return StatusReport(
        workspace=context.root.decode("utf-8", "surrogateescape"),
        store=context.store.decode("utf-8", "surrogateescape"),
        state="interrupted" if interrupted else "idle",
        latest=latest,
        drift=drift,
        gaps=() if latest is None else latest.gaps,
        durability=context.settings.durability,
        checkpoints=context.catalogue.count(context.key),
        store_bytes=context.engine.stored_bytes(),
        health=tuple(_health(context, interrupted=interrupted)),
    )


def drift_since(context: Context, view: View, checkpoint: Checkpoint) -> Counts:
    """Count what changed in the workspace since a checkpoint."""
    with Saving(context), Survey(context) as survey:
        return tally(view.tree(checkpoint), survey.files, gaps=survey.scan.result.gaps)


def _health(context: Context, *, interrupted: bool) -> list[HealthNote]:
    notes = []
    if interrupted:
        notes.append(
            HealthNote(
                code="interrupted-restore",
                message="a restore was interrupted; saves and restores wait until it is finished",
                hint="lastgood recover    (or, to take it back: lastgood recover --rollback)",
            )
        )
    if context.settings.durability == "fast":
        notes.append(
            HealthNote(
                code="fast-durability",
                message="durability is 'fast': a power cut may lose the newest checkpoints",
                hint='set durability = "full" in the user\'s configuration',
            )
        )
    damaged = [one for one in context.catalogue.find(Query(workspace_key=context.key)) if one.damaged]
    if damaged:
        notes.append(
            HealthNote(
                code="damaged-checkpoints",
                message=f"{len(damaged)} checkpoint(s) of this workspace are damaged",
                hint="lastgood verify",
            )
        )
    if context.engine.packs() >= _MANY_PACKS:
        notes.append(
            HealthNote(
                code="many-packs",
                message=f"the store has {context.engine.packs()} packs; reading slows down",
                hint="lastgood maintain    (needs git)",
            )
        )
    return notes
