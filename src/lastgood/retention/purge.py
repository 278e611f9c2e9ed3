"""purge: take contents out of every checkpoint and pack, and prove that they are gone (rule S5).

A checkpoint that held them is replaced by a reduced copy of itself, as an export makes one: the same id, with
a gap where they were. No list of what was purged is needed to read, verify or restore it: none can be lost.
"""

from __future__ import annotations

from lastgood.catalogue import Query
from lastgood.errors import Busy, Conflict, Damaged, Invalid, LastgoodError, NotFound
from lastgood.model.checkpoint import TreeRef, decode, encode
from lastgood.model.report import PurgedCheckpoint, PurgePlan, PurgeReport
from lastgood.model.session import lists_in_parts
from lastgood.model.tree import DIRECTORY, FILE, Gap, TreeId
from lastgood.paths import join, printable, to_text, ways, within
from lastgood.retention.sweep import SweepTransaction, inventory, past_grace, roots
from lastgood.transaction import MaintenanceTransaction
from lastgood.trees import Files, tree_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lastgood.context import Context
    from lastgood.engine import EngineReader, ObjectReader, ObjectWriter
    from lastgood.model.checkpoint import Checkpoint, Manifest
    from lastgood.model.tree import Entry

# The blob of no bytes: nothing is in it, and many files share it.
_EMPTY = bytes.fromhex("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")
_SHOWN = 3


# --- Where trees hold some contents, and what a tree becomes without them ---


class Places:
    """Finds where trees hold which of some blobs; a tree that several checkpoints share is read once."""

    def __init__(self, objects: ObjectReader, oids: Iterable[bytes]) -> None:
        self._objects = objects
        self._oids = frozenset(oids)
        self._known: dict[TreeId, tuple[tuple[bytes, bytes], ...]] = {}

    def of(self, root: TreeId) -> tuple[tuple[bytes, bytes], ...]:
        """Return the paths at which a tree holds them, with the blobs; what cannot be read holds none."""
        opened: dict[TreeId, Sequence[Entry]] = {}
        # A stack of our own: trees may be deeper than Python's recursion limit.
        waiting = [root]
        while waiting:
            tree = waiting[-1]
            if tree not in opened and tree not in self._known:
                opened[tree] = self._entries(tree)
                waiting += {one.tree_id for one in opened[tree] if one.kind == DIRECTORY}
                continue
            waiting.pop()
            if tree in opened:
                self._known[tree] = tuple(self._among(opened.pop(tree)))
        return self._known[root]

    def _entries(self, tree: TreeId) -> Sequence[Entry]:
        try:
            return self._objects.directory(tree)
        except Damaged:
            return ()

    def _among(self, entries: Iterable[Entry]) -> Iterator[tuple[bytes, bytes]]:
        for entry in entries:
            if entry.kind == DIRECTORY:
                inside = self._known.get(entry.tree_id, ())
                yield from ((join(entry.name, path), oid) for path, oid in inside)
            elif entry.oid in self._oids:
                yield entry.name, entry.oid


def without(
    objects: ObjectReader, root: TreeId, paths: Sequence[bytes], *, writer: ObjectWriter
) -> tuple[TreeId, tuple[Gap, ...]]:
    """Store a tree without some of its files and links, and return it, with a gap for each of these."""
    gone, leading = frozenset(paths), {b"", *ways(paths)}
    met: list[tuple[bytes, Sequence[Entry]]] = []
    waiting = [(b"", root)]
    while waiting:
        place, tree = waiting.pop()
        entries = objects.directory(tree)
        met.append((place, entries))
        inner = ((join(place, one.name), one) for one in entries if one.kind == DIRECTORY)
        waiting += [(path, one.tree_id) for path, one in inner if path in leading]
    gaps: list[Gap] = []
    made: dict[bytes, TreeId] = {}
    for place, entries in reversed(met):  # what lies in a directory was met after it
        kept = []
        for entry in entries:
            path = join(place, entry.name)
            if path in gone:
                size = _size(objects, entry.oid) if entry.kind == FILE else None
                gaps.append(Gap(path=path, reason="purged", size=size))
            elif path in made:
                kept.append(entry.replace(oid=made[path].tree, modes=made[path].modes))
            else:
                kept.append(entry)
        made[place] = writer.directory(kept)
    return made[b""], tuple(gaps)


def reduced(manifest: Manifest, *, commit: str, root: TreeId, gaps: tuple[Gap, ...]) -> Manifest:
    """Return the record of a checkpoint from which files were taken out, of which the commit is given."""
    gone = {gap.path for gap in gaps}
    return manifest.replace(
        root=TreeRef(tree=root.tree.hex(), modes=root.modes.hex()),
        files=manifest.files - len(gaps),
        size=manifest.size - sum(gap.size or 0 for gap in gaps),
        gaps=tuple(sorted((*manifest.gaps, *gaps), key=lambda gap: gap.path)),
        private=tuple(path for path in manifest.private if path not in gone),
        forced=tuple(path for path in manifest.forced if path not in gone),
        copy_of=manifest.copy_of or commit,
    )


