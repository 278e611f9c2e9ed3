"""Looks again at the folders that this process looked at last, most of which are as they were.

One loop asks for each folder and what is in it, and compares the answers as they came with those of
the last look. It tells of no folder more than that it is as it was: the others go to the walk, open, with
what was found in them. Nothing is missed by that:

- The same bytes say the same of everything that counts (and of owner, links and the last reading).
  Where they are others, what counts is compared as a walk compares it, by the record. A folder whose record
  has no proof of its names, as while it is young, or says that it is in doubt, goes to the walk all the same.
- The folder itself is asked last, by its descriptor: what proves its names does so until all have been asked.
  Its answer tells the device, too. By that call the kernel notes that its times were seen, as by any stat.
- It is opened by its name in the folder above, which is open: through no link. There it is not asked for
  by its name, too, if that told no more than its mode, which it tells itself: where its mode is another, all
  are left to a walk.
- Where one can neither be opened nor asked, all are left to a walk through everything.
- Nothing is read before all have been looked at: a folder that moves meanwhile has less time for it than in a
  walk, and one that is gone then makes the walk look where it is: of what is new the number is known by then.
"""

from __future__ import annotations

import os
from itertools import repeat

from lastgood.paths import join
from lastgood.scanner import ABOVE, BELOW, DOUBTFUL, FLAGS, NAMES, SEEN, SIGNATURE, TOKEN
from lastgood.scanner.read import DIRECTORY_FLAGS, Listing, inodes_of, names_of, signature
from lastgood.scanner.states import ASKED, HOW_ASKED, MOST_ASKED, chosen, modes_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lastgood.host import ScanResult
    from lastgood.scanner import Record
    from lastgood.scanner.read import Lister

# No answer begins like this.
_UNKNOWN = b"\0"
# Folders are open while those in them are looked at, so many at most; of those that are not as they were so
# many stay open for the walk.
_DEEPEST = 64
_MOST_FOUND = 64


class CachedFolder:
    """What is known of one folder, which lies in the one ``above``; ``below`` are those in it.

    ``whole`` are the names of what is in it, and one for itself; none where that is left to the lister. Of
    these ``asked`` are at the places ``kept`` (None: all): of a folder that ``is_left_out`` its own answer
    tells what the one by its name would. With the ``answers`` came the ``states`` that belong to the record;
    ``next_answers`` and ``next_states`` are the same of a look of which no record may have been made yet, or
    ever will.
    """

    __slots__ = (
        "above",
        "answers",
        "asked",
        "below",
        "depth",
        "is_left_out",
        "kept",
        "name",
        "next_answers",
        "next_states",
        "path",
        "record",
        "states",
        "whole",
    )

    def __init__(self, path: bytes, record: Record, *, above: CachedFolder | None, depth: int) -> None:
        self.path: bytes = path
        self.name: bytes = path.rpartition(b"/")[2] or b"."
        self.above: CachedFolder | None = above
        self.below: list[CachedFolder] = []
        self.is_left_out: bool = False
        self.depth: int = depth
        self.states: bytes | None = None
        self.next_answers: bytes = _UNKNOWN
        self.next_states: bytes | None = None
        self.take(record)

    def take(self, record: Record) -> None:
        """Begin with a record of which nothing is known but what it says."""
        names = names_of(record[NAMES])
        self.record: Record = record
        self.whole: list[bytes] = [*names, b""] if record[SEEN] and len(names) < MOST_ASKED else []
        self.ask_all()

    def ask_all(self) -> None:
        """Ask for every name again."""
        self.asked: list[bytes] = self.whole
        self.kept: list[int] | None = None
        self.answers: bytes = _UNKNOWN
        for folder in self.below:
            folder.is_left_out = False

    def leave_out(self, states: bytes) -> None:
        """Ask no more for the folders that say themselves what was said of them here."""
        if self.kept is not None or not self.below:
            return
        modes = dict(zip(self.whole, modes_of(states), strict=False))
        for folder in self.below:
            folder.is_left_out = bool(folder.whole) and _mode(folder.record) == modes.get(folder.name)
        names = {folder.name for folder in self.below if folder.is_left_out}
        if names:
            self.kept = [place for place, name in enumerate(self.whole) if name not in names]
            self.asked = [self.whole[place] for place in self.kept]

    def follow(self, record: Record, states: bytes | None) -> None:
        """Take another record of the same folder, with what was told where it was made."""
        was = self.record
        if record[NAMES] != was[NAMES] or record[SEEN] != was[SEEN]:
            if record[NAMES] == was[NAMES] and record[SEEN] and was[SEEN]:
                self.ask_all()  # of the same names
            else:
                self.take(record)
            self.states = states
            # What is left out of the one above was compared with the mode that this had then.
            if self.above is not None and (not self.whole or _mode(record) != _mode(was)):
                self.above.ask_all()
        elif record[SIGNATURE] != was[SIGNATURE]:
            if states is not None and states == self.next_states:
                self.answers = self.next_answers
            else:
                self.answers = _UNKNOWN
            if states is None or self.states is None or modes_of(states) != modes_of(self.states):
                self.ask_all()
            self.states = states
        self.record = record
        self.next_answers, self.next_states = _UNKNOWN, None


