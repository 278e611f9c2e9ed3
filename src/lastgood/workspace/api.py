"""All verbs, synchronous: each is one call of an operation, told to the observers afterwards."""

from __future__ import annotations

import os

from lastgood.catalogue import Query
from lastgood.errors import Invalid, Usage
from lastgood.workspace.arguments import check_count, check_flags, expect, inside, plain, scope
from lastgood.workspace.restore import Recovers, Restores

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from lastgood.ledger import Ledger
    from lastgood.literals import Choice, Consolidation, EffectState, Period, TaskState
    from lastgood.model.activity import Activity
    from lastgood.model.calls import OutputReader, RunObserver
    from lastgood.model.checkpoint import Checkpoint, Ref
    from lastgood.model.exchange import ExportReport, ImportReport
    from lastgood.model.report import (
        DeleteReport,
        Finding,
        ProgressReport,
        PurgePlan,
        PurgeReport,
        SessionEnded,
        SessionStarted,
        VerifyReport,
        WorkspaceSummary,
    )
    from lastgood.model.run import RunReport, WorkPlan
    from lastgood.model.session import Effect, Progress, SessionReport, Task
    from lastgood.retention.policy import PrunePlan, PruneReport, StoreSizes
    from lastgood.sessions.progress import Stretch
    from lastgood.workspace.arguments import PathLike
    from lastgood.workspace.session import OpenSession

_OWN = -1


