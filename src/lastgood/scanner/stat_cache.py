"""Looks again at the folders that this process looked at last, most of which are as they were.

One loop, `lastgood_changed` in `states.c`, asks for each folder and what is in it, and compares what is said
with what was said for its record. It tells of no folder more than that it is as it was: the others go to the
walk, open, with what was found in them. Nothing is missed by that:

- A folder whose record has no proof of its names, as while it is young, or says that it is in doubt, goes to
  the walk whatever is said.
- The folder itself is asked last, by its descriptor: what proves its names does so until all have been asked.
  Its answer tells the device, too. By that call the kernel notes that its times were seen, as by any stat.
- It is opened by its name in the folder above, which is open: through no link.
- Where one cannot be opened, all are left to a walk through everything.
- Nothing is read before all have been looked at: a folder that moves meanwhile has less time for it than in a
  walk, and one that is gone then makes the walk look where it is: of what is new the number is known by then.
"""

from __future__ import annotations

import os

from lastgood.paths import join
from lastgood.scanner import ABOVE, BELOW, DOUBTFUL, FLAGS, NAMES, SEEN, SIGNATURE, TOKEN
from lastgood.scanner.read import Listing, inodes_of, names_of, signature
from lastgood.scanner.states import known_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lastgood.host import ScanResult
    from lastgood.scanner import Record
    from lastgood.scanner.read import Lister

# Folders are open while those in them are looked at, so many at most; of those that are not as they were so
# many stay open for the walk.
_DEEPEST = 64
_MOST_FOUND = 64
# All of them are asked in one call, in which no Ctrl-C is heard: where that is more, ignored files included,
# a walk asks folder by folder. About 16,000 entries, which the disk's cache tells in 15 ms.
_MOST_BYTES = 1 << 20


class CachedFolder:
    """What is known of one folder, which lies in ``depth`` others: its record, and the states of that.

    ``known`` is both as they are asked; None where that has to be put together anew.
    """

    __slots__ = ("depth", "known", "path", "record", "states")

    def __init__(self, path: bytes, record: Record, *, states: bytes | None, depth: int) -> None:
        self.path: bytes = path
        self.depth: int = depth
        self.follow(record, states)

    def follow(self, record: Record, states: bytes | None) -> None:
        """Take another record of the same folder, with what was told where it was made."""
        self.record: Record = record
        self.states: bytes | None = states
        self.known: bytes | None = None

    def to_ask(self) -> bytes:
        """Return what is known, as it is asked."""
        if self.known is None:
            record, name = self.record, self.path.rpartition(b"/")[2] or b"."
            self.known = known_folder(
                self.depth, record[FLAGS], name, record[NAMES], seen=record[SEEN], states=self.states
            )
        return self.known


