"""Mends what can be mended, and sets damaged files aside: none is ever deleted."""

from __future__ import annotations

import os
import re
from contextlib import nullcontext

from lastgood.errors import Damaged, Storage, count
from lastgood.files import write_whole
from lastgood.objects import BLOB, COMMIT, KIND_NAMES, SUBTREE, TREE, commit_tree, decode_tree
from lastgood.objects.check import (
    PackState,
    checkpoint_commits,
    examine,
    is_lone,
    pack_names,
    right_tags,
    shown,
    tags_fault,
    top_faults,
)
from lastgood.objects.consolidate import encode_tags, removed_packs
from lastgood.objects.pack import Index, PackFile, encode_index, sync_unsynced
from lastgood.objects.repository import (
    CONFIG,
    HEAD,
    TemporaryFile,
    add_suspects,
    clear_suspect,
    ensure_folder,
    pieces,
    replace_top_file,
    storage,
    suspect_packs,
    sync,
    sync_directory,
)
from lastgood.objects.scan import end_of_entry, object_at, pack_checksum, prove_object, walk_pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from lastgood.engine import Hold, Holds
    from lastgood.objects import Hasher
    from lastgood.objects.pack import IndexEntry
    from lastgood.objects.read import GitReader
    from lastgood.objects.repository import Layout
    from lastgood.objects.write import GitWriter


# --- Looks in packs that were set aside for what checkpoints miss: earlier releases moved sound ones there
# ---

# What came under a name that was taken has a number behind it.
_PACK = re.compile(rb"(.+)\.pack(\.\d+)?", re.DOTALL)


class PackAside(PackFile):
    """A pack that was set aside, with the index that was set aside with it."""

    __slots__ = ("_file",)

    def __init__(self, folder: bytes, file: bytes) -> None:
        super().__init__(folder, file)
        self._file = folder + b"/" + file

    @property
    def descriptor(self) -> int:
        """The open pack."""
        if self._descriptor < 0:
            self._descriptor = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        return self._descriptor

    def claimed(self) -> list[IndexEntry]:
        """Return what the index says that was set aside with it, as far as it can be read."""
        try:
            return Index.open(_PACK.sub(rb"\1.idx\2", self._file)).entries()
        except (OSError, ValueError):
            return []


def find_missed(
    packs: Iterable[PackAside],
    *,
    reader: GitReader,
    commits: Iterable[bytes],
    sound: Collection[bytes],
) -> list[tuple[PackFile, int]]:
    """Return where in packs that nobody reads those objects lie, proven, that commits miss.

    ``sound`` are the objects of which the store has a proven copy.
    """
    found: list[tuple[PackFile, int]] = []
    aside = _Aside(packs, reader)
    waiting = [(commit, COMMIT) for commit in commits]
    seen: set[bytes] = set()
    while waiting:
        oid, kind = waiting.pop()
        if oid in seen:
            continue
        seen.add(oid)
        try:
            if oid not in sound:
                found.append(aside.place(oid))
            if kind != BLOB:
                content = reader.read_object(oid, kind=kind) if oid in sound else aside.read(oid)
                waiting += _below(content, kind)
        except (Damaged, LookupError, OSError, ValueError):
            continue  # it is lost, as the proof tells
    return found


def _below(content: bytes, kind: int) -> list[tuple[bytes, int]]:
    if kind == COMMIT:
        return [(commit_tree(content), TREE)]
    return [(oid, TREE if mode == SUBTREE else BLOB) for mode, _, oid in decode_tree(content)]


