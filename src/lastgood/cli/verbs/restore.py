"""restore: bring back a checkpoint, whole or some paths."""

from __future__ import annotations

import os
import time

from lastgood.cli import opening
from lastgood.cli.opening import DECLINED, NO_ANSWER, OMISSIONS, ProgressLine, open_group
from lastgood.cli.phrases import SILENT, counted, in_our_words, refuse_counted, refuse_said
from lastgood.cli.plans import (
    at_work_lines,
    choosing_lines,
    chosen_later_lines,
    damage_lines,
    part_lines,
    plan_counts,
    plan_lines,
    progress_after,
    remarks,
    report_counts,
    shortened_plan,
    told_parts,
)
from lastgood.cli.references import are_alike, as_meant, holds, is_path, looked_up, refuse_paths_alone
from lastgood.cli.restoring import (
    again,
    agreed,
    check_options,
    kept_words,
    plan_of,
    restore,
    tell_steps,
    telling_what_is_left,
)
from lastgood.cli.typed_paths import as_typed, current, paths_of
from lastgood.cli.wording import (
    UNTITLED,
    ago,
    called,
    label,
    moment,
    paths_named,
    shortened,
    table,
    title,
)
from lastgood.errors import Conflict, Damaged, LastgoodError, NotFound, Usage, count
from lastgood.ids import short
from lastgood.model.tree import Counts
from lastgood.paths import printable, quoted, to_text
from lastgood.restore.plan import inverse
from lastgood.value import cast
from lastgood.workspace.restore import Restores

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.cli.picker import Picked
    from lastgood.literals import Direction, Scope
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Operation, Part, PartOutcome
    from lastgood.model.report import ChangedBeside, RewindExtent, UndoPlan, UndoReport
    from lastgood.model.session import Effect


_OFFERED = 15
# So many steps of a rewind are tried to find the one that leads to what was picked.
_STEPS = 20
# So many of what was made since a restore are named before it is taken back.
_SHOWN = 5
# So many of the files that a turn changed are named behind it.
_NAMED = 3
# So many of the paths that go beside it are named, of each checkpoint.
_PATHS = 20
# For these reasons nobody knows whether a change is not the agent's after all, which is said so.
_PERHAPS = frozenset(
    {"beside", "between-calls", "cut-short", "gone", "host-died", "partial", "restored", "unnamed"}
)
_OF_AGENT = ", perhaps the agent's"
# An undo that deletes more files than that is asked about, and one that deletes more than half of them.
_MUCH = 20
_INDENT = 5
# What goes with no paths.
_NO_PATHS = ("only", "git", "to")
# So much of what an operation was is shown before its id is.
_SAID = 48


def restore_verb(call: Call, console: Console) -> int:
    """Restore; a person may name a project that is gone, from the folder above it."""
    try:
        return _restore(call, console)
    except LastgoodError as error:
        gone = _gone_project(call, console, error)
        if gone is None:
            raise
    return _restore(gone, console)


def _gone_project(call: Call, console: Console, error: LastgoodError) -> Call | None:
    """Return a call for the workspace below here that a refused word names, None if there is none.

    What was said beside it is of that workspace; nothing more means where it stood.
    """
    above = current()
    if not above or not console.can_ask or call.has("yes") or call.has("directory"):
        return None
    given = (*call.arguments, *(call.paths or ()))
    loose = len(given) - call.literal
    for at, word in enumerate(given):
        place = os.path.normpath(os.path.join(above, word))
        if f"-C {quoted(place)} restore @" in error.hint:
            others = [(where >= loose, one) for where, one in enumerate(given) if where != at]
            said = [one for literal, one in others if not literal and one.lower() not in SILENT]
            paths = [one for literal, one in others if literal]
            said = said if said or paths else ["@"]
            return call.replace(
                arguments=tuple(said[:1]),
                paths=(*said[1:], *paths) or None,
                options={**call.options, "directory": (place,)},
                literal=len(paths),
            )
    return None


def _restore(call: Call, console: Console) -> int:
    """Restore; without a REF a person picks one."""
    ref = call.argument(0)
    if call.has("only-agent"):
        return _restore_agent(call, console)
    if ref is None and not call.paths and (not console.can_ask or call.has("plan")):
        raise Usage(
            "`restore` needs a REF",
            hint=f"to the last checkpoint: {call.command('restore @')}"
            f"\nsee what there is: {call.command('list')}",
        )
    check_options(call)
    with open_group(call, Restores, purpose="find") as workspace:
        console.left = "nothing was changed"
        shown, said = _is_shown(call, console), in_our_words(call, workspace)
        if shown and said is not call:
            _tell_taken(said, console)
        if shown and said.verb is not call.verb:
            return _rewind(said, console, workspace=workspace)
        if shown:
            meant = _guessed(said, console, workspace=workspace)
            if meant is None:
                return restore(None, call, console, workspace=workspace)
            call, ref = meant, meant.argument(0)
        else:
            _refuse_words(call, said, workspace)
        if ref is None:  # who picks is shown what would happen, whatever was said before
            options = {name: given for name, given in call.options.items() if name != "yes"}
            call = call.replace(options=options)
        picks = shown and console.can_draw and ref is not None and _may_pick(ref, call, workspace)
        if ref is not None and not picks:
            return restore(looked_up(ref, call, workspace), call, console, workspace=workspace)
        return _restore_picked(call, console, workspace=workspace, typed=ref)


