"""status: where a workspace stands, and what a person should know about its store."""

from __future__ import annotations

from lastgood.attribution import shared_paths, shared_words
from lastgood.conversation.capture import transcript_notes
from lastgood.errors import Busy, Damaged, count
from lastgood.lease import current_session, left_elsewhere, living_sessions, shares_progress, unfinished
from lastgood.model.checkpoint import HealthNote
from lastgood.model.report import ChangedPath, StatusReport
from lastgood.model.tree import compare, counts
from lastgood.root import gone, is_folder, is_gone, no_folder
from lastgood.snapshot import WorkspaceSnapshot
from lastgood.transaction import ReadTransaction
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    from lastgood.context import Context
    from lastgood.literals import State
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.session import SessionReport
    from lastgood.model.tree import Change, Counts
    from lastgood.view import View

    AnyChange = TypeVar("AnyChange", Change, ChangedPath)

# Beyond this many packs reading slows down noticeably (measured: 17 ms a look-up at 1,000).
_MANY_PACKS = 256
# So many of the paths that changed are named.
_SHOWN = 10
# How long whoever changes the workspace just now is waited for, in seconds.
_PATIENCE = 1.0


def status(context: Context, view: View) -> StatusReport:
    """Report without changing anything; an interrupted restore is named instead of the drift."""
    at = view.at()
    notes, left = _interruption(context), _left_over(context)
    if at is None:
        left = (*left, *left_elsewhere(context))
    look, busy = (None, ()) if at is None or notes else _look(context, view, at)
    incomplete = tuple(_with_turn(context, one) for one in unfinished(context, brief=True))
    living = tuple(_with_turn(context, one) for one in living_sessions(context, brief=True))
    own = current_session(context)
    at_hand = next((one for one in living if own is not None and one.id == own.id), None)
    about = at_hand or next(iter(incomplete), None)
    own_progress = None if about is None or shares_progress(context, about.session) else about.progress
    progress = own_progress or context.work.progress(context.key, brief=True)
    checkpoints, guards = context.catalogue.count_with_guards(context.key)
    state: State = "active" if at_hand or living else "incomplete" if incomplete else "idle"
    return StatusReport(
        workspace=context.root.decode("utf-8", "surrogateescape"),
        store=context.store.decode("utf-8", "surrogateescape"),
        state="interrupted" if notes else state,
        latest=view.latest(),
        drift=None if look is None else look.drift,
        changed=() if look is None else look.changed,
        ignored=() if look is None else look.ignored,
        ignored_count=None if look is None else look.ignored_count,
        gaps=() if at is None else at.gaps,
        durability=context.settings.durability,
        checkpoints=checkpoints,
        guards=guards,
        store_parts=context.measure(),
        health=(
            *notes,
            *_place_notes(context, view, at),
            *left,
            *busy,
            *context.remarks,
            *transcript_notes(context, own),
            *_shared_notes(context, living),
            *_health(context),
            *_lost_notes(context, at),
        ),
        session=about,
        position=None if progress.position.empty else progress.position,
        sessions=living,
        incomplete=incomplete,
        at=at,
        # Without a checkpoint nothing may be written, not even the folder in which git is asked.
        git=None if at is None else context.project.state(context.root),
    )


class Look(Value):
    """What a scan says of a workspace: how it differs from a checkpoint, and what rules leave out.

    ``drift`` is None where the checkpoint cannot be read; ``changed`` and ``ignored`` are
    the first of the paths counted, those changed by `first_of_each`.
    """

    drift: Counts | None
    changed: tuple[ChangedPath, ...]
    ignored: tuple[bytes, ...]
    ignored_count: int


def _look(context: Context, view: View, at: Checkpoint) -> tuple[Look | None, tuple[HealthNote, ...]]:
    """Look at the workspace; who asks how things stand does not wait until a restore is over."""
    if not is_folder(context.root):
        error = gone(context.root) if is_gone(context.root) else no_folder(context.root)
        return None, (HealthNote(code="folder-gone", message=error.message, hint=error.hint),)
    try:
        return look_at(context.replace(wait=min(context.wait, _PATIENCE)), view, at), ()
    except Busy as error:
        if "owner" not in error.details:  # nobody is in the way: the scan itself is killed, say
            raise
        return None, (HealthNote(code="busy", message=error.message, hint=error.hint),)


def drift_since(context: Context, view: View, checkpoint: Checkpoint) -> Counts | None:
    """Count what changed in the workspace since a checkpoint; None if that one cannot be read."""
    return look_at(context, view, checkpoint).drift


