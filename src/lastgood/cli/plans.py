"""Restore plans and reports as text."""

from __future__ import annotations

from lastgood.cli.typed_paths import as_typed, for_other_programs, typed_below
from lastgood.cli.wording import (
    UNTITLED,
    ago,
    called,
    changes,
    effect_words,
    moment,
    path_text,
    path_within,
    paths_named,
    place,
    shortened,
    size,
    title,
)
from lastgood.errors import count
from lastgood.ids import short
from lastgood.model.canonical import PATH, Fields
from lastgood.model.operation import CONFLICT, DAMAGED, DISCARDED, NOT_BACK
from lastgood.model.report import MARKED, PARTLY, counts_of, planned_outcomes
from lastgood.model.session import is_command
from lastgood.paths import Covering, printable, quoted, to_text, ways
from lastgood.restore.plan import SPARED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lastgood.cli.grammar import Call
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Outcome, Part, PartOutcome, RestorePlan, Step
    from lastgood.model.report import HeadMoved, NotHeld, RestoreReport
    from lastgood.model.run import Artifact, LastConversation, RecoverReport
    from lastgood.model.session import Effect, Owner, Progress, Session, SessionReport
    from lastgood.workspace.opened import OpenWorkspace


_PHRASES = (
    ("write", "file", "to write"),
    ("delete", "file", "to delete"),
    ("mkdir", "directory", "to make"),
    ("rmdir", "directory", "to remove"),
    ("chmod", "mode", "to set"),
    ("keep", "path", "kept"),
    ("skip", "path", "skipped"),
)
_DONE = {
    "to write": "written",
    "to delete": "deleted",
    "to make": "made",
    "to remove": "removed",
    "to set": "set",
}
_REMARKED = ("failed", "skipped", "kept")
# Why HEAD cannot be put back on its branch.
_WHY_LEFT = {"moved": "has moved since", "gone": "is gone", "taken": "is checked out in another worktree"}
# How reasons begin that are told although all went well.
_TOLD = (MARKED, PARTLY, DISCARDED, NOT_BACK)
_PARTS = {"progress": "progress", "conversation": "conversation", "git": "HEAD and index"}
_SHOWN_STEPS = 20
# What a line has before its path.
_BEFORE_PATH = 10
# So many private files are named in a command.
_TYPED = 100


def plan_counts(plan: RestorePlan, parts: Iterable[PartOutcome] = ()) -> str:
    """Return in words what a plan will do; of one for no file, which of its ``parts``."""
    return _phrase(planned_outcomes(plan), beside=told_parts(parts, plan.parts), done=False)


def report_counts(outcomes: Iterable[Outcome], *, beside: Iterable[PartOutcome] = ()) -> str:
    """Return in words what was done; where that was to no file, what was ``beside``."""
    return _phrase(tuple(outcomes), beside=beside, done=True)


def done_words(
    outcomes: Sequence[Outcome], what: str, *, beside: Iterable[PartOutcome] = (), verb: str = "restored"
) -> str:
    """Return in words what came of a restore; what could not be done comes first, with why."""
    failed = [one for one in outcomes if one.result == "failed"]
    if not failed:
        return f"{verb} {what}: {report_counts(outcomes, beside=beside)}"
    tried = sum(1 for one in outcomes if one.result in {"restored", "removed", "failed"})
    reasons = dict.fromkeys(printable(one.reason or "") for one in failed)
    why = next(iter(reasons)) if len(reasons) == 1 else "for several reasons"
    rest = [one for one in outcomes if one.result != "failed"]
    said = f"could not restore {len(failed):,} of {count(tried, 'path')} of {what}: {why}"
    return f"{said} ({report_counts(rest)})" if len(failed) < tried else said


def _phrase(outcomes: Sequence[Outcome], *, beside: Iterable[PartOutcome], done: bool) -> str:
    """Return how many paths there are of each; private files that stay are counted by themselves."""
    spared = sum(one.reason == SPARED for one in outcomes)
    counts = counts_of(one for one in outcomes if one.reason != SPARED)
    words = []
    for action, noun, phrase in _PHRASES:
        if counts[action]:
            words.append(f"{count(counts[action], noun)} {_DONE.get(phrase, phrase) if done else phrase}")
    if spared:
        words.append(f"{count(spared, 'private file')} kept")
    if counts["fail"]:
        words.append(f"{count(counts['fail'], 'path')} failed")
    scopes = dict.fromkeys(one.scope for one in beside if one.result in {"planned", "restored"})
    alone = f"only the {' and '.join(map(_PARTS.__getitem__, scopes))}" if scopes else "no files"
    return ", ".join(words) if words else alone


