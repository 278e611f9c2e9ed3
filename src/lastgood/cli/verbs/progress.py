"""progress: say or show how far the work has come (rule P2)."""

from __future__ import annotations

from lastgood.cli import values
from lastgood.cli.columns import pairs
from lastgood.cli.opening import open_at_work, open_existing
from lastgood.cli.progress import Progress
from lastgood.cli.verbs.task import tell_saved
from lastgood.cli.wording import artifacts, place, where_it_stands
from lastgood.codec.canonical import dumps
from lastgood.codec.report.working import progress_document
from lastgood.errors import Usage
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call
    from lastgood.model.progress import Progress as Record
    from lastgood.model.working import ProgressReport

_SET = frozenset({"goal", "phase", "iteration", "step", "artifact", "no-artifacts", "state"})
_OMISSIONS = 3


def carry_out(call: Call, console: Console) -> int:
    """Set what is given, or show what is known."""
    if call.argument(0) != "set":
        values.only(call, takes=frozenset())
        return _show(call, console)
    values.only(call, takes=_SET)
    if not _SET.intersection(call.options):
        raise Usage("`progress set` sets nothing", hint="give for example --phase Construction --step 12/15")
    step, steps = _step(call)
    with open_at_work(call) as workspace, Progress(console, "saving"):
        report = workspace.progress_set(
            goal=call.text("goal"),
            phase=call.text("phase"),
            iteration=values.count_option(call, "iteration"),
            step=step,
            steps=steps,
            artifacts=_artifacts(call),
            state=_state(call),
        )
    if console.json:
        console.document(progress_document("progress", report))
    elif not console.quiet:
        console.line(where_it_stands(report.progress.position) or "Recorded.")
        tell_saved(report, console)
    return _OMISSIONS if report.saved is not None and report.saved.new_gaps else 0


def _show(call: Call, console: Console) -> int:
    with open_existing(call) as workspace:
        report = workspace.progress_report()
    if console.json:
        console.document(progress_document("progress", report))
        return 0
    facts = _facts(report)
    if not facts:
        console.note(f"no progress recorded; say for example: {call.command('task start T01')}")
    for line in pairs(facts, limit=console.columns()):
        console.line(line)
    return 0


def _facts(report: ProgressReport) -> list[tuple[str, str]]:
    if report.progress.empty:
        return []
    facts = [] if report.session is None else [("session", report.session)]
    return facts + progress_facts(report.progress)


def progress_facts(progress: Record) -> list[tuple[str, str]]:
    """Return how far work has come, as names and values."""
    facts = []
    if progress.goal is not None:
        facts.append(("goal", printable(progress.goal)))
    if place(progress.position):
        facts.append(("position", place(progress.position)))
    if progress.position.artifacts:
        facts.append(("in progress", artifacts(progress.position)))
    return facts + _counted(progress)


def _counted(progress: Record) -> list[tuple[str, str]]:
    facts = []
    for index, task in enumerate(progress.tasks):
        again = f", attempt {task.attempts}" if task.attempts > 1 else ""
        facts.append(("" if index else "tasks", f"{task.id}  {task.state}{again}"))
    if progress.features.current is not None:
        facts.append(("feature", printable(progress.features.current)))
    if progress.features.completed:
        facts.append(("completed", ", ".join(printable(one) for one in progress.features.completed)))
    if progress.state:
        facts.append(("state", dumps(dict(progress.state)).decode("ascii")))
    return facts


def _step(call: Call) -> tuple[int | None, int | None]:
    """Return ``12/15`` as two numbers."""
    text = call.text("step")
    if text is None:
        return None, None
    step, slash, steps = text.partition("/")
    numbers = (step, steps) if slash else (step,)
    if not all(one.isascii() and one.isdigit() and len(one) <= 9 for one in numbers):
        raise Usage(f"--step takes N or N/M, not '{printable(text)}'", hint="for example --step 12/15")
    return int(step), int(steps) if slash else None


def _artifacts(call: Call) -> tuple[str, ...] | None:
    if call.has("no-artifacts"):
        if call.has("artifact"):
            raise Usage("--artifact and --no-artifacts contradict each other", hint="give one of them")
        return ()
    return call.texts("artifact") or None


def _state(call: Call) -> Mapping[str, object] | None:
    text = call.text("state")
    if text is None:
        return None
    import json  # lazily: only this option pays for it

    hint = """write for example --state '{"retries": 2}'"""
    try:
        made = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Usage(f"--state is not JSON ({error})", hint=hint) from None
    if not isinstance(made, dict):
        raise Usage("--state is not a JSON object", hint=hint)
    return made
