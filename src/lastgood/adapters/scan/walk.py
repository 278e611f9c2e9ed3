"""Walks a workspace through directory descriptors; most directories cost a listing and a look-up.

A directory whose signature and conditions are those of the last scan is taken over as it is. The
others go to the examiner. Links are never followed, not even if they are swapped in meanwhile.
"""

from __future__ import annotations

import os

from lastgood.adapters.scan.cache import DetailsLost
from lastgood.adapters.scan.examine import Listing
from lastgood.adapters.scan.form import (
    ABOVE,
    BELOW,
    BUDGET,
    BURIED,
    DEPENDENT,
    DOUBTFUL,
    FLAGS,
    FORMAT_DIRECTORY,
    FORMAT_MASK,
    SIGNATURE,
    TOKEN,
    VANISHED,
    evidence,
    sign,
)
from lastgood.adapters.scan.opening import DIRECTORY_FLAGS, GONE, descend, state_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lastgood.adapters.scan.cache import Snapshot
    from lastgood.adapters.scan.examine import Examiner, Node
    from lastgood.adapters.scan.form import Evidence, Record, Row
    from lastgood.adapters.scan.sticky import Forced, Previous
    from lastgood.model.tree import TreeId

    Listed = tuple[Sequence[str], Sequence[Evidence | int], bytes, Sequence[str]]

# So many directories are kept open on the way down; those above are opened anew when needed.
_OPEN_DIRECTORIES = 64


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
    """A directory whose subdirectories are being visited, the next one last in ``below``."""

    __slots__ = ("below", "buried", "descriptor", "path", "token")

    def __init__(self, descriptor: int, *, path: bytes, token: bytes, below: list[bytes]) -> None:
        self.buried: Collection[bytes] = ()
        self.descriptor = descriptor
        self.path = path
        self.token = token
        self.below = below


class Walk:
    """One walk. ``kept`` are the records taken over, ``nodes`` what was examined, both by path.

    ``order`` lists every directory visited, parents first; ``barred`` tells why a directory could
    not be entered.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        trust: Trust,
        examiner: Examiner,
        forced: Forced,
        previous: Previous,
        late: Callable[[], bool],
    ) -> None:
        self._records = snapshot.records
        self._details = snapshot.details
        self._trust = trust
        self._examiner = examiner
        self._forced = forced
        self._previous = previous
        self._late = late
        self._trusting = trust.verdicts and trust.objects and not forced.any
        self.kept: dict[bytes, Record] = {}
        self.nodes: dict[bytes, Node] = {}
        self.order: list[bytes] = []
        self.barred: dict[bytes, int] = {}

    def run(self, root: int, *, token: bytes) -> None:
        """Walk everything below an open directory; ``token`` stands for the rules above it."""
        stack: list[Frame] = []
        top = os.dup(root)
        try:
            frame = self._visit(top, b"", token)
            if frame is None:
                os.close(top)
            else:
                stack.append(frame)
            while stack:
                frame = stack[-1]
                if frame.below:
                    self._enter(frame, frame.below.pop(), stack=stack, root=root)
                else:
                    stack.pop()
                    if frame.descriptor >= 0:
                        os.close(frame.descriptor)
        finally:
            for frame in stack:
                if frame.descriptor >= 0:
                    os.close(frame.descriptor)

    def _enter(self, frame: Frame, name: bytes, *, stack: list[Frame], root: int) -> None:
        path = frame.path + b"/" + name if frame.path else name
        if self._late():
            self.barred[path] = BUDGET
            return
        try:
            if frame.descriptor < 0:
                frame.descriptor = descend(root, frame.path)
            descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=frame.descriptor)
        except OSError as error:
            self.barred[path] = state_of(error) or VANISHED
            return
        inner = None
        try:
            inner = self._visit(descriptor, path, BURIED if name in frame.buried else frame.token)
        finally:
            if inner is None:
                os.close(descriptor)
        if inner is None:
            return
        stack.append(inner)
        if len(stack) > _OPEN_DIRECTORIES:
            deep = stack[-_OPEN_DIRECTORIES]
            if deep.descriptor >= 0:
                os.close(deep.descriptor)
                deep.descriptor = -1

    def _visit(self, descriptor: int, path: bytes, above: bytes) -> Frame | None:
        """Look at one directory, and return it if there are subdirectories to enter."""
        try:
            listing = list_directory(descriptor)
        except OSError as error:
            self.barred[path] = state_of(error) or VANISHED
            return None
        self.order.append(path)
        record = self._records.get(path)
        if (
            record is not None
            and record[SIGNATURE] == listing[2]
            and not listing[3]
            and (
                (self._trusting and record[ABOVE] == above and not record[FLAGS])
                or self._still_holds(record, path, above)
            )
        ):
            self.kept[path] = record
            below = record[BELOW]
            return Frame(descriptor, path=path, token=record[TOKEN], below=[*below[::-1]]) if below else None
        node = self._examine(path, Listing(descriptor, *listing), above=above, record=record)
        self.nodes[path] = node
        if not node.below:
            return None
        frame = Frame(descriptor, path=path, token=node.token, below=node.below[::-1])
        frame.buried = node.buried
        return frame

    def _still_holds(self, record: Record, path: bytes, above: bytes) -> bool:
        trust = self._trust
        flags = record[FLAGS]
        if flags & DOUBTFUL or record[ABOVE] != above or not (trust.verdicts and trust.objects):
            return False
        if flags & DEPENDENT and not (trust.index and (trust.previous or self._was_previous(record, path))):
            return False
        return not self._forced.touches(path)

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


def list_directory(descriptor: int) -> Listed:
    """List an open directory (see `Listing`); OSError if that is refused."""
    found = list(os.scandir(descriptor))
    names = [entry.name for entry in found]
    try:
        stats = [
            evidence(seen)
            if (seen := entry.stat(follow_symlinks=False)).st_mode & FORMAT_MASK != FORMAT_DIRECTORY
            else seen.st_mode
            for entry in found
        ]
    except OSError:
        return _list_what_is_left(descriptor, names)
    return names, stats, sign(names, stats), ()


def _list_what_is_left(descriptor: int, names: Sequence[str]) -> Listed:
    """List a directory of which some entries are gone, or cannot be asked."""
    left: list[str] = []
    lost: list[str] = []
    stats: list[Evidence | int] = []
    for name in names:
        try:
            seen = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except OSError as error:
            if error.errno not in GONE:
                lost.append(name)
            continue
        left.append(name)
        stats.append(seen.st_mode if seen.st_mode & FORMAT_MASK == FORMAT_DIRECTORY else evidence(seen))
    return left, stats, sign(left, stats), lost
