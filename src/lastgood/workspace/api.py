"""The verbs, synchronous: each is one call of an action, told to the observers afterwards."""

from __future__ import annotations

from lastgood.catalogue import Query
from lastgood.errors import Invalid, Usage
from lastgood.model.activity import PERIODS
from lastgood.workspace.arguments import expect
from lastgood.workspace.opened import OpenWorkspace
from lastgood.workspace.reading import Looks
from lastgood.workspace.restore import Recovers, Restores
from lastgood.workspace.work import Works

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lastgood.ledger import Ledger
    from lastgood.model.activity import Activity, Period
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.exchange import ExportReport, ImportReport
    from lastgood.model.report import DeleteReport, Finding, VerifyReport, WorkspaceSummary
    from lastgood.model.run import Choice, RunObserver, RunReport, WorkPlan
    from lastgood.retention.policy import PrunePlan, PruneReport, Sizes
    from lastgood.workspace.arguments import PathLike


# --- What is kept, for how long, and whether it is sound ---


class Keeps(OpenWorkspace):
    """Verbs about what exists."""

    def delete(self, *refs: str) -> DeleteReport:
        """Remove checkpoints; their bytes stay for a day, so that it can be undone."""
        from lastgood.retention.prune import delete

        found = [self._view.resolve(ref) for ref in refs]
        return self._told("deleted", lambda: delete(self._context, found))

    def pin(self, ref: str) -> Checkpoint:
        """Keep a checkpoint for ever."""
        from lastgood.retention.prune import pin

        return pin(self._context, self._view.resolve(ref), pinned=True)

    def unpin(self, ref: str) -> Checkpoint:
        """Keep a checkpoint no longer than others."""
        from lastgood.retention.prune import pin

        return pin(self._context, self._view.resolve(ref), pinned=False)

    def name(self, ref: str, name: str) -> Checkpoint:
        """Name a checkpoint; of several that bear one name the newest counts."""
        from lastgood.retention.prune import rename

        expect(name, str, what="the name")
        return rename(self._context, self._view.resolve(ref), name=name)

    def verify(self, ref: str | None = None, *, deep: bool = False, repair: bool = False) -> VerifyReport:
        """Prove that what is kept can be had back; ``deep`` restores each checkpoint aside.

        ``repair`` mends what can be mended and sets damage aside; nothing good is removed.
        """
        from lastgood.workspace import verify as proof

        mended: tuple[str, ...] = ()
        if repair:
            mended = (*self._state.rescued, *proof.repair(self._context))
            self._state.rescued = ()  # told
        chosen = self._view.find(Query()) if ref is None else [self._view.resolve(ref)]
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

    def let_go(self, *refs: str) -> tuple[str, ...]:
        """Let go what a policy of your own does not keep, and return the ids of what went.

        What is named, pinned, a feature or needed by an operation stays. `undo` does not take it back.
        """
        from lastgood.retention.prune import delete_unkept

        return delete_unkept(self._context, [self._view.resolve(ref) for ref in refs])

    def sizes(self) -> Sizes:
        """Return how many bytes each workspace and session added to the store."""
        from lastgood.retention.prune import sizes

        return sizes(self._context)

    def maintain(self) -> tuple[str, ...]:
        """Apply retention, free bytes, consolidate and back up, unless another owner is at it.

        What the tasks of runs wrote goes when nothing else of their sessions is left.
        """
        from lastgood.retention.maintain import maintain
        from lastgood.workspace.running.output import clear_outputs

        done = maintain(self._context, interrupted=self._interrupted)
        gone = clear_outputs(self._context)
        return (*done, f"outputs of runs removed: {gone}") if gone else done

    def _interrupted(self) -> frozenset[str]:
        from lastgood.workspace.arguments import interrupted_workspaces

        return interrupted_workspaces(self._context.store)


# --- The other workspaces of the store ---


