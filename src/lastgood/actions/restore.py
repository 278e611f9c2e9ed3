"""restore: plan, guard, journal, apply, record (rules T1 to T15)."""

from __future__ import annotations

from lastgood.actions.save import add, equal_checkpoint, look
from lastgood.errors import Conflict, Damaged, Invalid, Unsafe
from lastgood.model.checkpoint import Actor
from lastgood.model.operation import Journal
from lastgood.model.plan import RestorePlan
from lastgood.model.report import HeadMoved, RestoreReport
from lastgood.names import printable, to_text
from lastgood.rules.evidence import Evidence
from lastgood.rules.ignore import GITIGNORE, LASTGOODIGNORE, TreeRules
from lastgood.rules.restore import conflicts, identify, plan
from lastgood.transaction.restoring import Restoring
from lastgood.transaction.saving import Draft, Saving
from lastgood.view import Files, ScannedFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import OperationType
    from lastgood.model.plan import Outcome, Step
    from lastgood.model.tree import Entry
    from lastgood.ports.catalogue import LatestFacts
    from lastgood.ports.context import Context
    from lastgood.ports.engine import ObjectWriter
    from lastgood.ports.workspace import Scan
    from lastgood.view import View

_SHOWN = 5


class Wish:
    """What a restore is to bring back: a checkpoint, all of it or some paths."""

    __slots__ = ("discard", "force", "paths", "target")

    def __init__(
        self, target: Checkpoint, *, paths: tuple[bytes, ...] = (), discard: bool = False, force: bool = False
    ) -> None:
        self.target = target
        self.paths = paths
        self.discard = discard
        self.force = force


class Guarded:
    """A guard checkpoint with the scan that it holds: what the workspace was before the first write."""

    __slots__ = ("checkpoint", "held", "scan")

    def __init__(self, checkpoint: str, *, scan: Scan) -> None:
        self.checkpoint = checkpoint
        self.scan = scan
        self.held = ScannedFiles(scan)


def plan_restore(context: Context, view: View, wish: Wish) -> RestorePlan:
    """Return what a restore would do; nothing is touched or stored."""
    _own(context, wish.target)
    with Saving(context):
        writer = context.engine.writer()
        try:
            scan = look(context, writer=writer, facts=context.catalogue.latest_facts(context.key))
            return make_plan(context, view.tree(wish.target), wish, scan=scan)
        finally:
            writer.abandon()


def apply(context: Context, view: View, plan: RestorePlan) -> RestoreReport:
    """Carry out a plan; refuses if one of its own paths has changed since (rule T1)."""
    target = view.resolve(plan.target)
    _own(context, target)
    with Restoring(context) as restoring:
        guarded = guard(restoring, plan, before=target.short_id)
        _still(context, plan, guarded)
        return _carry_out(restoring, plan, guarded, target=target)


def restore(context: Context, view: View, wish: Wish) -> RestoreReport:
    """Plan and apply at one go, the same scan serving both."""
    _own(context, wish.target)
    with Restoring(context) as restoring:
        writer = context.engine.writer()
        try:
            facts = context.catalogue.latest_facts(context.key)
            started = context.clock.monotonic()
            scan = look(context, writer=writer, facts=facts)
            made = make_plan(context, view.tree(wish.target), wish, scan=scan)
            if made.empty:
                return _report(context, made, (), target=wish.target)
            if not any(step.forced for step in made.steps):
                guarded = _hold(
                    restoring, wish.target.short_id, scan=scan, writer=writer, facts=facts, started=started
                )
                return _carry_out(restoring, made, guarded, target=wish.target)
        finally:
            writer.abandon()
        guarded = guard(restoring, made, before=wish.target.short_id)
        _still(context, made, guarded)
        return _carry_out(restoring, made, guarded, target=wish.target)