# --- What a purge would do ---


def plan_purge(context: Context, path: bytes, *, everywhere: bool) -> PurgePlan:
    """Return which contents a path ever had, and every checkpoint of the store that holds one of them.

    What the workspace has at other paths too stays, unless ``everywhere``. Raises `NotFound` where no
    checkpoint of the workspace holds anything there, or ever did.
    """
    with context.locks.share_store(wait=context.wait):
        return _plan(context, path, everywhere=everywhere)


def _plan(context: Context, path: bytes, *, everywhere: bool) -> PurgePlan:
    if not path:
        raise Invalid(
            "a workspace is not purged as a whole",
            hint="name a file or folder in it; to let go all checkpoints: lastgood workspace forget .",
        )
    every = context.catalogue.find(Query(deleted=True))
    sizes = _versions(context.engine, [one for one in every if _is_own(context, one)], path)
    again = not sizes and _was_purged(every, path)
    if not sizes and not again:
        raise NotFound(
            f"no checkpoint holds any content of '{printable(to_text(path))}'",
            hint="what the latest holds: lastgood show @ --files",
        )
    places = Places(context.engine, sizes)
    held = [(one, places.of(tree_of(one))) for one in every]
    spared = {} if everywhere else _outside((pairs for one, pairs in held if _is_own(context, one)), path)
    found = [
        PurgedCheckpoint(
            id=one.id,
            workspace=one.workspace,
            workspace_key=one.manifest.workspace_key,
            paths=tuple(sorted(paths)),
        )
        for one, pairs in held
        if (paths := [at for at, oid in pairs if oid not in spared])
    ]
    return PurgePlan(
        path=path,
        workspace_key=context.key,
        contents=tuple(sorted(oid.hex() for oid in sizes if oid not in spared)),
        size=sum(size for oid, size in sizes.items() if oid not in spared),
        checkpoints=tuple(found),
        again=again,
        spared=tuple(sorted(set().union(*spared.values()))),
        spared_contents=tuple(sorted(oid.hex() for oid in spared)),
    )


def _outside(held: Iterable[Iterable[tuple[bytes, bytes]]], path: bytes) -> dict[bytes, set[bytes]]:
    """Return the blobs that are at other paths than one and what is in it, with those paths."""
    found: dict[bytes, set[bytes]] = {}
    for pairs in held:
        for at, oid in pairs:
            if not within(at, path):
                found.setdefault(oid, set()).add(at)
    return found


def _is_own(context: Context, checkpoint: Checkpoint) -> bool:
    return checkpoint.manifest.workspace_key == context.key


def _was_purged(checkpoints: Iterable[Checkpoint], path: bytes) -> bool:
    """Tell whether a purge of a path, or of something in it, took place before."""
    return any(gap.reason == "purged" and within(gap.path, path) for one in checkpoints for gap in one.gaps)


def _versions(objects: ObjectReader, checkpoints: Iterable[Checkpoint], path: bytes) -> dict[bytes, int]:
    """Return the contents of a file, or of all files in a folder, with their sizes in bytes."""
    known: set[TreeId] = set()
    found: set[bytes] = set()
    for checkpoint in checkpoints:
        try:
            entry = Files(tree_of(checkpoint), objects).entry(path)
        except Damaged:
            continue  # what of it can be read is found in other checkpoints, or by its content
        waiting = [] if entry is None else [entry]
        while waiting:
            one = waiting.pop()
            if one.kind != DIRECTORY:
                found.add(one.oid)
            elif one.tree_id not in known:
                known.add(one.tree_id)
                waiting += _listing(objects, one.tree_id)
    return {oid: _size(objects, oid) or 0 for oid in found - {_EMPTY}}


def _listing(objects: ObjectReader, tree: TreeId) -> Sequence[Entry]:
    try:
        return objects.directory(tree)
    except Damaged:
        return ()


def _size(objects: ObjectReader, oid: bytes) -> int | None:
    try:
        return objects.blob_size(oid)
    except Damaged:
        return None


# --- purge: reduced copies first, then no byte of the contents ---