def look_at(context: Context, view: View, checkpoint: Checkpoint) -> Look:
    """Scan the workspace, and compare it with a checkpoint."""
    with ReadTransaction(context) as reading, WorkspaceSnapshot(reading) as snapshot:
        scan = snapshot.scan
        changes: list[Change] | None = None
        try:
            changes = list(compare(view.tree(checkpoint), snapshot.files, gaps=scan.result.gaps))
        except Damaged:
            changes = None
        return Look(
            drift=None if changes is None else counts(changes),
            changed=tuple(
                ChangedPath(path=one.path, status=one.status) for one in first_of_each(changes or (), _SHOWN)
            ),
            ignored=scan.ignored_paths(),
            ignored_count=scan.result.ignored,
        )


def first_of_each(changes: Sequence[AnyChange], most: int) -> list[AnyChange]:
    """Return so many changes in their order: of each kind the first, so that many of one hide no other."""
    if len(changes) <= most:
        return list(changes)
    ranks: dict[str, int] = {}
    found = []
    for place, one in enumerate(changes):
        rank = ranks[one.status] = ranks.get(one.status, -1) + 1
        if rank < most:
            found.append((rank, place))
    return [changes[place] for place in sorted(place for _, place in sorted(found)[:most])]


def _interruption(context: Context) -> tuple[HealthNote, ...]:
    try:
        journal = context.journal.read()
    except Damaged as error:
        return (HealthNote(code="damaged-journal", message=error.message, hint=error.hint),)
    if journal is None or _is_under_way(context):
        return ()
    return (
        HealthNote(
            code="interrupted-restore",
            message="a restore was interrupted; saves and restores wait until it is finished",
            hint="lastgood recover\nor take it back: lastgood recover --rollback",
        ),
    )


def _left_over(context: Context) -> tuple[HealthNote, ...]:
    if not context.journal.left():
        return ()
    return (
        HealthNote(
            code="left-over",
            message="a restore could not take away names of its own in the workspace; saves leave them out",
            hint="when they can be changed: lastgood recover",
        ),
    )


def _place_notes(context: Context, view: View, at: Checkpoint | None) -> tuple[HealthNote, ...]:
    """Return what is to be said where the workspace only counts as standing at its newest checkpoint."""
    fault = context.catalogue.place_fault(context.key)
    if fault is None:
        return ()
    if at is None:
        nothing = view.nothing_left()
        return (HealthNote(code="place-deleted", message=nothing.message, hint=nothing.hint),)
    if fault == "lost":
        return (
            HealthNote(
                code="place-lost",
                message="where this workspace stands is not known any more: its checkpoint was freed, or the"
                " catalogue was damaged. The newest counts until the next save or restore",
                hint="find the checkpoint whose files it has: lastgood verify --repair",
            ),
        )
    return (
        HealthNote(
            code="place-deleted",
            message="the checkpoint at which this workspace stood, and all before it, are deleted: the newest"
            " one counts until the next save or restore",
            hint="bring it back: lastgood undo\nor keep what is here now: lastgood save",
        ),
    )


def _is_under_way(context: Context) -> bool:
    """Tell whether somebody holds the workspace alone: then the journal is that of a restore that runs."""
    try:
        with context.locks.share_workspace(context.key, wait=0):
            return False
    except Busy:
        return True


def _with_turn(context: Context, run: SessionReport) -> SessionReport:
    """Return a session that hooks keep with what its host was asked last."""
    if run.session.exclusive:
        return run
    return run.replace(turn=next(iter(context.work.turns(context.key, run.id, limit=1)), None))


def _shared_notes(context: Context, living: Sequence[SessionReport]) -> list[HealthNote]:
    """Say so if sessions that are under way are at the same file."""
    found = shared_paths(context) if len(living) > 1 else {}
    return [
        HealthNote(
            code="shared-file",
            message=shared_words(path, shared),
            hint="whose which line is, as far as that is known: lastgood blame PATH",
        )
        for path, shared in list(found.items())[:_SHOWN]
    ]


def _lost_notes(context: Context, at: Checkpoint | None) -> list[HealthNote]:
    """Say so if of the checkpoint at which the workspace stands nothing is stored any more."""
    if at is None or not context.engine.missing([bytes.fromhex(at.commit)]):
        return []
    return [
        HealthNote(
            code="lost-checkpoint",
            message=f"{at.id} is lost: no pack of the store has it",
            hint="save what is there now: lastgood save; what else is lost: lastgood verify",
        )
    ]


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
    damaged = context.catalogue.count_damaged(context.key)
    if damaged:
        notes.append(
            HealthNote(
                code="damaged-checkpoints",
                message=f"{count(damaged, 'checkpoint')} of this workspace"
                f" {'is' if damaged == 1 else 'are'} damaged",
                hint="lastgood verify",
            )
        )
    if context.engine.packs() >= _MANY_PACKS:
        notes.append(
            HealthNote(
                code="many-packs",
                message=f"the store has {context.engine.packs()} packs; reading slows down",
                hint="lastgood maintain (needs git)",
            )
        )
    return notes