def plan_lines(plan: RestorePlan, *, then: str | None = None) -> list[str]:
    """Return every path of a plan with what would happen to it.

    ``then`` says which version lies beside a conflict: the target's, unless said otherwise.
    """
    copies = _copies(plan, then or f"as {short(plan.target)} has it")
    behind = _behind_theirs(plan)
    rows = [step for step in plan.steps if step.path not in copies]
    return [
        step_line(one, how=copies.get(one.path))
        for step in rows
        for one in (step, *behind.get(step.path, ()))
    ]


def _behind_theirs(plan: RestorePlan) -> dict[bytes, list[Step]]:
    """Return the steps that put another version beside a conflict, by the path of that: they follow it."""
    outcomes = planned_outcomes(plan)
    steps = {step.path: step for step in plan.steps}
    return {one.path: [steps[copy] for copy in _beside(one, outcomes)] for one in outcomes}


def _copies(plan: RestorePlan, then: str) -> dict[bytes, str]:
    """Return what lies beside each conflict, by its path."""
    outcomes = planned_outcomes(plan)
    return {
        copy: f"{printable(to_text(one.path.rpartition(b'/')[2]))} {then}"
        for one in outcomes
        for copy in _beside(one, outcomes)
    }


def step_line(step: Step, *, how: str | None = None, room: int | None = None) -> str:
    """Return what would happen to one path, and why where that is not plain, or how it changed.

    Of a path that is longer than the ``room`` of the line some of the middle is left out.
    """
    word: str = step.action
    if step.action == "write":
        word = "create" if step.have is None else "change"
    said = _why(step.reason) or how
    return _line_of(word, step.path, f"  ({printable(said)})" if said else "", room=room)


def _why(reason: str | None) -> str | None:
    """Return why a path stays, or is marked, as it is told."""
    return "conflict: it changed since, and stays as it is" if reason == CONFLICT else reason


def _line_of(word: str, path: bytes, said: str, *, room: int | None) -> str:
    left = None if room is None else room - _BEFORE_PATH - len(said)
    return f"  {word:7} {path_within(path, left)}{said}"


def shortened_plan(
    plan: RestorePlan,
    *,
    most: int = _SHOWN_STEPS,
    since: Mapping[bytes, str] = {},
    room: int | None = None,
) -> list[str]:
    """Return the first paths of a plan, for a question: what will go before all else.

    Then come those that changed ``since``, with how; directories that are made or go follow from their files.
    ``room`` is that of a line.
    """

    def new(step: Step) -> bool:
        return step.path not in since

    going = sorted(plan.of("delete"), key=new)
    emptied = ways(one.path for one in going)
    going += [one for one in plan.of("rmdir") if one.path not in emptied]
    gone = [step_line(one, how=since.get(one.path), room=room) for one in going]
    if len(gone) > most:
        gone = _by_folder(going, plan, room=room)
    copies, behind = _copies(plan, f"as {short(plan.target)} has it"), _behind_theirs(plan)
    writing = sorted((one for one in plan.of("write", "chmod") if one.path not in copies), key=new)
    staying = [one for one in plan.of("keep", "skip") if one.reason != SPARED]
    how = {**copies, **since}
    rest = [
        step_line(each, how=how.get(each.path), room=room)
        for one in (*writing, *staying)
        for each in (one, *behind.get(one.path, ()))
    ]
    lines = [*gone, *rest] or plan_lines(plan)
    planned = {step.path for step in plan.steps}
    lines += [
        _line_of("stays", path, f"  ({how})", room=room) for path, how in since.items() if path not in planned
    ]
    shown = min(most, max(_SHOWN_STEPS, len(gone)))
    if len(lines) <= shown:
        return lines
    unseen = max(0, len(gone) - shown)
    more = f"{len(lines) - shown:,} more" + (f", {unseen:,} of them to delete" if unseen else "")
    return [*lines[:shown], f"  and {more} (all of them: --dry-run)"]


def _by_folder(going: Sequence[Step], plan: RestorePlan, *, room: int | None) -> list[str]:
    """Return what will go, of the folders that go whole how much is in them."""
    whole = Covering({one.path: path_text(one.path) for one in plan.of("rmdir")})
    within: dict[str, int] = {}
    single = []
    for one in going:
        folder = whole.of(one.path)
        if folder is None:
            single.append(step_line(one, room=room))
        else:
            within[folder] = within.get(folder, 0) + 1
    return [*(f"  delete  {folder}/  ({count(files, 'path')})" for folder, files in within.items()), *single]


