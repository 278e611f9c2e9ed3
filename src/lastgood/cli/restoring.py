"""The way of a restore on the command line: plan, show, ask, carry out, tell the way back."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager

from lastgood.cli.opening import DECLINED, OMISSIONS, ProgressLine
from lastgood.cli.plans import (
    at_work_lines,
    beside_lines,
    choosing_lines,
    chosen_later_lines,
    damage_lines,
    done_words,
    git_choices,
    git_offer,
    lacks_transcript,
    not_held_lines,
    part_lines,
    plan_counts,
    plan_lines,
    remarks,
    report_counts,
    resume_lines,
    shortened_plan,
    spared_lines,
    step_line,
    told_parts,
    unwritten_lines,
)
from lastgood.cli.references import holder_of, is_ignored, is_path, so_many_back, versions_of, why_ignored
from lastgood.cli.typed_paths import current, path_of, paths_of, same_name
from lastgood.cli.wording import UNTITLED, called, label, shortened, words_named
from lastgood.errors import Conflict, Damaged, LastgoodError, NotFound, Unsafe, Usage, count
from lastgood.ids import short
from lastgood.paths import lies_in, printable, quoted, to_text
from lastgood.restore.plan import NOT_TAKEN, SPARED, takes_many_away
from lastgood.value import Value, cast
from lastgood.view import time_meant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypedDict

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.literals import Favour, Scope
    from lastgood.model.checkpoint import Checkpoint, Ref
    from lastgood.model.operation import RestorePlan, Step
    from lastgood.model.report import ChangedBeside, DiffReport, RestoreReport
    from lastgood.workspace.arguments import PathLike
    from lastgood.workspace.restore import Restores

    class RestoreOptions(TypedDict, total=False):
        """What may be said about a restore beside its target."""

        paths: Sequence[PathLike]
        only: Sequence[Scope] | None
        git: bool
        merge: bool
        base: Ref | None
        conflict: Favour | None
        discard: bool
        force: bool


# --- Whether to go on: a person's yes, ``--yes``, or the id of the plan that was looked at (T1, T16) ---

_SHOWN_LOGS = 3
# So many of the last versions of a path are compared with what is there.
_LOOKED_AT = 8
# So much of what a checkpoint is called is shown where more is said of it.
_SAID = 48
# What is said of times, for which there is no REF.
_DAYS = frozenset(
    {"evening", "midnight", "morning", "night", "noon", "today", "tonight", "week"}
    | {"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
)
# Of a plan at least so many paths are shown, and room is left for what is asked.
_SHOWN_LEAST = 5
_ASKING = 6
# How a file changed, as it is counted.
_WAYS = {"mode": "of another mode", "kind": "of another kind"}
_STYLES = {"delete": "red", "rmdir": "red", "create": "green"}
_MEANS = frozenset({"yes", "plan", "dry-run"})


def demand_means(call: Call, console: Console) -> None:
    """Refuse a restore that nobody could consent to, before the workspace is read."""
    if call.has("yes") or call.has("plan") or console.can_ask:
        return
    raise Usage(
        f"without a terminal `{call.verb.name}` needs --yes or --plan ID",
        hint=_yes_too_late(call) or f"look first, and get the plan's id: {again(call, '--dry-run')}",
    )


def _yes_too_late(call: Call) -> str | None:
    """Return what is said where ``--yes`` came after ``--``, as when it is added to a command of ours."""
    paths = call.paths or ()
    others = tuple(one for one in paths if one != "--yes")
    if "--yes" not in paths or not others:
        return None
    meant = again(call.replace(paths=others), "--yes")
    return f"after `--` every word is a path; with --yes before it: {meant}"


class Agreed(Value):
    """That a plan is to be carried out: what a person was ``told`` beside it, and whether with ``git``."""

    told: Sequence[str] = ()
    git: bool = False


def consented(
    preview: RestoreReport,
    call: Call,
    console: Console,
    *,
    workspace: Restores,
    target: Checkpoint,
    above: Sequence[str],
) -> Agreed | None:
    """Return to what a person, or the command line, agreed; None if they did not.

    Raises where the answer cannot be had.
    """
    plan = preview.planned
    wanted = call.text("plan")
    if wanted is not None:
        if wanted != plan.id:
            raise _other_plan(plan, wanted, call)
        return Agreed()
    large = takes_many_away(plan, target)
    if call.has("yes") and not large:
        return Agreed()
    if not console.can_ask:
        raise Unsafe(
            f"this would delete {count(plan.deletions, 'file')}; --yes is not enough for that",
            hint=f"if that is what you want, say so with: {again(call, f'--plan {plan.id}', to=target)}",
            details={"plan": plan.id, "deletions": plan.deletions},
        )
    _show(preview, target, call, console, workspace=workspace, above=above)
    if large:
        console.warn(f"This deletes {count(plan.deletions, 'file')}, a large part of the workspace.")
    told = [
        *beside_lines(preview, target, call, root=workspace.path, asks=True),
        *at_work_lines(workspace.at_work()),
    ]
    if large or git_offer(preview, target) is None:
        return Agreed(told=told) if agreed("Go ahead?", console) else None
    for line in git_choices(preview, target):
        console.warn(line)
    answer = console.ask("Go ahead? [y/g/N] ").lower()
    if answer in {"y", "yes", "g", "git"}:
        return Agreed(told=() if answer[0] == "g" else told, git=answer[0] == "g")
    console.warn("nothing was changed")
    return None


def _other_plan(plan: RestorePlan, wanted: str, call: Call) -> Conflict:
    """Return the refusal of a plan that is another one than was looked at (rule T1)."""
    return Conflict(
        f"the plan is now {plan.id}, not {printable(wanted)}: something has changed since",
        hint=f"look again: {again(call, '--dry-run')}",
        details={"planned": wanted, "plan": plan.id},
    )


def _with_git(asked: RestorePlan, plan: RestorePlan, call: Call) -> RestorePlan:
    """Return a plan that puts git back too, and does nothing else that nobody was asked about."""
    beside = tuple(one for one in plan.parts if one.scope != "git")
    if (plan.steps, beside) != (asked.steps, asked.parts):
        raise _other_plan(plan, asked.id, call)
    return plan


def many_agreed(plan: RestorePlan, call: Call, console: Console) -> bool:
    """Ask about a plan that deletes a large part of the workspace, whatever was said before (rule T16)."""
    if call.text("plan") == plan.id:
        return True
    if not console.can_ask:
        raise Unsafe(
            f"this would delete {count(plan.deletions, 'file')}, a large part of the workspace",
            hint=f"if that is what you want, say so with: {again(call, f'--plan {plan.id}')}",
            details={"plan": plan.id, "deletions": plan.deletions},
        )
    tell_steps(shortened_plan(plan, room=console.columns(2)), console)
    console.warn(f"This deletes {count(plan.deletions, 'file')}, a large part of the workspace.")
    return agreed("Go ahead?", console)


def agreed(question: str, console: Console) -> bool:
    """Ask a person; anything but a plain yes means no."""
    if console.ask(f"{question} [y/N] ").lower() in {"y", "yes"}:
        return True
    console.warn("nothing was changed")
    return False


def again(call: Call, means: str = "", *, to: Checkpoint | None = None) -> str:
    """Return the same command with another means of consent, or none, to be typed next.

    A rewind that leads ``to`` a checkpoint names that: once another turn has come, or it was carried out, so
    many turns lead elsewhere.
    """
    words = [call.verb.name, *(quoted(one) for one in call.arguments)]
    if to is not None and call.verb.name == "rewind" and not call.has("only-agent"):
        words = ["restore", to.short_id]
    for option in call.verb.options:
        if call.has(option.name) and option.name not in _MEANS:
            values = call.texts(option.name)
            words += [f"--{option.name} {quoted(one)}" for one in values] or [f"--{option.name}"]
    words += [means] if means else []
    if call.paths:
        words += ["--", *(quoted(one) for one in call.paths)]
    return call.command(" ".join(words))


def _show(
    preview: RestoreReport,
    target: Checkpoint,
    call: Call,
    console: Console,
    *,
    workspace: Restores,
    above: Sequence[str],
) -> None:
    """Show what will be: first what a person changed, then what comes beside files (rules T1, P6)."""
    plan = preview.planned
    drift, unknown = None, []
    if not preview.folder_made:
        try:
            drift = workspace.diff(paths=paths_of(call, workspace), patch=False)
        except Damaged as error:  # what is to come back may be whole
            unknown = [f"What changed since the last checkpoint cannot be told: {printable(error.message)}"]
    beside = beside_lines(preview, target, call, root=workspace.path, asks=True)
    running = at_work_lines(workspace.at_work())
    lines = [*unknown, *_drift_lines(drift, call), *beside, *running]
    does = "Taking back" if call.has("only-agent") else "Restoring"
    lines.append(f"{does} {_called(target, call, made=True)}: {plan_counts(plan, preview.parts)}.")
    lines += _which_lines(target, call, workspace)
    if not preview.folder_made:
        lines += kept_lines(plan, call)
    spared = spared_lines(plan, target, call, workspace=workspace)
    room = console.rows() - console.height((*above, *lines, *_agent_lines(call), *spared)) - _ASKING
    for line in (*lines, *_agent_lines(call)):
        console.warn(line)
    for line in spared:
        console.warn(line, style="yellow")
    most, since = max(_SHOWN_LEAST, room), _since(drift, plan)
    tell_steps(shortened_plan(plan, most=most, since=since, room=console.columns(2)), console)
    for line in chosen_later_lines(plan):
        console.warn(line)


def _which_lines(target: Checkpoint, call: Call, workspace: Restores) -> list[str]:
    """Return why it is that checkpoint where a time, or a turn, was asked for: what is next to it."""
    ref = call.argument(0) or ""
    if call.verb.name != "restore" or call.has("only-agent"):
        return []
    if ref.startswith("@{"):
        later = [
            one
            for one in workspace.list(since=target.manifest.created_at, guards=False, brief=True)
            if one.whole
        ]
        after = [one for one in later if one.sequence > target.sequence]
        if not after:
            return ["It is the newest that there is."]
        return [f"It is the newest of then or before; the next one is {called(after[-1], made=True)}."]
    if target.kind == "turn" and (call.guessed or not ref.startswith(("ckpt_", "@"))):
        before = workspace.previous(target.id)
        if before is not None:
            words = " ".join(
                ("restore", before.short_id, *(("--", *map(quoted, call.paths)) if call.paths else ()))
            )
            return [f"It is as that turn left it; as it was before: {call.command(words)}"]
    return []


def _agent_lines(call: Call) -> tuple[str, ...]:
    """Return what counts as an agent's where that alone is taken back: more cannot be known."""
    if not call.has("only-agent"):
        return ()
    return (
        "All that changed within its turns or runs counts as the agent's: edits that you made then go too.",
        "What you changed between them stays.",
    )


