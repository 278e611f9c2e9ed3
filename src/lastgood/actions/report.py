"""report: what was done in a period, and what it takes up (rule K5)."""

from __future__ import annotations

from lastgood.actions.prune import Wish, plan_prune, waiting
from lastgood.actions.session import listed, named
from lastgood.errors import LastgoodError
from lastgood.model.activity import Records, Sizes
from lastgood.ports.catalogue import Query
from lastgood.rules.reporting import summarised

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.model.activity import Activity, Period
    from lastgood.ports.context import Context


def report(context: Context, *, period: Period, session: str | None, offset: int) -> Activity:
    """Report on a workspace; ``session`` is an id or the beginning of one, ``offset`` as in the rule.

    Raises `NotFound` or `Ambiguous` for a session that is not there. Nothing is changed.
    """
    wanted = None if session is None else named(context, session).id
    outside = context.work.progress(context.key)
    records = Records(
        checkpoints=tuple(context.catalogue.find(Query(workspace_key=context.key, deleted=True))),
        sessions=listed(context),
        outside=outside.tasks,
        outside_features=outside.features.completed,
        operations=tuple(context.catalogue.operations(context.key)),
        effects=tuple(context.work.effects(context.key)),
    )
    return summarised(
        records,
        workspace=context.root.decode("utf-8", "surrogateescape"),
        store=context.store.decode("utf-8", "surrogateescape"),
        sizes=_sizes(context, records),
        now=context.clock.now(),
        period=period,
        session=wanted,
        offset=offset,
    )


def _sizes(context: Context, records: Records) -> Sizes:
    stored = [(one.manifest.metrics.stored_bytes, one.deleted_at) for one in records.checkpoints]
    size = context.measure()
    return Sizes(
        workspace=sum(size for size, _ in stored),
        deleted=sum(size for size, deleted in stored if deleted is not None),
        store=size.total,
        prunable=_told(lambda: plan_prune(context, Wish(), known=records.checkpoints).freed_bytes),
        waiting=_told(lambda: waiting(context, records.checkpoints)),
        store_parts=size,
    )


def _told(amount: Callable[[], int]) -> int | None:
    """Return an amount of bytes, None where that cannot be told (damage)."""
    try:
        return amount()
    except LastgoodError:
        return None
