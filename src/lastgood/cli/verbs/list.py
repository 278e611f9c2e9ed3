"""list: checkpoints, newest first."""

from __future__ import annotations

import time

from lastgood.cli import opening
from lastgood.cli.folding import folded, is_settled, worked_by
from lastgood.cli.opening import open_group
from lastgood.cli.wording import UNTITLED, few_paths, label, oldest_of, place_cell, table, title
from lastgood.errors import LastgoodError, NotFound, count
from lastgood.model.checkpoint import KINDS
from lastgood.paths import printable, quoted, to_bytes, within
from lastgood.value import cast
from lastgood.workspace.opened import OpenWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.cli.searching import Paths
    from lastgood.literals import Kind
    from lastgood.model.checkpoint import Checkpoint

_HEADER = ("ID", "Name", "Date", "Kind", "Phase / Step", "Files", "Gaps", "Good", "Found by")
_ID, _NAME, _DATE, _KIND, _PLACE, _GOODNESS, _PATH, _WORKSPACE = 0, 1, 2, 3, 4, 7, 8, 9
# These go when they say nothing: phase, gaps, good, the path by which a word was found.
_OPTIONAL = (_PLACE, 6, _GOODNESS, _PATH)
# On a narrow one these go before the name does: files, kind, phase, gaps.
_EXPENDABLE = (5, _KIND, 6, _PLACE)
# Of several workspaces the date goes, too, where there is room for two columns only.
_NARROW = 60
# What a checkpoint is called says more than how many files it has, or of what kind it is.
NAME_ROOM = 32
# Who asks for one of these is shown all that fits.
_WHOLE = ("all", "kind", "session", "name")
# Of so many that nobody named is told what changed at them, where that is not very much.
_LABELLED, _MANY = 50, 1000
# So many checkpoints may make a row; fewer are read where those settle which rows there are.
_FOLDED = 4
_GOOD = {True: "yes", False: "no", None: "-"}
_STYLES = {_ID: "yellow", _KIND: "dim"}
_COLOURS = {"yes": "green", "no": "red", "damaged": "red"}


def list_verb(call: Call, console: Console) -> int:
    """List the checkpoints that fit."""
    return listed(call, console)


def listed(call: Call, console: Console, *, hints: Sequence[str] = ()) -> int:
    """List the checkpoints that fit; a person is told what to type next, and more ``hints``."""
    limit = opening.number_option(call, "limit")
    everywhere = call.has("all-workspaces")
    with open_group(call, OpenWorkspace, purpose="find", anywhere=everywhere) as workspace:
        at = workspace.stands_at()
        if console.json:
            from lastgood.documents import list_document

            console.document(list_document(_found(call, workspace, limit=limit)[0], at=at))
            return 0
        checkpoints, standing, paths = _rows(call, workspace, limit=limit)
        labels = labels_of(checkpoints, workspace) if console.out_is_terminal else {}
        back = _way_back(workspace, call) if console.out_is_terminal and not everywhere else ()
        nothing = "" if checkpoints else _nothing(call, workspace)
    if checkpoints:
        at = standing.get(at or "", at)
        left_out = _left_out(len(standing), call)
        ways = () if everywhere else _ways(checkpoints, call, at=at, paths=paths)
        shown = lines(checkpoints, console, at=at, everywhere=everywhere, paths=paths, labels=labels)
        console.page(shown, hints=(*left_out, *ways, *back, *hints))
        if not console.out_is_terminal:
            for one in left_out:
                console.note(one)
        _tell_damage(checkpoints, console, call)
    else:
        console.note(nothing)
    return 0


def _found(
    call: Call, workspace: OpenWorkspace, *, limit: int | None
) -> tuple[tuple[Checkpoint, ...], Paths]:
    """Return the newest checkpoints that fit, and the paths by which words found them."""
    words = [*call.arguments, *call.texts("grep")]
    found = workspace.list(
        limit=None if words else limit,
        kind=cast("Kind | None", call.text("kind")),
        session=call.text("session"),
        since=opening.moment_option(call, "since", now=time.time_ns()),
        name=call.text("name"),
        good=call.has("good"),
        all_workspaces=call.has("all-workspaces"),
        guards=call.has("all") or call.text("kind") == "guard",
        brief=True,
    )
    if not words:
        return found, {}
    from lastgood.cli.searching import searched

    paths = searched(found, words, paths=workspace.changed_paths(found))
    return tuple(one for one in found if one.id in paths)[:limit], paths