def spared_lines(plan: RestorePlan, target: Checkpoint, call: Call, *, workspace: OpenWorkspace) -> list[str]:
    """Return which private files stay although they differ, and how each comes back (rule S5)."""
    spared = [as_typed(to_text(one.path), call, workspace) for one in plan.of("keep") if one.reason == SPARED]
    if not spared:
        return []
    some = f" and {len(spared) - _SHOWN:,} more" if len(spared) > _SHOWN else ""
    named = ", ".join(printable(one) for one in spared[:_SHOWN]) + some
    stays = "differs and stays as it is" if len(spared) == 1 else "differ and stay as they are"
    words = " ".join(quoted(one) for one in spared[:_TYPED])
    return [
        f"{named} {stays}: of private files only missing ones come back by themselves",
        f"  as {called(target)} has it: {call.command(f'restore {target.short_id} -- {words}')}",
    ]


def remarks(outcomes: Sequence[Outcome], *, then: str = "as it was", root: str | None = None) -> list[str]:
    """Return the lines for what was kept, skipped, failed or marked, and why (rule T10).

    ``then`` says which version lies beside a conflict; with the workspace's ``root`` how to take it is told.
    """
    said = [
        one
        for one in outcomes
        if one.result in _REMARKED or (one.reason or "").startswith(_TOLD) or _stays(one)
    ]
    said.sort(key=lambda one: _REMARKED.index(one.result) if one.result in _REMARKED else 1)
    lines = []
    for one in said[:_SHOWN_STEPS]:
        why = _why(one.reason)
        reason = f" ({printable(why)})" if why else ""
        lines.append(f"  {one.result:7} {path_text(one.path)}{reason}")
        for copy in _beside(one, outcomes):
            lines.append(f"          {then}: {path_text(copy)}")
            if root is not None:
                lines.append(f"          to take it (yours goes): {_move(copy, one.path, root)}")
                lines.append(f"          to keep yours: {_remove(copy, root)}")
    if len(said) > _SHOWN_STEPS:
        lines.append(f"  and {len(said) - _SHOWN_STEPS:,} more (all of them: --json)")
    if any(one.left is not None for one in outcomes):
        lines.append("  saves leave out what is left; when it can be changed, clear it: lastgood recover")
    return lines


def chosen_later_lines(plan: RestorePlan) -> list[str]:
    """Return, before a question, that a person is to choose afterwards which version of a file stays."""
    paths = [path_text(path) for path, copies in _behind_theirs(plan).items() if copies]
    if not paths:
        return []
    which = paths[0] if len(paths) == 1 else f"each of {len(paths):,} files"
    return [f"Both versions of {which} are there then; which one stays, you choose afterwards."]


def damage_lines(outcomes: Iterable[Outcome], call: Call) -> list[str]:
    """Return what to do about a store that could not give back what it has."""
    if not any((one.reason or "").startswith(DAMAGED) for one in outcomes):
        return []
    return [f"to see what else is damaged, and mend what can be: {call.command('verify --repair')}"]


def choosing_lines(outcomes: Sequence[Outcome], parts: Sequence[PartOutcome]) -> list[str]:
    """Return what is left to a person where another version lies beside a file that stays as it is."""
    beside = {one.path: _beside(one, outcomes) for one in outcomes}
    paths = [path_text(path) for path, copies in beside.items() if copies]
    if not paths:
        return []
    copies = {copy for those in beside.values() for copy in those}
    others = {one.result for one in outcomes if not beside[one.path] and one.path not in copies} - {"kept"}
    is_done = bool(others) and {*others, *(one.result for one in parts)} <= {"restored", "removed"}
    done = "All else is done. " if is_done else ""
    which = paths[0] if len(paths) == 1 else f"each of {len(paths):,} files"
    return [f"{done}Left to you is which version of {which} stays: one of the commands above."]


def _beside(outcome: Outcome, outcomes: Sequence[Outcome]) -> list[bytes]:
    """Return where the other version of a conflict was written; none of what was no conflict."""
    if outcome.reason != CONFLICT and not (outcome.reason or "").startswith(PARTLY):
        return []
    begin = outcome.path + b".lastgood-"
    return [one.path for one in outcomes if one.action == "write" and one.path.startswith(begin)]


