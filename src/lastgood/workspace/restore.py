"""Restoring, and the ways back and forth."""

from __future__ import annotations

from lastgood.errors import Damaged, Invalid, NotFound, Usage
from lastgood.paths import printable, within
from lastgood.root import is_gone
from lastgood.settings import DEFAULT_SCOPES, SCOPES
from lastgood.value import Value
from lastgood.workspace.arguments import check_count, check_flags, expect, make_empty, scope
from lastgood.workspace.opened import OpenWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from lastgood.literals import Choice, Direction, EventType, Favour, Scope
    from lastgood.model.calls import Consent, PlanConsent
    from lastgood.model.checkpoint import Checkpoint, Ref
    from lastgood.model.operation import RestorePlan
    from lastgood.model.report import ChangedBeside, RestoreReport, RewindExtent, UndoPlan, UndoReport
    from lastgood.model.run import RecoverReport
    from lastgood.model.session import Effect, Session
    from lastgood.restore.merge import Merge
    from lastgood.restore.only_agent import AgentWork
    from lastgood.restore.restore import RestoreRequest
    from lastgood.rewind import History
    from lastgood.undo import Way
    from lastgood.view import View
    from lastgood.workspace.arguments import PathLike

    Guarded = TypeVar("Guarded", RestoreReport, UndoReport)


# --- What a caller wants restored, checked: scopes, paths and a merge that fit together (rules T11, T17)
# ---

FAVOURS: tuple[Favour, ...] = ("ours", "theirs", "markers")


class Extent(Value):
    """How far a restore goes: the arguments of a verb as they were given, and what a rewind counted."""

    only: Sequence[Scope] | None = None
    git: bool = False
    merge: bool = False
    base: Ref | None = None
    conflict: Favour | None = None
    only_agent: bool = False
    session: str | None = None
    rewound: RewindExtent | None = None


def scopes_of(extent: Extent, *, paths: bool) -> tuple[Scope, ...]:
    """Return what is to come back, in order: by default files, conversation and progress together."""
    only = extent.only
    listed = isinstance(only, (list, tuple, set, frozenset))
    if only is not None and not (listed and only and all(one in SCOPES for one in only)):
        shown = ", ".join(str(one) for one in only) if listed else str(only)
        raise Usage(
            f"'{printable(shown)}' is not what a restore can be limited to",
            hint="give some of: " + ", ".join(SCOPES),
        )
    if paths and (extent.git or (only and tuple(only) != ("files",))):
        raise Usage("paths mean files, and nothing beside them", hint="leave out the paths, or what else")
    chosen = set(only or (("files",) if paths else DEFAULT_SCOPES)) | ({"git"} if extent.git else set())
    return tuple(scope for scope in SCOPES if scope in chosen)


def _merge_of(view: View, extent: Extent, *, scopes: Sequence[Scope]) -> Merge | None:
    if not extent.merge:
        if extent.base is not None or extent.conflict is not None:
            raise Usage("a base and a choice for conflicts belong to a merge", hint="add --merge")
        return None
    if "files" not in scopes:
        raise Usage("a merge is of files", hint="leave out --merge, or add --only files")
    if extent.conflict not in {None, *FAVOURS}:
        raise _no_favour(extent.conflict)
    from lastgood.restore.merge import Merge

    base = view.resolve("@" if extent.base is None else extent.base)
    return Merge(base=base, favour=extent.conflict)


def _no_favour(word: object) -> Usage:
    return Usage(
        f"'{printable(str(word))}' is no way to settle a conflict", hint="ways: " + ", ".join(FAVOURS)
    )


def _no_ref() -> Usage:
    return Usage("no checkpoint is named", hint="give its id or name, or ask for only_agent")


def way_of(*, force: bool, merge: bool) -> Way | None:
    """Return how an undo treats what changed since: by default it refuses."""
    check_flags(force=force, merge=merge)
    if force and merge:
        raise Usage("--force and --merge do not go together", hint="--merge keeps what changed since")
    return "force" if force else "merge" if merge else None


# --- Restoring, and the ways back and forth ---