def tell_steps(lines: Sequence[str], console: Console) -> None:
    """Show what would happen to each path, what will go in red."""
    for line in lines:
        console.warn(line, style=_STYLES.get(line.split(maxsplit=1)[0]))


def _since(drift: DiffReport | None, plan: RestorePlan) -> dict[bytes, str]:
    """Return how paths changed since where one stands; nothing where the plan says just that."""
    if drift is None:
        return {}
    when = f"since {short(drift.from_)}" if drift.from_ else "since"
    changed = {
        path: f"{one.status} {when}" for one in drift.files for path in (one.path, one.old_path) if path
    }
    spared = [one.path for one in plan.of("keep") if one.reason == SPARED]
    for path in spared:
        changed.pop(path, None)
    touched = {step.path for step in plan.of("write", "delete", "chmod")}
    return {} if drift.from_ == plan.target and changed.keys() == touched else changed


def kept_words(way_back: str) -> str:
    """Return in words that what a plan replaces or deletes is kept, and the command that is the way back."""
    return f"What is there now is saved first: `{way_back}` brings it back."


def kept_lines(plan: RestorePlan, call: Call) -> list[str]:
    """Return the same of a restore; nothing of one that changes no file."""
    changes = any(plan.of("write", "delete", "chmod", "mkdir", "rmdir"))
    return [kept_words(call.command("undo"))] if changes else []


