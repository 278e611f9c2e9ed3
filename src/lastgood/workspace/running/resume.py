"""How a run begins: anew, or where an earlier one of the same plan stopped (rules P1, P7)."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from shlex import join

from lastgood.catalogue import Query
from lastgood.errors import Busy, Conflict, Damaged, NotFound, Usage
from lastgood.ids import short
from lastgood.model.canonical import iso, path_value
from lastgood.model.run import RunReport, WorkPlan
from lastgood.model.tree import compare, same_content
from lastgood.paths import printable, to_text
from lastgood.recovery import run_words
from lastgood.suggestions import nearest
from lastgood.tasks import task as task_of
from lastgood.tasks import unknown_effects
from lastgood.trees import Files, tree_of
from lastgood.value import Value
from lastgood.workplan import plan as rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from lastgood.context import Context
    from lastgood.host import ExclusiveHold
    from lastgood.literals import Choice, RunState
    from lastgood.model.checkpoint import Checkpoint, SaveReport
    from lastgood.model.operation import Operation, Step
    from lastgood.model.run import PlannedRun, RecoverReport
    from lastgood.model.session import Effect, Living, Progress, Session, SessionReport, Task
    from lastgood.workspace.arguments import PathLike
    from lastgood.workspace.running.context import Signals
    from lastgood.workspace.running.workspace import RunWorkspace

    Dead = tuple[SessionReport, PlannedRun]


# --- What is to be carried out: a file, a document, a plan made by a program, or one command ---

_GOAL_LIMIT = 200


def plan_from(given: PathLike | Mapping[str, object] | WorkPlan | Sequence[str]) -> WorkPlan:
    """Return a plan that was given in one of its forms; `Invalid` with reasons, `Usage` for what is none."""
    if isinstance(given, WorkPlan):
        from lastgood.workplan.form import checked_plan

        return checked_plan(given)
    if isinstance(given, (str, bytes, os.PathLike)):
        from lastgood.workplan.files import read_plan
        from lastgood.workspace.arguments import plain

        return read_plan(to_text(plain(given)))
    if hasattr(given, "keys"):
        from lastgood.workplan.form import plan_of

        return plan_of(dict(given), where="the plan")
    if isinstance(given, (list, tuple)) and all(isinstance(word, str) for word in given):
        from lastgood.workplan.plan import command_plan

        return command_plan(given)
    raise Usage(
        f"{type(given).__name__} is no plan",
        hint="give a file's path, a dict, a WorkPlan, or a list of words: a command",
    )


def with_transcript(plan: WorkPlan, transcript: PathLike | None) -> WorkPlan:
    """Return a plan in which tasks that name no file of their conversation have this one."""
    if transcript is None:
        return plan
    from lastgood.workspace.arguments import plain

    path = os.path.abspath(to_text(plain(transcript)))
    return plan.replace(tasks=tuple(one.replace(transcript=one.transcript or path) for one in plan.tasks))


def goal_of(plan: WorkPlan) -> str | None:
    """Return what a run is for: what its plan says, or the one command."""
    if plan.goal is not None or not plan.command:
        return plan.goal
    from lastgood.workplan.plan import command_text

    text = command_text(plan.tasks[0].run)[:_GOAL_LIMIT]
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def check_named(plan: WorkPlan, ids: Collection[str], *, option: str) -> frozenset[str]:
    """Return ids of tasks; `Usage` for one that the plan does not have."""
    if isinstance(ids, (str, bytes)) or not all(isinstance(id, str) for id in ids):
        raise Usage(f"{option} takes a list of ids of tasks", hint=f'for example {option}=["T01"]')
    known = [task.id for task in plan.tasks]
    for id in ids:
        if id not in known:
            like = nearest(id, known)
            hint = f"did you mean {like[0]}?" if like else "its tasks: " + ", ".join(known[:10])
            raise Usage(f"the plan has no task {id!r}", hint=hint)
    return frozenset(ids)


# --- How a run begins: anew, or where an earlier one of the same plan stopped (rules P1, P7) ---

# How long the supervisor of a runner that was killed may take to end what that left, in seconds.
PATIENCE = 30.0
_STRIDE = 0.02
_SHOWN = 5


class RunRequest(Value):
    """What a run was asked for beside its plan.

    ``again`` carries out a plan that finished before; of tasks ``redo`` may be done
    again, ``done`` have been.
    """

    choice: Choice | None = None
    rebase: bool = False
    again: bool = False
    redo: Collection[str] = ()
    done: Collection[str] = ()


class StartedRun(Value):
    """A session that is active and this process's own, ready for its plan to be carried out.

    ``notes`` are to be told before anything else.
    """

    workspace: RunWorkspace
    continued: bool = False
    unknown: tuple[Effect, ...] = ()
    notes: tuple[str, ...] = ()
    saved: SaveReport | None = None


def start_run(
    workspace: RunWorkspace, plan: WorkPlan, request: RunRequest, *, signals: Signals
) -> StartedRun | RunReport:
    """Begin a run or continue the one that died; a report if there is nothing to be carried out."""
    _reclaim(workspace, plan)
    dead = _dead(workspace, plan)
    idle: Sequence[Dead] = ()
    before = _finished_run(workspace, plan)
    if request.choice == "fresh":
        _refuse_words_on_tasks(request)
        if before is not None and not request.again:
            _demand_again(before, plan)
        idle = workspace.idle_runs()
        _give_up(workspace, (*dead, *idle), signals)
    elif len(dead) > 1:
        raise _several(workspace, dead)
    elif dead:
        return _continued(workspace, plan, dead[0], request, signals=signals)
    elif request.choice == "continue" or (
        before is not None and not request.again and _has_done_of(before, plan)
    ):
        return _finished(workspace, plan, request)
    else:
        _refuse_words_on_tasks(request)
    _refuse_the_living(workspace)
    try:
        started = workspace.open_run(plan, goal=goal_of(plan))
    except Conflict:
        _refuse_the_living(workspace)  # it began a moment ago: its owner is to be named
        raise
    return StartedRun(
        workspace=workspace.within(started.session.id),
        saved=started.saved,
        notes=(
            *_ended(idle),
            *(() if before is None else _repeated(before, plan)),
            *_left_waiting(started.unfinished),
        ),
    )


def unfinished_beside(workspace: RunWorkspace, plan: WorkPlan, *, again: bool) -> Sequence[SessionReport]:
    """Return the sessions that did not finish and would be left waiting if a plan were run now, newest first.

    None are where the plan does not begin: it is gone on with, or has finished.
    """
    before = _finished_run(workspace, plan)
    if _dead(workspace, plan) or (before is not None and not again and _has_done_of(before, plan)):
        return ()
    return workspace.all_unfinished()


def _ended(idle: Sequence[Dead]) -> Sequence[str]:
    return [
        f"session {one.id} was ended: nobody is proven to be at it; its checkpoints stay" for one, _ in idle
    ]


def _left_waiting(sessions: Sequence[str]) -> Sequence[str]:
    shown = [f"session {id} did not finish, and waits: lastgood recover {id}" for id in sessions[:_SHOWN]]
    more = len(sessions) - len(shown)
    return [*shown, f"{more} more sessions did not finish: lastgood session list"] if more else shown


def _finished_run(workspace: RunWorkspace, plan: WorkPlan) -> PlannedRun | None:
    """Return the newest run of a plan if that finished; one command may be carried out as often as it is."""
    run = None if plan.command else _newest(workspace, plan)
    return run if run is not None and _has_finished(workspace.verbs.get_session(run.session), run) else None


def _newest(workspace: RunWorkspace, plan: WorkPlan) -> PlannedRun | None:
    return next((one for one in workspace.runs() if _is_same(one, plan)), None)


def _has_finished(report: SessionReport, run: PlannedRun) -> bool:
    left = any(_task(report.progress, one.id).state != "done" for one in run.plan.tasks)
    return report.session.ended_by == "finished" and not left


def _has_done_of(run: PlannedRun, plan: WorkPlan) -> bool:
    """Tell whether a run that finished did any task of a plan, which may have other ones by now."""
    return not {task.id for task in run.plan.tasks}.isdisjoint(task.id for task in plan.tasks)


def _irreversible_again(run: PlannedRun, plan: WorkPlan) -> list[str]:
    did = {task.id for task in run.plan.tasks}
    return [printable(task.id) for task in plan.tasks if task.irreversible and task.id in did]


def _demand_again(run: PlannedRun, plan: WorkPlan) -> None:
    """Refuse to begin anew what finished, if it would do again what cannot be taken back."""
    named = _irreversible_again(run, plan)
    if named:
        raise Conflict(
            f"this plan has finished (session {run.session}); irreversible, and done again by --fresh:"
            f" {', '.join(named)}",
            hint="carry all of it out again: --again",
            details={"session": run.session},
        )


def _repeated(run: PlannedRun, plan: WorkPlan) -> tuple[str, ...]:
    """Return what has to be said of a plan that is carried out again."""
    named = _irreversible_again(run, plan)
    return (f"done before, irreversible, and done again now: {', '.join(named)}",) if named else ()


def _refuse_words_on_tasks(request: RunRequest) -> None:
    if request.redo or request.done:
        raise Usage(
            "a run that begins has nothing that could be done again, or be done already",
            hint="leave out --redo and --done",
        )


def _dead(workspace: RunWorkspace, plan: WorkPlan) -> Sequence[Dead]:
    return [one for one in workspace.unfinished() if _is_same(one[1], plan)]


@contextmanager
def hold_runner_lock(workspace: RunWorkspace, signals: Signals) -> Iterator[None]:
    """Hold the lock of runners: no other one lives in the workspace, wherever it may be hidden.

    Raises `Conflict` with its owner named if one does, `Busy` if one neither begins nor ends.
    """
    lock = _runner_lock(workspace, signals)
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


def _runner_lock(workspace: RunWorkspace, signals: Signals) -> AbstractContextManager[ExclusiveHold]:
    """Take the lock of runners; who holds it is about to have a session, or has just ended it."""
    deadline = time.monotonic() + PATIENCE
    while True:
        lock = workspace.context.locks.running(workspace.key, wait=0)
        try:
            lock.__enter__()
        except Busy:
            _refuse_the_living(workspace)
            if time.monotonic() > deadline:
                raise
            _give_up_if_asked(signals)
            time.sleep(_STRIDE)
        else:
            return lock


def _reclaim(workspace: RunWorkspace, plan: WorkPlan) -> None:
    """Record as stopped what no runner carries out any more, though its lease lasts.

    What `recover` has begun to continue, of this plan; and runs whose runner was out of sight, in another
    container for example: the lock of runners is ours, so that it is gone (rule S16).
    """
    for one in workspace.living():
        run, owner = workspace.context.work.run(one.id), one.session.owner
        if run is None:
            continue
        idle = owner.pid is None or workspace.is_callers(one.session)
        if workspace.is_out_of_sight(owner) or (idle and _is_same(run, plan)):
            workspace.verbs.session_break_off(
                one.id, reason="its runner is gone", interrupted=True, save=False
            )


def _is_same(run: PlannedRun, plan: WorkPlan) -> bool:
    """Tell whether a run is of a plan: of the same file, or, without one, of the same work."""
    if plan.source is not None:
        return run.plan.source == plan.source
    return run.plan.source is None and run.fingerprint == rules.fingerprint(plan)


def _several(workspace: RunWorkspace, dead: Sequence[Dead]) -> Usage:
    lines = "".join(f"\n{run_words(workspace.context, report)}" for report, _ in dead[:_SHOWN])
    ids = [report.id for report, _ in dead]
    return Usage(
        f"{len(dead)} runs of this plan did not finish{lines}",
        hint=f"end all but the one to go on with, then the same again: lastgood session end {ids[-1]}"
        f"\nsee what one did: lastgood session show {ids[-1]}"
        "\nor end all of them and start anew: --fresh",
        details={"sessions": ids},
    )


def _finished(workspace: RunWorkspace, plan: WorkPlan, request: RunRequest) -> RunReport:
    """Return the report of the newest run of a plan if that finished: there is nothing left to do.

    `Conflict` if a restore took back since what it left: it is done, and what it did is not there.
    """
    run = _newest(workspace, plan)
    if run is None:
        raise NotFound("no run of this plan waits to be continued", hint="start it: leave out --continue")
    report = workspace.verbs.get_session(run.session)
    if not _has_finished(report, run):
        raise NotFound(
            f"the last run of this plan, {report.id}, has ended, and cannot be continued",
            hint="start anew: leave out --continue, or give --fresh",
        )
    _demand_same(run, plan, since="finished", hint="carry out all that it says now: --again")
    back = reverted_since(workspace.context, report.session)
    if back is not None:
        raise _work_gone(report, back)
    if request.redo or request.done:
        raise Usage(
            f"the last run of this plan, {report.id}, has finished: nothing of it is done again",
            hint="carry the whole plan out again: --again\nor leave out --redo and --done",
        )
    told = _review(report.progress, run.plan, report, state="done", reason="it has finished already")
    return told.replace(finished_at=report.session.ended_at, checkpoint=workspace.newest_of(report.id))


def _shortened(lines: Sequence[str]) -> str:
    more = f" and {len(lines) - _SHOWN} more changes" if len(lines) > _SHOWN else ""
    return "; ".join(lines[:_SHOWN]) + more


def _work_gone(report: SessionReport, back: RevertedWork) -> Conflict:
    operation, last = back.operation, short(back.last.id)
    target = "" if operation.target is None else f" of {short(operation.target)}"
    amount = len(back.paths)
    shown = ", ".join(printable(to_text(path)) for path in back.paths[:_SHOWN])
    more = f" and {amount - _SHOWN} more" if amount > _SHOWN else ""
    return Conflict(
        f"the last run of this plan, {report.id}, finished; but what it did was taken back by the restore"
        f"{target} at {iso(operation.at)}: {shown}{more}",
        hint=f"carry the plan out again: --again\nor bring back what it did: lastgood restore {last}",
        details={
            "session": report.id,
            "operation": operation.id,
            "checkpoint": back.last.id,
            "paths": [path_value(path) for path in back.paths],
        },
    )


def review_run(workspace: RunWorkspace, plan: WorkPlan) -> RunReport:
    """Return where the run of a plan stood that did not finish; `NotFound` if there is none."""
    dead = _dead(workspace, plan)
    if not dead:
        raise _nothing_waits(workspace, plan)
    report, run = dead[0]
    steps = workspace.verbs.steps(report.id)
    more = f"; {len(dead) - 1} more did not finish" if len(dead) > 1 else ""
    told = _review(
        report.progress, run.plan, report, state="interrupted", reason=f"nothing was carried out{more}"
    )
    return told.replace(
        unknown_effects=unknown_effects(steps),
        live_processes=tuple(workspace.marked(report.id)),
        checkpoint=workspace.newest_of(report.id),
    )


def _nothing_waits(workspace: RunWorkspace, plan: WorkPlan) -> NotFound:
    for one in workspace.living():
        run = workspace.context.work.run(one.id)
        if run is not None and _is_same(run, plan):
            return NotFound(f"the run {one.id} of this plan is under way", hint="see it: lastgood status")
    return NotFound("no run of this plan waits to be continued", hint="start it: leave out --review")


def _review(
    progress: Progress, plan: WorkPlan, report: SessionReport, *, state: RunState, reason: str
) -> RunReport:
    return RunReport(
        session=report.id,
        state=state,
        plan=plan,
        tasks=tuple(_task(progress, one.id) for one in plan.tasks),
        continued=True,
        reason=reason,
    )


def _task(progress: Progress, id: str) -> Task:
    from lastgood.model.session import Task

    return task_of(progress, id) or Task(id=id)


def _give_up(workspace: RunWorkspace, dead: Sequence[Dead], signals: Signals) -> None:
    """End the runs that died, so that another may begin from the files as they are."""
    for report, _ in dead:
        _await_silence(workspace, report.id, signals)
    for report, _ in dead:
        workspace.verbs.recover(report.id, choice="fresh")


def _continued(
    workspace: RunWorkspace, plan: WorkPlan, dead: Dead, request: RunRequest, *, signals: Signals
) -> StartedRun:
    report, run = dead
    if not request.rebase:
        words = printable(join(report.words)) or "run PLAN"
        _demand_same(
            run,
            plan,
            since="began",
            hint=f"go on with the new plan, what is done staying done: lastgood {words} --rebase"
            f"\nor start anew: lastgood {words} --fresh",
        )
    _await_silence(workspace, report.id, signals)
    try:
        recovered = workspace.verbs.recover(report.id, choice="continue", owner_pid=os.getpid())
    except Conflict:
        _refuse_the_living(workspace)
        raise
    inside = workspace.within(report.id)
    try:
        notes = (*_recovery_notes(recovered), *_replanned(inside, run, plan, recovered))
    except BaseException:
        inside.verbs.session_break_off(report.id, reason="error", save=False)
        raise
    return StartedRun(workspace=inside, continued=True, unknown=tuple(recovered.unknown_effects), notes=notes)


def _demand_same(run: PlannedRun, plan: WorkPlan, *, since: str, hint: str) -> None:
    """Refuse a plan that was edited since its run began, or was carried out."""
    if run.fingerprint == rules.fingerprint(plan):
        return
    lines = rules.compare(run.plan, plan).sentences()
    raise Conflict(
        f"the plan was edited since its run {run.session} {since}: {_shortened(lines)}",
        hint=hint,
        details={"session": run.session, "changes": list(lines)},
    )


def _replanned(
    inside: RunWorkspace, run: PlannedRun, plan: WorkPlan, recovered: RecoverReport
) -> Sequence[str]:
    """Keep the plan as it is now with the session, and say what that means for its tasks."""
    differences = rules.compare(run.plan, plan)
    inside.replan(plan, without=differences.removed)
    notes = [f"the plan was edited: {line}" for line in differences.sentences()]
    done = {task.id for task in recovered.tasks if task.state == "done"}
    notes += [f"task {id} was changed, and stays done" for id, _ in differences.changed if id in done]
    gone = set(differences.removed)
    notes += [
        f"nobody saw the end of task {effect.task}, which is gone from the plan"
        for effect in recovered.unknown_effects
        if effect.task in gone
    ]
    return notes


def _recovery_notes(recovered: RecoverReport) -> Sequence[str]:
    notes = []
    if recovered.interrupted_restore is not None:
        notes.append("a restore that was interrupted was finished first")
    for effect in recovered.unknown_effects:
        what = "task" if effect.task == effect.name else "step"
        notes.append(f"effect unknown: nobody saw the end of {what} {printable(effect.name)}")
    if recovered.head_moved is not None:
        to = "no commit" if recovered.head_moved.to is None else recovered.head_moved.to[:12]
        notes.append(f"the project's HEAD has moved since, to {to}")
    drift = recovered.drift
    if recovered.checkpoint is not None and drift is not None and any(drift.as_dict().values()):
        notes.append(f"files changed since the last checkpoint of the run, {short(recovered.checkpoint.id)}")
    return notes


def _await_silence(workspace: RunWorkspace, session: str, signals: Signals) -> None:
    """Wait for what a runner that died left running; `Busy`, with the processes, if it stays."""
    deadline = time.monotonic() + PATIENCE
    while left := workspace.marked(session):
        if time.monotonic() > deadline:
            raise _still_living(session, left)
        _give_up_if_asked(signals)
        time.sleep(_STRIDE)


def _give_up_if_asked(signals: Signals) -> None:
    """End the wait for something else as Ctrl-C does: nothing has begun yet."""
    asked = signals.asked()
    if asked:
        raise KeyboardInterrupt(asked[0])


def _still_living(session: str, left: Sequence[Living]) -> Busy:
    pids = " ".join(str(one.pid) for one in left)
    shown = ", ".join(f"{one.pid} ({printable(one.command) or '?'})" for one in left[:_SHOWN])
    more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    return Busy(
        f"processes of the run {session} still live: {shown}{more}",
        hint=f"end them, then try again: kill {pids}",
        details={
            "session": session,
            "processes": [{"pid": one.pid, "command": one.command} for one in left],
        },
    )


def _refuse_the_living(workspace: RunWorkspace) -> None:
    for one in workspace.living():
        if not workspace.is_callers(one.session):
            raise workspace.refused_beside(one.session)


# --- A session that finished, and whether what it left is still there (rules T15, P7) ---


class RevertedWork(Value):
    """Paths that a session changed, and that a restore took back to before its end; ``last`` holds them."""

    operation: Operation
    paths: tuple[bytes, ...]
    last: Checkpoint


def reverted_since(context: Context, session: Session) -> RevertedWork | None:
    """Return the newest restore that took back what a session left at its end; None if it is all there.

    A restore that was undone took nothing back, nor did one that a later restore made good.
    """
    later = [one for one in context.catalogue.operations(context.key) if _may_have(one)]
    own = _complete(context, session) if later else []
    if len(own) < 2:  # without its beginning and its end nobody can tell what it changed
        return None
    last = own[0]
    began, left = (Files(tree_of(one), context.engine) for one in (own[-1], last))
    try:
        changed = {one.path for one in compare(began, left)}
        seen: set[bytes] = set()
        for operation in later:
            if not _is_after(context, operation, session, last=last):
                continue
            fresh = [step for step in operation.steps if step.path not in seen]
            seen.update(step.path for step in fresh)
            lost = [one.path for one in fresh if one.path in changed and _is_other(one, left)]
            if lost and _leads_before(context, operation, last):
                return RevertedWork(operation=operation, paths=tuple(lost), last=last)
    except Damaged:
        return None  # of what is lost nobody can tell what changed
    return None


def _may_have(operation: Operation) -> bool:
    return operation.type == "restore" and not operation.undone


def _complete(context: Context, session: Session) -> list[Checkpoint]:
    """Return the checkpoints of a session that show all of its files, newest first."""
    query = Query(workspace_key=context.key, session=session.id, complete=True)
    return [one for one in context.catalogue.find(query) if one.damaged is None]


def _is_after(context: Context, operation: Operation, session: Session, *, last: Checkpoint) -> bool:
    """Tell whether an operation came after the end of a session: by its guard, whatever the clocks said."""
    guard = None if operation.guard is None else context.catalogue.get(operation.guard)
    if guard is None:
        return operation.at > (session.ended_at or 0)
    return guard.sequence >= last.sequence


def _is_other(step: Step, left: Files) -> bool:
    return not same_content(step.want, left.entry(step.path))


def _leads_before(context: Context, operation: Operation, last: Checkpoint) -> bool:
    """Tell whether a restore went to before a checkpoint, rather than to what came after it."""
    target = None if operation.target is None else context.catalogue.get(operation.target)
    return target is None or target.sequence < last.sequence
