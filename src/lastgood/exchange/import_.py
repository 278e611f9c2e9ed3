"""import: take in an export, proven whole before anything is added, all of it or nothing."""

from __future__ import annotations

from lastgood.catalogue import Arrival, Arrivals, Query, WorkspaceRow
from lastgood.errors import Conflict, Damaged, Storage, Unsafe
from lastgood.exchange.export import ObjectCopy, contradict, imported_plan_bytes, imported_plans
from lastgood.ids import short
from lastgood.model.checkpoint import decode
from lastgood.model.path_safety import is_no_name, link_fault
from lastgood.model.session import lists_in_parts, read_from
from lastgood.model.tree import LINK, TreeId
from lastgood.paths import printable, to_text
from lastgood.transaction import SaveTransaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lastgood.context import Context
    from lastgood.engine import CheckpointReader, ObjectWriter
    from lastgood.exchange.export import Spool
    from lastgood.model.checkpoint import Checkpoint, Manifest
    from lastgood.model.exchange import ExportedCheckpoint, Facts, Header
    from lastgood.model.session import Progress, Session
    from lastgood.model.tree import Entry

# How much more than the store may hold an export may be when it is unpacked, for reading once.
_INFLATED = 20
_LARGEST = 1 << 62
_AGAIN = "export again; nothing was imported"


def refuse_size(context: Context, header: Header) -> None:
    """Refuse what the store could not hold, before it is read."""
    limit = context.settings.limits.max_store_size
    size = max(header.pack.size, header.bounds.largest)
    if size > limit or header.bounds.total > _INFLATED * limit:
        raise _too_large(f"the export takes {size} bytes, and {header.bounds.total} unpacked", size, limit)


def _too_large(what: str, size: int, limit: int) -> Storage:
    return Storage(
        f"{what}: too much for a store that is limited to {limit}",
        hint="raise retention.max_store_size in the user's configuration",
        details={"size": size, "limit": limit},
    )


def take_in(
    context: Context,
    facts: Facts,
    *,
    source: Callable[[], CheckpointReader],
    spool: Spool,
) -> tuple[Arrivals, int]:
    """Add what is not known yet, and return it, and how many books; what is known stays as it is.

    ``source`` gives the objects of the export, proven. Raises `Damaged` for what is not what it
    says, and `Conflict` for a known id with other contents. What refuses the facts or the books refuses
    both; a kill between their two commits leaves the books out, which importing again adds.
    """
    _agree(facts)
    size, limit = imported_plan_bytes(facts), context.settings.limits.max_store_size
    if size > limit:
        raise _too_large(f"the plans of the export take {size} bytes", size, limit)
    context.ledgers.prove(facts.books)
    with SaveTransaction(context) as saving:
        fresh = [one for one in facts.checkpoints if not _is_known(context, one, source)]
        manifests: list[tuple[ExportedCheckpoint, Manifest]] = []
        if fresh:
            writer = saving.writer()
            try:
                manifests = _copy(source(), writer, fresh, facts, spool=spool)
                writer.publish(durable=context.settings.durability == "full")
            finally:
                writer.abandon()
        arrivals = _arrivals(context, facts, manifests)
        books, added = saving.ledgers.take_in(facts.books, beside=lambda: _add_facts(saving, arrivals))
    return added, books


def _add_facts(saving: SaveTransaction, arrivals: Arrivals) -> Arrivals:
    try:
        return saving.catalogue.take_in(arrivals)
    except (UnicodeError, OverflowError, RecursionError) as error:
        raise Damaged(f"the export has a fact that no catalogue can hold: {error}", hint=_AGAIN) from error


def _agree(facts: Facts) -> None:
    """Refuse facts that contradict each other."""
    ids = [one.id for one in facts.checkpoints]
    keys = [one.key for one in facts.workspaces]
    owned = (
        *(one.workspace_key for one in facts.sessions),
        *(one.workspace_key for one in facts.progress),
        *(one.workspace_key for one in facts.effects),
        *(one.workspace_key for one in facts.plans),
        *(one.workspace_key for one in facts.books),
    )
    books = [(one.workspace_key, one.space, one.name) for one in facts.books]
    fault = ""
    if any(len(set(names)) != len(names) for names in (ids, keys, books)):
        fault = "it names something twice"
    elif not set(owned) <= set(keys):
        fault = "it has facts of a workspace that it does not name"
    elif any(_is_nowhere(one.progress) for one in facts.progress):
        fault = "it has an artifact that is no path in a workspace"
    elif contradict(facts):
        fault = "it has a plan of a session that it does not name, or two"
    if fault:
        raise Damaged(f"the export contradicts itself: {fault}", hint=_AGAIN)


def _is_known(context: Context, one: ExportedCheckpoint, source: Callable[[], CheckpointReader]) -> bool:
    known = context.catalogue.get(one.id)
    if known is None:
        return False
    if known.commit != one.commit:
        arriving = decode(source().contents(bytes.fromhex(one.commit)).manifest)
        if _born(known) != (arriving.copy_of or one.commit):
            raise Conflict(
                f"{short(one.id)} is known here with other contents: the export is not from where it says",
                hint="nothing was imported",
                details={"id": one.id},
            )
    return True


def _born(checkpoint: Checkpoint) -> str:
    return checkpoint.manifest.copy_of or checkpoint.commit


