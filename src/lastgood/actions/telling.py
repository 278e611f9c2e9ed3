"""What a restore's report says beside the files (rules T9, T11, P6)."""

from __future__ import annotations

from lastgood.actions.standing import standing
from lastgood.model.report import HeadMoved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.effect import Effect
    from lastgood.model.report import RestoreReport
    from lastgood.ports.context import Context

# What of a part's JSON is for those who asked; the rest is between its module and the journal.
_SHOWN = ("messages", "transcript", "resume_command", "note", "commit", "branch")


def told(context: Context, report: RestoreReport, target: Checkpoint) -> RestoreReport:
    """Return a report with what is known beside the files."""
    progress = standing(context).progress
    return report.replace(
        head_moved=head_moved(context, target),
        irreversible=irreversible(context, target),
        conversation=_conversation(context, report, target),
        progress=None if progress.empty else progress,
    )


def head_moved(context: Context, target: Checkpoint) -> HeadMoved | None:
    """Tell whether the project's HEAD is not where it was at a checkpoint (rule T9)."""
    if target.manifest.git is None:
        return None
    then, now = target.manifest.git.head, context.project.head(context.root)
    if then == now:
        return None
    commits = context.project.commits_between(context.root, then, now) if then and now else None
    return HeadMoved(commits=commits, from_=then, to=now)


def irreversible(context: Context, target: Checkpoint) -> tuple[Effect, ...]:
    """Return the steps of the work since a checkpoint that no restore takes back (rule P6).

    One that nobody saw end counts: it may have had its effect.
    """
    return tuple(
        effect
        for effect in context.work.effects(context.key)
        if effect.irreversible and effect.state != "failed" and effect.after >= target.sequence
    )


def shown(side: Mapping[str, object]) -> dict[str, object]:
    """Return what of a part is for reports."""
    return {key: side[key] for key in _SHOWN if key in side}


def _conversation(context: Context, report: RestoreReport, target: Checkpoint) -> dict[str, object] | None:
    """Return where a conversation comes back: in a transcript, or as messages and why only so (rule T11)."""
    held = target.manifest.conversation
    if held is None or "conversation" not in report.scopes:
        return None
    part = next((one for one in report.parts if one.scope == "conversation"), None)
    if part is not None:
        return {"messages": held.messages} | shown(part.details)
    from lastgood.actions.parts.conversation import remark

    note = remark(context, target)
    return {"messages": held.messages} | ({} if note is None else {"note": note})