class Restores(OpenWorkspace):
    """Verbs that bring back."""

    def plan_restore(  # noqa: PLR0913 - as `restore`
        self,
        ref: Ref | None = None,
        *,
        paths: Sequence[PathLike] = (),
        only: Sequence[Scope] | None = None,
        git: bool = False,
        merge: bool = False,
        base: Ref | None = None,
        conflict: Favour | None = None,
        discard: bool = False,
        force: bool = False,
        only_agent: bool = False,
        session: str | None = None,
    ) -> RestorePlan:
        """Return what `restore` would do, path by path; nothing is touched."""
        extent = Extent(
            only=only,
            git=git,
            merge=merge,
            base=base,
            conflict=conflict,
            only_agent=only_agent,
            session=session,
        )
        return self._plan(ref, paths, extent=extent, discard=discard, force=force)

    def preview(self, plan: RestorePlan) -> RestoreReport:
        """Return what is to be known of a plan before it is carried out, as a report of a dry run."""
        from lastgood.model.operation import RestorePlan
        from lastgood.restore.restore import preview

        expect(plan, RestorePlan, what="the plan")
        return preview(self._context, self._view, plan)

    def apply(self, plan: RestorePlan) -> RestoreReport:
        """Carry out a plan; `Conflict` if one of its own paths has changed since."""
        from lastgood.model.operation import RestorePlan
        from lastgood.restore.restore import apply

        expect(plan, RestorePlan, what="the plan")
        return self._guarded("restored", lambda: apply(self._context, self._view, plan))

    def restore(  # noqa: PLR0913 - each is an option of its own, by keyword alone
        self,
        ref: Ref | None = None,
        *,
        paths: Sequence[PathLike] = (),
        to: PathLike | None = None,
        only: Sequence[Scope] | None = None,
        git: bool = False,
        merge: bool = False,
        base: Ref | None = None,
        conflict: Favour | None = None,
        discard: bool = False,
        force: bool = False,
        only_agent: bool = False,
        session: str | None = None,
        consent: PlanConsent | None = None,
    ) -> RestoreReport:
        """Bring a checkpoint back: files, conversation and progress, or ``only`` some of them.

        The present state is saved first, and every restore can be undone. ``paths`` limit it to
        some files; ``git`` puts the project's HEAD and index back too; ``to`` writes the files into
        a new or empty folder instead and touches nothing else. ``merge`` keeps what changed since
        ``base`` (by default where the workspace stands), ``conflict`` settles what both sides
        changed. ``discard`` goes on where something present cannot be copied, ``force`` although
        another session is at work. ``only_agent`` takes back what an agent changed in a ``session`` (by
        default the last one), since the checkpoint if one is given, and keeps what everybody else did.
        ``consent`` is told the plan before anything is changed, and once more where another came of it
        while somebody who saves was waited for; what it raises leaves all as it is. What it asks of the
        workspace's files itself is refused (`Busy`), for the restore holds them.
        """
        extent = Extent(
            only=only,
            git=git,
            merge=merge,
            base=base,
            conflict=conflict,
            only_agent=only_agent,
            session=session,
        )
        if to is not None:
            if ref is None:
                raise _no_ref()
            if consent is not None:
                raise Usage("a restore aside has no plan to agree to", hint="leave the consent out")
            return self._aside(self._view.resolve(ref), to, limited=bool(paths), extent=extent)
        return self._restore(ref, paths, extent=extent, discard=discard, force=force, consent=consent)

    def rewind_target(self, turns: int = 1) -> Checkpoint:
        """Return the checkpoint that `rewind` goes back to.

        A turn counts if files changed in it, or if they did in none. Where there are no turns it is the one
        before the Nth last run that changed a file; where there are no runs either, one with the files of the
        checkpoint after it does not count.
        """
        return self.preview_rewind(turns).target

    def preview_rewind(self, turns: int = 1, *, only: Sequence[Scope] | None = None) -> RewindExtent:
        """Return how far back `rewind` goes: to which checkpoint, past which turns, and what else goes.

        Where ``only`` leaves the files out, turns that changed none count, too.
        """
        from lastgood.rewind import extent

        check_count(turns, least=1, what="how many turns to rewind")
        history = self._rewinding(only)
        found = extent(history, steps=turns)
        if found is None:
            raise _too_far(history, turns)
        return self._whole(found)

    def preview_rewinds(
        self, limit: int = 20, *, only: Sequence[Scope] | None = None
    ) -> tuple[RewindExtent, ...]:
        """Return how far back `rewind` goes with 1, with 2, and so on, at most ``limit``, from one look.

        ``only`` is as for `preview_rewind`.
        """
        from itertools import islice

        from lastgood.rewind import extents

        check_count(limit, least=1, what="how many rewinds to look at")
        return tuple(self._whole(one) for one in islice(extents(self._rewinding(only)), limit))

    def changed_beside(
        self,
        extent: RewindExtent,
        *,
        paths: Sequence[PathLike] = (),
        merge: bool = False,
        base: Ref | None = None,
    ) -> tuple[ChangedBeside, ...]:
        """Return what a rewind takes back that came in none of its turns or runs, newest first.

        That is what one changed oneself, what other sessions did, and what nobody knows the author of; with
        ``only_agent`` a rewind leaves it there. ``paths`` limit it; a ``merge`` keeps what came since its
        ``base``.
        """
        from lastgood.model.report import RewindExtent
        from lastgood.restore.only_agent import changed_beside
        from lastgood.restore.restore import evidence_of
        from lastgood.snapshot import WorkspaceSnapshot
        from lastgood.transaction import ReadTransaction

        expect(extent, RewindExtent, what="how far back it goes")
        limits = scope(paths, self._context.root)
        since = self._view.resolve("@" if base is None else base).sequence if merge else None
        if is_gone(self._context.root):
            return ()
        with ReadTransaction(self._context) as reading, WorkspaceSnapshot(reading) as snapshot:
            evidence = evidence_of(extent.target, self._view.tree(extent.target), snapshot)
            found = changed_beside(snapshot, extent, evidence=evidence)
        return tuple(one for one in found if _goes(one, limits, since=since))

    def _beside(self, extent: Extent, paths: Sequence[PathLike]) -> tuple[ChangedBeside, ...] | None:
        """Return the same for a report: nothing where it stays, None where it cannot be told."""
        stays = extent.only_agent or "files" not in scopes_of(extent, paths=bool(paths))
        if extent.rewound is None or stays:
            return ()
        try:
            return self.changed_beside(extent.rewound, paths=paths, merge=extent.merge, base=extent.base)
        except Damaged:  # what is to come back may be whole
            return None

    def _whole(self, extent: RewindExtent) -> RewindExtent:
        """Return an extent with its target as it is: a history is read in brief."""
        return extent.replace(target=self._view.resolve(extent.target.id))

    def _rewinding(self, only: Sequence[Scope] | None) -> History:
        from lastgood.rewind import History, has_returned, moves
        from lastgood.sessions.progress import taken_back_to

        line = self._view.history()
        if not line:
            raise self._view.nothing_left()
        operations, work = self.operations(), self._context.work
        begun = {one.id: one.session for one in line if one.kind == "session-start" and one.session}
        starts = {id: session for id, session in begun.items() if work.run(session) is not None}
        moved = moves(operations)
        back = {one.stands for one in moved}

        def ended(session: str) -> bool:
            found = work.session(session)
            return found is None or found.state == "ended"

        def of_host(turn: Effect) -> bool:
            found = None if turn.session is None or turn.task is not None else work.session(turn.session)
            return found is not None and not found.exclusive

        def is_back(turn: Effect) -> bool:
            to_it = [one for one in moved if one.stands == turn.stood]
            return taken_back_to(self._context, turn, restores=to_it) is not None

        # A recovery has the turn of a host that died be one whose end is unknown, or took it back.
        died = [one for one in work.effects(self._context.key, state="unknown") if not is_back(one)]
        under_way = work.effects(self._context.key, state="running")

        return History(
            line=line,
            untouched=lambda: self._is_untouched(line[0]),
            returned=has_returned(operations, line[0].id),
            starts=starts,
            taken_back={id for id, session in starts.items() if id in back and ended(session)},
            unended=[one for one in (*died, *under_way) if of_host(one)],
            of_files=not only or "files" in only,
        )

    def _is_untouched(self, place: Checkpoint) -> bool:
        """Tell whether going to a place would change no file; what a restore leaves as it is counts not."""
        try:
            return self.plan_restore(place.id, only=["files"], force=True).empty
        except Damaged:  # it cannot be gone back to
            return True

    def at_work(self) -> tuple[Session, ...]:
        """Return the sessions whose owner's process lives here, without the caller's own.

        A restore takes nothing out of their memory, and they may write again.
        """
        from lastgood.restore.restore import others_at_work

        return tuple(one for one in others_at_work(self._context) if one.owner.pid is not None)

    def plan_rewind(  # noqa: PLR0913 - as `restore`
        self,
        turns: int = 1,
        *,
        paths: Sequence[PathLike] = (),
        only: Sequence[Scope] | None = None,
        git: bool = False,
        merge: bool = False,
        base: Ref | None = None,
        conflict: Favour | None = None,
        discard: bool = False,
        force: bool = False,
        only_agent: bool = False,
    ) -> RestorePlan:
        """Return what `rewind` would do; the options are those of `plan_restore`."""
        extent = Extent(
            only=only,
            git=git,
            merge=merge,
            base=base,
            conflict=conflict,
            only_agent=only_agent,
            rewound=self.preview_rewind(turns, only=only),
        )
        return self._plan(None, paths, extent=extent, discard=discard, force=force)

    def rewind(  # noqa: PLR0913 - as `restore`
        self,
        turns: int = 1,
        *,
        paths: Sequence[PathLike] = (),
        only: Sequence[Scope] | None = None,
        git: bool = False,
        merge: bool = False,
        base: Ref | None = None,
        conflict: Favour | None = None,
        discard: bool = False,
        force: bool = False,
        only_agent: bool = False,
    ) -> RestoreReport:
        """Go back to before the Nth last turn that changed a file; else by runs, or by states of the files.

        The options are those of `restore`. ``only_agent`` takes back what agents changed in these turns, or
        runs, and keeps what everybody else did.
        """
        extent = Extent(
            only=only,
            git=git,
            merge=merge,
            base=base,
            conflict=conflict,
            only_agent=only_agent,
            rewound=self.preview_rewind(turns, only=only),
        )
        beside = self._beside(extent, paths)
        report = self._restore(None, paths, extent=extent, discard=discard, force=force)
        return report.replace(changed_beside=beside)

    def plan_undo(self, *, force: bool = False, merge: bool = False, of: str | None = None) -> UndoPlan:
        """Return what `undo` would do, path by path; raises what that would raise, and touches nothing."""
        return self._undo_plan("undo", force=force, merge=merge, of=of)

    def plan_redo(self, *, force: bool = False, merge: bool = False, of: str | None = None) -> UndoPlan:
        """Return what `redo` would do, path by path; raises what that would raise, and touches nothing."""
        return self._undo_plan("redo", force=force, merge=merge, of=of)

    def _undo_plan(self, direction: Direction, *, force: bool, merge: bool, of: str | None) -> UndoPlan:
        from lastgood.undo import plan

        expect(of, str, type(None), what="the operation")
        return plan(self._context, direction, way=way_of(force=force, merge=merge), of=of)

    def undo(
        self, *, force: bool = False, merge: bool = False, of: str | None = None, plan: str | None = None
    ) -> UndoReport:
        """Take back the last restore or delete; `Conflict` if its paths changed since.

        ``force`` takes it back all the same (the present state is saved first), ``merge`` keeps
        what changed since. ``of`` is the id of the operation that is meant, ``plan`` that of what `plan_undo`
        showed: with another by now it is a `Conflict`.
        """
        return self._undone("undo", force=force, merge=merge, of=of, plan=plan)

    def redo(
        self, *, force: bool = False, merge: bool = False, of: str | None = None, plan: str | None = None
    ) -> UndoReport:
        """Bring again what the last undo took back; the options are those of `undo`."""
        return self._undone("redo", force=force, merge=merge, of=of, plan=plan)

    def _undone(
        self, direction: Direction, *, force: bool, merge: bool, of: str | None, plan: str | None
    ) -> UndoReport:
        from lastgood import undo

        expect(of, str, type(None), what="the operation")
        expect(plan, str, type(None), what="the plan's id")
        way = way_of(force=force, merge=merge)
        act = undo.undo if direction == "undo" else undo.redo
        return self._guarded("undone", lambda: act(self._context, way=way, of=of, planned=plan))

    def _guarded(self, type: EventType, work: Callable[[], Guarded]) -> Guarded:
        """Do what keeps the present state first, and tell of it, and of the guard that was made for it."""
        began = self._context.clock.now() if self._state.observers else None
        report = self._told(type, work)
        guard = None if began is None or report.guard is None else self._context.catalogue.get(report.guard)
        if guard is not None and began is not None and guard.manifest.created_at >= began:
            from lastgood.model.checkpoint import SaveReport

            self._tell("saved", SaveReport(checkpoint=guard, created=True))
        return report

    def _plan(
        self, ref: Ref | None, paths: Sequence[PathLike], *, extent: Extent, discard: bool, force: bool
    ) -> RestorePlan:
        from lastgood.restore.restore import plan_restore

        request = self._request(ref, paths, extent=extent, discard=discard, force=force)
        if not is_gone(self._context.root):
            return plan_restore(self._context, self._view, request)
        from lastgood.workspace.scratch import empty_in_place

        with empty_in_place(self._context) as context:
            return plan_restore(context, self._view, request)

    def _restore(
        self,
        ref: Ref | None,
        paths: Sequence[PathLike],
        *,
        extent: Extent,
        discard: bool,
        force: bool,
        consent: PlanConsent | None = None,
    ) -> RestoreReport:
        from lastgood.restore.restore import restore

        def work() -> RestoreReport:
            request = self._request(ref, paths, extent=extent, discard=discard, force=force)
            return restore(self._context, self._view, request, consent=consent)

        return self._guarded("restored", work)

    def _request(
        self, ref: Ref | None, paths: Sequence[PathLike], *, extent: Extent, discard: bool, force: bool
    ) -> RestoreRequest:
        """Return what is to be restored; `Usage` for what does not go together."""
        from lastgood.restore.restore import RestoreRequest

        check_flags(discard=discard, force=force)
        check_flags(git=extent.git, merge=extent.merge, only_agent=extent.only_agent)
        chosen = scope(paths, self._context.root)
        if extent.only_agent:
            work = self._agent_work(ref, extent)
            return RestoreRequest(
                target=work.target, paths=chosen, scopes=("files",), agent=work, discard=discard, force=force
            )
        if extent.session is not None:
            raise Usage("a session is named for what its agent did", hint="add --only-agent")
        if extent.rewound is not None:
            ref = extent.rewound.target
        if ref is None:
            raise _no_ref()
        scopes = scopes_of(extent, paths=bool(chosen))
        return RestoreRequest(
            target=self._view.resolve(ref),
            paths=chosen,
            scopes=scopes,
            merge=_merge_of(self._view, extent, scopes=scopes),
            discard=discard,
            force=force,
        )

    def _agent_work(self, ref: Ref | None, extent: Extent) -> AgentWork:
        """Return what an agent did; `Usage` for what has no say in how that is taken back."""
        from lastgood.restore.only_agent import work_in_session, work_in_turns

        plain = extent.only in {None, ("files",)} and not (extent.git or extent.merge)
        if not plain or extent.base is not None:
            raise Usage(
                "--only-agent takes back files, and merges as it does so",
                hint="leave out --only, --git, --merge and --base; --conflict settles what both changed",
            )
        if extent.conflict not in {None, *FAVOURS}:
            raise _no_favour(extent.conflict)
        expect(extent.session, str, type(None), what="the session")
        if extent.rewound is not None:
            return work_in_turns(self._context, extent.rewound, favour=extent.conflict)
        since = None if ref is None else self._view.resolve(ref)
        return work_in_session(self._context, session=extent.session, since=since, favour=extent.conflict)

    def _aside(self, target: Checkpoint, to: PathLike, *, limited: bool, extent: Extent) -> RestoreReport:
        from lastgood.restore.restore import restore_aside

        if limited:
            raise Invalid("a restore aside writes the whole checkpoint", hint="leave the paths out")
        if extent.replace(only=None) != Extent() or tuple(extent.only or ("files",)) != ("files",):
            raise Usage(
                "a restore aside writes files, and touches nothing else",
                hint="leave out the rest; a conversation is printed by:"
                f" lastgood show {target.short_id} --conversation",
            )
        directory = make_empty(to, store=self._context.store)
        return restore_aside(self._context, target, directory=directory, tree=self._view.tree(target))


