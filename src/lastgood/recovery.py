"""recover: a restore that was interrupted is settled (`restore.finish`), then the run that died resumed."""

from __future__ import annotations

import os
from functools import partial

from lastgood import tasks
from lastgood.catalogue import Query
from lastgood.errors import Ambiguous, Conflict, Damaged, NotFound, Unsafe, Usage, count
from lastgood.ids import short
from lastgood.lease import (
    current_session,
    current_work,
    is_callers,
    is_unattended,
    last_sign,
    left_elsewhere,
    living_sessions,
    may_be_callers,
    placed,
    report_on,
    run_command,
    session_of,
    state_of,
    unattended,
    unfinished,
    uptime,
)
from lastgood.model.run import Artifact, RecoverReport
from lastgood.model.session import Progress
from lastgood.paths import join, printable
from lastgood.quantities import span
from lastgood.restore.finish import settle_restore
from lastgood.restore.restore import (
    RestoreRequest,
    apply,
    demand_consent,
    head_moved,
    irreversible,
    plan_restore,
    preview,
    restore,
    with_id,
)
from lastgood.sessions.conversation import keep_rest, last_conversation
from lastgood.sessions.progress import ProgressOwner
from lastgood.sessions.session import (
    abandon_steps,
    command_of,
    exclusive_rivals,
    holding,
    living_conflict,
    way_to_end,
)
from lastgood.status import drift_since
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lastgood.context import Context
    from lastgood.literals import Choice, SessionState, State
    from lastgood.model.calls import Consent
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import RestorePlan
    from lastgood.model.report import ChangedBeside, RestoreReport
    from lastgood.model.run import LastConversation
    from lastgood.model.session import Effect, Living, Owner, Session, SessionReport
    from lastgood.restore.finish import SettledRestore
    from lastgood.view import View


# --- Which run is meant: the one that died, and the checkpoint that it is seen from (rule P7) ---

SESSION_PREFIX = "sess_"
# Why a session ended that can be gone on with all the same, if it is named.
_SET_ASIDE = frozenset({"taken over", "fresh"})
_SHOWN = 10


class Found(Value):
    """A run that died (None: none that is meant), and the checkpoint that it is seen from.

    That is its last one (the newest), or the one asked for (``named``); ``returned`` says that it is
    another, at which the workspace stands.
    """

    run: SessionReport | None
    checkpoint: Checkpoint | None
    returned: bool = False
    named: bool = False


def choose(
    context: Context,
    view: View,
    ref: str | None,
    *,
    choice: Choice | None,
    roll_back: bool = False,
    strict: bool = True,
    force: bool = False,
) -> Found:
    """Return what a recovery is about: a run that did not finish, which nobody is proven to be at.

    A run is meant by its session's id, by its goal, or by a checkpoint of it; without any it is the only
    one. Raises `Ambiguous` with the sessions if there are several, unless they are only looked at;
    `Usage` where nobody said what is to become of one whose owner may live; `Conflict` for one whose
    owner lives, unless by ``force``. Not ``strict``, none is meant where nothing was chosen.
    """
    left = waiting(context)
    changes = roll_back or choice in {"continue", "fresh"}
    named = None if ref is None else _named_run(context, left, ref)
    if named is not None:
        _demand_left(context, named, force=force)
        found = _seen(context, view, named)
    elif ref is not None:
        found = _seen_from(view.resolve(ref), left, changes=changes)
        if roll_back:
            _demand_own(found)
    elif not left:
        found = _living(context, view, changes=changes, force=force)
    elif len(left) > 1 and choice is None and not strict:
        found = _standing(view)
    elif len(left) > 1 and choice != "review":
        raise _ambiguous(context, left)
    else:
        found = _seen(context, view, left[0])
    if found.run is not None and choice is None and not roll_back and found.run.state == "active":
        if strict:
            raise _undecided(context, found.run)
        return _standing(view)
    return found