def purge(
    context: Context,
    path: bytes,
    *,
    everywhere: bool,
    all_workspaces: bool,
    interrupted: Callable[[], bool],
) -> PurgeReport:
    """Take the contents that a path ever had out of the store; there is no way back.

    Killed at any moment it leaves every checkpoint readable, as it was or reduced; called again it ends what
    it began. What the workspace has at other paths too stays, unless ``everywhere``. Raises `Conflict` if
    other workspaces hold some of the rest, unless ``all_workspaces``.
    """
    given = context.reserve.make_room()
    try:
        with MaintenanceTransaction(context, wait=context.wait) as upkeep:
            before = context.measure()
            with SweepTransaction(context, wait=context.wait) as sweeping:
                # Asked under the lock: a restore that runs now holds it too.
                if interrupted():
                    raise Busy(
                        "a restore was interrupted, and may need what would be purged",
                        hint="finish it first: lastgood recover",
                    )
                plan = _plan(context, path, everywhere=everywhere)
                _refuse_others(plan, everywhere=all_workspaces)
                # One that was killed before it freed what it took out is ended, too.
                if plan.contents or plan.again or context.catalogue.freed():
                    _take_out(sweeping, plan)
            upkeep.catalogue.back_up()
            after = context.measure()
    finally:
        context.reserve.lay_in(again=given)
    beyond = {"damaged": after.damaged, "kept": after.kept}
    return PurgeReport(
        plan=plan,
        freed_bytes=max(0, before.objects - after.objects),
        not_searched=tuple(name for name, size in beyond.items() if size),
    )


def _take_out(sweeping: SweepTransaction, plan: PurgePlan) -> None:
    context = sweeping.context
    sweeping.catalogue.forget(past_grace(context))
    oids = [bytes.fromhex(one) for one in plan.contents]
    _refuse_unlisted(context, Places(context.engine, oids))
    rows = _reduced_copies(sweeping, plan)
    if rows:
        sweeping.catalogue.reduce(rows)
    # Before a byte goes: a backup of before names commits that will be gone.
    sweeping.catalogue.back_up(alone=True)
    sweeping.sweep(roots(context))
    sweeping.engine.refresh()
    left = set(oids) - sweeping.engine.missing(oids)
    if left:
        raise Damaged(
            f"{len(left)} of {len(oids)} contents are out of all checkpoints, and still stored",
            hint="see what holds them: lastgood verify",
            details={"objects": sorted(oid.hex() for oid in left)},
        )


def _reduced_copies(sweeping: SweepTransaction, plan: PurgePlan) -> list[tuple[Manifest, str]]:
    """Store a reduced copy of each checkpoint, durably, and return their records with their commits."""
    engine = sweeping.engine
    writer = engine.writer()
    rows = []
    try:
        for one in plan.checkpoints:
            found = sweeping.catalogue.get(one.id)
            if found is None:
                continue  # it was deleted long ago, and forgotten just now
            root, gaps = without(engine, tree_of(found), one.paths, writer=writer)
            record, state, lists = _record(engine, found)
            manifest = reduced(record, commit=found.commit, root=root, gaps=gaps)
            spoken = manifest.conversation
            commit = writer.checkpoint(
                id=manifest.id,
                manifest=encode(manifest),
                workspace=root,
                state=state,
                created_at=manifest.created_at,
                conversation=None if spoken is None else TreeId(tree=bytes.fromhex(spoken.tree)),
                progress=lists,
            )
            rows.append((manifest, commit.hex()))
        writer.publish(durable=True)
    finally:
        writer.abandon()
    return rows


def _record(
    engine: EngineReader, checkpoint: Checkpoint
) -> tuple[Manifest, Mapping[str, bytes], Mapping[str, bytes]]:
    """Return a checkpoint's record, state and lists: what the row says where the commit is damaged."""
    manifest = checkpoint.manifest
    lists = {name: items.oid for name, items in lists_in_parts(manifest.progress).items()}
    try:
        contents = engine.contents(bytes.fromhex(checkpoint.commit))
        return decode(contents.manifest), contents.state, {**contents.progress, **lists}
    except Damaged:
        return manifest, {name: bytes.fromhex(oid) for name, oid in manifest.state.items()}, lists


def _refuse_others(plan: PurgePlan, *, everywhere: bool) -> None:
    others = plan.others
    if others and not everywhere:
        shown = ", ".join(printable(one) for one in others[:_SHOWN])
        raise Conflict(
            f"other workspaces of the store hold some of it too: {shown}",
            hint="to take it out of those as well: --all-workspaces",
            details={"workspaces": list(others)},
        )


def _refuse_unlisted(context: Context, places: Places) -> None:
    """Refuse while a commit without a row holds some of it: nobody can tell whether somebody relies on it."""
    for commit in inventory(context).strangers:
        try:
            held = places.of(context.engine.contents(commit).workspace)
        except LastgoodError:
            continue
        if held:
            raise Conflict(
                "a checkpoint that is stored and not listed holds some of it",
                hint="list it, then purge again: lastgood verify --repair",
                details={"commit": commit.hex()},
            )
