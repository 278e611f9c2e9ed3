"""Proves every stored byte: checksums of files, ids of objects, and that nothing needed is missing."""

from __future__ import annotations

import fcntl
import os

from lastgood.errors import CROWDED, Damaged
from lastgood.objects import COMMIT, SUBTREE, commit_id, commit_tree
from lastgood.objects.consolidate import DERIVED_SUFFIXES, REMOVED, name_below, read_tags
from lastgood.objects.pack import PackFile
from lastgood.objects.repository import CONFIG, HEAD, set_suspects
from lastgood.objects.scan import entry_crc, pack_checksum, prove_object, walk_pack
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from lastgood.objects import Hasher
    from lastgood.objects.pack import IndexEntry
    from lastgood.objects.read import GitReader
    from lastgood.objects.repository import Layout


# --- Finds what commits need: every object below them, each with the end of its path ---


def reachable(reader: GitReader, commits: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return every object that commits reach, with a name; `Damaged` if one cannot be told."""
    names: dict[bytes, bytes] = {}
    reach(reader, commits, names)
    return names


def reach(reader: GitReader, commits: Iterable[bytes], names: dict[bytes, bytes]) -> None:
    """Add every object that commits reach; what is below a tree that has a name has one too."""
    for commit in commits:
        waiting = _top(reader, commit, names)
        while waiting:
            waiting += _below(reader, waiting.pop(), names)


def reach_further(reader: GitReader, commits: Iterable[bytes], names: dict[bytes, bytes]) -> None:
    """Add what damaged commits still reach, as far as it is stored.

    `Damaged` if something is there and cannot be read: what lies below it may be sound.
    """
    for commit in commits:
        if reader.missing((commit,)):
            continue
        found: dict[bytes, bytes] = {}
        waiting = _top(reader, commit, found)
        while waiting:
            tree = waiting.pop()
            if not reader.missing((tree,)):
                waiting += _below(reader, tree, found)
        lost = reader.missing(found)
        for oid, name in found.items():
            if oid not in lost:
                names.setdefault(oid, name)


def _top(reader: GitReader, commit: bytes, names: dict[bytes, bytes]) -> list[bytes]:
    content = reader.read_object(commit, kind=COMMIT)
    names[commit] = b""
    try:
        tree = commit_tree(content)
    except ValueError as error:
        raise Damaged(f"commit {commit.hex()}: {error}", hint="run `lastgood verify`") from error
    names.setdefault(tree, b"")
    return [tree]


def _below(reader: GitReader, tree: bytes, names: dict[bytes, bytes]) -> list[bytes]:
    """Name what a tree holds, and return those of its subtrees that had no name yet."""
    fresh = []
    for mode, name, oid in reader.tree_rows(tree):
        if mode == SUBTREE and oid not in names:
            fresh.append(oid)
        names.setdefault(oid, name_below(names[tree], name))
    return fresh


def checkpoint_commits(reader: GitReader, besides: Collection[bytes] = ()) -> Iterator[bytes]:
    """Yield every checkpoint commit that can be read, once, but for those that are known."""
    seen = set(besides)
    for pack in list(reader.stored.all()):
        try:
            reader.stored.opened(pack)
            found = [
                oid for oid, _, offset in pack.index.entries() if oid not in seen and _is_commit(pack, offset)
            ]
        except (OSError, ValueError):
            continue
        for oid in found:
            if oid not in seen and _is_checkpoint(reader, oid):
                seen.add(oid)
                yield oid


def _is_commit(pack: PackFile, offset: int) -> bool:
    try:
        return pack.kind(offset) == COMMIT
    except (OSError, ValueError):
        return False


def _is_checkpoint(reader: GitReader, oid: bytes) -> bool:
    try:
        commit_tree(reader.read_object(oid, kind=COMMIT))
    except (Damaged, ValueError):
        return False
    return True


# --- Proves every stored byte: checksums of files, ids of objects, and that nothing needed is missing ---

# Files that git may put into the folder of packs; none holds anything of its own.
_GITS_OWN = (*DERIVED_SUFFIXES, b".keep", b".promisor")
_NO_STRAYS = (*_GITS_OWN, REMOVED)
_PACK_DIGITS = 40


class GitFault(Value):
    """One thing wrong in the repository."""

    file: str
    oid: bytes | None
    reason: str
    mendable: bool
    left_over: bool = False


class PackState:
    """What became of one pack's two files."""

    __slots__ = ("bad", "entries", "idx_fault", "lone", "name", "pack_fault")

    def __init__(self, name: bytes) -> None:
        self.name: bytes = name
        self.lone: bool = False
        self.idx_fault: str = ""
        self.pack_fault: str = ""
        # The objects that it should hold, as far as can be told, and what is wrong with some.
        self.entries: list[IndexEntry] = []
        self.bad: dict[bytes, str] = {}

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.idx_fault or self.pack_fault or self.bad)


