"""log and cat: when a path changed, and what a file was."""

from __future__ import annotations

from lastgood.cli.opening import CHANGES, number_option, open_group
from lastgood.cli.references import (
    held_where,
    ignored_hint,
    is_ignored,
    looked_up,
    reached,
    time_meant,
    why_ignored,
)
from lastgood.cli.typed_paths import alike_lines, alike_of, as_typed, only_meant, path_of, same_name
from lastgood.cli.verbs.list import NAME_ROOM, labels_of, listed
from lastgood.cli.verbs.show import print_bytes
from lastgood.cli.wording import called, few_paths, label, oldest_of, size, table
from lastgood.errors import NotFound
from lastgood.paths import quoted, to_bytes, to_text
from lastgood.workspace.opened import OpenWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.report import LogReport, PathChange

_HEADER = ("ID", "Name", "Date", "Kind", "Change", "Size", "Lines")
_NAME = 1


def log_verb(call: Call, console: Console) -> int:
    """List the checkpoints at which a path changed, or at which a text came or went; without either, all."""
    typed = call.argument(0)
    if typed is None and not call.has("text"):
        ways = (
            f"when a file changed: {call.command('log PATH')}",
            f"when a text came or went: {call.command('log -S TEXT')}",
        )
        return listed(call, console, hints=ways)
    with open_group(call, OpenWorkspace, purpose="find") as workspace:
        if typed is not None and console.can_ask:
            typed = reached(typed, call, workspace)
        try:
            report = _logged(typed, call, workspace)
        except NotFound as error:
            found = [] if typed is None else alike_of(error, call, workspace)
            meant = None
            if typed is not None and found and console.can_ask:
                meant = only_meant(typed, found, call, console, workspace=workspace)
            if meant is None:
                error.hint = alike_lines(found, call, workspace) + error.hint
                if typed is not None and not found:
                    _say_why(error, typed, call, workspace)
                raise
            typed = meant
            report = _logged(typed, call, workspace)
        if console.json:
            from lastgood.documents import log_document

            console.document(log_document(report))
        elif call.has("text"):
            _show_found(report, call, console, workspace=workspace)
        else:
            _show_changes(report, typed or ".", call, console, workspace=workspace)
    return 0


def _say_why(error: NotFound, typed: str, call: Call, workspace: OpenWorkspace) -> None:
    """Add to the answer about a path that nothing holds why that is so, or where else to look."""
    if is_ignored(typed, call, workspace):
        error.message += why_ignored(call)
        error.hint = ignored_hint(typed, call, workspace)
    elif not call.has("text") and "near" not in error.details:
        error.hint += f"\nwhere that is in a file: {call.command(f'log -S {quoted(typed)}')}"


def _logged(typed: str | None, call: Call, workspace: OpenWorkspace) -> LogReport:
    return workspace.log(
        "." if typed is None else path_of(typed, call, workspace),
        limit=number_option(call, "limit"),
        guards=call.has("all"),
        text=call.text("text"),
        private=call.has("private"),
    )


def _show_found(report: LogReport, call: Call, console: Console, *, workspace: OpenWorkspace) -> None:
    """Show how often the text was in the files of each checkpoint before, and how often it is since."""
    rows = [("ID", "Name", "Date", "Kind", "Times", "Path")]
    oldest = oldest_of(one.checkpoint for one in report.changes)
    for change in report.changes:
        checkpoint, found = change.checkpoint, change.occurrences
        before, after = sum(one.before for one in found), sum(one.after for one in found)
        paths = few_paths([to_bytes(as_typed(to_text(one.path), call, workspace)) for one in found])
        made = console.moment(checkpoint.manifest.created_at, oldest=oldest)
        times = f"{before:,} -> {after:,}"
        rows.append((checkpoint.short_id, label(checkpoint), made, checkpoint.kind, times, paths))
    private = few_paths(report.unsearched)
    passed_over = [f"not searched, being private: {private} (search them: --private)"] if private else []
    console.page(
        table(
            rows,
            flexible=(_NAME, 5),
            limit=console.columns(),
            expendable=(3,),
            room=NAME_ROOM,
            paint=console.painter({0: "yellow", 3: "dim"}),
        ),
        hints=(*passed_over, *(_way_back(one, call, workspace) for one in report.changes[:1])),
    )
    if not console.out_is_terminal:
        for said in passed_over:
            console.note(said)
    if report.damaged:
        console.warn(f"not searched, being damaged: {few_paths([one or b'.' for one in report.damaged])}")
        console.warn(f"  which checkpoints have it: {call.command('verify')}")


