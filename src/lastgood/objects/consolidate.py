"""Joins packs, with git's deltas, dropping nothing.

Among objects of one name and one size (the versions of a folder) git looks at those that come next to each
other in what it is fed. In the order of their ids each meets some other version, in the order of time the
one before it (measured: 1,000 saves of 10 files took 17.4 MB by ids, and 13.2 by time).

Git sorts what it packs by a hash of the last sixteen characters that are not white space, and looks for
deltas among neighbours. By a file's name alone the versions of all folders called ``src`` mix, and
most find none (measured: 1,000 saves took 20.8 MB so, and 13.1 by path, in half the time).
"""

from __future__ import annotations

import os
from contextlib import suppress

from lastgood.errors import Damaged, NoRoom, count
from lastgood.files import unlink_quietly
from lastgood.objects import COMMIT, TREE, commit_time, commit_tree
from lastgood.objects.pack import Index, publish_files
from lastgood.objects.repository import (
    TemporaryFolder,
    replace_top_file,
    storage,
    suspect_packs,
    sync_directory,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from lastgood.literals import Consolidation
    from lastgood.objects.merge_text import Git
    from lastgood.objects.pack import PackFile
    from lastgood.objects.read import GitReader
    from lastgood.objects.repository import Layout


# --- Names by which git looks for similar objects: the ends of their paths (git-pack-objects(1)) ---

_LENGTH = 32


def name_below(parent: bytes, name: bytes) -> bytes:
    """Return the end of the path of what a tree holds, by the end of the tree's own path."""
    return (parent + b"/" + name)[-_LENGTH:] if parent else name[-_LENGTH:]


# --- The order and the names by which git finds good deltas: the newest first, each with the end of its
# path ---


def newest_first(reader: GitReader, commits: Iterable[bytes]) -> list[bytes]:
    """Return commits by their time, those of one second in the order given; `Damaged`."""
    return sorted(commits, key=lambda commit: -commit_time(reader.read_object(commit, kind=COMMIT)))


def arranged(reader: GitReader, packs: Sequence[PackFile]) -> dict[bytes, bytes]:
    """Return all objects of some packs, each with a name, in the best order; `Damaged`."""
    kinds: dict[bytes, int] = {}
    for pack in packs:
        reader.stored.opened(pack)
        _add_kinds(pack, kinds)
    names: dict[bytes, bytes] = {}
    for commit in newest_first(reader, (oid for oid, kind in kinds.items() if kind == COMMIT)):
        names[commit] = b""
        try:
            tree = commit_tree(reader.read_object(commit, kind=COMMIT))
        except ValueError:
            continue  # none of ours; it stays all the same
        _walk(reader, tree, names, kinds=kinds)
    for oid, kind in kinds.items():
        if kind == TREE:  # what a save stored anew without making a checkpoint
            _walk(reader, oid, names, kinds=kinds)
    return names | {oid: b"" for oid in kinds if oid not in names}


def _add_kinds(pack: PackFile, kinds: dict[bytes, int]) -> None:
    try:
        pack.index.demand_sound()
        for oid, _, offset in sorted(pack.index.entries(), key=lambda row: row[2]):
            if oid not in kinds:
                kinds[oid] = pack.kind(offset)
    except (OSError, ValueError) as error:
        raise Damaged(
            f"{pack.name.decode()} cannot be joined with others: {error}",
            hint="run `lastgood verify --repair`",
        ) from error


def _walk(reader: GitReader, top: bytes, names: dict[bytes, bytes], *, kinds: Mapping[bytes, int]) -> None:
    """Name a tree and what it holds of the objects that are asked for."""
    if top in names or top not in kinds:
        return
    names[top] = b""
    waiting = [top]
    while waiting:
        tree = waiting.pop()
        for _, name, below in reader.tree_rows(tree):
            kind = kinds.get(below)
            if kind is None or below in names:
                continue
            names[below] = name_below(names[tree], name)
            if kind == TREE:
                waiting.append(below)


# --- Writes all objects that are to stay into one new pack, and only then lets go of the old packs ---

# What git may have put beside a pack; all of it is derived from the pack.
DERIVED_SUFFIXES = (b".rev", b".bitmap", b".mtimes")
# What the index of a pack is called from the moment that the pack is to go.
REMOVED = b".removed"
_DERIVED = (b"/objects/pack/multi-pack-index", b"/objects/info/commit-graph", b"/objects/info/packs")
_NAME_BYTES = 64
_BLOCK = 512  # what st_blocks counts in
# Up to here git looks for deltas among all objects anew and compresses them well (a few seconds, nobody
# waits); of more it keeps what it found before.
_AFRESH_BYTES = 64 << 20
# In packs of up to so many bytes much may lie as it is (`write.py`).
_SMALL_BYTES = 1 << 20


def write_pack(layout: Layout, git: Git, *, names: Mapping[bytes, bytes], size: int) -> bytes:
    """Publish one durable pack of the objects named, have git prove each, and return the pack's name.

    ``names`` gives for each object id, the newest first, a file name by which git finds similar ones;
    ``size`` is about how many bytes these take now.
    """
    try:
        folder = TemporaryFolder(layout.temporary)
    except OSError as error:
        raise storage(error, doing="joining packs", at=layout.root) from error
    try:
        return _write_pack(layout, git, folder=folder, names=names, afresh=size <= _AFRESH_BYTES)
    except OSError as error:
        raise storage(error, doing="joining packs", at=layout.root) from error
    finally:
        folder.discard()


def _write_pack(
    layout: Layout, git: Git, *, folder: TemporaryFolder, names: Mapping[bytes, bytes], afresh: bool
) -> bytes:
    path = folder.path + b"/new.pack"
    output = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        lines = (
            b"%b %b\n" % (oid.hex().encode(), name[-_NAME_BYTES:].replace(b"\n", b" "))
            for oid, name in names.items()
        )
        effort = (b"--no-reuse-object",) if afresh else ()
        order = (b"pack-objects", b"-q", b"--delta-base-offset", *effort, b"--stdout")
        git.run(order, feed=lines, output=output)
    finally:
        os.close(output)
    checksum = git.run((b"index-pack", b"-o", folder.path + b"/new.idx", path)).strip()
    index = Index.open(folder.path + b"/new.idx")
    lost = names.keys() - set(index.oids())
    index.close()
    if lost:
        raise Damaged(
            f"git left out {count(len(lost), 'object')} of a new pack; the old packs stay",
            hint="run `lastgood verify`",
            details={"objects": sorted(oid.hex() for oid in lost)[:10]},
        )
    name = b"pack-" + checksum[-40:]
    return publish_files(folder.adopt(b"new.pack"), folder.adopt(b"new.idx"), layout, name=name, durable=True)


def small_packs(sizes: Mapping[PackFile, int]) -> list[PackFile]:
    """Return of some packs those to be written anew before the others: in these much may be uncompressed.

    None where git compresses all of them anew; else it would keep that as it is.
    """
    room = _AFRESH_BYTES
    if sum(sizes.values()) <= room:
        return []
    found = []
    for pack, size in sorted(sizes.items(), key=lambda row: row[1]):
        room -= size
        if size > _SMALL_BYTES or room < 0:
            break
        found.append(pack)
    return found


def pack_bytes(layout: Layout, name: bytes) -> int:
    """Return the size of a pack and its index."""
    return sum(found.st_size for found in _stats(layout.packs + b"/" + name))


def allotted_bytes(path: bytes) -> int:
    """Return what the disk gives a pack and its index; the path has no suffix."""
    return sum(found.st_blocks * _BLOCK for found in _stats(path))


def _stats(path: bytes) -> Iterator[os.stat_result]:
    for suffix in (b".pack", b".idx"):
        with suppress(OSError):
            yield os.stat(path + suffix)


def remove_packs(layout: Layout, packs: Sequence[PackFile], *, kept: bytes) -> int:
    """Delete packs whose objects are all in the pack ``kept``, and return their bytes.

    All indexes become marks first: from then on nobody sees any of these packs, nor takes what is left of
    one for a publication that was cut short, whatever becomes of its file. `end_removals` tries it again.
    """
    freed = 0
    for derived in _DERIVED:
        unlink_quietly(layout.root + derived)
    going = [pack for pack in packs if pack.name != kept]
    for pack in going:
        freed += pack_bytes(layout, pack.name)
        _hide(layout, pack.path)
    for pack in going:
        _unlink_derived(layout, pack.name)
        unlink_quietly(pack.path + b".pack")
    try:
        _drop_marks(layout, [pack.name for pack in going])
    except OSError as error:
        raise storage(error, doing="removing old packs", at=layout.root) from error
    return freed


def removed_packs(layout: Layout) -> list[bytes]:
    """Return the names of packs that were to be removed and of which something is left; `Storage`."""
    # One with an index was published anew since.
    return [name for name in _marks(layout) if not os.path.lexists(layout.packs + b"/" + name + b".idx")]


def _marks(layout: Layout) -> list[bytes]:
    try:
        files = sorted(os.listdir(layout.packs))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise storage(error, doing="reading the object store", at=layout.packs) from error
    return [file.removesuffix(REMOVED) for file in files if file.endswith(REMOVED)]


def end_removals(layout: Layout) -> int:
    """Delete what is left of packs that were to be removed, and return the bytes; `Storage` where it stays.

    The caller holds the store alone: nobody publishes a pack of the same name meanwhile.
    """
    marks, going = _marks(layout), removed_packs(layout)
    freed = sum(pack_bytes(layout, name) for name in going)
    try:
        for name in going:
            _unlink_derived(layout, name)
            with suppress(FileNotFoundError):
                os.unlink(layout.packs + b"/" + name + b".pack")
        if marks:
            _drop_marks(layout, marks)
    except OSError as error:
        raise storage(error, doing="removing old packs", at=layout.root) from error
    return freed


def _hide(layout: Layout, stem: bytes) -> None:
    """Make an index a mark, or leave its pack alone: an index without a pack would promise what is gone."""
    try:
        os.rename(stem + b".idx", stem + REMOVED)
    except FileNotFoundError:
        return
    except OSError as error:
        raise storage(error, doing="removing old packs", at=layout.root) from error


def _unlink_derived(layout: Layout, name: bytes) -> None:
    for suffix in DERIVED_SUFFIXES:
        unlink_quietly(layout.packs + b"/" + name + suffix)
    unlink_quietly(layout.unsynced + b"/" + name)


def _drop_marks(layout: Layout, names: Iterable[bytes]) -> None:
    """Drop the marks of packs that are gone for good, and of those published anew since; OSError."""
    sync_directory(layout.packs)
    for name in names:
        stem = layout.packs + b"/" + name
        if os.path.lexists(stem + b".idx") or not os.path.lexists(stem + b".pack"):
            unlink_quietly(stem + REMOVED)


# --- Joins packs, with git's deltas, dropping nothing ---

# A pack this many times as large as all smaller ones together is left as it is: to write it again for
# the few that came since would cost each save as much as the whole store has grown to.
_FACTOR = 3
# While nobody works, and what there is can be written anew within seconds, it may take a little more than it
# would as one pack.
_FACTOR_WHEN_IDLE = 10


def consolidate(layout: Layout, *, reader: GitReader, git: Git, extent: Consolidation = "all") -> bool:
    """Join packs into one, all or those that it is time for, but none that is doubted.

    False if there is nothing to do or no git; `Damaged`, `Storage`.
    """
    reader.stored.refresh()
    wrong = suspect_packs(layout)
    sizes = {pack: pack_bytes(layout, pack.name) for pack in reader.stored.all() if pack.name not in wrong}
    packs = list(sizes) if extent == "all" else _due(sizes, factor=_factor(sizes, extent))
    if len(packs) < 2 or not git.found:
        return False
    small = small_packs({pack: sizes[pack] for pack in packs})
    if small:
        made = _join(layout, small, reader=reader, git=git)
        others = [pack for pack in packs if pack not in small]
        packs = [pack for pack in reader.stored.all() if pack in others or pack.name == made]
    _join(layout, packs, reader=reader, git=git)
    return True


def _join(layout: Layout, packs: Sequence[PackFile], *, reader: GitReader, git: Git) -> bytes:
    """Write the objects of packs into one, let go of these, and return its name."""
    size = sum(pack_bytes(layout, pack.name) for pack in packs)
    kept = write_pack(layout, git, names=arranged(reader, packs), size=size)
    remove_packs(layout, packs, kept=kept)
    reader.stored.refresh()
    return kept


def _factor(sizes: dict[PackFile, int], extent: Consolidation) -> int:
    is_soon_done = sum(sizes.values()) <= _AFRESH_BYTES
    return _FACTOR_WHEN_IDLE if extent == "idle" and is_soon_done else _FACTOR


def _due(sizes: dict[PackFile, int], *, factor: int) -> list[PackFile]:
    """Return the packs without those that outweigh all smaller ones, newest first."""
    left = sum(sizes.values())
    due = set(sizes)
    for pack, size in sorted(sizes.items(), key=lambda row: -row[1]):
        left -= size
        if size < factor * left:
            break
        due.discard(pack)
    return [pack for pack in sizes if pack in due]


# --- A tag for each checkpoint, all in ``packed-refs``: a convenience for people with git, never read by us
# ---

_FILE = b"packed-refs"
_FIRST_LINE = b"# pack-refs with: peeled fully-peeled sorted \n"
_PREFIX = b"refs/tags/"


def encode_tags(tags: Mapping[bytes, bytes]) -> bytes:
    """Return the file for tags: names to commits."""
    lines = [b"%b %b%b\n" % (tags[name].hex().encode(), _PREFIX, name) for name in sorted(tags)]
    return _FIRST_LINE + b"".join(lines)


def decode_tags(content: bytes) -> dict[bytes, bytes]:
    """Return the tags in a file; ValueError when it holds anything else."""
    tags: dict[bytes, bytes] = {}
    for line in content.splitlines():
        if line.startswith((b"#", b"^")):
            continue
        digits, _, name = line.partition(b" ")
        if len(digits) != 40 or not name.startswith(_PREFIX):
            raise ValueError("a line is no tag")
        tags[name[len(_PREFIX) :]] = bytes.fromhex(digits.decode("ascii"))
    return tags


def read_tags(layout: Layout) -> dict[bytes, bytes]:
    """Return the tags there are; OSError, and ValueError when the file is damaged."""
    try:
        descriptor = os.open(layout.root + b"/" + _FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    with open(descriptor, "rb") as stream:
        return decode_tags(stream.read())


def write_tags(layout: Layout, tags: Mapping[bytes, bytes]) -> None:
    """Make the tags exactly these, durably; `Storage`."""
    try:
        if _same(layout, tags):
            return
        replace_top_file(layout, _FILE, encode_tags(tags))
    except OSError as error:
        raise storage(error, doing="writing the tags", at=layout.root) from error


def keep_tags(layout: Layout, live: Container[bytes]) -> None:
    """Drop the tags of commits that are about to be freed; a damaged file is dropped whole; `Storage`."""
    try:
        tags = read_tags(layout)
    except ValueError:
        tags = {b"": b""}
    except OSError as error:
        raise storage(error, doing="reading the tags", at=layout.root) from error
    kept = {name: commit for name, commit in tags.items() if commit in live}
    if kept == tags:
        return
    try:
        write_tags(layout, kept)
    except NoRoom:  # then there are none until maintenance writes them again
        _drop(layout)


def _drop(layout: Layout) -> None:
    try:
        os.unlink(layout.root + b"/" + _FILE)
        sync_directory(layout.root)
    except OSError as error:
        raise storage(error, doing="removing the tags", at=layout.root) from error


def _same(layout: Layout, tags: Mapping[bytes, bytes]) -> bool:
    try:
        return read_tags(layout) == tags and os.path.lexists(layout.root + b"/" + _FILE)
    except ValueError:
        return False