def check(layout: Layout, *, reader: GitReader, besides: Collection[bytes] = ()) -> Iterator[GitFault]:
    """Yield each fault of the repository; one bad file never hides the others.

    What the commits ``besides`` need may be gone: they are being freed, and a sweep did not come to its
    end. Packs that are damaged are remembered: no writer relies on what they hold.
    """
    for file, reason in top_faults(layout, reader):
        yield GitFault(file=file, oid=None, reason=reason, mendable=True)
    names, extra = pack_names(layout)
    for name in extra:
        reason = "it does not belong here"
        yield GitFault(file=shown(name), oid=None, reason=reason, mendable=True)
    states = [examine(layout, name, reader.hasher) for name in names]
    set_suspects(layout, (state.name for state in states if state.pack_fault or state.bad))
    stored = {oid for state in states for oid, _, _ in state.entries}
    sound = {oid for state in states for oid, _, _ in state.entries if oid not in state.bad}
    for state in states:
        yield from _pack_faults(state, sound)
    yield from _missing(reader, stored, besides)


def top_faults(layout: Layout, reader: GitReader) -> list[tuple[str, str]]:
    """Return what is wrong with the repository's own few files."""
    faults = []
    for name, content in (("config", CONFIG), ("HEAD", HEAD)):
        try:
            with open(layout.root + b"/" + name.encode(), "rb") as stream:
                if stream.read() != content:
                    faults.append((name, "it is not as it was written"))
        except OSError as error:
            faults.append((name, _reason(error)))
    tags = tags_fault(layout, reader)
    return [*faults, ("packed-refs", tags)] if tags else faults


def tags_fault(layout: Layout, reader: GitReader) -> str:
    """Return what is wrong with the tags, empty if nothing is."""
    try:
        wrong = right_tags(layout, reader) != read_tags(layout)
    except OSError as error:
        return _reason(error)
    except ValueError as error:
        return str(error)
    return "a tag is not that of its checkpoint" if wrong else ""


def right_tags(layout: Layout, reader: GitReader) -> dict[bytes, bytes]:
    """Return the tags that bear the name of their checkpoint, or one whose commit cannot be read; OSError."""
    try:
        tags = read_tags(layout)
    except ValueError:
        return {}
    return {name: commit for name, commit in tags.items() if _is_tag_of(reader, commit, name)}


def _is_tag_of(reader: GitReader, commit: bytes, name: bytes) -> bool:
    if reader.missing((commit,)):
        return False
    try:
        return commit_id(reader.read_object(commit, kind=COMMIT)) == name
    except Damaged:
        return True


def pack_names(layout: Layout) -> tuple[list[bytes], list[bytes]]:
    """Return the names of packs, whole or not, and of files that do not belong beside them.

    Packs that were to be removed are neither: what is left of one waits for a sweep (`removed_packs`).
    """
    names: set[bytes] = set()
    extra = []
    try:
        found = sorted(os.listdir(layout.packs))
    except FileNotFoundError:
        return [], []
    present = frozenset(found)
    for file in found:
        stem, suffix = os.path.splitext(file)
        is_pack = stem.startswith(b"pack-") and len(stem) == 5 + _PACK_DIGITS
        going = stem + REMOVED in present and stem + b".idx" not in present
        if is_pack and suffix in {b".pack", b".idx"}:
            if not going:
                names.add(stem)
        elif suffix not in _NO_STRAYS and not file.startswith(b"multi-pack-index"):
            extra.append(file)
    return sorted(names), extra