def _move(copy: bytes, path: bytes, root: str) -> str:
    words = (quoted(for_other_programs(to_text(each), root)) for each in (copy, path))
    return " ".join(("mv", *words))


def _remove(copy: bytes, root: str) -> str:
    return f"rm {quoted(for_other_programs(to_text(copy), root))}"


def _stays(outcome: Outcome) -> bool:
    """Tell whether something of a path is somewhere else now (rule T12b)."""
    return outcome.kept is not None or outcome.left is not None


def beside_lines(
    report: RestoreReport, target: Checkpoint, call: Call, *, root: str, asks: bool = False
) -> list[str]:
    """Return what to say of a restore beside its files: what it cannot bring back, parts, steps, HEAD.

    What is to be done about some of that is not told where it ``asks``.
    """
    lines = not_held_lines(report, call, root=root, asks=asks)
    if report.folder_made:
        lines.append(f"the folder was gone, and {'will be' if report.dry_run else 'was'} made again")
    if report.folder_made and target.manifest.git is not None:
        lines.append("its .git is in no checkpoint and does not come back: clone it, or git init")
    for part in told_parts(report.parts, report.planned.parts):
        lines += part_lines(part, target.manifest.progress)
        left = _left_words(report.head_moved) if (part.scope, part.result) == ("git", "planned") else None
        lines += [] if left is None else [f"  {left}; no branch moves"]
    lines += unwritten_lines(report, call)
    lines += [_irreversible(effect) for effect in report.irreversible]
    is_offered = asks and git_offer(report, target) is not None
    moved = None if call.has("only-agent") else _git_line(report, is_offered=is_offered)
    return lines if moved is None else [*lines, moved]


def unwritten_lines(report: RestoreReport, call: Call) -> list[str]:
    """Return why a conversation takes no new transcript, and what to do; nothing where it takes one."""
    said = report.conversation or {}
    if "note" not in said or "transcript" in said:
        return []
    lines = [f"conversation: {printable(str(said['note']))}"]
    if "resume_command" in said:
        lines.append(f"  go on with it: {said['resume_command']}")
    from lastgood.cli.hints import hint_lines

    return lines + [f"  {line}" for line in hint_lines(str(said.get("hint", "")), call) if line]


def at_work_lines(sessions: Iterable[Session]) -> list[str]:
    """Return which programs are at work here still: a restore takes nothing out of their memory."""
    return [
        f"Still running: {owner(one)}, which remembers what is taken back, and may write files again."
        f" Quit it before you go on, {_way_to_quit(one.owner)}"
        for one in sessions
    ]


def _way_to_quit(who: Owner) -> str:
    from lastgood.processes import counts_here  # lazily: most often nobody is at work

    # On another machine, or in a container, the number is not that of a process here.
    return f"in its window or by: kill {who.pid}" if counts_here(who) else "in its window."


def lacks_transcript(report: RestoreReport) -> bool:
    """Tell whether a conversation was asked for with which its host cannot go on afterwards."""
    return report.conversation is not None and "resume_command" not in report.conversation


def not_held_lines(report: RestoreReport, call: Call, *, root: str, asks: bool = False) -> list[str]:
    """Return what was there at the checkpoint, is missing, and is in no checkpoint (rules S5, S7, T12a)."""
    lines = []
    if report.not_held:
        from lastgood.cli.left_out import left_out_lines  # lazily: most often all that was there is held

        lines = left_out_lines(report, call, root=root, asks=asks)
    purged = [one.path for one in report.not_held if one.reason == "purged" and not one.changed]
    if purged:
        shown = ", ".join(path_text(path) for path in purged[:_SHOWN])
        more = f" and {len(purged) - _SHOWN:,} more" if len(purged) > _SHOWN else ""
        lines.append(f"{shown}{more}: purged, and in no checkpoint any more")
    for one in report.not_held:
        if one.reason == "repository":
            head = "" if one.head is None else f", was at {one.head[:12]}"
            lines.append(f"not held: {path_text(one.path)} (a repository of its own{head})")
    return lines + _missed_lines(report.not_held)