def _drift_lines(report: DiffReport | None, call: Call) -> list[str]:
    """Return how the call's paths changed since where one stands: nothing has kept it yet."""
    if report is None or not report.files:
        return []
    ways = [_WAYS.get(one.status, one.status) for one in report.files]
    counted = ", ".join(f"{count(ways.count(way), 'file')} {way}" for way in dict.fromkeys(ways))
    what = f"Changed in {_typed(call.paths)}" if call.paths else "Changed"
    return [f"{what} since {short(report.from_ or '')}, where you are: {counted}."]


# --- The way of a restore on the command line: plan, show, ask, carry out, tell the way back ---


def check_options(call: Call) -> None:
    """Refuse combinations that contradict each other."""
    folder = call.text("to") or ""
    if folder.startswith(("ckpt_", "@")) and "/" not in folder and not os.path.lexists(folder):
        raise Usage(
            f"--to takes a folder to write to, and '{printable(folder)}' is called like a checkpoint",
            hint=f"to go back to that: {call.command(f'restore {quoted(folder)}')}"
            f"\nif a folder is meant: --to ./{quoted(folder)}",
        )
    time = None if not folder or os.path.lexists(folder) else time_meant(folder)
    if time is not None:
        words = " ".join(map(quoted, (f"@{{{time}}}", *call.arguments, *(call.paths or ()))))
        raise Usage(
            f"--to takes a folder to write to, and '{printable(folder)}' says a time",
            hint=f"to go back to that: {call.command(f'restore {words}')}"
            f"\nif a folder is meant: --to ./{quoted(folder)}",
        )
    if call.has("to"):
        for option in ("dry-run", "plan", "merge", "git", "only-agent"):
            if call.has(option):
                raise Usage(
                    f"--to and --{option} do not go together",
                    hint="--to writes files into its new folder, and touches nothing else",
                )


