"""Packs without an index: of a publication that runs just now, or that was cut short."""

from __future__ import annotations

from lastgood.adapters.git.check import examine, is_lone, pack_names
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
        names = [name for name in pack_names(layout)[0] if is_lone(layout.packs + b"/" + name)]
        states = [examine(layout, name, hasher) for name in names]
        whole = [state for state in states if not state.pack_fault and not state.bad]
        for state in whole:
            mend_index(layout, state)
    except OSError as error:
        raise storage(error, doing="indexing packs", at=layout.root) from error
    return len(whole)
