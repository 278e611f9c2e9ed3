"""log and cat: when a path changed, and what a file was."""

from __future__ import annotations

from lastgood.cli.grammar import quoted
from lastgood.cli.opening import CHANGES, number_option, open_group
from lastgood.cli.references import held_where, looked_up, reached, time_meant
from lastgood.cli.typed_paths import alike_lines, alike_of, only_meant, path_of, same_name
from lastgood.cli.verbs.list import NAME_ROOM
from lastgood.cli.verbs.show import print_bytes
from lastgood.cli.wording import size, table, title
from lastgood.errors import NotFound
from lastgood.workspace.opened import OpenWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.report import PathChange

_HEADER = ("ID", "Name", "Date", "Kind", "Change", "Size", "Lines")
_NAME = 1


def log_verb(call: Call, console: Console) -> int:
    """List the checkpoints at which a path changed."""
    limit = number_option(call, "limit")
    with open_group(call, OpenWorkspace, purpose="find") as workspace:
        typed = call.arguments[0]
        typed = reached(typed, call, workspace) if console.can_ask else typed
        try:
            report = workspace.log(path_of(typed, call, workspace), limit=limit, guards=call.has("all"))
        except NotFound as error:
            found = alike_of(error, call, workspace)
            meant = None
            if found and console.can_ask:
                meant = only_meant(typed, found, call, console, workspace=workspace)
            if meant is None:
                error.hint = alike_lines(found, call, workspace) + error.hint
                raise
            typed = meant
            report = workspace.log(path_of(typed, call, workspace), limit=limit, guards=call.has("all"))
    if console.json:
        from lastgood.documents import log_document

        console.document(log_document(report))
        return 0
    rows = [_HEADER, *(_row(one, console) for one in report.changes)]
    console.page(
        table(
            rows,
            flexible=(_NAME,),
            limit=console.columns(),
            expendable=(3, 5, 4),
            room=NAME_ROOM,
            paint=console.painter({0: "yellow", 3: "dim", 4: CHANGES}),
        )
    )
    if console.out_is_terminal:
        console.note(f"to bring one back: {call.command(f'restore ID {quoted(typed)}')}")
    return 0


def _row(change: PathChange, console: Console) -> tuple[str, ...]:
    checkpoint = change.checkpoint
    return (
        checkpoint.short_id,
        title(checkpoint),
        console.moment(checkpoint.manifest.created_at),
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
            error.hint = same_name(typed, call, workspace) + error.hint
            raise
    if not console.json:
        print_bytes(content, console)
        return 0
    from lastgood.model.canonical import path_value
    from lastgood.paths import to_bytes

    said = {"checkpoint": checkpoint.id, "path": path_value(to_bytes(path)), "size": len(content)}
    console.answer("cat", said | {"content": path_value(content)})
    return 0
