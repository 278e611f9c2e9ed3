"""Checkpoints that the work brings about by itself, where the settings want them (rule P3)."""

from __future__ import annotations

from lastgood.actions.save import save
from lastgood.transaction.saving import Draft

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.model.checkpoint import Kind, Moment
    from lastgood.model.report import SaveReport
    from lastgood.ports.context import Context


# What is not a trigger of its own follows one that is.
_FOLLOWS = {"session-end": "session-start"}


def mark(
    context: Context,
    kind: Kind,
    *,
    message: str = "",
    task: str | None = None,
    moment: Moment | None = None,
    metadata: Mapping[str, str] | None = None,
) -> SaveReport | None:
    """Make a checkpoint of a moment; None if the settings want none of its kind."""
    if not context.settings.auto.wants(_FOLLOWS.get(kind, kind)):
        return None
    draft = Draft(kind=kind, message=message, task=task, moment=moment, metadata=metadata or {})
    return save(context, draft)