def _rows(
    call: Call, workspace: OpenWorkspace, *, limit: int | None
) -> tuple[Sequence[Checkpoint], Mapping[str, str], Paths]:
    """Return what a person is shown, which rows stand for what is left out among it, and `_found`'s paths."""
    if any(call.has(option) for option in _WHOLE):
        found, paths = _found(call, workspace, limit=limit)
        return found, {}, paths
    searches = call.arguments or call.has("grep")  # which reads all of them each time
    wanted = None if limit is None else limit * _FOLDED if searches else limit + limit // 4 + 1
    while True:
        found, paths = _found(call, workspace, limit=wanted)
        standing = folded(found)
        shown = [one for one in found if one.id not in standing]
        if limit is None or wanted is None or len(found) < wanted:
            break
        # What came before the last one is not known yet.
        if len(shown) > limit and (wanted >= limit * _FOLDED or is_settled(shown[:limit], found)):
            break
        wanted *= 2
    if limit is None or len(shown) <= limit:
        return shown, standing, paths
    places = {one.id: place for place, one in enumerate(found)}
    last = places[shown[limit - 1].id]
    return shown[:limit], {id: by for id, by in standing.items() if places[id] < last}, paths


def labels_of(checkpoints: Sequence[Checkpoint], workspace: OpenWorkspace) -> dict[str, str]:
    """Return what is said of those that nobody named: of the first of them which files changed."""
    unnamed = [one for one in checkpoints if title(one) == UNTITLED]
    few = [one for one in unnamed if one.previous is not None and _changed(one) <= _MANY][:_LABELLED]
    try:
        changed = workspace.changed_paths(few, patient=False)
    except LastgoodError:  # as bytes are being freed: a list waits for nobody
        changed = {}
    from lastgood.cli.searching import told_by_files

    return {one.id: told_by_files(one, changed.get(one.id, ())) for one in unnamed}


def _changed(checkpoint: Checkpoint) -> int:
    changes = checkpoint.manifest.changes
    return changes.added + changes.modified + changes.deleted


def lines(
    checkpoints: Sequence[Checkpoint],
    console: Console,
    *,
    at: str | None = None,
    everywhere: bool = False,
    indent: int = 0,
    paths: Paths | None = None,
    labels: Mapping[str, str] = {},
) -> list[str]:
    """Return checkpoints as a table with its header, to be indented by some columns.

    The one ``at`` which the workspace stands is marked. ``paths`` are those by which one was found,
    ``labels`` what is said of one that nobody named.
    """
    room = console.columns()
    rows: list[tuple[str, ...]] = [(*_HEADER, "Workspace") if everywhere else _HEADER]
    oldest = oldest_of(checkpoints)
    for one in checkpoints:
        made = console.moment(one.manifest.created_at, oldest=oldest)
        row = _row(one, made, at=at, paths=(paths or {}).get(one.id, ()), said=labels.get(one.id))
        rows.append((*row, printable(one.manifest.workspace)) if everywhere else row)

    def paint(row: int, column: int, cell: str) -> str:
        if row == 0 or (column in {_ID, _NAME} and checkpoints[row - 1].id == at):
            return console.styled(cell, "bold")
        if column == _GOODNESS:
            return console.styled(cell, _COLOURS.get(cell.strip(), "dim"))
        return console.styled(cell, _STYLES[column]) if column in _STYLES else cell

    return table(
        rows,
        flexible=(_PLACE, _PATH, _NAME, *([_WORKSPACE] if everywhere else [])),
        limit=room and room - indent,
        optional=_OPTIONAL,
        expendable=(*_EXPENDABLE, _DATE) if everywhere and (room or _NARROW) < _NARROW else _EXPENDABLE,
        room=NAME_ROOM,
        whole=(_PLACE,),
        paths=(_WORKSPACE,),
        paint=paint if console.colour else None,
    )


