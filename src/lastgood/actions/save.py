"""save: scan, leave it at that if nothing changed, else make a checkpoint."""

from __future__ import annotations

from lastgood.codec.manifest import decode_gaps, encode_gaps
from lastgood.errors import Invalid
from lastgood.ids import name_fault
from lastgood.model.checkpoint import AUTOMATIC_KINDS, KINDS
from lastgood.model.report import SaveReport
from lastgood.model.scan import ScanRequest
from lastgood.model.tree import Counts, Gap, TreeId
from lastgood.names import printable
from lastgood.rules.compare import compare, counts
from lastgood.transaction import Draft, Saving
from lastgood.view import StoredTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.ports.catalogue import LatestFacts
    from lastgood.ports.context import Context
    from lastgood.ports.engine import ObjectWriter
    from lastgood.ports.workspace import Scan

MESSAGE_LIMIT = 10_000


def save(
    context: Context,
    draft: Draft,
    *,
    allow_empty: bool = False,
    budget: float | None = None,
) -> SaveReport:
    """Make a checkpoint of the workspace, unless nothing changed (rule S10)."""
    check(draft)
    started = context.clock.monotonic()
    with Saving(context) as saving:
        writer = context.engine.writer()
        try:
            latest = context.catalogue.latest_facts(context.key)
            scan = look(context, writer=writer, latest=latest, budget=budget)
            wanted = allow_empty or _says_something(draft)
            report = _unchanged(context, scan, latest) if not wanted else None
            if report is None:
                report = add(saving, draft, scan=scan, writer=writer, latest=latest, started=started)
        finally:
            writer.abandon()
        scan.keep()
    return report


def check(draft: Draft) -> None:
    """Refuse what cannot stand in a manifest."""
    if draft.kind not in KINDS:
        raise Invalid(f"{printable(draft.kind)!r} is no kind", hint="kinds: " + ", ".join(KINDS))
    fault = None if draft.name is None else name_fault(draft.name)
    if fault is not None:
        raise Invalid(
            f"{printable(draft.name or '')!r} cannot be a name: {fault}", hint="choose another name"
        )
    if len(draft.message) > MESSAGE_LIMIT:
        raise Invalid(
            f"the message has {len(draft.message)} characters; the limit is {MESSAGE_LIMIT}",
            hint="keep long texts in a file of the workspace",
        )


def look(
    context: Context,
    *,
    writer: ObjectWriter,
    latest: LatestFacts | None,
    forced: tuple[bytes, ...] = (),
    budget: float | None = None,
) -> Scan:
    """Scan the workspace, its new contents going to the writer."""
    request = ScanRequest(
        root=context.root,
        settings=context.settings.capture,
        previous=None if latest is None else tree_of(latest),
        generation=context.catalogue.generation(),
        store=context.store,
        forced=forced,
        budget=budget,
    )
    return context.scanner.scan(request, writer=writer)


def add(
    saving: Saving,
    draft: Draft,
    *,
    scan: Scan,
    writer: ObjectWriter,
    latest: LatestFacts | None,
    started: float,
    forced: tuple[bytes, ...] = (),
) -> SaveReport:
    """Make the checkpoint of a scan, whatever it found."""
    checkpoint = saving.add(
        draft,
        scan=scan.result,
        writer=writer,
        changes=_changes(saving.context, scan, latest),
        previous=None if latest is None else latest.id,
        forced=forced,
        started=started,
    )
    return SaveReport(checkpoint=checkpoint, created=True, new_gaps=_new_gaps(scan, latest))


def equals(scan: Scan, latest: LatestFacts | None) -> bool:
    """Tell whether a checkpoint holds exactly what was scanned."""
    result = scan.result
    return (
        latest is not None
        and not latest.partial
        and not result.partial
        and tree_of(latest) == result.tree
        and latest.gaps == encode_gaps(result.gaps)
    )


def tree_of(facts: LatestFacts) -> TreeId:
    """Return the tree of a checkpoint."""
    return TreeId(tree=bytes.fromhex(facts.tree), modes=bytes.fromhex(facts.modes))


def _says_something(draft: Draft) -> bool:
    if draft.kind == "manual":
        return bool(draft.name or draft.metadata or draft.pinned)
    return draft.kind not in AUTOMATIC_KINDS


def _unchanged(context: Context, scan: Scan, latest: LatestFacts | None) -> SaveReport | None:
    if latest is None or not equals(scan, latest):
        return None
    same = context.catalogue.get(latest.id)
    if same is None:
        return None
    return SaveReport(checkpoint=same, created=False, reason="unchanged", unchanged_since=same.id)


def _changes(context: Context, scan: Scan, latest: LatestFacts | None) -> Counts:
    if latest is None:
        return Counts(added=scan.result.files)
    before = StoredTree(tree_of(latest), context.engine)
    return counts(compare(before, scan))


def _new_gaps(scan: Scan, latest: LatestFacts | None) -> tuple[Gap, ...]:
    gaps = scan.result.gaps
    if not gaps or latest is None:
        return gaps
    known = {(gap.path, gap.reason) for gap in decode_gaps(latest.gaps)}
    return tuple(gap for gap in gaps if (gap.path, gap.reason) not in known)