def restore(
    target: Checkpoint | None,
    call: Call,
    console: Console,
    *,
    workspace: Restores,
    above: Sequence[str] = (),
    turns: int | None = None,
    beside: Sequence[ChangedBeside] | None = (),
) -> int:
    """Bring a checkpoint back as the call says, and return the exit code; what was said is ``above``.

    Without a target a person left instead of choosing one. ``turns`` is how far a rewind goes, ``beside``
    what goes with it although it came in none of them, None where that is not known.
    """
    if target is None:
        console.warn("nothing was changed")
        return DECLINED
    if call.has("to"):
        return _aside(target, call, console, workspace=workspace)
    if not call.has("dry-run"):
        demand_means(call, console)
    goes = None if beside is None else tuple(beside)
    done = _at_once(target, call, console, workspace=workspace)
    if done is not None:
        return _tell_done(done.replace(changed_beside=goes), target, call, console, workspace=workspace)
    return _looked_at(target, call, console, workspace=workspace, above=above, turns=turns, goes=goes)


def _looked_at(
    target: Checkpoint,
    call: Call,
    console: Console,
    *,
    workspace: Restores,
    above: Sequence[str],
    turns: int | None,
    goes: tuple[ChangedBeside, ...] | None,
) -> int:
    """Plan a restore, show that or ask about it, and carry it out."""
    console.left = "nothing was changed"
    with ProgressLine(console, "planning"):
        plan = plan_of(target, call, workspace, turns=turns)
        preview = workspace.preview(plan).replace(changed_beside=goes)
    if call.has("dry-run"):
        return _planned(preview.replace(dry_run=True), target, call, console, workspace=workspace)
    if plan.empty and not preview.folder_made and not _git_agreed(preview, target, call, console):
        return _unchanged(preview, target, call, console, workspace=workspace)
    consent: Agreed | None = Agreed(git=True)
    if not plan.empty or preview.folder_made:
        consent = consented(preview, call, console, workspace=workspace, target=target, above=above)
    if consent is None:
        return DECLINED
    if consent.git:
        call = call.replace(options={**call.options, "git": ()})
        plan = _with_git(plan, plan_of(target, call, workspace, turns=turns), call)
    with telling_what_is_left(console, workspace), ProgressLine(console, "restoring"):
        report = workspace.apply(plan).replace(changed_beside=goes)
    return _tell_done(report, target, call, console, workspace=workspace, told=consent.told)


