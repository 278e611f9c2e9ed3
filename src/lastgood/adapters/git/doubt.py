"""Remembers which packs no new checkpoint may rely on: those found damaged, and copies not proven yet.

One empty file a pack in ``objects.git/doubted``: a mark costs a writer one look at a folder that is
seldom there. A damaged pack is doubted until a repair, a copied one until maintenance has proven it.
"""

from __future__ import annotations

import os

from lastgood.adapters.git.files import DIRECTORY_MODE, FILE_MODE, sync_directory, unlink_quietly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from lastgood.adapters.git.repository import Layout


def doubted(layout: Layout) -> frozenset[bytes]:
    """Return the names of the packs that are doubted."""
    try:
        return frozenset(os.listdir(layout.doubted))
    except OSError:
        return frozenset()


def doubt(layout: Layout, packs: Iterable[bytes]) -> None:
    """Mark exactly these packs. On a disk that takes no mark the proof itself has still been told."""
    wanted = frozenset(packs)
    marked = doubted(layout)
    for name in marked - wanted:
        trust(layout, name)
    try:
        if wanted and not marked:
            os.makedirs(layout.doubted, DIRECTORY_MODE, exist_ok=True)
        for name in wanted - marked:
            _mark(layout, name)
    except OSError:
        return


def doubt_besides(layout: Layout, packs: Iterable[bytes], *, proven: Collection[bytes]) -> None:
    """Mark more packs, and trust those proven; as `doubt`, but what was not looked at stays as it is."""
    for name in doubted(layout).intersection(proven):
        trust(layout, name)
    try:
        for name in packs:
            suspect(layout, name, durable=False)
    except OSError:
        return


def suspect(layout: Layout, name: bytes, *, durable: bool) -> None:
    """Mark one more pack, before it is published; OSError, and then it must not be."""
    os.makedirs(layout.doubted, DIRECTORY_MODE, exist_ok=True)
    _mark(layout, name)
    if durable:
        sync_directory(layout.doubted)
        sync_directory(layout.root)


def trust(layout: Layout, name: bytes) -> None:
    """Take the mark of a pack away."""
    unlink_quietly(layout.doubted + b"/" + name)


def _mark(layout: Layout, name: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    os.close(os.open(layout.doubted + b"/" + name, flags, FILE_MODE))