def _guessed(said: Call, console: Console, *, workspace: Restores) -> Call | None:
    """Return what a person means, and whether that was guessed; None if they were asked, and left."""
    meant = as_meant(said, console, workspace=workspace)
    if meant is None or (meant.arguments, meant.paths) == (said.arguments, said.paths):
        return meant
    return meant.replace(guessed=True)


def _refuse_words(call: Call, said: Call, workspace: Restores) -> None:
    """Refuse words, and paths alone, where nobody is shown what they are taken for."""
    if not call.arguments and call.paths:
        refuse_paths_alone(call, workspace)
    elif said is not call:
        refuse_said(said, workspace)


def _tell_taken(said: Call, console: Console) -> None:
    """Say which command words are taken for: next time it can be typed."""
    paths, end = said.paths or (), len(said.paths or ()) - said.literal
    words = (*said.arguments, *paths[:end], *(("--", *paths[end:]) if said.literal else ()))
    git = ("--git",) if said.has("git") else ()
    console.note(f"taken as: {said.command(' '.join((said.verb.name, *git, *map(quoted, words))))}")


def _may_pick(ref: str, call: Call, workspace: Restores) -> bool:
    """Tell whether several checkpoints may be meant by a word, and what is beside it are paths."""
    paths = (call.paths or ())[: len(call.paths or ()) - call.literal]
    return all(is_path(one, call, workspace) for one in paths) and are_alike(ref, workspace)


def _is_shown(call: Call, console: Console) -> bool:
    """Tell whether a person is shown what would happen before it does."""
    return call.has("dry-run") or (console.can_ask and not call.has("yes"))


def _restore_picked(call: Call, console: Console, *, workspace: Restores, typed: str | None) -> int:
    """Restore what a person picks: a checkpoint, or of one the files that they looked for."""
    picked = _picked(call, console, workspace, typed=typed or "")
    if picked is None:
        return restore(None, call, console, workspace=workspace)
    # What is told to type names it, too; and who picks is asked before anything changes.
    call = call.replace(arguments=(picked.checkpoint.short_id,), guessed=True)
    above: tuple[str, ...] = ()
    if picked.paths:
        found = _to_restore(picked, call, workspace)
        call = call.replace(paths=tuple(as_typed(to_text(one), call, workspace) for one in found))
        whole = call.command(f"restore {picked.checkpoint.short_id}")
        above = (f"Only what you looked for: {paths_named(found)}", f"  for everything: {whole}")
    for line in above:
        console.note(line)
    return restore(picked.checkpoint, call, console, workspace=workspace, above=above)


def _to_restore(picked: Picked, call: Call, workspace: Restores) -> list[bytes]:
    """Return the paths that were picked but those that were deleted then, and are not there now either."""

    def is_somewhere(path: str) -> bool:
        return os.path.lexists(f"{workspace.path}/{path}") or holds(picked.checkpoint.id, path, workspace)

    found = [one for one in picked.paths if is_somewhere(to_text(one))]
    if not found:
        raise NotFound(
            f"{paths_named(picked.paths)} was deleted at {called(picked.checkpoint)}, and is not there now",
            hint="as it was before: "
            + call.command(f"restore {quoted(as_typed(to_text(picked.paths[0]), call, workspace))}"),
        )
    return found


def _restore_agent(call: Call, console: Console) -> int:
    """Take back what an agent changed, and keep the rest."""
    check_options(call)
    with open_group(call, Restores, purpose="find") as workspace:
        console.left = "nothing was changed"
        plan = plan_of(None, call, workspace)
        return restore(workspace.get(plan.target), call, console, workspace=workspace)


