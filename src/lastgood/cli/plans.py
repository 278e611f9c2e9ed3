"""Restore plans and reports as text."""

from __future__ import annotations

from lastgood.cli.wording import count
from lastgood.model.report import counts_of, planned_outcomes
from lastgood.names import printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lastgood.model.plan import Outcome, RestorePlan, Step
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
    return ", ".join(words) if words else "nothing to do"


def plan_lines(plan: RestorePlan) -> list[str]:
    """Return every path of a plan with what would happen to it."""
    return [step_line(step) for step in plan.steps]


def step_line(step: Step) -> str:
    """Return what would happen to one path, and why where that is not plain."""
    word: str = step.action
    if step.action == "write":
        word = "create" if step.have is None else "change"
    reason = f"  ({printable(step.reason)})" if step.reason else ""
    return f"  {word:7} {printable(to_text(step.path))}{reason}"


def shortened_plan(plan: RestorePlan) -> list[str]:
    """Return the first paths of a plan, for a question."""
    touching = plan.of("delete", "write", "mkdir", "rmdir", "chmod")
    lines = [step_line(step) for step in touching[:_SHOWN]]
    if len(touching) > _SHOWN:
        lines.append(f"  and {len(touching) - _SHOWN:,} more (all of them: --dry-run)")
    return lines


def remarks(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the lines for what was kept, skipped or failed, and why (rule T10)."""
    said = [one for one in outcomes if one.result in {"kept", "skipped", "failed"}]
    said.sort(key=lambda one: ("failed", "skipped", "kept").index(one.result))
    lines = []
    for one in said[:_SHOWN]:
        reason = f" ({printable(one.reason)})" if one.reason else ""
        lines.append(f"  {one.result:7} {printable(to_text(one.path))}{reason}")
    if len(said) > _SHOWN:
        lines.append(f"  and {len(said) - _SHOWN:,} more (all of them: --json)")
    return lines


def head_line(report: RestoreReport) -> str | None:
    """Return what to say about a HEAD that is not where it was (rule T9)."""
    moved = report.head_moved
    if moved is None or moved.from_ == moved.to:
        return None
    way = "" if moved.commits is None else f" by {count(moved.commits, 'commit')}"
    return f"HEAD has moved{way} since that checkpoint and stays where it is"