def waiting(context: Context) -> tuple[SessionReport, ...]:
    """Return the sessions that did not finish and that nobody is proven to be at, newest first."""
    found = (*unfinished(context), *unattended(context))
    return tuple(sorted(found, key=lambda one: one.session.started_at, reverse=True))


def _named_run(context: Context, left: Sequence[SessionReport], ref: str) -> SessionReport | None:
    """Return the run that an id of a session or a goal means; None if it means neither."""
    if ref.startswith(SESSION_PREFIX):
        return report_on(context, session_of(context, ref))
    fit = [one for one in left if one.session.goal == ref]
    if len(fit) > 1:
        raise _ambiguous(context, fit)
    if fit:
        return fit[0]
    taken = (one for one in context.work.sessions(context.key, state="ended") if one.goal == ref)
    return next((report_on(context, one) for one in taken if one.ended_by in _SET_ASIDE), None)


def _seen_from(checkpoint: Checkpoint, left: Sequence[SessionReport], *, changes: bool) -> Found:
    run = next((one for one in left if one.id == checkpoint.session), None)
    if run is None and changes and len(left) == 1:
        run = left[0]
    return Found(run=run, checkpoint=checkpoint, named=True)


def _demand_own(found: Found) -> None:
    """Refuse to take a run back to a checkpoint of another session, whose tasks are not its own."""
    run, target = found.run, found.checkpoint
    if run is None or target is None or target.session in {None, run.id}:
        return
    raise Conflict(
        f"{target.short_id} belongs to another session, {target.session}: {run.id} cannot go on from there",
        hint=f"go back to before what is unfinished: lastgood recover {run.id} --rollback"
        f"\nor take the files there first: lastgood restore {target.short_id}"
        f"\nand go on with them: lastgood recover {run.id} --continue",
        details={"sessions": [run.id, target.session], "checkpoint": target.id},
    )


def _living(context: Context, view: View, *, changes: bool, force: bool) -> Found:
    """Return that nothing waits; what is to change a run is refused beside one whose owner lives."""
    own = context.session
    living = [one for one in living_sessions(context) if one.id != own] if changes else []
    if living and not force:
        raise _held(context, living[0].session)
    if living:
        return Found(run=living[0], checkpoint=_last(context, living[0]))
    return _standing(view)


def _standing(view: View) -> Found:
    """Return no run, seen from where the workspace stands (rule T15)."""
    place, newest = view.at(), view.latest()
    return Found(run=None, checkpoint=place, returned=place != newest)


def _seen(context: Context, view: View, run: SessionReport) -> Found:
    """Return a run, seen from its last checkpoint; one that was taken back, from where that led."""
    last = _last(context, run)
    place = view.at() if run.session.ended_by == "rolled back" else last
    return Found(run=run, checkpoint=place, returned=place != last)


def _last(context: Context, run: SessionReport) -> Checkpoint | None:
    found = context.catalogue.find(
        Query(workspace_key=context.key, session=run.id, complete=True, guards=False, limit=1)
    )
    return found[0] if found else None


def _demand_left(context: Context, run: SessionReport, *, force: bool) -> None:
    if run.state == "incomplete" or run.session.ended_by in _SET_ASIDE:
        return
    if run.state == "active":
        if force or is_unattended(context, run.session):
            return
        raise _held(context, run.session)
    raise Conflict(
        f"session {run.id} has ended: there is nothing to recover of it",
        hint="see all: lastgood session list",
        details={"sessions": [run.id], "state": run.state},
    )


def _held(context: Context, session: Session) -> Conflict:
    return living_conflict(context, session, doing="is active, so that there is nothing to recover of it")


def _undecided(context: Context, run: SessionReport) -> Usage:
    return Usage(
        f"{run_words(context, run)}; nobody is proven to be at it",
        hint=f"go on with it, files as they are: lastgood recover {run.id} --continue"
        f"\ntake its files back to before what is unfinished: lastgood recover {run.id} --rollback"
        f"\nend it, and start anew: lastgood recover {run.id} --fresh",
        details={"sessions": [run.id], "owner": run.owner_state},
    )


