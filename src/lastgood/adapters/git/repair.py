"""Mends what can be mended, and sets damaged files aside: none is ever deleted."""

from __future__ import annotations

import os

from lastgood.adapters.git.check import PackState, examine, pack_names, right_tags, tags_fault, top_faults
from lastgood.adapters.git.doubt import doubt
from lastgood.adapters.git.files import pieces, storage, sync, sync_directory, write_all
from lastgood.adapters.git.idx import encode_index
from lastgood.adapters.git.objects import KIND_NAMES
from lastgood.adapters.git.pack_read import PackFile
from lastgood.adapters.git.prove import object_at
from lastgood.adapters.git.repository import CONFIG, HEAD, ensure_folder, write_whole
from lastgood.adapters.git.scan import end_of_entry, pack_checksum, walk_pack
from lastgood.adapters.git.tags import encode_tags
from lastgood.adapters.git.temporary import TemporaryFile
from lastgood.errors import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.adapters.git.objects import Hasher
    from lastgood.adapters.git.reader import GitReader
    from lastgood.adapters.git.repository import Layout
    from lastgood.adapters.git.writer import GitWriter

# Larger objects are copied as they lie in the pack.
_WHOLE_BYTES = 4 << 20
_TOP_FILES = {"config": CONFIG, "HEAD": HEAD}


def repair(
    layout: Layout,
    *,
    reader: GitReader,
    new_writer: Callable[[], GitWriter],
    changing: Callable[[], None] | None = None,
) -> list[str]:
    """Mend the repository and say what was done; `Storage`, and then nothing readable was moved.

    A damaged pack is set aside when every object that can be read in it is durable in another one,
    and that one was read again. ``changing`` is called before the first change.
    """
    try:
        top = top_faults(layout, reader)
        names, extra = pack_names(layout)
        states = [examine(layout, name, reader.hasher) for name in names]
        broken = [state for state in states if not state.sound]
        if changing is not None and (top or extra or broken):
            changing()
        done = [_write_anew(layout, name) for name, _ in top if name in _TOP_FILES]
        done += _mend_packs(layout, broken, extra, hasher=reader.hasher, new_writer=new_writer)
        reader.stored.refresh()
        done += _mend_tags(layout, reader)
        doubt(layout, ())
    except OSError as error:
        raise storage(error, doing="repairing the object store", at=layout.root) from error
    return done


def _write_anew(layout: Layout, name: str) -> str:
    write_whole(layout, name.encode(), _TOP_FILES[name])
    return f"{name} written anew"


def _mend_tags(layout: Layout, reader: GitReader) -> list[str]:
    """Leave those tags whose checkpoint is stored: packs that went may have held the others."""
    if not tags_fault(layout, reader):
        return []
    write_whole(layout, b"packed-refs", encode_tags(right_tags(layout, reader)))
    return ["packed-refs written anew"]


def _mend_packs(
    layout: Layout,
    broken: list[PackState],
    extra: list[bytes],
    *,
    hasher: Hasher,
    new_writer: Callable[[], GitWriter],
) -> list[str]:
    # Indexes first: what they show again need not be saved out of damaged packs.
    whole = [state for state in broken if state.idx_fault and not state.pack_fault and not state.bad]
    done = [mend_index(layout, state) for state in whole]
    # Readers find what they need in packs of any name.
    strays = [examine(layout, name, hasher) for name in _stems(extra)]
    rest = [state for state in broken if state not in whole] + strays
    suspects = frozenset(state.name for state in rest)
    for state in rest:
        writer = new_writer()
        writer.distrust(suspects)
        done.append(salvage(layout, state, writer=writer, hasher=hasher))
    for file in extra:
        if os.path.lexists(layout.packs + b"/" + file):
            _set_aside(layout, [file])
            done.append(f"{_shown(file)} set aside: it does not belong there")
    return done


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
    """Save the good objects of a damaged pack into a new one, set it aside, and say so; OSError, `Storage`.

    The new one never bears the name of the damaged one (`publish.vacant`), whatever bytes it has.
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
    if writer.published:
        _demand_sound(layout, writer.published, hasher)
    aside = [state.name + suffix for suffix in (b".idx", b".pack") if state.name != writer.published]
    _set_aside(layout, [file for file in aside if os.path.lexists(layout.packs + b"/" + file)])
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


def _demand_sound(layout: Layout, name: bytes, hasher: Hasher) -> None:
    """Refuse to go on where what was written is not what is read; OSError, `Storage`."""
    if not examine(layout, name, hasher).sound:
        raise Storage(
            f"the new pack {_shown(name)} is not read as it was written; the damaged one stays",
            hint="check the disk, then run: lastgood verify --repair",
        )


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
