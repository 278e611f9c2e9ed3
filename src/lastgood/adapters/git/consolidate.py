"""Joins packs, with git's deltas, dropping nothing."""

from __future__ import annotations

from lastgood.adapters.git.objects import TREE
from lastgood.adapters.git.rewrite import remove_packs, write_pack
from lastgood.adapters.git.similar import name_of
from lastgood.errors import Damaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.adapters.git.pack_read import PackFile
    from lastgood.adapters.git.reader import GitReader
    from lastgood.adapters.git.repository import Layout
    from lastgood.adapters.git.tool import Git


def consolidate(layout: Layout, *, reader: GitReader, git: Git) -> bool:
    """Join all packs into one; False if there is nothing to do or no git; `Damaged`, `Storage`."""
    reader.stored.refresh()
    packs = list(reader.stored.all())
    if len(packs) < 2 or not git.found:
        return False
    names: dict[bytes, bytes] = {}
    parents: dict[bytes, tuple[bytes, bytes]] = {}
    for pack in packs:
        reader.stored.opened(pack)
        for oid in _objects(pack, names):
            parents.update((below, (oid, name)) for _, name, below in reader.tree_rows(oid))
    for oid in names.keys() & parents.keys():
        names[oid] = name_of(oid, parents)
    kept = write_pack(layout, git, names=names)
    remove_packs(layout, packs, kept=kept)
    reader.stored.refresh()
    return True


def _objects(pack: PackFile, names: dict[bytes, bytes]) -> list[bytes]:
    """Add a pack's objects to ``names`` and return its trees."""
    trees = []
    try:
        pack.index.demand_sound()
        for oid, _, offset in pack.index.entries():
            if oid not in names and pack.kind(offset) == TREE:
                trees.append(oid)
            names[oid] = b""
    except (OSError, ValueError) as error:
        raise Damaged(
            f"{pack.name.decode()} cannot be joined with others: {error}",
            hint="run `lastgood verify --repair`",
        ) from error
    return trees
