"""recover: finish what was interrupted, and go on where work stood (rules T7, P7)."""

from __future__ import annotations

import time

from lastgood.cli import opening
from lastgood.cli.grammar import Verb
from lastgood.cli.opening import DECLINED, NO_ANSWER, OMISSIONS, ProgressLine, open_for
from lastgood.cli.plans import (
    at_work_lines,
    cleared_line,
    conversation_lines,
    going_on,
    not_held_lines,
    owner,
    passed_over_lines,
    plan_counts,
    recovering_line,
    remarks,
    restored_line,
    resuming_lines,
    settled_line,
    shortened_plan,
    standing_lines,
)
from lastgood.cli.references import is_path
from lastgood.cli.restoring import agreed, kept_lines, many_agreed, tell_steps
from lastgood.cli.table import verb_of
from lastgood.cli.unfinished import (
    ended_line,
    host_of,
    known_of,
    last_turn,
    review,
    settled,
    tell_elsewhere,
    tell_living,
    tell_waiting,
    way_back,
)
from lastgood.cli.wording import called, path_text, paths_named, quoted_words
from lastgood.errors import Invalid, NotFound, Usage
from lastgood.model.run import CHOICES
from lastgood.model.session import is_command
from lastgood.paths import printable, quoted
from lastgood.restore.plan import takes_many_away
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.literals import Choice
    from lastgood.model.run import RecoverReport
    from lastgood.model.session import SessionReport
    from lastgood.workspace import Workspace

_ANSWERS: dict[str, Choice] = {
    **dict.fromkeys(("c", "continue"), "continue"),
    **dict.fromkeys(("e", "end", "f", "fresh"), "fresh"),
}
# With these a path that somebody wants recovered is restored as well.
_PLACES = frozenset({"directory", "store", "allow-root", "set", "quiet"})
_BACK = frozenset({"b", "back", "rollback"})
_REWIND = frozenset({"r", "rewind"})
_SHOWN = 10


def recover_verb(call: Call, console: Console) -> int:
    """Recover; who names a path is shown how that is restored, or told."""
    try:
        return _recover(call, console)
    except (NotFound, Invalid) as error:
        path = call.argument(0)
        if path is None or not _is_path(path, call):
            raise
        if not console.can_ask or set(call.options) - _PLACES:
            hint = f"to bring it back: {call.command(f'restore {quoted(path)}')}\n{error.hint}"
            raise type(error)(
                f"'{printable(path)}' is a path, and `recover` takes a checkpoint or a session",
                hint=hint,
                details=error.details,
            ) from error
    from lastgood.cli.verbs.restore import restore_verb

    return restore_verb(call.replace(verb=cast("Verb", verb_of("restore"))), console)


def _is_path(word: str, call: Call) -> bool:
    with open_for(call) as workspace:
        return is_path(word, call, workspace)


def _recover(call: Call, console: Console) -> int:
    """Recover; on a terminal a person is asked what to do about a run that died."""
    ref, choice = call.argument(0), _choice(call)
    pid = opening.number_option(call, "owner-pid")
    back, is_asked = call.has("rollback"), False
    with open_for(call) as workspace:
        if choice is None and not back and console.can_ask:
            answer = _asked(ref, call, console, workspace=workspace)
            if answer is None:
                console.warn("nothing was changed")
                return DECLINED
            if isinstance(answer, Verb):
                return _rewound(answer, call, console)
            ref, choice, back = answer
            is_asked = back
        with ProgressLine(console, "recovering") as progress:

            def agree(preview: RecoverReport) -> None:
                progress.end()
                _demand_consent(preview, call, console, workspace=workspace, is_asked=is_asked)

            try:
                report = workspace.recover(
                    ref, choice=choice, roll_back=back, owner_pid=pid, force=call.has("force"), consent=agree
                )
            except _Declined:
                return DECLINED
        host = None if report.session is None else host_of(report.session.session, workspace)
        if not console.answer("recover", report):
            _tell(report, call, console, workspace=workspace, host=host, is_asked=is_asked)
    lacking = any(one.omission for one in report.not_held)
    return OMISSIONS if report.omissions or lacking else 0


def _choice(call: Call) -> Choice | None:
    choice = opening.one_of(call, *CHOICES)
    if call.has("rollback") and choice in {"fresh", "review"}:
        raise Usage(f"--{choice} changes no file: --rollback does not go with it", hint="leave one out")
    if call.has("force") and choice in {"fresh", "review"}:
        raise Usage(f"--{choice} disturbs no other session: it needs no --force", hint="leave one out")
    return cast("Choice | None", choice)


