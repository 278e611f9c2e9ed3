"""verify: prove what is kept, name exactly what is hit, mend what can be mended."""

from __future__ import annotations

from lastgood.actions.spoken import blobs
from lastgood.codec.manifest import decode
from lastgood.errors import Damaged, LastgoodError
from lastgood.model.report import DamagedCheckpoint, VerifyReport
from lastgood.model.tree import DIRECTORY, TreeId
from lastgood.names import join, to_text
from lastgood.ports.catalogue import WorkspaceRow
from lastgood.rules.evidence import alike
from lastgood.transaction.collecting import roots
from lastgood.view import Files, tree_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lastgood.model.checkpoint import Checkpoint, Manifest
    from lastgood.ports.context import Context
    from lastgood.ports.engine import CheckpointContents, Fault

    # Makes an empty folder for a trial restore, and takes it away again.
    Aside = Callable[[Callable[[bytes], None]], None]

# What damage to them is called; in the checkpoint's commit they bear the same names.
CONVERSATION = b"conversation"
STATE = b"state"


def verify(
    context: Context, checkpoints: Sequence[Checkpoint], *, aside: Aside | None = None
) -> VerifyReport:
    """Prove every stored byte, and every file of some checkpoints.

    ``aside`` is given for a trial restore of each (``--deep``). What is found is recorded, so that
    lists show it; nothing is changed otherwise.
    """
    locks, wait = context.locks, context.wait
    with locks.maintenance(wait=wait), locks.share_store(wait=wait):
        faults = _standing_faults(context)
        if faults:
            # Nothing that a scan cache says is stored may be what was found damaged.
            context.catalogue.set_generation(context.clock.random().hex())
        lost = {fault.oid for fault in faults if fault.oid is not None and not fault.mendable}
        proof = _Proof(context, bad=lost)
        damaged = [found for one in checkpoints if (found := proof.examine(one)) is not None]
        if aside is not None:
            sound = [one for one in checkpoints if one.id not in {hit.id for hit in damaged}]
            damaged += _trials(context, sound, aside)
        needed = bool(damaged) or _lacks_commits(context)
        idle = _unreferenced(context)
    context.catalogue.set_damaged(_verdicts(checkpoints, damaged))
    catalogue_fault = context.catalogue.fault()
    texts = [f"{fault.file}: {fault.reason}" for fault in faults if needed or not fault.left_over]
    if catalogue_fault is not None:
        texts.append(f"catalogue.sqlite3: {catalogue_fault}")
    return VerifyReport(
        checkpoints=len(checkpoints), damaged=tuple(damaged), faults=tuple(texts), unreferenced_bytes=idle
    )


def _lacks_commits(context: Context) -> bool:
    """Tell whether a checkpoint lacks its commit: what looks like the left-over of a save then matters."""
    try:
        commits = context.catalogue.commits()
    except Damaged:
        return True
    return bool(context.engine.missing(bytes.fromhex(commit) for commit in commits))


def _unreferenced(context: Context) -> int:
    """Return how many bytes belong to no checkpoint; 0 where damage keeps that from being told."""
    try:
        kept = roots(context, deleted_after=context.clock.now())
        return context.engine.unreached_bytes(kept.live, wounded=kept.wounded)
    except LastgoodError:
        return 0


def _standing_faults(context: Context) -> list[Fault]:
    """Return the faults that are there twice: a save that publishes its pack just then is none."""
    context.engine.refresh()
    faults = list(context.engine.check())
    if not faults:
        return faults
    context.engine.refresh()
    again = {(fault.file, fault.oid) for fault in context.engine.check()}
    return [fault for fault in faults if (fault.file, fault.oid) in again]


def repair(context: Context) -> tuple[str, ...]:
    """Mend the engine's files, set damage aside, and bring back rows that the catalogue lost."""
    locks, wait = context.locks, context.wait
    with locks.maintenance(wait=wait), locks.hold_store(wait=wait):
        # First, as in a sweep: killed in between, no scan cache proves what was set aside.
        context.catalogue.set_generation(context.clock.random().hex())
        done = list(context.engine.repair())
    context.engine.refresh()
    return tuple(done)


