"""restore: plan, guard, journal, apply, record (rules T1 to T15)."""

from __future__ import annotations

from contextlib import contextmanager

from lastgood.actions import parts
from lastgood.actions.carrying import carry_out, goes, refuse_changed, refuse_unheld
from lastgood.actions.rivals import refuse_rivals
from lastgood.actions.survey import Survey
from lastgood.actions.telling import head_moved, shown, told
from lastgood.codec.canonical import dumps
from lastgood.codec.records import part_record
from lastgood.errors import Invalid, Unsafe
from lastgood.model.part import DEFAULT_SCOPES, PartOutcome
from lastgood.model.plan import RestorePlan
from lastgood.model.report import RestoreReport, planned_outcomes
from lastgood.model.tree import DIRECTORY, FILE
from lastgood.names import join, printable, to_text
from lastgood.rules.evidence import Evidence, alike
from lastgood.rules.hostile import link_faults, refuse
from lastgood.rules.ignore import GITIGNORE, LASTGOODIGNORE, Includes, TreeRules
from lastgood.rules.restore import identify, plan
from lastgood.transaction.restoring import Restoring
from lastgood.transaction.saving import Saving
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lastgood.actions.merging import Merge
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.part import Scope
    from lastgood.model.plan import Merged, Step
    from lastgood.model.tree import Entry
    from lastgood.ports.context import Context
    from lastgood.view import Files, View

__all__ = [
    "Wish",
    "apply",
    "evidence_of",
    "head_moved",
    "plan_restore",
    "preview",
    "restore",
    "restore_aside",
]


class Wish(Value):
    """What a restore is to bring back: a checkpoint, all of it, some paths, or some parts beside files.

    ``merge`` keeps what changed since its base (rule T17).
    """

    target: Checkpoint
    paths: tuple[bytes, ...] = ()
    scopes: tuple[Scope, ...] = DEFAULT_SCOPES
    merge: Merge | None = None
    discard: bool = False
    force: bool = False


def plan_restore(context: Context, view: View, wish: Wish) -> RestorePlan:
    """Return what a restore would do; nothing is touched or stored."""
    _admit(context, wish)
    with Saving(context), _planned(context, view, wish, looks=True) as (made, _survey):
        return made


def apply(context: Context, view: View, plan: RestorePlan) -> RestoreReport:
    """Carry out a plan; refuses if one of its own paths has changed since (rule T1)."""
    target = _target_of(context, view, plan)
    with Restoring(context) as restoring:
        if not plan.force:
            refuse_rivals(context)
        return _surveyed(restoring, plan, target)


def restore(context: Context, view: View, wish: Wish) -> RestoreReport:
    """Plan and apply at one go; the same scan serves both unless the guard has to hold more."""
    with Restoring(context) as restoring:
        _admit(context, wish)
        with _planned(context, view, wish) as (made, survey):
            if not any(step.forced for step in made.steps):
                return _guarded(restoring, made, survey, target=wish.target)
        return _surveyed(restoring, made, wish.target)


def preview(context: Context, view: View, plan: RestorePlan) -> RestoreReport:
    """Return the report of a plan that is not carried out."""
    target = _target_of(context, view, plan)
    awaited = tuple(
        PartOutcome(scope=part.scope, result="planned", details=shown(part.after)) for part in plan.parts
    )
    report = RestoreReport(
        planned=plan, target=target.id, outcomes=planned_outcomes(plan), parts=awaited, dry_run=True
    )
    return told(context, report, target)


def restore_aside(context: Context, target: Checkpoint, *, directory: bytes, tree: Files) -> RestoreReport:
    """Write a checkpoint into a new or empty folder, and touch nothing else (rule T11)."""
    with context.locks.share_store(wait=context.wait):
        outcomes = context.applier_of(directory).write_tree(tree.root, objects=context.engine)
    empty = RestorePlan(id="", target=target.id, workspace_key=context.key, paths=(), steps=())
    return RestoreReport(
        planned=empty, target=target.id, outcomes=tuple(outcomes), directory=to_text(directory)
    )


def evidence_of(target: Checkpoint, files: Files, survey: Survey) -> Evidence:
    """Return what decides between a checkpoint, whose files are given, and the workspace now."""
    return Evidence(
        ignored_then=TreeRules(target.manifest.ignore, _texts_of(files)).ignored,
        look=survey.present,
        gaps_then=target.manifest.gaps,
        gaps_now=survey.scan.result.gaps,
    )


@contextmanager
def _planned(
    context: Context, view: View, wish: Wish, *, looks: bool = False
) -> Iterator[tuple[RestorePlan, Survey]]:
    """Plan from a scan, in which everything that is going to go was read (rule T2).

    What the scan cache says of a file can be outdated: stores through a mapping need not change its
    times. Where it is, the plan is made anew from a scan that read those paths.
    """
    with Survey(context, looks=looks) as survey:
        made = _plan(view, wish, survey)
        going = {step.path: step.have for step in made.steps if goes(step)}
        with context.applier.looking() as present:
            outdated = tuple(path for path, have in going.items() if not alike(present(path), have))
        if not outdated:
            yield made, survey
            return
    with Survey(context, fresh=outdated, looks=looks) as survey:
        yield _plan(view, wish, survey), survey


