"""Where a run stood, and how it goes on, in words for people."""

from __future__ import annotations

from lastgood.cli.grammar import quoted
from lastgood.cli.plans import report_counts
from lastgood.cli.wording import ago, called, changes, count, moment, place, title
from lastgood.names import printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.cli.grammar import Call
    from lastgood.model.effect import Effect
    from lastgood.model.recovery import Artifact, RecoverReport
    from lastgood.model.session import SessionReport

_SETTLED = {
    "finished-restore": "finished the interrupted restore",
    "rolled-back-restore": "rolled the interrupted restore back",
}
_SHOWN = 10


def settled_line(report: RecoverReport) -> str | None:
    """Return what became of an interrupted restore."""
    if report.interrupted_restore is None:
        return None
    beside = 0 if report.restored is None else len(report.restored.outcomes)
    counted = report.outcomes[: len(report.outcomes) - beside]
    return f"{_SETTLED[report.interrupted_restore]}: {report_counts(counted)}"


def run_lines(run: SessionReport, *, now: int) -> Iterator[str]:
    """Yield what is known of a run that died."""
    session = run.session
    goal = f" ({printable(session.goal)})" if session.goal else ""
    beat = f"last heartbeat {ago(session.heartbeat_at, now=now)}"
    yield f"Session {session.id}{goal}: {_why(run)}; {beat}."


def _why(run: SessionReport) -> str:
    session = run.session
    if run.state != "incomplete":
        return {"active": "active again"}.get(run.state, f"ended ({session.ended_by})")
    if session.ended_by == "interrupted":
        return "interrupted before it finished"
    if session.owner.pid is None:
        return "stopped without finishing, its lease ran out"
    return f"stopped without finishing, process {session.owner.pid} is gone"


def going_on(run: SessionReport, call: Call) -> str:
    """Return how to go on with a session that did not finish: its plan by itself, other work by hand."""
    if run.words:
        words = " ".join(quoted(word) for word in run.words)
        return f"go on with its plan: {call.command(words)}"
    return f"go on, or end it: {call.command('recover')}"


def standing_lines(report: RecoverReport, *, now: int) -> Iterator[str]:
    """Yield where the work stands: tasks, steps of unknown effect, processes, git, files."""
    if report.progress.tasks:
        yield f"Tasks: {_tasks(report)}."
    for effect in report.unknown_effects:
        yield f"Effect unknown: {effect_words(effect, now=now)}. Look before it is done again."
    for effect in report.irreversible:
        yield f"Not taken back: {effect_words(effect, now=now)}."
    for living in report.live_processes[:_SHOWN]:
        yield f"Still running: process {living.pid} ({printable(living.command) or '?'})."
    moved = report.head_moved
    if moved is not None:
        how = "is another one" if moved.commits is None else f"has moved by {count(moved.commits, 'commit')}"
        yield f"HEAD {how} since the checkpoint ({printable((moved.from_ or 'none')[:12])})."
    if report.drift is not None and changes(report.drift) != "no changes":
        yield f"Changed since the checkpoint: {changes(report.drift)}."


def _tasks(report: RecoverReport) -> str:
    words = []
    for state in ("done", "failed", "skipped", "running", "pending"):
        named = [printable(task.id) for task in report.progress.tasks if task.state == state]
        if named:
            shown = ", ".join(named[:_SHOWN]) + (", ..." if len(named) > _SHOWN else "")
            words.append(f"{len(named)} {state} ({shown})" if state != "done" else f"{len(named)} done")
    return ", ".join(words)


def effect_words(effect: Effect, *, now: int) -> str:
    """Return a step of the work in words."""
    of = f" of task {printable(effect.task)}" if effect.task and effect.task != effect.name else ""
    what = "task" if effect.task == effect.name else "step"
    marked = ", irreversible" if effect.irreversible else ""
    return f"{what} {printable(effect.name)}{of}{marked}, started {ago(effect.started_at, now=now)}"


def recovering_line(report: RecoverReport, *, asked: bool) -> str | None:
    """Return the sentence that names the checkpoint."""
    checkpoint = report.checkpoint
    if checkpoint is None:
        return None
    if not asked and report.returned:
        return f"The workspace stands at checkpoint {called(checkpoint)}."
    if not asked:
        name = title(checkpoint)
        shown = f"{checkpoint.short_id} (auto)" if name == "(auto)" else f"{name} ({checkpoint.short_id})"
        return f"Recovering from most recent checkpoint {shown}."
    made = moment(checkpoint.manifest.created_at)
    return f"Recovering from checkpoint {checkpoint.short_id} ({title(checkpoint).strip('()')}, {made})."


def resuming_lines(report: RecoverReport, *, verb: str) -> Iterator[str]:
    """Yield the position, and the artifacts in progress."""
    position = report.progress.position
    where = place(position)
    if where:
        yield f"{verb} {where}."
    if not report.artifacts and where:
        yield "No in-progress artifacts."
    for artifact in report.artifacts:
        yield artifact_line(artifact, report)


def artifact_line(artifact: Artifact, report: RecoverReport) -> str:
    """Return what became of a path that was being worked on."""
    shown = printable(to_text(artifact.path))
    if artifact.state == "reloaded":
        return f"In-progress artifact {shown} reloaded."
    if artifact.state == "present":
        return f"In-progress artifact {shown} is in place."
    back = ""
    if report.checkpoint is not None and report.session is not None:
        back = f" (bring it back: lastgood restore {report.checkpoint.short_id} -- {shown})"
    return f"In-progress artifact {shown} is missing{back}."


def restored_line(report: RecoverReport) -> str | None:
    """Return what was brought back of a run's files."""
    if report.restored is None or report.checkpoint is None or report.done != "continue":
        return None
    counted = report_counts(report.restored.outcomes)
    return f"Files taken back to {called(report.checkpoint)}: {counted}."
