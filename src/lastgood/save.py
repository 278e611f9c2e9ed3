"""save: scan, leave it at that if nothing changed, else make a checkpoint."""

from __future__ import annotations

from lastgood.errors import Invalid, NotFound, Storage
from lastgood.ids import checkpoint_id, name_fault
from lastgood.lease import beat
from lastgood.model.checkpoint import AUTOMATIC_KINDS, KINDS, SaveReport
from lastgood.paths import printable
from lastgood.snapshot import WorkspaceSnapshot
from lastgood.transaction import Draft, SaveTransaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.context import Context
    from lastgood.conversation.capture import GivenConversation
    from lastgood.literals import Kind, Moment
    from lastgood.model.checkpoint import Actor, Checkpoint
    from lastgood.model.session import Session


MESSAGE_LIMIT = 10_000


def save(
    context: Context,
    draft: Draft,
    *,
    allow_empty: bool | None = None,
    budget: float | None = None,
    given: GivenConversation | None = None,
) -> SaveReport:
    """Make a checkpoint of the workspace, unless nothing changed (rule S10).

    ``allow_empty`` is whether one of an unchanged workspace is made; None leaves that to the draft.
    """
    if allow_empty is None:
        allow_empty = _says_something(draft)
    _check(draft)
    if given is not None:
        from lastgood.conversation.capture import probe

        probe(context, given)
    with SaveTransaction(context) as saving:
        made = None if draft.digits is None else _made(context, draft.digits)
        if made is not None:
            return made
        if draft.gives_way:
            saving.give_way()
        report, session = _taken(saving, draft, allow_empty=allow_empty, budget=budget, given=given)
    if session is not None:
        _beat(context, session)
    return report


def _taken(
    saving: SaveTransaction,
    draft: Draft,
    *,
    allow_empty: bool,
    budget: float | None,
    given: GivenConversation | None,
) -> tuple[SaveReport, Session | None]:
    with WorkspaceSnapshot(saving, budget=budget, given=given) as snapshot:
        same = None if allow_empty else snapshot.unchanged()
        if same is None:
            report = snapshot.keep(saving, draft)
        else:
            snapshot.record_unchanged()
            report = SaveReport(
                checkpoint=same,
                created=False,
                reason="unchanged",
                unchanged_since=same.id,
                notes=snapshot.notes,
            )
        return report, snapshot.standing.session


def _made(context: Context, digits: str) -> SaveReport | None:
    """Return what a save said, or would have, that broke off once its checkpoint was made."""
    made = context.catalogue.get(checkpoint_id(bytes.fromhex(digits)))
    if made is None:
        return None
    before = None if made.manifest.previous is None else context.catalogue.get(made.manifest.previous)
    known = set() if before is None else {(gap.path, gap.reason) for gap in before.manifest.gaps}
    new = tuple(gap for gap in made.manifest.gaps if (gap.path, gap.reason) not in known)
    return SaveReport(checkpoint=made, created=True, new_gaps=new, notes=context.remarks)


def _beat(context: Context, session: Session) -> None:
    try:  # noqa: SIM105 - contextlib costs start-up time
        beat(context, session)
    except (NotFound, Storage):
        pass  # what was saved is saved


def _check(draft: Draft) -> None:
    """Refuse what cannot stand in a manifest."""
    if draft.kind not in KINDS:
        raise Invalid(f"'{printable(draft.kind)}' is no kind", hint="kinds: " + ", ".join(KINDS))
    if draft.task is not None:
        from lastgood.tasks import check_id

        check_id(draft.task, what="a task")
    fault = None if draft.name is None else name_fault(draft.name)
    if fault is not None:
        raise Invalid(
            f"'{printable(draft.name or '')}' cannot be a name: {fault}", hint="choose another name"
        )
    if len(draft.message) > MESSAGE_LIMIT:
        raise Invalid(
            f"the message has {len(draft.message)} characters; the limit is {MESSAGE_LIMIT}",
            hint="keep long texts in a file of the workspace",
        )


def _says_something(draft: Draft) -> bool:
    if draft.kind == "manual":
        return bool(draft.message or draft.name or draft.metadata or draft.pinned)
    return draft.kind not in AUTOMATIC_KINDS


# --- Checkpoints that the work brings about by itself, where the settings want them (rule P3) ---

# What is not a trigger of its own follows one that is.
_FOLLOWS = {"session-end": "session-start"}
# Within a session these hold what was done in it: nobody says so but the session's agent.
_WORKED = frozenset({"task", "sprint", "feature", "iteration", "error", "interrupt"})


def mark(
    context: Context,
    kind: Kind,
    *,
    message: str = "",
    task: str | None = None,
    moment: Moment | None = None,
    metadata: Mapping[str, str] | None = None,
    replaces: Checkpoint | None = None,
    actor: Actor | None = None,
) -> SaveReport | None:
    """Make a checkpoint of a moment; None if the settings want none of its kind.

    ``actor`` is whose the changes are: unless that is given the session's agent's, of what is done in one.
    """
    if not context.settings.auto.wants(_FOLLOWS.get(kind, kind)):
        return None
    draft = Draft(
        kind=kind, message=message, task=task, moment=moment, metadata=metadata or {}, replaces=replaces
    )
    if actor is None and context.session is not None and kind in _WORKED:
        actor = draft.actor.replace(type="agent")
    return save(context, draft if actor is None else draft.replace(actor=actor))
