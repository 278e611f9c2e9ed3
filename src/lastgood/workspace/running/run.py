"""run: from what was asked for to the report."""

from __future__ import annotations

import os

from lastgood.attribution import UNKNOWN
from lastgood.check import signal_name
from lastgood.command import GuardedCommands
from lastgood.conversation.search import ConversationSearch
from lastgood.errors import Conflict, LastgoodError, Usage
from lastgood.model.run import CHOICES, RunReport
from lastgood.paths import to_text
from lastgood.root import is_gone
from lastgood.sessions.progress import attempts
from lastgood.tasks import ATTEMPT, doubt_of, outlook
from lastgood.workspace.running.attempt import Attempt, KeyPressed, keep_once, take_back
from lastgood.workspace.running.context import (
    Interrupted,
    RunContext,
    RunEvents,
    Signals,
    message_of,
    worker_of,
)
from lastgood.workspace.running.given import StandardInput
from lastgood.workspace.running.output import outputs_of
from lastgood.workspace.running.resume import (
    RunRequest,
    check_named,
    hold_runner_lock,
    plan_from,
    review_run,
    start_run,
    with_transcript,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lastgood.literals import RunState
    from lastgood.model.calls import RunObserver
    from lastgood.model.run import PlannedTask, WorkPlan
    from lastgood.model.session import Effect, Task
    from lastgood.tasks import Outlook
    from lastgood.workspace.arguments import PathLike
    from lastgood.workspace.running.attempt import Ended
    from lastgood.workspace.running.resume import StartedRun
    from lastgood.workspace.running.workspace import RunWorkspace


# --- Carries out a work plan: task after task, each with what its plan says about failure (P1, P3, P6, P7)
# ---


class Runner:
    """Carries out the plan of one session that is active and this process's own."""

    def __init__(self, context: RunContext, *, request: RunRequest, engaged: StartedRun) -> None:
        self._context = context
        self._request = request
        self._engaged = engaged
        self._unknown = list(engaged.unknown)
        self._began = context.workspace.monotonic()
        self._reason: str | None = None
        self._at: PlannedTask | None = None
        self._closed: set[str] = set()
        self._taken_back: set[str] = set()

    def carry_out(self) -> RunReport:
        """Carry out what is left of the plan, and leave the session ended, or to be continued."""
        events = self._context.events
        events.changed("started", continued=self._engaged.continued)
        events.saved(self._engaged.saved)
        for note in self._engaged.notes:
            events.notice(note)
        try:
            self._mend()
            if self._clear():
                self._walk()
            return self._over()
        except Interrupted as stop:
            return self._interrupted(stop)
        except Conflict as error:
            self._beside(error)
            raise self._dispossessed(error) from error
        except BaseException as error:
            self._beside(error)
            raise

    # Tasks

    def _mend(self) -> None:
        """Make the checkpoint of a task's end that a kill left out: that came of the last task, if any."""
        workspace = self._context.workspace
        if not self._engaged.continued:
            return
        ended = [task for task in self._context.events.tasks() if task.state == "done" and task.ended_at]
        last = max(ended, key=lambda task: task.ended_at or 0, default=None)
        if last is not None and not workspace.shows_done(last.id):
            self._context.events.saved(workspace.attempt_done(last.id, actor=UNKNOWN).saved, task=last.id)
        self._closed = {
            sprint for sprint in self._context.plan.sprints if workspace.is_marked("sprint", sprint)
        }
        states = self._states()
        for task in {task.sprint: task for task in self._context.plan.tasks}.values():
            self._close_sprint(task, states)

    def _clear(self) -> bool:
        """Take back what attempts left before any task works on top of it; False if that cannot be done.

        What waits for a person's word is kept as it is, to be told later from the work of others.
        """
        if not self._engaged.continued:
            return True
        context, states, steps = self._context, self._states(), self._context.workspace.all_attempts()
        left: list[tuple[PlannedTask, Outlook, Effect]] = []
        for task in context.plan.tasks:
            look = outlook(task, task=states[task.id], steps=steps.get(task.id, ()))
            if look.back is not None and task.id not in self._request.done:
                left.append((task, look, look.back))
        for task, look, attempt in sorted(left, key=lambda one: one[2].after, reverse=True):
            if task.id not in self._request.redo and self._doubt(task, look) is not None:
                keep_once(context, task, attempt)
            elif not self._back(task, attempt):
                return False
        return True

    def _doubt(self, task: PlannedTask, look: Outlook) -> str | None:
        within = () if look.last is None else self._context.workspace.unknown_within(task.id)
        return doubt_of(task.id, look, within=within)

    def _states(self) -> Mapping[str, Task]:
        return {task.id: task for task in self._context.events.tasks()}

    def _walk(self) -> None:
        states = self._states()
        for task in self._context.plan.tasks:
            self._context.signals.check()
            if states[task.id].state == "done":
                self._passed_over(task)
                continue
            self._at = task
            going_on = self._turn(task, states)
            self._at = None
            states = self._states()
            self._close_sprint(task, states)
            if not going_on:
                return

    def _passed_over(self, task: PlannedTask) -> None:
        again = "; it is not done again" if task.id in self._request.redo else ""
        self._context.events.tell(
            "task-skipped", task=task.id, sprint=task.sprint, reason=f"it is done{again}"
        )

    def _turn(self, task: PlannedTask, states: Mapping[str, Task]) -> bool:
        """See to one task that is not done; False if the run ends here."""
        context = self._context
        if task.id in self._request.done:
            return self._taken_as_done(task)
        missing = [states[need] for need in task.needs if need in states and states[need].state != "done"]
        if missing:
            return self._skipped(task, missing[0])
        look = outlook(task, task=states[task.id], steps=attempts(context.workspace.context, task.id))
        if task.id not in self._request.redo:
            doubt = self._doubt(task, look)
            if doubt is not None:
                return self._asked(task, doubt)
        self._enter_sprint(task)
        return self._tried(task, look)

    def _tried(self, task: PlannedTask, look: Outlook) -> bool:
        if look.back is not None and not self._back(task, look.back):
            return False
        tries = 1 + task.retries
        checks = look.way == "check"
        while True:
            attempt = Attempt(self._context, task)
            if checks:
                assert look.last is not None
                ended = attempt.check_again(look.last)
            else:
                ended = attempt.carry_out()
            if ended.reason is None:
                self._settled(task)
                return True
            tries -= not checks
            if task.on_failure == "rollback" and not self._back(task, ended.effect):
                return False
            if tries <= 0 or not self._may_repeat(task, ended, checks=checks):
                return self._failed(task, ended)
            checks = False
            self._context.signals.check()

    def _may_repeat(self, task: PlannedTask, ended: Ended, *, checks: bool) -> bool:
        """Tell whether a failed attempt may be followed by another.

        Of an irreversible task none follows one that may have had its effect, but what its plan allows:
        that has its retries for what fails by itself.
        """
        if not task.irreversible:
            return True
        return not ended.unknown and (not checks or task.id in self._request.redo)

    def _failed(self, task: PlannedTask, ended: Ended) -> bool:
        if ended.unknown:
            self._unknown.append(ended.effect.replace(state="unknown"))
        self._context.events.changed(
            "task-failed", task=task.id, sprint=task.sprint, attempt=ended.effect.attempt, reason=ended.reason
        )
        self._reason = self._reason or f"task {task.id} failed: {ended.reason}"
        return task.on_failure != "stop"

    def _skipped(self, task: PlannedTask, missing: Task) -> bool:
        how = {"failed": "failed", "skipped": "was skipped"}.get(missing.state, "is not done")
        reason = f"it needs {missing.id}, which {how}"
        self._context.workspace.verbs.task_skip(task.id)
        self._context.events.changed("task-skipped", task=task.id, sprint=task.sprint, reason=reason)
        return True

    def _asked(self, task: PlannedTask, doubt: str) -> bool:
        """End the run before a task that may have done already what cannot be taken back."""
        self._reason = f"{doubt}; go on with --done {task.id}, or with --redo {task.id}"
        self._context.events.notice(doubt, task=task.id)
        return False

    def _taken_as_done(self, task: PlannedTask) -> bool:
        report = self._context.workspace.happened(task.id)
        self._settled(task)
        self._context.events.saved(report.saved, task=task.id)
        self._context.events.changed(
            "task-done", task=task.id, sprint=task.sprint, reason="somebody said that it is done"
        )
        return True

    def _settled(self, task: PlannedTask) -> None:
        """Take a task that is done off those that a person has to look at: its word was given."""
        self._unknown = [one for one in self._unknown if one.task != task.id or not one.irreversible]

    def _back(self, task: PlannedTask, attempt: Effect) -> bool:
        if attempt.id in self._taken_back:
            return True
        fault = take_back(self._context, task, attempt)
        if fault is not None:
            self._reason = fault
            self._context.events.notice(fault, task=task.id)
            return False
        self._taken_back.add(attempt.id)
        return True

    # Sprints

    def _enter_sprint(self, task: PlannedTask) -> None:
        workspace = self._context.workspace
        if task.sprint is not None and workspace.progress.position.sprint != task.sprint:
            workspace.verbs.sprint_start(task.sprint)

    def _close_sprint(self, task: PlannedTask, states: Mapping[str, Task]) -> None:
        """Make the checkpoint of a sprint whose tasks are all done."""
        sprint, context = task.sprint, self._context
        if sprint is None or sprint in self._closed:
            return
        if any(states[one.id].state != "done" for one in context.plan.tasks if one.sprint == sprint):
            return
        self._enter_sprint(task)
        report = context.workspace.verbs.sprint_done(sprint)
        self._closed.add(sprint)
        context.events.saved(report.saved, sprint=sprint)
        context.events.tell("sprint-done", sprint=sprint, checkpoint=context.events.last)

    # The end

    def _over(self) -> RunReport:
        """End the session; one command has ended its run whatever came of it."""
        context = self._context
        all_done = all(task.state == "done" for task in context.events.tasks())
        finished = all_done or context.plan.command
        ended = context.workspace.leave(finished=finished, by="finished" if all_done else "error")
        context.events.saved(ended.saved)
        report = self._report("done" if all_done else "failed")
        context.events.changed("finished", reason=report.reason, seconds=report.seconds)
        return report

    def _interrupted(self, stop: Interrupted) -> RunReport:
        """Make the checkpoint of an interruption, and leave the session to be continued."""
        context, task = self._context, self._at
        self._reason = f"interrupted by {signal_name(stop.signal)}"
        try:
            self._keep_interrupted(self._reason)
        except LastgoodError as error:
            context.events.notice(f"no checkpoint could be made: {message_of(error)}")
        ended = context.workspace.verbs.session_break_off(
            context.workspace.own, reason="interrupted", interrupted=True, save=False
        )
        self._unknown += ended.unknown
        context.events.changed(
            "interrupted",
            task=None if task is None else task.id,
            checkpoint=context.events.last,
            reason=self._reason,
        )
        report = self._report("interrupted").replace(signal=stop.signal, by_key=isinstance(stop, KeyPressed))
        context.events.changed("finished", reason=report.reason, seconds=report.seconds)
        return report

    def _keep_interrupted(self, reason: str) -> None:
        """Keep what is there now: what the task under way left, from which it may be taken back."""
        context, task = self._context, self._at
        if not context.workspace.settings.auto.wants("interrupt") and (
            task is None or task.on_failure != "rollback"
        ):
            return
        id = None if task is None else task.id
        steps = [] if id is None else attempts(context.workspace.context, id)
        metadata = {ATTEMPT: str(steps[-1].attempt)} if steps else {}
        actor = UNKNOWN if task is None else worker_of(task)
        saved = context.workspace.keep("interrupt", reason, task=id, metadata=metadata, actor=actor)
        context.events.saved(saved, task=id)

    def _beside(self, error: BaseException) -> None:
        """Leave the session to be continued while an exception goes on, which is not to be hidden."""
        workspace = self._context.workspace
        stopped = isinstance(error, KeyboardInterrupt)
        try:
            workspace.verbs.session_break_off(
                workspace.own,
                reason="interrupted" if stopped else type(error).__name__,
                interrupted=stopped,
                save=stopped,
            )
            # Of one command nobody wants the same again that took its folder away, or never began.
            if self._context.plan.command and (is_gone(workspace.root) or not workspace.all_attempts()):
                workspace.leave(finished=True, by="error")
        except LastgoodError as failure:
            error.add_note(f"lastgood could not record this: {failure.message} ({failure.hint})")

    def _dispossessed(self, error: Conflict) -> Conflict:
        """Return the same error in words that fit a run whose session somebody else has ended."""
        own = self._context.workspace.own
        if "ended_by" not in error.details or error.details.get("session") != own:
            return error
        at = "" if self._at is None else f" at task {self._at.id}"
        return Conflict(
            f"{error.message}; its run was stopped{at}, and the files stay as they are",
            hint="see who works here now: lastgood status\nand carry the plan out anew when that is over",
            details=error.details,
        )

    def _report(self, state: RunState) -> RunReport:
        context = self._context
        return RunReport(
            session=context.workspace.own,
            state=state,
            plan=context.plan,
            tasks=context.events.tasks(),
            checkpoint=context.events.last,
            continued=self._engaged.continued,
            seconds=round(context.workspace.monotonic() - self._began, 3),
            exit_code=context.exit_code,
            reason=self._reason,
            unknown_effects=tuple(self._unknown),
            outputs=to_text(context.outputs),
            start=context.workspace.first_start(),
            conversation=context.workspace.last_conversation(),
        )


# --- run: from what was asked for to the report ---


def run(
    workspace: RunWorkspace,
    given: PathLike | Mapping[str, object] | WorkPlan | Sequence[str],
    request: RunRequest,
    *,
    transcript: PathLike | None,
    observer: RunObserver | None,
    output: Callable[[bytes], object] | None,
) -> RunReport:
    """Carry out a plan."""
    if observer is not None and not callable(observer):
        raise Usage("the observer cannot be called", hint="give a function that takes an event")
    plan = with_transcript(plan_from(given), transcript)
    request = _checked(request, plan)
    if request.choice == "review":
        return review_run(workspace, plan)
    with Signals() as signals, hold_runner_lock(workspace, signals):
        engaged = start_run(workspace, plan, request, signals=signals)
        if isinstance(engaged, RunReport):
            return engaged
        events = RunEvents(engaged.workspace, plan, observer=observer, output=output)
        context = _context(engaged.workspace, plan, events=events, signals=signals)
        try:
            return Runner(context, request=request, engaged=engaged).carry_out()
        finally:
            context.input.close()


def _checked(request: RunRequest, plan: WorkPlan) -> RunRequest:
    """Return what was asked for, if that goes together."""
    choice = request.choice
    if choice is not None and choice not in CHOICES:
        raise Usage(f"{choice!r} is no choice", hint="choices: " + ", ".join(CHOICES))
    if request.again and choice in {"continue", "review"}:
        raise Usage(f"a plan is carried out again, or {choice} is wanted", hint="leave out one of the two")
    redo = check_named(plan, request.redo, option="redo")
    done = check_named(plan, request.done, option="done")
    both = sorted(redo & done)
    if both:
        raise Usage(f"task {both[0]} cannot be done and be done again", hint="give --done or --redo")
    return request.replace(redo=redo, done=done)


def _context(workspace: RunWorkspace, plan: WorkPlan, *, events: RunEvents, signals: Signals) -> RunContext:
    outputs = outputs_of(os.fsencode(workspace.store), workspace.key, workspace.own)
    return RunContext(
        workspace,
        plan,
        events=events,
        signals=signals,
        commands=GuardedCommands(os.environ),
        outputs=outputs,
        input=StandardInput(outputs, check=signals.check),
        search=ConversationSearch(workspace.own, root=workspace.root),
    )
