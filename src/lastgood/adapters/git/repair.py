"""Mends what can be mended, and sets damaged files aside: none is ever deleted."""

from __future__ import annotations

import os

from lastgood.adapters.git.check import PackState, examine, pack_names, top_faults
from lastgood.adapters.git.doubt import doubt
from lastgood.adapters.git.files import storage, sync, sync_directory, write_all
from lastgood.adapters.git.idx import encode_index
from lastgood.adapters.git.pack_read import PackFile
from lastgood.adapters.git.repository import CONFIG, HEAD, ensure_folder, write_whole
from lastgood.adapters.git.scan import pack_checksum, walk_pack
from lastgood.adapters.git.tags import encode_tags
from lastgood.adapters.git.temporary import TemporaryFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.adapters.git.objects import Hasher
    from lastgood.adapters.git.repository import Layout
    from lastgood.adapters.git.writer import GitWriter

_TOP_FILES = {"config": CONFIG, "HEAD": HEAD, "packed-refs": encode_tags({})}


def repair(layout: Layout, *, hasher: Hasher, new_writer: Callable[[], GitWriter]) -> list[str]:
    """Mend the repository and say what was done; `Storage`."""
    done: list[str] = []
    try:
        for name, _ in top_faults(layout):
            write_whole(layout, name.encode(), _TOP_FILES[name])
            done.append(f"{name} written anew")
        names, extra = pack_names(layout)
        for file in extra:
            _set_aside(layout, [file])
            done.append(f"{file.decode('utf-8', 'backslashreplace')} set aside: it does not belong there")
        # Indexes first: what they show again need not be saved out of damaged packs.
        states = [examine(layout, name, hasher) for name in names]
        broken = [state for state in states if not state.sound]
        whole = [state for state in broken if state.idx_fault and not state.pack_fault and not state.bad]
        done.extend(mend_index(layout, state) for state in whole)
        rest = [state for state in broken if state not in whole]
        suspects = frozenset(state.name for state in rest)
        for state in rest:
            writer = new_writer()
            writer.distrust(suspects)
            done.append(salvage(layout, state, writer=writer, hasher=hasher))
        doubt(layout, ())
    except OSError as error:
        raise storage(error, doing="repairing the object store") from error
    return done


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
    """Save the good objects of a damaged pack into a new one, set it aside, and say so; OSError."""
    pack = PackFile(layout.packs, state.name)
    offsets = {offset for oid, _, offset in state.entries if oid not in state.bad}
    if os.path.lexists(pack.path + b".pack"):
        offsets.update(offset for _, _, offset in walk_pack(pack, hasher)[0])
    aside = [state.name + suffix for suffix in (b".idx", b".pack")]
    saved = sum(_save(writer, pack, offset) for offset in sorted(offsets))
    pack.close()
    writer.publish()
    _set_aside(layout, [file for file in aside if os.path.lexists(layout.packs + b"/" + file)])
    lost = f", {len(state.bad)} lost" if state.bad else ""
    return f"{state.name.decode()} set aside: {saved} objects saved{lost}"


def _save(writer: GitWriter, pack: PackFile, offset: int) -> int:
    try:
        kind, content = pack.read(offset)
    except (OSError, ValueError):
        return 0
    writer.add(kind, content)
    return 1


def _set_aside(layout: Layout, files: list[bytes]) -> None:
    """Move files out of the folder of packs, under names that are free."""
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
