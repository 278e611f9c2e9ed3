"""restore: plan, guard, journal, apply, record (rules T1 to T15)."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from stat import S_ISREG

from lastgood.errors import Busy, Conflict, Invalid, Unsafe, Usage
from lastgood.ignore import Includes, TreeRules, is_hand_written
from lastgood.lease import current_work, state_of
from lastgood.model.canonical import dumps
from lastgood.model.checkpoint import GitState
from lastgood.model.operation import PART, PartOutcome, RestorePlan
from lastgood.model.path_safety import link_faults, refuse
from lastgood.model.report import HeadMoved, NotHeld, RestoreReport, planned_outcomes
from lastgood.model.tree import DIRECTORY, is_content, same_content
from lastgood.paths import join, printable, to_bytes, to_text, within
from lastgood.restore import parts
from lastgood.restore.execution import PlanExecution, loses_content, place_of
from lastgood.restore.plan import (
    DeletionEvidence,
    Since,
    are_alike,
    barred,
    conflicts,
    identify,
    is_barred,
    occupied,
    plan,
)
from lastgood.root import is_gone
from lastgood.settings import DEFAULT_SCOPES
from lastgood.snapshot import INDEX, WorkspaceSnapshot, ask_before
from lastgood.transaction import ReadTransaction, RestoreTransaction
from lastgood.trees import ignore_texts
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from lastgood.context import Context
    from lastgood.literals import Scope
    from lastgood.model.calls import PlanConsent
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Merged, Step
    from lastgood.model.session import CurrentWork, Effect, Session
    from lastgood.model.tree import Entry
    from lastgood.restore.merge import Merge
    from lastgood.restore.only_agent import AgentWork
    from lastgood.snapshot import Before
    from lastgood.trees import Files
    from lastgood.view import View

    Told = TypeVar("Told")


# --- What refuses a plan, because the workspace is not as it was planned for ---

_SHOWN = 5
# Of what a restore is of, its guard names so many characters and paths.
_WORDS, _PATHS = 60, 3


def refuse_changed(steps: Sequence[Step], snapshot: WorkspaceSnapshot, *, hint: str) -> None:
    """Refuse if a path is no longer as the steps found it (rules T1, T8).

    A file that the scan held then and leaves out by now, because the ignore rules changed, counts as
    changed: the guard would not hold it. So do a directory that is none any more, if something is to be
    written into it, and what came into one that a file is to take the place of.
    """
    held = {step.path for step in steps if not step.forced and is_content(step.have)}

    def actual(path: bytes) -> Entry | None:
        return snapshot.files.entry(path) if path in held else snapshot.actual(path)

    with snapshot.looking():
        ways, inside = barred(steps, snapshot.actual), occupied(steps, snapshot.scan)
        changed = sorted({*conflicts(steps, actual), *ways, *inside.values()})
    if changed:
        has = "has" if len(changed) == 1 else "have"
        raise Conflict(
            f"{_some(changed)} {has} changed since",
            hint=hint,
            details={"paths": [to_text(path) for path in changed]},
        )


def refuse_unheld(steps: Sequence[Step], snapshot: WorkspaceSnapshot) -> None:
    """Refuse if the guard could not take in what is going to be overwritten (rule T2)."""
    unheld = [
        step.path
        for step in steps
        if step.forced and step.have is not None and snapshot.files.entry(step.path) is None
    ]
    if unheld:
        raise Unsafe(
            f"what is there now could not be copied, and would be lost: {_some(unheld)}",
            hint="move it away, or restore with --discard to lose it",
            details={"paths": [to_text(path) for path in unheld]},
        )


def _some(paths: Sequence[bytes]) -> str:
    shown = ", ".join(printable(to_text(path)) for path in paths[:_SHOWN])
    return f"{shown} and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else shown


# --- Other sessions that are at work here now (rule T14) ---


def refuse_rivals(context: Context) -> None:
    """Refuse to restore while another session is at work.

    At work is one that lives and has a task running, or that holds the workspace through a process
    of its own. The caller's own is the one that it names, and the one whose owner it is or runs below.
    """
    for session in others_at_work(context):
        running = [task.id for task in context.work.progress(session.id).tasks if task.state == "running"]
        if not running and not (session.exclusive and session.owner.pid is not None):
            continue
        from lastgood.sessions.session import holding

        doing = f"is at task {printable(running[0])}" if running else "holds this workspace"
        raise Conflict(
            f"session {session.id} {doing}; {holding(context, session)}",
            hint="wait until it has ended, or restore all the same: --force"
            f"\nfrom within it: LASTGOOD_SESSION={session.id}",
            details={"session": session.id, "owner": session.owner.as_dict(), "running": running},
        )


def others_at_work(context: Context) -> Iterator[Session]:
    """Yield the sessions that live, but for the caller's own."""
    for session in context.work.sessions(context.key, state="active"):
        if not _is_own(context, session) and state_of(context, session) == "active":
            yield session