def _missed_lines(not_held: Sequence[NotHeld]) -> list[str]:
    """Return each path that a checkpoint lists as missing in it: nothing brings it back (rule S7)."""
    lines = []
    missed = [one for one in not_held if one.omission or one.changed]
    for one in missed[:_SHOWN]:
        why = one.reason if one.size is None else f"{one.reason}, {size(one.size)}"
        what = "stays, though it was another then" if one.changed else "is missing, and does not come back"
        lines.append(f"{path_text(one.path)} {what}: the checkpoint does not hold it ({why})")
    return lines + ([f"and {len(missed) - _SHOWN:,} more like that"] if len(missed) > _SHOWN else [])


def told_parts(outcomes: Iterable[PartOutcome], parts: Iterable[Part]) -> list[PartOutcome]:
    """Return what to tell of parts: not the progress of `run -- COMMAND`, which nobody reported.

    The same of several sessions' progress is told once.
    """
    changed = [one for one in parts if one.scope == "progress"]
    unsaid = changed and all(map(_is_unsaid, changed))
    quiet = {"planned", "restored"} if unsaid else set()
    told: list[PartOutcome] = []
    for one in outcomes:
        if one not in told and (one.scope != "progress" or one.result not in quiet):
            told.append(one)
    return told


def _is_unsaid(change: Part) -> bool:
    """Tell whether a change of progress leads from or to that of one command, or no further than its goal."""
    before, after = map(_progress, (change.before, change.after))
    if not (_says_nothing(before) and _says_nothing(after)):
        return False
    return before.goal == after.goal or is_command(before) or is_command(after)


def progress_after(parts: Iterable[Part]) -> Progress | None:
    """Return the progress that a change leads to; None where it is none of one record."""
    changed = [one.after for one in parts if one.scope == "progress"]
    return _progress(changed[0]) if len(changed) == 1 else None


def _progress(side: Mapping[str, object]) -> Progress:
    from lastgood.model.session import PROGRESS_AS_STORED  # lazily: most restores change no progress
    from lastgood.value import cast

    return cast("Progress", Fields(dict(side), what="a part").read("progress", PROGRESS_AS_STORED))


def _says_nothing(found: Progress) -> bool:
    """Tell whether progress is empty but for its goal, or that of one command."""
    if not isinstance(found.tasks, tuple) or not found.replace(goal=None, tasks=()).empty:
        return False
    return not found.tasks or is_command(found)


def resume_lines(part: PartOutcome) -> list[str]:
    """Return what to type to go on with a conversation that was, or is to be, written for its host."""
    if part.result == "kept" or "resume_command" not in part.details:
        return []
    return [f"  go on with it: {printable(str(part.details['resume_command']))}"]


def part_lines(part: PartOutcome, then: Progress | None = None) -> list[str]:
    """Return what becomes, or became, of one part beside files; ``then`` is the progress it leads to."""
    lines = [f"{_PARTS[part.scope]}: {_part_words(part, then)}"]
    details = part.details
    lines += resume_lines(part)
    if isinstance(details.get("kept"), str):
        lines.append(f"  the HEAD before is kept as {printable(str(details['kept']))}")
    if isinstance(details.get("branch_before"), str):
        lines.append(f"  branch {printable(str(details['branch_before']))} stays as it is")
    remark = part.reason or details.get("note")
    if remark is not None:
        lines.append(f"  {printable(str(remark))}")
    left = details.get("left_branch")
    return lines + (_branch_lines(left) if isinstance(left, dict) else [])


def _branch_lines(left: Mapping[str, object]) -> list[str]:
    """Return how to be on a branch again after HEAD was detached."""
    name = quoted(str(left["name"]))
    if left["gone"]:
        return [f"  to make it again here: git switch -c {name}"]
    there = [] if left.get("taken") else [f"  to be on it as it is now: git switch {name}"]
    return [*there, "  to go on from here: git switch -c NEW_BRANCH"]


def _part_words(part: PartOutcome, then: Progress | None) -> str:
    if part.result in {"kept", "failed"}:
        return "left as it is" if part.result == "kept" else "failed"
    planned, details = part.result == "planned", part.details
    if part.scope == "conversation" and "transcript" in details:
        where = printable(to_text(Fields(dict(details), what="a report").read("transcript", PATH)))
        if "resume_command" not in details:
            return f"took {where} away again"
        return f"{'will be written' if planned else 'written'} to {where}"
    words = "will be put back" if planned else "put back"
    if part.scope == "conversation" and planned:
        words = "the one that was written goes again, unless somebody went on with it"
    if part.scope == "progress" and then is not None:
        return f"{words} ({progress_words(then)})"
    if part.scope == "git" and planned:
        return f"{words} ({_head_words(details)})"
    return words