def _picked(
    call: Call,
    console: Console,
    workspace: Restores,
    *,
    typed: str = "",
    ways: Mapping[str, RewindExtent] = {},
) -> Picked | None:
    """Return what a person picks, of what was typed, None if they leave.

    A restore without paths is limited to files that they looked for. ``ways`` are the rewinds by the
    checkpoints that they lead to: the cursor begins at the first of these.
    """
    from lastgood.cli.picker import Picked, Rewind, pick

    if not workspace.list(limit=1, brief=True):
        workspace.get("latest")  # which says why there is none
    if not console.can_draw:
        numbered = _numbered(console, workspace)
        return None if numbered is None else Picked(checkpoint=numbered)
    rewinds, is_limited = (
        call.verb.name == "rewind",
        bool(call.paths) or any(call.has(one) for one in _NO_PATHS),
    )
    console.flush()
    picked = pick(
        lambda wanted: workspace.list(limit=wanted, brief=True),
        workspace.changed_paths,
        holds=lambda ref, path: holds(ref, to_text(path), workspace),
        question=_question(call, ways) if rewinds else "Restore:",
        of_files=None if rewinds or is_limited else "Restore only files with:",
        colour=console.colour,
        at=workspace.stands_at(),
        typed=typed,
        # Of an agent's changes alone those of all turns or runs since are taken back.
        rewinds={
            id: Rewind()
            if call.has("only-agent")
            else Rewind(takes=_takes(one), past=_oldest_past(one) or "")
            for id, one in ways.items()
        },
    )
    return None if picked is None else picked.replace(checkpoint=workspace.get(picked.checkpoint.id))


def _question(call: Call, ways: Mapping[str, RewindExtent]) -> str:
    """Return what a rewind asks: where its rows say what they are before, that says what goes."""
    are_named = not call.has("only-agent") and any(map(_oldest_past, ways.values()))
    return "Go back to:" if are_named else "Go back to (this row stays, later ones go):"


def _numbered(console: Console, workspace: Restores) -> Checkpoint | None:
    """Have a person pick on a terminal that cannot be drawn upon."""
    from lastgood.cli.folding import folded
    from lastgood.cli.verbs.list import lines

    found = [one for one in workspace.list(limit=_OFFERED * 4, brief=True) if one.kind != "guard" or one.name]
    standing, at = folded(found), workspace.stands_at()
    offered = [one for one in found if one.id not in standing][:_OFFERED]
    header, *rows = lines(offered, console, at=standing.get(at or "", at), indent=_INDENT)
    console.warn(f"{'':{_INDENT}}{header}")
    for number, row in enumerate(rows, 1):
        console.warn(f"{number:{_INDENT - 2}}  {row}")
    numbers = "1" if len(offered) == 1 else f"1-{len(offered)}"
    answer = console.ask(f"Which one? [{numbers}/REF/N] ")
    if answer.lower() in NO_ANSWER:
        return None
    if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(offered):
        return workspace.get(offered[int(answer) - 1].id)
    return workspace.get(answer)


# --- rewind: go back to before the Nth last turn ---

_SETTLED = ("yes", "plan", "dry-run", "quiet")


def rewind_verb(call: Call, console: Console) -> int:
    """Rewind; one to a checkpoint, or to a time, is a restore."""
    check_options(call)
    with open_group(call, Restores, purpose="find") as workspace:
        console.left = "nothing was changed"
        said = counted(call, workspace)
        if said is not call and not _is_shown(call, console):
            refuse_counted(said)
        if said is not call:
            _tell_taken(said, console)
        if said.verb is call.verb:
            return _rewind(said, console, workspace=workspace)
    return restore_verb(said, console)


def _rewind(call: Call, console: Console, *, workspace: Restores) -> int:
    """Find the checkpoint N back, and restore it; without N a person who is asked anyway picks one."""
    text = call.argument(0)
    steps = 1 if text is None else opening.number(text, what="N")
    picks = text is None and console.can_ask and not any(call.has(option) for option in _SETTLED)
    extent = None if picks else workspace.preview_rewind(steps, only=_only(call))
    target = None if extent is None else extent.target
    if picks:  # where nothing before differs, there is still what to pick from
        extents = workspace.preview_rewinds(_STEPS, only=_only(call))
        ways = {one.target.id: one for one in extents}
        picked = _picked(call, console, workspace, ways=ways)
        target = None if picked is None else picked.checkpoint
        extent = None if target is None else _extent_to(target, extents, call, workspace=workspace)
    if target is None or extent is None:
        return restore(target, call, console, workspace=workspace)
    call = call.replace(
        arguments=(str(extent.steps),), guessed=call.guessed or picks, past=_oldest_past(extent)
    )
    beside, unknown = _changed_beside(extent, call, workspace=workspace)
    above = _extent_lines(extent, call, console, beside=beside, workspace=workspace)
    for line in (*above, *unknown):
        console.note(line)
    return restore(
        extent.target,
        call,
        console,
        workspace=workspace,
        above=(*above, *unknown),
        turns=extent.steps,
        beside=None if unknown else beside,
    )


def _oldest_past(extent: RewindExtent) -> str | None:
    """Return the oldest turn or run that a rewind goes past, in its words; None where it counts states."""
    back = extent.turns or extent.runs
    if back:
        return _did(back[-1])
    return _asked(extent.under_way[-1]) if extent.under_way else None