def _is_own(context: Context, session: Session) -> bool:
    return session.id == context.session or context.processes.encloses(session.owner)


# --- What a restore's report says beside the files (rules T9, T11, P6) ---

# What of a part's JSON is for those who asked; the rest is between its module and the journal.
_SHOWN_FIELDS = ("messages", "transcript", "resume_command", "note", "commit", "branch")


def with_details(
    context: Context,
    report: RestoreReport,
    target: Checkpoint,
    *,
    standing: CurrentWork | None = None,
    left: tuple[PartOutcome, ...] | None = None,
    guard: Checkpoint | None = None,
) -> RestoreReport:
    """Return a report with what is known beside the files.

    ``standing`` is how far the work has come, ``left`` what the same look found of parts that stay, ``guard``
    the checkpoint that holds what was there.
    """
    standing = standing or current_work(context)
    if left is None:
        left = _parts_left(context, report, target, standing=standing)
    progress = standing.progress
    moved = None if report.folder_made else head_moved(context, target)
    if moved is not None and moved.from_ == moved.to and "git" in report.scopes:
        moved = None  # it is where it was asked to be, if detached
    return report.replace(
        parts=(*left, *report.parts),
        head_moved=moved,
        index_differs=moved is None
        and "git" not in report.scopes
        and _index_differs(report, target, guard=guard),
        irreversible=irreversible(context, target),
        conversation=_conversation(context, report, target),
        progress=None if progress.empty else progress,
        not_held=not_held(context, report, target),
        not_held_unnamed=_unnamed(report, target),
    )


def _parts_left(
    context: Context, report: RestoreReport, target: Checkpoint, *, standing: CurrentWork
) -> tuple[PartOutcome, ...]:
    """Return what was left as it is because that of a checkpoint cannot be read (rule T11)."""
    known = {"git", *(part.scope for part in report.parts)}
    scopes = tuple(scope for scope in parts.ORDER if scope in report.scopes and scope not in known)
    return parts.planned(context, target, scopes=scopes, standing=standing).left


def _index_differs(report: RestoreReport, target: Checkpoint, *, guard: Checkpoint | None) -> bool:
    """Tell whether the project's index is another one than at a checkpoint, by what the guard found of it."""
    then = target.manifest.state.get(INDEX)
    if then is None or guard is None or report.planned.paths:
        return False
    if "files" not in report.scopes or "git" in report.scopes:
        return False
    now = guard.manifest.state.get(INDEX)
    return now is not None and now != then