def restore_aside(context: Context, target: Checkpoint, *, directory: bytes, tree: Files) -> RestoreReport:
    """Write a checkpoint into a new or empty folder, and touch nothing else (rule T11)."""
    with context.locks.share_store(wait=context.wait):
        outcomes = context.applier_of(directory).write_tree(tree.root, objects=context.engine)
    empty = RestorePlan(id="", target=target.id, workspace_key=context.key, paths=(), steps=())
    return RestoreReport(plan=empty, target=target.id, outcomes=tuple(outcomes), directory=to_text(directory))


def make_plan(context: Context, target: Files, wish: Wish, *, scan: Scan) -> RestorePlan:
    """Return the plan for a scan that was just made."""
    manifest = wish.target.manifest
    evidence = Evidence(
        ignored_then=TreeRules(manifest.ignore, _texts_of(target)).ignored,
        look=context.applier.present,
        gaps_then=manifest.gaps,
        gaps_now=scan.result.gaps,
    )
    steps = plan(target, scan, evidence=evidence, paths=wish.paths, discard=wish.discard)
    return RestorePlan(
        id=identify(steps, target=wish.target.id, workspace_key=context.key, discard=wish.discard),
        target=wish.target.id,
        workspace_key=context.key,
        paths=wish.paths,
        steps=steps,
        discard=wish.discard,
        force=wish.force,
    )


def guard(restoring: Restoring, plan: RestorePlan, *, before: str) -> Guarded:
    """Save the present state, every path included that the plan is going to touch (rule T2)."""
    context = restoring.context
    forced = tuple(step.path for step in plan.steps if step.forced)
    writer = context.engine.writer()
    try:
        facts = context.catalogue.latest_facts(context.key)
        started = context.clock.monotonic()
        scan = look(context, writer=writer, facts=facts, forced=forced)
        guarded = _hold(
            restoring, before, scan=scan, writer=writer, facts=facts, started=started, forced=forced
        )
    finally:
        writer.abandon()
    if not plan.discard:
        _refuse_unheld(plan, guarded)
    return guarded


def _hold(
    restoring: Restoring,
    before: str,
    *,
    scan: Scan,
    writer: ObjectWriter,
    facts: LatestFacts | None,
    started: float,
    forced: tuple[bytes, ...] = (),
) -> Guarded:
    """Make the guard of a scan, unless a checkpoint holds the same already (rule S10)."""
    checkpoint = equal_checkpoint(scan, facts)
    if checkpoint is None:
        draft = Draft(kind="guard", message=f"before restoring {before}", actor=Actor(type="lastgood"))
        saved = add(restoring, draft, scan=scan, writer=writer, facts=facts, started=started, forced=forced)
        checkpoint = saved.checkpoint.id
    scan.keep()
    return Guarded(checkpoint, scan=scan)


def carry_out(
    restoring: Restoring,
    plan: RestorePlan,
    guarded: Guarded,
    *,
    type: OperationType,
    of: str | None = None,
) -> tuple[str, tuple[Outcome, ...]]:
    """Journal, apply and record a plan; return the operation's id and what became of each path."""
    context = restoring.context
    _available(context, plan)
    journal = Journal(
        operation=restoring.new_operation(),
        type=type,
        of=of,
        started_at=context.clock.now(),
        guard=guarded.checkpoint,
        target_tree=plan.target,
        plan=plan,
    )
    outcomes = tuple(restoring.change(journal, scan=guarded.scan))
    restoring.record(
        type,
        id=journal.operation,
        target=plan.target,
        guard=guarded.checkpoint,
        steps=done_steps(plan.steps, outcomes),
        of=of,
    )
    return journal.operation, outcomes


def _available(context: Context, plan: RestorePlan) -> None:
    """Refuse before the first write if something to be written is not in the store."""
    missing = context.engine.missing(step.want.oid for step in plan.of("write") if step.want is not None)
    if missing:
        raise Damaged(
            f"{len(missing)} of the contents to put back are not in the store",
            hint="see what is hit: lastgood verify",
            details={"missing": sorted(oid.hex() for oid in missing)},
        )