def run_words(context: Context, run: SessionReport) -> str:
    """Return what is known of a run: goal, last sign of life, what is left, whether its owner lives."""
    session = run.session
    goal = "" if session.goal is None else f" ({printable(session.goal)})"
    left = [printable(one.id) for one in tasks.unfinished_tasks(run.progress)]
    some = ", ".join(left[:_SHOWN]) + (", ..." if len(left) > _SHOWN else "")
    rest = f", {len(left)} of {count(len(run.progress.tasks), 'task')} left ({some})" if left else ""
    age = max(0, context.clock.now() - last_sign(context, run)) / 1e9
    who = f", its owner is {run.owner_state}" if run.session.state == "active" else ""
    return f"session {run.id}{goal}: last sign of life {span(age)} ago{rest}{who}"


def _ambiguous(context: Context, left: Sequence[SessionReport]) -> Ambiguous:
    lines = "".join(f"\n{run_words(context, one)}" for one in left[:_SHOWN])
    return Ambiguous(
        f"{len(left)} runs did not finish{lines}",
        hint=f"say which by its id or goal, for example: lastgood recover {left[0].id} --continue"
        "\nor: --rollback, --fresh; to look only: --review",
        details={"candidates": [one.id for one in left]},
    )


# --- recover: a restore that was interrupted, then the run that died (rules T7, P6, P7) ---


def recover(
    context: Context,
    view: View,
    *,
    ref: str | None = None,
    choice: Choice | None = None,
    roll_back: bool = False,
    owner_pid: int | None = None,
    force: bool = False,
    consent: Consent | None = None,
) -> RecoverReport:
    """Finish an interrupted restore; then continue the run that died, give it up, or only look.

    ``ref`` names a checkpoint or a session. Without a choice it, or the one run that died, goes on; with
    nothing dead the position of where the workspace stands is told, and missing artifacts come from there.
    ``roll_back`` takes an interrupted restore back; else it takes the files and the progress of the run
    that goes on back to the checkpoint (asked for together with ``continue``, it does both). ``force``
    does so although another session is at work (rule T14), and takes over from one that holds the workspace.
    ``consent`` is told what is about to be taken back; what it raises leaves files and run as they are.

    Raises `Ambiguous` if several runs died and none is named, `Conflict` if the one that is named is
    not dead, or was settled by somebody else meanwhile.
    """
    if choice == "review":
        found = choose(context, view, ref, choice=choice, roll_back=roll_back, force=force)
        return _reviewed(context, view, found, roll_back=roll_back)
    owner = context.processes.owner(owner_pid)
    if ref is not None:  # what cannot be meant is refused before anything is done
        choose(context, view, ref, choice=choice, roll_back=roll_back, force=force)
    settled = settle_restore(context, roll_back=roll_back)
    # What is rolled back is the restore; the run's files too if it is named, or if there was no restore.
    rewinds_files = roll_back and (settled.done is None or choice == "continue")
    way = _Way(
        choice=choice,
        owner=owner,
        rewinds_files=rewinds_files,
        goes_on=not roll_back or choice == "continue" or owner_pid is not None,
        force=force,
        consent=consent,
        settled=settled,
    )
    report = _resumed(context, view, ref, way)
    return report.replace(
        interrupted_restore=settled.done,
        outcomes=(*settled.left, *settled.outcomes, *report.outcomes),
        cleared=settled.cleared,
        parts=(*settled.parts, *report.parts),
    )


def _reviewed(context: Context, view: View, found: Found, *, roll_back: bool) -> RecoverReport:
    """Return where a run stands, and what a rollback would do."""
    report = _report(context, view, found).replace(done="review")
    if not roll_back or report.state == "interrupted" or (found.run is None and not found.named):
        return report.replace(passed_over=_hit(context, found))  # what comes back is not known yet
    back = _planned_rollback(context, view, found, force=True)
    return back.told(report, preview(context, view, back.plan))


