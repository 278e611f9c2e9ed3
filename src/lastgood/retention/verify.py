"""verify: prove what is kept, name exactly what is hit, mend what can be mended."""

from __future__ import annotations

from itertools import chain

from lastgood import tasks
from lastgood.catalogue import Query, WorkspaceRow
from lastgood.conversation.reader import beside as beside_conversation
from lastgood.conversation.reader import blobs
from lastgood.errors import Damaged, LastgoodError, NoRoom, Unsafe, count, crowded
from lastgood.model.checkpoint import AND, NOT_READ, NOT_READ_BACK, TreeRef, decode
from lastgood.model.long_list import LongList
from lastgood.model.report import DamagedCheckpoint, VerifyReport
from lastgood.model.session import LISTS, TASKS, list_kind, lists_in_parts
from lastgood.model.tree import DIRECTORY, TreeId, same_content
from lastgood.paths import join, printable, to_text
from lastgood.retention.sweep import ids_of, roots
from lastgood.root import is_folder
from lastgood.snapshot import WorkspaceSnapshot
from lastgood.transaction import MaintenanceTransaction, ReadTransaction, RecoverTransaction
from lastgood.trees import Files, tree_of
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from lastgood.context import Context
    from lastgood.engine import CheckpointContents, EngineReader, Fault
    from lastgood.model.checkpoint import Checkpoint, Conversation, Manifest
    from lastgood.model.session import Progress
    from lastgood.model.tree import Entry

    # Makes an empty folder for a trial restore, and takes it away again.
    Aside = Callable[[Callable[[bytes], None]], None]

# What damage to them is called; in the checkpoint's commit they bear the same names.
CONVERSATION = b"conversation"
PROGRESS = b"progress"
STATE = b"state"
# Of a directory: no name in it is lost, and none of those in it has lost anything.
_SOUND: tuple[tuple[bytes, ...], tuple[Entry, ...]] = ((), ())


def verify(
    context: Context, chosen: Callable[[], Sequence[Checkpoint]], *, aside: Aside | None = None
) -> VerifyReport:
    """Prove every stored byte, and every file of some checkpoints.

    ``chosen`` is asked which once nothing can be freed any more: what was let go before is not damaged.
    ``aside`` is given for a trial restore of each (``--deep``). What is found is recorded, so that
    lists show it; nothing is changed otherwise.
    """
    unrecorded: list[str] = []
    with MaintenanceTransaction(context) as upkeep, context.locks.share_store(wait=context.wait):
        catalogue, checkpoints = upkeep.catalogue, chosen()
        faults = _standing_faults(context)
        lost = {fault.oid for fault in faults if fault.oid is not None and not fault.mendable}
        proof = _Proof(context, bad=lost)
        damaged = [found for one in checkpoints if (found := proof.examine(one)) is not None]
        if aside is not None:
            sound = [one for one in checkpoints if one.id not in {hit.id for hit in damaged}]
            damaged += _trials(context, sound, aside)
        verdicts = _verdicts(checkpoints, damaged)
        if verdicts or any(fault.mendable or fault.oid is None for fault in faults):
            # Nothing that a scan cache says is stored may be what was found damaged. What is lost for good
            # was told before: the cache has been made since, and what it names was stored anew.
            unrecorded += _recorded(lambda: catalogue.set_generation(context.clock.random().hex()))
        needed = bool(damaged) or _lacks_commits(context)
        idle = _unreferenced(context)
        unlisted, rows_lost = _unlisted(context)
        if verdicts:
            unrecorded += _recorded(lambda: catalogue.set_damaged(verdicts))
    catalogue_faults = [*rows_lost, *context.catalogue.faults()]
    texts = [f"{fault.file}: {fault.reason}" for fault in faults if needed or not fault.left_over]
    texts += [f"catalogue.sqlite3: {fault}" for fault in catalogue_faults]
    texts += _journal_faults(context)
    texts += unrecorded[:1]
    return VerifyReport(
        checkpoints=len(checkpoints),
        damaged=tuple(damaged),
        faults=tuple(texts),
        unreferenced_bytes=idle,
        unlisted=unlisted,
    )


def _recorded(record: Callable[[], object]) -> list[str]:
    """Record something, and return what is to be told where the disk does not take it: the proof still is."""
    try:
        record()
    except NoRoom as error:
        return [f"what was found is not recorded: {error.message}"]
    return []