def _copy(
    source: CheckpointReader,
    writer: ObjectWriter,
    fresh: list[ExportedCheckpoint],
    facts: Facts,
    *,
    spool: Spool,
) -> list[tuple[ExportedCheckpoint, Manifest]]:
    copying = ObjectCopy(source, writer, spool=spool, admit=lambda path, entry: _refuse(path, entry, source))
    keys = {row.key for row in facts.workspaces}
    taken = []
    for one in fresh:
        contents = source.contents(bytes.fromhex(one.commit))
        manifest = decode(contents.manifest)
        spoken = None if manifest.conversation is None else manifest.conversation.tree
        held = None if contents.conversation is None else contents.conversation.tree.hex()
        state = {name: oid.hex() for name, oid in contents.state.items()}
        lists = lists_in_parts(read_from(manifest.progress, lambda: source))
        if (
            manifest.id != one.id
            or manifest.workspace_key not in keys
            or (manifest.root.tree, manifest.root.modes)
            != (contents.workspace.tree.hex(), contents.workspace.modes.hex())
            or (spoken, dict(manifest.state)) != (held, state)
            or {name: items.oid for name, items in lists.items()} != dict(contents.progress)
            or not all(items.is_as_counted() for items in lists.values())
            or not _is_storable(manifest)
        ):
            raise Damaged(f"the record of {short(one.id)} is not that of its objects", hint=_AGAIN)
        copying.tree(contents.workspace)
        if contents.conversation is not None:
            copying.tree(contents.conversation)
        for tree in contents.progress.values():
            copying.tree(TreeId(tree=tree))
        for oid in contents.state.values():
            copying.blob(oid)
        commit = writer.checkpoint(
            id=one.id,
            manifest=contents.manifest,
            workspace=contents.workspace,
            state=contents.state,
            created_at=manifest.created_at,
            conversation=None if spoken is None else TreeId(tree=bytes.fromhex(spoken)),
            progress=contents.progress,
        )
        if commit.hex() != one.commit:
            raise Damaged(f"{short(one.id)} is not what it says", hint=_AGAIN)
        taken.append((one, manifest))
    return taken


def _refuse(path: bytes, entry: Entry, source: CheckpointReader) -> None:
    """Refuse what no file system could ever give back (rule T12); `Unsafe`."""
    fault = link_fault(entry.oid, source) if entry.kind == LINK else None
    if is_no_name(entry.name):
        fault = "is no name"
    if fault is not None:
        raise Unsafe(
            f"the export holds what nothing can restore: {printable(to_text(path))} {fault}",
            hint="it was not written by lastgood, or altered since; nothing was imported",
            details={"paths": [to_text(path)]},
        )


def _is_nowhere(progress: Progress) -> bool:
    """Tell whether progress names an artifact by what is no path in a workspace."""
    artifacts = (path for path in progress.position.artifacts if path)
    return any(is_no_name(name) for path in artifacts for name in path.split(b"/"))


def _is_storable(manifest: Manifest) -> bool:
    """Tell whether a catalogue can hold the facts of a manifest that are columns, and a disk its paths."""
    spoken = manifest.conversation
    if _is_nowhere(manifest.progress) or (spoken is not None and b"\0" in (spoken.source or b"")):
        return False
    texts = (manifest.session, manifest.task, manifest.previous, manifest.moment, manifest.name)
    if any("\ud800" <= character <= "\udfff" for text in texts if text for character in text):
        return False
    numbers = (manifest.created_at, manifest.progress.position.step or 0)
    return all(abs(number) < _LARGEST for number in numbers)


def _arrivals(context: Context, facts: Facts, taken: list[tuple[ExportedCheckpoint, Manifest]]) -> Arrivals:
    offsets = _offsets(context, facts, taken)
    return Arrivals(
        workspaces=tuple(
            WorkspaceRow(key=row.key, path=row.path, machine=row.machine, created_at=row.created_at)
            for row in facts.workspaces
        ),
        checkpoints=tuple(
            Arrival(
                manifest=manifest,
                commit=one.commit,
                sequence=one.sequence + offsets[manifest.workspace_key],
                name=one.name,
                pinned=one.pinned,
                good=one.good,
                check=one.check,
            )
            for one, manifest in taken
        ),
        sessions=tuple(_here(one) for one in facts.sessions),
        progress=tuple((one.key, one.workspace_key, one.progress) for one in facts.progress),
        effects=tuple(
            one.replace(after=one.after + offsets.get(one.workspace_key, 0)) for one in facts.effects
        ),
        runs=imported_plans(facts),
        revived=tuple(
            one.id
            for one in facts.checkpoints
            if (known := context.catalogue.get(one.id)) is not None and known.deleted_at is not None
        ),
    )


def _here(session: Session) -> Session:
    """Return a session as it counts here: the process that ran it is elsewhere, and may be dead.

    Its transcript is elsewhere too: what lies at that path here is another file, and none that the file
    which is imported may name to be taken in.
    """
    state = "incomplete" if session.state == "active" else session.state
    return session.replace(state=state, transcript=None)


def _offsets(
    context: Context, facts: Facts, taken: list[tuple[ExportedCheckpoint, Manifest]]
) -> Mapping[str, int]:
    """Return by how much the numbers of each workspace move, so that the order of its checkpoints stays.

    As before, where some of them are here; not at all, where their numbers are free; else to the end.
    """
    numbers = {one.id: one.sequence for one in facts.checkpoints}
    every = context.catalogue.find(Query(deleted=True))
    used = {one.sequence for one in every}
    end = max(used, default=0)
    offsets: dict[str, int] = {}
    for row in facts.workspaces:
        mine = [one for one in every if one.manifest.workspace_key == row.key]
        met = next((one.sequence - numbers[one.id] for one in mine if one.id in numbers), None)
        wanted = {one.sequence for one, manifest in taken if manifest.workspace_key == row.key}
        offset = 0 if met is None and not wanted & used else end if met is None else met
        offsets[row.key] = offset
        moved = {number + offset for number in wanted}
        used |= moved
        end = max(end, *moved) if moved else end
    return offsets
