"""Carries out the steps of a plan on a workspace's files; nothing else writes to them."""

from __future__ import annotations

import errno
import os
import stat
import time

from lastgood.directories import MOST_OPEN, Directories, change_mode, is_nowhere, open_root
from lastgood.errors import CROWDED, FULL, Damaged, NoRoom, Storage, Unsafe, crowded
from lastgood.files import crowd
from lastgood.model.operation import DAMAGED, DISCARDED, Outcome, Step
from lastgood.model.path_safety import TreeFault, link_faults, path_faults, refuse, refuse_faults
from lastgood.model.tree import (
    DIRECTORY,
    PERMISSION_BITS,
    SPECIAL_BITS,
    UNFINISHED_DIRECTORY,
    Entry,
    StoredTree,
    is_content,
    is_directory,
    is_unfinished,
)
from lastgood.paths import ancestors, is_beyond, join, parent, printable, to_text
from lastgood.renames import remove_directory
from lastgood.restore.displaced import Chunk, Displaced, Settled
from lastgood.restore.look import PathProver, PathReader, content_at
from lastgood.restore.plan import ORDER, UNTOUCHED, action_between, in_order
from lastgood.restore.site import CHUNK, PathChanged, Site, Threads
from lastgood.root import make_again, take_away

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from lastgood.engine import ObjectReader
    from lastgood.host import Stamp
    from lastgood.literals import Action, Durability, Result
    from lastgood.model.tree import TreeId
    from lastgood.worktree import DiskThreads

    Numbered = tuple[int, Step]


# --- One application of a plan: directories, writes, modes, deletions, and last what was set aside ---

_OCCUPIED = frozenset({errno.ENOTEMPTY, errno.EEXIST})
_WELL = Settled()
# How NFS and FUSE name what is deleted and still open, and how long they are given to take it away.
_HIDDEN = (b".nfs", b".fuse_hidden")
_UNTIL_HIDDEN_GO = (0, 0.002, 0.01, 0.05, 0.2)
# What is said of a path that is busy, by whether something is mounted on it.
_BUSY = {
    True: "something is mounted on it",
    False: "it is in use",
    None: "it is in use, or something is mounted on it",
}
_DONE: dict[Action, Result] = {
    "mkdir": "restored",
    "write": "restored",
    "chmod": "restored",
    "delete": "removed",
    "rmdir": "removed",
    "keep": "kept",
    "skip": "skipped",
}


class Applied:
    """Steps that were carried out: one outcome each, in their order.

    ``carried`` and ``freed`` wait for what they say.
    """

    __slots__ = ("_carried", "_freed", "outcomes")

    def __init__(
        self, outcomes: Sequence[Outcome], *, carried: Callable[[], object], freed: Callable[[], object]
    ) -> None:
        self.outcomes: Sequence[Outcome] = outcomes
        self._carried = carried
        self._freed = freed

    def wait(self) -> None:
        """Return when all names are on the disk; `Storage` if that does not take them."""
        self._carried()

    def end(self) -> None:
        """Return when the room of what was replaced is free, too, and nothing is on its way any more."""
        self._freed()
        try:  # noqa: SIM105 - contextlib costs start-up time
            self._carried()
        except Storage:  # who waited was told, or is told of something else
            pass