class _AskedFirst(Exception):
    """Of a plan somebody has to be asked, or it is told otherwise: nothing was changed."""


def _at_once(
    target: Checkpoint, call: Call, console: Console, *, workspace: Restores
) -> RestoreReport | None:
    """Carry out a restore of which nobody is asked by one look; None where it takes more than ``--yes``."""
    if not call.has("yes") or any(call.has(one) for one in ("plan", "dry-run", "only-agent")):
        return None

    def consent(plan: RestorePlan) -> None:
        if plan.empty or takes_many_away(plan, target):
            raise _AskedFirst

    with telling_what_is_left(console, workspace), ProgressLine(console, "restoring"):
        try:
            with _naming_alike(target, call, workspace):
                return workspace.restore(target.id, consent=consent, **_options(call, workspace))
        except _AskedFirst:
            return None


def _tell_done(
    report: RestoreReport,
    target: Checkpoint,
    call: Call,
    console: Console,
    *,
    workspace: Restores,
    told: Sequence[str] = (),
) -> int:
    if not console.answer(call.verb.name, report):
        _tell(report, target, call, console, told=told, workspace=workspace)
    return 0 if report.complete else OMISSIONS


def _git_agreed(preview: RestoreReport, target: Checkpoint, call: Call, console: Console) -> bool:
    """Ask whether HEAD and index are to be put back, where all files are as they were and these are not."""
    offer = git_offer(preview, target)
    if offer is None or not console.can_ask or call.has("yes") or call.has("plan"):
        return False
    console.warn(f"No file is to be changed: all are as in {called(target)}.")
    return console.ask(f"Put git back too ({offer})? [y/N] ").lower() in {"y", "yes", "g", "git"}


def _unchanged(
    preview: RestoreReport, target: Checkpoint, call: Call, console: Console, *, workspace: Restores
) -> int:
    """Tell that nothing is to be changed; the workspace may come to stand elsewhere all the same."""
    report, plan = preview.replace(dry_run=False), preview.planned
    if plan.whole:
        if call.guessed and not _standing_agreed(target, console, workspace=workspace):
            return DECLINED
        report = workspace.apply(plan).replace(changed_beside=preview.changed_beside)
    return _planned(report, target, call, console, workspace=workspace)


def _standing_agreed(target: Checkpoint, console: Console, *, workspace: Restores) -> bool:
    """Ask whether a checkpoint that was guessed is meant, where all files are as in that already."""
    if workspace.stands_at() == target.id:
        return True
    console.warn(f"No file is to be changed: all are as in {called(target)}.")
    return agreed("Stand there from now on (@)?", console)


@contextmanager
def telling_what_is_left(console: Console, workspace: Restores) -> Iterator[None]:
    """Find out what a restore or an undo that is interrupted leaves, and what to type then."""
    began = time.time_ns()
    console.left = ""
    try:
        yield
    except KeyboardInterrupt:
        if workspace.status().state == "interrupted":
            console.left = "what it was changing is half done"
            console.left_hint = "finish it: lastgood recover\nor take it back: lastgood recover --rollback"
        elif any(one.at >= began for one in workspace.operations()[:1]):
            console.left = "it was done already"
            console.left_hint = "to take it back: lastgood undo"
        else:
            console.left = "nothing was changed"
        raise


def plan_of(
    target: Checkpoint | None, call: Call, workspace: Restores, *, turns: int | None = None
) -> RestorePlan:
    """Return what would be done; of a path that nothing holds those of a like name are told.

    What an agent did is taken back in so many ``turns``, or since the call's REF, if it has one, to a target
    that comes of that.
    """
    if call.has("only-agent") and turns is not None:
        return workspace.plan_rewind(turns, only_agent=True, **_options(call, workspace))
    ref = call.argument(0) if call.has("only-agent") or target is None else target.id
    with _naming_alike(target, call, workspace):
        return workspace.plan_restore(
            ref,
            only_agent=call.has("only-agent"),
            session=call.text("session"),
            **_options(call, workspace),
        )


