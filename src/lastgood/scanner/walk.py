"""Walks a workspace through directory descriptors; most directories cost a listing and a look-up.

A directory whose signature and conditions are those of the last scan is taken over as it is. The
others go to the examiner. Links are never followed, not even if they are swapped in meanwhile.
"""

from __future__ import annotations

import os

from lastgood.errors import Storage
from lastgood.model.tree import DIRECTORY, FILE, LINK, Entry
from lastgood.paths import join, ways, within
from lastgood.scanner import (
    ABOVE,
    BARE,
    BELOW,
    BUDGET,
    BURIED,
    BYTES,
    CAPTURED,
    DEPENDENT,
    DOUBTFUL,
    FILES,
    FLAGS,
    FORMAT_DIRECTORY,
    FORMAT_FILE,
    FORMAT_MASK,
    GAPS,
    HIDDEN,
    IGNORED,
    LEFT,
    MODE,
    MODES,
    NAME,
    NAMES,
    NESTED,
    OID,
    PASSING,
    PERMISSIONS,
    PRIVATE,
    RACY,
    SEEN,
    SIGNATURE,
    SIZE,
    START,
    STATE,
    TOKEN,
    TOO_LARGE,
    TREE,
    VANISHED,
)
from lastgood.scanner.cache import DetailsLost
from lastgood.scanner.read import (
    DIRECTORY_FLAGS,
    Listing,
    descend,
    inodes_of,
    names_of,
    recorded_states,
    signature,
    state_of,
)
from lastgood.scanner.states import changed, one_of, patched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
    from typing import Protocol

    from lastgood.engine import ObjectWriter
    from lastgood.literals import EntryKind
    from lastgood.model.tree import TreeId
    from lastgood.scanner import Evidence, Record, Row
    from lastgood.scanner.cache import CachedTree, Details, Packed
    from lastgood.scanner.examine import Examiner, Node
    from lastgood.scanner.parallel import SharedLook
    from lastgood.scanner.read import Lister
    from lastgood.scanner.select import Forced, Previous
    from lastgood.scanner.watch import DirectoryWatch

    # Under which name an id was exchanged for another.
    Edit = tuple[bytes, bytes, bytes]
else:
    Protocol = object


# Of workspaces of up to so many files it is remembered what was said of each, in 42 bytes; and of each
# directory so often at most.
_REMEMBERED_FILES = 10_000
_MOST_STATES = 2
_FILES_ALONE = frozenset({FORMAT_FILE})
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
        self.verdicts: bool = verdicts
        self.objects: bool = objects
        self.index: bool = index
        self.previous: bool = previous

    @property
    def is_whole(self) -> bool:
        """Whether everything is believed."""
        return self.verdicts and self.objects and self.index and self.previous


class Frame:
    """A directory whose subdirectories are being visited, the next one last in ``below``.

    The descriptor is -1 while it is closed. ``inodes`` are those of subdirectories, by name, as far as they
    were asked for.
    """

    __slots__ = ("below", "buried", "descriptor", "inodes", "path", "token")

    def __init__(self, descriptor: int, *, path: bytes, token: bytes, below: list[bytes]) -> None:
        self.buried: Collection[bytes] = ()
        self.inodes: Mapping[bytes, int] = {}
        self.descriptor: int = descriptor
        self.path: bytes = path
        self.token: bytes = token
        self.below: list[bytes] = below

    def close(self) -> None:
        """Close the directory; harmless when repeated."""
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            os.close(descriptor)


