"""recover: a restore that was interrupted is settled (`restore.finish`), then the run that died resumed."""

from __future__ import annotations

from lastgood import tasks
from lastgood.catalogue import Query
from lastgood.errors import Ambiguous, Conflict, Damaged, NotFound, Unsafe
from lastgood.lease import current_session, current_work, report_on, session_of, state_of, unfinished, uptime
from lastgood.model.checkpoint import TreeRef
from lastgood.model.run import Artifact, RecoverReport
from lastgood.model.session import Progress
from lastgood.restore.finish import settle_restore
from lastgood.restore.restore import RestoreRequest, head_moved, irreversible, restore
from lastgood.sessions.conversation import keep_rest, last_conversation
from lastgood.sessions.session import abandon_steps, exclusive_rivals, holder, living_conflict, way_to_end
from lastgood.snapshot import WorkspaceSnapshot
from lastgood.status import drift_since
from lastgood.transaction import ReadTransaction
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lastgood.context import Context
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.report import RestoreReport, State
    from lastgood.model.run import Choice, LastConversation
    from lastgood.model.session import Effect, Owner, Session, SessionReport
    from lastgood.restore.finish import SettledRestore
    from lastgood.view import View


# --- Which run is meant: the one that died, and the checkpoint that it is seen from (rule P7) ---

SESSION_PREFIX = "sess_"


class Found(Value):
    """A run that died (None: none that is meant), and the checkpoint that it is seen from.

    That is its last one (the newest), or the one asked for; ``returned`` says that it is another, at which
    the workspace stands.
    """

    run: SessionReport | None
    checkpoint: Checkpoint | None
    returned: bool = False


def choose(
    context: Context, view: View, ref: str | None, *, choice: Choice | None, strict: bool = True
) -> Found:
    """Return what a recovery is about.

    A session is meant by its id, or by a checkpoint of it; without either it is the only one that
    died. Raises `Ambiguous` with the sessions if there are several, unless they are only looked at;
    not ``strict``, none of several is meant where nothing was chosen.
    """
    dead = unfinished(context)
    if ref is not None and ref.startswith(SESSION_PREFIX):
        meant = report_on(context, session_of(context, ref))
        _demand_dead(context, meant)
        return Found(run=meant, checkpoint=_last(context, meant))
    if ref is None:
        if not dead:
            return Found(run=None, checkpoint=view.latest())
        if len(dead) > 1 and choice is None and not strict:
            return Found(run=None, checkpoint=view.latest())
        if len(dead) > 1 and choice != "review":
            raise _ambiguous(dead)
        return Found(run=dead[0], checkpoint=_last(context, dead[0]))
    checkpoint = view.resolve(ref)
    run = next((one for one in dead if one.id == checkpoint.session), None)
    if run is None and choice in {"continue", "fresh"} and dead:
        if len(dead) > 1:
            raise _ambiguous(dead)
        run = dead[0]
    return Found(run=run, checkpoint=checkpoint)


def _last(context: Context, run: SessionReport) -> Checkpoint | None:
    found = context.catalogue.find(
        Query(workspace_key=context.key, session=run.id, complete=True, guards=False, limit=1)
    )
    return found[0] if found else None


def _demand_dead(context: Context, run: SessionReport) -> None:
    if run.state == "incomplete":
        return
    if run.state == "active":
        raise living_conflict(
            context, run.session, doing="is active, so that there is nothing to recover of it"
        )
    raise Conflict(
        f"session {run.id} has ended: there is nothing to recover of it",
        hint="see all: lastgood session list",
        details={"sessions": [run.id], "state": run.state},
    )


