"""status: where a workspace stands, and what a person should know about its store."""

from __future__ import annotations

from lastgood.actions.conversing import unheard
from lastgood.actions.session import alive, unfinished
from lastgood.actions.standing import current_session
from lastgood.actions.survey import Survey
from lastgood.errors import Damaged
from lastgood.model.report import HealthNote, StatusReport
from lastgood.ports.catalogue import Query
from lastgood.rules.compare import tally
from lastgood.transaction.saving import Saving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.report import State
    from lastgood.model.tree import Counts
    from lastgood.ports.context import Context
    from lastgood.view import View

# Beyond this many packs reading slows down noticeably (measured: 17 ms a look-up at 1,000).
_MANY_PACKS = 256


def status(context: Context, view: View) -> StatusReport:
    """Report without changing anything; an interrupted restore is named instead of the drift."""
    latest = view.latest()
    notes = _interruption(context)
    drift = None if latest is None or notes else drift_since(context, view, latest)
    incomplete = unfinished(context)
    living = alive(context)
    own = current_session(context)
    at_hand = next((one for one in living if own is not None and one.id == own.id), None)
    about = at_hand or next(iter(incomplete), None)
    progress = context.work.progress(context.key) if about is None else about.progress
    state: State = "active" if at_hand or living else "incomplete" if incomplete else "idle"
    return StatusReport(
        workspace=context.root.decode("utf-8", "surrogateescape"),
        store=context.store.decode("utf-8", "surrogateescape"),
        state="interrupted" if notes else state,
        latest=latest,
        drift=drift,
        gaps=() if latest is None else latest.gaps,
        durability=context.settings.durability,
        checkpoints=context.catalogue.count(context.key),
        store_bytes=context.engine.stored_bytes() + context.ledgers.stored_bytes(),
        health=(*notes, *unheard(context, own), *_health(context)),
        session=about,
        position=None if progress.position.empty else progress.position,
        sessions=living,
        incomplete=incomplete,
    )


def drift_since(context: Context, view: View, checkpoint: Checkpoint) -> Counts | None:
    """Count what changed in the workspace since a checkpoint; None if that one cannot be read."""
    with Saving(context), Survey(context) as survey:
        try:
            return tally(view.tree(checkpoint), survey.files, gaps=survey.scan.result.gaps)
        except Damaged:
            return None


def _interruption(context: Context) -> tuple[HealthNote, ...]:
    try:
        journal = context.journal.read()
    except Damaged as error:
        return (HealthNote(code="damaged-journal", message=error.message, hint=error.hint),)
    if journal is None:
        return ()
    return (
        HealthNote(
            code="interrupted-restore",
            message="a restore was interrupted; saves and restores wait until it is finished",
            hint="lastgood recover    (or, to take it back: lastgood recover --rollback)",
        ),
    )


def _health(context: Context) -> list[HealthNote]:
    notes = []
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