# --- The run that died: it goes on, is given up, or there is none and its artifacts are looked after ---


class _Way(Value):
    """How a run is dealt with; ``rewinds_files`` says that its files and progress are taken back first.

    ``goes_on`` says that somebody is at work in it from now on; else it waits.
    """

    choice: Choice | None
    owner: Owner
    rewinds_files: bool
    goes_on: bool
    force: bool
    consent: Consent | None
    settled: SettledRestore


def _resumed(context: Context, view: View, ref: str | None, way: _Way) -> RecoverReport:
    """Deal with the run that died as was chosen; with none, bring back the artifacts that are missing."""
    found = choose(
        context,
        view,
        ref,
        choice=way.choice,
        roll_back=way.rewinds_files,
        strict=way.settled.done is None,
        force=way.force,
    )
    if ref is None:
        found = _with_position(context, found, target=way.settled.target)
    if found.run is None and way.rewinds_files:
        return _at_checkpoint(context, view, found, way)
    if found.run is None:
        return _reloaded(context, view, found, force=way.force).replace(done=way.settled.done)
    if way.choice == "fresh":
        return _with_conversation(context, _given_up(context, view, found, force=way.force))
    if not (way.goes_on or way.rewinds_files):
        return _with_conversation(context, _report(context, view, found).replace(done=way.settled.done))
    return _with_conversation(context, _continued(context, view, found, way))


def _with_conversation(context: Context, report: RecoverReport) -> RecoverReport:
    """Keep what the run said after its last checkpoint, and return the report with that (rule P7c)."""
    assert report.session is not None
    keep_rest(context, report.session.session)
    return report.replace(conversation=last_conversation(context, report.session.session))


def _with_position(context: Context, found: Found, *, target: str | None) -> Found:
    """Return what was found, seen from the checkpoint that the workspace stands at.

    That is ``target``, of a restore that was just finished; where no run died, it is that already.
    """
    stands = None if target is None else context.catalogue.get(target)
    if stands is None or found.checkpoint is None or stands.id == found.checkpoint.id:
        return found
    return found.replace(checkpoint=stands, returned=True)


def _continued(context: Context, view: View, found: Found, way: _Way) -> RecoverReport:
    """Make the session active again under another owner, its running tasks waiting to be done again.

    One that only goes back waits until somebody goes on with it: whoever took it back need not be at work.
    """
    assert found.run is not None
    with context.locks.recovery(context.key, wait=context.wait):
        was = _still_left(context, found.run, force=way.force)
        replacing: Sequence[Session] = ()
        evicted: Session | None = None
        if was.exclusive:
            replacing, evicted = exclusive_rivals(
                context,
                lambda living: _beside(context, living, was),
                force=way.force,
                besides=was.id,
                is_own=may_be_callers,
            )
        if not way.goes_on:  # what waits takes over from nobody
            replacing, evicted = (), None
        change = tasks.released
        if way.rewinds_files:
            back = _agreed_rollback(context, view, found, way)
            change = partial(tasks.back_to, then=back.progress)
            left, was = was, _laid_down(context, was)
            keep_rest(context, was)  # with the files of the moment at which it died
            try:
                restored = apply(context, view, back.plan)
            except BaseException:
                _put_back(context, left)
                raise
            found = found.replace(checkpoint=back.target, returned=not found.named)
        anew = _taken_up(context, was, owner=way.owner) if way.goes_on else _waiting(context, was)
        _settle(context, anew, was=was, change=change, replacing=replacing)
        if evicted is not None:
            abandon_steps(context, evicted.id)
    report = _report(context, view, found.replace(run=report_on(context, anew)))
    report = report.replace(done="continue" if way.goes_on else "rolled-back", took_over=evicted)
    return back.told(report, restored) if way.rewinds_files else report


