"""Where an apply works: open directories, what stands there, what was moved, and who waits for the disk."""

from __future__ import annotations

import errno
import os
import stat
from _functools import partial  # type: ignore[import-not-found]  # lighter than `functools`
from _queue import SimpleQueue

from lastgood import renames
from lastgood.directories import is_nowhere
from lastgood.errors import CROWDED, Storage
from lastgood.files import DiskWork, begin_disk_thread, sync_all
from lastgood.model.tree import DIRECTORY, FILE, LINK, same_content
from lastgood.paths import ancestors, join, parent, to_text
from lastgood.restore.look import entry_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from lastgood.directories import Directories
    from lastgood.host import Stamp
    from lastgood.literals import EntryKind
    from lastgood.model.operation import Step
    from lastgood.model.tree import Entry
    from lastgood.worktree import DiskThreads

    Work = Callable[[], None]


# Of so many files, or directories, descriptors are open at once; the least limit that systems set is 256.
CHUNK = 128
# So few files are closed as quickly as a thread is started.
_CLOSED_HERE = 2
_NAMES = 512


class PathChanged(OSError):
    """A path does not hold what its step says it has."""

    def __init__(self) -> None:
        super().__init__(errno.ESTALE, "changed")


class Site:
    """Answers for paths as they are now, wherever something set aside may have taken them."""

    def __init__(
        self,
        directories: Directories,
        *,
        token: str,
        stamp: Callable[[bytes], Stamp | None],
        threads: DiskThreads,
    ) -> None:
        self.directories = directories
        self.threads = threads
        # What was set aside, by the path it had.
        self.moved: dict[bytes, bytes] = {}
        # The directories among them: their contents have yet to be deleted.
        self._emptied: dict[bytes, bytes] = {}
        self.token = token
        # The temporary names of the paths that were asked for last: each is asked for several times.
        self._names: dict[bytes, bytes] = {}
        self._stamp = stamp
        # Files that are gone, and open still.
        self._gone: list[int] = []
        self._closing: DiskWork | None = None

    def hold(self, descriptor: int) -> None:
        """Keep a file that is gone open until `close_gone`."""
        self._gone.append(descriptor)

    def close_gone(self, *, beside: bool = False) -> bool:
        """Close the files that are gone, whose blocks are freed by that; ``beside`` what follows.

        Tells whether any was open still.
        """
        was_open = self._closing is not None or bool(self._gone)
        if self._closing is not None:
            self._closing.wait()
            self._closing = None
        if beside and len(self._gone) > _CLOSED_HERE:
            self._closing = self.threads.beside(self._close_each)
        else:
            self._close_each()
        return was_open

    def _close_each(self) -> None:
        while self._gone:  # each is known until it is closed, whatever interrupts that
            try:
                os.close(self._gone.pop())
            except (OSError, IndexError):  # it is gone all the same
                continue

    def temporary(self, path: bytes) -> bytes:
        """Return the name to write to beside a path: what bears it has never been anybody else's."""
        known = self._names.get(path)
        if known is None:
            if len(self._names) >= _NAMES:
                self._names.clear()
            known = self._names[path] = renames.temporary_name(self.token, path)
        return known

    def old(self, path: bytes) -> bytes:
        """Return the name beside a path for what it is about to hold, or held before."""
        return self.temporary(path) + renames.OLD

    def newer(self, path: bytes) -> bytes:
        """Return one more such name, for what came to a path after we wrote to it."""
        return self.temporary(path + b"/newer") + renames.OLD

    def is_ours(self, name: bytes) -> bool:
        """Tell whether a name is a temporary one of this apply."""
        return renames.is_of(name, self.token)

    def place(self, path: bytes) -> tuple[int, bytes]:
        """Return the directory in which a path can be changed, and its name there."""
        above, _, name = (self.located(path) if self._emptied else path).rpartition(b"/")
        return self.directories.open_to_change(above), name

    def located(self, path: bytes) -> bytes:
        """Return where a path is now, if a directory above it was set aside."""
        if self._emptied:
            for above in ancestors(path):
                if above in self._emptied:
                    return self._emptied[above] + path[len(above) :]
        return path

    def expect(self, step: Step, directory: int, name: bytes) -> None:
        """Raise `PathChanged` unless a name holds what its step says it has."""
        if not self._is_as_planned(step, directory, name):
            raise PathChanged

    def expect_contents(self, path: bytes, removals: Mapping[bytes, Step]) -> None:
        """Raise `PathChanged` if a directory, set aside perhaps, holds anything that is to stay."""
        waiting = [path]
        while waiting:
            place = waiting.pop()
            now = self.located(place + b"/")[:-1]
            for name in self.directories.names(now):
                step = removals.get(join(place, name))
                if step is None:
                    raise PathChanged
                self.expect(step, self.directories.open(now), name)
                if step.action == "rmdir":
                    waiting.append(step.path)

    def set_aside(self, step: Step) -> None:
        """Move what a step has in its way out of it until the end; `PathChanged` if it is another now."""
        where = renames.set_aside(self.directories, step.path, self.temporary(step.path))
        self.moved[step.path] = where
        if step.have is not None and step.have.kind == DIRECTORY:
            self._emptied[step.path] = where
            return
        if not self._is_as_planned(step, self.directories.open(parent(where)), where.rpartition(b"/")[2]):
            self.put_back(step.path)
            raise PathChanged

    def put_back(self, path: bytes) -> None:
        """Move a path that was set aside back to its place, unless somebody has taken that."""
        if renames.put_back(self.directories, path, self.moved[path]):
            del self.moved[path]
            self._emptied.pop(path, None)

    def sync(self, paths: Iterable[bytes]) -> None:
        """Carry the names and permissions in directories through to the disk."""
        ordered, again = sorted(paths), self.directories.open_again
        for start in range(0, len(ordered), CHUNK):
            opened = self._opened_to_sync(ordered[start : start + CHUNK], open_one=again)
            try:
                troubles = self.threads.sync_all(list(opened))
            finally:
                for descriptor in opened:
                    os.close(descriptor)
            _refuse_unsynced(opened, troubles)

    def begin_sync(self, paths: Iterable[bytes]) -> Callable[[], None]:
        """Do so, the last of them beside what follows; return what waits for that, and raises its fault.

        Nothing else is done in directories afterwards: those that are open are closed beside, too.
        """
        ordered = sorted(paths)
        beside = (len(ordered) - 1) // CHUNK * CHUNK if ordered else 0
        self.sync(ordered[:beside])
        opened = self._opened_to_sync(ordered[beside:], open_one=self.directories.hand_over)
        if not opened:
            return lambda: None
        others = self.directories.hand_over_all()
        troubles: dict[int, OSError] = {}

        def carry() -> None:
            try:
                troubles.update(self.threads.sync_all(list(opened)))
            finally:
                for descriptor in (*opened, *others):
                    os.close(descriptor)

        self.threads.end_soon()
        syncing = self.threads.beside(carry)

        def wait() -> None:
            syncing.wait()
            _refuse_unsynced(opened, troubles)

        return wait

    def _opened_to_sync(
        self, paths: Iterable[bytes], *, open_one: Callable[[bytes], int]
    ) -> dict[int, bytes]:
        opened: dict[int, bytes] = {}
        try:
            for path in paths:
                descriptor = self._open_to_sync(path, open_one)
                if descriptor is not None:
                    opened[descriptor] = path
        except BaseException:
            for descriptor in opened:
                os.close(descriptor)
            raise
        return opened

    def _open_to_sync(self, path: bytes, open_one: Callable[[bytes], int]) -> int | None:
        """Open a directory, None if it went, or if even its owner may not read it."""
        try:
            return open_one(path)
        except PermissionError:
            return None
        except OSError as error:
            if is_nowhere(error):
                return None
            if error.errno in CROWDED and self.close_gone():  # what is closed beside takes room still
                return self._open_to_sync(path, open_one)
            raise _unsynced(path, error) from error

    def _is_as_planned(self, step: Step, directory: int, name: bytes) -> bool:
        have = step.have
        try:
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError as error:
            if is_nowhere(error):
                return have is None
            raise
        if have is None or _kind(found.st_mode) != have.kind:
            return False
        if have.kind == DIRECTORY:
            return True
        return self._is_stamped(step.path, found) or _is_alike(have, directory, name)

    def _is_stamped(self, path: bytes, found: os.stat_result) -> bool:
        stamp = self._stamp(path)
        return stamp is not None and (
            stamp.size == found.st_size
            and stamp.mtime_ns == found.st_mtime_ns
            and stamp.ctime_ns == found.st_ctime_ns
            and stamp.inode == found.st_ino
        )