class _Aside:
    """Packs that nobody reads; they are opened when the first object is asked for."""

    def __init__(self, packs: Iterable[PackAside], reader: GitReader) -> None:
        self._packs = packs
        self._hasher = reader.hasher
        self._places: dict[bytes, list[tuple[PackFile, int]]] | None = None

    def place(self, oid: bytes) -> tuple[PackFile, int]:
        """Return where an object lies sound; LookupError."""
        if self._places is None:
            self._places = {}
            for one in self._packs:
                self._add(one, self._places)
        for pack, offset in self._places.get(oid, ()):
            if not prove_object(pack, offset, oid=oid, hasher=self._hasher):
                return pack, offset
        raise LookupError

    def read(self, oid: bytes) -> bytes:
        """Return an object's content; LookupError, OSError, ValueError."""
        pack, offset = self.place(oid)
        return pack.read(offset)[1]

    def _add(self, pack: PackAside, places: dict[bytes, list[tuple[PackFile, int]]]) -> None:
        try:
            entries, _ = walk_pack(pack, self._hasher)
        except OSError:
            return
        walked = {oid for oid, _, _ in entries}
        # What lies behind a fault no walk finds; whoever asks for it has it proven.
        entries += [row for row in pack.claimed() if row[0] not in walked]
        pack.use_entries(entries)
        for oid, _, offset in entries:
            places.setdefault(oid, []).append((pack, offset))


def unread_packs(layout: Layout) -> list[PackAside]:
    """Return the packs that were set aside, and those left that a sweep was to remove; OSError."""
    try:
        files = sorted(os.listdir(layout.damaged))
    except FileNotFoundError:
        files = []
    aside = [PackAside(layout.damaged, file) for file in files if _PACK.fullmatch(file)]
    return aside + [PackAside(layout.packs, name + b".pack") for name in removed_packs(layout)]


# --- Mends what can be mended, and sets damaged files aside: none is ever deleted ---

# How often a repair begins again because bytes were freed beside it, before it keeps everybody out.
_ATTEMPTS = 3
# Larger objects are copied as they lie in the pack.
_WHOLE_BYTES = 4 << 20
_BOTH = (b".idx", b".pack")
_TOP_FILES = {"config": CONFIG, "HEAD": HEAD}


def repair(
    layout: Layout,
    *,
    reader: GitReader,
    new_writer: Callable[[], GitWriter],
    holds: Holds | None = None,
    changing: Callable[[], None] | None = None,
    wanted: Collection[bytes] = (),
    besides: Collection[bytes] = (),
) -> list[str]:
    """Mend the repository and say what was done; `Storage`, and then nothing readable was moved.

    A damaged pack is set aside when every object that can be read in it is durable in another one,
    and that one was read again. All is read and written beside others, and the store is held alone only
    while files are moved. ``changing`` is called before what is there is changed, and once more then.
    What the commits ``wanted`` miss, and those stored that are not ``besides``, is looked for in what was
    set aside before.
    """
    shared, alone = holds or (nullcontext, nullcontext)
    try:
        work = _Repair(layout, reader, new_writer, changing or (lambda: None), (wanted, besides))
        if not any(work.attempt(shared, alone) for _ in range(_ATTEMPTS)):
            with alone():
                work.attempt(nullcontext, nullcontext)
        reader.stored.refresh()
        work.done += _mend_tags(layout, reader)
    except OSError as error:
        raise storage(error, doing="repairing the object store", at=layout.root) from error
    return work.done