class Walk:
    """One walk. ``kept`` are the records taken over, ``nodes`` what was examined, both by path.

    ``order`` lists every directory visited, parents first; ``not_entered`` tells of others why they could not
    be. Of those some were ``gone_at_entry``, listed a moment before; others, which were recorded, are
    ``gone_from_listing``: both with the inode that they had, if it is known. ``renewed`` counts the records
    taken over that prove more than before. Where a watch, or a look at known folders, tells in which
    directories something may have changed, the others are not visited: all records are taken over at once,
    and ``dropped`` are those of directories that are none any more.
    """

    def __init__(
        self,
        snapshot: CachedTree,
        *,
        trust: Trust,
        lister: Lister,
        examiner: Examiner,
        forced: Forced,
        previous: Previous,
        late: Callable[[], bool],
        found: dict[bytes, Listing] | None = None,
        shared: SharedLook | None = None,
    ) -> None:
        self._is_large = snapshot.is_large
        # What two processes have begun already.
        self._shared = shared
        self._records = snapshot.records
        self._states = snapshot.states
        self._remembers = False
        # The folders that are not as they were, open, where a look at all of them has told that.
        self._found = found
        self._details = snapshot.details
        self._trust = trust
        self._lister = lister
        self.watch: DirectoryWatch | None = lister.watch
        self._examiner = examiner
        self._forced = forced
        self._previous = previous
        self._late = late
        self._trusting = trust.verdicts and trust.objects and not forced.fresh.any
        # What was said of what is in directories that are not as they were, where two processes looked.
        self._differing: dict[bytes, bytes] | None = None
        # Where alone anything can have changed, and the way there; None where everything is looked at.
        self._ways: Collection[bytes] | None = None
        # The names of those, by the directory that they are in; once they are asked for.
        self._leading: Mapping[bytes, Collection[bytes]] | None = None
        self.dropped: list[bytes] = []
        self.kept: MutableMapping[bytes, Record] = {}
        self.nodes: dict[bytes, Node] = {}
        self.order: list[bytes] = []
        self.not_entered: dict[bytes, int] = {}
        self.gone_at_entry: dict[bytes, int | None] = {}
        self.gone_from_listing: dict[bytes, int | None] = {}
        self.renewed: int = 0

    def run(self, root: int, *, token: bytes) -> None:
        """Walk everything below an open directory; ``token`` stands for the rules above it."""
        trust = self._trust
        top = self._records.get(b"")
        self._remembers = top is not None and top[FILES] <= _REMEMBERED_FILES
        _forget_old(self._states, self._records)
        if self._found is not None:
            self._go_by(root, self._found)
            return
        if self._trusting and self.watch is not None:
            self._ways = self.watch.ways(self._records, is_dependent=self._is_dependent)
            if self._ways is not None:
                from lastgood.scanner.revised import revise  # lazily: only where a process watches

                self.kept = revise(self._records)
        elif trust.verdicts and trust.objects and self.watch is None and self._is_large:
            self._share(root)
        self._run(root, self._begun(os.dup(root), top, token))

    @property
    def _is_dependent(self) -> bool:
        """Whether what depends on the index or the previous checkpoint has to be looked at."""
        return not (self._trust.index and self._trust.previous)

    def _share(self, root: int) -> None:
        """Have two processes look which directories are not as they were, where that pays."""
        look = self._shared
        if look is None:
            from lastgood.scanner.parallel import begin

            look = begin(root, records=self._records, lister=self._lister)
        if look is None:
            return
        try:
            states = self._states if self._remembers else None
            self._differing = look.differing(
                late=None if self._late is never else self._late, remembered=states
            )
        finally:
            if look is not self._shared:  # else it is ended by whoever began it
                look.end()
        if self._trusting:
            doubt = DOUBTFUL | DEPENDENT if self._is_dependent else DOUBTFUL
            found = {path for path, record in self._records.items() if record[FLAGS] & doubt}
            found |= self._differing.keys()
            self._ways = found | ways(found)
            self.kept = dict(self._records)

    def _go_by(self, root: int, found: dict[bytes, Listing]) -> None:
        """Go on where a look found that something is not as it was."""
        self._ways = found.keys() | ways(found) | {b""} if found else found.keys()
        self.kept = dict(self._records) if found else self._records
        self._go_on(root, found)

    def _go_on(self, root: int, found: dict[bytes, Listing]) -> None:
        """Judge the folders that were found, those above them first."""
        assert self._ways is not None
        whole: list[bytes] = []
        for path in sorted(self._ways):
            if whole and any(within(path, one) for one in whole):
                continue  # that walk came by here
            listing = found.pop(path, None)
            if listing is None:
                self.order.append(path)
                continue
            record = self._records[path]
            try:
                frame = self._look(listing.descriptor, path, record[ABOVE], listing)
            except BaseException:
                os.close(listing.descriptor)
                raise
            same = frame.token == record[TOKEN] and tuple(frame.below[::-1]) == record[BELOW]
            if same and not record[FLAGS] & DOUBTFUL:
                frame.close()
            else:
                whole.append(path)
                self._run(root, frame)

    def _begun(self, descriptor: int, top: Record | None, token: bytes) -> Frame:
        """Look at the top, unless nothing was heard of it: it may hold thousands of folders."""
        known = top is not None and self._is_unchanged(top, b"") and self._still_holds(top, b"", token)
        if top is not None and known:
            return self._take_over(top, b"", descriptor)
        return self._visit(descriptor, b"", token)

    def _run(self, root: int, first: Frame) -> None:
        """Walk everything below a directory."""
        stack = [first]
        try:
            while stack:
                frame = stack[-1]
                if not frame.below:
                    stack.pop().close()
                    continue
                inside = self._enter(frame, frame.below.pop(), stack=stack, root=root)
                if inside is not None:
                    _go_down(inside, stack)
        finally:
            for frame in stack:
                frame.close()

    def _enter(self, frame: Frame, name: bytes, *, stack: Sequence[Frame], root: int) -> Frame | None:
        """Look at a subdirectory, and return it with those in it, if it can be entered and has to be."""
        path = frame.path + b"/" + name if frame.path else name
        above = BURIED if name in frame.buried else frame.token
        record = self._records.get(path)
        if (
            record is not None
            and self._ways is not None
            and path not in self._ways
            and record[ABOVE] == above
        ):
            return None
        if self._late():
            self._note_not_entered(path, BUDGET)
            return None
        told = self.watch is not None or self._differing is not None
        known = record if told else None
        if known is not None and self._is_unchanged(known, path) and self._still_holds(known, path, above):
            return self._take_over(known, path, -1)
        try:
            if frame.descriptor < 0:
                _reopen(root, stack)
            descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=frame.descriptor)
        except OSError as error:
            state = state_of(error)
            if state is None:  # or one above it, where that had to be opened anew
                self.gone_at_entry[path] = frame.inodes.get(name) if frame.descriptor >= 0 else None
            self._note_not_entered(path, state or VANISHED)
            return None
        # Who watches has to hear of it before it is looked at.
        is_new = record is None or self.watch is not None
        visit = self._visit if is_new else self._visit_known
        return visit(descriptor, path, above)

    def _note_not_entered(self, path: bytes, state: int) -> None:
        """Take note that a directory cannot be looked at, and why."""
        self.not_entered[path] = state
        self._let_go(path)

    def _note_replaced(self, path: bytes, descriptor: int, record: Record | None) -> None:
        """Take note if an open folder has the name of another one, which may be where the walk has been."""
        seen = () if record is None else record[SEEN]
        if seen and os.fstat(descriptor).st_ino != seen[-1]:
            self.gone_from_listing[path] = seen[-1]

    def _note_gone(self, path: bytes, names: Iterable[bytes]) -> None:
        """Take note of folders in one that are there no more: they may be where the walk has been."""
        for name in names:
            record = self._records.get(join(path, name))
            seen = () if record is None else record[SEEN]
            self.gone_from_listing[join(path, name)] = seen[-1] if seen else None

    def _let_go(self, path: bytes) -> None:
        """Forget what was taken over of a directory, and of all below it."""
        if self._ways is None:
            return
        left = [path]
        while left:
            one = left.pop()
            record = self.kept.pop(one, None)
            if record is not None:
                self.dropped.append(one)
                left += [join(one, name) for name in record[BELOW]]

    @property
    def visited(self) -> Collection[bytes]:
        """All directories that are known of by now."""
        return self.order if self._ways is None else self.kept.keys() | self.nodes.keys()

    @property
    def is_sparing(self) -> bool:
        """Whether only those directories are in ``order`` of which something may have changed."""
        return self._ways is not None

    def _is_unchanged(self, record: Record, path: bytes) -> bool:
        """Tell whether a directory need not be looked at: somebody else has, or would have heard of it."""
        if self.watch is not None:
            return self.watch.vouches(path, record)
        return self._differing is not None and path not in self._differing

    def _take_over(self, record: Record, path: bytes, descriptor: int) -> Frame:
        self.order.append(path)
        self.kept[path] = record
        return Frame(descriptor, path=path, token=record[TOKEN], below=self._to_enter(record, path))

    def _to_enter(self, record: Record, path: bytes) -> list[bytes]:
        """Return which subdirectories of one that is taken over have to be looked at, the first of them last.

        As it stands with its rules, so does all below it that was made under these, unless it is on the ways.
        One that has no record, as it could not be entered, is a gap here.
        """
        if self._ways is None or record[GAPS]:
            return [*record[BELOW][::-1]]
        if self._leading is None:
            self._leading = by_parent(filter(None, self._ways))
        leading = self._leading.get(path)
        return [name for name in record[BELOW][::-1] if name in leading] if leading else []

    def _visit_known(self, descriptor: int, path: bytes, above: bytes) -> Frame | None:
        """Look at an open directory that was recorded; None where there is nothing to be entered.

        Most are as they were, and pass here by as few calls as may be.
        """
        record = self._records[path]
        try:
            told = None if self._differing is None else self._differing.get(path)
            states = self._lister.states_of(descriptor, record, told=told)
            if (
                states is None
                or signature(record[NAMES], states) != record[SIGNATURE]
                or not self._still_holds(record, path, above)
            ):
                listing = None
                if states is not None:
                    listing = Listing(descriptor, record[NAMES], states=states, seen=record[SEEN])
                return self._look(descriptor, path, above, listing)
            self.order.append(path)
            self.kept[path] = record
            if self._remembers:
                self._states[record[SIGNATURE]] = states
            if record[BELOW]:
                return Frame(descriptor, path=path, token=record[TOKEN], below=[*record[BELOW][::-1]])
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def _visit(self, descriptor: int, path: bytes, above: bytes) -> Frame:
        """Look at one open directory, and return it with the subdirectories to enter."""
        try:
            return self._look(descriptor, path, above)
        except BaseException:
            os.close(descriptor)
            raise

    def _look(self, descriptor: int, path: bytes, above: bytes, listing: Listing | None = None) -> Frame:
        """Do so; ``listing`` is what was found in it, if it was looked at already."""
        record = self._records.get(path)
        heard = None if listing is not None else self._listed_by_watch(descriptor, path, record)
        covered = heard is None and self.watch is not None and self.watch.cover(descriptor, path)
        try:
            listing = listing or heard or self._lister.list(descriptor, known=record)
        except OSError as error:
            self._note_not_entered(path, state_of(error) or VANISHED)
            if not path:  # of nothing there is no tree
                reason = f"the workspace's folder cannot be listed: {error.strerror}"
                raise Storage(reason, hint="look at its disk and its permissions") from error
            return Frame(descriptor, path=path, token=above, below=[])
        if self._remembers:
            self._states[listing.signature] = listing.states
        if self.watch is not None and heard is None:
            covered = covered and not listing.lost
            self.watch.listed(
                path,
                descriptor,
                names=listing.names,
                states=listing.states,
                covered=covered,
                may_have_links=self._lister.may_have_links,
            )
        self._note_replaced(path, descriptor, record)
        if record is not None and listing.fits(record) and self._still_holds(record, path, above):
            if listing.proves_more(record):
                self.renewed += 1
                record = _with_names(record, listing)
            return self._take_over(record, path, descriptor)
        self.order.append(path)
        node = None if record is None else self._revised(path, listing, above=above, record=record)
        if node is None:
            node = self._examine(path, listing, above=above, record=record)
        self.nodes[path] = node
        lost = frozenset[bytes]() if record is None else {*record[BELOW]}.difference(node.below)
        if lost:
            self._note_gone(path, lost.difference(_folders_in(listing)))
        for name in lost:
            self._let_go(join(path, name))
        frame = Frame(descriptor, path=path, token=node.token, below=node.below[::-1])
        frame.buried = node.buried
        frame.inodes = {**listing.inodes, **inodes_of(descriptor, node.below)}
        return frame

    def _listed_by_watch(self, descriptor: int, path: bytes, record: Record | None) -> Listing | None:
        """List a directory by asking for what was heard of alone; None where that is not enough.

        Each has to be otherwise than it was recorded. Who has a file open is told by the name by which it was
        opened, though that is another file's by now, or nobody's: then it is another one that changed.
        """
        if self.watch is None or record is None:
            return None
        heard = self.watch.heard_of(path, record)
        told = None if heard is None else self._lister.ask_alone(descriptor, heard, known=record)
        states = None if told is None else self._told(record)
        if heard is None or told is None or states is None or len(told) < len(heard):
            return None
        names = names_of(record[NAMES])
        found = {names.index(name): stat for name, stat in told.items()}
        if any(one_of(states, place) == stat for place, stat in found.items()):
            return None
        states = patched(states, found)
        listing = Listing(descriptor, record[NAMES], states=states, seen=record[SEEN])
        listing.told = told
        self.watch.asked_alone(path)
        return listing

    def _told(self, record: Record) -> bytes | None:
        """Return what was said of the entries of a directory when it was recorded, which its rows say, too.

        None where they do not say all, as of what is left out.
        """
        told = self._states.get(record[SIGNATURE])
        if told is not None:
            return told
        rows = self._details.rows(record)
        return None if rows is None else recorded_states(record, rows)

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

    def _revised(self, path: bytes, listing: Listing, *, above: bytes, record: Record) -> Node | None:
        """Return the node of a directory of which it is known in which entries it differs; else None.

        Its names are the same, no rule ignores any, and all that decides is as it was: so what did not change
        stays as it is, as in a directory in which nothing did.
        """
        if listing.lost or record[FLAGS] & ~NESTED or listing.names != record[NAMES]:
            return None
        if not self._still_holds(record, path, above):
            return None
        told: Mapping[bytes, Evidence | int] | None = listing.told
        if told is None:
            was = self._told(record)
            if was is None or len(was) != len(listing.states):
                return None
            names = names_of(listing.names)
            told = {names[place]: said for place, said in changed(was, listing.states).items()}
        rows = self._rows_then(record)
        return self._examiner.revise(path, listing, record=record, rows=[*rows], changed=told)

    def _rows_then(self, record: Record) -> Sequence[Row]:
        rows = self._details.rows(record)
        if rows is None:
            raise DetailsLost
        return rows

    def _examine(self, path: bytes, listing: Listing, *, above: bytes, record: Record | None) -> Node:
        old: Mapping[bytes, Row] = {}
        if record is not None:
            old = {row[NAME]: row for row in self._rows_then(record)}
        trust = self._trust
        was_previous = record is not None and (trust.previous or self._was_previous(record, path))
        same_rules = (
            record is not None
            and record[ABOVE] == above
            and trust.verdicts
            and not self._forced.touches(path)
        )
        return self._examiner.examine(
            path,
            listing,
            above=above,
            record=record,
            old=old,
            same_rules=same_rules,
            same_index=trust.index,
            held_by_old=was_previous,
        )


