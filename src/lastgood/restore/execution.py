"""The one way in which a workspace is changed: by restore, undo and redo, and by what finishes one of them.

A kill at any moment leaves a workspace that `recover` can bring to where the plan leads, or back to where it
was: nothing is changed before a guard holds what is there and a journal names the plan (invariant 3). What
`recover` clears away before it makes a guard of its own lies under the names of the interrupted plan, whose
guard and journal are there; what neither that guard nor the target holds of it goes back, or is kept.
"""

from __future__ import annotations

from lastgood.errors import Busy, Damaged, Unsafe
from lastgood.ids import short
from lastgood.model.operation import Journal
from lastgood.model.tree import DIRECTORY, is_content, is_directory, same_content
from lastgood.paths import ways
from lastgood.restore import parts
from lastgood.restore.plan import UNTOUCHED, is_barred
from lastgood.restore.site import Threads
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any

    from lastgood.context import CatalogueReader, Context
    from lastgood.engine import EngineReader
    from lastgood.host import Proof
    from lastgood.literals import OperationType
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.long_list import LongList
    from lastgood.model.operation import Operation, Outcome, Part, PartOutcome, RestorePlan, Step
    from lastgood.model.tree import Entry
    from lastgood.snapshot import WorkspaceSnapshot
    from lastgood.transaction import RestoreTransaction
    from lastgood.worktree import Applied, Prover

    Look = Callable[[bytes], Entry | None]

EFFECTIVE = frozenset({"restored", "removed"})
_GOING = frozenset({"write", "delete", "mkdir"})
# The proofs of more than so many paths are not kept for the scan cache: they take a kilobyte each.
_MOST_KEPT = 20_000
# Of what a guard holds so much stays in memory, to be compared with what comes out of paths.
_KEPT_BYTES = 1 << 20


class PlanResult(Value):
    """What became of each path and each part.

    ``guard`` is the checkpoint that holds what was there before. ``operation`` is what `undo` takes back;
    None if it had been recorded before, or was rolled back.
    """

    outcomes: tuple[Outcome, ...]
    guard: Checkpoint
    parts: tuple[PartOutcome, ...] = ()
    operation: Operation | None = None


class Prepared(Value):
    """A plan that may be carried out: ``guard`` holds what is there, and ``journal`` names the plan.

    ``wait`` returns when that journal is durable.
    """

    journal: Journal
    guard: Checkpoint
    wait: Callable[[], None]