def _plan(view: View, wish: Wish, survey: Survey) -> RestorePlan:
    context, merge = survey.context, wish.merge
    files = view.tree(wish.target)
    paths = _limits(wish, files, survey)
    with survey.looking():
        steps, merged = ((), ()) if paths is None else _steps(view, wish, survey, files=files, paths=paths)
    refuse(tuple(link_faults(steps, context.engine)))
    made = parts.planned(context, wish.target, scopes=wish.scopes)
    favour = "" if merge is None else f"{merge.base.id} {merge.favour}"
    return RestorePlan(
        id=identify(
            steps,
            target=wish.target.id,
            workspace_key=context.key,
            paths=wish.paths,
            discard=wish.discard,
            beside=(
                " ".join(wish.scopes).encode(),
                favour.encode(),
                *(dumps(part_record(one)) for one in made),
            ),
        ),
        target=wish.target.id,
        workspace_key=context.key,
        paths=wish.paths,
        steps=steps,
        discard=wish.discard,
        force=wish.force,
        scopes=wish.scopes,
        parts=made,
        base=None if merge is None else merge.base.id,
        favour=None if merge is None else merge.favour,
        merged=merged,
    )


def _steps(
    view: View, wish: Wish, survey: Survey, *, files: Files, paths: tuple[bytes, ...]
) -> tuple[tuple[Step, ...], tuple[Merged, ...]]:
    evidence = evidence_of(wish.target, files, survey)
    if wish.merge is None:
        return plan(files, survey.scan, evidence=evidence, paths=paths, discard=wish.discard), ()
    from lastgood.actions.merging import merged_steps

    return merged_steps(
        survey,
        wish.merge,
        files=(view.tree(wish.merge.base), files),
        target=wish.target,
        evidence=evidence,
        paths=paths,
        discard=wish.discard,
    )


def _limits(wish: Wish, files: Files, survey: Survey) -> tuple[bytes, ...] | None:
    """Return the paths that the files are limited to, none for all of them; None where no file is meant.

    State files come back with the progress although no other file does (rule P2).
    """
    if "files" in wish.scopes:
        return wish.paths
    patterns = survey.context.settings.capture.state_files
    if "progress" not in wish.scopes or not patterns:
        return None
    includes = Includes(patterns)
    both = (*files.walk(), *_scanned(survey))
    found = {
        path for path, entry in both if entry.kind != DIRECTORY and includes.matches(path, directory=False)
    }
    return tuple(sorted(found)) or None


def _scanned(survey: Survey) -> Iterator[tuple[bytes, Entry]]:
    waiting = [b""]
    while waiting:
        place = waiting.pop()
        for entry in survey.scan.directory(place) or ():
            path = join(place, entry.name)
            yield path, entry
            if entry.kind == DIRECTORY:
                waiting.append(path)


def _surveyed(restoring: Restoring, plan: RestorePlan, target: Checkpoint) -> RestoreReport:
    """Look again, every path included that the plan is going to touch (rule T2), then go on."""
    forced = tuple(step.path for step in plan.steps if step.forced)
    fresh = tuple(step.path for step in plan.steps if goes(step))
    with Survey(restoring.context, forced=forced, fresh=fresh) as survey:
        refuse_changed(plan.steps, survey, hint="look again: lastgood restore REF --dry-run")
        if not plan.discard:
            refuse_unheld(plan.steps, survey)
        return _guarded(restoring, plan, survey, target=target)


def _guarded(restoring: Restoring, plan: RestorePlan, survey: Survey, *, target: Checkpoint) -> RestoreReport:
    context = restoring.context
    report = RestoreReport(planned=plan, target=target.id, outcomes=planned_outcomes(plan))
    if not plan.empty:
        parts.refuse(context, plan.parts)
        if plan.merged:
            from lastgood.actions.merging import hold

            hold(survey, plan)
        guard = survey.guard(restoring, before=f"restoring {target.short_id}")
        operation, changed = carry_out(restoring, plan, survey, guard=guard, type="restore")
        report = report.replace(
            guard=guard, operation=operation.id, outcomes=changed.outcomes, parts=changed.parts
        )
    return told(context, report, target)


def _admit(context: Context, wish: Wish) -> None:
    _own(context, wish.target)
    if wish.merge is not None:
        _own(context, wish.merge.base)
    if not wish.force:
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
            "    or, if that folder moved here: lastgood workspace attach OLD_PATH",
        )


def _texts_of(tree: Files) -> Callable[[bytes], tuple[bytes | None, bytes | None]]:
    """Return a reader of the ignore files that a checkpoint holds."""

    def text(directory: bytes, name: bytes) -> bytes | None:
        entry = tree.entry(join(directory, name))
        return tree.objects.read_blob(entry.oid) if entry is not None and entry.kind == FILE else None

    return lambda directory: (text(directory, GITIGNORE), text(directory, LASTGOODIGNORE))