def _takes(extent: RewindExtent) -> str:
    """Return how much a rewind takes back, as its plan counts it."""
    said = len(extent.under_way) + len(extent.turns or extent.runs)
    noun = ("run" if extent.runs else "turn") if said else "later change"
    number = said or extent.steps
    return f"{count(number, noun)} {'goes' if number == 1 else 'go'}"


def _extent_to(
    target: Checkpoint, extents: Sequence[RewindExtent], call: Call, *, workspace: Restores
) -> RewindExtent | None:
    """Return the rewind that leads to a checkpoint, None if none of the first few does.

    Of an agent's changes alone those of all turns or runs that began since are taken back.
    """
    if not call.has("only-agent"):
        return next((one for one in extents if one.target.id == target.id), None)
    looked = _STEPS
    while len(extents) == looked and extents[-1].target.sequence > target.sequence:
        looked *= 4
        extents = workspace.preview_rewinds(looked)
    since = [one for one in extents if one.target.sequence >= target.sequence]
    if not since:
        raise Usage(
            f"no turn and no run began since {called(target)}",
            hint=f"what an agent changed since then all the same: "
            f"{call.command(f'restore {target.short_id} --only-agent')}",
        )
    return since[-1]


def _changed_beside(
    extent: RewindExtent, call: Call, *, workspace: Restores
) -> tuple[Sequence[ChangedBeside], Sequence[str]]:
    """Return what goes with a rewind although no turn or run of it changed it; else why that is not known."""
    if call.has("only-agent") or not _takes_files(call):
        return (), ()
    merge, paths = call.has("merge"), paths_of(call, workspace)
    try:
        return workspace.changed_beside(extent, paths=paths, merge=merge, base=call.text("base")), ()
    except Damaged as error:  # what is to come back may be whole
        return (), [f"What else was changed, and goes too, cannot be told: {printable(error.message)}"]


def _extent_lines(
    extent: RewindExtent,
    call: Call,
    console: Console,
    *,
    beside: Sequence[ChangedBeside],
    workspace: Restores,
) -> list[str]:
    """Return which turns or runs a rewind takes back, and what else goes (rule T15)."""
    now, back = time.time_ns(), extent.turns or extent.runs
    said = [f"{_asked(one)} (not ended), {ago(one.started_at, now=now)}" for one in extent.under_way]
    shown = _is_shown(call, console)
    for one in back:
        told = f"{_did(one)}, {ago(one.manifest.created_at, now=now)}"
        is_looked_at = shown and len(said) < _SHOWN
        said.append(told + (_changed_in(one, extent, workspace) if is_looked_at else ""))
    lines = []
    if said:
        noun = "run" if extent.runs else "turn"
        past = noun if len(said) == 1 else count(len(said), noun)
        idle = f" ({len(extent.idle)} of them changed no file)" if extent.idle and len(said) > 1 else ""
        lines = [f"Back to before the last {past}{idle}:", *_few([f"  {one}" for one in said])]
        if shown and _goes_on(extent, call, workspace):
            more = again(call.replace(arguments=(str(extent.steps + 1),)))
            lines.append(f"  to take one {noun} more back: {more}")
        lines += _talk_lines(extent, call)
    if call.has("only-agent") or not _takes_files(call):
        return lines
    if extent.runs or (said and beside):  # who is told of some edits takes them for all
        it = "it" if len(said) == 1 else "they" if extent.runs else "them"
        within = f"while {it} ran" if extent.runs else f"within {it}"
        lines.append(f"Edits by hand {within} are not told from the agent's, and go too.")
    if beside:
        states = f"Back by {count(extent.steps, 'saved state')}:"
        lines.append("Changed beside that, and goes too:" if said else states)
        lines += _few(_beside_lines(beside, extent, call, workspace=workspace, now=now))
    if said and beside:
        lines += _keeping_lines(extent, beside, call, workspace=workspace)
    return lines


def _changed_in(turn: Checkpoint, extent: RewindExtent, workspace: Restores) -> str:
    """Return what a turn changed, as it is told behind it; nothing where that is not known."""
    from lastgood.rewind import BEGAN  # lazily: most restores are no rewind

    began = turn.manifest.metadata.get(BEGAN)
    if turn in extent.idle:
        return ": no file changed"
    if not isinstance(began, str):
        return ""
    try:
        files = workspace.diff(began, turn.id, patch=False).files
    except LastgoodError:
        return ""
    paths = [printable(to_text(one.path)) for one in files]
    more = f" and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else ""
    return f": {', '.join(paths[:_NAMED])}{more}" if paths else ""