class Workspace(Restores, Recovers):
    """A folder whose states are kept, and can be had back.

    Made by `lastgood.open`; a context manager. One instance may be used by several threads. Failures
    are the exceptions of `lastgood.errors`.

    - Every day: ``save``, ``list``, ``diff``, ``restore``, ``rewind``, ``undo``, ``redo``, ``status``.
    - What a checkpoint holds: ``get``, ``entries``, ``read``, ``log``, ``blame``, ``conversation``,
      ``transcript``, ``previous``, ``stands_at``, ``changed_paths``, ``operations``.
    - Looking before restoring: ``plan_restore``, ``plan_rewind``, ``preview_rewind``,
      ``preview_rewinds``, ``changed_beside``, ``at_work``, ``rewind_target``,
      ``preview``, ``apply``, ``plan_undo``, ``plan_redo``.
    - What is good, and kept: ``check``, ``name``, ``pin``, ``unpin``, ``delete``, ``verify``.
    - Runs of work: ``session``, ``run``, ``recover``, ``sessions``, ``get_session``, ``progress``, ``tasks``,
      ``steps``, ``report``, ``report_page``.
    - For programs that record work in several processes: ``session_start``, ``session_end``,
      ``session_break_off``, ``session_heartbeat``, ``within``, ``progress_set``, ``progress_report``,
      ``task_start``, ``task_done``, ``task_fail``, ``task_skip``, ``feature_start``, ``feature_done``,
      ``sprint_start``, ``sprint_done``, ``step_start``, ``step_end``, ``last_step``.
    - The store: ``plan_prune``, ``prune``, ``delete_unkept``, ``plan_purge``, ``purge``, ``store_sizes``,
      ``maintain``, ``examine``, ``export``, ``import_file``, ``workspaces``, ``attach``, ``plan_forget``,
      ``forget``, ``ledger``.
    - Itself: ``path``, ``store``, ``settings``, ``remarks``, ``watching``, ``subscribe``, ``close``.

    >>> with lastgood.open(project, store=store) as workspace:
    ...     before = workspace.save("before the refactor").checkpoint
    ...     (project / "notes.txt").write_text("ruined")
    ...     report = workspace.restore(before.id)
    ...     report.omissions
    6
    ()
    """

    # --- Sessions, tasks and progress ---

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
        from functools import partial

        from lastgood.workspace.session import OpenSession

        start = partial(
            self.session_start,
            goal=goal,
            sprint=sprint,
            owner_pid=os.getpid() if owner_pid == _OWN else owner_pid,
            transcript=transcript,
            exclusive=exclusive,
            force=force,
            resume=resume,
        )
        return OpenSession(self, start=start)

    def session_start(
        self,
        *,
        goal: str | None = None,
        sprint: str | None = None,
        owner_pid: int | None = None,
        transcript: PathLike | None = None,
        transcript_host: str | None = None,
        exclusive: bool = True,
        force: bool = False,
        resume: bool = False,
    ) -> SessionStarted:
        """Start a session, for others to work in: they name it by ``LASTGOOD_SESSION``.

        ``transcript_host`` is what `install` calls the program whose conversation it is.
        ``resume`` goes on with the session of the same goal that stopped without finishing, if there is
        one; its files stay as they are. Raises `Conflict` if one that lives holds the workspace,
        `NotFound` if the owner does not run, `Ambiguous` if several could be gone on with.
        """
        from lastgood.sessions import session

        expect(goal, str, type(None), what="the goal")
        expect(sprint, str, type(None), what="the sprint")
        expect(transcript_host, str, type(None), what="the transcript's host")
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
                transcript_host=transcript_host,
                exclusive=exclusive,
                force=force,
            )

        return self._changed(work, type="session_started")

    def session_end(self, id: str | None = None, *, finished: bool = True) -> SessionEnded:
        """End a session: the one named, the caller's, or the one that holds the workspace.

        Not ``finished``, it is left incomplete, to be continued by `recover`. Raises `Conflict` for the
        session of a run under way: that ends when its runner is asked to end.
        """
        from lastgood.sessions import session

        return self._changed(
            lambda: session.end_asked(self._context, id, finished=finished), type="session_ended"
        )

    def session_break_off(
        self, id: str, *, reason: str, interrupted: bool = False, save: bool = True
    ) -> SessionEnded:
        """Leave a session incomplete, after a checkpoint of kind interrupt or error."""
        from lastgood.sessions import session

        return self._changed(
            lambda: session.break_off(self._context, id, reason=reason, interrupted=interrupted, save=save),
            type="session_ended",
        )

    def session_heartbeat(self, id: str | None = None) -> SessionReport:
        """Tell that a session lives; `Conflict` if it lost its lease."""
        from lastgood.sessions import session

        return session.heartbeat(self._context, id)

    def sessions(self, *, transcript: PathLike | None = None, own: bool = False) -> tuple[SessionReport, ...]:
        """Return every session of the workspace, newest first; of a ``transcript`` those that did not end.

        ``own``: only those under way whose owner is this process, or one that it was started below.
        """
        from lastgood.sessions import session

        if own:
            return session.sessions_above(self._context)
        if transcript is not None:
            return session.sessions_of(self._context, os.path.abspath(os.fsdecode(plain(transcript))))
        return session.session_reports(self._context)

    def get_session(self, id: str | None = None) -> SessionReport:
        """Return a session: the one named, else the caller's, else the newest."""
        from lastgood.sessions import session

        return session.session_report(self._context, id)

    def within(self, session: str) -> Self:
        """Return this workspace as those see it who work in a session; it shares everything else."""
        within = self._again(session)
        within.proposal = self.proposal
        return within

    def _again(self, session: str) -> Self:
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
        return tuple(self.progress().tasks)

    def task_start(self, id: str, *, risky: bool = False, irreversible: bool = False) -> ProgressReport:
        """Start a task; before a risky or irreversible one a checkpoint is made."""
        from lastgood.sessions import progress

        expect(id, str, what="the task")
        return self._changed(
            lambda: progress.start_task(self._context, id, risky=risky, irreversible=irreversible)
        )

    def task_done(self, id: str) -> ProgressReport:
        """Tell that a task is done, and make its checkpoint; `Conflict` if it never started."""
        return self._end_task(id, "done")

    def task_fail(self, id: str, *, reason: str = "") -> ProgressReport:
        """Tell that a task failed, and make a checkpoint of kind error."""
        expect(reason, str, what="the reason")
        return self._end_task(id, "failed", reason=reason)

    def task_skip(self, id: str) -> ProgressReport:
        """Leave a task out."""
        return self._end_task(id, "skipped")

    def _end_task(self, id: str, state: TaskState, *, reason: str = "") -> ProgressReport:
        from lastgood.sessions import progress

        expect(id, str, what="the task")
        return self._changed(lambda: progress.end_task(self._context, id, state=state, reason=reason))

    def feature_start(self, id: str) -> ProgressReport:
        """Tell which feature is being built."""
        return self._start("feature", id)

    def feature_done(self, id: str) -> ProgressReport:
        """Tell that the feature being built is complete, and make its checkpoint."""
        return self._finish("feature", id)

    def sprint_start(self, id: str) -> ProgressReport:
        """Enter a sprint."""
        return self._start("sprint", id)

    def sprint_done(self, id: str) -> ProgressReport:
        """Tell that the sprint is over, and make its checkpoint."""
        return self._finish("sprint", id)

    def _start(self, kind: Stretch, id: str) -> ProgressReport:
        from lastgood.sessions import progress

        expect(id, str, what=f"the {kind}")
        return self._changed(lambda: progress.start(self._context, kind, id))

    def _finish(self, kind: Stretch, id: str) -> ProgressReport:
        from lastgood.sessions import progress

        expect(id, str, what=f"the {kind}")
        return self._changed(lambda: progress.finish(self._context, kind, id))

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
        paths = None if artifacts is None else scope(artifacts, self._context.root)
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
        digits = self.proposal.digits
        return progress.start_step(self._context, name, task=task, irreversible=irreversible, digits=digits)

    def last_step(self, name: str, *, task: str | None = None) -> Effect | None:
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

    # --- Carrying out plans of work ---

    def run(
        self,
        plan: PathLike | Mapping[str, object] | WorkPlan | Sequence[str],
        *,
        choice: Choice | None = None,
        rebase: bool = False,
        again: bool = False,
        redo: Sequence[str] = (),
        done: Sequence[str] = (),
        transcript: PathLike | None = None,
        observer: RunObserver | None = None,
        output: OutputReader | None = None,
    ) -> RunReport:
        """Carry out a plan of tasks in a session of its own, or go on with its run that did not finish.

        ``plan`` is a file's path, a document as a dict, a `WorkPlan`, or a list of words: one command.
        ``choice`` says what becomes of a run of the same plan that did not finish: ``continue`` (also
        without a choice), ``fresh`` or ``review``. ``rebase`` goes on with a plan that was edited since.
        A plan whose last run finished is carried out ``again`` only if that is said: else the report has
        ``finished_at``, and nothing was done. One command always is.
        ``redo`` names tasks whose irreversible command may be run again although nobody knows whether it
        had its effect, ``done`` tasks that somebody knows to have been done. ``transcript`` is the file of
        the conversation, where no task names one and it is not found by itself. ``observer`` is told what
        happens as it happens, output by lines and no more than anybody can follow; ``output`` gets
        every byte that the tasks' commands write. Asked to end by a signal, the run leaves its session
        to be continued, and the report says so; in the main thread SIGINT, SIGTERM, SIGHUP and SIGQUIT
        are taken for that. The same one again ends the task at once, a third time this process.

        Raises `Invalid` for a plan with faults, `Conflict` for one that was edited since or whose work a
        restore took back, or if another session lives, `Busy` if processes of an earlier runner do,
        `NotFound` if there is nothing to be reviewed.
        """
        from lastgood.workspace.running.resume import RunRequest
        from lastgood.workspace.running.run import run
        from lastgood.workspace.running.workspace import RunWorkspace

        return run(
            RunWorkspace(self),
            plan,
            RunRequest(choice=choice, rebase=rebase, again=again, redo=redo, done=done),
            transcript=transcript,
            observer=observer,
            output=output,
        )

    # --- What is kept, for how long, and whether it is sound ---

    def delete(self, *refs: Ref) -> DeleteReport:
        """Remove checkpoints; their bytes stay for a day, so that it can be undone."""
        from lastgood.retention.prune import delete

        return self._told("deleted", lambda: delete(self._context, [self._view.resolve(ref) for ref in refs]))

    def pin(self, ref: Ref) -> Checkpoint:
        """Keep a checkpoint for ever."""
        from lastgood.retention.prune import pin

        return pin(self._context, self._view.resolve(ref), pinned=True)

    def unpin(self, ref: Ref) -> Checkpoint:
        """Keep a checkpoint no longer than others."""
        from lastgood.retention.prune import pin

        return pin(self._context, self._view.resolve(ref), pinned=False)

    def name(self, ref: Ref, name: str) -> Checkpoint:
        """Name a checkpoint; of several that bear one name the newest counts."""
        from lastgood.retention.prune import rename

        expect(name, str, what="the name")
        return rename(self._context, self._view.resolve(ref), name=name)

    def verify(self, ref: Ref | None = None, *, deep: bool = False, repair: bool = False) -> VerifyReport:
        """Prove that what is kept can be had back; ``deep`` restores each checkpoint aside.

        ``repair`` mends what can be mended and sets damage aside; nothing good is removed.
        """
        from lastgood.workspace import verify as proof

        mended: tuple[str, ...] = ()
        if repair:
            mended = (*self._state.rescued, *proof.repair(self._context))
            self._state.rescued = ()  # told
        one = None if ref is None else self._view.resolve(ref).id

        def chosen() -> Sequence[Checkpoint]:
            return self._context.catalogue.find(Query()) if one is None else [self._view.resolve(one)]

        return proof.verify(self._context, chosen, deep=deep).replace(repaired=mended)

    def plan_prune(
        self, *, keep: int | None = None, older_than: str | float | None = None, now: bool = False
    ) -> PrunePlan:
        """Return what `prune` would do, each decision with its reason."""
        from lastgood.retention.prune import plan_prune
        from lastgood.workspace.prune_request import prune_request

        return plan_prune(self._context, prune_request(keep=keep, older_than=older_than, now=now))

    def prune(
        self,
        *,
        keep: int | None = None,
        older_than: str | float | None = None,
        now: bool = False,
        verify: bool = False,
    ) -> PruneReport:
        """Let go what retention does not keep; `undo` takes it back for a day.

        ``keep`` is a number of checkpoints, ``older_than`` a number of days or a text such as
        ``12h``: then only what is named, pinned, a feature or needed by an operation is spared
        beside what they keep. ``now`` frees the bytes at once, and cannot be undone. ``verify``
        removes nothing: it checks everything, and marks what cannot be restored.
        """
        from lastgood.retention.prune import proven, prune
        from lastgood.workspace.prune_request import prune_request, refuse_more

        if verify:
            refuse_more(keep=keep, older_than=older_than, now=now)
            return self._told("pruned", lambda: proven(self._context, self.verify()))
        wanted = prune_request(keep=keep, older_than=older_than, now=now)
        return self._told(
            "pruned", lambda: prune(self._context, wanted, interrupted=lambda: bool(self._interrupted()))
        )

    def plan_purge(self, path: PathLike, *, everywhere: bool = False) -> PurgePlan:
        """Return which contents a path ever had, and which checkpoints hold them; `NotFound` if none does."""
        from lastgood.retention.purge import plan_purge

        return plan_purge(self._context, inside(path, self._context.root), everywhere=everywhere)

    def purge(self, path: PathLike, *, everywhere: bool = False, all_workspaces: bool = False) -> PurgeReport:
        """Take all contents that a file, or the files of a folder, ever had out of the store, for good.

        A content that the workspace has at another path too stays, and the report's plan names it (`spared`),
        unless ``everywhere``: then it goes there too. Checkpoints keep their ids, with a gap in the place of
        what is gone. `Conflict` if other workspaces hold some of it, unless ``all_workspaces``. It cannot be
        undone; killed half-way, it goes on when it is called again.
        """
        from lastgood.retention.purge import purge

        check_flags(everywhere=everywhere, all_workspaces=all_workspaces)
        wanted = inside(path, self._context.root)
        return purge(
            self._context,
            wanted,
            everywhere=everywhere,
            all_workspaces=all_workspaces,
            interrupted=lambda: bool(self._interrupted()),
        )

    def delete_unkept(self, *refs: Ref) -> tuple[str, ...]:
        """Let go what a policy of your own does not keep, and return the ids of what went.

        What is named, pinned, a feature or needed by an operation stays. `undo` does not take it back.
        """
        from lastgood.retention.prune import delete_unkept

        return delete_unkept(self._context, [self._view.resolve(ref) for ref in refs])

    def store_sizes(self) -> StoreSizes:
        """Return how many bytes each workspace and session added to the store."""
        from lastgood.retention.prune import sizes

        return sizes(self._context)

    def maintain(self) -> tuple[str, ...]:
        """Apply retention, free bytes, consolidate and back up, unless another owner is at it.

        What the tasks of runs wrote goes when nothing else of their sessions is left.
        """
        return self._maintained("due")

    def _maintained(self, extent: Consolidation) -> tuple[str, ...]:
        from lastgood.retention.maintain import maintain
        from lastgood.workspace.running.output import clear_outputs

        done = maintain(self._context, interrupted=self._interrupted, extent=extent)
        gone = clear_outputs(self._context)
        done = (*done, f"outputs of runs removed: {gone}") if gone else done
        self._state.log("maintained %s: %s", self.store, ", ".join(done) or "nothing was due")
        return done

    # --- The other workspaces of the store ---

    def workspaces(self) -> tuple[WorkspaceSummary, ...]:
        """Return every workspace that the store knows."""
        from lastgood.workspace.prune_request import workspaces

        return workspaces(self._context)

    def attach(self, old: str) -> WorkspaceSummary:
        """Give this folder the checkpoints of a workspace that was moved here (its path or key)."""
        from lastgood.workspace.prune_request import attach

        attached = attach(self._context, old)
        self._use(self._state.recompose())
        return attached

    def plan_forget(self, path: str) -> tuple[Checkpoint, ...]:
        """Return what `forget` would remove."""
        from lastgood.retention.prune import of_workspace
        from lastgood.workspace.prune_request import row_of

        return tuple(of_workspace(self._context, row_of(self._context, path).key))

    def forget(self, path: str) -> DeleteReport:
        """Remove all checkpoints of a workspace; undoable like any delete."""
        from lastgood.retention.prune import forget
        from lastgood.workspace.prune_request import row_of

        return self._told("deleted", lambda: forget(self._context, row_of(self._context, path).key))

    def export(
        self,
        file: PathLike,
        *refs: Ref,
        private: bool = False,
        conversation: bool = True,
        exact: bool = False,
        allow_secrets: bool = False,
    ) -> ExportReport:
        """Write checkpoints, by default all of this workspace, into one new file, whole or not at all.

        Left out unless asked for: ``private`` files, those that only a guard holds, and the books of
        the ledger (which leave neither without ``conversation``). Texts and
        ``conversation`` leave without secrets of known shapes, unless ``exact``. Raises `Unsafe`
        with a list if files show secrets and ``allow_secrets`` is not given. What is known to be
        damaged is left out where no checkpoint is named.
        """
        from lastgood.model.exchange import Choices
        from lastgood.workspace.exchange import export

        check_flags(private=private, conversation=conversation, exact=exact, allow_secrets=allow_secrets)
        chosen = {one.id: one for one in map(self._view.resolve, refs)}
        damaged: tuple[str, ...] = ()
        if not refs:
            found = self._context.catalogue.find(Query(workspace_key=self._context.key))
            damaged = tuple(one.id for one in found if one.damaged is not None)
            chosen = {one.id: one for one in found if one.damaged is None}
        choices = Choices(private=private, conversation=conversation, exact=exact, secrets=allow_secrets)
        report = export(self._context, plain(file), tuple(chosen.values()), choices)
        return report.replace(damaged=damaged)

    def import_file(self, file: PathLike, *, attach: bool = False) -> ImportReport:
        """Take in an export: proven whole first, then all of it or nothing.

        What is here already stays as it is. ``attach`` gives this folder the one workspace that the
        file holds; where it cannot have that, nothing is imported.
        """
        from lastgood.workspace.exchange import import_file
        from lastgood.workspace.prune_request import admit_arrival

        report = import_file(self._context, plain(file), admit=admit_arrival if attach else None)
        if not attach:
            return report
        if report.workspaces[0].key != self._context.key:
            self.attach(report.workspaces[0].key)
        return report.replace(attached=self.path)

    # --- What programs keep in the store beside checkpoints ---

    def ledger(self, space: str) -> Ledger:
        """Return one space of this workspace's ledger: books of entries for a program of yours.

        What it keeps is private to the store, shared between processes, and proven when it is read:
        whoever alters it without this user's key is found out (`Damaged`).
        """
        expect(space, str, what="the space")
        if not space or not space.isprintable():
            raise Invalid(f"{space!r} cannot name a space", hint="name it after your program")
        self._state.auto_maintenance.before_ledger(self._context)
        return self._context.ledgers.space(space, workspace=self._context.key)

    # --- What was done, and what it takes up ---

    def report(self, period: Period = "all", *, session: str | None = None) -> Activity:
        """Return what was done in the last day, week or month (30 days), or in all time (rule K5).

        Of one session only, if its id or the beginning of it is given. Local time decides where
        a day begins.
        """
        from lastgood.model.activity import PERIODS
        from lastgood.reporting.activity import report

        if period not in PERIODS:
            raise Usage(f"{period!r} is no period", hint="periods: " + ", ".join(PERIODS))
        expect(session, str, type(None), what="the session")
        return report(self._context, period=period, session=session, offset=_offset())

    def report_page(self, activity: Activity) -> str:
        """Return a report as one HTML page with plots: no script in it, nothing loaded from elsewhere.

        Raises `Unsupported` if the libraries of ``lastgood[report]`` are not installed.
        """
        from lastgood.reporting.page import page

        return page(activity, offset=_offset())

    def examine(self) -> tuple[Finding, ...]:
        """Look at what everything relies upon: disk, locks, privacy, clocks, leases."""
        from lastgood.sessions.session import session_reports
        from lastgood.workspace.doctor import examine_leases, examine_store

        living = [one for one in session_reports(self._context) if one.state != "ended"]
        return (*examine_store(self._context), *examine_leases(self._context, living))

    # --- What these are made of ---

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

    def _interrupted(self) -> frozenset[str]:
        from lastgood.workspace.arguments import interrupted_workspaces

        return interrupted_workspaces(self._context.store)


def _offset() -> int:
    """Return how far local time is from UTC, in seconds."""
    import time

    return time.localtime().tm_gmtoff