def _unlisted(context: Context) -> tuple[int, list[str]]:
    """Return how many checkpoints have no row, and what is wrong if rows were lost.

    A save that was killed leaves one, and the next takes its number: one with a number beyond the next
    one had a row.
    """
    strangers = _strangers(context)
    after = context.catalogue.next_sequence()
    lost = sum(manifest.sequence > after for manifest, _ in strangers)
    return len(strangers), [f"it lacks {count(lost, 'checkpoint')} that it had"] if lost else []


def _strangers(context: Context) -> list[tuple[Manifest, str]]:
    """Return the checkpoints that have a commit and no sound row, in the order of their numbers."""
    known = frozenset(bytes.fromhex(commit) for commit in context.catalogue.accounted())
    found = []
    for commit in context.engine.commits(besides=known):
        try:
            found.append((decode(context.engine.contents(commit).manifest), commit.hex()))
        except LastgoodError:
            continue  # a commit that cannot be read is reported by the proof, not adopted
    # Of several copies of one that which lacks least comes first, and stays if it is whole.
    return sorted(
        found, key=lambda one: (one[0].sequence, one[0].created_at, one[0].id, len(one[0].gaps), one[1])
    )


def _journal_faults(context: Context) -> list[str]:
    try:
        context.journal.read()
    except Damaged as error:
        return [error.message]
    return []


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
    # A sweep that was killed, or found no room, may have freed some of what they need.
    going = frozenset(bytes.fromhex(commit) for commit in context.catalogue.freed())
    faults = list(context.engine.check(besides=going))
    if not faults:
        return faults
    context.engine.refresh()
    again = {(fault.file, fault.oid) for fault in context.engine.check(besides=going)}
    return [fault for fault in faults if (fault.file, fault.oid) in again]


def repair(upkeep: MaintenanceTransaction) -> tuple[str, ...]:
    """Mend the engine's files and set damage aside."""
    context, catalogue = upkeep.context, upkeep.catalogue
    locks, wait = context.locks, context.wait
    freed = frozenset(catalogue.freed())
    done = upkeep.engine.repair(
        holds=(lambda: locks.share_store(wait=wait), lambda: locks.hold_store(wait=wait)),
        # First, as in a sweep: killed in between, no scan cache proves what was set aside.
        changing=lambda: catalogue.set_generation(context.clock.random().hex()),
        wanted=ids_of(frozenset(catalogue.accounted()) - freed),
        besides=ids_of(freed),
    )
    upkeep.engine.refresh()
    return tuple(done)


def _store_parts(upkeep: MaintenanceTransaction) -> tuple[str, ...]:
    """Store lost lists of progress again, or parts of them, that are known by other records (rule P8a)."""
    context, engine = upkeep.context, upkeep.engine
    with context.locks.share_store(wait=context.wait):
        engine.refresh()
        lost = _lost_lists(context)
        if not lost:
            return ()
        writer = engine.writer()
        try:
            parts = context.work.parts({oid for one in lost for oid in one.parts})
            for content in parts.values():
                writer.blob(content)
            left = [one for one in lost if one.lacks_trees or not one.parts <= parts.keys()]
            again = [items for one in left if (items := _known_list(context, one)) is not None]
            for items in again:
                items.store(writer)
            if not again and not parts:
                writer.abandon()
                return ()
            writer.publish()
        except BaseException:
            writer.abandon()
            raise
        engine.refresh()
    told = []
    if again:
        told.append(f"{count(len(again), 'list')} of progress stored again, as other records tell them")
    if parts:
        told.append(f"{count(len(parts), 'part')} of progress stored again, as the catalogue has them")
    return tuple(told)


class _LostList(Value):
    """A list of progress of which something is not stored any more.

    ``parts`` are the blobs that are lost of it, as far as its trees tell. ``later`` is the progress of a
    later checkpoint of the same work that can be read, if there is one.
    """

    name: str
    items: LongList[Any]
    made_by: Manifest
    parts: frozenset[bytes]
    lacks_trees: bool
    later: Progress | None


def _lost_lists(context: Context) -> list[_LostList]:
    """Return the lists of progress that checkpoints need and nothing has whole any more."""
    lost: dict[bytes, _LostList] = {}
    sound: set[bytes] = set()
    later: dict[str, Progress] = {}
    for one in context.catalogue.find(Query(deleted=True)):
        manifest = one.manifest
        lists = lists_in_parts(manifest.progress)
        key = manifest.session or manifest.workspace_key
        for name, items in lists.items():
            if items.oid in sound or items.oid in lost:
                continue
            parts, lacks_trees = _lost_parts(context, items.oid, sound=sound)
            if parts or lacks_trees:
                lost[items.oid] = _LostList(
                    name=name,
                    items=items,
                    made_by=manifest,
                    parts=parts,
                    lacks_trees=lacks_trees,
                    later=later.get(key),
                )
        if lists and not any(items.oid in lost for items in lists.values()):
            later[key] = manifest.progress
    return list(lost.values())