def not_held(context: Context, report: RestoreReport, target: Checkpoint) -> tuple[NotHeld, ...]:
    """Return what was there at a checkpoint, is missing, and is in none (rules S5, S7, T12a)."""
    if "files" not in report.scopes:
        return ()
    missed = _missed(context, report, target)
    if report.planned.paths:
        return missed
    git = target.manifest.git
    paths = [
        *(NotHeld(path=path, reason="ignored") for path in target.manifest.ignored_paths),
        *(
            NotHeld(path=join(one.path, b".git"), reason="repository", head=one.head)
            for one in (() if git is None else git.nested)
        ),
    ]
    absent = (
        one.replace(path=one.path.removesuffix(b"/"))
        for one in paths
        if not os.path.lexists(join(context.root, one.path.removesuffix(b"/")))
    )
    return (*absent, *missed)


def _missed(context: Context, report: RestoreReport, target: Checkpoint) -> tuple[NotHeld, ...]:
    """Return what a checkpoint lists as missing in it and that is not there, or in another size (rule S7)."""
    limits = report.planned.paths
    told = {step.path for step in report.planned.steps}
    folder = context.root if report.directory is None else to_bytes(report.directory)
    found: list[NotHeld] = []
    for gap in target.gaps:
        if gap.path in told or (limits and not any(within(gap.path, one) for one in limits)):
            continue
        try:
            there = _stat_within(folder, gap.path)
        except (FileNotFoundError, NotADirectoryError):
            found.append(NotHeld(path=gap.path, reason=gap.reason, size=gap.size))
            continue
        except OSError:  # of what is too deep, or may not be looked at, nothing is known
            continue
        if gap.size is not None and S_ISREG(there.st_mode) and there.st_size != gap.size:
            found.append(NotHeld(path=gap.path, reason=gap.reason, size=gap.size, changed=True))
    return tuple(found)


def _stat_within(folder: bytes, path: bytes) -> os.stat_result:
    """Return what a path of a folder is; as of one that is not there where a link leads to it elsewhere."""
    above = os.path.dirname(path)
    if above and os.path.realpath(join(folder, above)) != join(os.path.realpath(folder), above):
        raise NotADirectoryError
    return os.lstat(join(folder, path))


def _unnamed(report: RestoreReport, target: Checkpoint) -> int:
    """Return how many entries were ignored at a checkpoint that does not name them."""
    if "files" not in report.scopes or report.planned.paths:
        return 0
    return max(0, target.manifest.ignored - len(target.manifest.ignored_paths))


def head_moved(context: Context, target: Checkpoint) -> HeadMoved | None:
    """Tell whether the project's HEAD is not where it was at a checkpoint, or on another branch (rule T9)."""
    then = target.manifest.git
    if then is None:
        return None
    now = context.project.state(context.root) or GitState(head=None, branch=None)
    if (then.head, then.branch) == (now.head, now.branch):
        return None
    from lastgood.restore.parts.git import left_branch  # lazily: most often HEAD is where it was

    commits = None
    if then.head is not None and now.head is not None:
        commits = context.project.commits_between(context.root, then.head, now.head)
    return HeadMoved(
        commits=commits,
        from_=then.head,
        to=now.head,
        from_branch=then.branch,
        to_branch=now.branch,
        left_branch=None if then.branch is None else left_branch(context, then.branch, commit=then.head),
    )


def irreversible(context: Context, target: Checkpoint) -> tuple[Effect, ...]:
    """Return the steps of the work since a checkpoint that no restore takes back (rule P6).

    One that nobody saw end counts: it may have had its effect.
    """
    return tuple(
        effect
        for effect in context.work.effects(context.key, reversible=False)
        if effect.state != "failed" and effect.after >= target.sequence
    )


def part_details(side: Mapping[str, object]) -> dict[str, object]:
    """Return what of a part is for reports."""
    return {key: side[key] for key in _SHOWN_FIELDS if key in side}


def _conversation(context: Context, report: RestoreReport, target: Checkpoint) -> dict[str, object] | None:
    """Return where a conversation comes back: in a transcript, or as messages and why only so (rule T11)."""
    held = target.manifest.conversation
    if held is None or "conversation" not in report.scopes:
        return None
    part = next((one for one in report.parts if one.scope == "conversation"), None)
    if part is not None:
        return {"messages": held.messages} | part_details(part.details)
    from lastgood.restore.parts.conversation import remark

    said = remark(context, target)
    fields = {} if said is None else said.as_dict()
    return {"messages": held.messages} | {name: value for name, value in fields.items() if value is not None}