def set_journal_aside(context: Context) -> tuple[str, ...]:
    """Set a damaged journal aside: what its restore was going to overwrite is in the newest guard.

    First what it left under temporary names is settled, for the journal alone keeps a save from it.
    """
    with context.locks.hold_workspace(context.key, wait=context.wait):
        try:
            context.journal.read()
        except Damaged:
            cleared = _clear_left_over(context)
            where = context.journal.set_aside()
            return (*cleared, f"the damaged restore journal was set aside: {where}")
    return ()


def _clear_left_over(context: Context) -> tuple[str, ...]:
    left = context.applier.left_over()
    for token, directories in left.items():
        context.applier.clear_temporaries(token, directories)
    places = {place for directories in left.values() for place in directories}
    return (f"what a restore left behind was cleared in {len(places)} folder(s)",) if places else ()


def readopt(context: Context) -> tuple[str, ...]:
    """Bring back the row of every checkpoint that the catalogue lost or that was altered (invariant 6)."""
    found = []
    for commit in context.engine.commits():
        try:
            found.append((decode(context.engine.contents(commit).manifest), commit.hex()))
        except LastgoodError:
            continue  # a commit that cannot be read is reported by the proof, not adopted
    found.sort(key=lambda one: (one[0].sequence, one[0].created_at, one[0].id))
    adopted = [_adopt(context, manifest, commit) for manifest, commit in found]
    return (
        *(f"{one.id} recovered" for one in adopted if one is not None),
        *context.catalogue.mend(),
    )


def _adopt(context: Context, manifest: Manifest, commit: str) -> Checkpoint | None:
    if context.catalogue.workspace(manifest.workspace_key) is None:
        context.catalogue.add_workspace(
            WorkspaceRow(
                key=manifest.workspace_key,
                path=manifest.workspace,
                machine=context.row.machine,
                created_at=manifest.created_at,
            )
        )
    return context.catalogue.adopt(manifest, commit=commit)


def _verdicts(
    checkpoints: Sequence[Checkpoint], damaged: Sequence[DamagedCheckpoint]
) -> dict[str, str | None]:
    hit = {one.id: one.reason for one in damaged}
    return {one.id: hit.get(one.id) for one in checkpoints if hit.get(one.id) != one.damaged}


class _Proof:
    """Walks checkpoints down to their bytes; what several share is walked once."""

    def __init__(self, context: Context, *, bad: set[bytes]) -> None:
        self._engine = context.engine
        self._bad = bad
        self._known: dict[TreeId, tuple[bytes, ...]] = {}

    def examine(self, checkpoint: Checkpoint) -> DamagedCheckpoint | None:
        """Return what is lost of a checkpoint, None if nothing is."""
        try:
            contents = self._engine.contents(bytes.fromhex(checkpoint.commit))
            manifest = decode(contents.manifest)
        except LastgoodError as error:
            return DamagedCheckpoint(
                id=checkpoint.id, files=(), reason=f"its record is lost: {error.message}"
            )
        root = manifest.root
        tree = TreeId(tree=bytes.fromhex(root.tree), modes=bytes.fromhex(root.modes))
        if manifest.id != checkpoint.id or tree != contents.workspace:
            return DamagedCheckpoint(id=checkpoint.id, files=(), reason="its record is another checkpoint's")
        files = self._lost(tree)
        beside = self._lost_beside(contents, manifest)
        if not files and not beside:
            return None
        # What is below a directory that cannot be read is not known: its path stands for all of it.
        words = [f"{len(files)} path(s)"] if files else []
        if b"" in files:
            words = ["all of its files"]
        words += [to_text(name) for name in beside]
        reason = f"{' and '.join(words)} cannot be read"
        return DamagedCheckpoint(id=checkpoint.id, files=files + beside, reason=reason)

    def _lost_beside(self, contents: CheckpointContents, manifest: Manifest) -> tuple[bytes, ...]:
        """Return what is lost beside the workspace's files: ``conversation``, ``state/NAME``."""
        lost: list[bytes] = []
        held, spoken = contents.conversation, manifest.conversation
        if (None if held is None else held.tree.hex()) != (None if spoken is None else spoken.tree) or (
            held is not None and self._lost(held)
        ):
            lost.append(CONVERSATION)
        wanted = {name: bytes.fromhex(oid) for name, oid in manifest.state.items()}
        gone = self._engine.missing(wanted.values()) | self._bad
        for name, oid in sorted(wanted.items()):
            if oid in gone or contents.state.get(name) != oid:
                lost.append(STATE + b"/" + name.encode("utf-8", "surrogateescape"))
        return tuple(lost)

    def _lost(self, tree: TreeId) -> tuple[bytes, ...]:
        found = self._known.get(tree)
        if found is None:
            found = self._known[tree] = tuple(self._search(tree))
        return found

    def _search(self, tree: TreeId) -> list[bytes]:
        if tree.tree in self._bad or tree.modes in self._bad:
            return [b""]
        try:
            entries = self._engine.directory(tree)
        except Damaged:
            return [b""]
        blobs = [entry.oid for entry in entries if entry.kind != DIRECTORY]
        missing = self._engine.missing(blobs) | self._bad
        lost: list[bytes] = []
        for entry in entries:
            if entry.kind == DIRECTORY:
                lost += [
                    join(entry.name, below) if below else entry.name for below in self._lost(entry.tree_id)
                ]
            elif entry.oid in missing:
                lost.append(entry.name)
        return lost