def _taken_up(context: Context, was: Session, *, owner: Owner) -> Session:
    """Return a session as it is once it is active again."""
    anew = was.replace(
        owner=owner,
        state="active",
        heartbeat_at=context.clock.now(),
        heartbeat_uptime=uptime(context),
        heartbeat_boot=context.processes.boot(),
        ended_at=None,
        ended_by=None,
        ancestry=None,
    )
    return placed(context.replace(session=was.id), anew)


def _waiting(context: Context, was: Session) -> Session:
    """Return a session as it is once it was taken back, and nobody goes on with it yet.

    One of a single command is over: there is nothing in it to go on from, and the command begins anew.
    """
    state: SessionState = "incomplete" if command_of(context, was.id) is None else "ended"
    return was.replace(state=state, ended_at=context.clock.now(), ended_by="rolled back")


def _laid_down(context: Context, was: Session) -> Session:
    """Record that nobody is at a session: else its own task would keep its files from coming back."""
    if was.state != "active":
        return was
    return context.work.change(
        lambda work: work.change_session(was.id, lambda found: found.replace(state="incomplete"))
    )


def _put_back(context: Context, was: Session) -> None:
    """Have a session as it was before a rollback that was refused; none that has begun to write is."""
    if was.state == "active" and context.journal.read() is None:
        context.work.change(
            lambda work: work.change_session(was.id, lambda found: found.replace(state=was.state))
        )


class _Rollback(Value):
    """What takes files and progress back to a checkpoint, and what else that means."""

    target: Checkpoint
    plan: RestorePlan
    progress: Progress
    irreversible: tuple[Effect, ...]
    edited: tuple[bytes, ...] = ()
    beside: tuple[ChangedBeside, ...] = ()
    undone: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()

    def told(self, report: RecoverReport, restored: RestoreReport | None = None) -> RecoverReport:
        """Return a report with what is, or was, taken back."""
        if restored is not None:
            report = report.replace(restored=restored, outcomes=restored.outcomes, parts=restored.parts)
        return report.replace(
            irreversible=self.irreversible,
            rolled_back_to=self.target.id,
            edited=self.edited,
            changed_beside=self.beside,
            undone_tasks=self.undone,
            passed_over=self.passed_over,
        )


def _agreed_rollback(context: Context, view: View, found: Found, way: _Way) -> _Rollback:
    """Return what takes a run back, agreed to."""
    back = _planned_rollback(context, view, found, force=way.force)
    settled = {one.path for one in way.settled.outcomes}  # these lastgood itself has changed just now
    back = back.replace(edited=tuple(path for path in back.edited if path not in settled))
    if way.consent is not None:
        seen = RecoverReport(
            state=_state(context),
            checkpoint=back.target,
            session=found.run,
            interrupted_restore=way.settled.done,
        )
        demand_consent(way.consent, back.told(seen, preview(context, view, back.plan)))
    return back


def _planned_rollback(context: Context, view: View, found: Found, *, force: bool) -> _Rollback:
    """Return what takes files and progress back: together, by one journal.

    Else a task would stay done whose files are gone, if it is killed in between.
    """
    run = found.run
    if run is None:
        target = _named_target(found)
        plan = plan_restore(
            context, view, RestoreRequest(target=target, scopes=("files", "progress"), force=force)
        )
        gone = irreversible(context, target)
        return _Rollback(target=target, plan=plan, progress=target.manifest.progress, irreversible=gone)
    target = _target_of(context, found)
    then = _progress_at(context, target, run)
    # Seen from within: its own task does not keep its files from coming back.
    within = context.replace(session=run.id)
    plan = plan_restore(within, view, RestoreRequest(target=target, scopes=("files",), force=force))
    return _Rollback(
        target=target,
        plan=_with_progress(context, plan, run, then),
        progress=then,
        irreversible=irreversible(context, target),
        edited=_edited(context, plan, since=max(last_sign(context, run), run.session.ended_at or 0)),
        beside=_beside_run(context, plan, run, target),
        undone=tasks.done_since(run.progress, then),
        passed_over=_hit(context, found, target=target),
    )