# --- restore: plan, guard, journal, apply, record (rules T1 to T15) ---


class RestoreRequest(Value):
    """What a restore is to bring back: a checkpoint, all of it, some paths, or some parts beside files.

    ``merge`` keeps what changed since its base (rule T17); ``agent`` is what alone is taken back.
    """

    target: Checkpoint
    paths: tuple[bytes, ...] = ()
    scopes: tuple[Scope, ...] = DEFAULT_SCOPES
    merge: Merge | None = None
    agent: AgentWork | None = None
    discard: bool = False
    force: bool = False


def plan_restore(context: Context, view: View, request: RestoreRequest) -> RestorePlan:
    """Return what a restore would do; nothing is touched or stored."""
    _admit(context, request)
    with ReadTransaction(context) as reading, _planned(reading, view, request) as (made, *_):
        return made


def apply(context: Context, view: View, plan: RestorePlan) -> RestoreReport:
    """Carry out a plan; refuses if one of its own paths has changed since (rule T1)."""
    target = _target_of(context, view, plan)
    with RestoreTransaction(context) as restoring:
        if not plan.force:
            refuse_rivals(context)
        with _folder_made(restoring) as made:
            return _scan_and_apply(restoring, plan, target).replace(folder_made=made)


def restore(
    context: Context, view: View, request: RestoreRequest, *, consent: PlanConsent | None = None
) -> RestoreReport:
    """Plan and apply at one go; the same scan serves both unless the guard has to hold more.

    ``consent`` is told the plan before anything is changed; what it raises leaves all as it is. For that
    nobody who saves is waited for: beside them it is told by a look of its own, and once they have ended
    what it has become, if that is another.
    """
    waits = consent is None or is_gone(context.root)
    with ExitStack() as held:
        try:
            restoring = held.enter_context(RestoreTransaction(context, wait=None if waits else 0))
        except Busy:
            if consent is None or waits:
                raise
        else:
            return _restored(restoring, view, request, consent=consent)
    agreed = plan_restore(context, view, request)
    demand_consent(consent, agreed)
    with RestoreTransaction(context) as restoring:
        return _restored(restoring, view, request, consent=consent, agreed=agreed)


def _restored(
    restoring: RestoreTransaction,
    view: View,
    request: RestoreRequest,
    *,
    consent: PlanConsent | None,
    agreed: RestorePlan | None = None,
) -> RestoreReport:
    def admitted() -> tuple[RestoreRequest, Before]:
        anew = request.replace(target=view.resolve(request.target.id))  # it may be deleted by now
        _admit(restoring.context, anew)
        return anew, ask_before(restoring)

    request, before = restoring.context.catalogue.moment(admitted)
    with _folder_made(restoring) as folder_made:
        with _planned(restoring, view, request, before=before) as (made, left, snapshot):
            if consent is not None and (agreed is None or made.id != agreed.id):
                demand_consent(consent, made)
            if not any(step.forced for step in made.steps):
                report = _carry_out(restoring, made, snapshot, target=request.target, left=left)
                return report.replace(folder_made=True) if folder_made else report
        report = _scan_and_apply(restoring, made, request.target)
        return report.replace(folder_made=True) if folder_made else report


def demand_consent(consent: Callable[[Told], object], told: Told) -> None:
    """Tell somebody what is about to be done; what they raise goes on, and no answer is taken for a yes."""
    answer = consent(told)
    if answer is not None:  # a no as False, or a coroutine that nobody awaits
        raise Usage(
            f"the consent returned {type(answer).__name__}, not None",
            hint="have it raise an error to refuse, and return nothing to agree; it is not awaited",
        )


