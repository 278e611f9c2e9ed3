"""recover: finish what was interrupted, and go on where work stood (rules T7, P7)."""

from __future__ import annotations

import time

from lastgood.cli import opening
from lastgood.cli.grammar import quoted
from lastgood.cli.opening import DECLINED, OMISSIONS, ProgressLine, open_for
from lastgood.cli.plans import (
    artifact_line,
    conversation_lines,
    going_on,
    owner,
    recovering_line,
    remarks,
    restored_line,
    resuming_lines,
    run_lines,
    settled_line,
    standing_lines,
)
from lastgood.cli.restoring import files_before, many_agreed
from lastgood.cli.wording import moment, path_text
from lastgood.errors import Usage
from lastgood.model.run import CHOICES
from lastgood.paths import printable
from lastgood.restore.plan import too_many_deletions
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.run import Choice, RecoverReport
    from lastgood.model.session import Session
    from lastgood.workspace import Workspace

_ANSWERS: dict[str, Choice] = {"c": "continue", "continue": "continue", "f": "fresh", "fresh": "fresh"}
_BACK = frozenset({"b", "back", "rollback"})
_SHOWN = 10


def recover_verb(call: Call, console: Console) -> int:
    """Recover; on a terminal a person is asked what to do about a run that died."""
    ref, choice = call.argument(0), _choice(call)
    pid = opening.number_option(call, "owner-pid")
    back = call.has("rollback")
    with open_for(call) as workspace:
        if choice is None and not back and console.can_ask:
            answer = _asked(ref, call, console, workspace=workspace)
            if answer is None:
                console.warn("nothing was changed")
                return DECLINED
            ref, choice, back = answer
        if back and not _consented(ref, call, console, workspace=workspace):
            return DECLINED
        with ProgressLine(console, "recovering"):
            report = workspace.recover(
                ref,
                choice=choice,
                roll_back=back,
                owner_pid=pid,
                force=call.has("force"),
            )
    if not console.answer("recover", report):
        _tell(report, call, console)
    return OMISSIONS if report.omissions else 0


def _choice(call: Call) -> Choice | None:
    choice = opening.one_of(call, *CHOICES)
    if call.has("rollback") and choice in {"fresh", "review"}:
        raise Usage(f"--{choice} changes no file: --rollback does not go with it", hint="leave one out")
    if call.has("force") and choice in {"fresh", "review"}:
        raise Usage(f"--{choice} disturbs no other session: it needs no --force", hint="leave one out")
    return cast("Choice | None", choice)


def _asked(
    ref: str | None, call: Call, console: Console, *, workspace: Workspace
) -> tuple[str | None, Choice | None, bool] | None:
    """Return what to recover, what to do about it, and whether to take files back, as a person answers.

    None if they would rather not.
    """
    report = workspace.recover(ref, choice="review")
    if report.session is None:
        return ref, None, False
    if ref is None and report.waiting:
        ref = _picked(report, console)
        if ref is None:
            return None
        report = workspace.recover(ref, choice="review")
    _review(report, call, console)
    answer = console.ask("[c]ontinue, take files [b]ack, start [f]resh, Enter to quit: ").lower()
    if answer not in _BACK and answer not in _ANSWERS:
        return None
    return ref, _ANSWERS.get(answer), answer in _BACK


def settled_before_start(
    workspace: Workspace, call: Call, console: Console, *, owner_pid: int | None
) -> int | None:
    """Ask what becomes of a session that did not finish before another one starts; None if that may start."""
    report = workspace.recover(choice="review")
    run = report.session
    if run is None or run.state != "incomplete":
        return None
    for line in run_lines(run, now=time.time_ns()):
        console.warn(line)
    while True:
        answer = console.ask("[c]ontinue it, start [f]resh, [r]eview, Enter to quit: ").lower()
        choice = _ANSWERS.get(answer)
        if answer in {"r", "review"}:
            _review(report, call, console)
        elif choice is None:
            console.warn("nothing was changed")
            return DECLINED
        else:
            break
    _tell(workspace.recover(run.id, choice=choice, owner_pid=owner_pid), call, console)
    return 0 if choice == "continue" else None


def _consented(ref: str | None, call: Call, console: Console, *, workspace: Workspace) -> bool:
    """Tell whether files may be taken back: the option says so, unless very many would go (T16)."""
    report = workspace.recover(ref, choice="review", roll_back=True, force=call.has("force"))
    if report.state == "interrupted" or report.rolled_back_to is None:
        return True
    _tell_edited(report, console)
    target = workspace.get(report.rolled_back_to)
    plan = workspace.plan_restore(target.id, only=("files",), force=True)
    return not too_many_deletions(plan.steps, files_before(plan, target)) or many_agreed(plan, call, console)


def _picked(report: RecoverReport, console: Console) -> str | None:
    assert report.session is not None
    runs = (report.session, *report.waiting)
    for number, run in enumerate(runs, 1):
        for line in run_lines(run, now=time.time_ns()):
            console.warn(f"{number:3}  {line}")
    answer = console.ask("Which one? A number, Enter to quit: ")
    if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(runs):
        return runs[int(answer) - 1].id
    return None


def _tell(report: RecoverReport, call: Call, console: Console) -> None:
    settled = settled_line(report)
    if settled is not None:
        console.line(settled)
    for line in remarks(report.outcomes):
        console.warn(line)
    if report.done == "review":
        _review(report, call, console)
    elif report.session is None:
        _tell_position(report, call, console)
    elif report.done == "fresh":
        _tell_fresh(report, call, console)
    else:
        _tell_continued(report, call, console)


