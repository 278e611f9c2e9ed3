"""Mends what can be mended, and sets damaged files aside: none is ever deleted."""

from __future__ import annotations

import os
from contextlib import nullcontext

from lastgood.adapters.git.check import (
    PackState,
    examine,
    is_lone,
    pack_names,
    right_tags,
    tags_fault,
    top_faults,
)
from lastgood.adapters.git.doubt import doubt_besides, doubted
from lastgood.adapters.git.files import pieces, storage, sync, sync_directory, write_all
from lastgood.adapters.git.idx import encode_index
from lastgood.adapters.git.objects import KIND_NAMES
from lastgood.adapters.git.pack_read import PackFile
from lastgood.adapters.git.prove import object_at
from lastgood.adapters.git.publish import sync_unsynced
from lastgood.adapters.git.reach import checkpoint_commits
from lastgood.adapters.git.repository import CONFIG, HEAD, ensure_folder, write_whole
from lastgood.adapters.git.retrieve import find_missed
from lastgood.adapters.git.scan import end_of_entry, pack_checksum, walk_pack
from lastgood.adapters.git.tags import encode_tags
from lastgood.adapters.git.temporary import TemporaryFile
from lastgood.errors import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from lastgood.adapters.git.objects import Hasher
    from lastgood.adapters.git.reader import GitReader
    from lastgood.adapters.git.repository import Layout
    from lastgood.adapters.git.writer import GitWriter
    from lastgood.ports.engine import Hold, Holds

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
                gone = {mark for mark in doubted(self._layout) if not self._is_there(mark)}
                doubt_besides(self._layout, (), proven=gone)
        self.done += [told[name] for name in going]
        alien = [file for file in extra if os.path.splitext(file)[0] not in told]
        self.done += [f"{_shown(file)} set aside: it does not belong there" for file in alien]
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
        doubt_besides(layout, [one.name for one in rest], proven=self._proven)
        if top or extra or broken:
            self._changing()
        self.done += [_write_anew(layout, name) for name, _ in top if name in _TOP_FILES]
        # Indexes first: what they show again need not be saved out of damaged packs.
        self.done += [mend_index(layout, one) for one in whole]
        self._reader.stored.close()
        return rest, extra

    def _save(self, state: PackState) -> str:
        """Have the good objects of a damaged pack in others, and return what is to be told of it."""
        writer = self._writer()
        saved, made = save_out(self._layout, state, writer=writer, hasher=self._reader.hasher)
        self._trust(made)
        return _told(state, saved)

    def _retrieve(self) -> None:
        """Take back what checkpoints miss and what was set aside has."""
        if not os.path.isdir(self._layout.damaged):
            return
        self._reader.stored.refresh()
        commits = {*self._wanted, *checkpoint_commits(self._reader, self._besides)}
        found = find_missed(self._layout.damaged, reader=self._reader, commits=commits, sound=self._sound)
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
            f"taken out of what was set aside before, for checkpoints missed it: {saved} objects"
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


def _write_anew(layout: Layout, name: str) -> str:
    write_whole(layout, name.encode(), _TOP_FILES[name])
    return f"{name} written anew"


def _mend_tags(layout: Layout, reader: GitReader) -> list[str]:
    """Leave those tags whose checkpoint is stored: packs that went may have held the others."""
    if not tags_fault(layout, reader):
        return []
    write_whole(layout, b"packed-refs", encode_tags(right_tags(layout, reader)))
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
        write_all(file.descriptor, encode_index(state.entries, pack_checksum=checksum))
        sync(file.descriptor)
        file.rename(pack.path + b".idx")
        sync_directory(layout.packs)
        file.close()
    finally:
        file.discard()
    return f"{state.name.decode()}.idx rebuilt from its pack ({len(state.entries)} objects)"


def salvage(layout: Layout, state: PackState, *, writer: GitWriter, hasher: Hasher) -> str:
    """Save the good objects of a damaged pack, set it aside, and say so; OSError, `Storage`."""
    saved, _ = save_out(layout, state, writer=writer, hasher=hasher)
    aside = [state.name + suffix for suffix in _BOTH if state.name != writer.published]
    _set_aside(layout, [file for file in aside if os.path.lexists(layout.packs + b"/" + file)])
    return _told(state, saved)


def save_out(
    layout: Layout, state: PackState, *, writer: GitWriter, hasher: Hasher
) -> tuple[int, PackState | None]:
    """Save the good objects of a damaged pack into a new one; return how many, and that one, if there is one.

    It never bears the name of the damaged one (`publish.vacant`), whatever bytes it has. OSError, `Storage`.
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


def _told(state: PackState, saved: int) -> str:
    lost = f", {len(state.bad)} lost" if state.bad else ""
    return f"{_shown(state.name)} set aside: {saved} objects saved{lost}"


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
            f"the new pack {_shown(name)} is not read as it was written; the damaged one stays",
            hint="check the disk, then run: lastgood verify --repair",
        )
    return state


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


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