class _Repair:
    """One repair of a repository, which may take several attempts."""

    def __init__(
        self,
        layout: Layout,
        reader: GitReader,
        new_writer: Callable[[], GitWriter],
        changing: Callable[[], None],
        commits: tuple[Collection[bytes], Collection[bytes]],
    ) -> None:
        self.done: list[str] = []
        self._layout = layout
        self._reader = reader
        self._new_writer = new_writer
        self._changing = changing
        self._wanted, self._besides = commits
        # The packs that were proven, and what they hold.
        self._proven: set[bytes] = set()
        self._sound: set[bytes] = set()

    def attempt(self, shared: Hold, alone: Hold) -> bool:
        """Mend what is wrong; False if what had been looked at was moved before it could be set aside."""
        with shared():
            rest, extra = self._look()
            if rest:
                sync_unsynced(self._layout)
            told = {state.name: self._save(state) for state in rest}
            self._retrieve()
            # Of a pack that is lost the new one may have the name.
            going = [name for name in told if name not in self._proven]
            files = [name + suffix for name in going for suffix in _BOTH]
            files += [file for file in extra if file not in files]
            relied = {name + suffix for name in self._proven for suffix in _BOTH}.union(files)
            before = _files(self._layout) if files else {}
        if files:
            with alone():
                now = _files(self._layout)
                if any(now.get(file) != before.get(file) for file in relied):
                    return False
                self._changing()
                _set_aside(self._layout, [file for file in files if file in now])
                gone = {mark for mark in suspect_packs(self._layout) if not self._is_there(mark)}
                add_suspects(self._layout, (), proven=gone)
        self.done += [told[name] for name in going]
        alien = [file for file in extra if os.path.splitext(file)[0] not in told]
        self.done += [f"{shown(file)} set aside: it does not belong there" for file in alien]
        return True

    def _is_there(self, name: bytes) -> bool:
        return os.path.lexists(self._layout.packs + b"/" + name + b".pack")

    def _look(self) -> tuple[list[PackState], list[bytes]]:
        """Prove everything and mend what needs no pack to be moved; return the packs and files that do."""
        layout, hasher = self._layout, self._reader.hasher
        top = top_faults(layout, self._reader)
        names, extra = pack_names(layout)
        states = [examine(layout, name, hasher) for name in names]
        broken = [one for one in states if not one.sound and not _is_coming(layout, one)]
        whole = [one for one in broken if one.idx_fault and not one.pack_fault and not one.bad]
        # Readers find what they need in packs of any name.
        strays = [examine(layout, name, hasher) for name in _stems(extra)]
        rest = [one for one in broken if one not in whole] + strays
        self._proven = {one.name for one in states if one.sound or one in whole}
        self._sound = {oid for one in states + strays for oid, _, _ in one.entries if oid not in one.bad}
        # Saves beside this store what they need of these packs anew, and believe no cache from before.
        add_suspects(layout, [one.name for one in rest], proven=self._proven)
        if top or extra or broken:
            self._changing()
        for name in [name for name, _ in top if name in _TOP_FILES]:
            replace_top_file(layout, name.encode(), _TOP_FILES[name])
            self.done.append(f"{name} written anew")
        # Indexes first: what they show again need not be saved out of damaged packs.
        self.done += [mend_index(layout, one) for one in whole]
        self._reader.stored.close()
        return rest, extra

    def _save(self, state: PackState) -> str:
        """Have the good objects of a damaged pack in others, and return what is to be told of it."""
        writer = self._writer()
        saved, made = save_out(self._layout, state, writer=writer, hasher=self._reader.hasher)
        self._trust(made)
        lost = f", {len(state.bad)} lost" if state.bad else ""
        return f"{shown(state.name)} set aside: {count(saved, 'object')} saved{lost}"

    def _retrieve(self) -> None:
        """Take back what checkpoints miss and what was set aside, or was to be removed, has."""
        packs = unread_packs(self._layout)
        if not packs:
            return
        self._reader.stored.refresh()
        commits = {*self._wanted, *checkpoint_commits(self._reader, self._besides)}
        found = find_missed(packs, reader=self._reader, commits=commits, sound=self._sound)
        if not found:
            return
        writer = self._writer()
        try:
            saved = sum(_save(writer, *place, hasher=self._reader.hasher) for place in found)
            writer.publish()
        finally:
            writer.abandon()
        if writer.published:
            self._trust(_demand_sound(self._layout, writer.published, self._reader.hasher))
        self.done.append(
            f"taken out of what was set aside before, for checkpoints missed it: {count(saved, 'object')}"
        )

    def _writer(self) -> GitWriter:
        """Begin a pack that takes everything of which no proven pack has a copy."""
        writer = self._new_writer()
        writer.distrust(frozenset(pack.name for pack in self._reader.stored.all()) - self._proven)
        return writer

    def _trust(self, made: PackState | None) -> None:
        if made is not None:
            self._proven.add(made.name)
            self._sound.update(oid for oid, _, _ in made.entries)