def _tell_position(report: RecoverReport, call: Call, console: Console) -> None:
    """Say where the work stood: nothing died, or nothing that is meant."""
    if report.beside is not None:
        _tell_living(report, report.beside, call, console)
        return
    if report.interrupted_restore is None and not (report.waiting or report.elsewhere):
        console.note("nothing was interrupted")
    line = recovering_line(report, asked=call.argument(0) is not None)
    for note in report.elsewhere:
        console.line(printable(note.message))
        console.note(f"  {printable(note.hint)}")
    if line is None and report.elsewhere:
        return
    if line is None:
        console.line(f"no checkpoint yet; make the first: {call.command('save')}")
        return
    console.line(line)
    _tell_back(report, console)
    console.lines((*resuming_lines(report, verb="Resuming"), *standing_lines(report, now=time.time_ns())))
    console.lines(conversation_lines(report))
    if report.operation is not None:
        what = "reloading" if report.rolled_back_to is None else "files"
        console.note(f"take the {what} back with: {call.command('undo')}")
    _tell_waiting(report, call, console)
    console.line("Ready to continue.")


def _tell_living(report: RecoverReport, living: Session, call: Call, console: Console) -> None:
    """Say who is at work: whoever recovers then has mistaken the moment, or waits for it to end."""
    goal = f" ({printable(living.goal)})" if living.goal else ""
    console.line(f"Session {living.id}{goal} is at work: {owner(living)}, since {moment(living.started_at)}.")
    for artifact in report.artifacts:
        console.line(artifact_line(artifact, report))
    if report.operation is not None:
        console.note(f"take the reloading back with: {call.command('undo')}")
    _tell_waiting(report, call, console)
    console.line("There is nothing to recover.")
    console.note(f"see what it does: {call.command('status')}")


def _tell_fresh(report: RecoverReport, call: Call, console: Console) -> None:
    run = report.session
    assert run is not None
    console.line(f"Session {run.id} was ended; its checkpoints stay, and no file was touched.")
    console.lines(standing_lines(report, now=time.time_ns()))
    console.lines(conversation_lines(report))
    goal = "" if run.session.goal is None else f" --goal {quoted(printable(run.session.goal))}"
    console.line(f"Start anew from the present files: {call.command(f'session start{goal}')}")


def _tell_back(report: RecoverReport, console: Console) -> None:
    """Say where files were taken back to, and what has to be done again."""
    back = restored_line(report)
    if back is not None:
        console.line(back)
    if report.undone_tasks:
        shown = ", ".join(printable(one) for one in report.undone_tasks[:_SHOWN])
        more = f" and {len(report.undone_tasks) - _SHOWN} more" if len(report.undone_tasks) > _SHOWN else ""
        console.line(f"To be done again, as they were done after it: {shown}{more}.")


def _tell_edited(report: RecoverReport, console: Console) -> None:
    """Name what somebody may have changed after the run had died, before it is taken back."""
    if not report.edited:
        return
    console.warn("Changed after the run's last sign of life, and taken back too (undo brings it back):")
    for path in report.edited[:_SHOWN]:
        console.warn(f"  {path_text(path)}")
    if len(report.edited) > _SHOWN:
        console.warn(f"  and {len(report.edited) - _SHOWN:,} more")


def _tell_continued(report: RecoverReport, call: Call, console: Console) -> None:
    run = report.session
    assert run is not None
    line = recovering_line(report, asked=_names_checkpoint(call))
    if line is not None:
        console.line(line)
    _tell_back(report, console)
    console.lines(conversation_lines(report))
    console.lines((*resuming_lines(report, verb="Resuming"), *standing_lines(report, now=time.time_ns())))
    if report.took_over is not None:
        console.warn(f"took over from {report.took_over.id}: {owner(report.took_over)}")
    active = f"Session {run.id} is active again"
    if run.words:
        console.line(f"{active}; {going_on(run, call)}")
    else:
        console.line(f"{active}: export LASTGOOD_SESSION={run.id}")
    if report.operation is not None:
        console.note(f"take the files back with: {call.command('undo')}")
    _tell_waiting(report, call, console)
    console.line("Ready to continue.")


def _review(report: RecoverReport, call: Call, console: Console) -> None:
    """Say where a run stood, and what can be done."""
    now = time.time_ns()
    if report.state == "interrupted":
        console.line(f"A restore was interrupted; finish it: {call.command('recover')}")
    if report.session is None and report.beside is not None:
        _tell_living(report, report.beside, call, console)
        return
    if report.session is None:
        console.line("No run died.")
    else:
        console.lines(run_lines(report.session, now=now))
    if report.checkpoint is not None:
        console.line(f"Checkpoint {report.checkpoint.short_id}, {report.checkpoint.kind}.")
    console.lines((*resuming_lines(report, verb="It stood at"), *standing_lines(report, now=now)))
    console.lines(conversation_lines(report))
    if report.session is not None:
        id = report.session.id
        by_plan = going_on(report.session, call) if report.session.words else None
        console.note(by_plan or f"go on: {call.command(f'recover {id} --continue')}")
        console.note(f"take its files back: {call.command(f'recover {id} --rollback')}")
        console.note(f"give it up: {call.command(f'recover {id} --fresh')}")
    _tell_waiting(report, call, console)


def _tell_waiting(report: RecoverReport, call: Call, console: Console) -> None:
    for run in report.waiting:
        goal = f" ({printable(run.session.goal)})" if run.session.goal else ""
        console.note(f"session {run.id}{goal} did not finish: {call.command(f'recover {run.id}')}")


def _names_checkpoint(call: Call) -> bool:
    ref = call.argument(0)
    return ref is not None and not ref.startswith("sess_")