def _goes(one: ChangedBeside, limits: Sequence[bytes], *, since: int | None) -> bool:
    """Tell whether a change is of some paths, and not since the base of a merge, which keeps it."""
    if limits and not any(within(one.path, limit) for limit in limits):
        return False
    return since is None or (one.checkpoint is not None and one.checkpoint.sequence <= since)


def _too_far(history: History, turns: int) -> NotFound:
    from lastgood.rewind import extents

    known = sum(1 for _ in extents(history))
    every = sum(1 for _ in extents(history.replace(of_files=False)))
    said = {
        "turn": "turns before where you are" + (" that changed a file" if known < every else ""),
        "run": "runs before `@` that changed a file",
        "state": "states of the files before `@`",
    }[history.unit]
    message = f"cannot rewind {turns}: there is no checkpoint that far back; {said}: {known}"
    hint = "to take back what changed since where you stand: lastgood restore @\nsee: lastgood list"
    return NotFound(message, hint=hint)


# --- Going on after a crash ---


class Recovers(OpenWorkspace):
    """Verbs for the day after."""

    def recover(
        self,
        ref: Ref | None = None,
        *,
        choice: Choice | None = None,
        roll_back: bool = False,
        owner_pid: int | None = None,
        force: bool = False,
        consent: Consent | None = None,
    ) -> RecoverReport:
        """Finish an interrupted restore, then continue the run that died, end it, or only look.

        ``ref`` names a checkpoint, a session or its goal; ``choice`` is ``continue``, ``fresh`` or
        ``review``. Without one the named or the only dead run continues, under ``owner_pid`` or else by
        heartbeat; `Usage` where its owner may live. Its files stay as they are; ``roll_back`` takes them
        and its progress back to before what it left unfinished, or to the checkpoint that was named, or
        an interrupted restore back. With nothing dead it reports the position and reloads artifacts
        that are missing, unless another session is at work. ``force`` brings files back beside such a
        session, and takes over from one that holds the workspace. ``consent`` is told what is about to be
        taken back, an interrupted restore being settled; what it raises leaves the rest as it is. Raises
        `Ambiguous` if several runs died, `Conflict` if one is not dead, or cannot go on beside another.
        """
        from lastgood.model.checkpoint import Checkpoint
        from lastgood.model.run import CHOICES
        from lastgood.recovery import recover

        ref = ref.id if isinstance(ref, Checkpoint) else ref
        expect(ref, str, type(None), what="what to recover")
        if choice is not None and choice not in CHOICES:
            raise Usage(f"{choice!r} is no choice", hint="choices: " + ", ".join(CHOICES))
        if owner_pid is not None:
            check_count(owner_pid, least=1, what="the owner's process number")
        check_flags(roll_back=roll_back, force=force)
        report = recover(
            self._context,
            self._view,
            ref=ref,
            choice=choice,
            roll_back=roll_back,
            owner_pid=owner_pid,
            force=force,
            consent=consent,
        )
        self._state.log("recovered in %s: %r", self.path, report)
        return report

    def steps(self, session: str | None = None) -> tuple[Effect, ...]:
        """Return the steps of the work in the order of their start: of one session, or of all.

        Whoever goes on with a run sees by them what is done, and what nobody saw the end of.
        """
        expect(session, str, type(None), what="the session")
        return tuple(self._context.work.effects(self._context.key, session=session))