def _lost_parts(context: Context, tree: bytes, *, sound: set[bytes]) -> tuple[frozenset[bytes], bool]:
    """Return the blobs that are lost of a list, as far as its trees tell, and whether one of these is lost.

    ``sound`` are the trees of which nothing is lost.
    """
    folders = {entry.oid for entry in _listed(context, tree)}
    blobs = {oid: {entry.oid for entry in _listed(context, oid)} for oid in folders - sound}
    gone = frozenset(context.engine.missing(set().union(*blobs.values())))
    sound.update(oid for oid, inside in blobs.items() if inside and not inside & gone)
    if folders and folders <= sound:
        sound.add(tree)
    return gone, not folders or not all(blobs.values())


def _known_list(context: Context, lost: _LostList) -> LongList[Any] | None:
    """Return a lost list as what was recorded later tells of its moment, if that is it: its id proves it."""
    made_by = lost.made_by
    in_force = context.work.progress(made_by.session or made_by.workspace_key)
    for later in (in_force, lost.later):
        if later is None:
            continue
        found: Sequence[object] = later.features.completed
        if lost.name == TASKS:
            found = [tasks.as_of(one, made_by.created_at) for one in later.tasks]
        items = LongList.of(list_kind(lost.name), found[: len(lost.items)])
        if items.oid == lost.items.oid:
            return items
    return None


def _listed(context: Context, tree: bytes) -> Sequence[Entry]:
    try:
        return context.engine.directory(TreeId(tree=tree))
    except Damaged:
        return ()


def set_journal_aside(context: Context) -> tuple[str, ...]:
    """Set a damaged journal aside: what its restore was going to overwrite is in the newest guard.

    First what it left under temporary names is settled, for the journal alone keeps a save from it.
    """
    with RecoverTransaction(context) as recovering:
        try:
            context.journal.read()
        except Damaged:
            cleared = _clear_left_over(recovering)
            where = recovering.journal.set_aside()
            return (*cleared, f"the damaged restore journal was set aside: {where}")
    return ()


def _clear_left_over(recovering: RecoverTransaction) -> tuple[str, ...]:
    from lastgood.restore.finish import clear_unplanned, places_of  # lazily: a journal is seldom damaged

    left = recovering.applier.left_over()
    found = clear_unplanned(recovering, left)
    places = places_of(path for paths in left.values() for path in paths)
    if not places:
        return ()
    told = (f"{printable(to_text(one.path))}: {one.reason}" for one in found)
    return (f"what a restore left behind was cleared in {count(len(places), 'folder')}", *told)


def readopt(upkeep: MaintenanceTransaction) -> tuple[str, ...]:
    """Bring back the row of every checkpoint that the catalogue lost or that was altered (invariant 6)."""
    context = upkeep.context
    with context.locks.share_store(wait=context.wait):  # or a sweep could free what a row is written for
        upkeep.engine.refresh()
        adopted = [_adopt(upkeep, manifest, commit) for manifest, commit in _strangers(context)]
    return tuple(f"{one.id} recovered" for one in adopted if one is not None)


def mend_catalogue(upkeep: MaintenanceTransaction) -> tuple[str, ...]:
    """Mend what is altered in the catalogue or lost of it, and the lists of checkpoints by what it knows.

    First the lists: it gives up parts of one that cannot be made whole again.
    """
    stored = _store_parts(upkeep)
    with upkeep.context.locks.share_store(wait=upkeep.context.wait):
        mended = tuple(upkeep.catalogue.mend())
    return (*stored, *mended, *(_store_parts(upkeep) if mended else ()))


def find_place(upkeep: MaintenanceTransaction) -> tuple[str, ...]:
    """Find out where the workspace at hand stands, if that was lost: at the checkpoint whose files it has."""
    context = upkeep.context
    if context.catalogue.place_fault(context.key) != "lost" or not is_folder(context.root):
        return ()
    try:
        with ReadTransaction(context) as reading, WorkspaceSnapshot(reading) as snapshot:
            tree = snapshot.scan.result.tree
            root = TreeRef(tree=tree.tree.hex(), modes=tree.modes.hex())
            found = upkeep.catalogue.find_place(context.key, root=root)
    except LastgoodError:  # a restore was interrupted, say; what counts meanwhile was told
        return ()
    return () if found is None else (f"the workspace stands at {found.short_id}, whose files it has",)