@contextmanager
def _folder_made(restoring: RestoreTransaction) -> Iterator[bool]:
    """Have the workspace's folder there, made again where it is gone, and tell whether it was (rule T12a).

    Empty as it is then, it is what the guard holds: an undo takes away what was written into it.
    """
    made = restoring.applier.make_root()
    try:
        yield bool(made)
    except BaseException:
        restoring.applier.unmake(made)
        raise


def preview(context: Context, view: View, plan: RestorePlan) -> RestoreReport:
    """Return the report of a plan that is not carried out."""
    target = _target_of(context, view, plan)
    awaited = tuple(
        PartOutcome(scope=part.scope, result="planned", details=part_details(part.after))
        for part in plan.parts
    )
    report = RestoreReport(
        planned=plan,
        target=target.id,
        outcomes=planned_outcomes(plan),
        parts=awaited,
        dry_run=True,
        folder_made=is_gone(context.root),
    )
    return with_details(context, report, target)


def restore_aside(context: Context, target: Checkpoint, *, directory: bytes, tree: Files) -> RestoreReport:
    """Write a checkpoint into a new or empty folder, and touch nothing else (rule T11)."""
    with context.locks.share_store(wait=context.wait):
        outcomes = context.applier_of(directory).write_tree(tree.root, objects=context.engine)
    empty = RestorePlan(id="", target=target.id, workspace_key=context.key, paths=(), steps=())
    report = RestoreReport(
        planned=empty, target=target.id, outcomes=tuple(outcomes), directory=to_text(directory)
    )
    return report.replace(not_held=_missed(context, report, target))


def evidence_of(target: Checkpoint, files: Files, snapshot: WorkspaceSnapshot) -> DeletionEvidence:
    """Return what decides between a checkpoint, whose files are given, and the workspace now.

    What people write by hand and git ignores is theirs: a whole restore brings it back, and changes none.
    What is configured to be captured all the same is restored like any file.
    """
    private = {*target.manifest.private, *snapshot.scan.result.private}
    asked_for = Includes(snapshot.context.settings.capture.include)

    def spares(path: bytes) -> bool:
        return path in private and is_hand_written(path) and not asked_for.matches(path, directory=False)

    return DeletionEvidence(
        ignored_then=TreeRules(target.manifest.ignore, ignore_texts(files)).ignored,
        look=snapshot.present,
        spares=spares,
        gaps_then=target.manifest.gaps,
        gaps_now=snapshot.scan.result.gaps,
    )


@contextmanager
def _planned(
    transaction: ReadTransaction, view: View, request: RestoreRequest, *, before: Before | None = None
) -> Iterator[tuple[RestorePlan, tuple[PartOutcome, ...], WorkspaceSnapshot]]:
    """Plan from a scan, in which everything that is going to go was read (rule T2); tell what parts stay.

    What the scan cache says of a file can be outdated: stores through a mapping need not change its
    times. So what the scan took from there is read, and where it is outdated, the plan is made anew from a
    scan that read those paths.
    """
    with WorkspaceSnapshot(transaction, before=before) as snapshot:
        made, left = _plan(view, request, snapshot)
        going = {
            step.path: step.have
            for step in made.steps
            if loses_content(step) and not snapshot.scan.was_read(step.path)
        }
        outdated = _outdated(transaction.context, going) if going else ()
        if not outdated:
            yield made, left, snapshot
            return
    with WorkspaceSnapshot(transaction, fresh=outdated) as snapshot:
        yield *_plan(view, request, snapshot), snapshot


def _outdated(context: Context, going: Mapping[bytes, Entry | None]) -> tuple[bytes, ...]:
    """Return the paths that hold something else than was found, by reading them."""
    with context.applier.looking() as present:
        return tuple(path for path, have in going.items() if not same_content(present(path), have))