def _goes_on(extent: RewindExtent, call: Call, workspace: Restores) -> bool:
    """Tell whether there is another turn or run to take back."""
    try:
        workspace.preview_rewind(extent.steps + 1, only=_only(call))
    except NotFound:
        return False
    return True


def _talk_lines(extent: RewindExtent, call: Call) -> list[str]:
    """Return that a conversation is not cut where a rewind leads to a checkpoint that holds none of it."""
    only = _only(call) or (("files",) if call.paths else ("conversation",))
    told = any(one.manifest.conversation is not None for one in extent.turns)
    if not told or extent.target.manifest.conversation is not None or "conversation" not in only:
        return []
    holds = f"{extent.target.short_id} holds no conversation"
    return [f"{holds}: the agent's stays, and knows what is taken back. Begin a new one with it."]


def _only(call: Call) -> tuple[Scope, ...] | None:
    return cast("tuple[Scope, ...]", call.texts("only")) or None


def _takes_files(call: Call) -> bool:
    """Tell whether files of the workspace change at all."""
    only = call.texts("only")
    return not call.has("to") and (not only or "files" in only)


def _beside_lines(
    beside: Sequence[ChangedBeside], extent: RewindExtent, call: Call, *, workspace: Restores, now: int
) -> list[str]:
    """Return what was changed beside the turns or runs and goes too, by checkpoint."""
    found: dict[tuple[str | None, bool], tuple[ChangedBeside, list[str]]] = {}
    for one in beside:
        key = None if one.checkpoint is None else one.checkpoint.id, one.why in _PERHAPS
        found.setdefault(key, (one, []))[1].append(printable(as_typed(to_text(one.path), call, workspace)))
    return [
        f"  {_where(one, extent, now=now)}{_OF_AGENT if perhaps else ''}: {_named_paths(paths)}"
        for (_save, perhaps), (one, paths) in found.items()
    ]


def _where(one: ChangedBeside, extent: RewindExtent, *, now: int) -> str:
    if one.checkpoint is None:
        return "not saved yet"
    return f"{_found_by(one.checkpoint, extent)}, {ago(one.checkpoint.manifest.created_at, now=now)}"


def _named_paths(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _PATHS:,} more (all of them: --json)" if len(paths) > _PATHS else ""
    return ", ".join(paths[:_PATHS]) + more


def _keeping_lines(
    extent: RewindExtent, beside: Sequence[ChangedBeside], call: Call, *, workspace: Restores
) -> list[str]:
    """Return how to keep what was changed beside: by whose the changes are.

    Where that is not known, as of a run that was killed, its paths are named, to be had back afterwards.
    """
    if _tells_of_agents(extent, beside, workspace):
        return [f"  to keep it: {call.command(f'rewind {extent.steps} --only-agent')}"]
    saves = extent.saves
    paths = _own_paths(extent, saves, workspace=workspace) if saves else []
    if not paths:
        return []
    typed = " ".join(quoted(as_typed(to_text(one), call, workspace)) for one in paths[:_SHOWN])
    more = f" (and {len(paths) - _SHOWN:,} more paths)" if len(paths) > _SHOWN else ""
    return [f"  to have it back then{more}: {call.command(f'restore {saves[0].short_id} -- {typed}')}"]


def _tells_of_agents(extent: RewindExtent, beside: Sequence[ChangedBeside], workspace: Restores) -> bool:
    """Tell whether something says what agents changed in the turns or runs of a rewind."""
    from lastgood.attribution import WORKERS  # lazily: most restores are no rewind

    if extent.under_way and not any(one.checkpoint is None and one.why in _PERHAPS for one in beside):
        return True
    sessions = {one.session for one in (*extent.turns, *extent.runs)} - {None}
    return any(
        one.actor.type in WORKERS
        and one.sequence > extent.target.sequence
        and one.manifest.changes != Counts()
        for session in sessions
        for one in workspace.list(session=session, brief=True)
    )


def _own_paths(extent: RewindExtent, saves: Sequence[Checkpoint], *, workspace: Restores) -> list[bytes]:
    """Return the paths that the newest of some saves holds, and that nothing but saves changed."""
    line = [one for one in workspace.list(brief=True) if one.sequence > extent.target.sequence]
    own, others = set[bytes](), set[bytes]()
    mine = {one.id for one in saves}
    for id, paths in workspace.changed_paths([one for one in line if one.kind != "guard"]).items():
        (own if id in mine else others).update(paths)
    gone = {
        one.path
        for one in workspace.diff(extent.target.id, saves[0].id, patch=False).files
        if one.status == "deleted"
    }
    return sorted(own - others - gone)


def _did(one: Checkpoint) -> str:
    """Return what a turn or a run was about."""
    return _command(one) if one.kind == "session-start" else shortened(title(one), _SAID)


def _asked(turn: Effect) -> str:
    """Return what a turn that is under way is about."""
    return shortened(printable(turn.name.partition("\n")[0]), _SAID)