class PlanExecution(Value):
    """A plan that was made from a snapshot, on its way: its guard and journal, its paths, and its record.

    ``before`` completes the guard's message. ``target`` is the checkpoint that the plan leads to, if it was
    looked up already. ``of`` is the operation that an undo or redo is about; None too if it is not known.
    ``closed`` are directories that an interruption may have left open, with the permissions that they had,
    ``unsynced`` those in which it may have left names that are not on the disk.
    """

    restoring: RestoreTransaction
    plan: RestorePlan
    snapshot: WorkspaceSnapshot
    before: str
    target: Checkpoint | None = None
    type: OperationType = "restore"
    of: Operation | None = None
    closed: Mapping[bytes, int] = {}
    unsynced: Collection[bytes] = ()

    def carry_out(self) -> PlanResult:
        """Carry out the plan in the order in which a kill loses nothing.

        Raises before the first change what refuses it; what stops it later (a full disk, a kill) leaves the
        journal to `recover`.
        """
        if self.plan.merged:
            from lastgood.restore.merge import hold_merged

            hold_merged(self.snapshot, self.plan)
        # Bytes that were read from the store and proven, by their ids: what paths hold is compared with them.
        contents: dict[bytes, bytes] = {}
        with Threads() as threads:
            prepared = self.prepare(contents, threads)
            applied = self._apply(prepared, contents, threads)
            try:
                with self.restoring.context.applier.proving(contents) as prover:
                    return self._conclude(prepared, applied, prover=prover, threads=threads)
            finally:
                applied.end()

    def _apply(self, prepared: Prepared, contents: dict[bytes, bytes], threads: Threads) -> Applied:
        restoring = self.restoring
        try:  # directories, files in chunks (written beside, synced, exchanged), modes, deletions last
            return restoring.applier.apply(
                self.plan.steps,
                token=prepared.journal.operation,
                objects=restoring.context.engine,
                stamp=self.snapshot.scan.stamp,
                contents=contents,
                closed=self.closed,
                unsynced=self.unsynced,
                ready=prepared.wait,
                threads=threads,
            )
        except (Unsafe, Busy):  # by the applier's promise nothing has been written
            self.abandon()
            raise

    def _conclude(
        self, prepared: Prepared, applied: Applied, *, prover: Prover, threads: Threads
    ) -> PlanResult:
        """Prove what was carried out, record it, and close the journal."""
        restoring, journal = self.restoring, prepared.journal
        # While the last names go to the disk: what a path holds is the same before and after.
        proven, brought = _proven(prover, self.plan.steps, applied.outcomes)
        outcomes = self.all_outcomes(proven)
        effective = self.effective_steps(outcomes)
        planned = self.plan.parts
        if planned:
            applied.wait()  # what lies outside the workspace does not run ahead of it
        settled = parts.settled(restoring, planned)
        # Before the journal is closed: a crash between the two leaves a way to go on (docs/decisions/010).
        # The names may be on their way still: while the journal is there, `recover` brings them about.
        operation = self.record(journal, effective, settled)
        applied.wait()
        if any(outcome.left is not None for outcome in outcomes):
            restoring.journal.leave(journal.operation)  # what could not be taken away stays known
            self.snapshot.remember_restored(restoring, brought, folders=prover.folders)
        else:
            with restoring.journal.closing(beside=threads.beside):
                self.snapshot.remember_restored(restoring, brought, folders=prover.folders)
        return PlanResult(outcomes=outcomes, guard=prepared.guard, parts=settled, operation=operation)

    def lists_beside(self) -> dict[str, LongList[Any]]:
        """Return the lists of progress that the guard has to hold for the journal and the operation."""
        context, plan = self.restoring.context, self.plan
        if not plan.parts:
            return {}
        return parts.lists_beside(context, plan.parts, target=context.catalogue.get(plan.target))

    def prepare(self, contents: dict[bytes, bytes], threads: Threads) -> Prepared:
        """Have a guard hold what is there and a journal name the plan; refuse what cannot be carried out.

        The journal's bytes are on their way to the disk meanwhile, under a name that means nothing: it gets
        its own once the guard exists, and what that holds is proven. What is read of that is added to
        ``contents``, as far as it is little.
        """
        restoring, session = self.restoring, self.snapshot.standing.session
        guard = self.snapshot.guard(restoring, before=self.before, lists=self.lists_beside())
        journal = Journal(
            operation=restoring.new_operation(),
            type=self.type,
            of=None if self.of is None else self.of.id,
            started_at=restoring.context.clock.now(),
            guard=guard.id,
            target_tree=self.plan.target,
            plan=self.plan,
            session=None if session is None else session.id,
            closed=_closed(restoring.context, self.plan.steps),
        )
        with restoring.journal.opening(journal, beside=threads.beside) as opening:
            held = guard.hold()
            _refuse_lost(restoring.context, self.plan, contents, written=self.snapshot.contents)
        return Prepared(journal=journal, guard=held, wait=opening.wait)

    def abandon(self) -> None:
        """Close the journal of a plan of which nothing was carried out."""
        self.restoring.journal.close()

    def all_outcomes(self, outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
        """Return outcomes with what else is known of the paths."""
        return outcomes

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that the operation is about."""
        return self.plan.steps

    def effective_steps(self, outcomes: Sequence[Outcome]) -> tuple[Step, ...]:
        """Return the steps as they took effect, whatever was told of them: `undo` takes them back."""
        results = {outcome.path: outcome.result for outcome in outcomes}
        with self.restoring.context.applier.looking() as present:
            found = [
                step if results.get(step.path) in EFFECTIVE else _effect(step, present) for step in self.steps
            ]
        return tuple(step for step in found if step is not None)

    def record(
        self, journal: Journal, done: tuple[Step, ...], settled: tuple[PartOutcome, ...]
    ) -> Operation | None:
        """Record the operation with the steps and parts that took effect; None if that was done before."""
        scopes = {outcome.scope for outcome in settled if outcome.result == "restored"}
        restored = tuple(part for part in journal.plan.parts if part.scope in scopes)
        operation = None
        succeeded = self._succeeded(journal.plan, done=done, restored=restored)
        if not self.is_recorded(journal):
            operation = self.restoring.record(
                journal.type,
                id=journal.operation,
                target=journal.plan.target,
                guard=journal.guard,
                steps=done,
                of=journal.of,
                parts=restored,
                session=journal.session,
                stands=self.stands(journal) if succeeded else None,
                stood=self.snapshot.stands_at,
            )
        # An undo of which nothing succeeded can be tried again.
        if journal.of is not None and succeeded:
            self.restoring.catalogue.set_undone(journal.of, undone=journal.type == "undo")
        return operation

    def _succeeded(self, plan: RestorePlan, *, done: tuple[Step, ...], restored: tuple[Part, ...]) -> bool:
        """Tell whether anything came to be as it was wanted, or nothing was to be done.

        What an undo or redo puts beside conflicts is none of what it is about.
        """
        if self.of is None:
            return bool(done or restored) or (plan.empty and not is_barred(plan.steps))
        own = {step.path for step in self.of.steps}
        if restored or any(step.path in own for step in done):
            return True
        return not plan.parts and all(step.action == "keep" for step in plan.steps if step.path in own)

    def stands(self, journal: Journal) -> str | None:
        """Return the checkpoint at which the workspace stands once the plan took effect; None if that stays.

        An undo or redo puts back what it was before or after what it is about (rule T15).
        """
        if journal.of is None:
            return place_of(self.restoring.context.catalogue, journal.plan, target=self.target)
        if self.of is None:
            return None
        return self.of.stood if journal.type == "undo" else self.of.stands

    def is_recorded(self, journal: Journal) -> bool:  # noqa: ARG002 - a new one is not
        """Tell whether the operation is known already."""
        return False


def place_of(
    catalogue: CatalogueReader, plan: RestorePlan, *, target: Checkpoint | None = None
) -> str | None:
    """Return the checkpoint at which the workspace stands after a restore; None if that does not move it.

    ``target`` is the plan's, if it was looked up already.
    """
    if not plan.whole:
        return None
    target = target or catalogue.get(plan.target)
    return None if target is None or not target.whole else target.id


# --- What refuses before the journal is written, and what has to be known to go on after a kill ---


def loses_content(step: Step) -> bool:
    """Tell whether a step takes a content away, or overwrites it."""
    return step.action in _GOING and is_content(step.have)


def _refuse_lost(
    context: Context, plan: RestorePlan, contents: dict[bytes, bytes], *, written: Mapping[bytes, bytes]
) -> None:
    """Refuse if the store cannot give what is to be written, or give back what is going to go (rule T2).

    What the guard found stored already may have rotted since: only reading it tells. What was ``written``
    for the guard, by its ids, is compared with that.
    """
    missing = context.engine.missing(step.want.oid for step in plan.of("write") if step.want is not None)
    if missing:
        raise Damaged(
            f"the store lacks {len(missing):,} of the contents to put back",
            hint=f"all that is left, written aside: lastgood restore {short(plan.target)} --to DIR"
            f"\nor put back what is whole by its path: lastgood restore {short(plan.target)} -- PATH"
            "\nsee what is hit: lastgood verify",
            details={"missing": sorted(oid.hex() for oid in missing)},
        )
    going = {
        step.have.oid
        for step in plan.steps
        if loses_content(step) and step.have is not None and step.have.oid
    }
    if plan.discard:
        going -= context.engine.missing(going)
    rotten = []
    room = _KEPT_BYTES
    for oid in sorted(going):
        try:
            content = _read_back(context.engine, oid, likely=written.get(oid))
        except Damaged as error:
            rotten.append(error.message)
            continue
        if content is not None and len(content) <= room:
            room -= len(content)
            contents[oid] = content
    if rotten:
        raise Damaged(
            f"the store cannot hold what is there now: {rotten[0]}",
            hint="set the damage aside, then try again: lastgood verify --repair",
            details={"reasons": rotten},
        )


def _read_back(engine: EngineReader, oid: bytes, *, likely: bytes | None) -> bytes | None:
    """Return a content that the store has, proven, None of a large one; `Damaged`."""
    if likely is not None and engine.has_content(oid, likely):
        return likely
    pieces = engine.pieces(oid)
    content = next(pieces, b"")
    more = sum(1 for _ in pieces)  # after the last of them it is proven
    return None if more else content


def _closed(context: Context, steps: Iterable[Step]) -> Mapping[bytes, int]:
    """Return the directories that have to be opened to carry out steps, with their permissions.

    Those that get others by a step of their own are left out.
    """
    touched = [step for step in steps if step.action not in UNTOUCHED]
    if not touched:
        return {}
    going = {step.path for step in touched if is_directory(step.have)}
    settled = {step.path for step in touched if is_directory(step.want)}
    places = ({b"", *ways(step.path for step in touched)} | going) - settled
    return context.applier.closed(sorted(places))


# --- What came of every path: read anew and compared ---


def _proven(
    prover: Prover, steps: Iterable[Step], outcomes: Iterable[Outcome]
) -> tuple[tuple[Outcome, ...], dict[bytes, Proof]]:
    """Return outcomes, one a step, and the proof for each path that changed, none where they are very many.

    Without a proof it has failed: it does not hold what its step wants.
    """
    proven: list[Outcome] = []
    brought: dict[bytes, Proof] = {}
    for step, outcome in zip(steps, outcomes, strict=True):
        told = outcome
        if outcome.result in EFFECTIVE:
            proof = prover.prove(step.path, step.want)
            if not same_content(proof.entry, step.want):
                told = outcome.replace(result="failed", reason="changed while it was being restored")
            elif len(brought) <= _MOST_KEPT:
                brought[step.path] = proof
        proven.append(told)
    return tuple(proven), {} if len(brought) > _MOST_KEPT else brought


def _effect(step: Step, present: Look) -> Step | None:
    """Return what became true of a step, None if nothing did."""
    if took_effect(step, present):
        return step
    if step.action != "mkdir" or step.want is None:
        return None
    found = present(step.path)
    if found is None or found.kind != DIRECTORY:
        return None
    # Made, though its permissions could not be set.
    return step.replace(want=step.want.replace(mode=found.mode))


def took_effect(step: Step, present: Look) -> bool:
    """Tell whether a path holds what a step wants, whatever its outcome."""
    return step.action not in UNTOUCHED and same_content(present(step.path), step.want)