def _head_words(details: Mapping[str, object]) -> str:
    commit, branch = details.get("commit"), details.get("branch")
    where = "before the first commit" if commit is None else f"at {str(commit)[:12]}"
    return (
        f"{where}, detached"
        if branch is None
        else f"{where} on {printable(str(branch).removeprefix('refs/heads/'))}"
    )


def progress_words(progress: Progress) -> str:
    """Return how far the work has come."""
    position = progress.position
    words = (
        [f"{progress.count('done')} of {count(len(progress.tasks), 'task')} done"] if progress.tasks else []
    )
    if position.phase:
        words.append(f"phase {printable(position.phase)}")
    if position.step is not None:
        words.append(f"step {position.step}" + (f"/{position.steps}" if position.steps else ""))
    if not words and progress.goal:
        return f"goal: {printable(progress.goal)}"
    return ", ".join(words) or "nothing done yet"


def _irreversible(effect: Effect) -> str:
    what = printable(effect.name)
    if effect.state == "done":
        return f"not taken back: {what} was done since, and cannot be undone"
    return f"not taken back: {what} was begun since; whether it had its effect is not known"


def _git_line(report: RestoreReport, *, is_offered: bool) -> str | None:
    """Return what to say about a HEAD that is not where it was, or an index that is another (rule T9).

    Where to put it back ``is_offered`` it is told beside the choices what comes of it.
    """
    moved = report.head_moved
    if report.planned.paths or report.folder_made:  # of some files it says nothing
        return None
    if report.index_differs:
        return "git's index stays as it is, and is not as it was at that checkpoint (--git puts it back too)"
    if moved is None or any(part.scope == "git" for part in report.parts):
        return None
    words, left = _moved_words(moved), _left_words(moved)
    if moved.to is None or is_offered:
        return words
    where = "" if left is None else f", {left}"
    return f"{words}, and stays as it is (--git puts HEAD and index back too{where})"


def _left_words(moved: HeadMoved | None) -> str | None:
    """Return why HEAD would come back on no branch; None where it comes back as it was."""
    if moved is None or moved.left_branch is None:
        return None
    return f"on no branch, as {printable(moved.from_branch or '?')} {_WHY_LEFT[moved.left_branch]}"


def git_offer(report: RestoreReport, target: Checkpoint) -> str | None:
    """Return where HEAD would be put back to with the files; None where that is no question."""
    moved, git = report.head_moved, target.manifest.git
    if git is None or git.head is None or moved is None or moved.to is None or report.planned.paths:
        return None
    if report.folder_made or report.planned.base or any(part.scope == "git" for part in report.parts):
        return None
    if git.branch is None or moved.left_branch is not None:
        return f"HEAD back to {git.head[:12]}"
    return f"back to branch {printable(git.branch)}"


def git_choices(report: RestoreReport, target: Checkpoint) -> tuple[str, str]:
    """Return what comes of the answers where `git_offer` has something to offer."""
    moved, git = report.head_moved, target.manifest.git
    assert moved is not None
    assert git is not None
    assert git.head is not None
    now = "where it is" if moved.to_branch is None else f"on {printable(moved.to_branch)}"
    if git.branch is None:
        back = f"HEAD at {git.head[:12]} again, on no branch; no branch moves"
    elif moved.left_branch is not None:
        back = f"HEAD at {git.head[:12]} again, {_left_words(moved)}; no branch moves"
    else:
        back = f"back on {printable(git.branch)}, with what was staged then"
    return f"  y: only the files; git stays {now}", f"  g: git, too: {back}"


def _moved_words(moved: HeadMoved) -> str:
    """Return how HEAD is not as it was at a checkpoint."""
    away = f" by {count(moved.commits, 'commit')}" if moved.commits else ""
    if moved.from_branch == moved.to_branch:
        return f"HEAD has moved{away} since that checkpoint"
    if moved.to is None and moved.to_branch is None:
        return f"git was {_on(moved.from_branch)} at that checkpoint, and the repository is gone"
    moves = f" ({count(moved.commits, 'commit')} away)" if moved.commits else ""
    return f"git was {_on(moved.from_branch)} at that checkpoint, is {_on(moved.to_branch)} now{moves}"


def _on(branch: str | None) -> str:
    return "on no branch" if branch is None else f"on {printable(branch)}"


# --- Where a run stood, and how it goes on, in words for people ---