class StatCache:
    """All folders of a workspace, each after the one that it is in; for one scan at a time."""

    def __init__(self, records: Mapping[bytes, Record], folders: Sequence[CachedFolder]) -> None:
        self._records = records
        self._folders = folders
        # How many are left to the lister whatever is said.
        self._unasked = len([folder for folder in folders if not folder.asked])
        # What a scan came to that found everything as in these records.
        self.result: ScanResult | None = None

    def follows(self, records: Mapping[bytes, Record], states: Mapping[bytes, bytes]) -> bool:
        """Take the records of a later scan; False where they are of other folders, or rules."""
        if records is self._records:
            return True
        self.result = None
        if len(records) != len(self._folders):
            return False
        for folder in self._folders:
            record, was = records.get(folder.path), folder.record
            if record is was:
                continue
            if record is None or not _is_of_the_same(record, was):
                return False
            folder.follow(record, states.get(record[SIGNATURE]))
        self._records = records
        self._unasked = len([folder for folder in self._folders if not folder.asked])
        return True

    def changed(
        self, root: int, *, lister: Lister, doubt: int, late: Callable[[], bool] | None
    ) -> dict[bytes, Listing] | None:
        """Return those that are not as they were, open, as they were listed; None where a walk has to tell.

        Those with a flag of some that are in ``doubt`` are among them. ``late`` tells that no time is left.
        """
        found: dict[bytes, Listing] = {}
        above = [root]
        done = False
        try:
            done = self._look(above, found, lister=lister, doubt=doubt, late=late)
        except OSError:  # the walk says why
            return None
        finally:
            for descriptor in above[1:]:
                os.close(descriptor)
            if not done:
                close(found)
        return found if done else None

    def _look(
        self,
        above: list[int],
        found: dict[bytes, Listing],
        *,
        lister: Lister,
        doubt: int,
        late: Callable[[], bool] | None,
    ) -> bool:
        sheet = lister.sheet
        if sheet is None or self._unasked > _MOST_FOUND:
            return False
        enter, leave = os.open, os.close
        ask, rows, is_as_it_was = sheet.call, sheet.rows, sheet.memory.startswith
        how, mask = HOW_ASKED, repeat(ASKED)
        here = 0
        for folder in self._folders:
            while here >= folder.depth:
                leave(above.pop())
                here -= 1
            descriptor = enter(folder.name, DIRECTORY_FLAGS, dir_fd=above[-1])
            above.append(descriptor)
            here += 1
            if late is not None and late():
                return False
            record, asked, told = folder.record, folder.asked, None
            if asked and not any(map(ask, repeat(descriptor), asked, how[len(asked)], mask, rows)):
                told = (
                    folder.states if is_as_it_was(folder.answers) else _compared(folder, descriptor, lister)
                )
                if told is not None and told is folder.states and not record[FLAGS] & doubt:
                    continue
            if len(found) >= _MOST_FOUND:
                return False
            if folder.is_left_out and os.fstat(descriptor).st_mode != _mode(record):
                return False  # the one above went by as if it were as it was
            listing = _listed(descriptor, record, lister, told=told)
            if record[BELOW]:
                listing.descriptor = os.dup(descriptor)
            else:
                above.pop()
                here -= 1
            found[folder.path] = listing
        return True


def folders_of(records: Mapping[bytes, Record]) -> StatCache | None:
    """Return the folders of the last scan; None where they lie too deep, or not all can be come by."""
    top = records.get(b"")
    if top is None:
        return None
    folders: list[CachedFolder] = []
    left: list[tuple[bytes, Record, CachedFolder | None, int]] = [(b"", top, None, 1)]
    while left:
        path, record, above, depth = left.pop()
        folder = CachedFolder(path, record, above=above, depth=depth)
        folders.append(folder)
        if above is not None:
            above.below.append(folder)
        for name in reversed(record[BELOW]):
            inside = join(path, name)
            below = records.get(inside)
            # Where one could not be entered, or has other rules than its folder hands down, that is in doubt.
            if (below is None or below[ABOVE] != record[TOKEN]) and not record[FLAGS] & DOUBTFUL:
                return None
            if below is not None:
                left.append((inside, below, folder, depth + 1))
        if depth > _DEEPEST:
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


def _mode(record: Record) -> int | None:
    """Return the mode that a folder had; None where it did not tell, for its names are not proven."""
    seen = record[SEEN]
    return seen[0] if seen else None


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


def _compared(folder: CachedFolder, descriptor: int, lister: Lister) -> bytes | None:
    """Return what the last answers say of what is in a folder: its ``states`` if all is as in its record.

    None where its names are not proven.
    """
    sheet = lister.sheet
    assert sheet is not None
    whole = folder.whole
    if folder.kept is not None and any(
        map(sheet.call, repeat(descriptor), whole, HOW_ASKED[len(whole)], repeat(ASKED), sheet.rows)
    ):
        return None
    record, many = folder.record, len(folder.whole) - 1
    answers = sheet.answers(many + 1)
    folder.next_answers, folder.next_states = _UNKNOWN, None
    if sheet.itself(many) != (record[SEEN], lister.device):
        return None
    states = sheet.columns(many)
    if states != folder.states:
        if signature(record[NAMES], states) != record[SIGNATURE]:
            folder.next_answers, folder.next_states = chosen(answers, folder.kept), states
            return states
        folder.states = states
    folder.leave_out(states)
    folder.answers = chosen(answers, folder.kept)
    return folder.states
