"""The way of a restore on the command line: plan, show, ask, carry out, tell the way back."""

from __future__ import annotations

import os

from lastgood.cli.consent import consented, demand_means
from lastgood.cli.opening import paths_of
from lastgood.cli.plans import beside_lines, plan_counts, plan_lines, remarks, report_counts
from lastgood.cli.progress import Progress
from lastgood.cli.wording import called
from lastgood.codec.report.restoring import restore_document
from lastgood.errors import Usage
from lastgood.names import printable
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.part import Scope
    from lastgood.model.plan import Favour
    from lastgood.model.report import RestoreReport
    from lastgood.workspace import Workspace
    from lastgood.workspace.wishes import Options

_OMISSIONS = 3
DECLINED = 130


def check_options(call: Call) -> None:
    """Refuse combinations that contradict each other."""
    if call.has("to"):
        for option in ("dry-run", "plan", "merge", "git"):
            if call.has(option):
                raise Usage(
                    f"--to and --{option} do not go together",
                    hint="--to writes files into its new folder, and touches nothing else",
                )


def restore(target: Checkpoint, call: Call, console: Console, *, workspace: Workspace) -> int:
    """Bring a checkpoint back as the call says, and return the exit code."""
    if call.has("to"):
        return _aside(target, call, console, workspace=workspace)
    if not call.has("dry-run"):
        demand_means(call, console)
    with Progress(console, "planning"):
        plan = workspace.plan_restore(target.id, **_options(call, workspace))
        preview = workspace.preview(plan)
    if call.has("dry-run") or plan.empty:
        return _planned(preview.replace(dry_run=call.has("dry-run")), target, call, console)
    if not consented(preview, call, console, workspace=workspace, target=target):
        return DECLINED
    with Progress(console, "restoring"):
        report = workspace.apply(plan)
    if console.json:
        console.document(restore_document(call.verb.name, report))
    else:
        _tell(report, target, call, console)
    return 0 if report.complete else _OMISSIONS


def _options(call: Call, workspace: Workspace) -> Options:
    return {
        "paths": paths_of(call, workspace),
        "only": cast("tuple[Scope, ...]", call.texts("only")) or None,
        "git": call.has("git"),
        "merge": call.has("merge"),
        "base": call.text("base"),
        "conflict": cast("Favour | None", call.text("conflict")),
        "discard": call.has("discard"),
        "force": call.has("force"),
    }


def _planned(report: RestoreReport, target: Checkpoint, call: Call, console: Console) -> int:
    plan = report.planned
    code = 0 if report.dry_run or report.complete else _OMISSIONS
    if console.json:
        console.document(restore_document(call.verb.name, report))
        return code
    if plan.empty:
        same = "nothing is left to take back" if plan.base else "what was asked for already is"
        console.line(f"nothing to restore: {same} as in {called(target)}")
        for line in plan_lines(plan):
            console.line(line)
        return code
    console.line(f"would restore {called(target)}: {plan_counts(plan)}")
    for line in (*plan_lines(plan), *beside_lines(report, target)):
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
            only=cast("tuple[Scope, ...]", call.texts("only")) or None,
        )
    if console.json:
        console.document(restore_document(call.verb.name, report))
    else:
        console.line(f"wrote {called(target)} to {printable(folder)}: {report_counts(report.outcomes)}")
        for line in remarks(report.outcomes):
            console.warn(line)
    return 0 if report.complete else _OMISSIONS


def _tell(report: RestoreReport, target: Checkpoint, call: Call, console: Console) -> None:
    console.line(f"restored {called(target)}: {report_counts(report.outcomes)}")
    for line in (*remarks(report.outcomes), *beside_lines(report, target)):
        console.warn(line)
    if report.operation is not None:
        console.line(f"take it back with: {call.command('undo')}")
