"""Whether to go on: a person's yes, ``--yes``, or the id of the plan that was looked at (T1, T16)."""

from __future__ import annotations

from lastgood.cli.grammar import quoted
from lastgood.cli.plans import beside_lines, plan_counts, shortened_plan
from lastgood.cli.wording import changes, count
from lastgood.errors import Conflict, Unsafe, Usage
from lastgood.names import printable, to_text
from lastgood.rules.restore import too_many_deletions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.plan import RestorePlan
    from lastgood.model.report import RestoreReport
    from lastgood.model.tree import Counts
    from lastgood.workspace import Workspace

_SHOWN = 10
_MEANS = frozenset({"yes", "plan", "dry-run"})


def demand_means(call: Call, console: Console) -> None:
    """Refuse a restore that nobody could consent to, before the workspace is read."""
    if call.has("yes") or call.has("plan") or console.can_ask:
        return
    raise Usage(
        f"without a terminal `{call.verb.name}` needs --yes or --plan ID",
        hint=f"look first, and get the plan's id: {_again(call, '--dry-run')}",
    )


def consented(
    preview: RestoreReport, call: Call, console: Console, *, workspace: Workspace, target: Checkpoint
) -> bool:
    """Tell whether to carry out a plan; raises where the answer cannot be had."""
    plan = preview.planned
    wanted = call.text("plan")
    if wanted is not None:
        if wanted != plan.id:
            raise Conflict(
                f"the plan is now {plan.id}, not {printable(wanted)}: something has changed since",
                hint=f"look again: {_again(call, '--dry-run')}",
                details={"planned": wanted, "plan": plan.id},
            )
        return True
    large = too_many_deletions(plan.steps, files_before(plan, target))
    if call.has("yes") and not large:
        return True
    if not console.can_ask:
        raise Unsafe(
            f"this would delete {count(plan.deletions, 'file')}; --yes is not enough for that",
            hint=f"if that is what you want, say so with: {_again(call, f'--plan {plan.id}')}",
            details={"plan": plan.id, "deletions": plan.deletions},
        )
    _show(preview, target, console, workspace=workspace)
    if large:
        console.warn(f"This deletes {count(plan.deletions, 'file')}, a large part of the workspace.")
    return agreed("Go ahead?", console)


def agreed(question: str, console: Console) -> bool:
    """Ask a person; anything but a plain yes means no."""
    if console.ask(f"{question} [y/N] ").lower() in {"y", "yes"}:
        return True
    console.warn("nothing was changed")
    return False


def _again(call: Call, means: str) -> str:
    """Return the same command with another means of consent, to be typed next."""
    words = [call.verb.name, *(quoted(one) for one in call.arguments)]
    for option in call.verb.options:
        if call.has(option.name) and option.name not in _MEANS:
            values = call.texts(option.name)
            words += [f"--{option.name} {quoted(one)}" for one in values] or [f"--{option.name}"]
    words.append(means)
    if call.paths:
        words += ["--", *(quoted(one) for one in call.paths)]
    return call.command(" ".join(words))


def files_before(plan: RestorePlan, target: Checkpoint) -> int:
    """Return how many files the workspace has now, as far as the plan and its target tell."""
    fresh = sum(1 for step in plan.of("write") if step.have is None)
    return max(0, target.manifest.files - fresh) + plan.deletions


def _show(preview: RestoreReport, target: Checkpoint, console: Console, *, workspace: Workspace) -> None:
    """Show what will be: first what a person changed, then what comes beside files (rules T1, P6)."""
    plan = preview.planned
    for line in (*drift_lines(workspace), *beside_lines(preview, target)):
        console.warn(line)
    console.warn(f"Restoring {target.short_id}: {plan_counts(plan)}.")
    for line in shortened_plan(plan):
        console.warn(line)


def drift_lines(workspace: Workspace) -> list[str]:
    """Return what changed since the newest checkpoint: nobody but the guard has kept it yet."""
    report = workspace.diff(patch=False)
    if not report.files:
        return []
    lines = [f"Changed since the newest checkpoint: {count(len(report.files), 'file')}."]
    lines += [f"  {one.status:8} {printable(to_text(one.path))}" for one in report.files[:_SHOWN]]
    if len(report.files) > _SHOWN:
        lines.append(f"  and {len(report.files) - _SHOWN:,} more")
    lines.append("A guard checkpoint keeps all of it before anything is touched.")
    return lines


def drift_words(drift: Counts | None) -> str:
    """Return how far the workspace is from the newest checkpoint."""
    return "not looked at" if drift is None else changes(drift)