def _plan(
    view: View, request: RestoreRequest, snapshot: WorkspaceSnapshot
) -> tuple[RestorePlan, tuple[PartOutcome, ...]]:
    context, keeping = snapshot.context, request.agent or request.merge
    files = view.tree(request.target)
    paths = _limits(request, files, snapshot)
    with snapshot.looking():
        steps, merged = (
            ((), ()) if paths is None else _steps(view, request, snapshot, files=files, paths=paths)
        )
    refuse(tuple(link_faults(steps, context.engine)))
    beside = parts.planned(context, request.target, scopes=request.scopes, standing=snapshot.standing)
    made = with_id(
        RestorePlan(
            id="",
            target=request.target.id,
            workspace_key=context.key,
            paths=request.paths,
            steps=steps,
            discard=request.discard,
            force=request.force,
            scopes=request.scopes,
            parts=beside.changes,
            base=None if keeping is None else keeping.base.id,
            favour=None if keeping is None else keeping.favour,
            merged=merged,
        )
    )
    return made, beside.left


def with_id(plan: RestorePlan) -> RestorePlan:
    """Return a plan with the id that its content gives it (rule T16)."""
    favour = "" if plan.base is None else f"{plan.base} {plan.favour}"
    id = identify(
        plan.steps,
        target=plan.target,
        workspace_key=plan.workspace_key,
        paths=plan.paths,
        discard=plan.discard,
        force=plan.force,
        beside=(
            " ".join(plan.scopes).encode(),
            favour.encode(),
            *(dumps(PART.write(one)) for one in plan.parts),
        ),
    )
    return plan.replace(id=id)


def _steps(
    view: View,
    request: RestoreRequest,
    snapshot: WorkspaceSnapshot,
    *,
    files: Files,
    paths: tuple[bytes, ...],
) -> tuple[tuple[Step, ...], tuple[Merged, ...]]:
    evidence = evidence_of(request.target, files, snapshot)
    steps, merged = _steps_by_name(view, request, snapshot, files=files, paths=paths, evidence=evidence)
    if merged or not are_alike(steps):
        return steps, merged
    from lastgood.restore.spellings import as_spelt

    return as_spelt(steps, evidence.look), merged


def _steps_by_name(
    view: View,
    request: RestoreRequest,
    snapshot: WorkspaceSnapshot,
    *,
    files: Files,
    paths: tuple[bytes, ...],
    evidence: DeletionEvidence,
) -> tuple[tuple[Step, ...], tuple[Merged, ...]]:
    if request.agent is not None:
        from lastgood.restore.only_agent import agent_steps

        return agent_steps(snapshot, request.agent, evidence=evidence, paths=paths)
    if request.merge is None:
        steps = plan(
            files,
            snapshot.scan,
            evidence=evidence,
            paths=paths,
            discard=request.discard,
            since=Since(
                root=snapshot.scan.result.tree, differing=snapshot.scan.differing, edits=snapshot.scan.edits
            ),
        )
        return steps, ()
    from lastgood.restore.merge import merged_steps

    return merged_steps(
        snapshot,
        request.merge,
        files=(view.tree(request.merge.base), files),
        target=request.target,
        evidence=evidence,
        paths=paths,
        discard=request.discard,
    )


def _limits(request: RestoreRequest, files: Files, snapshot: WorkspaceSnapshot) -> tuple[bytes, ...] | None:
    """Return the paths that the files are limited to, none for all of them; None where no file is meant.

    State files come back with the progress although no other file does (rule P2).
    """
    if "files" in request.scopes:
        return request.paths
    patterns = snapshot.context.settings.capture.state_files
    if "progress" not in request.scopes or not patterns:
        return None
    includes = Includes(patterns)
    both = (*files.walk(), *_scanned(snapshot))
    found = {
        path for path, entry in both if entry.kind != DIRECTORY and includes.matches(path, directory=False)
    }
    return tuple(sorted(found)) or None


