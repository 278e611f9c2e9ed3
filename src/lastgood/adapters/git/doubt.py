"""Remembers which packs were found damaged, so that no new checkpoint relies on them before a repair.

One empty file a pack in ``objects.git/doubted``: a mark costs a writer one look at a folder that is
not even there in a sound store.
"""

from __future__ import annotations

import os

from lastgood.adapters.git.files import DIRECTORY_MODE, FILE_MODE, unlink_quietly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from lastgood.adapters.git.repository import Layout


def doubted(layout: Layout) -> frozenset[bytes]:
    """Return the names of the packs that were found damaged."""
    try:
        return frozenset(os.listdir(layout.doubted))
    except OSError:
        return frozenset()


def doubt(layout: Layout, packs: Iterable[bytes]) -> None:
    """Mark exactly these packs. On a disk that takes no mark the proof itself has still been told."""
    wanted = frozenset(packs)
    marked = doubted(layout)
    for name in marked - wanted:
        unlink_quietly(layout.doubted + b"/" + name)
    try:
        if wanted and not marked:
            os.makedirs(layout.doubted, DIRECTORY_MODE, exist_ok=True)
        for name in wanted - marked:
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            os.close(os.open(layout.doubted + b"/" + name, flags, FILE_MODE))
    except OSError:
        return
