"""purge: take a content out of every checkpoint, after showing where it is."""

from __future__ import annotations

import os

from lastgood.cli.opening import DECLINED, OMISSIONS, ProgressLine, open_for
from lastgood.cli.restoring import agreed
from lastgood.cli.typed_paths import path_of
from lastgood.cli.wording import path_text, size
from lastgood.errors import Usage, count
from lastgood.ids import short
from lastgood.paths import printable, quoted, to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.report import PurgePlan, PurgeReport
    from lastgood.workspace import Workspace

_SHOWN = 10
_BEYOND = {
    "damaged": "what a repair set aside as damaged (`damaged` and `objects.git/damaged` in the store)",
    "kept": "files that a restore found in use and moved away (`workspaces/KEY/kept` in the store)",
}


def purge_verb(call: Call, console: Console) -> int:
    """Show what would go, ask, and take it out; or only show it."""
    with open_for(call, purpose="need") as workspace:
        path = path_of(call.arguments[0], call, workspace)
        if not call.has("yes") and not call.has("dry-run"):
            _demand_terminal(call, console)
        plan = workspace.plan_purge(path, everywhere=call.has("everywhere"))
        if call.has("dry-run"):
            return _show(plan, call, console)
        if not _agreed(plan, call, console):
            return DECLINED
        report = _purged(workspace, path, call, console)
        is_there = os.path.lexists(os.path.join(to_bytes(workspace.path), report.plan.path))
    if not _answered(report.plan, report, console):
        _tell(report, console, is_there=is_there)
    return OMISSIONS if report.plan.spared_contents else 0


def _agreed(plan: PurgePlan, call: Call, console: Console) -> bool:
    """Show what would go, and ask, unless a yes was given: then only what else is hit is shown."""
    if call.has("yes"):
        for line in () if console.json else _elsewhere_lines(plan):
            console.warn(line)
        return True
    console.warn("\n".join(_plan_lines(plan, call)))
    if not plan.contents:
        return True  # there is nothing to ask about
    return agreed("Take it out of all of these? It cannot be undone.", console)


def _purged(workspace: Workspace, path: str, call: Call, console: Console) -> PurgeReport:
    with ProgressLine(console, "purging"):
        return workspace.purge(
            path, everywhere=call.has("everywhere"), all_workspaces=call.has("all-workspaces")
        )


def _answered(plan: PurgePlan, report: PurgeReport | None, console: Console) -> bool:
    """Print the document if that is wanted, and tell whether it was."""
    if console.json:
        from lastgood.documents import purge_document, purged_document

        console.document(purge_document(plan) if report is None else purged_document(report))
    return console.json


def _demand_terminal(call: Call, console: Console) -> None:
    if not console.can_ask:
        options = [f" --{one}" for one in ("everywhere", "all-workspaces") if call.has(one)]
        command = f"purge {quoted(call.arguments[0])}{''.join(options)} --dry-run"
        raise Usage(
            "a purge cannot be undone: without a terminal it needs --yes",
            hint=f"look first: {call.command(command)}",
        )


def _show(plan: PurgePlan, call: Call, console: Console) -> int:
    if not _answered(plan, None, console):
        console.lines(list(_plan_lines(plan, call)))
        console.note("nothing was changed; carry it out with --yes instead of --dry-run")
    return 0


def _plan_lines(plan: PurgePlan, call: Call) -> Iterator[str]:
    """Yield where the contents are, and what else goes with them."""
    if plan.again:
        yield f"{path_text(plan.path)} was purged before: no checkpoint holds it"
        return
    versions = count(len(plan.contents), "version")
    yield f"{path_text(plan.path)}: {versions}, {size(plan.size)}, in {_checkpoints(plan)}"
    for one in plan.checkpoints[:_SHOWN]:
        yield f"  {short(one.id)}  {', '.join(path_text(path) for path in one.paths[:3])}"
    if len(plan.checkpoints) > _SHOWN:
        yield f"  and {len(plan.checkpoints) - _SHOWN:,} more"
    yield from _elsewhere_lines(plan)
    for other in plan.others:
        yield f"It is also held for: {printable(other)}"
    if plan.others and not call.has("all-workspaces"):
        yield "  to take it out there as well: --all-workspaces"


def _elsewhere_lines(plan: PurgePlan) -> Iterator[str]:
    """Yield which other paths lose a content too, and which contents stay because of other paths."""
    going = [path for path in plan.elsewhere if path not in plan.spared]
    if going:
        yield f"The same content goes at {count(len(going), 'other path')}: {_first(going)}"
    if plan.spared:
        what = count(len(plan.spared_contents), "version")
        where = count(len(plan.spared), "other path")
        yield f"{what} will stay, being at {where} too: {_first(plan.spared)}"
        yield "  to take it out there as well: --everywhere"


def _first(paths: Sequence[bytes]) -> str:
    shown = ", ".join(path_text(path) for path in paths[:_SHOWN])
    return shown + (f" and {len(paths) - _SHOWN:,} more" if len(paths) > _SHOWN else "")


def _checkpoints(plan: PurgePlan) -> str:
    return count(len(plan.checkpoints), "checkpoint")


def _tell(report: PurgeReport, console: Console, *, is_there: bool) -> None:
    plan = report.plan
    if plan.again:
        console.line(f"{path_text(plan.path)} was purged before; nothing of it is left in checkpoints")
    elif not plan.contents:
        console.line(f"nothing of {path_text(plan.path)} was purged: all of it is at other paths too")
    else:
        versions = count(len(plan.contents), "version")
        console.line(
            f"purged {path_text(plan.path)}: {versions} out of {_checkpoints(plan)}, none is stored any more"
        )
    if report.freed_bytes:
        console.line(f"{size(report.freed_bytes)} freed")
    for name in report.not_searched:
        console.warn(f"not searched: {_BEYOND[name]}")
    if not is_there:
        console.warn("not reached: exported files, conversations and what runs printed")
        return
    console.warn("not reached: exported files, conversations, what runs printed, and the file itself, which")
    console.warn(
        "  the next save takes in again unless .lastgoodignore or capture.built_in_off leaves it out"
    )
