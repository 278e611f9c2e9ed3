"""The only hand that changes a workspace's files."""

from __future__ import annotations

import os

from lastgood.adapters.apply.aside import is_temporary, token_of
from lastgood.adapters.apply.displaced import Displaced
from lastgood.adapters.apply.flush import flush, leave
from lastgood.adapters.apply.kept import Kept
from lastgood.adapters.apply.places import Directories, Nearby, is_nowhere, open_root
from lastgood.adapters.apply.reading import content_at, entry_at
from lastgood.adapters.apply.run import Run
from lastgood.adapters.apply.site import Site
from lastgood.adapters.apply.writing import CHUNK
from lastgood.adapters.room import crowd, no_room
from lastgood.errors import Storage, Unsafe, crowded
from lastgood.model.plan import Outcome, Step
from lastgood.model.tree import DIRECTORY, FILE, Entry
from lastgood.names import join, parent, printable, to_text
from lastgood.rules.compare import StoredTree
from lastgood.rules.hostile import TreeFault, link_faults, path_faults, refuse, refuse_faults
from lastgood.rules.planner import action_between
from lastgood.rules.restore import in_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from lastgood.adapters.apply.displaced import Settled
    from lastgood.adapters.apply.flush import Flush
    from lastgood.errors import NoRoom
    from lastgood.model.plan import Action
    from lastgood.model.settings import Durability
    from lastgood.model.tree import TreeId
    from lastgood.ports.engine import ObjectReader
    from lastgood.ports.workspace import Stamp

_UNTOUCHED: frozenset[Action] = frozenset({"keep", "skip"})
_NEW_ROOT_MODE = 0o700
# So many files are opened besides those that are written and their directories: packs, most of all.
_BESIDE = 8
# Stands for an operation's id in temporary names where nothing can be interrupted and recovered.
_NEW = "new"
_RECOVER_HINT = (
    "free some, then finish the restore: lastgood recover    or take it back: lastgood recover --rollback"
)


class Looking:
    """Answers what paths hold now; the directories near the last one stay open until it ends."""

    def __init__(self, root: bytes) -> None:
        self._path = root
        self._root = -1
        self._nearby = Nearby(-1)

    def __enter__(self) -> Callable[[bytes], Entry | None]:
        return self.present

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._nearby.close()
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def present(self, path: bytes) -> Entry | None:
        """Return what a path holds, as `DescriptorApplier.present` does."""
        name = path.rpartition(b"/")[2]
        try:
            # The root is looked at through itself.
            found = entry_at(name or b".", self.directory(path))
        except OSError as error:
            busy = crowded(error)
            if busy is not None:
                raise busy from error
            return None if is_nowhere(error) else Entry(name=name, kind=FILE, mode=0, oid=b"")
        return found.replace(name=b"") if found is not None and not name else found

    def directory(self, path: bytes) -> int:
        """Return the descriptor of the directory that holds a path."""
        if b"\0" in path or (path and not {b"", b".", b".."}.isdisjoint(path.split(b"/"))):
            raise Unsafe(
                f"{printable(to_text(path))} is no path inside the workspace", hint="name a path in it"
            )
        if self._root < 0:
            self._root = open_root(self._path)
            self._nearby = Nearby(self._root)
        return self._nearby.open(parent(path))


