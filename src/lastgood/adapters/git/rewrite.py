"""Writes all objects that are to stay into one new pack, and only then lets go of the old packs."""

from __future__ import annotations

import os

from lastgood.adapters.git.files import storage, sync_directory, unlink_quietly
from lastgood.adapters.git.idx import Index
from lastgood.adapters.git.publish import publish_files
from lastgood.adapters.git.temporary import TemporaryFolder
from lastgood.errors import Damaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastgood.adapters.git.pack_read import PackFile
    from lastgood.adapters.git.repository import Layout
    from lastgood.adapters.git.tool import Git

# What git may have put beside a pack; all of it is derived from the pack.
DERIVED_SUFFIXES = (b".rev", b".bitmap", b".mtimes")
_DERIVED = (b"/objects/pack/multi-pack-index", b"/objects/info/commit-graph", b"/objects/info/packs")
_NAME_BYTES = 64
_BLOCK = 512  # what st_blocks counts in
# Up to here git looks for deltas among all objects anew and compresses them well (a few seconds, nobody
# waits); of more it keeps what it found before.
_AFRESH_BYTES = 64 << 20


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
            f"git left out {len(lost)} objects of a new pack; the old packs stay",
            hint="run `lastgood verify`",
            details={"objects": sorted(oid.hex() for oid in lost)[:10]},
        )
    name = b"pack-" + checksum[-40:]
    return publish_files(folder.adopt(b"new.pack"), folder.adopt(b"new.idx"), layout, name=name, durable=True)


def pack_bytes(layout: Layout, name: bytes) -> int:
    """Return the size of a pack and its index."""
    total = 0
    for suffix in (b".pack", b".idx"):
        try:
            total += os.stat(layout.packs + b"/" + name + suffix).st_size
        except OSError:
            continue
    return total


def allotted_bytes(path: bytes) -> int:
    """Return what the disk gives a pack and its index; the path has no suffix."""
    total = 0
    for suffix in (b".pack", b".idx"):
        try:
            total += os.stat(path + suffix).st_blocks * _BLOCK
        except OSError:
            continue
    return total


def remove_packs(layout: Layout, packs: Sequence[PackFile], *, kept: bytes) -> int:
    """Delete packs whose objects are all in the pack ``kept``, and return their bytes.

    The index goes first: a pack without one is invisible, and `repair` can still bring it back.
    """
    freed = 0
    for derived in _DERIVED:
        unlink_quietly(layout.root + derived)
    for pack in packs:
        if pack.name == kept:
            continue
        freed += pack_bytes(layout, pack.name)
        _unlink_index(layout, pack.path + b".idx")
        for suffix in (b".pack", *DERIVED_SUFFIXES):
            unlink_quietly(pack.path + suffix)
        unlink_quietly(layout.unsynced + b"/" + pack.name)
    try:
        sync_directory(layout.packs)
    except OSError as error:
        raise storage(error, doing="removing old packs", at=layout.root) from error
    return freed


def _unlink_index(layout: Layout, path: bytes) -> None:
    """Delete an index, or leave its pack alone: an index without a pack would promise what is gone."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise storage(error, doing="removing old packs", at=layout.root) from error
