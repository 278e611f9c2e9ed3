"""Puts a finished pack where readers look, in an order that survives a power cut at any moment.

Pack and index are written and synced under temporary names, renamed (the pack first: an index is
what makes a pack visible), and then the directory is synced. What is published without syncing
leaves a mark first, and whoever publishes durably next syncs it too, for his objects may rest on it.

A pack is named by its content, but what lies under that name may be another: a damaged one, of which
every object was saved, gives the very bytes that it had when it was whole. It is never replaced.
"""

from __future__ import annotations

import errno
import os
from _sha1 import sha1

from lastgood.adapters.git.files import (
    DIRECTORY_MODE,
    FILE_MODE,
    pieces,
    sync,
    sync_directory,
    unlink_quietly,
    write_all,
)
from lastgood.adapters.git.idx import encode_index
from lastgood.adapters.git.temporary import TemporaryFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.adapters.git.pack_write import Draft
    from lastgood.adapters.git.repository import Layout


def publish_draft(draft: Draft, layout: Layout, *, durable: bool) -> bytes:
    """Make a draft a pack of the repository and return its name; OSError, and then nothing is visible."""
    file, trailer = draft.finish()
    index = TemporaryFile.create(layout.temporary, b".idx")
    try:
        write_all(index.descriptor, encode_index(draft.entries, pack_checksum=trailer))
        return publish_files(file, index, layout, name=b"pack-" + trailer.hex().encode(), durable=durable)
    finally:
        index.discard()


def publish_files(
    pack: TemporaryFile, index: TemporaryFile, layout: Layout, *, name: bytes, durable: bool
) -> bytes:
    """Sync and rename the two files of a pack, and return its name; no other file is replaced."""
    name = vacant(layout, name, pack=pack)
    if durable:
        sync(pack.descriptor)
        sync(index.descriptor)
    else:
        _mark(layout, name)
    _rename(pack, index, stem=layout.packs + b"/" + name, durable=durable)
    if durable:
        sync_unsynced(layout)
    return name


def _rename(pack: TemporaryFile, index: TemporaryFile, *, stem: bytes, durable: bool) -> None:
    # Somebody may have published the very same bytes: then a failure here must not take his away.
    visible = os.path.lexists(stem + b".idx") and os.path.lexists(stem + b".pack")
    try:
        pack.rename(stem + b".pack")
        index.rename(stem + b".idx")
        if durable:
            sync_directory(os.path.dirname(stem))
        visible = True
    finally:
        if not visible:
            index.discard()
            pack.discard()
        pack.close()
        index.close()


def vacant(layout: Layout, name: bytes, *, pack: TemporaryFile) -> bytes:
    """Return the name, or one made from it if another pack bears it."""
    while not _is_vacant(layout.packs + b"/" + name + b".pack", pack):
        name = b"pack-" + sha1(name, usedforsecurity=False).hexdigest().encode()
    return name


def _is_vacant(path: bytes, pack: TemporaryFile) -> bool:
    try:
        there = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link, which is none of ours
            return False
        raise
    try:
        size = os.fstat(pack.descriptor).st_size
        return os.fstat(there).st_size == size and all(
            one == other
            for one, other in zip(
                pieces(there, start=0, end=size), pieces(pack.descriptor, start=0, end=size), strict=True
            )
        )
    except (OSError, ValueError):
        return False
    finally:
        os.close(there)


def _mark(layout: Layout, name: bytes) -> None:
    mark = layout.unsynced + b"/" + name
    try:
        descriptor = os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    except FileNotFoundError:
        os.mkdir(layout.unsynced, DIRECTORY_MODE)
        descriptor = os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    os.close(descriptor)


def sync_unsynced(layout: Layout) -> None:
    """Make packs durable that were published without."""
    try:
        marks = os.listdir(layout.unsynced)
    except FileNotFoundError:
        return
    synced = [mark for mark in marks if _sync_pack(layout.packs + b"/" + mark)]
    if synced:
        sync_directory(layout.packs)
    for mark in synced:
        unlink_quietly(layout.unsynced + b"/" + mark)


def _sync_pack(stem: bytes) -> bool:
    for suffix in (b".pack", b".idx"):
        try:
            descriptor = os.open(stem + suffix, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            sync(descriptor)
        finally:
            os.close(descriptor)
    return True