def _ambiguous(dead: Sequence[SessionReport]) -> Ambiguous:
    return Ambiguous(
        f"{len(dead)} runs died",
        hint=f"say which, for example: lastgood recover {dead[0].id} --continue"
        " (or --fresh; --review tells about the newest)",
        details={"candidates": [one.id for one in dead]},
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
) -> RecoverReport:
    """Finish an interrupted restore; then continue the run that died, give it up, or only look.

    ``ref`` names a checkpoint or a session. Without a choice it, or the one run that died, goes on;
    with nothing dead the position is reported, and artifacts that are missing are brought back.
    ``roll_back`` takes an interrupted restore back; else it takes the files and the progress of the run
    that goes on back to the checkpoint (asked for together with ``continue``, it does both). ``force``
    does so although another session is at work (rule T14), and takes over from one that holds the workspace.

    Raises `Ambiguous` if several runs died and none is named, `Conflict` if the one that is named is
    not dead, or was settled by somebody else meanwhile.
    """
    if choice == "review":
        found = choose(context, view, ref, choice=choice)
        found = found if ref is not None else _with_position(context, found, target=None)
        return _report(context, view, found).replace(done="review")
    owner = context.processes.owner(owner_pid)
    if ref is not None:  # what cannot be meant is refused before anything is done
        choose(context, view, ref, choice=choice)
    settled = settle_restore(context, roll_back=roll_back)
    # What is rolled back is the restore; the run's files too if it is named, or if there was no restore.
    rewinds_files = roll_back and (settled.done is None or choice == "continue")
    way = _Way(choice=choice, owner=owner, rewinds_files=rewinds_files, force=force)
    report = resume_dead_run(context, view, ref, way=way, settled=settled)
    return report.replace(
        interrupted_restore=settled.done,
        outcomes=(*settled.left, *settled.outcomes, *report.outcomes),
        parts=settled.parts,
    )


# --- The run that died: it goes on, is given up, or there is none and its artifacts are looked after ---


class _Way(Value):
    """How a run is dealt with; ``rewinds_files`` says that its files and progress are taken back first."""

    choice: Choice | None
    owner: Owner
    rewinds_files: bool
    force: bool


def resume_dead_run(
    context: Context, view: View, ref: str | None, *, way: _Way, settled: SettledRestore
) -> RecoverReport:
    """Deal with the run that died as was chosen; with none, bring back the artifacts that are missing."""
    found = choose(context, view, ref, choice=way.choice, strict=settled.done is None)
    if ref is None:
        found = _with_position(context, found, target=settled.target)
    if found.run is None:
        return _reloaded(context, view, found, force=way.force).replace(done=settled.done)
    if way.choice == "fresh":
        return _with_conversation(context, _given_up(context, view, found))
    return _with_conversation(context, _continued(context, view, found, way))


def _with_conversation(context: Context, report: RecoverReport) -> RecoverReport:
    """Keep what the run said after its last checkpoint, and return the report with that (rule P7c)."""
    assert report.session is not None
    keep_rest(context, report.session.session)
    return report.replace(conversation=last_conversation(context, report.session.session))


def _with_position(context: Context, found: Found, *, target: str | None) -> Found:
    """Return what was found, seen from the checkpoint that the workspace stands at.

    That is ``target``, of a restore that was just finished; where no run died, else one that the
    workspace equals.
    """
    stands = None if target is None else context.catalogue.get(target)
    if stands is None and found.run is None and found.checkpoint is not None:
        stands = _equal(context)
    if stands is None or found.checkpoint is None or stands.id == found.checkpoint.id:
        return found
    return found.replace(checkpoint=stands, returned=True)


def _equal(context: Context) -> Checkpoint | None:
    """Return the newest complete checkpoint that holds the files as they are; none while a restore waits."""
    if context.journal.read() is not None:
        return None
    with ReadTransaction(context) as reading, WorkspaceSnapshot(reading) as snapshot:
        tree = snapshot.scan.result.tree
    root = TreeRef(tree=tree.tree.hex(), modes=tree.modes.hex())
    query = Query(workspace_key=context.key, root=root, complete=True, guards=False)
    return next((one for one in context.catalogue.find(query) if one.damaged is None), None)