def _refuse_unsynced(opened: Mapping[int, bytes], troubles: Mapping[int, OSError]) -> None:
    for descriptor, error in troubles.items():
        raise _unsynced(opened[descriptor], error) from error


def _unsynced(path: bytes, error: OSError) -> Storage:
    return Storage(
        f"the workspace's disk does not take it: {error.strerror}",
        hint="look at the disk, then finish the restore: lastgood recover",
        details={"path": to_text(path)},
    )


def _is_alike(have: Entry, directory: int, name: bytes) -> bool:
    # Without a stamp, or with one that another of the file's hard links made stale, contents decide.
    return same_content(have, entry_at(name, directory))


def _kind(mode: int) -> EntryKind:
    if stat.S_ISDIR(mode):
        return DIRECTORY
    return LINK if stat.S_ISLNK(mode) else FILE


# --- Carrying many files through to the disk ---


def _nothing() -> None:
    """Do nothing."""


class Threads:
    """Those of one restore; a context manager, at whose end each of them ends with what it was told to do.

    To start one takes three times as long as to have one go on, and a restore would start a dozen. They stay
    no longer than that: whoever forks is to have no threads beside, and a scan that finds any may move to
    another process. Unless they ``stay`` each does one thing, and nobody has to end them. Unless what they
    do is to be ``durable`` they sync nothing.
    """

    __slots__ = ("_durable", "_ending", "_idle", "_started", "_stay")

    def __init__(self, *, stay: bool = True, durable: bool = True) -> None:
        self._stay = stay
        self._durable = durable
        self._ending = False
        # By what each is told what to do, and whether that is the last.
        self._started: list[SimpleQueue[tuple[Work, bool]]] = []
        self._idle: list[SimpleQueue[tuple[Work, bool]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for told in tuple(self._started):  # whoever is still at work may take one out
            told.put((_nothing, True))

    def begin(self, work: Work) -> None:
        """Do something beside what follows; RuntimeError where the system allows no more threads."""
        if not self._stay:
            begin_disk_thread(work)
            return
        try:
            told = self._idle.pop()
        except IndexError:
            told = SimpleQueue()
            self._started.append(told)  # first: who is interrupted in between is to end it all the same
            begin_disk_thread(partial(self._run, told))
        told.put((work, self._ending))
        if self._ending:
            self._started.remove(told)

    def end_soon(self) -> None:
        """Have each thread end with what it is told next, for little is left to be done.

        One that is woken for nothing but its end is in the way of whoever goes on.
        """
        self._ending = True

    def _run(self, told: SimpleQueue[tuple[Work, bool]]) -> None:
        last = False
        while not last:
            work, last = told.get()
            work()  # whatever it raises ends this thread, which nobody tells anything any more
            if not last:
                self._idle.append(told)

    def beside(self, work: Work) -> DiskWork:
        """Do so, and return what waits for it."""
        return DiskWork(work, begin=self.begin)

    def sync_all(self, descriptors: Sequence[int]) -> dict[int, OSError]:
        """Sync files or directories, and return what went wrong by descriptor."""
        return sync_all(descriptors, begin=self.begin) if self._durable else {}