def _command(start: Checkpoint) -> str:
    """Return what a run was of whose start a checkpoint is."""
    return shortened(title(start).removeprefix("before: "), _SAID)


def _found_by(save: Checkpoint, extent: RewindExtent) -> str:
    if save in extent.runs or (extent.turns and title(save).startswith("before: ")):
        return f"{save.short_id} (what was changed before: {_command(save)})"
    return called(save)


def _few(lines: Sequence[str]) -> list[str]:
    more = [f"  and {len(lines) - _SHOWN:,} more"] if len(lines) > _SHOWN else []
    return [*lines[:_SHOWN], *more]


# --- undo, redo: take back the last restore, delete or prune, or do it again ---


def undo_verb(call: Call, console: Console) -> int:
    """Undo or redo, or list what can be."""
    verb = call.verb.name
    with open_group(call, Restores, purpose="find") as workspace:
        if call.has("list"):
            return _list(call, console, workspace=workspace)
        if call.has("dry-run"):
            return _undo_planned(call, console, workspace=workspace)
        carried_out = _carried_out(call, console, workspace=workspace)
        if carried_out is None:
            return DECLINED
        report, is_shown = carried_out
        done = report.operation
        original = next((one for one in workspace.operations() if one.id == done.of), done)
        running = () if is_shown else _running_lines(original, workspace)
    if not console.answer(verb, report):
        _tell(report, original, call, console, root=workspace.path, running=running)
    return 0 if report.complete else OMISSIONS


def _carried_out(call: Call, console: Console, *, workspace: Restores) -> tuple[UndoReport, bool] | None:
    """Undo or redo, after asking a person where there is reason to; None if they decline.

    With it comes whether they saw beforehand what it does.
    """
    meant = _asked_about(call, console, workspace=workspace)
    # Whoever said yes meant that one, and what they saw, whatever was done while they thought.
    of, plan = None if meant is None else meant.id, call.text("plan")
    reasons = None if meant is None else _reasons(meant, call, workspace=workspace)
    try:
        if meant is not None and reasons is not None:
            console.left = "nothing was changed"
            # What refuses it is told before a question.
            planned = _plan(call, console, workspace=workspace, of=of)
            _tell_meant(meant, planned, call, console, workspace=workspace)
            for line in reasons:
                console.warn(line)
            if not agreed("Go ahead?", console):
                return None
            plan = planned.plan
        return _done(call, console, workspace=workspace, of=of, plan=plan), reasons is not None
    except NotFound:
        if not workspace.operations():
            workspace.get("latest")  # which says why there is none
        raise
    except Conflict as error:
        if meant is None or call.has("merge") or not {"paths", "transcript"} & error.details.keys():
            raise
        refused = error
    merged = _merged(refused, meant, call, console, workspace=workspace, reasons=reasons or ())
    return None if merged is None else (merged, True)


def _merged(
    refused: Conflict,
    meant: Operation,
    call: Call,
    console: Console,
    *,
    workspace: Restores,
    reasons: Sequence[str],
) -> UndoReport | None:
    """Ask a person whether all is done but what changed since; None if they decline."""
    console.left = "nothing was changed"
    merging = call.replace(options={"merge": ()})
    planned = _plan(merging, console, workspace=workspace, of=meant.id)
    console.warn(_meant(meant, call, workspace=workspace))
    for line in reasons:
        console.warn(line)
    # Its end says what came of asking: nothing, which the answer to the question may change.
    reason = refused.message.partition(", so nothing was ")[0]
    console.warn(f"{reason}. What can be done without losing that:")
    for line in (
        *_undo_lines(planned, call),
        *chosen_later_lines(planned.planned),
        *at_work_lines(workspace.at_work()),
    ):
        console.warn(line)
    console.warn(_kept(call))
    if not agreed("Go ahead?", console):
        console.warn(refused.hint)
        return None
    return _done(merging, console, workspace=workspace, of=meant.id, plan=planned.plan)


def _plan(call: Call, console: Console, *, workspace: Restores, of: str | None = None) -> UndoPlan:
    """Return what an undo, or a redo, would do."""
    look = workspace.plan_undo if call.verb.name == "undo" else workspace.plan_redo
    with ProgressLine(console, "planning"):
        return look(force=call.has("force"), merge=call.has("merge"), of=of)


def _done(
    call: Call, console: Console, *, workspace: Restores, of: str | None, plan: str | None
) -> UndoReport:
    """Undo, or redo."""
    act = workspace.undo if call.verb.name == "undo" else workspace.redo
    with telling_what_is_left(console, workspace), ProgressLine(console, call.verb.name):
        return act(force=call.has("force"), merge=call.has("merge"), of=of, plan=plan)


