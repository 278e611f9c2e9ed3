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
from lastgood.rules.compare import tally
from lastgood.transaction.saving import Draft, Saving
from lastgood.view import Files, ScannedFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.ports.catalogue import CheckpointFacts, LatestFacts
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
            facts = context.catalogue.latest_facts(context.key)
            scan = look(context, writer=writer, facts=facts, budget=budget)
            wanted = allow_empty or _says_something(draft)
            report = None if wanted else _unchanged(context, scan, facts)
            if report is None:
                report = add(saving, draft, scan=scan, writer=writer, facts=facts, started=started)
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
    facts: LatestFacts | None,
    forced: tuple[bytes, ...] = (),
    budget: float | None = None,
) -> Scan:
    """Scan the workspace, its new contents going to the writer.

    What an earlier guard was forced to hold does not stay captured for that: the tree that counts
    for rule S5 is that of the newest complete checkpoint that is no guard.
    """
    request = ScanRequest(
        root=context.root,
        settings=context.settings.capture,
        previous=None if facts is None or facts.complete is None else _tree(facts.complete),
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
    facts: LatestFacts | None,
    started: float,
    forced: tuple[bytes, ...] = (),
) -> SaveReport:
    """Make the checkpoint of a scan, whatever it found."""
    newest = None if facts is None else facts.newest
    checkpoint = saving.add(
        draft,
        scan=scan.result,
        writer=writer,
        changes=_changes(saving.context, scan, newest),
        previous=None if newest is None else newest.id,
        forced=forced,
        started=started,
    )
    return SaveReport(checkpoint=checkpoint, created=True, new_gaps=_new_gaps(scan, newest))


def equal_checkpoint(scan: Scan, facts: LatestFacts | None) -> str | None:
    """Return the id of the checkpoint that holds exactly what was scanned, None if none does."""
    result = scan.result
    if facts is None or result.partial:
        return None
    gaps = encode_gaps(result.gaps)
    for one in (facts.newest, facts.complete):
        if one is not None and not one.partial and _tree(one) == result.tree and one.gaps == gaps:
            return one.id
    return None


def _tree(facts: CheckpointFacts) -> TreeId:
    return TreeId(tree=bytes.fromhex(facts.tree), modes=bytes.fromhex(facts.modes))


def _says_something(draft: Draft) -> bool:
    if draft.kind == "manual":
        return bool(draft.name or draft.metadata or draft.pinned)
    return draft.kind not in AUTOMATIC_KINDS


def _unchanged(context: Context, scan: Scan, facts: LatestFacts | None) -> SaveReport | None:
    equal = equal_checkpoint(scan, facts)
    same = None if equal is None else context.catalogue.get(equal)
    if same is None:
        return None
    return SaveReport(checkpoint=same, created=False, reason="unchanged", unchanged_since=same.id)


def _changes(context: Context, scan: Scan, newest: CheckpointFacts | None) -> Counts:
    if newest is None:
        return Counts(added=scan.result.files)
    return tally(Files(_tree(newest), context.engine), ScannedFiles(scan))


def _new_gaps(scan: Scan, newest: CheckpointFacts | None) -> tuple[Gap, ...]:
    gaps = scan.result.gaps
    if not gaps or newest is None:
        return gaps
    known = {(gap.path, gap.reason) for gap in decode_gaps(newest.gaps)}
    return tuple(gap for gap in gaps if (gap.path, gap.reason) not in known)