def _is_coming(layout: Layout, state: PackState) -> bool:
    """Tell whether a pack without an index is one that a save publishes just now."""
    try:
        return state.lone and not is_lone(layout.packs + b"/" + state.name)
    except OSError:  # a link, for one, which is nobody's
        return False


def _files(layout: Layout) -> dict[bytes, int]:
    """Return the files beside the packs, each with what tells it from another of its name."""
    with os.scandir(layout.packs) as entries:
        return {entry.name: entry.inode() for entry in entries}


def _mend_tags(layout: Layout, reader: GitReader) -> list[str]:
    """Leave those tags whose checkpoint is stored: packs that went may have held the others."""
    if not tags_fault(layout, reader):
        return []
    replace_top_file(layout, b"packed-refs", encode_tags(right_tags(layout, reader)))
    return ["packed-refs written anew"]


def _stems(files: list[bytes]) -> list[bytes]:
    """Return what packs and indexes are called that do not bear the names of packs."""
    return sorted({stem for stem, suffix in map(os.path.splitext, files) if suffix in {b".pack", b".idx"}})


def mend_index(layout: Layout, state: PackState) -> str:
    """Write the index of a whole pack anew, durably, and say so; OSError."""
    pack = PackFile(layout.packs, state.name)
    checksum = pack_checksum(pack)
    pack.close()
    assert checksum is not None
    file = TemporaryFile.create(layout.temporary, b".idx")
    try:
        write_whole(file.descriptor, encode_index(state.entries, pack_checksum=checksum))
        sync(file.descriptor)
        file.place(pack.path + b".idx")
        sync_directory(layout.packs)
    finally:
        file.discard()
    return f"{state.name.decode()}.idx rebuilt from its pack ({count(len(state.entries), 'object')})"


def save_out(
    layout: Layout, state: PackState, *, writer: GitWriter, hasher: Hasher
) -> tuple[int, PackState | None]:
    """Save the good objects of a damaged pack into a new one; return how many, and that one, if there is one.

    It never bears the name of the damaged one (`pack.vacant`), whatever bytes it has. OSError, `Storage`.
    """
    pack = PackFile(layout.packs, state.name)
    offsets = {offset for oid, _, offset in state.entries if oid not in state.bad}
    if os.path.lexists(pack.path + b".pack"):
        offsets.update(offset for _, _, offset in walk_pack(pack, hasher)[0])
    try:
        saved = sum(_save(writer, pack, offset, hasher=hasher) for offset in sorted(offsets))
        writer.publish()
    finally:
        writer.abandon()
        pack.close()
    return saved, _demand_sound(layout, writer.published, hasher) if writer.published else None


def _save(writer: GitWriter, pack: PackFile, offset: int, *, hasher: Hasher) -> int:
    try:
        (kind, size, _, _), _ = pack.header(offset)
        if kind in KIND_NAMES and size >= _WHOLE_BYTES:
            oid = object_at(pack, offset, hasher=hasher)
            end = end_of_entry(pack.descriptor, offset, max(pack.end, 0))
            content = None
        else:
            kind, content = pack.read(offset)
    except (OSError, ValueError):
        return 0
    if content is None:
        writer.take(oid, pieces(pack.descriptor, start=offset, end=end))
    else:
        writer.add(kind, content)
    return 1


def _demand_sound(layout: Layout, name: bytes, hasher: Hasher) -> PackState:
    """Return a new pack; refuse to go on where what was written is not what is read; OSError, `Storage`."""
    state = examine(layout, name, hasher)
    if not state.sound:
        raise Storage(
            f"the new pack {shown(name)} is not read as it was written; the damaged one stays",
            hint="check the disk, then run: lastgood verify --repair",
        )
    return state


