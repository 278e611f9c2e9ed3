"""One look at the workspace: a scan, and the pack that its new contents go to."""

from __future__ import annotations

from lastgood.actions.standing import standing
from lastgood.codec.manifest import decode_gaps, encode_gaps
from lastgood.errors import Damaged
from lastgood.model.checkpoint import Actor
from lastgood.model.report import SaveReport
from lastgood.model.scan import ScanRequest
from lastgood.model.tree import Counts, Gap, TreeId
from lastgood.rules.compare import tally
from lastgood.transaction.saving import Draft, Holdings
from lastgood.view import Files, ScannedFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Self

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.tree import Entry
    from lastgood.ports.catalogue import CheckpointFacts
    from lastgood.ports.context import Context
    from lastgood.transaction.saving import Saving


class Survey:
    """The workspace as it was just scanned; becomes a checkpoint, or leaves nothing behind.

    ``forced`` are paths taken in whatever the rules say. A context manager: what was not kept by
    its end is abandoned.
    """

    def __init__(
        self, context: Context, *, forced: tuple[bytes, ...] = (), budget: float | None = None
    ) -> None:
        self.context = context
        self._forced = forced
        self._started = context.clock.monotonic()
        self._facts = context.catalogue.latest_facts(context.key)
        self.standing = standing(context)
        self._writer = context.engine.writer()
        self._empty = self._writer.stored_bytes
        try:
            self.scan = context.scanner.scan(self._request(budget), writer=self._writer)
        except BaseException:
            self._writer.abandon()
            raise
        self.files = ScannedFiles(self.scan)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.abandon()

    def actual(self, path: bytes) -> Entry | None:
        """Return what a path holds, those that the scan left out looked at anew."""
        return self.files.entry(path) or self.context.applier.present(path)

    def unchanged(self) -> Checkpoint | None:
        """Return the newest complete checkpoint if it holds exactly what was scanned.

        No guard counts, because guards go; nor does a checkpoint that is known to be damaged.
        """
        return None if self._facts is None else self._equal(self._facts.complete)

    def let_be(self) -> None:
        """Make no checkpoint: remember what was found, and mend what the store had lost of it."""
        if self._writer.stored_bytes > self._empty:
            self._writer.publish(durable=self.context.settings.durability == "full")
        self.scan.keep()

    def keep(self, saving: Saving, draft: Draft) -> SaveReport:
        """Make the checkpoint, and remember for the next scan what this one found."""
        newest = None if self._facts is None else self._facts.newest
        checkpoint = saving.add(
            draft,
            scan=self.scan.result,
            writer=self._writer,
            changes=self._changes(newest),
            previous=None if newest is None else newest.id,
            holdings=Holdings(standing=self.standing),
            forced=self._forced,
            started=self._started,
        )
        self.scan.keep()
        return SaveReport(checkpoint=checkpoint, created=True, new_gaps=self._new_gaps(newest))

    def guard(self, saving: Saving, *, before: str) -> str:
        """Have a checkpoint hold the present state, a new one unless one does already (rule S10)."""
        facts = self._facts
        equal = None if facts is None else self._equal(facts.newest) or self._equal(facts.complete)
        if equal is not None:
            self.let_be()
            return equal.id
        draft = Draft(kind="guard", message=f"before {before}", actor=Actor(type="lastgood"))
        return self.keep(saving, draft).checkpoint.id

    def _request(self, budget: float | None) -> ScanRequest:
        """Return what to scan.

        What an earlier guard was forced to hold does not stay captured for that: the tree that
        counts for rule S5 is that of the newest complete checkpoint that is no guard.
        """
        context, facts = self.context, self._facts
        return ScanRequest(
            root=context.root,
            settings=context.settings.capture,
            previous=None if facts is None or facts.complete is None else _tree(facts.complete),
            generation=context.catalogue.generation(),
            store=context.store,
            forced=self._forced,
            budget=budget,
        )

    def _equal(self, facts: CheckpointFacts | None) -> Checkpoint | None:
        result = self.scan.result
        if facts is None or facts.partial or result.partial or _tree(facts) != result.tree:
            return None
        if facts.gaps != encode_gaps(result.gaps) and _places(decode_gaps(facts.gaps)) != _places(
            result.gaps
        ):
            return None
        found = self.context.catalogue.get(facts.id)
        if found is None or found.damaged is not None:
            return None
        return found if found.manifest.progress == self.standing.progress else None

    def _changes(self, newest: CheckpointFacts | None) -> Counts:
        everything = Counts(added=self.scan.result.files)
        if newest is None:
            return everything
        before = Files(_tree(newest), self.context.engine)
        try:
            return tally(before, self.files, gaps=self.scan.result.gaps)
        except Damaged:  # of a checkpoint that is lost nobody can tell what changed since
            return everything

    def _new_gaps(self, newest: CheckpointFacts | None) -> tuple[Gap, ...]:
        gaps = self.scan.result.gaps
        if not gaps or newest is None:
            return gaps
        known = _places(decode_gaps(newest.gaps))
        return tuple(gap for gap in gaps if (gap.path, gap.reason) not in known)


def _places(gaps: Iterable[Gap]) -> set[tuple[bytes, str]]:
    """Return what makes gaps the same: that a large file grows is no change (rule S10)."""
    return {(gap.path, gap.reason) for gap in gaps}


def _tree(facts: CheckpointFacts) -> TreeId:
    return TreeId(tree=bytes.fromhex(facts.tree), modes=bytes.fromhex(facts.modes))