def _scanned(snapshot: WorkspaceSnapshot) -> Iterator[tuple[bytes, Entry]]:
    waiting = [b""]
    while waiting:
        place = waiting.pop()
        for entry in snapshot.scan.directory(place) or ():
            path = join(place, entry.name)
            yield path, entry
            if entry.kind == DIRECTORY:
                waiting.append(path)


def _scan_and_apply(restoring: RestoreTransaction, plan: RestorePlan, target: Checkpoint) -> RestoreReport:
    """Look again, every path included that the plan is going to touch (rule T2), then go on."""
    forced = tuple(step.path for step in plan.steps if step.forced)
    fresh = tuple(step.path for step in plan.steps if loses_content(step))
    with WorkspaceSnapshot(restoring, forced=forced, fresh=fresh) as snapshot:
        refuse_changed(plan.steps, snapshot, hint=f"look again: lastgood restore {target.short_id} --dry-run")
        if not plan.discard:
            refuse_unheld(plan.steps, snapshot)
        return _carry_out(restoring, plan, snapshot, target=target)


def restored_words(target: Checkpoint, paths: Sequence[bytes]) -> str:
    """Return what a restore is of, as its guard tells it: by name or message, and of which paths."""
    said = (target.name or target.message.strip().partition("\n")[0].strip())[:_WORDS]
    shown = [to_text(path) for path in paths[:_PATHS]] + (["..."] if len(paths) > _PATHS else [])
    limited = f" ({', '.join(shown)})" if paths else ""
    return printable((f'"{said}"' if said else target.short_id) + limited)


def _carry_out(
    restoring: RestoreTransaction,
    plan: RestorePlan,
    snapshot: WorkspaceSnapshot,
    *,
    target: Checkpoint,
    left: tuple[PartOutcome, ...] | None = None,
) -> RestoreReport:
    context, guard = restoring.context, None
    if not plan.empty:
        parts.refuse(context, plan.parts)
        before = f"restoring {restored_words(target, plan.paths)}"
        result = PlanExecution(
            restoring=restoring, plan=plan, snapshot=snapshot, before=before, target=target
        ).carry_out()
        assert result.operation is not None
        guard = result.guard
        report = RestoreReport(
            planned=plan,
            target=target.id,
            outcomes=result.outcomes,
            guard=guard.id,
            operation=result.operation.id,
            parts=result.parts,
        )
    else:
        moved = None
        if _moves(context, plan):
            moved = restoring.record("restore", target=target.id, stands=target.id).id
        outcomes = planned_outcomes(plan)
        report = RestoreReport(planned=plan, target=target.id, outcomes=outcomes, operation=moved)
    # What a part changed of it is asked for anew.
    standing = None if plan.parts else snapshot.standing
    return with_details(context, report, target, standing=standing, left=left, guard=guard)


def _moves(context: Context, plan: RestorePlan) -> bool:
    """Tell whether the workspace comes to stand elsewhere although every path of it is right already."""
    place = None if is_barred(plan.steps) else place_of(context.catalogue, plan)
    return place is not None and place != context.catalogue.stood(context.key)


def _admit(context: Context, request: RestoreRequest) -> None:
    _own(context, request.target)
    if request.merge is not None:
        _own(context, request.merge.base)
    if not request.force:
        refuse_rivals(context)


def _target_of(context: Context, view: View, plan: RestorePlan) -> Checkpoint:
    if plan.workspace_key != context.key:
        raise Invalid("the plan was made for another workspace", hint="make the plan anew")
    target = view.resolve(plan.target)
    _own(context, target)
    return target


def _own(context: Context, target: Checkpoint) -> None:
    """Refuse a checkpoint of another workspace (rule T13)."""
    if target.manifest.workspace_key != context.key:
        raise Unsafe(
            f"{target.short_id} belongs to another workspace: {printable(target.manifest.workspace)}",
            hint=f"write it aside: lastgood restore {target.short_id} --to DIR"
            "\nor, if that folder moved here: lastgood workspace attach OLD_PATH",
        )