class DescriptorApplier:
    """Changes the workspace at ``root`` (a real path) through descriptors of its directories.

    ``kept`` is a folder outside for what people may still be writing to.
    """

    def __init__(self, root: bytes, *, kept: bytes | None = None) -> None:
        self._root = root
        self._kept = kept

    def present(self, path: bytes) -> Entry | None:
        """Return what a path holds now, hashed anew; None if nothing (or no directory above it).

        ``oid`` is empty for a directory, and for what cannot be read as a whole.
        """
        with Looking(self._root) as present:
            return present(path)

    def looking(self) -> Looking:
        """Look at many paths one after another, in their order, while nothing of ours changes any."""
        return Looking(self._root)

    def read(self, path: bytes, entry: Entry) -> bytes | None:
        """Return the content of a file, or the target of a link; None if it is not this entry's any more."""
        looking = Looking(self._root)
        with looking:
            try:
                return content_at(path.rpartition(b"/")[2], looking.directory(path), entry)
            except OSError as error:
                busy = crowded(error)
                if busy is not None:
                    raise busy from error
                return None

    def apply(
        self,
        steps: Sequence[Step],
        *,
        token: str,
        objects: ObjectReader,
        stamp: Callable[[bytes], Stamp | None],
        closed: Mapping[bytes, int] = {},
    ) -> Sequence[Outcome]:
        """Carry out steps in the safe order and return one outcome a path, in the order of the steps.

        ``closed`` are directories that an interrupted apply may have left open, with the permissions
        that they had. Raises `Unsafe` before the first write if a path must not be touched, `Busy` if
        too many files are open for that.
        """
        _refuse(steps, objects)
        return self._run(steps, token=token, objects=objects, stamp=stamp, flush=flush, closed=closed)

    def write_tree(
        self, tree: TreeId, *, objects: ObjectReader, durability: Durability = "full"
    ) -> Sequence[Outcome]:
        """Write a whole tree into the root, which has to be empty, or is made.

        With ``durability`` "fast" nothing is carried through to the disk: for a copy that goes again.
        """
        whole = StoredTree(tree, objects.directory)
        refuse_faults(whole)
        steps = in_order(_all_of(whole))
        _refuse(steps, objects)
        self._make_root()
        carry = flush if durability == "full" else leave
        return self._run(steps, token=_NEW, objects=objects, stamp=_no_stamp, flush=carry)

    def clear_temporaries(
        self,
        token: str,
        directories: Sequence[bytes],
        *,
        steps: Sequence[Step] = (),
        stored: Callable[[bytes], bool] | None = None,
    ) -> Sequence[Outcome]:
        """Settle what an interrupted apply left in some directories, and return what could not just go.

        ``steps`` are those of the apply; ``stored`` tells of a content whether it is in the store, for
        where the steps are not known. What was set aside goes back if its path is free. What the guard
        or the target holds is deleted; anything else a person has written: it goes back, or is kept.
        What cannot be changed is left, and told with the reason.
        """
        found: list[tuple[bytes, Settled]] = []
        with Directories(self._root) as opened:
            site = Site(opened, token=token, stamp=_no_stamp)
            displaced = Displaced(site, kept=Kept(self._kept, token=token), steps=steps, stored=stored)
            for path in directories:
                found.extend(displaced.clear(path))
        return tuple(_left(path, settled) for path, settled in found)

    def left_over(self) -> Mapping[str, Sequence[bytes]]:
        """Return, by the token of each restore, the directories that hold temporary files of its."""
        found: dict[str, list[bytes]] = {}
        root = open_root(self._root)
        nearby = Nearby(root)
        waiting = [b""]
        try:
            while waiting:
                place = waiting.pop()
                temporary, below = _listed(nearby, place)
                for token in sorted({token_of(name) for name in temporary}):
                    found.setdefault(token, []).append(place)
                waiting += [join(place, name) for name in reversed(below)]
        finally:
            nearby.close()
            os.close(root)
        return found

    def _run(
        self,
        steps: Sequence[Step],
        *,
        token: str,
        objects: ObjectReader,
        stamp: Callable[[bytes], Stamp | None],
        flush: Flush,
        closed: Mapping[bytes, int] = {},
    ) -> Sequence[Outcome]:
        with Directories(self._root, closed=closed) as directories:
            _refuse_crowd(steps)
            return Run(
                steps,
                directories=directories,
                token=token,
                objects=objects,
                stamp=stamp,
                flush=flush,
                kept=self._kept,
                full=lambda error, path: self._no_room(error, path, token=token),
            ).outcomes()

    def _no_room(self, error: OSError, path: bytes, *, token: str) -> NoRoom:
        """Say that the disk under what is being written is full, and how it goes on."""
        anew = "name a folder on another disk"
        hint = anew if token == _NEW else _RECOVER_HINT
        return no_room(error, doing=f"writing {printable(to_text(path))}", place=self._root, hint=hint)

    def _make_root(self) -> None:
        try:
            os.mkdir(self._root, _NEW_ROOT_MODE)
        except FileExistsError:
            if os.listdir(self._root):
                raise Unsafe(
                    f"{printable(to_text(self._root))} is not empty", hint="name a new or empty folder"
                ) from None
        except OSError as error:
            raise _trouble(self._root, error) from error


def _refuse_crowd(steps: Sequence[Step]) -> None:
    """Raise `Busy` unless as many files can be opened at once as steps take: half of them would fail."""
    changing = [step for step in steps if step.action not in _UNTOUCHED]
    places = len({parent(step.path) for step in changing})
    needed = _BESIDE + min(CHUNK, len(changing)) + min(CHUNK, 2 * places)
    error = crowd(needed) if changing else None
    busy = None if error is None else crowded(error)
    if busy is not None:
        raise busy from error


def _listed(nearby: Nearby, place: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the temporary names in a directory, and the directories to go on with.

    What was set aside is settled as a whole, and a repository is none of ours.
    """
    temporary, below = [], []
    try:
        with os.scandir(nearby.open(place)) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)
                if is_temporary(name):
                    temporary.append(name)
                elif name != b".git" and entry.is_dir(follow_symlinks=False):
                    below.append(name)
    except OSError:
        return temporary, []  # nothing of ours is where nobody may look
    return temporary, sorted(below)


def _all_of(tree: StoredTree) -> Iterator[Step]:
    waiting = [(b"", tree.root)]
    while waiting:
        above, identity = waiting.pop()
        for entry in tree.directory(above, identity):
            path = join(above, entry.name)
            if entry.kind == DIRECTORY:
                waiting.append((path, entry.tree_id))
            yield Step(path=path, action=action_between(entry, None), want=entry)


def _refuse(steps: Sequence[Step], objects: ObjectReader) -> None:
    refuse((*_faults(steps), *link_faults(steps, objects)))


def _faults(steps: Sequence[Step]) -> Iterator[TreeFault]:
    return path_faults(step.path for step in steps if step.action not in _UNTOUCHED)


def _left(path: bytes, settled: Settled) -> Outcome:
    return Outcome(
        path=path,
        action="skip",
        result="kept" if settled.result is None else "skipped",
        reason=settled.reason,
        kept=settled.kept,
        left=settled.left,
    )


def _no_stamp(_path: bytes) -> None:
    return None


def _trouble(path: bytes, error: OSError) -> Storage:
    return Storage(
        f"{printable(to_text(path))} cannot be changed: {error.strerror}", hint="look at its permissions"
    )