def _rewound(verb: Verb, call: Call, console: Console) -> int:
    """Go back by turns instead, as `rewind` does: pick one, look, and agree."""
    from lastgood.cli.verbs.restore import rewind_verb

    places = {name: given for name, given in call.options.items() if name in _PLACES}
    return rewind_verb(call.replace(verb=verb, arguments=(), options=places), console)


def _asked(
    ref: str | None, call: Call, console: Console, *, workspace: Workspace
) -> tuple[str | None, Choice | None, bool] | Verb | None:
    """Return what to recover, what to do about it, and whether to take files back, as a person answers.

    Another verb that they choose instead is returned; None if they would rather not do anything.
    """
    report = workspace.recover(ref, choice="review")
    if report.session is None:
        return ref, None, False
    if ref is None and report.waiting:
        ref = _picked(report, console, workspace=workspace)
        if ref is None:
            return None
        report = workspace.recover(ref, choice="review")
    review(report, call, console, workspace=workspace, asks=True)
    words = _offered(report, ref, console, workspace=workspace)
    asked = "/".join(words)
    while True:
        answer = console.ask(f"What now? [{asked}/N] ").lower()
        if answer in NO_ANSWER:
            return None
        if answer in _REWIND and "r" in words:
            return cast("Verb", verb_of("rewind"))
        if answer in _BACK or answer in _ANSWERS:
            return ref, _ANSWERS.get(answer), answer in _BACK
        console.warn(f"please answer {', '.join(words[:-1])} or {words[-1]}, or Enter to quit")


def _offered(report: RecoverReport, ref: str | None, console: Console, *, workspace: Workspace) -> list[str]:
    """Say what each answer brings, and return those that are offered."""
    run = report.session
    assert run is not None
    has_turns = last_turn(run.session, workspace) is not None
    lines = {"c": "continue it: no file changes"}
    named = ref is not None and not ref.startswith("sess_")
    back = None if named else way_back(run, workspace)
    if report.state == "interrupted":
        lines["b"] = "take the restore back that was interrupted"
    elif back is None or back.what:
        where = "take its files back" if back is None else f"files back to {back.where}: {back.what}"
        lines["b"] = f"{where}; shows first what would go"
    else:
        then = f"they were {back.where}" if back.where.startswith("before ") else f"in {back.where}"
        console.warn(f"Its files are as {then}: nothing is left to take back.")
    if has_turns and report.state != "interrupted":
        lines["r"] = "files back to before a turn that you pick from a list"
    lines["e"] = "end it: no file changes"
    for word, says in lines.items():
        console.warn(f"  {word}: {says}")
    return list(lines)


def settled_before_start(
    workspace: Workspace, call: Call, console: Console, *, owner_pid: int | None
) -> int | None:
    """Ask what becomes of each session that did not finish before another starts; None if that may start."""
    report = workspace.recover(choice="review")
    left = () if report.session is None else (report.session, *report.waiting)

    def go_on(run: SessionReport) -> None:
        report = workspace.recover(run.id, choice="continue", owner_pid=owner_pid)
        host = None if report.session is None else host_of(report.session.session, workspace)
        _tell(report, call, console, workspace=workspace, host=host)

    unfinished = [one for one in left if one.state == "incomplete"]
    return settled(unfinished, call, console, workspace=workspace, go_on=go_on)


class _Declined(Exception):
    """A person would rather not have so much taken back."""


def _demand_consent(
    preview: RecoverReport, call: Call, console: Console, *, workspace: Workspace, is_asked: bool
) -> None:
    """Name what somebody changed since, and ask if very many files would go, whatever was said (T16).

    Who answered a question with that, and typed no option, sees first what would go.
    """
    assert preview.restored is not None
    plan = preview.restored.planned
    if any(plan.of("write", "delete", "chmod")):
        for line in (*_beside_lines(preview, workspace), *_edited_lines(preview)):
            console.warn(line)
        for line in at_work_lines(workspace.at_work()):
            console.warn(line)
    target = workspace.get(plan.target)
    large = takes_many_away(plan, target)
    if is_asked and not large and kept_lines(plan, call):
        console.warn(f"Taking files back to {called(target, made=True)}: {plan_counts(plan)}.")
        tell_steps(shortened_plan(plan, room=console.columns(2)), console)
        for line in kept_lines(plan, call):
            console.warn(line)
        if not agreed("Go ahead?", console):
            raise _Declined
    if large and not many_agreed(plan, call, console):
        if preview.interrupted_restore is not None:
            console.warn("But the interrupted restore was taken back; what the run left is still there.")
        raise _Declined


