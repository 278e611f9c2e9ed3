"""Begins the look of a scan as soon as locks keep the workspace as it is.

Where this process looked last, a thread in C does (`stat_cache.py`), in a large workspace another process
(`parallel.py`), while what else the scan needs is asked and loaded. They only find out what is not as it was:
what that means is decided by the scan.
"""

from __future__ import annotations

import os

from lastgood.scanner.read import DIRECTORY_FLAGS, Lister, proving_device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.host import Clock
    from lastgood.scanner.cache import CachedTree
    from lastgood.scanner.parallel import SharedLook
    from lastgood.scanner.stat_cache import StatCache


def begin_scan(root: bytes, known: CachedTree, *, clock: Clock) -> ScanBegun | None:
    """Begin to look at a workspace of which a scan follows; None where its folder cannot be opened."""
    began = clock.now()
    try:
        descriptor = os.open(root, DIRECTORY_FLAGS)
    except OSError:
        return None  # the scan says why
    begun = ScanBegun(
        descriptor, known, lister=Lister(device=proving_device(descriptor), clock=clock), began=began
    )
    try:
        begun.begin()
    except BaseException:
        begun.close()
        raise
    return begun


class ScanBegun:
    """A scan that has begun with a look: of which folder, by what that knows, and since when."""

    def __init__(self, root: int, known: CachedTree, *, lister: Lister, began: int) -> None:
        self.root: int = root
        self.known: CachedTree = known
        self.lister: Lister = lister
        self.began: int = began
        # The look of two processes, or what a thread looks at.
        self.shared: SharedLook | None = None
        self.folders: StatCache | None = None

    def begin(self) -> None:
        """Have somebody look, where that pays."""
        if self.known.is_large:
            from lastgood.scanner.parallel import begin  # most workspaces are small

            self.shared = begin(self.root, records=self.known.records, lister=self.lister)
            return
        if self.known.is_worth_a_thread:
            from lastgood.scanner.stat_cache import taken_out  # a command looks once

            self.folders = taken_out(self.known)
            if self.folders is not None:
                self.folders.begin(self.root, lister=self.lister)

    def close(self) -> None:
        """End what still runs; harmless when repeated."""
        if self.shared is not None:
            self.shared.end()
        if self.folders is not None:
            self.folders.end()
            if not self.known.folders:  # no scan went by them
                self.known.folders.append(self.folders)
        self.lister.close()
        if self.root >= 0:
            descriptor, self.root = self.root, -1
            os.close(descriptor)