def done_steps(steps: tuple[Step, ...], outcomes: tuple[Outcome, ...]) -> tuple[Step, ...]:
    """Return the steps that took effect: what `undo` will have to take back."""
    done = {outcome.path for outcome in outcomes if outcome.result in {"restored", "removed"}}
    return tuple(step for step in steps if step.path in done)


def actual(context: Context, guarded: Guarded) -> Callable[[bytes], Entry | None]:
    """Return a look-up of what paths hold now: out of the guard, or by looking anew."""

    def find(path: bytes) -> Entry | None:
        return guarded.held.entry(path) or context.applier.present(path)

    return find


def _carry_out(
    restoring: Restoring, plan: RestorePlan, guarded: Guarded, *, target: Checkpoint
) -> RestoreReport:
    if plan.empty:
        return _report(restoring.context, plan, (), target=target)
    operation, outcomes = carry_out(restoring, plan, guarded, type="restore")
    return _report(
        restoring.context, plan, outcomes, target=target, guard=guarded.checkpoint, operation=operation
    )


def _report(
    context: Context,
    plan: RestorePlan,
    outcomes: tuple[Outcome, ...],
    *,
    target: Checkpoint,
    guard: str | None = None,
    operation: str | None = None,
) -> RestoreReport:
    return RestoreReport(
        plan=plan,
        target=target.id,
        outcomes=outcomes,
        guard=guard,
        operation=operation,
        head_moved=head_moved(context, target),
    )


def head_moved(context: Context, target: Checkpoint) -> HeadMoved | None:
    """Tell whether the project's HEAD is not where it was at a checkpoint (rule T9)."""
    then = None if target.manifest.git is None else target.manifest.git.head
    now = context.project.head(context.root)
    if then == now or target.manifest.git is None:
        return None
    commits = context.project.commits_between(context.root, then, now) if then and now else None
    return HeadMoved(commits=commits, from_=then, to=now)


def _own(context: Context, target: Checkpoint) -> None:
    """Refuse a checkpoint of another workspace (rule T13)."""
    if target.manifest.workspace_key != context.key:
        raise Unsafe(
            f"{target.short_id} belongs to another workspace: {printable(target.manifest.workspace)}",
            hint=f"write it aside: lastgood restore {target.short_id} --to DIR"
            "    or, if that folder moved here: lastgood workspace attach OLD_PATH",
        )


def _still(context: Context, plan: RestorePlan, guarded: Guarded) -> None:
    """Refuse if a path of the plan is no longer as the plan found it (rule T1)."""
    if plan.workspace_key != context.key:
        raise Invalid("the plan was made for another workspace", hint="make the plan anew")
    changed = conflicts(plan.steps, actual(context, guarded))
    if changed:
        raise Conflict(
            f"{len(changed)} path(s) changed since the plan was made: {_some(changed)}",
            hint="look again: lastgood restore REF --dry-run",
            details={"paths": [to_text(path) for path in changed]},
        )


def _refuse_unheld(plan: RestorePlan, guarded: Guarded) -> None:
    unheld = [step.path for step in plan.steps if step.forced and guarded.held.entry(step.path) is None]
    if unheld:
        raise Unsafe(
            f"what is there now could not be copied, and would be lost: {_some(unheld)}",
            hint="move it away, or restore with --discard to lose it",
            details={"paths": [to_text(path) for path in unheld]},
        )


def _some(paths: tuple[bytes, ...] | list[bytes]) -> str:
    shown = ", ".join(printable(to_text(path)) for path in paths[:_SHOWN])
    return f"{shown} and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else shown


def _texts_of(tree: Files) -> Callable[[bytes], tuple[bytes | None, bytes | None]]:
    """Return a reader of the ignore files that a checkpoint holds."""

    def text(directory: bytes, name: bytes) -> bytes | None:
        entry = tree.entry(directory + b"/" + name if directory else name)
        return tree.objects.read_blob(entry.oid) if entry is not None and entry.kind == "file" else None

    return lambda directory: (text(directory, GITIGNORE), text(directory, LASTGOODIGNORE))