@contextmanager
def _naming_alike(target: Checkpoint | None, call: Call, workspace: Restores) -> Iterator[None]:
    """Tell of a path that nothing holds those of a like name."""
    try:
        yield
    except NotFound as error:
        near = "near" in error.details or "path" not in error.details
        for typed in () if near else call.paths or ():
            if path_of(typed, call, workspace) == error.details["path"]:
                held = "@" if target is None else target.short_id
                if is_ignored(typed, call, workspace):
                    error.message += why_ignored(call)
                error.hint = (
                    f"{_elsewhere_held(typed, call, workspace)}"
                    f"{same_name(typed, call, workspace, ref=call.argument(0))}"
                    f"{_without(typed, held, call, workspace)}"
                    f"all that it holds: {call.command(f'show {held} --files')}"
                )
        raise


def _without(typed: str, held: str, call: Call, workspace: Restores) -> str:
    """Return a line with the command that does the rest; of a number or a time how it is said."""
    paths = [one for one in call.paths or () if one != typed and is_path(one, call, workspace)]
    if not paths:
        return ""
    if typed.isdigit():
        return so_many_back(typed, paths, call, workspace)
    ref = held if call.guessed else call.argument(0) or held
    words = " ".join(map(quoted, paths))
    rest = f"without it: {call.command(f'restore {quoted(ref)} -- {words}')}\n"
    if typed[:1].isdigit() or typed.lower() in _DAYS:
        return f"a time is said as 1h, 2d, 14:20 or 'Nov 21 09:38'\n{rest}"
    if is_ignored(typed, call, workspace) or "/" in typed:
        return rest
    words = " ".join(one for one in call.paths or () if one not in paths)
    text = " ".join(map(quoted, (words, paths[0])))
    return f"{rest}{versions_of(paths, call)}where that is in it: {call.command(f'log -S {text}')}\n"


def _elsewhere_held(typed: str, call: Call, workspace: Restores) -> str:
    """Return a line with the command that takes a path from another checkpoint, the newest with it."""
    holder = holder_of(typed, call, workspace)
    if holder is None:
        return ""
    return f"{holder} is the newest with it: {call.command(f'restore {holder} -- {quoted(typed)}')}\n"


def _options(call: Call, workspace: Restores) -> RestoreOptions:
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


def _planned(
    report: RestoreReport, target: Checkpoint, call: Call, console: Console, *, workspace: Restores
) -> int:
    plan = report.planned
    spared = spared_lines(plan, target, call, workspace=workspace)
    unwritten = plan.scopes == ("conversation",) and lacks_transcript(report)
    code = 0 if report.dry_run or (report.complete and not unwritten) else OMISSIONS
    if console.answer(call.verb.name, report):
        return code
    if plan.empty and not report.folder_made:
        for line in spared:  # before it is said that all else is well
            console.sentence(line)
        console.sentence(_nothing_words(report, target, call))
        console.sentences(
            (
                *(step_line(one) for one in plan.steps if one.reason != SPARED),
                *not_held_lines(report, call, root=workspace.path),
                *(line for part in report.parts for line in part_lines(part)),
                *unwritten_lines(report, call),
            )
        )
        if report.operation is not None:  # T15: no file changes, and yet there is something to undo
            undo = call.command("undo")
            console.note(f"you are at {called(target)} now; take that back with: {undo}")
        if git_offer(report, target) is not None:
            console.note(f"git is elsewhere; to put it back: {again(call, '--git', to=target)}")
        for line in () if unwritten or plan.base else _elsewhere(plan, call, workspace):
            console.note(line)
        for line in _turn_before(call, workspace):
            console.note(line)
        _tell_lost(console)
        return code
    would = "would take back" if call.has("only-agent") else "would restore"
    console.sentence(f"{would} {_called(target, call, made=True)}: {plan_counts(plan, report.parts)}")
    for line in _agent_lines(call):
        console.sentence(line)
    console.sentences(
        (
            *plan_lines(plan),
            *spared,
            *beside_lines(report, target, call, root=workspace.path),
            *at_work_lines(workspace.at_work()),
            *([] if report.folder_made else kept_lines(plan, call)),
        )
    )
    console.line(f"plan {plan.id}")
    if not console.quiet:  # beside the plan, and after it wherever that is sent
        console.sentence(f"Nothing changed. To do it: {again(call, f'--plan {plan.id}', to=target)}")
    return 0