def never() -> bool:
    """Tell that time is left, where nothing bounds it."""
    return False


def _forget_old(states: dict[bytes, bytes], records: Mapping[bytes, Record]) -> None:
    """Let go of what was said of directories as they were, once that is as much as of them as they are."""
    if len(states) <= _MOST_STATES * (len(records) + 1):
        return
    present = {record[SIGNATURE] for _, record in records.items()}
    # At one go each: other threads' scans add to them.
    kept = [(signature, told) for signature, told in states.copy().items() if signature in present]
    states.clear()
    states.update(kept)


def _folders_in(listing: Listing) -> set[bytes]:
    """Return the names in a listing that folders have, ignored or not."""
    found = zip(names_of(listing.names), listing.stats, strict=True)
    return {name for name, stat in found if isinstance(stat, int)}


def by_parent(paths: Iterable[bytes]) -> dict[bytes, set[bytes]]:
    """Return the names of some paths by the directory that holds them."""
    found: dict[bytes, set[bytes]] = {}
    for path in paths:
        above, _, name = path.rpartition(b"/")
        found.setdefault(above, set()).add(name)
    return found


def _go_down(frame: Frame, stack: list[Frame]) -> None:
    """Visit what is in a directory next, if there is anything to be entered."""
    if not frame.below:
        frame.close()
        return
    stack.append(frame)
    if len(stack) > _OPEN_DIRECTORIES:
        stack[-_OPEN_DIRECTORIES].close()


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


