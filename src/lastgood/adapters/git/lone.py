"""Packs without an index: of a publication that runs just now, or that was cut short."""

from __future__ import annotations

import fcntl
import os

from lastgood.adapters.git.check import examine, pack_names
from lastgood.adapters.git.files import storage
from lastgood.adapters.git.repair import mend_index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.adapters.git.objects import Hasher
    from lastgood.adapters.git.repository import Layout


def index_lone_packs(layout: Layout, *, hasher: Hasher) -> int:
    """Give whole packs whose writer is gone their index, and return how many; `Storage`.

    Nobody counts on the objects of a publication that was cut short; with an index they are seen,
    so that a sweep frees them and no proof is troubled. Damaged ones are left to `repair`.
    """
    try:
        names = [name for name in pack_names(layout)[0] if _is_lone(layout.packs + b"/" + name)]
        states = [examine(layout, name, hasher) for name in names]
        whole = [state for state in states if not state.pack_fault and not state.bad]
        for state in whole:
            mend_index(layout, state)
    except OSError as error:
        raise storage(error, doing="indexing packs", at=layout.root) from error
    return len(whole)


def _is_lone(stem: bytes) -> bool:
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
