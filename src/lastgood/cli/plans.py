"""Restore plans and reports as text."""

from __future__ import annotations

from lastgood.cli.wording import count, path_text
from lastgood.codec.canonical import Fields
from lastgood.model.plan import DISCARDED, NOT_BACK
from lastgood.model.report import MARKED, counts_of, planned_outcomes
from lastgood.names import printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.effect import Effect
    from lastgood.model.part import PartOutcome
    from lastgood.model.plan import Outcome, RestorePlan, Step
    from lastgood.model.progress import Progress
    from lastgood.model.report import RestoreReport

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
# Reasons that are told although all went well.
_TOLD = frozenset({MARKED, DISCARDED, NOT_BACK})
_PARTS = {"progress": "progress", "conversation": "conversation", "git": "HEAD and index"}
_SHOWN = 20


def plan_counts(plan: RestorePlan) -> str:
    """Return in words what a plan will do."""
    return _phrase(counts_of(planned_outcomes(plan)), done=False)


def report_counts(outcomes: Iterable[Outcome]) -> str:
    """Return in words what was done."""
    return _phrase(counts_of(outcomes), done=True)


def _phrase(counts: Mapping[str, int], *, done: bool) -> str:
    words = []
    for action, noun, phrase in _PHRASES:
        if counts[action]:
            words.append(f"{count(counts[action], noun)} {_DONE.get(phrase, phrase) if done else phrase}")
    if counts["fail"]:
        words.append(f"{count(counts['fail'], 'path')} FAILED")
    return ", ".join(words) if words else "no files"


def plan_lines(plan: RestorePlan) -> list[str]:
    """Return every path of a plan with what would happen to it."""
    return [step_line(step) for step in plan.steps]


def step_line(step: Step) -> str:
    """Return what would happen to one path, and why where that is not plain."""
    word: str = step.action
    if step.action == "write":
        word = "create" if step.have is None else "change"
    reason = f"  ({printable(step.reason)})" if step.reason else ""
    return f"  {word:7} {path_text(step.path)}{reason}"


def shortened_plan(plan: RestorePlan) -> list[str]:
    """Return the first paths of a plan, for a question."""
    touching = plan.of("delete", "write", "mkdir", "rmdir", "chmod")
    lines = [step_line(step) for step in touching[:_SHOWN]]
    if len(touching) > _SHOWN:
        lines.append(f"  and {len(touching) - _SHOWN:,} more (all of them: --dry-run)")
    return lines


def remarks(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the lines for what was kept, skipped, failed or marked, and why (rule T10)."""
    said = [one for one in outcomes if one.result in _REMARKED or one.reason in _TOLD or _stays(one)]
    said.sort(key=lambda one: _REMARKED.index(one.result) if one.result in _REMARKED else 1)
    lines = []
    for one in said[:_SHOWN]:
        reason = f" ({printable(one.reason)})" if one.reason else ""
        lines.append(f"  {one.result:7} {path_text(one.path)}{reason}")
    if len(said) > _SHOWN:
        lines.append(f"  and {len(said) - _SHOWN:,} more (all of them: --json)")
    if any(one.left is not None for one in outcomes):
        lines.append("  saves leave out what is left; when it can be changed, clear it: lastgood recover")
    return lines


def _stays(outcome: Outcome) -> bool:
    """Tell whether something of a path is somewhere else now (rule T12b)."""
    return outcome.kept is not None or outcome.left is not None


def beside_lines(report: RestoreReport, target: Checkpoint) -> list[str]:
    """Return what to say of a restore beside its files: parts, steps it does not take back, HEAD."""
    lines = []
    for part in report.parts:
        lines += part_lines(part, target.manifest.progress)
    said = None if report.conversation is None else report.conversation.get("note")
    if said and not any(part.scope == "conversation" for part in report.parts):
        lines.append(f"conversation: {printable(str(said))}")
    lines += [_irreversible(effect) for effect in report.irreversible]
    moved = _head_line(report)
    return lines if moved is None else [*lines, moved]


def part_lines(part: PartOutcome, then: Progress | None = None) -> list[str]:
    """Return what becomes, or became, of one part beside files; ``then`` is the progress it leads to."""
    lines = [f"{_PARTS[part.scope]}: {_part_words(part, then)}"]
    details = part.details
    if part.result != "kept" and "resume_command" in details:
        lines.append(f"  go on with it: {printable(str(details['resume_command']))}")
    if isinstance(details.get("kept"), str):
        lines.append(f"  the HEAD before is kept as {printable(str(details['kept']))}")
    remark = part.reason or details.get("note")
    if remark is not None:
        lines.append(f"  {printable(str(remark))}")
    return lines


def _part_words(part: PartOutcome, then: Progress | None) -> str:
    if part.result in {"kept", "failed"}:
        return "left as it is" if part.result == "kept" else "FAILED"
    planned, details = part.result == "planned", part.details
    if part.scope == "conversation" and "transcript" in details:
        where = printable(to_text(Fields(dict(details), what="a report").path("transcript")))
        if "resume_command" not in details:
            return f"took {where} away again"
        return f"{'will be written' if planned else 'written'} to {where}"
    words = "will be put back" if planned else "put back"
    if part.scope == "progress" and then is not None:
        return f"{words} ({progress_words(then)})"
    if part.scope == "git" and planned:
        return f"{words} ({_head_words(details)})"
    return words


def _head_words(details: Mapping[str, object]) -> str:
    commit, branch = details.get("commit"), details.get("branch")
    where = "before the first commit" if commit is None else f"at {str(commit)[:12]}"
    return f"{where}, detached" if branch is None else f"{where} on {printable(_named(str(branch)))}"


def _named(branch: str) -> str:
    return branch.removeprefix("refs/heads/")


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
    return ", ".join(words) or "nothing done yet"


def _irreversible(effect: Effect) -> str:
    what = printable(effect.name)
    if effect.state == "done":
        return f"not taken back: {what} was done since, and cannot be undone"
    return f"not taken back: {what} was begun since; whether it had its effect is not known"


def _head_line(report: RestoreReport) -> str | None:
    """Return what to say about a HEAD that is not where it was (rule T9)."""
    moved = report.head_moved
    if moved is None or moved.from_ == moved.to or any(part.scope == "git" for part in report.parts):
        return None
    way = "" if moved.commits is None else f" by {count(moved.commits, 'commit')}"
    return f"HEAD has moved{way} since that checkpoint and stays where it is"
