"""task, feature, sprint: tell what starts and ends (rule P2)."""

from __future__ import annotations

from lastgood.cli import values
from lastgood.cli.opening import open_at_work, open_existing
from lastgood.cli.progress import Progress
from lastgood.cli.wording import called
from lastgood.codec.report.working import progress_document
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call
    from lastgood.model.report import SaveReport
    from lastgood.model.working import ProgressReport
    from lastgood.workspace import Workspace

_OMISSIONS = 3
_TAKES = {
    ("task", "start"): frozenset({"risky", "irreversible"}),
    ("task", "fail"): frozenset({"reason"}),
}
_SAYS = {
    ("task", "start"): "started task",
    ("task", "done"): "completed task",
    ("task", "fail"): "recorded the failure of task",
    ("task", "skip"): "skipped task",
    ("feature", "start"): "started feature",
    ("feature", "done"): "completed feature",
    ("sprint", "start"): "started sprint",
    ("sprint", "done"): "completed sprint",
}


def carry_out(call: Call, console: Console) -> int:
    """Record it, and tell of the checkpoint that came of it."""
    verb, (action, id) = call.verb.name, call.arguments
    values.only(call, takes=_TAKES.get((verb, action), frozenset()))
    opened = open_existing if action in {"done", "fail"} else open_at_work
    with opened(call) as workspace, Progress(console, "saving"):
        report = _carried_out(workspace, call)
    if console.json:
        console.document(progress_document(verb, report))
    elif not console.quiet:
        attempt = f", attempt {report.task.attempts}" if report.task and action == "start" else ""
        console.line(f"{_SAYS[verb, action]} {printable(id)}{attempt}{_where(report)}")
        tell_saved(report, console)
    return _OMISSIONS if report.saved is not None and report.saved.new_gaps else 0


def _carried_out(workspace: Workspace, call: Call) -> ProgressReport:
    verb, (action, id) = call.verb.name, call.arguments
    if verb == "task" and action == "start":
        return workspace.task_start(id, risky=call.has("risky"), irreversible=call.has("irreversible"))
    if verb == "task" and action == "fail":
        return workspace.task_fail(id, reason=call.text("reason") or "")
    carried_out = {
        ("task", "done"): workspace.task_done,
        ("task", "skip"): workspace.task_skip,
        ("feature", "start"): workspace.feature_start,
        ("feature", "done"): workspace.feature_done,
        ("sprint", "start"): workspace.sprint_start,
        ("sprint", "done"): workspace.sprint_done,
    }
    return carried_out[verb, action](id)


def _where(report: ProgressReport) -> str:
    return "" if report.session is None else f" in session {report.session}"


def tell_saved(report: ProgressReport, console: Console) -> None:
    """Tell of the checkpoint that came of a change of progress, and of steps with an unknown end."""
    for effect in report.unknown:
        console.warn(
            f"nobody saw the end of attempt {effect.attempt} of {printable(effect.name)}:"
            " its effect is unknown"
        )
    if report.saved is None:
        return
    said = "checkpoint" if report.saved.created else "unchanged since"
    console.line(f"{said} {called(report.saved.checkpoint)}")
    tell_lacks(report.saved, console)


def tell_lacks(saved: SaveReport, console: Console) -> None:
    """Tell what a checkpoint that came by itself does not hold (rule S7)."""
    for note in saved.notes:
        console.warn(printable(note.message))
    if saved.new_gaps:
        shown = saved.checkpoint.short_id
        console.warn(f"it has gaps that the one before it had not: lastgood show {shown}")