def _adopt(upkeep: MaintenanceTransaction, manifest: Manifest, commit: str) -> Checkpoint | None:
    if upkeep.catalogue.workspace(manifest.workspace_key) is None:
        upkeep.catalogue.add_workspace(
            WorkspaceRow(
                key=manifest.workspace_key,
                path=manifest.workspace,
                machine=upkeep.context.row.machine,
                created_at=manifest.created_at,
            )
        )
    return upkeep.catalogue.adopt(manifest, commit=commit) or _take_reduced(upkeep, manifest, commit)


def _take_reduced(upkeep: MaintenanceTransaction, manifest: Manifest, commit: str) -> Checkpoint | None:
    """Have a row that a backup of before a purge brought name the reduced copy; None if it is whole."""
    catalogue, engine = upkeep.catalogue, upkeep.context.engine
    row = catalogue.get(manifest.id)
    if row is None or manifest.copy_of is None or row.commit == commit:
        return None
    gone = bool(engine.missing((bytes.fromhex(row.commit),)))
    if not gone and not (_is_reduction(row, manifest) and _Proof(upkeep.context, bad=set()).examine(row)):
        return None
    catalogue.reduce([(manifest, commit)])
    return catalogue.get(manifest.id)


def _is_reduction(row: Checkpoint, manifest: Manifest) -> bool:
    """Tell whether a record is that of a checkpoint without what was purged, and lacks nothing else."""
    further = [gap for gap in manifest.gaps if gap not in row.gaps]
    known = manifest.copy_of in {row.commit, row.manifest.copy_of}
    return known and all(gap.reason == "purged" for gap in further)


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
        # By directory: the names lost in it, and the directories in it that have lost something.
        self._known: dict[TreeId, tuple[tuple[bytes, ...], tuple[Entry, ...]]] = {}

    def examine(self, checkpoint: Checkpoint) -> DamagedCheckpoint | None:
        """Return what is lost of a checkpoint, None if nothing is."""
        try:
            contents = self._engine.contents(bytes.fromhex(checkpoint.commit))
            manifest = decode(contents.manifest)
        except LastgoodError as error:
            busy = crowded(error)
            if busy is not None:  # that says nothing of the record
                raise busy from error
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
        words = [count(len(files), "path")] if files else []
        if b"" in files:
            words = ["all of its files"]
        words += [to_text(name) for name in beside]
        reason = AND.join(words) + NOT_READ
        return DamagedCheckpoint(id=checkpoint.id, files=files + beside, reason=reason)

    def _lost_beside(self, contents: CheckpointContents, manifest: Manifest) -> tuple[bytes, ...]:
        """Return what is lost beside the workspace's files: ``conversation``, ``state/NAME``."""
        lost: list[bytes] = []
        held, spoken = contents.conversation, manifest.conversation
        if (None if held is None else held.tree.hex()) != (None if spoken is None else spoken.tree) or (
            held is not None and self._lost(held)
        ):
            lost.append(CONVERSATION)
        lists = {name: items.oid for name, items in lists_in_parts(manifest.progress).items()}
        beside = {name: tree for name, tree in contents.progress.items() if name not in LISTS}
        for name in sorted({*lists, *contents.progress}):
            tree = (beside | lists).get(name)
            if tree is None or contents.progress.get(name) != tree or self._lost(TreeId(tree=tree)):
                lost.append(PROGRESS + b"/" + name.encode("ascii", "replace"))
        wanted = {name: bytes.fromhex(oid) for name, oid in manifest.state.items()}
        gone = self._engine.missing(wanted.values()) | self._bad
        for name, oid in sorted(wanted.items()):
            if oid in gone or contents.state.get(name) != oid:
                lost.append(STATE + b"/" + name.encode("utf-8", "surrogateescape"))
        return tuple(lost)

    def _lost(self, root: TreeId) -> tuple[bytes, ...]:
        """Return the paths that are lost of a tree, ``b""`` for all of it."""
        self._search(root)
        lost: list[bytes] = []
        waiting = [(b"", root)]
        while waiting:
            path, tree = waiting.pop()
            names, inside = self._known[tree]
            lost += [join(path, name) if name else path for name in names]
            waiting += [(join(path, entry.name), entry.tree_id) for entry in inside]
        return tuple(sorted(lost))

    def _search(self, root: TreeId) -> None:
        """Get to know a tree; on a stack of our own, for it may be deeper than Python's."""
        waiting: list[tuple[TreeId, Sequence[Entry] | None]] = [(root, None)]
        while waiting:
            tree, entries = waiting.pop()
            if tree in self._known:
                continue
            if entries is None:
                entries = self._entries(tree)
                if entries is None:
                    self._known[tree] = ((b"",), ())
                    continue
                waiting.append((tree, entries))
                waiting += [(entry.tree_id, None) for entry in entries if entry.kind == DIRECTORY]
                continue
            self._known[tree] = self._faults(entries)

    def _entries(self, tree: TreeId) -> Sequence[Entry] | None:
        """Return what a directory holds, None if that cannot be told."""
        if tree.tree in self._bad or tree.modes in self._bad:
            return None
        try:
            return self._engine.directory(tree)
        except Damaged:
            return None

    def _faults(self, entries: Sequence[Entry]) -> tuple[tuple[bytes, ...], tuple[Entry, ...]]:
        """Return what is lost in a directory, those in it being known."""
        blobs = [entry.oid for entry in entries if entry.kind != DIRECTORY]
        missing = self._engine.missing(blobs) | self._bad
        names = tuple(entry.name for entry in entries if entry.kind != DIRECTORY and entry.oid in missing)
        inside = (entry for entry in entries if entry.kind == DIRECTORY)
        return names, tuple(entry for entry in inside if self._known[entry.tree_id] != _SOUND)