def _tell_meant(
    meant: Operation, planned: UndoPlan, call: Call, console: Console, *, workspace: Restores
) -> None:
    """Show what an undo, or a redo, would do."""
    console.warn(_meant(meant, call, workspace=workspace))
    tell_steps(shortened_plan(planned.planned, room=console.columns(2)), console)
    for line in _part_lines(planned.parts, planned.planned.parts):
        console.warn(line)
    for line in at_work_lines(workspace.at_work()):
        console.warn(line)
    if not call.has("force"):  # the other way does not bring what changed since
        console.warn(_kept(call))


def _undo_lines(planned: UndoPlan, call: Call) -> list[str]:
    steps = plan_lines(planned.planned, then=_then(planned.operation, call))
    return [*steps, *_part_lines(planned.parts, planned.planned.parts)]


def _part_lines(outcomes: Iterable[PartOutcome], parts: Sequence[Part]) -> list[str]:
    """Return what becomes, or became, of each part beside files."""
    then = progress_after(parts)
    return [line for part in told_parts(outcomes, parts) for line in part_lines(part, then)]


def _running_lines(operation: Operation, workspace: Restores) -> Sequence[str]:
    """Return which programs are at work here still, of a restore: all else changes no file."""
    return at_work_lines(workspace.at_work()) if operation.type == "restore" else ()


def _kept(call: Call) -> str:
    other = "redo" if call.verb.name == "undo" else "undo"
    return kept_words(call.command(other))


def _undo_planned(call: Call, console: Console, *, workspace: Restores) -> int:
    """Show what an undo, or a redo, would do."""
    undoing = call.verb.name == "undo"
    plan = _plan(call, console, workspace=workspace)
    if console.json:
        from lastgood.documents import undo_planned_document

        console.document(undo_planned_document(plan))
        return 0
    what = plan_counts(plan.planned, plan.parts)
    if plan.checkpoints:
        what = f"{count(len(plan.checkpoints), 'checkpoint')} {'to bring back' if undoing else 'to delete'}"
    does = "take back" if undoing else "do again"
    done = f"{moment(plan.operation.at)}, done {ago(plan.operation.at, now=time.time_ns())}"
    console.sentence(f"would {does} the {_named(plan.operation)} of {done}: {what}")
    console.sentences((*_undo_lines(plan, call), *_running_lines(plan.operation, workspace)))
    console.line(f"plan {plan.plan}")
    if not console.quiet:
        console.sentence(f"Nothing changed. To do it: {again(call, f'--plan {plan.plan}')}")
    return 0


def _asked_about(call: Call, console: Console, *, workspace: Restores) -> Operation | None:
    """Return the restore whose undo, or redo, a person may be asked about; None where nobody is asked."""
    if not console.can_ask or any(call.has(one) for one in ("yes", "plan", "quiet")):
        return None
    can: Direction = "undo" if call.verb.name == "undo" else "redo"
    operation = next(iter(workspace.operations(can=can)), None)
    return operation if operation is not None and operation.type == "restore" else None


def _reasons(operation: Operation, call: Call, *, workspace: Restores) -> list[str] | None:
    """Return why a person is asked before a restore is taken back, or done again; None if they are not.

    For one they are where checkpoints were made since, by force, or where an undo came last (rule T8).
    """
    undoing = call.verb.name == "undo"
    done = workspace.operations()
    since = operation.at if undoing else max((one.at for one in done if one.of == operation.id), default=0)
    later = workspace.list(since=since, guards=False, brief=True)
    made = [one for one in later if one.whole]
    goes_on = undoing and done[0].type == "undo" and done[0].of != operation.id
    steps = inverse(operation.steps) if undoing else operation.steps
    going = sum(one.action == "delete" for one in steps)
    much = going > _MUCH or (going > 0 and going * 2 > _files(workspace))
    if not made and not goes_on and not much and not call.has("force"):
        return None
    lines = []
    if goes_on:
        lines.append(f"The last one was taken back already; to have that again: {call.command('redo')}")
    lines += _made_lines(made, now=time.time_ns())
    if much:
        lines.append(f"It deletes {count(going, 'file')}.")
    if call.has("force"):
        lines.append("What changed since goes too, where it is in the way; it is saved first.")
    return lines


def _meant(operation: Operation, call: Call, *, workspace: Restores) -> str:
    """Return the sentences that say of what an undo, or a redo, is."""
    does = "takes back" if call.verb.name == "undo" else "does again"
    titles = {one.id: called(one) for one in workspace.list(brief=True)}
    age = ago(operation.at, now=time.time_ns())
    told = f"This {does} the {_named(operation, titles)} of {moment(operation.at)}, done {age}."
    return f"{told}\nFiles that it did not touch stay as they are, edited since or not."