def _hit(context: Context, found: Found, *, target: Checkpoint | None = None) -> tuple[str, ...]:
    """Return the checkpoints that a rollback passes over, as their files are damaged.

    Without a target it is looked for, if anything is known to be damaged.
    """
    if (
        found.run is None
        or found.named
        or (target is None and not context.catalogue.count_damaged(context.key))
    ):
        return ()
    from lastgood.sessions.rollback import passed_over, rollback_target

    target = target or rollback_target(context, found.run.session)
    return tuple(one.id for one in passed_over(context, found.run.session, target))


def _target_of(context: Context, found: Found) -> Checkpoint:
    """Return where a rollback leads: to the checkpoint that was named, else to before what is unfinished."""
    from lastgood.sessions.rollback import rollback_target

    assert found.run is not None
    target = found.checkpoint if found.named else rollback_target(context, found.run.session)
    if target is None:
        hit = _hit(context, found)
        raise NotFound(
            f"the run has no checkpoint to go back to{_damaged_words(hit)}",
            hint=("mend what can be mended: lastgood verify --repair\n" if hit else "")
            + "go on with the files as they are: lastgood recover --continue",
            details={"passed_over": list(hit)} if hit else None,
        )
    return target


def _damaged_words(hit: Sequence[str]) -> str:
    if not hit:
        return ""
    more = f" and {len(hit) - _SHOWN} more" if len(hit) > _SHOWN else ""
    return f": the files of {', '.join(map(short, hit[:_SHOWN]))}{more} are damaged"


def _progress_at(context: Context, target: Checkpoint, run: SessionReport) -> Progress:
    """Return how far a run had come at a checkpoint, which may be another's: what its own one before says."""
    for facts in context.catalogue.history(context.key, start=target.id):
        one = context.catalogue.get(facts.id)
        if one is not None and one.session == run.id and one.progress_sound:
            return _known_at(context, one)
    return Progress()


def _known_at(context: Context, checkpoint: Checkpoint) -> Progress:
    """Return the progress of a checkpoint; lists that cannot be read, as the record in force tells."""
    manifest = checkpoint.manifest
    present = context.work.progress(manifest.session or manifest.workspace_key)
    return tasks.as_known(manifest.progress, present=present, at=manifest.created_at)


def _with_progress(context: Context, plan: RestorePlan, run: SessionReport, then: Progress) -> RestorePlan:
    """Return a plan of files that takes the progress of a run back too."""
    from lastgood.restore.parts.progress import change_to

    part = change_to(context, run.id, tasks.back_to(context.work.progress(run.id), then))
    return plan if part is None else with_id(plan.replace(scopes=("files", "progress"), parts=(part,)))


def _edited(context: Context, plan: RestorePlan, *, since: int) -> tuple[bytes, ...]:
    """Return the paths of a plan that changed after some moment, by whomever."""
    going = (step.path for step in plan.of("write", "delete", "chmod") if step.have is not None)
    return tuple(path for path in going if _changed_at(join(context.root, path)) > since)


def _beside_run(
    context: Context, plan: RestorePlan, run: SessionReport, target: Checkpoint
) -> tuple[ChangedBeside, ...]:
    """Return the paths of a plan that other sessions saved as changed since its target."""
    from lastgood.attribution import changed_beside
    from lastgood.model.report import ChangedBeside

    found = changed_beside(context, session=run.id, since=target.sequence)
    return tuple(
        ChangedBeside(path=step.path, checkpoint=found[step.path][0], actor=by.actor, why=by.why)
        for step in plan.of("write", "delete", "chmod")
        if step.path in found and (by := found[step.path][1])
    )


def _changed_at(path: bytes) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0