def _picked(report: RecoverReport, console: Console, *, workspace: Workspace) -> str | None:
    assert report.session is not None
    runs = (report.session, *report.waiting)
    for number, run in enumerate(runs, 1):
        first, *rest = known_of(run, workspace)
        console.warn(f"{number:3}  {first}")
        for line in rest:
            console.warn(f"   {line}")
    answer = console.ask(f"Which one? [1-{len(runs)}/N] ")
    if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(runs):
        return runs[int(answer) - 1].id
    return None


def _tell(
    report: RecoverReport,
    call: Call,
    console: Console,
    *,
    workspace: Workspace,
    host: str | None,
    is_asked: bool = False,
) -> None:
    for done in (settled_line(report), cleared_line(report)):
        if done is not None:
            console.sentence(done)
    for line in remarks(report.outcomes):
        console.warn(line)
    if report.done == "review":
        review(report, call, console, workspace=workspace)
    elif report.session is None:
        _tell_position(report, call, console)
    elif report.done == "fresh":
        _tell_fresh(report, call, console, host=host)
    else:
        _tell_continued(report, call, console, host=host, is_asked=is_asked)


def _tell_position(report: RecoverReport, call: Call, console: Console) -> None:
    """Say where the work stood: nothing died, or nothing that is meant."""
    if report.beside is not None:
        tell_living(report, report.beside, call, console)
        return
    named = call.argument(0) is not None
    waits = report.interrupted_restore is not None or report.waiting or report.elsewhere
    if not (waits or named) and report.progress.empty:
        nothing = "Nothing else is" if report.cleared else "Nothing was interrupted: there is nothing"
        console.sentence(f"{nothing} to recover.")
        report = report.replace(returned=True)  # no work stopped there either
    line = recovering_line(report, asked=named)
    tell_elsewhere(report, console)
    if line is None:
        if not report.elsewhere:
            console.sentence(f"There is no checkpoint; make one: {call.command('save')}")
        return
    console.sentence(line)
    _tell_back(report, call, console, is_asked=False)
    console.sentences(
        (*resuming_lines(report, call, verb="Resuming"), *standing_lines(report, now=time.time_ns()))
    )
    console.sentences(conversation_lines(report, call))
    if report.operation is not None:
        what = "reloading" if report.rolled_back_to is None else "files"
        console.note(f"take the {what} back with: {call.command('undo')}")
    tell_waiting(report, call, console)
    console.sentence("Ready to continue.")


def _tell_fresh(report: RecoverReport, call: Call, console: Console, *, host: str | None) -> None:
    run = report.session
    assert run is not None
    console.sentence(ended_line(run))
    console.sentences(standing_lines(report, now=time.time_ns()))
    console.sentences(conversation_lines(report, call))
    if host is not None:
        console.sentence(f"Nothing has to be started: {host} begins a session at its next prompt.")
        return
    if run.words:
        anew = " ".join(quoted(word) for word in run.words)
    else:
        anew = "session start"
        if run.session.goal is not None:
            anew += f" --goal {quoted(printable(run.session.goal))}"
    console.sentence(f"Start anew from the present files: {call.command(anew)}")


def _tell_back(report: RecoverReport, call: Call, console: Console, *, is_asked: bool) -> None:
    """Say where files were taken back to, which unless a person saw that, and what is to be done again."""
    back = restored_line(report)
    if back is not None:
        console.sentence(back)
    if back is not None and report.restored is not None and not is_asked:
        for line in shortened_plan(report.restored.planned, most=_SHOWN, room=console.columns(1)):
            console.line(line)
    target = report.checkpoint
    root = "" if target is None else target.manifest.workspace
    if back is not None and target is not None and target.damaged is not None:
        console.warn(
            f"{target.short_id} is damaged, and not all of it came back: {printable(target.damaged)}"
        )
    for line in (
        *([] if report.restored is None else not_held_lines(report.restored, call, root=root)),
        *passed_over_lines(report, call),
    ):
        console.warn(line)
    if report.undone_tasks:
        shown = ", ".join(printable(one) for one in report.undone_tasks[:_SHOWN])
        more = f" and {len(report.undone_tasks) - _SHOWN} more" if len(report.undone_tasks) > _SHOWN else ""
        is_told = target is None or target.progress_sound
        why = "they were done after it" if is_told else "its list of what was done is lost"
        console.sentence(f"To be done again, as {why}: {shown}{more}.")


