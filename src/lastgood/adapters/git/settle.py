"""Settles doubts: proves the packs that are doubted, object by object."""

from __future__ import annotations

import os

from lastgood.adapters.git.check import examine
from lastgood.adapters.git.doubt import doubted, trust

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.adapters.git.objects import Hasher
    from lastgood.adapters.git.repository import Layout


def settle(layout: Layout, hasher: Hasher) -> frozenset[bytes]:
    """Trust the doubted packs that prove sound, or are gone; return the names of the others."""
    left = set()
    for name in sorted(doubted(layout)):
        if os.path.lexists(layout.packs + b"/" + name + b".pack") and not examine(layout, name, hasher).sound:
            left.add(name)
        else:
            trust(layout, name)
    return frozenset(left)