def _called(target: Checkpoint, call: Call, *, made: bool = False) -> str:
    """Return in words what comes back, called as `list` calls it; of a rewind also what that is before."""
    past = f"before: {call.past}"
    said = None
    if call.past is not None and not _is_shortened(label(target), past):
        title = shortened(label(target), _SAID)
        also = "" if title in {UNTITLED, call.past} else f"{title}; "
        said = f"{also}{past}"
    name = called(target, said=said, made=made)
    if call.has("only-agent"):
        within = f" in {_typed(call.paths)}" if call.paths else ""
        return f"what the agent changed{within} since {name}"
    return f"{_typed(call.paths)} from {name}" if call.paths else name


def _is_shortened(text: str, shown: str) -> bool:
    """Tell whether what is shown is a text, whole or with its end cut off."""
    return shown == text or (shown.endswith("…") and text.startswith(shown[:-1]))


def _typed(paths: Sequence[str]) -> str:
    """Return the first of some paths as they were typed, and how many more there are."""
    return words_named([printable(one) for one in paths])


def _nothing_words(report: RestoreReport, target: Checkpoint, call: Call) -> str:
    """Return why there is nothing to restore: it is there already, or cannot be written."""
    plan = report.planned
    if plan.scopes == ("conversation",) and lacks_transcript(report):
        return f"nothing was restored: the conversation of {called(target)} cannot be written for its host"
    if plan.base:
        then = called(target)
        rest = f"of {_called(target, call)}" if call.has("only-agent") else f"to take back as in {then}"
        stays = plan.conflicts or (call.has("only-agent") and any(map(_is_left, plan.of("keep"))))
        words = f"what is left {rest} stays as it is" if stays else f"nothing is left {rest}"
        return f"nothing to restore: {words}"
    if plan.scopes == ("progress",) and report.parts:
        return f"nothing was restored: the progress of {called(target)} cannot be read"
    beside = ["conversation"] if lacks_transcript(report) else []
    left = [f"the {one}" for one in dict.fromkeys((*beside, *(part.scope for part in report.parts)))]
    what = _typed(call.paths) if call.paths else "what was asked for"
    what = f"all but {' and '.join(left)}" if left else what
    if any(one.omission for one in report.not_held):
        return f"nothing else to restore: what {called(target)} holds is there already"
    if any(one.reason == SPARED for one in plan.of("keep")):
        return f"nothing else to restore: all other files already are as in {called(target)}"
    return f"nothing to restore: {what} already is as in {called(target)}"


def _is_left(kept: Step) -> bool:
    """Tell whether a path stays that an agent changed, and not because nobody knows who did."""
    return not (kept.reason or "").startswith(NOT_TAKEN)


def _elsewhere(plan: RestorePlan, call: Call, workspace: Restores) -> list[str]:
    """Return lines on where else to look: what is there may be what was saved after the damage."""
    if plan.scopes != ("files",) or not call.paths:
        return [f"other checkpoints: {call.command('list')}"]
    undo = _undo_line(call, workspace)
    logs = [f"earlier versions: {call.command(f'log {quoted(one)}')}" for one in call.paths[:_SHOWN_LOGS]]
    other = _other_version(call.paths[0], call, workspace) if len(call.paths) == 1 else None
    if other is None:
        return [*undo, *logs]
    way = call.command(f"restore {other.short_id} {quoted(call.paths[0])}")
    return [f"the newest other version is of {called(other, made=True)}:\n  {way}", *undo, *logs]


