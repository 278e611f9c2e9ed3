"""The way of a restore on the command line: plan, show, ask, carry out, tell the way back."""

from __future__ import annotations

import os

from lastgood.cli.consent import consented, demand_means
from lastgood.cli.opening import paths_of
from lastgood.cli.plans import head_line, plan_counts, plan_lines, remarks, report_counts
from lastgood.cli.progress import Progress
from lastgood.cli.wording import called
from lastgood.codec.report.restoring import restore_document
from lastgood.errors import Usage
from lastgood.model.report import RestoreReport, planned_outcomes
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.plan import RestorePlan
    from lastgood.workspace import Workspace

_OMISSIONS = 3
DECLINED = 130


def check_options(call: Call, console: Console) -> None:
    """Refuse combinations that contradict each other, and restores that nobody could consent to."""
    if call.has("to"):
        for option in ("dry-run", "plan"):
            if call.has(option):
                raise Usage(
                    f"--to and --{option} do not go together",
                    hint="--to touches nothing but its new folder, so there is nothing to plan",
                )
    elif not call.has("dry-run"):
        demand_means(call, console)


def restore(target: Checkpoint, call: Call, console: Console, *, workspace: Workspace) -> int:
    """Bring a checkpoint back as the call says, and return the exit code."""
    if call.has("to"):
        return _aside(target, call, console, workspace=workspace)
    with Progress(console, "planning"):
        plan = workspace.plan_restore(
            target.id,
            paths=paths_of(call, workspace),
            discard=call.has("discard"),
            force=call.has("force"),
        )
    if call.has("dry-run") or plan.empty:
        return _planned(plan, target, call, console)
    if not consented(plan, call, console, workspace=workspace, target=target):
        return DECLINED
    with Progress(console, "restoring"):
        report = workspace.apply(plan)
    if console.json:
        console.document(restore_document(call.verb.name, report))
    else:
        _tell(report, target, call, console)
    return _OMISSIONS if report.omissions else 0


def _planned(plan: RestorePlan, target: Checkpoint, call: Call, console: Console) -> int:
    if console.json:
        report = RestoreReport(
            planned=plan, target=plan.target, outcomes=planned_outcomes(plan), dry_run=call.has("dry-run")
        )
        console.document(restore_document(call.verb.name, report))
        return 0
    if plan.empty:
        console.line(f"nothing to restore: the workspace already is as in {called(target)}")
        for line in plan_lines(plan):
            console.line(line)
        return 0
    console.line(f"would restore {called(target)}: {plan_counts(plan)}")
    for line in plan_lines(plan):
        console.line(line)
    console.line(f"plan {plan.id}")
    console.note(f"nothing was changed; carry it out with the same command and --plan {plan.id}")
    return 0


def _aside(target: Checkpoint, call: Call, console: Console, *, workspace: Workspace) -> int:
    folder = os.path.abspath(call.text("to") or "")
    with Progress(console, "writing"):
        report = workspace.restore(
            target.id,
            paths=paths_of(call, workspace),
            to=folder,
            discard=call.has("discard"),
            force=call.has("force"),
        )
    if console.json:
        console.document(restore_document(call.verb.name, report))
    else:
        console.line(f"wrote {called(target)} to {printable(folder)}: {report_counts(report.outcomes)}")
        for line in remarks(report.outcomes):
            console.warn(line)
    return _OMISSIONS if report.omissions else 0


def _tell(report: RestoreReport, target: Checkpoint, call: Call, console: Console) -> None:
    console.line(f"restored {called(target)}: {report_counts(report.outcomes)}")
    for line in remarks(report.outcomes):
        console.warn(line)
    moved = head_line(report)
    if moved is not None:
        console.note(moved)
    if report.operation is not None:
        console.line(f"take it back with: {call.command('undo')}")
