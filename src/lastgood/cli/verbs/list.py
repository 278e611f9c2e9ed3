"""list: checkpoints, newest first."""

from __future__ import annotations

import time

from lastgood.cli import opening
from lastgood.cli.opening import open_group
from lastgood.cli.wording import count, moment, place_cell, shortened, table, title
from lastgood.paths import printable
from lastgood.value import cast
from lastgood.workspace.opened import OpenWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.checkpoint import Checkpoint, Kind

_HEADER = ("ID", "Name", "Date", "Kind", "Phase / Step", "Files", "Gaps", "Good")
_NAME = 1
# On a terminal these go when they say nothing: phase, gaps, good.
_OPTIONAL = (4, 6, 7)
_NAME_LIMIT = 72
_PLACE_LIMIT = 48
_GOOD = {True: "yes", False: "no", None: "-"}


def list_verb(call: Call, console: Console) -> int:
    """List the checkpoints that fit."""
    limit = opening.number_option(call, "limit")
    since = opening.moment_option(call, "since", now=time.time_ns())
    everywhere = call.has("all-workspaces")
    with open_group(call, OpenWorkspace, purpose="find", anywhere=everywhere) as workspace:
        checkpoints = workspace.list(
            limit=limit,
            kind=cast("Kind | None", call.text("kind")),
            session=call.text("session"),
            since=since,
            name=call.text("name"),
            good=call.has("good"),
            all_workspaces=everywhere,
            guards=call.has("all") or call.text("kind") == "guard",
            brief=True,
        )
        at = workspace.stands_at()
    if console.json:
        from lastgood.documents import list_document

        console.document(list_document(checkpoints, at=at))
    elif checkpoints:
        console.lines(lines(checkpoints, console, at=at, everywhere=everywhere))
        _tell_damage(checkpoints, console, call)
    else:
        console.note(_nothing(call))
    return 0


def lines(
    checkpoints: Sequence[Checkpoint],
    console: Console,
    *,
    at: str | None = None,
    everywhere: bool = False,
    indent: int = 0,
) -> list[str]:
    """Return checkpoints as a table with its header, to be indented by some columns.

    The one ``at`` which the workspace stands is marked.
    """
    room = console.columns()
    rows: list[tuple[str, ...]] = [(*_HEADER, "Workspace") if everywhere else _HEADER]
    for one in checkpoints:
        row = _row(one, at=at)
        rows.append((*row, printable(one.manifest.workspace)) if everywhere else row)
    shown = table(rows, flexible=_NAME, limit=room and room - indent, optional=_OPTIONAL)
    return [console.styled(shown[0], "bold"), *shown[1:]]


def _row(checkpoint: Checkpoint, *, at: str | None) -> tuple[str, ...]:
    gaps = str(len(checkpoint.gaps))
    return (
        f"{checkpoint.short_id} @" if checkpoint.id == at else checkpoint.short_id,
        shortened(title(checkpoint), _NAME_LIMIT),
        moment(checkpoint.manifest.created_at),
        checkpoint.kind,
        shortened(place_cell(checkpoint.position), _PLACE_LIMIT),
        str(checkpoint.manifest.files),
        f"{gaps} (partial)" if checkpoint.partial else gaps,
        "damaged" if checkpoint.damaged else _GOOD[checkpoint.good],
    )


def _tell_damage(checkpoints: Sequence[Checkpoint], console: Console, call: Call) -> None:
    damaged = sum(1 for one in checkpoints if one.damaged)
    if damaged:
        console.warn(f"{count(damaged, 'checkpoint')} damaged: {call.command('verify')} says which files")


def _nothing(call: Call) -> str:
    narrowing = ("kind", "session", "since", "name", "good")
    if any(call.has(option) for option in narrowing):
        return f"no checkpoint fits; all of them: {call.command('list')}"
    return f"no checkpoints yet; make the first: {call.command('save')}"