_SETTLED = {
    "finished-restore": "finished the interrupted restore",
    "rolled-back-restore": "rolled the interrupted restore back",
}
_SHOWN = 10
# So much is shown of what a process was started by.
_COMMAND = 60


def settled_line(report: RecoverReport) -> str | None:
    """Return what became of an interrupted restore."""
    if report.interrupted_restore is None:
        return None
    beside = 0 if report.restored is None else len(report.restored.outcomes)
    counted = report.outcomes[: len(report.outcomes) - beside]
    return f"{_SETTLED[report.interrupted_restore]}: {report_counts(counted)}"


def cleared_line(report: RecoverReport) -> str | None:
    """Return which temporary names of earlier restores went."""
    if not report.cleared:
        return None
    what = "a temporary name" if len(report.cleared) == 1 else "temporary names"
    return f"cleared {what} of restores that are done: {paths_named(report.cleared)}"


def run_line(run: SessionReport, *, now: int, host: str | None = None) -> str:
    """Return what is known of a run that died, and of which ``host`` it is."""
    session = run.session
    of = f" of {host}" if host else ""
    goal = f" ({printable(session.goal)})" if session.goal else ""
    beat = f"last heartbeat {ago(session.heartbeat_at, now=now)}"
    return f"Session {session.id}{of}{goal}: {_why_ended(run)}; {beat}."


_LEFT = {
    "interrupted": "interrupted before it finished",
    "unfinished": "ended with tasks left",
    "error": "ended by an error",
    "rolled back": "taken back, and waits",
    "set aside": "left unfinished for another session",
}


def _why_ended(run: SessionReport) -> str:
    session = run.session
    if run.state == "ended":
        return f"ended ({session.ended_by})"
    if run.state == "active":
        return f"did not finish, its owner is {run.owner_state}"
    if session.ended_by in _LEFT:
        return _LEFT[session.ended_by]
    if session.owner.pid is None:
        why = "who was at work in it is gone" if run.owner_state == "dead" else "its lease ran out"
        return f"stopped without finishing, {why}"
    return f"stopped without finishing, process {session.owner.pid} is gone"


def owner(session: Session) -> str:
    """Return whose a session is."""
    who = session.owner
    if who.pid is None:
        return "owner not known"
    return f"process {who.pid} ({printable(who.command or '?')})"


def going_on(run: SessionReport, call: Call) -> str:
    """Return how to go on with a session that did not finish: its plan by itself, other work by hand."""
    if run.words:
        words = " ".join(quoted(word) for word in run.words)
        return (
            f"{'run the command again' if is_command(run.progress) else 'go on with its plan'}:"
            f" {call.command(words)}"
        )
    return f"go on, or end it: {call.command('recover')}"


def standing_lines(report: RecoverReport, *, now: int) -> Iterator[str]:
    """Yield where the work stands: tasks, steps of unknown effect, processes, git, files."""
    if report.progress.tasks and not is_command(report.progress):
        yield f"Tasks: {_tasks(report)}."
    # Of a host's turn is told what it was asked for; all that it did lies in the files.
    unknown = [one for one in report.unknown_effects if not _is_turn(one, report)]
    for effect in unknown[:_SHOWN]:
        yield f"Effect unknown: {effect_words(effect, now=now)}. Look before it is done again."
    yield from _further(unknown, "Effect unknown")
    for effect in report.irreversible[:_SHOWN]:
        yield f"Not taken back: {effect_words(effect, now=now)}."
    yield from _further(report.irreversible, "Not taken back")
    left = report.live_processes
    for living in left[:_SHOWN]:
        command = shortened(printable(living.command), _COMMAND)
        yield f"Still running: process {living.pid} ({command or '?'})."
    if left:
        yield f"  stop {'it' if len(left) == 1 else 'them'}: kill {' '.join(str(one.pid) for one in left)}"
    if report.head_moved is not None:
        words = _moved_words(report.head_moved)
        at = printable((report.head_moved.from_ or "none")[:12])
        yield f"{words[:1].upper()}{words[1:]} (then: {at})."
    if report.drift is not None and changes(report.drift) != "no changes":
        yield f"Changed since the checkpoint: {changes(report.drift)}."


def _is_turn(effect: Effect, report: RecoverReport) -> bool:
    run = report.session
    of_host = run is not None and not run.session.exclusive
    return of_host and effect.task is None and not effect.irreversible


