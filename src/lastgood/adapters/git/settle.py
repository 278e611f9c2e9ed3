"""Settles doubts: proves the packs that are doubted, object by object, and sets aside what none needs."""

from __future__ import annotations

import os

from lastgood.adapters.git.check import examine
from lastgood.adapters.git.doubt import doubted, trust
from lastgood.adapters.git.files import storage
from lastgood.adapters.git.pack_read import PackFile
from lastgood.adapters.git.prove import prove_object
from lastgood.adapters.git.repair import salvage
from lastgood.adapters.git.scan import walk_pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.adapters.git.check import PackState
    from lastgood.adapters.git.reader import GitReader
    from lastgood.adapters.git.repository import Layout
    from lastgood.adapters.git.writer import GitWriter


def settle(layout: Layout, *, reader: GitReader, new_writer: Callable[[], GitWriter]) -> None:
    """Trust the doubted packs that prove sound, and set those aside of which nothing is lost; `Storage`.

    The others stay doubted, until somebody has them repaired who knows of the loss.
    """
    for name in sorted(doubted(layout)):
        if not os.path.lexists(layout.packs + b"/" + name + b".pack"):
            trust(layout, name)
            continue
        state = examine(layout, name, reader.hasher)
        if state.sound:
            trust(layout, name)
        elif _is_dispensable(layout, state, reader):
            _set_aside(layout, state, reader=reader, writer=new_writer())
            trust(layout, name)


def _is_dispensable(layout: Layout, state: PackState, reader: GitReader) -> bool:
    """Tell whether each object that is wrong is sound elsewhere, or in the pack under another name."""
    if state.idx_fault:
        return False  # nobody can tell what the pack should hold
    pack = PackFile(layout.packs, state.name)
    found = {oid for oid, _, _ in walk_pack(pack, reader.hasher)[0]}
    pack.close()
    reader.stored.refresh()
    return all(oid in found or _is_elsewhere(oid, state.name, reader) for oid in state.bad)


def _is_elsewhere(oid: bytes, besides: bytes, reader: GitReader) -> bool:
    for pack, offset in reader.stored.find(oid):
        reader.stored.opened(pack)
        if pack.name != besides and not prove_object(pack, offset, oid=oid, hasher=reader.hasher):
            return True
    return False


def _set_aside(layout: Layout, state: PackState, *, reader: GitReader, writer: GitWriter) -> None:
    """Save what is sound in a pack, whatever other packs are said to hold, and move it out of the way."""
    writer.distrust(frozenset(pack.name for pack in reader.stored.all()))
    try:
        salvage(layout, state, writer=writer, hasher=reader.hasher)
    except OSError as error:
        raise storage(error, doing="setting wrong copies aside", at=layout.root) from error
    finally:
        writer.abandon()
    reader.stored.refresh()