# --- Puts the result together from the bottom up: tree objects, and the records for the next scan ---


class Visited(Protocol):
    """What a walk came to; see `Walk`."""

    kept: MutableMapping[bytes, Record]
    nodes: dict[bytes, Node]
    order: list[bytes]
    not_entered: dict[bytes, int]


class Builder:
    """Makes the records of a walk's directories. ``changed`` tells that one of them is not the old one.

    ``edits`` are the rows of all files that have other contents now, by path; None where more is otherwise.
    """

    def __init__(
        self, walk: Visited, *, before: Mapping[bytes, Record], details: Details, writer: ObjectWriter
    ) -> None:
        self._walk = walk
        self._before = before
        self._details = details
        self._writer = writer
        self.records: MutableMapping[bytes, Record] = walk.kept
        self.changed: bool = False
        self.edits: list[tuple[bytes, Row, Row]] | None = []

    def run(self) -> MutableMapping[bytes, Record]:
        """Return the record of every directory visited."""
        walk = self._walk
        # By directory the names in it that stand for something else by now; None where it is not known.
        again: dict[bytes, list[bytes] | None] = {
            path.rpartition(b"/")[0]: None for path in walk.not_entered if path
        }
        if not walk.nodes and not again:
            self.changed = len(self.records) != len(self._before)
            self.edits = None if self.changed else []
            return self.records
        self.changed = True
        for path in reversed(walk.order):
            # A node is let go of once its record is made, which has room in its place.
            node, below = walk.nodes.pop(path, None), again.get(path, ())
            if node is None and path not in again:
                continue
            record = None if below is None else self._edited(path, node, below)
            if record is None:
                self.edits = None
                record = self._from_rows(path, self._rows_of(path)) if node is None else self._from_node(node)
            self.records[path] = record
            if path and not _same_result(record, self._before.get(path)):
                above, _, name = path.rpartition(b"/")
                known = again.setdefault(above, [])
                if known is not None:
                    known.append(name)
        return self.records

    def _edited(self, path: bytes, node: Node | None, below: Iterable[bytes]) -> Record | None:
        """Make the record of a directory in which only contents are others, from what it was before.

        Its counts and its tree differ by those; None where more does, or the tree is not at hand.
        """
        old = self._before.get(path)
        if old is None or old[MODES] or old[GAPS] or old[PRIVATE] or old[FLAGS] & ~NESTED:
            return None
        inside = self._edits_below(path, below)
        here = () if node is None else _edited_in(node)
        if inside is None or here is None:
            return None
        edits, files, size, left = inside
        others: list[tuple[bytes, Row, Row]] = []
        for was, row in here:
            size += row[SIZE] - was[SIZE]
            if row[OID] != was[OID]:
                edits.append((row[NAME], was[OID], row[OID]))
                others.append((join(path, row[NAME]), was, row))
        tree = self._writer.edited_directory(old[TREE], edits)
        if tree is None:
            return None
        if self.edits is not None:
            self.edits += others
        counts = old[FILES] + files, old[BYTES] + size, old[LEFT] + left
        if node is None:
            stands = self.records[path]
            return (*stands[:TREE], tree, b"", *counts, (), (), *stands[BELOW:])
        rows, packed = node.take_rows()
        start, length = self._details.add(rows, packed=packed)
        head = (node.signature, node.above, node.token, node.flags, tree, b"")
        return (*head, *counts, (), (), old[BELOW], node.names, node.seen, start, length)

    def _edits_below(self, path: bytes, names: Iterable[bytes]) -> tuple[list[Edit], int, int, int] | None:
        """Return what is otherwise in directories below one, with files, bytes and ignored ones more.

        None where permissions are to be told of one, or it was not captured, or is not any more.
        """
        edits: list[Edit] = []
        files = size = left = 0
        for name in names:
            inside = join(path, name)
            was, now = self._before.get(inside), self.records.get(inside)
            if was is None or now is None or was[MODES] or now[MODES] or (was[FLAGS] | now[FLAGS]) & BARE:
                return None
            files += now[FILES] - was[FILES]
            size += now[BYTES] - was[BYTES]
            left += now[LEFT] - was[LEFT]
            if now[TREE] != was[TREE]:
                edits.append((name, was[TREE], now[TREE]))
        return edits, files, size, left

    def _rows_of(self, path: bytes) -> Sequence[Row]:
        rows = self._details.rows(self.records[path])
        if rows is None:
            raise DetailsLost
        return rows

    def _from_rows(self, path: bytes, rows: Sequence[Row]) -> Record:
        """Make a record anew for a directory that is as it was, though something below it is not."""
        old = self.records[path]
        return self._record(path, rows, (old[0], old[1], old[2], old[FLAGS] & ~(DOUBTFUL | BARE)), old=old)

    def _from_node(self, node: Node) -> Record:
        rows, packed = node.take_rows()
        flags = node.flags | (0 if self._holds_its_rules(node, rows) else DOUBTFUL)
        head = (node.signature, node.above, node.token, flags)
        return self._record(node.path, rows, head, node=node, packed=packed)

    def _holds_its_rules(self, node: Node, rows: Sequence[Row]) -> bool:
        """Tell whether ignore files are captured as they were when a directory's rules were read from them.

        If not, they changed in between, and no other scan may believe that those are its rules.
        """
        if not node.texts:
            return True
        read = {name: self._writer.blob(text) for name, text in node.texts.items() if isinstance(text, bytes)}
        held = {
            row[NAME]: row[OID]
            for row in rows
            if row[NAME] in node.texts and row[STATE] <= RACY and row[MODE] & FORMAT_MASK == FORMAT_FILE
        }
        return read == held

    def _record(
        self,
        path: bytes,
        rows: Sequence[Row],
        head: tuple[bytes, bytes, bytes, int],
        *,
        old: Record | None = None,
        node: Node | None = None,
        packed: Packed = b"",
    ) -> Record:
        counts, kept, identity = self._counted(path, rows)
        flags = head[3] | (DOUBTFUL if counts.passing else 0)
        if head[1] == BURIED and not counts.captured and not counts.gaps:
            flags |= BARE
        start, length = self._details.add(kept, packed=packed if kept is rows else b"")
        if node is not None:
            private, entered = tuple(node.private), tuple(sorted(node.below))
            names, seen = node.names, node.seen
        else:
            assert old is not None
            private, entered = old[PRIVATE], old[BELOW]
            names, seen = old[NAMES], old[SEEN]
        captured = {row[NAME] for row in kept if row[STATE] <= RACY} if private else frozenset()
        return (
            *head[:3],
            flags,
            identity.tree,
            identity.modes,
            counts.files,
            counts.bytes,
            counts.ignored,
            tuple(counts.gaps),
            tuple(name for name in private if name in captured),
            entered,
            names,
            seen,
            start,
            length,
        )

    def _counted(self, path: bytes, rows: Sequence[Row]) -> tuple[DirectoryCounts, Sequence[Row], TreeId]:
        """Return what a directory's rows add up to, those that stay, and the identity of what it holds."""
        counts = DirectoryCounts()
        plain = self._plain(path, rows)
        if plain is not None:
            counts.captured = len(rows)
            counts.files, counts.bytes, counts.ignored = plain[1]
            return counts, rows, self._writer.plain_directory(plain[0])
        kept: list[Row] = []
        entries: list[Entry] = []
        for row in rows:
            settled, below = row, None
            if row[MODE] & FORMAT_MASK == FORMAT_DIRECTORY:
                inside = join(path, row[NAME])
                below = self.records.get(inside)
                settled = self._settled(row, inside, below)
            counts.take(settled, below)
            if settled[STATE] <= RACY:
                entries.append(entry_of(settled, below))
            if settled[STATE] != VANISHED:
                kept.append(settled)
        return counts, kept, self._writer.directory(entries)

    def _plain(
        self, path: bytes, rows: Sequence[Row]
    ) -> tuple[Sequence[tuple[bytes, int, bytes]], tuple[int, int, int]] | None:
        """Return name, mode and id of each entry, and files, bytes and ignored ones in all of them.

        None unless there are only files and directories, all captured, with no permissions to be told below.
        """
        if not rows:
            return (), (0, 0, 0)
        names, modes, lengths, _, _, _, oids, states = zip(*rows, strict=True)
        if any(states):  # of what is captured it is 0
            return None
        if {mode & FORMAT_MASK for mode in set(modes)} == _FILES_ALONE:
            return [*zip(names, modes, oids, strict=True)], (len(rows), sum(lengths), 0)
        plain = []
        files = size = ignored = 0
        inside = path + b"/" if path else b""
        for name, mode, length, oid in zip(names, modes, lengths, oids, strict=True):
            form = mode & FORMAT_MASK
            if form == FORMAT_FILE:
                files += 1
                size += length
                plain.append((name, mode, oid))
            elif form == FORMAT_DIRECTORY:
                below = self.records.get(inside + name)
                if below is None or below[MODES] or below[FLAGS] & BARE:
                    return None
                files += below[FILES]
                size += below[BYTES]
                ignored += below[LEFT]
                plain.append((name, mode, below[TREE]))
            else:
                return None
        return plain, (files, size, ignored)

    def _settled(self, row: Row, path: bytes, record: Record | None) -> Row:
        """Return the row of a directory with what has become of it, if it was to be entered."""
        if row[STATE] not in {CAPTURED, IGNORED, BUDGET}:
            return row
        if record is not None:
            bare = row[SIZE] == 1 and record[FLAGS] & BARE
            return _with_state(row, IGNORED if bare else CAPTURED)
        reason = self._walk.not_entered.get(path)
        return row if reason is None else _with_state(row, reason)