def _undo_line(call: Call, workspace: Restores) -> list[str]:
    """Return a line where it was the last restore that changed one of the paths: what they were, it has."""
    last = next(iter(workspace.operations(can="undo")), None)
    if last is None or last.type != "restore":
        return []
    touched = [to_text(one.path) for one in last.steps if one.action in {"write", "delete"}]
    wanted = [path_of(one, call, workspace) for one in call.paths or ()]
    if not any(lies_in(path, one) for path in touched for one in wanted):
        return []
    return [f"the last restore changed it; to take that back: {call.command('undo')}"]


def _other_version(typed: str, call: Call, workspace: Restores) -> Checkpoint | None:
    """Return the newest checkpoint at which a path came to be what it is not now; None if none is near."""
    try:
        path = path_of(typed, call, workspace)
        for one in workspace.log(path, limit=_LOOKED_AT).changes:
            held = one.checkpoint
            if one.status != "deleted" and workspace.diff(held.id, paths=[path], patch=False).files:
                return held
    except LastgoodError:
        return None
    return None


def _turn_before(call: Call, workspace: Restores) -> list[str]:
    """Return how a rewind goes on back whose turns were all taken back already: they count all the same."""
    if call.verb.name != "rewind" or not call.has("only-agent"):
        return []
    steps = int(call.arguments[0]) + 1
    try:
        unit = workspace.preview_rewind(steps).unit
    except NotFound:
        return []
    return [f"the {unit} before, too: {again(call.replace(arguments=(str(steps),)))}"]


def _aside(target: Checkpoint, call: Call, console: Console, *, workspace: Restores) -> int:
    folder = os.path.normpath(os.path.join(current(), call.text("to") or ""))
    with ProgressLine(console, "writing"):
        report = workspace.restore(
            target.id,
            paths=paths_of(call, workspace),
            to=folder,
            only=cast("tuple[Scope, ...]", call.texts("only")) or None,
        )
    if not console.answer(call.verb.name, report):
        console.sentence(f"wrote {called(target)} to {printable(folder)}: {report_counts(report.outcomes)}")
        said = (*remarks(report.outcomes), *not_held_lines(report, call, root=workspace.path))
        for line in (*said, *damage_lines(report.outcomes, call)):
            console.warn(line)
    return 0 if report.complete else OMISSIONS


def _tell(
    report: RestoreReport,
    target: Checkpoint,
    call: Call,
    console: Console,
    *,
    told: Sequence[str],
    workspace: Restores,
) -> None:
    """Tell what was done, without what was ``told`` before and is as it was."""
    verb = "took back" if call.has("only-agent") else "restored"
    beside = told_parts(report.parts, report.planned.parts)
    console.sentence(done_words(report.outcomes, _called(target, call), beside=beside, verb=verb))
    outcomes = [one for one in report.outcomes if one.reason != SPARED]  # of which more is said below
    said = remarks(outcomes, then=f"as at {target.short_id}", root=workspace.path)
    running = at_work_lines(workspace.at_work()) if report.operation is not None else []
    for line in (*said, *beside_lines(report, target, call, root=workspace.path), *running):
        if line not in told:
            console.warn(line)
    for line in spared_lines(report.planned, target, call, workspace=workspace):
        console.warn(line, style="yellow")
    for line in (*choosing_lines(report.outcomes, report.parts), *damage_lines(report.outcomes, call)):
        console.warn(line)
    if any((part.scope, part.result) == ("git", "failed") for part in report.parts):
        console.warn(f"to put git back once that is mended: {again(call, to=target)}")
    _tell_lost(console)
    at = workspace.stands_at() if call.paths else None
    if at not in {None, target.id}:
        console.note(f"all else is as it was: you are still at {called(workspace.get(at or '@'))}")
    if report.operation is not None:
        console.sentence(f"take it back with: {call.command('undo')}")
    for line in (one for part in report.parts for one in resume_lines(part)):
        if line in told:  # long ago, before files and a question: it is what is typed next
            console.line(line.strip())


def _tell_lost(console: Console) -> None:
    """Say so where the current folder was deleted: what was made in its place is not seen there."""
    try:
        os.getcwd()
    except OSError:
        console.warn(f"this shell is still in the folder that was deleted: cd {quoted(current())}")
