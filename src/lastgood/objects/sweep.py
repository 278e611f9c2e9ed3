"""Frees what no live commit reaches."""

from __future__ import annotations

from lastgood.errors import Damaged, NoRoom, count
from lastgood.objects.check import reach, reach_further, reachable
from lastgood.objects.consolidate import (
    allotted_bytes,
    end_removals,
    keep_tags,
    newest_first,
    pack_bytes,
    remove_packs,
    removed_packs,
    small_packs,
    write_pack,
)
from lastgood.objects.pack import PackDraft, publish_draft
from lastgood.objects.repository import pieces, storage
from lastgood.objects.scan import prove_object
from lastgood.objects.write import Compressor, Deflater

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lastgood.objects.merge_text import Git
    from lastgood.objects.pack import PackFile
    from lastgood.objects.read import GitReader
    from lastgood.objects.repository import Layout

# Larger entries are copied as they lie in the pack.
_WHOLE_BYTES = 4 << 20


def sweep(
    layout: Layout, *, reader: GitReader, git: Git, live: Iterable[bytes], wounded: Iterable[bytes] = ()
) -> int:
    """Keep only what live commits reach and return the bytes freed.

    `Damaged` if one of them cannot be kept whole: then nothing is freed at all. Of ``wounded`` ones
    what is left is kept. `Storage` where the disk does not let a file go: the next sweep tries it again.
    """
    freed = _sweep(layout, reader=reader, git=git, live=live, wounded=wounded)
    return freed + end_removals(layout)


def _sweep(
    layout: Layout, *, reader: GitReader, git: Git, live: Iterable[bytes], wounded: Iterable[bytes]
) -> int:
    reader.stored.refresh()
    packs = list(reader.stored.all())
    commits = set(live)
    names = reachable(reader, newest_first(reader, commits))
    lost = reader.missing(names)
    if lost:
        raise _refusal(f"checkpoints need {count(len(lost), 'object')} that are missing", sorted(lost))
    reach_further(reader, set(wounded) - commits, names)
    dead, mixed = _sorted_packs(packs, names)
    if not dead and not mixed:
        return 0
    keep_tags(layout, {oid for oid in (*commits, *wounded) if oid in names})
    # These need no room for a new pack: a full disk gets some air first.
    freed = remove_packs(layout, dead, kept=b"")
    small = small_packs({pack: pack_bytes(layout, pack.name) for pack in mixed})
    waiting = mixed
    for some in (small, [pack for pack in mixed if pack not in small]):
        try:
            freed += _sweep_together(layout, some, names=names, reader=reader, git=git)
        except NoRoom:
            return _sweep_each(layout, waiting, names=names, reader=reader, git=git, freed=freed)
        waiting = [pack for pack in waiting if pack not in some]
    return max(freed, 0)


def _sweep_together(
    layout: Layout, packs: list[PackFile], *, names: dict[bytes, bytes], reader: GitReader, git: Git
) -> int:
    """Write what stays of packs anew as one, and return the bytes freed, fewer than none perhaps."""
    # All of it, also what wholly live packs hold too: those copies are not proven here.
    held = {oid for pack in packs for oid in pack.index.oids()}
    wanted = {oid: name for oid, name in names.items() if oid in held}
    size = sum(pack_bytes(layout, pack.name) for pack in packs)
    kept = _write(layout, wanted, reader=reader, git=git, size=size) if wanted else b""
    freed = remove_packs(layout, packs, kept=kept) if packs else 0
    reader.stored.refresh()
    return freed - pack_bytes(layout, kept) if kept else freed


def _sweep_each(
    layout: Layout,
    mixed: list[PackFile],
    *,
    names: dict[bytes, bytes],
    reader: GitReader,
    git: Git,
    freed: int,
) -> int:
    """Write packs anew one by one on a disk that has no room for all, and return the bytes freed.

    Of which the least stays comes first: each makes room for the next. `NoRoom` says what has to wait.
    """
    stays = {pack: _live_bytes(reader, pack, names) for pack in mixed}
    waiting = sorted(mixed, key=lambda pack: stays[pack])
    written: set[bytes] = set()
    while waiting:
        pack = waiting[0]
        wanted = {oid: names[oid] for oid in pack.index.oids() if oid in names and oid not in written}
        kept = b""
        try:
            if wanted:
                kept = _write(layout, wanted, reader=reader, git=git, size=stays[pack])
        except NoRoom as error:
            idle = sum(pack_bytes(layout, one.name) - stays[one] for one in waiting)
            raise _unfinished(error, freed=freed, idle=idle, needs=stays[pack]) from error
        written.update(wanted)
        freed += remove_packs(layout, [pack], kept=kept) - pack_bytes(layout, kept)
        del waiting[0]
        reader.stored.refresh()
    return max(freed, 0)


def _live_bytes(reader: GitReader, pack: PackFile, names: dict[bytes, bytes]) -> int:
    """Return how many bytes of a pack are of objects that stay."""
    reader.stored.opened(pack)
    return sum(size for oid, size in _sizes(pack) if oid in names)


def _sizes(pack: PackFile) -> Iterator[tuple[bytes, int]]:
    """Yield the objects of an open pack, each with what its entry takes; OSError, ValueError."""
    end = pack.end
    for offset, oid in sorted(((at, oid) for oid, _, at in pack.index.entries()), reverse=True):
        yield oid, end - offset
        end = offset