def _at_checkpoint(context: Context, view: View, found: Found, way: _Way) -> RecoverReport:
    """Take files and progress to the checkpoint that was named, where no run waits."""
    back = _agreed_rollback(context, view, found, way)
    return back.told(_report(context, view, found), apply(context, view, back.plan))


def _named_target(found: Found) -> Checkpoint:
    if found.checkpoint is None or not found.named:
        raise NotFound(
            "no run waits to be recovered, and no restore was interrupted: there is nothing to take back",
            hint="go back to a checkpoint: lastgood restore REF\ntake the last restore back: lastgood undo",
        )
    return found.checkpoint


def _given_up(context: Context, view: View, found: Found, *, force: bool) -> RecoverReport:
    """End the session; its files and its checkpoints stay as they are."""
    assert found.run is not None
    with context.locks.recovery(context.key, wait=context.wait):
        was = _still_left(context, found.run, force=force)
        ended = was.replace(state="ended", ended_at=context.clock.now(), ended_by="fresh")
        _settle(context, ended, was=was, change=tasks.released)
    run = report_on(context, ended).replace(words=run_command(context, ended))
    told = _report(context, view, found.replace(run=run))
    return told.replace(done="fresh")


def _settle(
    context: Context,
    session: Session,
    *,
    was: Session,
    change: Callable[[Progress], Progress],
    replacing: Sequence[Session] = (),
) -> None:
    under_way = context.work.effects(context.key, session=was.id, state="running")
    steps = tasks.unseen(under_way)
    context.work.change(
        lambda work: work.settle_session(session, was=was, replacing=replacing, progress=change, steps=steps)
    )


def _still_left(context: Context, run: SessionReport, *, force: bool) -> Session:
    """Return the session as it is recorded now, under the lock of recoveries."""
    session = context.work.session(run.id)
    if session is not None and session == run.session and (force or not _is_held(context, session)):
        return session
    raise Conflict(
        f"session {run.id} was settled by somebody else a moment ago",
        hint=f"see where it stands: lastgood session show {run.id}",
        details={"sessions": [run.id]},
    )


def _is_held(context: Context, session: Session) -> bool:
    return state_of(context, session) == "active" and not is_unattended(context, session)


def _beside(context: Context, living: Session, dead: Session) -> Conflict:
    return Conflict(
        f"{dead.id} cannot go on beside {living.id}: {holding(context, living)}",
        hint=f"{way_to_end(context, living)}\nor take over from it: --force",
        details={"sessions": [living.id]},
    )


def _left_running(context: Context, run: SessionReport | None) -> tuple[Living, ...]:
    """Return the processes that outlived a run, or the host of an agent, that started them."""
    if run is None:
        return ()
    found = tuple(context.processes.marked(run.id))
    session = run.session
    if session.exclusive or context.processes.alive(session.owner) is not False:
        return found
    living = [one.owner for one in context.work.sessions(context.key, state="active")]
    others = [one for one in living if context.processes.alive(one)]
    known = {one.pid for one in found}
    left = context.processes.left_in(context.root, by=session.owner, living=others)
    return (*found, *(one for one in left if one.pid not in known))


def _report(context: Context, view: View, found: Found) -> RecoverReport:
    """Say where a run stands, or without one the checkpoint; nothing is changed."""
    run, checkpoint = found.run, found.checkpoint
    progress = Progress()
    if run is not None:
        progress = run.progress
    elif checkpoint is not None:
        progress = _known_at(context, checkpoint)
        if found.returned:  # files may have come back without it
            progress = present if not (present := current_work(context).progress).empty else progress
    interrupted = context.journal.read() is not None
    moved = None if checkpoint is None else head_moved(context, checkpoint)
    others = tuple(one for one in waiting(context) if run is None or one.id != run.id)
    return RecoverReport(
        state="interrupted" if interrupted else _state(context),
        checkpoint=checkpoint,
        session=run,
        progress=progress,
        unknown_effects=_unknown(context, run),
        live_processes=_left_running(context, run),
        git_matches=None
        if checkpoint is None or checkpoint.git is None
        else moved is None or moved.from_ == moved.to,
        head_moved=moved,
        drift=None if checkpoint is None or interrupted else drift_since(context, view, checkpoint),
        artifacts=tuple(_artifact(context, path) for path in progress.position.artifacts),
        waiting=others,
        beside=_other(context) if run is None else None,
        returned=found.returned,
        elsewhere=() if run is not None or checkpoint is not None else left_elsewhere(context),
        conversation=_conversation(context, run, checkpoint),
    )


