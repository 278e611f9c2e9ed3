"""What a run does to its workspace: the verbs, and the records that only a run makes; observers are told."""

from __future__ import annotations

import os

from lastgood.catalogue import Query
from lastgood.errors import NotFound
from lastgood.host import instant_of
from lastgood.lease import living_sessions, unfinished
from lastgood.model.checkpoint import Actor
from lastgood.sessions import progress, session
from lastgood.transaction import Draft, SaveTransaction
from lastgood.workspace.opened import OpenWorkspace, order_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Self

    from lastgood.context import Context
    from lastgood.errors import Conflict
    from lastgood.literals import EffectState, Kind, Moment
    from lastgood.model.checkpoint import Checkpoint, CheckReport, SaveReport
    from lastgood.model.report import ProgressReport, SessionEnded, SessionStarted
    from lastgood.model.run import Command, LastConversation, PlannedRun, WorkPlan
    from lastgood.model.session import Effect, Living, Owner, Progress, Session, SessionReport
    from lastgood.sessions.progress import Begun
    from lastgood.workspace import Workspace
    from lastgood.worktree import Commands


# How many earlier runs are read at a time, to look for one of the same plan.
_RUNS_A_PAGE = 200
_MESSAGE_LIMIT = 2000
_RUN = Actor(type="lastgood", name="run")


