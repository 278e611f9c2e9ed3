"""Starts maintenance in a separate action when it is due; no save waits for it."""

from __future__ import annotations

import os

from lastgood.adapters.files import RESERVE
from lastgood.errors import Busy, Storage
from lastgood.model.settings import PACKS_DUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from lastgood.ports.context import Context

    Maintenance = Literal["background", "off"]


# A count of checkpoints costs about a millisecond; every so many packs is often enough.
_ASKED_EVERY = 8


class Upkeep:
    """Decides whether maintenance is due, after a save and before a ledger is used; starts it detached."""

    def __init__(self, mode: Maintenance) -> None:
        self._mode = mode
        self._child: int | None = None

    def after_save(self, context: Context) -> None:
        """Start maintenance where it is due and wanted; failing to start it harms nothing."""
        if not os.path.lexists(context.store + RESERVE):
            context.reserve.lay_in()
        self._start_if(_is_due, context)

    def before_ledger(self, context: Context) -> None:
        """Start it where nobody saves, and what changed in the ledger has no copy."""
        self._start_if(lambda context: context.ledgers.is_copy_old(), context)

    def _start_if(self, is_due: Callable[[Context], bool], context: Context) -> None:
        if self._mode == "off":
            return
        if self._is_running():
            return
        try:
            due = is_due(context)
        except (Storage, Busy):
            return  # what was saved is saved
        if due:
            from lastgood.workspace.detaching import start  # most saves need none of it

            root, store = os.fsdecode(context.root), os.fsdecode(context.store)
            packs, settings = context.engine.packs(), context.settings
            self._child = start(root, store, packs=packs, settings=settings)

    def _is_running(self) -> bool:
        """Tell whether the maintenance started last still runs; one that ended is let go."""
        if self._child is None:
            return False
        try:
            ended, _ = os.waitpid(self._child, os.WNOHANG)
        except ChildProcessError:  # the caller collects all its children, or is a fork of ours
            ended = self._child
        if ended:
            self._child = None
        return self._child is not None


def _is_due(context: Context) -> bool:
    """Tell whether there are many packs, or (asked now and then) clearly too many checkpoints."""
    packs = context.engine.packs()
    if packs >= PACKS_DUE:
        return True
    limit = context.settings.limits.max_checkpoints
    return packs % _ASKED_EVERY == 0 and context.catalogue.count_loose(context.key) > limit + limit // 10