def _way_back(newest: PathChange, call: Call, workspace: OpenWorkspace) -> str:
    """Return the command for the last version of a file that has the text, else for that of the change."""
    one = next((one for one in newest.occurrences if not one.after), newest.occurrences[0])
    path, holder = quoted(as_typed(to_text(one.path), call, workspace)), newest.checkpoint
    if not one.after:
        before = workspace.previous(holder.id)
        if before is not None:
            way = call.command(f"restore {before.short_id} {path}")
            return f"the last with it is {called(before)}:\n  {way}"
    return f"as it was then: {call.command(f'restore {holder.short_id} {path}')}"


def _show_changes(
    report: LogReport, typed: str, call: Call, console: Console, *, workspace: OpenWorkspace
) -> None:
    found = [one.checkpoint for one in report.changes]
    labels = labels_of(found, workspace) if console.out_is_terminal else {}
    oldest = oldest_of(found)
    made = [console.moment(one.manifest.created_at, oldest=oldest) for one in found]
    changes = zip(report.changes, made, strict=True)
    rows = [_HEADER, *(_row(one, at, said=labels.get(one.checkpoint.id)) for one, at in changes)]
    console.page(
        table(
            rows,
            flexible=(_NAME,),
            limit=console.columns(),
            expendable=(3, 5, 4),
            room=NAME_ROOM,
            paint=console.painter({0: "yellow", 3: "dim", 4: CHANGES}),
        ),
        hints=(
            f"to bring one back: {call.command(f'restore ID {quoted(typed)}')}",
            f"when a text came into it, or went: {call.command(f'log -S TEXT {quoted(typed)}')}",
        ),
    )


def _row(change: PathChange, made: str, *, said: str | None) -> tuple[str, ...]:
    checkpoint = change.checkpoint
    return (
        checkpoint.short_id,
        said or label(checkpoint),
        made,
        checkpoint.kind,
        change.status,
        "-" if change.size is None else size(change.size),
        _lines(change),
    )


def _lines(change: PathChange) -> str:
    if change.binary:
        return "binary"
    if not change.additions and not change.deletions:
        return "-"
    return f"+{change.additions:,} -{change.deletions:,}"


def cat_verb(call: Call, console: Console) -> int:
    """Print one file of a checkpoint."""
    with open_group(call, OpenWorkspace, purpose="find") as workspace:
        *given, typed = call.arguments
        typed = reached(typed, call, workspace) if console.can_ask else typed
        ref = given[0] if given else held_where(typed, call, workspace)
        ref = time_meant(ref, workspace) if console.can_ask else ref
        checkpoint = looked_up(ref, call, workspace)
        path = path_of(typed, call, workspace)
        try:
            content = workspace.read(checkpoint.id, path, private=call.has("private"))
        except NotFound as error:
            if is_ignored(typed, call, workspace):
                error.message += why_ignored(call)
                error.hint = f"{ignored_hint(typed, call, workspace)}\n{error.hint}"
            error.hint = same_name(typed, call, workspace) + error.hint
            raise
    if not console.json:
        print_bytes(content, console)
        return 0
    from lastgood.model.canonical import path_value

    said = {"checkpoint": checkpoint.id, "path": path_value(to_bytes(path)), "size": len(content)}
    console.answer("cat", said | {"content": path_value(content)})
    return 0
