"""Whether to go on with what changes files: a plan's id, ``confirm``, or a person's yes (rules T1, T16).

The question is what a resolver of the SDK returns, which works in both eras of the protocol: under a
handshake it is asked while the tool waits, in the stateless one the client calls again with the answer. An
answer counts for the very words that were asked, and those have the plan's id in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.server.elicitation import AcceptedElicitation
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit
from pydantic import BaseModel, Field

from lastgood.errors import Conflict, LastgoodError, Unsafe
from lastgood.ids import short
from lastgood.mcp_server.answers import plain, quoted
from lastgood.model.canonical import iso
from lastgood.model.checkpoint import Checkpoint
from lastgood.model.operation import Operation, RestorePlan
from lastgood.model.report import RestoreReport, counts_of, planned_outcomes
from lastgood.paths import to_text
from lastgood.restore.plan import takes_many_away, too_many_deletions
from lastgood.value import Value
from lastgood.workspace.api import Workspace

PLAN = "The id of the plan that was looked at: it is carried out if it is still the same."
CONFIRM = "Go on without asking: the person has agreed to just this."
_NAMED = 12
_WORDS = {
    "write": ("file", "to write"),
    "delete": ("file", "to delete"),
    "mkdir": ("folder", "to make"),
    "rmdir": ("folder", "to remove"),
    "chmod": ("mode", "to set"),
    "keep": ("path", "kept"),
    "skip": ("path", "skipped"),
}


class Confirm(BaseModel):
    """What a person is asked."""

    go_ahead: bool = Field(strict=True, title="Go ahead", description="Yes, do this.")


class Planned(Value):
    """A restore that was looked at: what it would do, and to which checkpoint it leads.

    ``at`` is the folder; ``folder`` the same if it is not the one that the server was started for.
    ``backwards``: what an agent changed since that is taken back, and nothing else. ``said`` is the verb, and
    the words, by which it was made.
    """

    preview: RestoreReport
    target: Checkpoint
    at: str
    folder: str | None = None
    backwards: bool = False
    said: tuple[str, Mapping[str, Any]] | None = None

    @property
    def plan(self) -> RestorePlan:
        """The plan itself."""
        return self.preview.planned


class Going(Value):
    """What an undo or redo would take, and what it would do to files.

    None as the operation: nothing is left to take. None as the plan: checkpoints alone come back. ``bends``:
    it goes on whatever changed since, by force or by a merge. ``at`` and ``folder`` are as in `Planned`.
    """

    operation: Operation | None = None
    plan: RestorePlan | None = None
    many: bool = False
    bends: bool = False
    undoing: bool = True
    at: str = ""
    folder: str | None = None


def going(workspace: Workspace, *, undoing: bool, force: bool, merge: bool) -> Going:
    """Return what an undo, or a redo, would take and do; raises why it would not."""
    operation = next(iter(workspace.operations(can="undo" if undoing else "redo")), None)
    at = str(workspace.path)
    if operation is None or (undoing and operation.type != "restore"):
        return Going(operation=operation, undoing=undoing, at=at)
    look = workspace.plan_undo if undoing else workspace.plan_redo
    plan = look(force=force, merge=merge, of=operation.id).planned
    source = operation.guard if undoing else operation.target
    try:
        many = takes_many_away(plan, workspace.get(source or ""))
    except LastgoodError:  # freed since: how many files would stay is not known
        many = too_many_deletions(plan.steps, 0)
    return Going(operation=operation, plan=plan, many=many, bends=force or merge, undoing=undoing, at=at)


def agreed(answer: Any) -> None:  # noqa: ANN401 - what a resolver came to, of whichever form
    """Go on if whoever was asked said yes, or nobody had to be; `Unsafe` else."""
    data = answer.data if isinstance(answer, AcceptedElicitation) else None
    if data is True or (isinstance(data, Confirm) and data.go_ahead):
        return
    raise Unsafe(
        "nothing was changed: whoever was asked did not agree",
        hint="ask the person what they want before calling it again",
        details={"answer": getattr(answer, "action", "none")},
    )


def for_plan(
    planned: Planned, context: Context[Any, Any], *, plan: str | None, confirm: bool
) -> Elicit[Confirm] | bool:
    """Return what to ask before a plan is carried out; True if that was agreed to already."""
    found = planned.plan
    if plan is not None:
        refuse_other(found, plan)
        return True
    if found.empty and not planned.preview.folder_made:
        return True
    many = takes_many_away(found, planned.target)
    if confirm and not many:
        return True
    if can_ask(context):
        return Elicit(_question(planned, many=many), Confirm)
    raise _unasked(found, many=many, name="plan", id=found.id)


def _unasked(plan: RestorePlan, *, many: bool, name: str, id: str) -> Unsafe:
    """Return the refusal of what nobody can be asked about; to name an id is the way."""
    why = (
        f"it would delete {plan.deletions:,} files, a large part of the workspace"
        if many
        else "it changes files"
    )
    ways = f"{name}={id}" if many else f"{name}={id}, or confirm=true if the person has agreed to it"
    return Unsafe(
        f"nothing was changed: {why}, and nobody can be asked here",
        hint=f"to carry it out, call it again with {ways}",
        details={
            name: id,
            "plan": plan.id,
            "deletions": plan.deletions,
            "counts": counts_of(planned_outcomes(plan)),
        },
    )


def for_words(question: str, context: Context[Any, Any], *, confirm: bool) -> Elicit[Confirm] | bool:
    """Return a question; True if it was answered already."""
    if confirm:
        return True
    if can_ask(context):
        return Elicit(question, Confirm)
    raise Unsafe(
        "nothing was changed: it changes files, and nobody can be asked here",
        hint="if the person has agreed to it, call it again with confirm=true",
        details={"question": question},
    )


def refuse_other(found: RestorePlan, plan: str) -> None:
    """Refuse a plan that is not the one that was looked at (rule T1)."""
    if plan != found.id:
        raise Conflict(
            f"the plan is now {found.id}, not {plain(plan)}: something has changed since",
            hint="look again: what is called without a plan says which it would be",
            details={"planned": plan, "plan": found.id},
        )


def demand_plan(found: RestorePlan, target: Checkpoint, *, plan: str | None) -> None:
    """Refuse another plan than was looked at, and one that takes very many files away (rules T1, T16)."""
    if plan is not None:
        refuse_other(found, plan)
        return
    if not takes_many_away(found, target):
        return
    raise Unsafe(
        f"this would delete {found.deletions:,} files, a large part of the workspace",
        hint=f"if that is what the person wants, call it again with plan={found.id}",
        details={"plan": found.id, "deletions": found.deletions},
    )


def can_ask(context: Context[Any, Any]) -> bool:
    """Tell whether the client lets a person answer a form."""
    told = context.client_capabilities
    asking = None if told is None else told.elicitation
    return asking is not None and (asking.form is not None or asking.url is None)


def for_operation(
    going: Going, context: Context[Any, Any], *, of: str | None, plan: str | None, confirm: bool
) -> Elicit[Confirm] | bool:
    """Return what to ask before an operation is taken back, or done again; True if that was agreed to.

    Whoever names the operation has agreed to it as it was: what changed since refuses it. Where it goes on
    all the same, what becomes of that is in the plan alone.
    """
    operation, found = going.operation, going.plan
    if operation is None:
        return True
    if of is not None and of != operation.id:
        raise Conflict(
            f"it would now be about {operation.id}, not {plain(of)}: something was done since",
            hint="look again: what is called without an operation says which it would be",
            details={"of": of, "now": operation.id},
        )
    if found is None:
        return True
    if plan is not None:
        refuse_other(found, plan)
        return True
    if (of is not None and not going.bends) or (confirm and not going.many):
        return True
    if can_ask(context):
        return Elicit(_operation_words(operation, found, going), Confirm)
    name, id = ("plan", found.id) if going.bends else ("of", operation.id)
    raise _unasked(found, many=going.many, name=name, id=id)


def _operation_words(operation: Operation, plan: RestorePlan, going: Going) -> str:
    what: str = operation.type
    if operation.target is not None and operation.target.startswith("ckpt_"):
        what += f" of {short(operation.target)}"
    does = "Take back" if going.undoing else "Do again"
    lines = [f"{does} the {what} in {quoted(going.at)}, made {iso(operation.at)} ({operation.id})?"]
    lines.append(_counted(plan) or "No files change.")
    if going.many:
        lines.append(f"This deletes {plan.deletions:,} files, a large part of the workspace.")
    lines += _touched(plan)
    lines.append(f"The present state is saved first. Plan {plan.id}.")
    return "\n".join(lines)


def _touched(plan: RestorePlan) -> list[str]:
    """Return the first paths that a plan changes, what it deletes before all else."""
    touched = [*plan.of("delete"), *plan.of("write", "chmod")]
    lines = [f"  {one.action} {plain(to_text(one.path))}" for one in touched[:_NAMED]]
    return lines + ([f"  and {len(touched) - _NAMED:,} more"] if len(touched) > _NAMED else [])


def _question(planned: Planned, *, many: bool) -> str:
    plan, target = planned.plan, planned.target
    title = target.name or target.manifest.message or target.kind
    does = "Take back what an agent changed since" if planned.backwards else "Restore"
    made = iso(target.manifest.created_at)
    lines = [f"{does} {target.short_id} {quoted(title)}, made {made}, in {quoted(planned.at)}?"]
    lines.append(_counted(plan) or "No files change.")
    if many:
        lines.append(f"This deletes {plan.deletions:,} files, a large part of the workspace.")
    lines += _touched(plan)
    lines += _beside(planned.preview)
    beside = [one for one in plan.scopes if one != "files"]
    if plan.parts:
        lines.append(f"Beside files: {', '.join(beside)}.")
    lines.append(f"The present state is saved first; undo brings it back. Plan {plan.id}.")
    return "\n".join(lines)


def _beside(preview: RestoreReport) -> list[str]:
    """Return what goes with a rewind although no turn of it changed it."""
    if preview.changed_beside is None:
        return ["What else was changed, and goes too, cannot be told."]
    paths = list(dict.fromkeys(plain(to_text(one.path)) for one in preview.changed_beside))
    if not paths:
        return []
    more = f" and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else ""
    return [f"Changed beside the turns or runs, and goes too: {', '.join(paths[:_NAMED])}{more}."]


def _counted(plan: RestorePlan) -> str:
    counts = counts_of(planned_outcomes(plan))
    found = [(counts[action], *words) for action, words in _WORDS.items() if counts[action]]
    return ", ".join(f"{number:,} {noun}{'s' * (number != 1)} {does}" for number, noun, does in found)
