"""Joins packs, with git's deltas, dropping nothing."""

from __future__ import annotations

from lastgood.adapters.git.arrange import arranged
from lastgood.adapters.git.doubt import doubted
from lastgood.adapters.git.rewrite import pack_bytes, remove_packs, write_pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.adapters.git.pack_read import PackFile
    from lastgood.adapters.git.reader import GitReader
    from lastgood.adapters.git.repository import Layout
    from lastgood.adapters.git.tool import Git
    from lastgood.ports.engine import Extent

# A pack this many times as large as all smaller ones together is left as it is: to write it again for
# the few that came since would cost each save as much as the whole store has grown to.
_FACTOR = 3


def consolidate(layout: Layout, *, reader: GitReader, git: Git, extent: Extent = "all") -> bool:
    """Join packs into one, all or those that it is time for, but none that is doubted.

    False if there is nothing to do or no git; `Damaged`, `Storage`.
    """
    reader.stored.refresh()
    wrong = doubted(layout)
    sizes = {pack: pack_bytes(layout, pack.name) for pack in reader.stored.all() if pack.name not in wrong}
    packs = list(sizes) if extent == "all" else _due(sizes)
    if len(packs) < 2 or not git.found:
        return False
    size = sum(sizes[pack] for pack in packs)
    kept = write_pack(layout, git, names=arranged(reader, packs), size=size)
    remove_packs(layout, packs, kept=kept)
    reader.stored.refresh()
    return True


def _due(sizes: dict[PackFile, int]) -> list[PackFile]:
    """Return the packs without those that outweigh all smaller ones, newest first."""
    left = sum(sizes.values())
    due = set(sizes)
    for pack, size in sorted(sizes.items(), key=lambda row: -row[1]):
        left -= size
        if size < _FACTOR * left:
            break
        due.discard(pack)
    return [pack for pack in sizes if pack in due]
