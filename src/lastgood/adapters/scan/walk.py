"""Walks a workspace through directory descriptors; most directories cost a listing and a look-up.

A directory whose signature and conditions are those of the last scan is taken over as it is. The
others go to the examiner. Links are never followed, not even if they are swapped in meanwhile.
"""

from __future__ import annotations

import os
import time

from lastgood.adapters.scan.cache import DetailsLost
from lastgood.adapters.scan.form import (
    ABOVE,
    BELOW,
    BUDGET,
    BURIED,
    DEPENDENT,
    DOUBTFUL,
    FLAGS,
    NAMES,
    START,
    TOKEN,
    VANISHED,
)
from lastgood.adapters.scan.opening import DIRECTORY_FLAGS, descend, state_of
from lastgood.adapters.scan.twin import Twin, is_worthwhile, share
from lastgood.errors import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lastgood.adapters.scan.cache import Snapshot
    from lastgood.adapters.scan.examine import Examiner, Node
    from lastgood.adapters.scan.form import Record, Row
    from lastgood.adapters.scan.listing import Lister, Listing
    from lastgood.adapters.scan.sticky import Forced, Previous
    from lastgood.model.tree import TreeId

# So many directories are kept open on the way down; those above are opened anew when needed.
_OPEN_DIRECTORIES = 64
_REOPENED = 32


class Trust:
    """How much of the cache is believed.

    ``verdicts``: settings and rules outside are the same; ``objects``: the engine has freed nothing;
    ``index``: the project's index is the same; ``previous``: the previous tree is the last scan's.
    """

    __slots__ = ("index", "objects", "previous", "verdicts")

    def __init__(self, *, verdicts: bool, objects: bool, index: bool, previous: bool) -> None:
        self.verdicts = verdicts
        self.objects = objects
        self.index = index
        self.previous = previous


class Frame:
    """A directory whose subdirectories are being visited, the next one last in ``below``.

    ``left`` are those that the twin looks after. The descriptor is -1 while it is closed.
    """

    __slots__ = ("below", "buried", "descriptor", "left", "path", "token")

    def __init__(self, descriptor: int, *, path: bytes, token: bytes, below: list[bytes]) -> None:
        self.buried: Collection[bytes] = ()
        self.left: list[bytes] = []
        self.descriptor = descriptor
        self.path = path
        self.token = token
        self.below = below


