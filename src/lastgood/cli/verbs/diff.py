"""diff: compare checkpoints, or one with the workspace."""

from __future__ import annotations

from lastgood.cli.differences import name_status_lines, print_patch, stat_lines, unmatched_line
from lastgood.cli.opening import looked_up, open_group, paths_of
from lastgood.cli.progress import Progress
from lastgood.cli.wording import count
from lastgood.errors import NotFound, Usage
from lastgood.workspace.verbs.looking import Looks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call
    from lastgood.model.report import DiffReport


def carry_out(call: Call, console: Console) -> int:
    """Compare, and print a patch or a summary."""
    summary = call.has("stat") or call.has("name-status")
    with open_group(call, Looks, purpose="find") as workspace:
        before, after = _sides(call, workspace)
        paths = paths_of(call, workspace)
        with Progress(console, "comparing"):
            report = workspace.diff(before, after, paths=paths, patch=not call.has("name-status"))
    if console.json:
        from lastgood.codec.report.documents import diff_document

        console.document(diff_document(report.replace(patch=None) if summary else report))
    else:
        _print(report, call, console)
    if report.patch is not None and not summary and not console.json:
        _warn_of_told(report, console)
    for one in report.unmatched:
        console.warn(unmatched_line(one))
    return 0


def _warn_of_told(report: DiffReport, console: Console) -> None:
    """Say of what a patch that goes elsewhere has none: whoever applies it would not see that."""
    told = [one for one in report.files if one.binary]
    if told and not console.out_is_terminal:
        console.warn(f"lastgood: {count(len(told), 'file')} told, not patched: binary, or over 8 MiB")


def _print(report: DiffReport, call: Call, console: Console) -> None:
    if call.has("stat"):
        lines = stat_lines(report.files)
    elif call.has("name-status"):
        lines = name_status_lines(report.files)
    else:
        print_patch(report.patch or b"", console)
        return
    for line in lines:
        console.line(line)


def _sides(call: Call, workspace: Looks) -> tuple[str | None, str | None]:
    previous = call.text("previous")
    if len(call.arguments) + (previous is not None) * 2 + call.has("since-start") > 2 or (
        call.has("since-start") and call.arguments
    ):
        raise Usage("`diff` compares one pair", hint="give REFs, or --previous REF, or --since-start")
    if call.has("since-start"):
        return "@start", None
    if previous is not None:
        after = looked_up(previous, call, workspace)
        before = workspace.previous(after.id)
        if before is None:
            raise NotFound(
                f"{after.short_id} is the first checkpoint: there is none before it",
                hint=f"what it holds: {call.command(f'show {after.short_id} --files')}",
            )
        return before.id, after.id
    sides = [looked_up(ref, call, workspace).id for ref in call.arguments]
    return (sides[0] if sides else None), (sides[1] if len(sides) > 1 else None)