def _set_aside(layout: Layout, files: list[bytes]) -> None:
    """Move files out of the folder of packs, under names that are free."""
    if not files:
        return
    ensure_folder(layout.damaged)
    for file in files:
        target = layout.damaged + b"/" + file
        number = 0
        while os.path.lexists(target):
            number += 1
            target = layout.damaged + b"/" + file + b".%d" % number
        os.rename(layout.packs + b"/" + file, target)
    sync_directory(layout.damaged)
    sync_directory(layout.packs)
    sync_directory(layout.root)


# --- Settles doubts: proves the packs that are doubted, object by object, and sets aside what none needs
# ---


def settle(layout: Layout, *, reader: GitReader, new_writer: Callable[[], GitWriter]) -> None:
    """Trust the doubted packs that prove sound, and set those aside of which nothing is lost; `Storage`.

    The others stay doubted, until somebody has them repaired who knows of the loss.
    """
    for name in sorted(suspect_packs(layout)):
        if not os.path.lexists(layout.packs + b"/" + name + b".pack"):
            clear_suspect(layout, name)
            continue
        state = examine(layout, name, reader.hasher)
        if state.sound:
            clear_suspect(layout, name)
        elif _is_dispensable(layout, state, reader):
            _salvage_and_set_aside(layout, state, reader=reader, writer=new_writer())
            clear_suspect(layout, name)


def _is_dispensable(layout: Layout, state: PackState, reader: GitReader) -> bool:
    """Tell whether each object that is wrong is sound elsewhere, or in the pack under another name."""
    if state.idx_fault:
        return False  # nobody can tell what the pack should hold
    pack = PackFile(layout.packs, state.name)
    found = {oid for oid, _, _ in walk_pack(pack, reader.hasher)[0]}
    pack.close()
    reader.stored.refresh()
    return all(oid in found or _is_elsewhere(oid, state.name, reader) for oid in state.bad)


def _is_elsewhere(oid: bytes, besides: bytes, reader: GitReader) -> bool:
    for pack, offset in reader.stored.find(oid):
        reader.stored.opened(pack)
        if pack.name != besides and not prove_object(pack, offset, oid=oid, hasher=reader.hasher):
            return True
    return False


def _salvage_and_set_aside(layout: Layout, state: PackState, *, reader: GitReader, writer: GitWriter) -> None:
    """Save what is sound in a pack, whatever other packs are said to hold, and move it out of the way."""
    writer.distrust(frozenset(pack.name for pack in reader.stored.all()))
    try:
        save_out(layout, state, writer=writer, hasher=reader.hasher)
        aside = [state.name + suffix for suffix in _BOTH if state.name != writer.published]
        _set_aside(layout, [file for file in aside if os.path.lexists(layout.packs + b"/" + file)])
    except OSError as error:
        raise storage(error, doing="setting wrong copies aside", at=layout.root) from error
    finally:
        writer.abandon()
    reader.stored.refresh()


# --- Packs without an index: of a publication that runs just now, or that was cut short ---


def index_lone_packs(layout: Layout, *, hasher: Hasher) -> int:
    """Give whole packs whose writer is gone their index, and return how many; `Storage`.

    Nobody counts on the objects of a publication that was cut short; with an index they are seen,
    so that a sweep frees them and no proof is troubled. Damaged ones are left to `repair`.
    """
    try:
        names = [name for name in pack_names(layout)[0] if is_lone(layout.packs + b"/" + name)]
        states = [examine(layout, name, hasher) for name in names]
        whole = [state for state in states if not state.pack_fault and not state.bad]
        for state in whole:
            mend_index(layout, state)
    except OSError as error:
        raise storage(error, doing="indexing packs", at=layout.root) from error
    return len(whole)
