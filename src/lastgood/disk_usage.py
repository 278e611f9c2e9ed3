"""How much of the disk a store takes, by looking at every file."""

from __future__ import annotations

import os

from lastgood.model.report import StoreSize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = 512  # what st_blocks counts in, whatever the file system's own blocks are
_DAMAGED = b"damaged"
# What lies in the folder of a workspace beside its caches.
_OF_WORKSPACE = {b"runs": "outputs", b"kept": "kept"}
_RESERVE = b"reserve"
# What those who have a database open share: it is there only while somebody looks.
_SHARED = b".sqlite3-shm"
# So many names tell what everything below them is for.
_DEEP = 3
# A database has files beside it (its log), and copies of it begin with its name and a word.
_BEGINNINGS = (
    (b"catalogue.backup.", "backups"),
    (b"catalogue.sqlite3.version-", "backups"),
    (b"catalogue.sqlite3", "catalogue"),
    (b"ledger.backup.", "backups"),
    (b"ledger.sqlite3.version-", "backups"),
    (b"ledger.sqlite3", "ledger"),
)


def disk_usage(store: bytes) -> StoreSize:
    """Return what a store takes; files that come or go meanwhile are counted or not."""
    usage = _Usage(store)
    waiting: list[tuple[bytes, ...]] = [()]
    while waiting:
        place = waiting.pop()
        waiting += [(*place, name) for name in usage.add(place)]
    return StoreSize(**usage.amounts)


def count_files(folder: bytes) -> tuple[int, int]:
    """Return how many files a folder has, at any depth, and what the disk gives them, in bytes."""
    number = total = 0
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        for entry, found in _entries(place):
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            else:
                number, total = number + 1, total + found.st_blocks * _BLOCK
    return number, total


class _Usage:
    """What was counted so far, by what it is for."""

    def __init__(self, store: bytes) -> None:
        self._store = store
        self._linked: set[tuple[int, int]] = set()
        self.amounts: dict[str, int] = {}
        try:
            self.amounts["other"] = os.lstat(store).st_blocks * _BLOCK
        except OSError:
            return  # it is gone

    def add(self, place: tuple[bytes, ...]) -> list[bytes]:
        """Count what is in a folder, and return the names of the folders in it."""
        folders = []
        inside = None if len(place) < _DEEP else _part(place)
        for entry, found in _entries(b"/".join((self._store, *place))):
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.name.endswith(_SHARED) or (found.st_nlink > 1 and self._is_known(found)):
                continue
            part = inside or _part((*place, entry.name))
            self.amounts[part] = self.amounts.get(part, 0) + found.st_blocks * _BLOCK
        return folders

    def _is_known(self, found: os.stat_result) -> bool:
        """Tell whether a file with several names was counted under another, and remember it."""
        file = (found.st_dev, found.st_ino)
        known = file in self._linked
        self._linked.add(file)
        return known


def _entries(folder: bytes) -> Iterator[tuple[os.DirEntry[bytes], os.stat_result]]:
    """Yield what is in a folder with what stat says of it, as far as it is there and can be read."""
    try:
        entries = os.scandir(folder)
    except OSError:
        return
    with entries:
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # it is gone
            yield entry, found


def _part(names: tuple[bytes, ...]) -> str:
    """Return what something is for, by where it lies."""
    top = names[0]
    if _DAMAGED in names[:2]:
        return "damaged"
    if top == b"objects.git":
        return "objects"
    if top == _RESERVE:
        return "reserve"
    if top == b"workspaces":
        return _OF_WORKSPACE.get(b"".join(names[2:3]), "caches")
    return next((part for beginning, part in _BEGINNINGS if top.startswith(beginning)), "other")