def _row(
    checkpoint: Checkpoint, made: str, *, at: str | None, paths: Sequence[bytes], said: str | None
) -> tuple[str, ...]:
    gaps = str(len(checkpoint.gaps))
    return (
        f"{checkpoint.short_id} @" if checkpoint.id == at else checkpoint.short_id,
        said or label(checkpoint),
        made,
        checkpoint.kind,
        place_cell(checkpoint.position),
        str(checkpoint.manifest.files),
        f"{gaps} (partial)" if checkpoint.partial else gaps,
        "damaged" if checkpoint.damaged else _GOOD[checkpoint.good],
        few_paths(paths) or "-",
    )


def _tell_damage(checkpoints: Sequence[Checkpoint], console: Console, call: Call) -> None:
    damaged = sum(1 for one in checkpoints if one.damaged)
    if damaged:
        console.warn(f"{count(damaged, 'checkpoint')} damaged: {call.command('verify')} says which files")


def _left_out(number: int, call: Call) -> Sequence[str]:
    said = f"{number:,} more with the same files as another row: {call.command('list --all')}"
    return (said,) if number else ()


def _ways(checkpoints: Sequence[Checkpoint], call: Call, *, at: str | None, paths: Paths) -> Iterator[str]:
    """Yield what `@` means, if a row has it, and what to type to go back: to a row, past turns or runs."""
    if any(one.id == at for one in checkpoints):
        yield "@ is where you are, @~1 the one before"
    yield f"to go back to one: {call.command(_going_back(call, paths))}"
    worked = worked_by(checkpoints)
    if worked is not None:
        yield f"to before an agent's last N {worked}s: {call.command('rewind N')}"


def _way_back(workspace: OpenWorkspace, call: Call) -> Sequence[str]:
    """Return how the last restore is taken back, if nothing was saved since: a list has no row for it."""
    newest = workspace.list(limit=1, brief=True)
    if not newest or newest[0].kind != "guard":
        return ()
    last = next(iter(workspace.operations()), None)
    if last is None or last.type != "restore":
        return ()
    return (f"to take the last restore back: {call.command('undo')}",)


def _going_back(call: Call, paths: Paths) -> str:
    """Return what leads back to a row: of a path that was looked for, what brings it back."""
    known = {path for found in paths.values() for path in found}
    typed = [
        one for one in call.arguments if any(within(path, to_bytes(one.rstrip("/") or "/")) for path in known)
    ]
    return " ".join(("restore ID", *map(quoted, typed)))


def _meant(said: str, call: Call) -> str:
    """Return a line for a time, or for several of a kind: what to type for these."""
    from lastgood.view import time_meant

    kind = said.removesuffix("s")
    if said == "today" or time_meant(said) is not None:
        since = "24h" if said == "today" else said
        return f"\nmade since then: {call.command(f'list --since {quoted(since)}')}"
    return f"\nof that kind: {call.command(f'list --kind {kind}')}" if kind in KINDS else ""


def _nothing(call: Call, workspace: OpenWorkspace) -> str:
    narrowing = ("kind", "session", "since", "name", "good", "grep")
    words = [*call.arguments, *call.texts("grep")]
    if words:
        narrowed = any(call.has(one) for one in narrowing if one != "grep")
        which = "no checkpoint that fits the rest" if narrowed else "no checkpoint"
        said = " ".join(words)
        from lastgood.cli.references import ignored_hint, is_ignored, why_ignored
        from lastgood.cli.searching import SEARCHED

        if is_ignored(said, call, workspace):
            hint = ignored_hint(said, call, workspace)
            return f"no checkpoint holds '{printable(said)}'{why_ignored(call)}\n{hint}"
        return (
            f"{which} has '{printable(said)}'{_meant(said, call)}"
            f"\nsearched: {SEARCHED}"
            f"\nin files: {call.command(f'log -S {quoted(said)}')}"
            f"\nall of them: {call.command('list')}"
        )
    if any(call.has(option) for option in narrowing):
        return f"no checkpoint fits; all of them: {call.command('list')}"
    if not call.has("all"):
        try:
            workspace.get("latest")
        except NotFound as error:
            from lastgood.cli.hints import hint_lines

            return "\n".join(
                [printable(error.message), *(f"  {line}" for line in hint_lines(error.hint, call))]
            )
    return f"no checkpoints yet; make the first: {call.command('save')}"
