"""Merging: a tree of changes since and changes taken back, and the contents that files get (rule T17)."""

from __future__ import annotations

from lastgood.errors import Conflict
from lastgood.ids import short
from lastgood.model.plan import Merged
from lastgood.names import printable, to_text
from lastgood.ports.text import Texts
from lastgood.rules.merge import Blended, MergedTree, plan_merge
from lastgood.rules.takeback import take_back
from lastgood.value import Value
from lastgood.view import Files, tree_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lastgood.actions.survey import Survey
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.plan import Favour, RestorePlan, Step
    from lastgood.model.tree import Entry
    from lastgood.ports.context import Context
    from lastgood.rules.evidence import Evidence
    from lastgood.rules.merge import Sides

# Git looks so far for a zero byte to tell what is no text; and larger files are nobody's prose.
_LOOKED_AT = 8000
_LARGEST = 64 << 20


class Merge(Value):
    """What a merge keeps: everything since ``base``. ``favour`` decides where both sides changed."""

    base: Checkpoint
    favour: Favour | None = None


class Contents:
    """Blends the contents of files, and stores nothing: `hold` does that again when it is time."""

    def __init__(self, context: Context, *, favour: Favour | None, label: str) -> None:
        self._context = context
        self._favour = favour
        self._label = label

    def blend(self, sides: Sides) -> Blended | None:
        """Return the blob of three files merged; None where they conflict or are no texts."""
        if sides.base is None or sides.target is None or sides.present is None or not sides.present.oid:
            return None
        parts = Merged(path=sides.path, base=sides.base.oid, target=sides.target.oid)
        found = self.merge(parts, present=sides.present)
        if found is None or (not found[1] and self._favour is None):
            return None
        return Blended(oid=_blob_id(found[0]), marked=not found[1] and self._favour == "markers")

    def merge(self, parts: Merged, *, present: Entry) -> tuple[bytes, bool] | None:
        """Return the merged content and whether it is without conflicts; None for what is no text."""
        engine = self._context.engine
        if engine.missing((parts.base, parts.target)):
            return None
        if max(engine.blob_size(parts.base), engine.blob_size(parts.target)) > _LARGEST:
            return None
        ours = self._context.applier.read(parts.path, present)
        if ours is None:
            raise Conflict(
                f"{printable(to_text(parts.path))} changed while it was being merged",
                hint="try again",
                details={"paths": [to_text(parts.path)]},
            )
        texts = Texts(base=engine.read_blob(parts.base), ours=ours, theirs=engine.read_blob(parts.target))
        if len(ours) > _LARGEST or any(_is_binary(text) for text in (texts.base, ours, texts.theirs)):
            return None
        made = self._context.merger().merge(texts, favour=self._favour, label=self._label)
        return made.content, made.clean


def merged_steps(
    survey: Survey,
    merge: Merge,
    *,
    files: tuple[Files, Files],
    target: Checkpoint,
    evidence: Evidence,
    paths: tuple[bytes, ...],
    discard: bool,
) -> tuple[tuple[Step, ...], tuple[Merged, ...]]:
    """Return the steps of a merge and what of them has to be stored; ``files`` are base's and target's."""
    base, then = files
    contents = Contents(survey.context, favour=merge.favour, label=target.short_id)
    tree = MergedTree(
        base,
        then,
        present=survey.scan,
        evidence=evidence,
        blend=contents.blend,
        favour=merge.favour,
        suffix=b".lastgood-" + target.short_id.encode(),
        limits=paths,
    )
    steps = plan_merge(tree, survey.scan, evidence=evidence, paths=paths, discard=discard)
    return steps, needed(steps, tree.merged)


def taken_back(
    survey: Survey, steps: tuple[Step, ...], *, source: str | None
) -> tuple[tuple[Step, ...], tuple[Merged, ...]]:
    """Return steps that keep what changed since, and what of them has to be stored."""
    label = short(source or "then")
    contents = Contents(survey.context, favour=None, label=label)
    made, merged = take_back(
        steps,
        survey.actual,
        source=_entries_of(survey.context, source),
        present=survey.scan,
        blend=contents.blend,
        suffix=b".lastgood-" + label.encode(),
    )
    return made, needed(made, merged)


def _entries_of(context: Context, checkpoint: str | None) -> Callable[[bytes], Entry | None]:
    found = None if checkpoint is None else context.catalogue.get(checkpoint)
    return (lambda _path: None) if found is None else Files(tree_of(found), context.engine).entry


def needed(steps: Iterable[Step], merged: Iterable[Merged]) -> tuple[Merged, ...]:
    """Return the merges whose result a step writes."""
    written = {step.path for step in steps if step.action == "write"}
    return tuple(one for one in merged if one.path in written)


def hold(survey: Survey, plan: RestorePlan) -> None:
    """Have the guard's pack take in the merged contents of a plan: they are written like any other.

    Raises `Conflict` if a file is not what the plan merged.
    """
    contents = Contents(survey.context, favour=plan.favour, label=short(plan.target))
    steps = {step.path: step for step in plan.steps}
    for parts in plan.merged:
        step = steps[parts.path]
        assert step.have is not None
        assert step.want is not None
        found = contents.merge(parts, present=step.have)
        if found is None or survey.hold(found[0]) != step.want.oid:
            raise Conflict(
                f"{printable(to_text(parts.path))} is not what the plan merged",
                hint="make the plan anew",
                details={"paths": [to_text(parts.path)]},
            )


def _is_binary(content: bytes) -> bool:
    return b"\0" in content[:_LOOKED_AT]


def _blob_id(content: bytes) -> bytes:
    import hashlib  # lazily: no other verb needs it

    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).digest()
