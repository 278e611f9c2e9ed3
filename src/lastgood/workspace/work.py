"""Sessions, tasks and progress."""

from __future__ import annotations

import os

from lastgood.errors import Usage
from lastgood.workspace.arguments import check_count, expect, plain
from lastgood.workspace.save import Saves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Self

    from lastgood.model.report import ProgressReport, SessionEnded, SessionStarted
    from lastgood.model.session import Effect, EffectState, Progress, SessionReport, Task
    from lastgood.workspace.arguments import PathLike
    from lastgood.workspace.session import OpenSession

_OWN = -1


class Works(Saves):
    """Verbs about the work itself: its sessions, and how far it has come."""

    def session(
        self,
        goal: str | None = None,
        *,
        sprint: str | None = None,
        owner_pid: int | None = _OWN,
        transcript: PathLike | None = None,
        exclusive: bool = True,
        force: bool = False,
        resume: bool = False,
    ) -> OpenSession[Self]:
        """Return a session to be entered by ``with``: it holds the workspace until the block ends.

        The owner is this process unless ``owner_pid`` names another (None: the lease lives by
        heartbeat alone). ``force`` takes over from a session that lives. ``resume`` goes on with the
        session of the same goal that stopped without finishing, if there is one.
        """
        from lastgood.workspace.session import OpenSession

        return OpenSession(
            self,
            goal=goal,
            sprint=sprint,
            owner_pid=os.getpid() if owner_pid == _OWN else owner_pid,
            transcript=transcript,
            exclusive=exclusive,
            force=force,
            resume=resume,
        )

    def session_start(
        self,
        *,
        goal: str | None = None,
        sprint: str | None = None,
        owner_pid: int | None = None,
        transcript: PathLike | None = None,
        exclusive: bool = True,
        force: bool = False,
        resume: bool = False,
    ) -> SessionStarted:
        """Start a session, for others to work in: they name it by ``LASTGOOD_SESSION``.

        ``resume`` goes on with the session of the same goal that stopped without finishing, if there is
        one; its files stay as they are. Raises `Conflict` if one that lives holds the workspace,
        `NotFound` if the owner does not run, `Ambiguous` if several could be gone on with.
        """
        from lastgood.sessions import session

        expect(goal, str, type(None), what="the goal")
        expect(sprint, str, type(None), what="the sprint")
        if owner_pid is not None:
            check_count(owner_pid, least=1, what="the owner's pid")

        def work() -> SessionStarted:
            found = session.resumable(self._context, goal) if resume else None
            if found is not None:
                return self._resumed(found.id, owner_pid)
            return session.start(
                self._context,
                owner=self._context.processes.owner(owner_pid),
                goal=goal,
                sprint=sprint,
                transcript=None if transcript is None else os.path.abspath(os.fsdecode(plain(transcript))),
                exclusive=exclusive,
                force=force,
            )

        report = self._told("session_started", work)
        self._after(report)
        return report

    def _resumed(self, id: str, owner_pid: int | None) -> SessionStarted:
        from lastgood.model.report import SessionStarted
        from lastgood.recovery import recover

        found = recover(self._context, self._view, ref=id, choice="continue", owner_pid=owner_pid)
        assert found.session is not None
        return SessionStarted(
            session=found.session,
            unfinished=tuple(one.id for one in found.waiting),
            continued=True,
            unknown=found.unknown_effects,
        )

    def session_end(self, id: str | None = None, *, finished: bool = True) -> SessionEnded:
        """End a session: the one named, the caller's, or the one that holds the workspace.

        Not ``finished``, it is left incomplete, to be continued by `recover`. Raises `Conflict` for the
        session of a run under way: that ends when its runner is asked to end.
        """
        from lastgood.sessions import session

        report = self._told("session_ended", lambda: session.end_asked(self._context, id, finished=finished))
        self._after(report)
        return report

    def session_break_off(
        self, id: str, *, reason: str, interrupted: bool = False, save: bool = True
    ) -> SessionEnded:
        """Leave a session incomplete, after a checkpoint of kind interrupt or error."""
        from lastgood.sessions import session

        report = self._told(
            "session_ended",
            lambda: session.break_off(self._context, id, reason=reason, interrupted=interrupted, save=save),
        )
        self._after(report)
        return report

    def session_heartbeat(self, id: str | None = None) -> SessionReport:
        """Tell that a session lives; `Conflict` if it lost its lease."""
        from lastgood.sessions import session

        return session.heartbeat(self._context, id)

    def sessions(self) -> tuple[SessionReport, ...]:
        """Return every session of the workspace, newest first."""
        from lastgood.sessions import session

        return session.session_reports(self._context)

    def get_session(self, id: str | None = None) -> SessionReport:
        """Return a session: the one named, else the caller's, else the newest."""
        from lastgood.sessions import session

        return session.session_report(self._context, id)

    def within(self, session: str) -> Self:
        """Return this workspace as those see it who work in a session; it shares everything else."""
        return type(self)(self._state, session=session)

    def progress(self) -> Progress:
        """Return how far the work has come: of the session at hand, else of the workspace."""
        return self.progress_report().progress

    def progress_report(self) -> ProgressReport:
        """Return the progress with the session that it belongs to."""
        from lastgood.sessions import progress

        return progress.progress_report(self._context)

    def tasks(self) -> tuple[Task, ...]:
        """Return the tasks, in the order in which they were first named."""
        return self.progress().tasks

    def task_start(self, id: str, *, risky: bool = False, irreversible: bool = False) -> ProgressReport:
        """Start a task; before a risky or irreversible one a checkpoint is made."""
        from lastgood.sessions import progress

        expect(id, str, what="the task")
        return self._changed(
            lambda: progress.start_task(self._context, id, risky=risky, irreversible=irreversible)
        )

    def task_done(self, id: str) -> ProgressReport:
        """Tell that a task is done, and make its checkpoint; `Conflict` if it never started."""
        from lastgood.sessions import progress

        expect(id, str, what="the task")
        return self._changed(lambda: progress.end_task(self._context, id, state="done"))

    def task_fail(self, id: str, *, reason: str = "") -> ProgressReport:
        """Tell that a task failed, and make a checkpoint of kind error."""
        from lastgood.sessions import progress

        expect(id, str, what="the task")
        expect(reason, str, what="the reason")
        return self._changed(lambda: progress.end_task(self._context, id, state="failed", reason=reason))

    def task_skip(self, id: str) -> ProgressReport:
        """Leave a task out."""
        from lastgood.sessions import progress

        expect(id, str, what="the task")
        return self._changed(lambda: progress.end_task(self._context, id, state="skipped"))

    def feature_start(self, id: str) -> ProgressReport:
        """Tell which feature is being built."""
        from lastgood.sessions import progress

        expect(id, str, what="the feature")
        return self._changed(lambda: progress.start_feature(self._context, id))

    def feature_done(self, id: str) -> ProgressReport:
        """Tell that the feature being built is complete, and make its checkpoint."""
        from lastgood.sessions import progress

        expect(id, str, what="the feature")
        return self._changed(lambda: progress.finish_feature(self._context, id))

    def sprint_start(self, id: str) -> ProgressReport:
        """Enter a sprint."""
        from lastgood.sessions import progress

        expect(id, str, what="the sprint")
        return self._changed(lambda: progress.start_sprint(self._context, id))

    def sprint_done(self, id: str) -> ProgressReport:
        """Tell that the sprint is over, and make its checkpoint."""
        from lastgood.sessions import progress

        expect(id, str, what="the sprint")
        return self._changed(lambda: progress.finish_sprint(self._context, id))

    def progress_set(
        self,
        *,
        goal: str | None = None,
        phase: str | None = None,
        iteration: int | None = None,
        step: int | None = None,
        steps: int | None = None,
        artifacts: Sequence[PathLike] | None = None,
        state: Mapping[str, object] | None = None,
    ) -> ProgressReport:
        """Say where the work stands; what is left out stays as it was.

        ``artifacts`` take the place of the earlier ones. ``state`` is a JSON object that is laid over
        the earlier one by key; a key given as None goes. Another iteration makes a checkpoint.
        """
        from lastgood.sessions import progress

        for text, what in ((goal, "the goal"), (phase, "the phase")):
            expect(text, str, type(None), what=what)
        for number, what in ((iteration, "the iteration"), (step, "the step"), (steps, "the steps")):
            expect(number, int, type(None), what=what)
        if state is not None and not hasattr(state, "keys"):
            raise Usage("the state is no JSON object", hint='for example {"retries": 2}')
        paths = None if artifacts is None else self._paths(artifacts)
        return self._changed(
            lambda: progress.move(
                self._context,
                goal=goal,
                phase=phase,
                iteration=iteration,
                step=step,
                steps=steps,
                artifacts=paths,
                state=state,
            )
        )

    def step_start(self, name: str, *, task: str | None = None, irreversible: bool = False) -> Effect:
        """Record a step that is about to start (rule P6); before an irreversible one a checkpoint is made."""
        from lastgood.sessions import progress

        expect(name, str, what="the step")
        expect(task, str, type(None), what="the task")
        return progress.start_step(self._context, name, task=task, irreversible=irreversible)

    def step_found(self, name: str, *, task: str | None = None) -> Effect | None:
        """Return the last step of a name in the session at hand; None if it never started.

        One does not count that a restore has taken back since, unless it is irreversible.
        """
        from lastgood.sessions import progress as once

        expect(name, str, what="the step")
        expect(task, str, type(None), what="the task")
        return once.last_step(self._context, name, task=task)

    def step_end(self, effect: Effect, *, state: EffectState = "done") -> Effect:
        """Record what became of a step: done, failed, or unknown."""
        from lastgood.model.session import Effect
        from lastgood.sessions import session as effects

        expect(effect, Effect, what="the step")
        if state not in ("done", "failed", "unknown"):  # which may be anything
            raise Usage(f"{state!r} is no end of a step", hint="ends: done, failed, unknown")
        return effects.finish(self._context, effect, state=state)

    def _changed(self, work: Callable[[], ProgressReport]) -> ProgressReport:
        report = self._told("task_changed", work)
        self._after(report)
        return report

    def _after(self, report: ProgressReport | SessionStarted | SessionEnded) -> None:
        """Tell of the checkpoint that came of a verb as of any other."""
        if report.saved is not None:
            self._tell("saved", report.saved)
            self._state.upkeep.after_save(self._context)