def _conversation(
    context: Context, run: SessionReport | None, checkpoint: Checkpoint | None
) -> LastConversation | None:
    """Return the conversation of the run; where none died, of the session that the checkpoint belongs to."""
    if run is not None:
        return last_conversation(context, run.session)
    id = None if checkpoint is None else checkpoint.session
    session = None if id is None else context.work.session(id)
    return None if session is None else last_conversation(context, session)


def _other(context: Context) -> Session | None:
    """Return the session that holds the workspace and lives, unless it is the caller's own."""
    current = current_session(context)
    if current is None or current.id == context.session or state_of(context, current) != "active":
        return None
    # One of several at once counts for none but who works in it.
    return None if not current.exclusive or is_callers(context, current) else current


def _unknown(context: Context, run: SessionReport | None) -> tuple[Effect, ...]:
    return () if run is None else tasks.unknown_effects(context.work.effects(context.key, session=run.id))


def _state(context: Context) -> State:
    current = current_session(context)
    if current is not None and state_of(context, current) == "active":
        return "active"
    return "incomplete" if unfinished(context) else "idle"


def _artifact(context: Context, path: bytes) -> Artifact:
    try:
        missing = context.applier.present(path) is None
    except Unsafe:  # no path in any workspace, which an import of earlier may have brought
        missing = True
    return Artifact(path=path, state="missing" if missing else "present")


def _reloaded(context: Context, view: View, found: Found, *, force: bool) -> RecoverReport:
    """Bring back the artifacts of the checkpoint that are missing, unless another session is at work.

    Of one that was named the position is recorded too: work goes on from there.
    """
    report = _report(context, view, found)
    checkpoint = found.checkpoint
    if checkpoint is None or checkpoint.manifest.workspace_key != context.key:
        return report
    if report.beside is not None and not force:
        return report
    if found.named and report.beside is None:
        report = report.replace(progress=_moved_to(context, checkpoint))
    held = _held_artifacts(view, report, found)
    if not held:
        return report
    restored = restore(
        context, view, RestoreRequest(target=checkpoint, paths=held, scopes=("files",), force=force)
    )
    anew = [
        one.replace(state="reloaded")
        if one.path in held and context.applier.present(one.path) is not None
        else one
        for one in report.artifacts
    ]
    return report.replace(
        artifacts=tuple(anew),
        restored=restored,
        outcomes=restored.outcomes,
        drift=drift_since(context, view, checkpoint),
    )


def _moved_to(context: Context, checkpoint: Checkpoint) -> Progress:
    """Record the position of a checkpoint as the present one, and return the progress with it."""
    position = checkpoint.manifest.progress.position
    present = current_work(context).progress
    if position.empty or position == present.position:
        return _known_at(context, checkpoint) if present.empty else present
    return ProgressOwner(context).change(lambda found: found.replace(position=position))[1]


def _held_artifacts(view: View, report: RecoverReport, found: Found) -> tuple[bytes, ...]:
    """Return the missing artifacts that the checkpoint holds."""
    missing = [one.path for one in report.artifacts if one.state == "missing"]
    if not missing or found.checkpoint is None:
        return ()
    tree = view.tree(found.checkpoint)
    try:
        return tuple(path for path in missing if tree.entry(path) is not None)
    except Damaged:
        return ()