class RunWorkspace(OpenWorkspace):
    """A workspace as a run sees it; ``verbs`` are all others. Within a session, as `within` returns it."""

    def __init__(self, verbs: Workspace) -> None:
        super().__init__(verbs._state, session=verbs._session)  # noqa: SLF001 - the same, seen otherwise
        self.verbs = verbs

    @property
    def context(self) -> Context:
        """What the operations work with, within the session."""
        return self._context

    @property
    def progress(self) -> Progress:
        """How far the session has come, also when it has ended."""
        return self._context.work.progress(self.own)

    def within(self, session: str) -> Self:
        """Return this workspace as those see it who work in a session; it shares everything else."""
        return type(self)(self.verbs.within(session))

    @property
    def key(self) -> str:
        """The workspace's name inside the store."""
        return self._context.key

    @property
    def root(self) -> bytes:
        """The workspace's real path."""
        return self._context.root

    @property
    def own(self) -> str:
        """The session of the run."""
        assert self._context.session is not None
        return self._context.session

    def now(self) -> int:
        """Return nanoseconds since the epoch."""
        return self._context.clock.now()

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return self._context.clock.monotonic()

    # Sessions and their plans

    def open_run(self, plan: WorkPlan, *, goal: str | None) -> SessionStarted:
        """Begin a session of this process that carries out a plan; `Conflict` if another one lives."""

        def work() -> SessionStarted:
            owner = self._context.processes.owner(os.getpid())
            return session.start(self._context, owner=owner, goal=goal, plan=plan)

        return self._changed(work, type="session_started")

    def keep_conversation(
        self, transcript: str | None, *, host: str | None = None, name: str | None = None
    ) -> None:
        """Have every checkpoint from now on hold the conversation of a file; by what its host calls it."""

        def kept(found: Session) -> Session:
            return found.replace(transcript=transcript, transcript_host=host, transcript_session=name)

        self._context.work.change(lambda work: work.change_session(self.own, kept))

    @property
    def kept_transcript(self) -> str | None:
        """The file of the conversation that checkpoints hold at present."""
        found = self._context.work.session(self.own)
        return None if found is None else found.transcript

    def said_more(self) -> bool:
        """Tell whether more was said than the session's checkpoints hold."""
        from lastgood.sessions.conversation import has_rest

        found = self._context.work.session(self.own)
        return found is not None and has_rest(self._context, found)

    def last_conversation(self) -> LastConversation | None:
        """Return what the newest checkpoints hold of the conversation, and how its host goes on with it."""
        from lastgood.sessions.conversation import last_conversation

        found = self._context.work.session(self.own)
        return None if found is None else last_conversation(self._context, found)

    def leave(self, *, finished: bool, by: str) -> SessionEnded:
        """End the session after its last checkpoint; not ``finished``, it waits to be continued."""

        def work() -> SessionEnded:
            return session.end(self._context, self.own, finished=finished, by=by)

        return self._changed(work, type="session_ended")

    def living(self) -> tuple[SessionReport, ...]:
        """Return the sessions that live and hold the workspace."""
        return tuple(one for one in living_sessions(self._context) if one.session.exclusive)

    def refused_beside(self, session: Session) -> Conflict:
        """Return the refusal of a run beside a session that lives."""
        from lastgood.sessions.session import living_conflict

        return living_conflict(self._context, session, doing="is active in this workspace")

    def is_out_of_sight(self, owner: Owner) -> bool:
        """Tell whether an owner is of this run of the machine, but cannot be seen from here."""
        processes = self._context.processes
        return owner.boot is not None and owner.boot == processes.boot() and processes.alive(owner) is None

    def is_callers(self, session: Session) -> bool:
        """Tell whether the owner that was found of a session is whoever started this run."""
        from lastgood.lease import is_callers

        return is_callers(self._context, session)

    def unfinished(self) -> tuple[tuple[SessionReport, PlannedRun], ...]:
        """Return the runs of a plan that ended without finishing, newest first."""
        found = ((one, self._context.work.run(one.id)) for one in self.all_unfinished())
        return tuple((report, run) for report, run in found if run is not None)

    def idle_runs(self) -> tuple[tuple[SessionReport, PlannedRun], ...]:
        """Return the runs of a plan that hold the workspace, and that nobody is proven to be at."""
        from lastgood.lease import is_unattended

        found = ((one, self._context.work.run(one.id)) for one in self.living())
        return tuple(
            (report, run)
            for report, run in found
            if run is not None and is_unattended(self._context, report.session)
        )

    def all_unfinished(self) -> Sequence[SessionReport]:
        """Return the sessions that ended without finishing, newest first."""
        return tuple(unfinished(self._context))

    def unknown_within(self, task: str) -> Sequence[Effect]:
        """Return the irreversible steps within a task, done by its command, of which nobody saw the end."""
        from lastgood.tasks import unknown_effects

        found = unknown_effects(self._context.work.effects(self.key, session=self.own))
        return [one for one in found if one.irreversible and one.task == task and one.name != task]

    def runs(self) -> Iterator[PlannedRun]:
        """Yield all runs, newest first, whatever became of them."""
        skip = 0
        while page := self._context.work.runs(self.key, limit=_RUNS_A_PAGE, skip=skip):
            yield from page
            skip += len(page)

    def replan(self, plan: WorkPlan, *, without: Sequence[str]) -> Progress:
        """Give the session another plan: its tasks are registered, those of the old one that are gone go."""
        from lastgood.tasks import registered

        found = self._context.work.session(self.own)
        assert found is not None
        ids = [task.id for task in plan.tasks]
        run = session.planned_run(found, plan)
        return self._context.work.change(
            lambda work: work.put_run(run, progress=lambda known: registered(known, ids, without=without))
        )

    def marked(self, session: str) -> Sequence[Living]:
        """Return what still lives of a session, but for this process and those that it runs below."""
        return [one for one in self._context.processes.marked(session) if not self._is_above(one.pid)]

    def _is_above(self, pid: int) -> bool:
        processes = self._context.processes
        try:
            return processes.encloses(processes.owner(pid))
        except NotFound:  # it has ended since
            return False

    # Checkpoints

    def keep(
        self,
        kind: Kind,
        message: str,
        *,
        task: str | None = None,
        moment: Moment | None = None,
        metadata: Mapping[str, str] | None = None,
        replaces: Checkpoint | None = None,
        actor: Actor = _RUN,
    ) -> SaveReport:
        """Make a checkpoint of a moment of the run; ``actor`` is whose the changes are."""
        draft = Draft(
            kind=kind,
            message=message[:_MESSAGE_LIMIT],
            task=task,
            moment=moment,
            metadata=metadata or {},
            actor=actor,
            replaces=replaces,
        )
        return self._saved(draft, allow_empty=None, budget=None, given=None)

    def judge(
        self, checkpoint: Checkpoint, command: Command, *, commands: Commands, timeout: float
    ) -> CheckReport:
        """Run a check in the workspace, which holds a checkpoint, and record its verdict on that."""
        order = order_of(command, timeout=None).replace(timeout=timeout)
        return self._judge(checkpoint, order, here=True, commands=commands)

    def pass_on(self, verdict: CheckReport, to: Checkpoint) -> Checkpoint:
        """Record a verdict on another checkpoint too, if that holds the same files."""
        judged = verdict.checkpoint.manifest
        same = judged.root == to.manifest.root and judged.gaps == to.manifest.gaps and not to.partial
        if verdict.good is None or not same:
            return to
        from lastgood.check import record_verdict

        record_verdict(self._context, to.id, good=verdict.good, check=verdict.check)
        return to.replace(good=verdict.good, check=verdict.check)

    def give_up(self, checkpoint: Checkpoint, *, to: Checkpoint) -> None:
        """Delete a checkpoint whose place another one took, unless somebody named, pinned or judged it."""
        same = (checkpoint.manifest.previous, checkpoint.manifest.root)
        if (to.manifest.previous, to.manifest.root) == same:
            with SaveTransaction(self._context) as saving:
                saving.catalogue.delete_unchanged([checkpoint], at=instant_of(self._context.clock))

    # Tasks

    def attempt_begins(self, id: str, *, irreversible: bool, start: str | None) -> Begun:
        """Record that an attempt of a task starts."""
        begun = progress.begin(self._context, id, irreversible=irreversible, start=start)
        self._changed(lambda: begun.report)
        return begun

    def attempt_done(
        self, id: str, *, replaces: Checkpoint | None = None, actor: Actor | None = None
    ) -> ProgressReport:
        """Record that a task is done, and make its checkpoint; ``actor`` is whose its changes are."""
        return self._changed(lambda: progress.done(self._context, id, replaces=replaces, actor=actor))

    def attempt_failed(self, id: str, *, state: EffectState) -> ProgressReport:
        """Record that an attempt failed."""
        return self._changed(lambda: progress.failed(self._context, id, state=state))

    def happened(self, id: str) -> ProgressReport:
        """Record a person's word that a task is done."""
        return self._changed(lambda: progress.happened(self._context, id))

    def all_attempts(self) -> Mapping[str, Sequence[Effect]]:
        """Return the attempts of every task, oldest first."""
        found: dict[str, list[Effect]] = {}
        for one in self._context.work.effects(self.key, session=self.own):
            if one.task is not None and one.task == one.name:
                found.setdefault(one.task, []).append(one)
        return found

    def first_start(self) -> str | None:
        """Return the checkpoint from before the first attempt of the run, if one was made and is there."""
        steps = self._context.work.effects(self.key, session=self.own)
        found = next((one.checkpoint for one in steps if one.task == one.name and one.checkpoint), None)
        known = None if found is None else self._context.catalogue.get(found)
        return None if known is None else known.id

    def is_newest(self, attempt: Effect) -> bool:
        """Tell whether no other attempt began after one."""
        steps = self._context.work.effects(self.key, session=self.own)
        return next(one.id for one in reversed(steps) if one.task == one.name) == attempt.id

    def newest_of(self, session: str) -> str | None:
        """Return the id of a session's newest checkpoint."""
        found = self._context.catalogue.find(Query(workspace_key=self.key, session=session, limit=1))
        return found[0].id if found else None

    def shows_done(self, id: str) -> bool:
        """Tell whether the newest checkpoint of the session knows that a task is done."""
        from lastgood.tasks import told_of

        found = self._context.catalogue.find(Query(workspace_key=self.key, session=self.own, limit=1))
        known = told_of(found[0].manifest.progress, id) if found else None
        return known is not None and known.state == "done"

    def is_marked(self, kind: Kind, id: str) -> bool:
        """Tell whether the session has the checkpoint of a sprint's end."""
        query = Query(workspace_key=self.key, session=self.own, kind=kind)
        return any(one.metadata.get(kind) == id for one in self._context.catalogue.find(query))