class DirectoryCounts:
    """Adds up the rows of one directory."""

    __slots__ = ("bytes", "captured", "files", "gaps", "ignored", "passing")

    def __init__(self) -> None:
        self.captured: int = 0
        self.gaps: list[tuple[bytes, int, int]] = []
        self.files: int = 0
        self.bytes: int = 0
        self.ignored: int = 0
        self.passing: bool = False

    def take(self, row: Row, below: Record | None) -> None:
        """Count one row; ``below`` is the record of the directory that it names."""
        state = row[STATE]
        if state in PASSING:
            self.passing = True
        if state <= RACY:
            self._capture(row, below)
        elif state == IGNORED:
            self.ignored += 1
        elif state not in {HIDDEN, VANISHED}:
            self.gaps.append((row[NAME], state, row[SIZE] if state == TOO_LARGE else -1))

    def _capture(self, row: Row, below: Record | None) -> None:
        self.captured += 1
        form = row[MODE] & FORMAT_MASK
        if form == FORMAT_DIRECTORY:
            assert below is not None
            self.files += below[FILES]
            self.bytes += below[BYTES]
            self.ignored += below[LEFT]
            return
        self.files += 1
        if form == FORMAT_FILE:
            self.bytes += row[SIZE]


def _edited_in(node: Node) -> Sequence[tuple[Row, Row]] | None:
    """Return files as they were and are where they differ; None where more does than times and contents."""
    if node.before is None:
        return None
    rows = [(was, node.rows[place]) for place, was in node.before.items()]
    for was, row in rows:
        if row[MODE] != was[MODE] or row[STATE] != CAPTURED or row[MODE] & FORMAT_MASK != FORMAT_FILE:
            return None
    return rows


def entry_of(row: Row, below: Record | None) -> Entry:
    """Return the entry that a captured row stands for."""
    kind = kind_of(row[MODE])
    if kind == DIRECTORY:
        assert below is not None
        return Entry(
            name=row[NAME], kind=kind, mode=row[MODE] & PERMISSIONS, oid=below[TREE], modes=below[MODES]
        )
    mode = 0 if kind == LINK else row[MODE] & PERMISSIONS
    return Entry(name=row[NAME], kind=kind, mode=mode, oid=row[OID])


def _with_state(row: Row, state: int) -> Row:
    return (row[0], row[1], row[2], row[3], row[4], row[5], row[6], state)


def _same_result(record: Record, old: Record | None) -> bool:
    """Tell whether the directory above would count and store the same for both."""
    return (
        old is not None
        and record[TREE] == old[TREE]
        and record[MODES:GAPS] == old[MODES:GAPS]
        and (record[FLAGS] ^ old[FLAGS]) & BARE == 0
    )


def kind_of(mode: int) -> EntryKind:
    """Return the kind of a captured entry."""
    form = mode & FORMAT_MASK
    return DIRECTORY if form == FORMAT_DIRECTORY else FILE if form == FORMAT_FILE else LINK