def _continued(context: Context, view: View, found: Found, way: _Way) -> RecoverReport:
    """Make the session active again under another owner, its running tasks waiting to be done again."""
    assert found.run is not None
    with context.locks.recovery(context.key, wait=context.wait):
        was = _still_dead(context, found.run)
        replacing: Sequence[Session] = ()
        evicted: Session | None = None
        if was.exclusive:
            replacing, evicted = exclusive_rivals(
                context, lambda living: _beside(context, living, was), force=way.force, besides=was.id
            )
        back = _taken_back(context, view, found, force=way.force) if way.rewinds_files else None
        anew = was.replace(
            owner=way.owner,
            state="active",
            heartbeat_at=context.clock.now(),
            heartbeat_uptime=uptime(context),
            heartbeat_boot=context.processes.boot(),
            ended_at=None,
            ended_by=None,
        )
        change = tasks.released if back is None else back.change
        _settle(context, anew, was=was, change=change, replacing=replacing)
        if evicted is not None:
            abandon_steps(context, evicted.id)
    report = _report(context, view, found.replace(run=report_on(context, anew)))
    report = report.replace(done="continue", took_over=evicted)
    if back is None:
        return report
    return report.replace(restored=back.report, irreversible=back.irreversible, outcomes=back.report.outcomes)


class _Back(Value):
    """Files that were taken back to a checkpoint, and what else that means."""

    report: RestoreReport
    irreversible: tuple[Effect, ...]
    change: Callable[[Progress], Progress]


def _taken_back(context: Context, view: View, found: Found, *, force: bool) -> _Back:
    target = found.checkpoint
    if target is None:
        raise NotFound(
            "the run has no checkpoint to go back to",
            hint="go on with the files as they are: lastgood recover --continue",
        )
    then = target.manifest.progress
    gone = irreversible(context, target)
    report = restore(context, view, RestoreRequest(target=target, scopes=("files",), force=force))
    return _Back(report=report, irreversible=gone, change=lambda present: tasks.back_to(present, then))


def _given_up(context: Context, view: View, found: Found) -> RecoverReport:
    """End the session; its files and its checkpoints stay as they are."""
    assert found.run is not None
    with context.locks.recovery(context.key, wait=context.wait):
        was = _still_dead(context, found.run)
        ended = was.replace(state="ended", ended_at=context.clock.now(), ended_by="fresh")
        _settle(context, ended, was=was, change=tasks.released)
    told = _report(context, view, found.replace(run=report_on(context, ended)))
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


def _still_dead(context: Context, run: SessionReport) -> Session:
    """Return the session as it is recorded now, under the lock of recoveries."""
    session = context.work.session(run.id)
    if session is None or session.state == "ended" or state_of(context, session) != "incomplete":
        raise Conflict(
            f"session {run.id} was settled by somebody else a moment ago",
            hint=f"see where it stands: lastgood session show {run.id}",
            details={"sessions": [run.id]},
        )
    return session


def _beside(context: Context, living: Session, dead: Session) -> Conflict:
    return Conflict(
        f"{dead.id} cannot go on beside {living.id}, which is held by {holder(living)}",
        hint=f"{way_to_end(context, living)}\nor take over from it: --force",
        details={"sessions": [living.id]},
    )


def _report(context: Context, view: View, found: Found) -> RecoverReport:
    """Say where a run stands, or without one the checkpoint; nothing is changed."""
    run, checkpoint = found.run, found.checkpoint
    progress = Progress()
    if run is not None:
        progress = run.progress
    elif checkpoint is not None:
        progress = checkpoint.manifest.progress
        if found.returned:  # files may have come back without it
            progress = present if not (present := current_work(context).progress).empty else progress
    interrupted = context.journal.read() is not None
    moved = None if checkpoint is None else head_moved(context, checkpoint)
    waiting = tuple(one for one in unfinished(context) if run is None or one.id != run.id)
    return RecoverReport(
        state="interrupted" if interrupted else _state(context),
        checkpoint=checkpoint,
        session=run,
        progress=progress,
        unknown_effects=_unknown(context, run),
        live_processes=() if run is None else tuple(context.processes.marked(run.id)),
        git_matches=None if checkpoint is None or checkpoint.git is None else moved is None,
        head_moved=moved,
        drift=None if checkpoint is None or interrupted else drift_since(context, view, checkpoint),
        artifacts=tuple(_artifact(context, path) for path in progress.position.artifacts),
        waiting=waiting,
        beside=_other(context) if run is None else None,
        returned=found.returned,
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
    return current


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
    """Bring back the artifacts of the checkpoint that are missing, unless another session is at work."""
    report = _report(context, view, found)
    checkpoint = found.checkpoint
    if checkpoint is None or checkpoint.manifest.workspace_key != context.key:
        return report
    if report.beside is not None and not force:
        return report
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
