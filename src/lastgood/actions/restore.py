"""restore: plan, guard, journal, apply, record (rules T1 to T15)."""

from __future__ import annotations

from lastgood.actions.carrying import carry_out, refuse_changed, refuse_unheld
from lastgood.actions.survey import Survey
from lastgood.errors import Invalid, Unsafe
from lastgood.model.plan import RestorePlan
from lastgood.model.report import HeadMoved, RestoreReport
from lastgood.model.tree import FILE
from lastgood.names import join, printable, to_text
from lastgood.rules.evidence import Evidence
from lastgood.rules.ignore import GITIGNORE, LASTGOODIGNORE, TreeRules
from lastgood.rules.restore import identify, plan
from lastgood.transaction.restoring import Restoring
from lastgood.transaction.saving import Saving
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.plan import Outcome
    from lastgood.ports.context import Context
    from lastgood.view import Files, View


class Wish(Value):
    """What a restore is to bring back: a checkpoint, all of it or some paths."""

    target: Checkpoint
    paths: tuple[bytes, ...] = ()
    discard: bool = False
    force: bool = False


def plan_restore(context: Context, view: View, wish: Wish) -> RestorePlan:
    """Return what a restore would do; nothing is touched or stored."""
    _own(context, wish.target)
    with Saving(context), Survey(context) as survey:
        return _plan(view.tree(wish.target), wish, survey)


def apply(context: Context, view: View, plan: RestorePlan) -> RestoreReport:
    """Carry out a plan; refuses if one of its own paths has changed since (rule T1)."""
    if plan.workspace_key != context.key:
        raise Invalid("the plan was made for another workspace", hint="make the plan anew")
    target = view.resolve(plan.target)
    _own(context, target)
    with Restoring(context) as restoring:
        return _surveyed(restoring, plan, target)


def restore(context: Context, view: View, wish: Wish) -> RestoreReport:
    """Plan and apply at one go; the same scan serves both unless the guard has to hold more."""
    _own(context, wish.target)
    with Restoring(context) as restoring:
        with Survey(context) as survey:
            made = _plan(view.tree(wish.target), wish, survey)
            if not any(step.forced for step in made.steps):
                return _guarded(restoring, made, survey, target=wish.target)
        return _surveyed(restoring, made, wish.target)


def restore_aside(context: Context, target: Checkpoint, *, directory: bytes, tree: Files) -> RestoreReport:
    """Write a checkpoint into a new or empty folder, and touch nothing else (rule T11)."""
    with context.locks.share_store(wait=context.wait):
        outcomes = context.applier_of(directory).write_tree(tree.root, objects=context.engine)
    empty = RestorePlan(id="", target=target.id, workspace_key=context.key, paths=(), steps=())
    return RestoreReport(
        planned=empty, target=target.id, outcomes=tuple(outcomes), directory=to_text(directory)
    )


def head_moved(context: Context, target: Checkpoint) -> HeadMoved | None:
    """Tell whether the project's HEAD is not where it was at a checkpoint (rule T9)."""
    if target.manifest.git is None:
        return None
    then, now = target.manifest.git.head, context.project.head(context.root)
    if then == now:
        return None
    commits = context.project.commits_between(context.root, then, now) if then and now else None
    return HeadMoved(commits=commits, from_=then, to=now)


def evidence_of(target: Checkpoint, files: Files, survey: Survey) -> Evidence:
    """Return what decides between a checkpoint, whose files are given, and the workspace now."""
    return Evidence(
        ignored_then=TreeRules(target.manifest.ignore, _texts_of(files)).ignored,
        look=survey.context.applier.present,
        gaps_then=target.manifest.gaps,
        gaps_now=survey.scan.result.gaps,
    )


def _plan(target: Files, wish: Wish, survey: Survey) -> RestorePlan:
    context = survey.context
    evidence = evidence_of(wish.target, target, survey)
    steps = plan(target, survey.scan, evidence=evidence, paths=wish.paths, discard=wish.discard)
    return RestorePlan(
        id=identify(
            steps, target=wish.target.id, workspace_key=context.key, paths=wish.paths, discard=wish.discard
        ),
        target=wish.target.id,
        workspace_key=context.key,
        paths=wish.paths,
        steps=steps,
        discard=wish.discard,
        force=wish.force,
    )


def _surveyed(restoring: Restoring, plan: RestorePlan, target: Checkpoint) -> RestoreReport:
    """Look again, every path included that the plan is going to touch (rule T2), then go on."""
    forced = tuple(step.path for step in plan.steps if step.forced)
    with Survey(restoring.context, forced=forced) as survey:
        refuse_changed(plan.steps, survey, hint="look again: lastgood restore REF --dry-run")
        if not plan.discard:
            refuse_unheld(plan.steps, survey)
        return _guarded(restoring, plan, survey, target=target)


def _guarded(restoring: Restoring, plan: RestorePlan, survey: Survey, *, target: Checkpoint) -> RestoreReport:
    guard = operation = None
    outcomes: tuple[Outcome, ...] = ()
    if not plan.empty:
        guard = survey.guard(restoring, before=f"restoring {target.short_id}")
        operation, outcomes = carry_out(restoring, plan, survey, guard=guard, type="restore")
    return RestoreReport(
        planned=plan,
        target=target.id,
        outcomes=outcomes,
        guard=guard,
        operation=operation,
        head_moved=head_moved(restoring.context, target),
    )


def _own(context: Context, target: Checkpoint) -> None:
    """Refuse a checkpoint of another workspace (rule T13)."""
    if target.manifest.workspace_key != context.key:
        raise Unsafe(
            f"{target.short_id} belongs to another workspace: {printable(target.manifest.workspace)}",
            hint=f"write it aside: lastgood restore {target.short_id} --to DIR"
            "    or, if that folder moved here: lastgood workspace attach OLD_PATH",
        )


def _texts_of(tree: Files) -> Callable[[bytes], tuple[bytes | None, bytes | None]]:
    """Return a reader of the ignore files that a checkpoint holds."""

    def text(directory: bytes, name: bytes) -> bytes | None:
        entry = tree.entry(join(directory, name))
        return tree.objects.read_blob(entry.oid) if entry is not None and entry.kind == FILE else None

    return lambda directory: (text(directory, GITIGNORE), text(directory, LASTGOODIGNORE))