def _further(effects: Sequence[Effect], what: str) -> Iterator[str]:
    """Yield what is said of those beyond the first few."""
    if len(effects) > _SHOWN:
        yield f"{what}: and {len(effects) - _SHOWN:,} more; --json names all."


def passed_over_lines(report: RecoverReport, call: Call) -> list[str]:
    """Return which nearer checkpoints a rollback passes over, and what may mend them."""
    hit = report.passed_over
    if not hit:
        return []
    some = ", ".join(map(short, hit[:_SHOWN])) + (f" and {len(hit) - _SHOWN} more" if hit[_SHOWN:] else "")
    done = "Passed over" if report.done != "review" else "A rollback passes over"
    return [
        f"{done}, as their files are damaged: {some}",
        f"  what can be mended: {call.command('verify --repair')}",
    ]


def _tasks(report: RecoverReport) -> str:
    words = []
    for state in ("done", "failed", "skipped", "running", "pending"):
        named = [printable(task.id) for task in report.progress.tasks if task.state == state]
        if named:
            shown = ", ".join(named[:_SHOWN]) + (", ..." if len(named) > _SHOWN else "")
            words.append(f"{len(named)} {state} ({shown})" if state != "done" else f"{len(named)} done")
    return ", ".join(words)


def recovering_line(report: RecoverReport, *, asked: bool) -> str | None:
    """Return the sentence that names the checkpoint."""
    checkpoint = report.checkpoint
    if checkpoint is None:
        return None
    if not asked and report.returned:
        return f"The workspace stands at checkpoint {called(checkpoint)}."
    if not asked:
        name = title(checkpoint)
        shown = f"{checkpoint.short_id} (auto)" if name == UNTITLED else f"{name} ({checkpoint.short_id})"
        return f"Recovering from most recent checkpoint {shown}."
    made = moment(checkpoint.manifest.created_at)
    return f"Recovering from checkpoint {checkpoint.short_id} ({title(checkpoint).strip('()')}, {made})."


def resuming_lines(report: RecoverReport, call: Call, *, verb: str) -> Iterator[str]:
    """Yield the position, and the artifacts in progress."""
    position = report.progress.position
    where = place(position)
    if where:
        yield f"{verb} {where}."
    if not report.artifacts and where:
        yield "No in-progress artifacts."
    for artifact in report.artifacts:
        yield artifact_line(artifact, report, call)


def artifact_line(artifact: Artifact, report: RecoverReport, call: Call) -> str:
    """Return what became of a path that was being worked on."""
    shown = printable(to_text(artifact.path))
    if artifact.state == "reloaded":
        return f"In-progress artifact {shown} reloaded."
    if artifact.state == "present":
        return f"In-progress artifact {shown} is in place."
    missing = f"In-progress artifact {shown} is missing"
    if report.checkpoint is None or report.session is None:
        return f"{missing}."
    path = typed_below(to_text(artifact.path), call, root=report.checkpoint.manifest.workspace)
    words = f"restore {report.checkpoint.short_id} -- {quoted(path)}"
    return f"{missing}; bring it back: {call.command(words)}"


def restored_line(report: RecoverReport) -> str | None:
    """Return what was brought back of a run's files."""
    if report.restored is None or report.checkpoint is None or report.rolled_back_to is None:
        return None
    if not any(one.result in {"restored", "removed"} for one in report.restored.outcomes):
        return f"No file was taken back: all are as in {called(report.checkpoint)}."
    counted = report_counts(report.restored.outcomes)
    return f"Files taken back to {called(report.checkpoint)}: {counted}."


def conversation_lines(report: RecoverReport, call: Call) -> list[str]:
    """Say what is kept of what a run that died said, and how its host goes on with it (rule P7c)."""
    said = report.conversation
    if said is None:
        return []
    whose = f" of {said.host}" if said.host else ""
    return [
        f"Conversation: {count(said.messages, 'message')}{whose}, from",
        f"  {printable(said.transcript)}",
        *(f"  {one}" for one in going_on_with(said, call, what="it")),
    ]


def going_on_with(said: LastConversation, call: Call, *, what: str) -> list[str]:
    """Return how a host goes on with a conversation; one that it no longer has is brought back first."""
    if said.readable:
        return [] if said.resume_command is None else [f"go on with {what}: {said.resume_command}"]
    gone = "its transcript is gone, or cannot be read"
    if said.checkpoint is None:
        return [f"{gone}, and no checkpoint holds it"]
    return [f"{gone}; bring it back: {call.command(f'restore {short(said.checkpoint)} --only conversation')}"]