def _unfinished(error: NoRoom, *, freed: int, idle: int, needs: int) -> NoRoom:
    freed = max(freed, 0)  # what was written anew may take more than what it replaced
    return NoRoom(
        f"{error.message}; {freed:,} bytes were freed, and about {idle:,} more can be when what stays"
        f" of their packs has been written anew, which takes {needs:,} bytes of room",
        hint="make that much room on the disk, then: lastgood maintain",
        details={**error.details, "freed_bytes": freed, "waiting_bytes": idle, "needed_bytes": needs},
    )


def unreached_bytes(
    layout: Layout, *, reader: GitReader, live: Iterable[bytes], wounded: Iterable[bytes] = ()
) -> int:
    """Return how many bytes of the packs no live commit reaches; `Damaged` if that cannot be told."""
    reader.stored.refresh()
    commits = set(live)
    names = reachable(reader, commits)
    reach_further(reader, set(wounded) - commits, names)
    left = sum(allotted_bytes(layout.packs + b"/" + name) for name in removed_packs(layout))
    return left + _bytes_of(reader, lambda oid: oid not in names)


def needed_bytes(
    reader: GitReader,
    *,
    commits: Iterable[bytes],
    live: Iterable[bytes],
    wounded: Iterable[bytes],
    hurt: Iterable[bytes],
) -> int:
    """Return how many bytes only some commits, sound and damaged, reach; `Damaged` if it cannot be told."""
    reader.stored.refresh()
    kept, going = set(live), set(commits)
    names = reachable(reader, kept)
    reach_further(reader, set(wounded) - kept, names)
    others = frozenset(names)
    reach(reader, going - kept, names)
    reach_further(reader, set(hurt) - kept - going, names)
    return _bytes_of(reader, lambda oid: oid in names and oid not in others)


def _bytes_of(reader: GitReader, counts: Callable[[bytes], bool]) -> int:
    """Add up what the objects that count take in every pack that has them; a whole pack takes its blocks."""
    total = 0
    for pack in list(reader.stored.all()):
        reader.stored.opened(pack)
        try:
            sizes = list(_sizes(pack))
            counted = sum(size for oid, size in sizes if counts(oid))
            whole = counted and all(counts(oid) for oid, _ in sizes)
            total += allotted_bytes(pack.path) if whole else counted
        except (OSError, ValueError) as error:
            raise _refusal(f"{pack.name.decode()}: {error}", []) from error
    return total


def _write(layout: Layout, wanted: dict[bytes, bytes], *, reader: GitReader, git: Git, size: int) -> bytes:
    if git.found:
        try:
            return write_pack(layout, git, names=wanted, size=size)
        except Damaged:
            # Git gives up on the first bad copy of an object; there may be a good one.
            return _copy_pack(layout, reader, wanted)
    return _copy_pack(layout, reader, wanted)


def _sorted_packs(packs: list[PackFile], names: dict[bytes, bytes]) -> tuple[list[PackFile], list[PackFile]]:
    """Return the packs of which nothing is live, and those of which only something is."""
    dead: list[PackFile] = []
    mixed: list[PackFile] = []
    for pack in packs:
        try:
            pack.index.demand_sound()
            fits = pack.index_fits
        except (OSError, ValueError) as error:
            raise _refusal(f"{pack.name.decode()}: {error}", []) from error
        if not fits:  # then nobody can tell what would be freed with it
            raise _refusal(f"{pack.name.decode()}: its index is that of another pack", [])
        live = sum(oid in names for oid in pack.index.oids())
        if live < pack.index.count:
            (mixed if live else dead).append(pack)
    return dead, mixed


def _copy_pack(layout: Layout, reader: GitReader, names: Iterable[bytes]) -> bytes:
    """Publish a pack of some objects without git, each proven on the way in and again in the new pack."""
    draft = PackDraft(layout.temporary)
    deflater = Deflater(draft, Compressor())
    try:
        for oid in names:
            _copy_object(reader, oid, draft=draft, deflater=deflater)
        deflater.drain()
        name = publish_draft(draft, layout, durable=True)
    except OSError as error:
        raise storage(error, doing="sweeping", at=layout.root) from error
    finally:
        deflater.stop()
        draft.discard()
    reader.stored.refresh()
    new = next(pack for pack in reader.stored.all() if pack.name == name)
    for oid in names:
        fault = prove_object(new, new.index.find(oid), oid=oid, hasher=reader.hasher)
        if fault:
            raise _refusal(f"the new pack is wrong ({fault}); the old ones stay", [oid])
    return name


def _copy_object(reader: GitReader, oid: bytes, *, draft: PackDraft, deflater: Deflater) -> None:
    fault = "nothing stored has this id"
    for pack, offset in reader.stored.find(oid):
        reader.stored.opened(pack)
        fault = prove_object(pack, offset, oid=oid, hasher=reader.hasher)
        if fault:
            continue
        if pack.stream(offset) is None or pack.kind_and_size(offset)[1] < _WHOLE_BYTES:
            kind, content = pack.read(offset)
            deflater.add(kind, oid, content)
            return
        deflater.drain()
        crc, start = next((crc, at) for row, crc, at in pack.index.entries() if row == oid)
        end = min((at for _, _, at in pack.index.entries() if at > start), default=pack.end)
        draft.entries.append((oid, crc, draft.size))
        for piece in pieces(pack.descriptor, start=start, end=end):
            draft.add_piece(piece)
        return
    raise _refusal(f"object {oid.hex()}: {fault}", [oid])


def _refusal(reason: str, oids: list[bytes]) -> Damaged:
    return Damaged(
        f"nothing was freed: {reason}",
        hint="run `lastgood verify --repair`",
        details={"objects": [oid.hex() for oid in oids[:10]]},
    )