class StatCache:
    """All folders of a workspace, each after the one that it is in; for one scan at a time."""

    def __init__(self, records: Mapping[bytes, Record], folders: Sequence[CachedFolder]) -> None:
        self._records = records
        self._folders = folders
        self._known: bytes | None = None
        # What a scan came to that found everything as in these records.
        self.result: ScanResult | None = None

    def follows(self, records: Mapping[bytes, Record], states: Mapping[bytes, bytes]) -> bool:
        """Take the records of a later scan; False where they are of other folders, or rules."""
        if records is self._records:
            return True
        self.result = self._known = None
        if len(records) != len(self._folders):
            return False
        for folder in self._folders:
            record, was = records.get(folder.path), folder.record
            if record is was:
                continue
            if record is None or not _is_of_the_same(record, was):
                return False
            if _is_asked_alike(record, was):
                folder.record = record
            else:
                folder.follow(record, states.get(record[SIGNATURE]))
        self._records = records
        return True

    def changed(
        self, root: int, *, lister: Lister, doubt: int, late: Callable[[], bool] | None
    ) -> dict[bytes, Listing] | None:
        """Return those that are not as they were, open, as they were listed; None where a walk has to tell.

        Those with a flag of some that are in ``doubt`` are among them. ``late`` tells that no time is left.
        """
        sheet, device = lister.sheet, lister.device
        if sheet is None or device is None or (late is not None and late()):
            return None
        if self._known is None:
            self._known = b"".join([folder.known or folder.to_ask() for folder in self._folders])
        if len(self._known) > _MOST_BYTES:
            return None
        count = len(self._folders)
        left = sheet.changed(root, self._known, count=count, device=device, doubt=doubt, most=_MOST_FOUND)
        if left is None:
            return None
        found: dict[bytes, Listing] = {}
        done = False
        try:
            while left:
                number, descriptor, told = left[0]
                folder = self._folders[number]
                if told is None or self._is_otherwise(folder, told) or folder.record[FLAGS] & doubt:
                    found[folder.path] = _listed(descriptor, folder.record, lister, told=told)
                    del left[0]
                else:
                    del left[0]
                    os.close(descriptor)
            done = True
        except OSError:  # the walk says why
            return None
        finally:
            if not done:
                for _, descriptor, _ in left:
                    os.close(descriptor)
                close(found)
        return found

    def _is_otherwise(self, folder: CachedFolder, told: bytes) -> bool:
        """Tell whether something else is said of what is in a folder than in its record."""
        if folder.states is not None:
            return told != folder.states
        if signature(folder.record[NAMES], told) != folder.record[SIGNATURE]:
            return True
        folder.follow(folder.record, told)
        self._known = None
        return False


def folders_of(records: Mapping[bytes, Record], states: Mapping[bytes, bytes]) -> StatCache | None:
    """Return the folders of the last scan; None where they lie too deep, or not all can be come by.

    What was said of what is in them is among the ``states``, by their signatures, as far as it is known.
    """
    top = records.get(b"")
    if top is None:
        return None
    folders: list[CachedFolder] = []
    left: list[tuple[bytes, Record, int]] = [(b"", top, 0)]
    while left:
        path, record, depth = left.pop()
        folders.append(CachedFolder(path, record, states=states.get(record[SIGNATURE]), depth=depth))
        for name in reversed(record[BELOW]):
            inside = join(path, name)
            below = records.get(inside)
            # Where one could not be entered, or has other rules than its folder hands down, that is in doubt.
            if (below is None or below[ABOVE] != record[TOKEN]) and not record[FLAGS] & DOUBTFUL:
                return None
            if below is not None:
                left.append((inside, below, depth + 1))
        if depth >= _DEEPEST:
            return None
    return StatCache(records, folders) if len(folders) == len(records) else None


def close(found: Mapping[bytes, Listing]) -> None:
    """Close folders that were found."""
    for listing in found.values():
        os.close(listing.descriptor)


def _is_of_the_same(record: Record, was: Record) -> bool:
    """Tell whether a record is of a folder with the same rules and folders in it, in doubt if it was."""
    same = record[ABOVE] == was[ABOVE] and record[TOKEN] == was[TOKEN] and record[BELOW] == was[BELOW]
    return same and not was[FLAGS] & ~record[FLAGS] & DOUBTFUL


def _is_asked_alike(record: Record, was: Record) -> bool:
    """Tell whether what is known of a folder is what was, as it is asked: others may lie below."""
    same = record[SIGNATURE] == was[SIGNATURE] and record[SEEN] == was[SEEN]
    return same and record[FLAGS] == was[FLAGS]


def _listed(descriptor: int, record: Record, lister: Lister, *, told: bytes | None) -> Listing:
    """Return the listing of a folder of which something was told.

    Else its names are not proven: it is listed, with the inodes of folders that are new in it.
    """
    if told is not None:
        return Listing(descriptor, record[NAMES], states=told, seen=record[SEEN])
    listing = lister.list(descriptor, known=record)
    if listing.names != record[NAMES] and not listing.fits(record):
        found = zip(names_of(listing.names), listing.stats, strict=True)
        came = [name for name, stat in found if isinstance(stat, int) and name not in record[BELOW]]
        listing.inodes = inodes_of(descriptor, came)
    return listing