def _then(operation: Operation, call: Call) -> str:
    """Return which version an undo, or a redo, puts beside what changed since."""
    return f"as it was {'before' if call.verb.name == 'undo' else 'after'} the {operation.type}"


def _files(workspace: Restores) -> int:
    """Return how many files the workspace has, as far as the checkpoint tells at which it stands."""
    at = workspace.stands_at()
    return 0 if at is None else workspace.get(at).manifest.files


def _made_lines(made: Sequence[Checkpoint], *, now: int) -> list[str]:
    """Return what was saved since a restore."""
    if not made:
        return []
    named = [f"  {called(one)}, {ago(one.manifest.created_at, now=now)}" for one in made]
    return [f"Made since: {count(len(made), 'checkpoint')}.", *_few(named)]


def _tell(
    report: UndoReport,
    operation: Operation,
    call: Call,
    console: Console,
    *,
    root: str,
    running: Sequence[str],
) -> None:
    undoing = call.verb.name == "undo"
    effective = operation.undone is undoing
    done = ("took back" if undoing else "did again") if effective else f"nothing was {call.verb.name}ne of"
    if operation.checkpoints:
        what = count(len(operation.checkpoints), "checkpoint")
        result = f"{what} {'back' if undoing else 'deleted'}"
    else:
        told = told_parts(report.parts, report.operation.parts)
        result = report_counts(report.outcomes if effective else report.omissions, beside=told)
    console.sentence(f"{done} the {_named(operation)} of {moment(operation.at)}: {result}")
    said = remarks(report.outcomes, then=_then(operation, call), root=root)
    for line in (*said, *_part_lines(report.parts, report.operation.parts)):
        console.warn(line)
    left = (*choosing_lines(report.outcomes, report.parts), *damage_lines(report.outcomes, call))
    for line in (*left, *(running if effective else ())):
        console.warn(line)
    if effective:
        console.sentence(f"the other way: {call.command('redo' if undoing else 'undo')}")
        if call.has("force") and report.guard is not None:  # which the other way does not bring
            guard = short(report.guard)
            console.sentence(f"what was there is in {guard}: {call.command(f'restore {guard}')}")
    elif report.omissions and not call.has("force"):
        verb = call.verb.name
        console.sentence(
            f"to {verb} all the same (the present state is saved first): {call.command(f'{verb} --force')}"
        )


def _list(call: Call, console: Console, *, workspace: Restores) -> int:
    can: Direction = "undo" if call.verb.name == "undo" else "redo"
    shown = workspace.operations(can=can)
    if console.json:
        from lastgood.documents import operations_document

        console.document(operations_document(can, shown))
        return 0
    # What was deleted for good says so itself (`prune --now`), and a new restore ends the line of redo.
    lost = can == "undo" and any(
        one.type == "restore" and not one.undone and one not in shown for one in workspace.operations()
    )
    if not shown:
        console.note(f"nothing to {can}")
    if lost:
        console.note("restores of before that cannot be undone any more: what they replaced was freed")
    if not shown:
        return 0
    titles = {one.id: _told(one) for one in workspace.list(brief=True)}
    rows = [("When", "What", "Changed", "Operation")]
    oldest = min(one.at for one in shown)
    for one in shown:
        when = console.moment(one.at, oldest=oldest)
        rows.append((when, _named(one, titles), _changed(one), one.id))
    # No verb takes an operation's id, and a part of one is none.
    paint = console.painter({3: "dim"})
    limit = console.columns()
    console.lines(table(rows, flexible=(1,), limit=limit, expendable=(3, 2), room=_SAID, paint=paint))
    return 0


def _told(checkpoint: Checkpoint) -> str:
    """Return what a list calls a checkpoint: by its title, which says more than an id does."""
    text = label(checkpoint)
    return checkpoint.short_id if text == UNTITLED else f"'{text}'"


def _changed(operation: Operation) -> str:
    """Return in short what became of the paths of a restore, or what it changed beside them."""
    actions = [one.action for one in operation.steps]
    written, deleted = actions.count("write"), actions.count("delete")
    words = [f"{written:,} written" if written else "", f"{deleted:,} deleted" if deleted else ""]
    beside = dict.fromkeys(one.scope for one in operation.parts)
    return ", ".join(word for word in words if word) or ", ".join(beside) or "-"


def _named(operation: Operation, titles: Mapping[str, str] = {}) -> str:
    """Return what an operation did, and to which checkpoint it led, by its title where that is known."""
    if operation.checkpoints:
        return f"{operation.type} of {count(len(operation.checkpoints), 'checkpoint')}"
    if operation.target is not None and operation.target.startswith("ckpt_"):
        from lastgood.undo import restore_words  # lazily: a restore does without

        return restore_words(operation, source=titles.get(operation.target, short(operation.target)))
    return operation.type