def is_lone(stem: bytes) -> bool:
    """Tell whether a pack has no index, and nobody who publishes it just now; OSError."""
    if os.path.lexists(stem + b".idx") or not os.path.lexists(stem + b".pack"):
        return False
    descriptor = os.open(stem + b".pack", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return not os.path.lexists(stem + b".idx")


def examine(layout: Layout, name: bytes, hasher: Hasher) -> PackState:
    """Prove one pack and its index."""
    state = PackState(name)
    pack = PackFile(layout.packs, name)
    try:
        checksum = pack_checksum(pack)
    except OSError as error:
        state.pack_fault = _reason(error)
        checksum = None
    else:
        state.pack_fault = "" if checksum else "its checksum is wrong"
    claimed = _claimed(pack, state, checksum)
    if state.idx_fault and checksum:
        state.entries, walked = walk_pack(pack, hasher)
        state.pack_fault = walked
    else:
        state.entries = claimed
        _prove(pack, state, hasher)
    pack.close()
    return state


def _claimed(pack: PackFile, state: PackState, checksum: bytes | None) -> list[IndexEntry]:
    """Return what the index says, noting what is wrong with it."""
    try:
        index = pack.index
        if not index.sound:
            state.idx_fault = "its checksum is wrong"
        elif checksum and index.pack_checksum != checksum:
            state.idx_fault = "it belongs to another pack"
        return index.entries()
    except OSError as error:
        state.lone = isinstance(error, FileNotFoundError)
        state.idx_fault = _reason(error)
    except ValueError as error:
        state.idx_fault = str(error)
    return []


def _prove(pack: PackFile, state: PackState, hasher: Hasher) -> None:
    order = sorted((offset, crc, oid) for oid, crc, offset in state.entries)
    try:
        last = pack.end
    except OSError as error:
        reason = _reason(error)
        state.bad = {oid: reason for _, _, oid in order}
        return
    for place, (offset, crc, oid) in enumerate(order):
        fault = prove_object(pack, offset, oid=oid, hasher=hasher)
        end = order[place + 1][0] if place + 1 < len(order) else last
        if not fault and not state.idx_fault and entry_crc(pack, offset, end) != crc:
            state.pack_fault = state.pack_fault or "an entry's CRC is wrong"
        if fault:
            state.bad[oid] = fault


def _pack_faults(state: PackState, sound: set[bytes]) -> Iterator[GitFault]:
    saved = state.bad.keys() <= sound
    name = shown(state.name)
    if state.idx_fault:
        whole = not state.pack_fault
        yield GitFault(
            file=name + ".idx",
            oid=None,
            reason=state.idx_fault,
            mendable=whole,
            left_over=state.lone and whole,
        )
    if state.pack_fault:
        told = bool(state.entries) and not state.idx_fault
        yield GitFault(file=name + ".pack", oid=None, reason=state.pack_fault, mendable=told and saved)
    for oid, reason in state.bad.items():
        yield GitFault(file=name + ".pack", oid=oid, reason=reason, mendable=oid in sound)


def _missing(reader: GitReader, stored: set[bytes], besides: Collection[bytes]) -> Iterator[GitFault]:
    seen: set[bytes] = set()
    reader.stored.refresh()
    for commit in filter(stored.__contains__, checkpoint_commits(reader, besides)):
        for oid, needed_by in _walk(reader, commit, seen):
            if oid not in stored:
                reason = f"{oid.hex()} is missing, and {needed_by.hex()} needs it"
                yield GitFault(file="objects", oid=oid, reason=reason, mendable=False)


def _walk(reader: GitReader, commit: bytes, seen: set[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield each object below a commit that was not seen before, with the one that names it."""
    waiting = [commit_tree(reader.read_object(commit, kind=COMMIT))]
    yield waiting[0], commit
    while waiting:
        tree = waiting.pop()
        if tree in seen:
            continue
        seen.add(tree)
        try:
            rows = reader.tree_rows(tree)
        except Damaged:
            continue
        for mode, _, oid in rows:
            if mode == SUBTREE:
                waiting.append(oid)
            if oid not in seen:
                yield oid, tree
            if mode != SUBTREE:
                seen.add(oid)


def _reason(error: OSError) -> str:
    """Return why a file cannot be read; where nothing can be opened, that is no fault of the file."""
    if error.errno in CROWDED:
        raise error
    return error.strerror or "it cannot be read"


def shown(name: bytes) -> str:
    """Return the name of a file for a person."""
    return name.decode("utf-8", "backslashreplace")