class Application:
    """One application of steps; what fails for one path leaves the others alone."""

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        site: Site,
        objects: ObjectReader,
        contents: dict[bytes, bytes],
        kept: bytes | None,
        full: Callable[[OSError, bytes], NoRoom],
        ready: Callable[[], None],
        unsynced: Iterable[bytes],
    ) -> None:
        self._ready = ready
        self._full = full
        self._steps = steps
        self._numbered: dict[Action, list[Numbered]] = {action: [] for action in _DONE}
        for number, step in enumerate(steps):
            self._numbered[step.action].append((number, step))
        self._directories = site.directories
        self._site = site
        self._displaced = Displaced(self._site, kept=kept, steps=steps, contents=contents)
        removals = {step.path: step for _, step in (*self._of("delete"), *self._of("rmdir"))}
        self._chunk = Chunk(
            self._site, objects, displaced=self._displaced, removals=removals, contents=contents
        )
        # By number of the step; a step without a remark went well.
        self._remarks: dict[int, tuple[Result, str]] = {}
        # What is to be said of what came out of paths, and what has yet to be settled of it.
        self._settled: dict[int, Settled] = {}
        self._unsettled: dict[int, Step] = {}
        # Permissions that directories get in the end, when nothing has to be written into them any more.
        self._modes: dict[bytes, tuple[int, int]] = {}
        # Directories that changed since they were last carried through to the disk.
        self._changed: set[bytes] = set(unsynced)
        # Files that get new permissions by being written anew, for they have other names.
        self._rewritten: set[int] = set()
        # Directories that had to make room for a file, and could not.
        self._standing: set[bytes] = set()
        # Whether what a file system hides may still go: all of it was let go of before the first wait.
        self._awaits_hidden = True

    def applied(self) -> Applied:
        """Do it all and return what became of each step; `Storage` when the disk is full or fails."""
        # What is to be written is read while the disk takes what has to be there before anything is.
        self._chunk.read_ahead(self._of("write"))
        self._ready()
        try:
            self._carry_out()
            carried = self._site.begin_sync(self._changed)
        except BaseException:
            self._site.close_gone()
            raise
        outcomes = tuple(self._outcome(number, step) for number, step in enumerate(self._steps))
        return Applied(outcomes, carried=carried, freed=self._site.close_gone)

    def _carry_out(self) -> None:
        try:
            self._phases()
            self._settle_each()
            self._settle_asides()
        finally:
            self._chunk.drop_all()
            self._settle_rest()
            self._settle_modes()

    def _phases(self) -> None:
        phases: dict[Action, Callable[[], object]] = {
            "mkdir": lambda: self._each(self._of("mkdir"), self._make),
            "write": self._write_all,
            "chmod": self._change_modes,
            "delete": self._delete_all,
            "rmdir": lambda: self._each(self._of("rmdir"), self._remove_directory),
        }
        for action in ORDER:
            phases[action]()

    def _write_all(self) -> None:
        """Write files in chunks, those included whose permissions change and that have other names."""
        linked = [numbered for numbered in self._of("chmod") if self._has_links(numbered[1])]
        self._rewritten = {number for number, _ in linked}
        writes = [*self._of("write"), *linked]
        # What is last of all is carried through to the disk in the end.
        is_last = len(linked) == len(self._of("chmod")) and not (self._of("delete") or self._of("rmdir"))
        for start in range(0, len(writes), CHUNK):
            placed = self._write(writes[start : start + CHUNK])
            if is_last and start + CHUNK >= len(writes) and not self._site.moved:
                self._changed |= placed
            else:
                self._site.sync(placed)

    def _change_modes(self) -> None:
        self._each((one for one in self._of("chmod") if one[0] not in self._rewritten), self._change_mode)

    def _delete_all(self) -> None:
        deletions = self._of("delete")
        for start in range(0, len(deletions), CHUNK):
            self._each(deletions[start : start + CHUNK], self._delete)
            self._settle_each()
        self._settle_each()  # what a failing disk refused, before a directory counts as not empty for it

    def _of(self, action: Action) -> list[Numbered]:
        return self._numbered[action]

    def _each(self, numbered: Iterable[Numbered], act: Callable[[int, Step], None]) -> list[Numbered]:
        """Do something for steps that went well so far, and return those that still do."""
        good = []
        for number, step in numbered:
            if number not in self._remarks and self._attempt(number, step, act):
                good.append((number, step))
        return good

    def _attempt(self, number: int, step: Step, act: Callable[[int, Step], None]) -> bool:
        try:
            act(number, step)
        except OSError as error:
            if error.errno in FULL:
                raise self._full(error, step.path) from error
            self._remarks[number] = ("failed", self._reason(error, step.path))
        except NoRoom as error:
            raise self._full(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), step.path) from error
        except Damaged as error:
            self._remarks[number] = ("failed", DAMAGED + error.message)
        return number not in self._remarks

    def _make(self, number: int, step: Step) -> None:
        assert step.want is not None
        directory, name = self._site.place(step.path)
        self._site.expect(step, directory, name)
        if step.have is not None:
            self._site.set_aside(step)
            directory, name = self._site.place(step.path)
        self._make_new(step, name, directory)
        self._changed.add(parent(step.path))
        self._modes[step.path] = (number, step.want.mode)
        self._directories.add_made(step.path, _keeping_special(step.want.mode))

    def _make_new(self, step: Step, name: bytes, directory: int) -> None:
        try:
            os.mkdir(name, UNFINISHED_DIRECTORY, dir_fd=directory)
        except OSError as error:
            if step.have is not None:
                self._site.put_back(step.path)
            if isinstance(error, FileExistsError):
                raise PathChanged from None
            raise

    def _write(self, numbered: list[Numbered]) -> set[bytes]:
        """Write some files, and return the directories that hold what came of it."""
        chunk = self._chunk
        self._site.close_gone()
        written = self._each(numbered, chunk.write)
        if not chunk.flush():
            written = self._each(written, chunk.check)
        self._unsettled.update((number, step) for number, step in written if is_content(step.have))
        placed = self._each(written, chunk.place)
        for number, step in numbered:
            if number in self._remarks:
                chunk.drop(number)
                if is_directory(step.have) and step.path not in self._site.moved:
                    self._standing.add(step.path)
        self._settle_each()
        return {parent(step.path) for _, step in placed}

    def _settle_each(self) -> None:
        """Let go what came out of paths; what a failing disk refuses is tried again at the end."""
        if not self._unsettled:
            return  # nor is what goes already waited for
        self._site.close_gone()
        for number, step in list(self._unsettled.items()):
            try:
                settled = self._settled_at_once(step)
            except OSError:
                continue
            del self._unsettled[number]
            self._note(number, settled)
        self._site.close_gone(beside=True)

    def _settled_at_once(self, step: Step) -> Settled | None:
        try:
            return self._displaced.settle(step)
        except OSError as error:
            if error.errno not in CROWDED or not self._site.close_gone():  # what is gone is open still
                raise
            return self._displaced.settle(step)

    def _settle_rest(self) -> None:
        self._settle_each()
        for number, step in self._unsettled.items():
            self._note(number, self._displaced.stuck(step))

    def _settle_asides(self) -> None:
        """Let go what was in the way of another kind, last of all (rule T5)."""
        numbers = {step.path: number for number, step in enumerate(self._steps)}
        for path, where in self._site.moved.items():
            self._changed.add(parent(path))
            try:
                settled = self._displaced.settle_aside(path, where)
            except OSError:
                settled = self._settle_again(path, where)
            self._note(numbers[path], settled)

    def _settle_again(self, path: bytes, where: bytes) -> Settled | None:
        """Try once more what a failing disk refused."""
        try:
            return self._displaced.settle_aside(path, where)
        except OSError as error:
            left = printable(to_text(parent(where)))
            reason = f"{self._reason(error, where)}: what was there is left in {left}"
            return Settled(reason=reason, left=parent(where))

    def _note(self, number: int, settled: Settled | None) -> None:
        if settled is None:
            return
        self._settled[number] = settled
        self._changed.add(parent(self._steps[number].path))
        if settled.result is not None and (number not in self._remarks or settled.kept or settled.left):
            self._remarks[number] = (settled.result, settled.reason or "")

    def _has_links(self, step: Step) -> bool:
        """Tell whether a file's other names, outside perhaps, would share new permissions."""
        if step.want is None or step.want.kind == DIRECTORY:
            return False
        try:
            directory, name = self._site.place(step.path)
            return os.stat(name, dir_fd=directory, follow_symlinks=False).st_nlink > 1
        except OSError:
            return False  # the attempt itself will tell

    def _change_mode(self, number: int, step: Step) -> None:
        assert step.want is not None
        mode = step.want.mode & PERMISSION_BITS
        directory, name = self._site.place(step.path)
        if step.want.kind == DIRECTORY:
            self._site.expect(step, directory, name)
            self._modes[step.path] = (number, mode)
            return

        def checked(_mode: int) -> int:
            # The file is open by now: one that takes its place after this look keeps its permissions.
            self._site.expect(step, directory, name)
            return mode

        change_mode(name, directory, checked)
        self._changed.add(parent(step.path))

    def _delete(self, number: int, step: Step) -> None:
        if self._stands(number, step):
            return
        try:
            directory, name = self._site.place(step.path)
            os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return  # somebody else was faster
        self._site.expect(step, directory, name)
        self._unsettled[number] = step
        try:
            self._displaced.remove(step, directory=directory, name=name)
        except FileNotFoundError:
            return  # somebody else was faster
        self._changed.add(parent(step.path))

    def _remove_directory(self, number: int, step: Step) -> None:
        if self._stands(number, step):
            return
        now = self._site.located(step.path)
        self._directories.forget(now)
        try:
            directory, name = self._site.place(step.path)
            if step.reason == DISCARDED and not self._discard_deep(number, step.path):
                return
            os.rmdir(name, dir_fd=directory)
        except FileNotFoundError:
            return  # somebody else was faster
        except OSError as error:
            if error.errno not in _OCCUPIED:
                raise
            if not self._removed_late(now):
                self._remarks[number] = ("kept", "not empty")
                return
        self._directories.unlocked.pop(now, None)
        self._changed.add(parent(step.path))

    def _removed_late(self, path: bytes) -> bool:
        """Remove a directory in which a file system keeps what is deleted until nobody has it open.

        NFS and FUSE give it a name of theirs, and some take that away only a moment after it was closed.
        """
        self._site.close_gone()
        for seconds in _UNTIL_HIDDEN_GO if self._awaits_hidden else _UNTIL_HIDDEN_GO[:1]:
            if not all(name.startswith(_HIDDEN) for name in self._directories.names(path)):
                return False
            time.sleep(seconds)
            if remove_directory(self._directories, path):
                return True
        self._awaits_hidden = False
        return False

    def _discard_deep(self, number: int, path: bytes) -> bool:
        """Delete what is too deep in a directory to be kept, but for a repository (rule T4)."""
        from lastgood.directories import holds, remove_below

        directory = self._directories.open_to_change(path)
        deep = [name for name in self._directories.names(path) if is_beyond(join(path, name))]
        if any(name == b".git" or holds(b".git", name, directory) for name in deep):
            self._remarks[number] = ("kept", "holds a repository")
            return False
        for name in deep:
            remove_below(name, directory)
        self._directories.forget(path)
        return True

    def _stands(self, number: int, step: Step) -> bool:
        """Leave alone what is in a directory that did not have to make room after all."""
        if not self._standing:
            return False
        for above in ancestors(step.path):
            if above in self._standing:
                shown = printable(to_text(above))
                self._remarks[number] = ("skipped", f"{shown} could not be written in its place")
                return True
        return False

    def _settle_modes(self) -> None:
        """Give directories their permissions, deep first; those widened to work in them get them back."""
        for path in sorted({*self._modes, *self._directories.unlocked}, reverse=True):
            self._changed.add(path)
            number, mode = self._modes.get(path, (None, 0))
            try:
                if number is None:
                    self._directories.lock_again(path)
                    continue
                self._directories.set_mode(path, _keeping_special(mode))
                self._directories.unlocked.pop(path, None)
            except OSError as error:
                if number is not None:
                    self._remarks.setdefault(number, ("failed", self._reason(error, path)))

    def _reason(self, error: OSError, path: bytes) -> str:
        if is_nowhere(error):
            return "its directory is not there any more"
        if error.errno == errno.EBUSY:
            return _BUSY[self._directories.is_mounted_on(self._site.located(path))]
        return (error.strerror or str(error)).lower()

    def _outcome(self, number: int, step: Step) -> Outcome:
        settled = self._settled.get(number, _WELL)
        result, reason = self._remarks.get(number, (_DONE[step.action], settled.reason or step.reason))
        return Outcome(
            path=step.path,
            action=step.action,
            result=result,
            reason=reason,
            kept=settled.kept,
            left=settled.left,
        )