def _trials(context: Context, checkpoints: Sequence[Checkpoint], aside: Aside) -> list[DamagedCheckpoint]:
    failed: list[DamagedCheckpoint] = []
    tried: dict[TreeId, tuple[tuple[bytes, ...], str]] = {}
    read: dict[bytes, int] = {}
    for checkpoint in checkpoints:
        tree = tree_of(checkpoint)
        if tree not in tried:
            tried[tree] = _trial(context, tree, aside)
        files, wrong = tried[tree]
        if wrong:
            failed.append(DamagedCheckpoint(id=checkpoint.id, files=files, reason=wrong))
        elif beside := _trial_beside(context, checkpoint, read=read):
            reason = AND.join(map(to_text, beside)) + NOT_READ_BACK
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
        if spoken is not None and not _is_whole(context.engine, spoken, size_of):
            wrong.append(CONVERSATION)
    except Damaged:
        wrong.append(CONVERSATION)
    for name, items in lists_in_parts(manifest.progress).items():
        try:
            is_whole = items.is_as_counted()
        except Damaged:
            is_whole = False
        if not is_whole:
            wrong.append(PROGRESS + b"/" + name.encode("ascii"))
    for name, oid in sorted(manifest.state.items()):
        try:
            size_of(bytes.fromhex(oid))
        except Damaged:
            wrong.append(STATE + b"/" + name.encode("utf-8", "surrogateescape"))
    return tuple(wrong)


def _is_whole(engine: EngineReader, spoken: Conversation, size_of: Callable[[bytes], int]) -> bool:
    """Read a conversation with what is kept beside it, and tell if it is as long as it was; `Damaged`."""
    for oid in chain(*beside_conversation(engine, spoken.tree).values()):
        size_of(oid)
    return sum(map(size_of, blobs(engine, spoken.tree))) == spoken.size


def _trial(context: Context, tree: TreeId, aside: Aside) -> tuple[tuple[bytes, ...], str]:
    """Restore a tree into an empty folder, read it back, and return which paths differ, and what is wrong."""
    wrong: list[bytes] = []

    def attempt(folder: bytes) -> None:
        applier = context.applier_of(folder)
        outcomes = applier.write_tree(tree, objects=context.engine, durability="fast")
        wrong.extend(outcome.path for outcome in outcomes if outcome.result == "failed")
        with applier.looking() as present:
            held = Files(tree, context.engine).walk()
            wrong.extend(path for path, entry in held if not same_content(present(path), entry))

    try:
        aside(attempt)
    except Unsafe as error:  # one that nothing writes out as a whole must not hide the others
        return (), error.message
    return tuple(dict.fromkeys(wrong)), "a trial restore came out wrong" if wrong else ""