def _trials(context: Context, checkpoints: Sequence[Checkpoint], aside: Aside) -> list[DamagedCheckpoint]:
    failed: list[DamagedCheckpoint] = []
    tried: dict[TreeId, tuple[bytes, ...]] = {}
    read: dict[bytes, int] = {}
    for checkpoint in checkpoints:
        tree = tree_of(checkpoint)
        if tree not in tried:
            tried[tree] = _trial(context, tree, aside)
        if tried[tree]:
            failed.append(
                DamagedCheckpoint(
                    id=checkpoint.id, files=tried[tree], reason="a trial restore came out wrong"
                )
            )
        elif beside := _trial_beside(context, checkpoint, read=read):
            reason = f"{' and '.join(map(to_text, beside))} could not be read back"
            failed.append(DamagedCheckpoint(id=checkpoint.id, files=beside, reason=reason))
    return failed


def _trial_beside(context: Context, checkpoint: Checkpoint, *, read: dict[bytes, int]) -> tuple[bytes, ...]:
    """Read the conversation and what else is kept, and return the names of what does not come back whole.

    ``read`` are the sizes of the blobs that were read: a growing conversation has most in common.
    """
    manifest = checkpoint.manifest

    def size_of(oid: bytes) -> int:
        if oid not in read:
            read[oid] = len(context.engine.read_blob(oid))
        return read[oid]

    wrong = []
    spoken = manifest.conversation
    try:
        if spoken is not None and sum(map(size_of, blobs(context.engine, spoken.tree))) != spoken.size:
            wrong.append(CONVERSATION)
    except Damaged:
        wrong.append(CONVERSATION)
    for name, oid in sorted(manifest.state.items()):
        try:
            size_of(bytes.fromhex(oid))
        except Damaged:
            wrong.append(STATE + b"/" + name.encode("utf-8", "surrogateescape"))
    return tuple(wrong)


def _trial(context: Context, tree: TreeId, aside: Aside) -> tuple[bytes, ...]:
    """Restore a tree into an empty folder, read it back, and return the paths that differ."""
    wrong: list[bytes] = []

    def attempt(folder: bytes) -> None:
        applier = context.applier_of(folder)
        outcomes = applier.write_tree(tree, objects=context.engine, durability="fast")
        wrong.extend(outcome.path for outcome in outcomes if outcome.result == "failed")
        for path, entry in Files(tree, context.engine).walk():
            if not alike(applier.present(path), entry):
                wrong.append(path)

    aside(attempt)
    return tuple(dict.fromkeys(wrong))