def _keeping_special(wanted: int) -> Callable[[int], int]:
    """Return a change to permission bits alone: a directory keeps special bits, but for our own mark."""

    def change(mode: int) -> int:
        kept = mode & ~UNFINISHED_DIRECTORY if is_unfinished(mode) else mode
        return wanted & PERMISSION_BITS | kept & SPECIAL_BITS

    return change


# --- Steps carried out, each through descriptors of its directories ---


def _nothing() -> None:
    """Have nothing to be waited for."""


_NEW_ROOT_MODE = 0o700
_OWNER = 0o700
# So many files are opened besides those that are written and their directories: packs, most of all.
_BESIDE = 8
# Stands for an operation's id in temporary names where nothing can be interrupted and recovered.
_NEW = "new"
_RECOVER_HINT = (
    "free some, then finish the restore: lastgood recover\nor take it back: lastgood recover --rollback"
)


class DescriptorApplier:
    """Changes the workspace at ``root`` (a real path) through descriptors of its directories.

    ``kept`` is a folder outside for what people may still be writing to.
    """

    def __init__(self, root: bytes, *, kept: bytes | None = None) -> None:
        self._root = root
        self._kept = kept

    def make_root(self) -> Sequence[bytes]:
        """Make the workspace's folder again where it is gone, and return what was made (rule T12a)."""
        return make_again(self._root)

    def unmake(self, made: Sequence[bytes]) -> None:
        """Remove folders that were made for nothing, as long as they are empty."""
        take_away(made)

    def present(self, path: bytes) -> Entry | None:
        """Return what a path holds now, hashed anew; None if nothing (or no directory above it).

        ``oid`` is empty for a directory, and for what cannot be read as a whole.
        """
        with PathReader(self._root) as present:
            return present(path)

    def looking(self) -> PathReader:
        """Look at many paths one after another, in their order, while nothing of ours changes any."""
        return PathReader(self._root)

    def closed(self, paths: Iterable[bytes]) -> dict[bytes, int]:
        """Return the permissions of those of some directories, in their order, that keep their owner out.

        What is no directory, or cannot be looked at, is left out.
        """
        root = open_root(self._root)
        try:
            doubtful = [path for path in paths if not _is_open(path, root)]
        finally:
            os.close(root)
        if not doubtful:
            return {}
        looking = PathReader(self._root)
        with looking:
            found = {path: looking.permissions(path) for path in doubtful}
        return {path: mode for path, mode in found.items() if mode is not None and mode & _OWNER != _OWNER}

    def proving(self, contents: Mapping[bytes, bytes] = {}) -> PathProver:
        """Look at many paths as `looking` does, with the evidence for what they hold."""
        return PathProver(self._root, contents)

    def read(self, path: bytes, entry: Entry) -> bytes | None:
        """Return the content of a file, or the target of a link; None if it is not this entry's any more."""
        looking = PathReader(self._root)
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
        contents: dict[bytes, bytes] | None = None,
        closed: Mapping[bytes, int] = {},
        unsynced: Collection[bytes] = (),
        ready: Callable[[], None] = _nothing,
        threads: DiskThreads | None = None,
    ) -> Applied:
        """Carry out steps in the safe order, and return one outcome a path, in the order of the steps.

        ``closed`` are directories that an interrupted apply may have left open, with the permissions
        that they had, ``unsynced`` those in which it may have changed names that are not on the disk.
        ``ready`` is waited for before anything is changed. Raises `Unsafe` before the first write if a path
        must not be touched, `Busy` if too many files are open for that.
        """
        _refuse(steps, objects)
        threads = threads or Threads(stay=False)
        return self._run(
            steps,
            token=token,
            objects=objects,
            stamp=stamp,
            contents={} if contents is None else contents,
            closed=closed,
            unsynced=unsynced,
            ready=ready,
            threads=threads,
        )

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
        with Threads(durable=durability == "full") as threads:
            applied = self._run(
                steps,
                token=_NEW,
                objects=objects,
                stamp=_no_stamp,
                contents={},
                threads=threads,
            )
            applied.wait()
            applied.end()
        return applied.outcomes

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
        from lastgood.restore.leftovers import Leftovers  # lazily: only what was interrupted leaves any

        found: list[Outcome] = []
        with Threads() as threads, Directories(self._root) as opened:
            site = Site(opened, token=token, stamp=_no_stamp, threads=threads)
            leftovers = Leftovers(site, kept=self._kept, steps=steps, stored=stored)
            try:
                for path in directories:
                    found.extend(leftovers.clear(path))
            finally:
                site.close_gone()
        return tuple(found)

    def left_over(self) -> Mapping[str, Sequence[bytes]]:
        """Return, by the token of each restore, where its temporary names are."""
        from lastgood.restore.leftovers import left_over  # lazily: only who clears up asks

        return left_over(self._root)

    def _run(
        self,
        steps: Sequence[Step],
        *,
        token: str,
        objects: ObjectReader,
        stamp: Callable[[bytes], Stamp | None],
        contents: dict[bytes, bytes],
        threads: DiskThreads,
        closed: Mapping[bytes, int] = {},
        unsynced: Collection[bytes] = (),
        ready: Callable[[], None] = _nothing,
    ) -> Applied:
        with Directories(self._root, closed=closed) as directories:
            _refuse_crowd(steps, unsynced)
            return Application(
                steps,
                site=Site(directories, token=token, stamp=stamp, threads=threads),
                objects=objects,
                contents=contents,
                kept=self._kept,
                full=lambda error, path: self._no_room(error, path, token=token),
                ready=ready,
                unsynced=unsynced,
            ).applied()

    def _no_room(self, error: OSError, path: bytes, *, token: str) -> NoRoom:
        """Say that the disk under what is being written is full, and how it goes on."""
        from lastgood.disk import no_room  # lazily: a disk is seldom full

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


def _is_open(path: bytes, root: int) -> bool:
    """Tell whether a path leads to a directory that lets its owner in, be it through a link."""
    try:
        mode = os.stat(path or b".", dir_fd=root, follow_symlinks=False).st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) and mode & _OWNER == _OWNER


def _refuse_crowd(steps: Sequence[Step], unsynced: Collection[bytes]) -> None:
    """Raise `Busy` unless as many files can be opened at once as steps take: half of them would fail."""
    changing = [step for step in steps if step.action not in UNTOUCHED]
    places = {parent(step.path) for step in changing}.union(unsynced)
    deepest = max((place.count(b"/") for place in places), default=0)
    needed = _BESIDE + min(CHUNK, len(changing)) + min(CHUNK, 2 * len(places)) + min(MOST_OPEN, deepest)
    error = crowd(needed) if places else None
    busy = None if error is None else crowded(error)
    if busy is not None:
        raise busy from error


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
    return path_faults(step.path for step in steps if step.action not in UNTOUCHED)


def _no_stamp(_path: bytes) -> None:
    return None


def _trouble(path: bytes, error: OSError) -> Storage:
    return Storage(
        f"{printable(to_text(path))} cannot be changed: {error.strerror}", hint="look at its permissions"
    )