class Neighbours(OpenWorkspace):
    """Verbs that reach beyond this workspace."""

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
        from lastgood.workspace.prune_request import plan_forget

        return plan_forget(self._context, path)

    def forget(self, path: str) -> DeleteReport:
        """Remove all checkpoints of a workspace; undoable like any delete."""
        from lastgood.workspace.prune_request import forget

        return self._told("deleted", lambda: forget(self._context, path))

    def export(
        self,
        file: PathLike,
        *refs: str,
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
        from lastgood.workspace.arguments import plain
        from lastgood.workspace.exchange import export

        chosen = {one.id: one for one in map(self._view.resolve, refs)}
        damaged: tuple[str, ...] = ()
        if not refs:
            found = self._view.find(Query(workspace_key=self._context.key))
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
        from lastgood.workspace.arguments import plain
        from lastgood.workspace.exchange import import_file
        from lastgood.workspace.prune_request import admit_arrival

        report = import_file(self._context, plain(file), admit=admit_arrival if attach else None)
        if not attach:
            return report
        if report.workspaces[0].key != self._context.key:
            self.attach(report.workspaces[0].key)
        return report.replace(attached=self.path)


# --- What programs keep in the store beside checkpoints ---


class Records(OpenWorkspace):
    """Verbs about ledgers."""

    def ledger(self, space: str) -> Ledger:
        """Return one space of this workspace's ledger: books of entries for a program of yours.

        What it keeps is private to the store, shared between processes, and proven when it is read:
        whoever alters it without this user's key is found out (`Damaged`).
        """
        expect(space, str, what="the space")
        if not space or not space.isprintable():
            raise Invalid(f"{space!r} cannot name a space", hint="name it after your program")
        self._state.upkeep.before_ledger(self._context)
        return self._context.ledgers.space(space, workspace=self._context.key)


# --- What was done, and what it takes up ---


class Reports(OpenWorkspace):
    """Verbs that add up."""

    def report(self, period: Period = "all", *, session: str | None = None) -> Activity:
        """Return what was done in the last day, week or month (30 days), or in all time (rule K5).

        Of one session only, if its id or the beginning of it is given. Local time decides where
        a day begins.
        """
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


def _offset() -> int:
    """Return how far local time is from UTC, in seconds."""
    import time

    return time.localtime().tm_gmtoff


# --- Carrying out plans of work ---


class Runs(OpenWorkspace):
    """The verb that has work done by others."""

    def run(
        self,
        plan: PathLike | Mapping[str, object] | WorkPlan | Sequence[str],
        *,
        choice: Choice | None = None,
        rebase: bool = False,
        redo: Sequence[str] = (),
        done: Sequence[str] = (),
        observer: RunObserver | None = None,
        output: Callable[[bytes], object] | None = None,
    ) -> RunReport:
        """Carry out a plan of tasks in a session of its own, or go on with its run that did not finish.

        ``plan`` is a file's path, a document as a dict, a `WorkPlan`, or a list of words: one command.
        ``choice`` says what becomes of a run of the same plan that did not finish: ``continue`` (also
        without a choice), ``fresh`` or ``review``. ``rebase`` goes on with a plan that was edited since.
        ``redo`` names tasks whose irreversible command may be run again although nobody knows whether it
        had its effect, ``done`` tasks that somebody knows to have been done. ``observer`` is told what
        happens as it happens, output by lines and no more than anybody can follow; ``output`` gets
        every byte that the tasks' commands write. Asked to end by a signal, the run leaves its session
        to be continued, and the report says so; in the main thread SIGINT, SIGTERM, SIGHUP and SIGQUIT
        are taken for that. The same one again ends the task at once, a third time this process.

        Raises `Invalid` for a plan with faults, `Conflict` for one that was edited since or if another
        session lives, `Busy` if processes of an earlier runner do, `NotFound` if there is nothing to
        be reviewed.
        """
        from lastgood.workspace.running.run import run
        from lastgood.workspace.running.workspace import RunWorkspace

        return run(
            self._as(RunWorkspace),
            plan,
            choice=choice,
            rebase=rebase,
            redo=redo,
            done=done,
            observer=observer,
            output=output,
        )


# --- The verbs, synchronous: each is one call of an action, told to the observers afterwards ---


class Workspace(Works, Looks, Restores, Recovers, Keeps, Neighbours, Records, Reports, Runs):
    """A folder whose states are kept, and can be had back.

    Made by `lastgood.open`; a context manager. One instance may be used by several threads. Failures
    are the exceptions of `lastgood.errors`.

    >>> with lastgood.open(project, store=store) as workspace:
    ...     before = workspace.save("before the refactor").checkpoint
    ...     (project / "notes.txt").write_text("ruined")
    ...     report = workspace.restore(before.id)
    ...     report.omissions
    6
    ()
    """