def _beside_lines(report: RecoverReport, workspace: Workspace) -> list[str]:
    """Return what other sessions saved as changed meanwhile, before it is taken back too."""
    if not report.changed_beside:
        return []
    by: dict[str, list[bytes]] = {}
    for one in report.changed_beside:
        held = None if one.checkpoint is None else one.checkpoint.session
        by.setdefault(held or "?", []).append(one.path)
    lines = ["Saved by other sessions since, and taken back too (undo brings it back):"]
    for id, paths in by.items():
        run = workspace.get_session(id)
        turn = last_turn(run.session, workspace)
        asked = "" if turn is None else f" (asked last: {quoted_words(turn.name)})"
        lines += [f"  {id}{asked}: {paths_named(paths)}"]
    return lines


def _edited_lines(report: RecoverReport) -> list[str]:
    """Return what somebody may have changed after the run had died, before it is taken back."""
    others = {one.path for one in report.changed_beside}
    edited = [path for path in report.edited if path not in others]
    if not edited:
        return []
    when = "Changed after the run's last sign of life, by it or by somebody else"
    lines = [f"{when}, and taken back too (undo brings it back):"]
    lines += [f"  {path_text(path)}" for path in edited[:_SHOWN]]
    return lines + ([f"  and {len(edited) - _SHOWN:,} more"] if len(edited) > _SHOWN else [])


def _tell_continued(
    report: RecoverReport, call: Call, console: Console, *, host: str | None, is_asked: bool
) -> None:
    run = report.session
    assert run is not None
    line = recovering_line(report, asked=_names_checkpoint(call))
    if line is not None:
        console.sentence(line)
    _tell_back(report, call, console, is_asked=is_asked)
    console.sentences(conversation_lines(report, call))
    console.sentences(
        (*resuming_lines(report, call, verb="Resuming"), *standing_lines(report, now=time.time_ns()))
    )
    if report.took_over is not None:
        console.warn(f"took over from {report.took_over.id}: {owner(report.took_over)}")
    said = report.conversation
    resumes = said is not None and said.readable and said.resume_command is not None
    _tell_session(run, call, console, resumes=resumes, host=host)
    if report.operation is not None:
        moved = report.restored is None or any(one.result != "kept" for one in report.restored.outcomes)
        console.note(f"take the {'files' if moved else 'progress'} back with: {call.command('undo')}")
    tell_waiting(report, call, console)
    if run.state == "active":
        console.sentence("Ready to continue.")


def _tell_session(
    run: SessionReport, call: Call, console: Console, *, resumes: bool, host: str | None
) -> None:
    """Say whether somebody is taken to be at work from now on, and how work goes on.

    Where a host ``resumes`` the conversation, that was told before. One whose hooks keep the session goes on
    in it by itself then.
    """
    # Two ways lead on then: who runs the command again begins a conversation of its own.
    anew = "for a new conversation, " if resumes and is_command(run.progress) else ""
    if run.state == "ended":
        console.sentence(f"Session {run.id} is over, its command taken back.")
    elif run.state != "active":
        console.sentence(f"Session {run.id} waits: nobody is at work in it.")
        by_hand = f"go on with it: {call.command(f'recover {run.id} --continue')}"
        if resumes and host is not None:
            by_hand = f"{host} goes on in it once its conversation is resumed"
        console.note(going_on(run, call) if run.words else by_hand)
        console.note(f"end it: {call.command(f'recover {run.id} --fresh')}")
    elif run.words:
        console.sentence(f"Session {run.id} is active again; {anew}{going_on(run, call)}")
    elif host is not None:
        console.sentence(f"Session {run.id} is active again; {host} goes on in it once it is resumed.")
    else:
        console.sentence(f"Session {run.id} is active again: export LASTGOOD_SESSION={run.id}")


def _names_checkpoint(call: Call) -> bool:
    ref = call.argument(0)
    return ref is not None and not ref.startswith("sess_")