class Walk:
    """One walk. ``kept`` are the records taken over, ``nodes`` what was examined, both by path.

    ``order`` lists every directory visited, parents first; ``barred`` tells why a directory could
    not be entered; ``renewed`` counts the records taken over that prove more than before.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        trust: Trust,
        lister: Lister,
        examiner: Examiner,
        forced: Forced,
        previous: Previous,
        late: Callable[[], bool],
    ) -> None:
        self._records = snapshot.records
        self._details = snapshot.details
        self._trust = trust
        self._lister = lister
        self._examiner = examiner
        self._forced = forced
        self._previous = previous
        self._late = late
        self._trusting = trust.verdicts and trust.objects and not forced.fresh.any
        self._parts: frozenset[bytes] = frozenset()  # what the twin looks after
        self._differing: set[bytes] | None = None  # what it found; None while that is not known
        self.kept: dict[bytes, Record] = {}
        self.nodes: dict[bytes, Node] = {}
        self.order: list[bytes] = []
        self.barred: dict[bytes, int] = {}
        self.renewed = 0

    def run(self, root: int, *, token: bytes) -> None:
        """Walk everything below an open directory; ``token`` stands for the rules above it."""
        trust = self._trust
        if not (trust.verdicts and trust.objects and is_worthwhile(self._records)):
            self._run(root, self._visit(os.dup(root), b"", token))
            return
        self._parts = frozenset(share(self._records))
        twin = Twin(root, parts=sorted(self._parts), records=self._records, lister=self._lister)
        try:
            began = time.monotonic()
            left_for_twin = self._run(root, self._visit(os.dup(root), b"", token))
            self._differing = twin.differing(after=time.monotonic() - began)
        finally:
            twin.end()
        self._parts = frozenset()
        for frame in left_for_twin:
            self._run(root, frame)

    def _run(self, root: int, first: Frame) -> list[Frame]:
        """Walk everything below a directory, and return what was left to the twin."""
        stack = [first]
        left: list[Frame] = []
        try:
            while stack:
                frame = stack[-1]
                if frame.below:
                    self._enter(frame, frame.below.pop(), stack=stack, root=root)
                    continue
                stack.pop()
                if frame.descriptor >= 0:
                    os.close(frame.descriptor)
                    frame.descriptor = -1
                if frame.left:
                    frame.below = frame.left
                    frame.left = []
                    left.append(frame)
        finally:
            for frame in stack:
                if frame.descriptor >= 0:
                    os.close(frame.descriptor)
        return left

    def _enter(self, frame: Frame, name: bytes, *, stack: list[Frame], root: int) -> None:
        path = frame.path + b"/" + name if frame.path else name
        if path in self._parts:
            frame.left.append(name)
            return
        if self._late():
            self.barred[path] = BUDGET
            return
        above = BURIED if name in frame.buried else frame.token
        if self._differing is not None and path not in self._differing:
            record = self._records.get(path)
            if record is not None and self._still_holds(record, path, above):
                stack.append(self._take_over(record, path, -1))
                return
        try:
            if frame.descriptor < 0:
                _reopen(root, stack)
            descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=frame.descriptor)
        except OSError as error:
            self.barred[path] = state_of(error) or VANISHED
            return
        stack.append(self._visit(descriptor, path, above))
        if len(stack) > _OPEN_DIRECTORIES:
            deep = stack[-_OPEN_DIRECTORIES]
            if deep.descriptor >= 0:
                os.close(deep.descriptor)
                deep.descriptor = -1

    def _take_over(self, record: Record, path: bytes, descriptor: int) -> Frame:
        self.order.append(path)
        self.kept[path] = record
        return Frame(descriptor, path=path, token=record[TOKEN], below=[*record[BELOW][::-1]])

    def _visit(self, descriptor: int, path: bytes, above: bytes) -> Frame:
        """Look at one open directory, and return it with the subdirectories to enter."""
        try:
            return self._look(descriptor, path, above)
        except BaseException:
            os.close(descriptor)
            raise

    def _look(self, descriptor: int, path: bytes, above: bytes) -> Frame:
        record = self._records.get(path)
        try:
            listing = self._lister.list(descriptor, known=record)
        except OSError as error:
            self.barred[path] = state_of(error) or VANISHED
            if not path:  # of nothing there is no tree
                reason = f"the workspace's folder cannot be listed: {error.strerror}"
                raise Storage(reason, hint="look at its disk and its permissions") from error
            return Frame(descriptor, path=path, token=above, below=[])
        if record is not None and listing.fits(record) and self._still_holds(record, path, above):
            if listing.proves_more(record):
                self.renewed += 1
                record = _with_names(record, listing)
            return self._take_over(record, path, descriptor)
        self.order.append(path)
        node = self._examine(path, listing, above=above, record=record)
        self.nodes[path] = node
        frame = Frame(descriptor, path=path, token=node.token, below=node.below[::-1])
        frame.buried = node.buried
        return frame

    def _still_holds(self, record: Record, path: bytes, above: bytes) -> bool:
        flags = record[FLAGS]
        if not flags and self._trusting:
            return record[ABOVE] == above
        trust = self._trust
        if flags & DOUBTFUL or record[ABOVE] != above or not (trust.verdicts and trust.objects):
            return False
        if flags & DEPENDENT and not (trust.index and (trust.previous or self._was_previous(record, path))):
            return False
        return not self._forced.fresh.touches(path)

    def _was_previous(self, record: Record, path: bytes) -> bool:
        """Tell whether the previous checkpoint held just this directory."""
        previous: TreeId | None = self._previous.tree(path)
        return previous is not None and (previous.tree, previous.modes) == (record[4], record[5])

    def _examine(self, path: bytes, listing: Listing, *, above: bytes, record: Record | None) -> Node:
        old: Mapping[bytes, Row] = {}
        if record is not None:
            rows = self._details.rows(record)
            if rows is None:
                raise DetailsLost
            old = {row[0]: row for row in rows}
        trust = self._trust
        was_previous = record is not None and (trust.previous or self._was_previous(record, path))
        same = (
            record is not None
            and record[ABOVE] == above
            and trust.verdicts
            and trust.index
            and was_previous
            and not self._forced.touches(path)
        )
        return self._examiner.examine(
            path, listing, above=above, record=record, old=old, same=same, held_by_old=was_previous
        )


def _reopen(root: int, stack: Sequence[Frame]) -> None:
    """Open the last directory on the way down again, and some above it, which are going to be next."""
    near = stack[-_REOPENED:]
    above = -1
    for frame in near:
        if frame.descriptor < 0:
            if above < 0:
                frame.descriptor = descend(root, frame.path)
            else:
                frame.descriptor = os.open(frame.path.rpartition(b"/")[2], DIRECTORY_FLAGS, dir_fd=above)
        above = frame.descriptor


def _with_names(record: Record, listing: Listing) -> Record:
    return (*record[:NAMES], listing.names, listing.seen, *record[START:])
