"""Which directories of a workspace did not change since they were listed, as the kernel told.

A directory is vouched for if it was watched before it was listed, and nothing was heard of it since. A scan
takes those over without a look; all others it looks at as ever, and watches from then on. Whatever is in
doubt is not vouched for, so that a scan with a watch comes to what one without comes to (S1, S12):

- a directory on a file system that may be changed from elsewhere, or another than the workspace's own;
- one that holds a file with several links: a change through another name is told to that name's directory;
- one that two paths lead to, by a bind mount;
- one below another that could not be watched: where folders are exchanged there, nothing in them hears of it;
- everything, after the queue overflowed, a mount changed, or another folder lies where the workspace was.

What no watch hears is a store through a mapping, and asynchronous I/O, until the file is unmapped and closed;
and what is written to a file by another name than the one that is listed here (decision 037).
"""

from __future__ import annotations

import os
import select
import time
from _thread import allocate_lock
from errno import ENOSPC
from weakref import ref

from lastgood.paths import ancestors, join, ways
from lastgood.scanner import (
    DEPENDENT,
    DOUBTFUL,
    FLAGS,
    FORMAT_FILE,
    FORMAT_MASK,
    GAPS,
    NESTED,
    PRIVATE,
    SIGNATURE,
    cache,
)
from lastgood.scanner.inotify import (
    ATTRIBUTES,
    CLOSED_WRITTEN,
    CREATED,
    DELETED,
    DELETED_SELF,
    MODIFY,
    MOVED_FROM,
    MOVED_SELF,
    MOVED_TO,
    OF_DIRECTORY,
    ONLY_DIRECTORIES,
    OVERFLOWED,
    Inotify,
)
from lastgood.scanner.states import unpacked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from lastgood.host import ScanResult
    from lastgood.scanner import Evidence, Record
    from lastgood.scanner.cache import CachedTree
    from lastgood.scanner.rest import RestThread

_INSIDE = MODIFY | ATTRIBUTES | CLOSED_WRITTEN | CREATED | DELETED | MOVED_FROM | MOVED_TO
_HEARD = _INSIDE | DELETED_SELF | MOVED_SELF | ONLY_DIRECTORIES
_ENTRIES = CREATED | DELETED | MOVED_FROM | MOVED_TO
_LIMIT = b"/proc/sys/fs/inotify/max_user_watches"
_SHARE = 4  # one user's programs share them: a quarter at most is ours
_MOUNTS = b"/proc/self/mountinfo"
_PATIENCE = 1000  # milliseconds
# So many files in one directory are remembered of which something was heard; of more, all are asked for.
_MOST_NAMED = 64
# Until so many bytes of rows are to be written, which are in memory meanwhile, the scan cache waits.
_MOST_OWED = 1 << 20
# So long, in seconds, a scan waits for that of another thread, before it does without; what ends one longer.
_WAIT, _WAIT_TO_KEEP = 0.05, 1.0


class Marks:
    """The directories of a scan that are not like most: ``doubtful`` and ``dependent`` as their flags say.

    Those ``telling`` have gaps, private files, or a repository in them.
    """

    __slots__ = ("dependent", "doubtful", "telling")

    def __init__(self, records: Mapping[bytes, Record]) -> None:
        self.doubtful: set[bytes] = set()
        self.dependent: set[bytes] = set()
        self.telling: set[bytes] = set()
        for path, record in records.items():
            if record[FLAGS] or record[GAPS] or record[PRIVATE]:
                self.note(path, record)

    def note(self, path: bytes, record: Record) -> None:
        """Take note of what a directory is by now."""
        self.drop(path)
        flags = record[FLAGS]
        if flags & DOUBTFUL:
            self.doubtful.add(path)
        if flags & DEPENDENT:
            self.dependent.add(path)
        if flags & NESTED or record[GAPS] or record[PRIVATE]:
            self.telling.add(path)

    def drop(self, path: bytes) -> None:
        """Take note that a directory is none any more."""
        for which in (self.doubtful, self.dependent, self.telling):
            if which:
                which.discard(path)


class DirectoryWatch:
    """Hears what happens in the directories of one workspace; OSError where nothing can be heard.

    ``store`` is a folder for a file without a name, by whose change is told that all earlier events were
    heard. ``most`` returns how many directories may be watched: what others in this process leave of its
    share. With an ``interval`` a scan looks at everything when the last that did is so many seconds old;
    without, whoever watches sees to that, and to what is put off (`is_owing`) unless there is a ``rest``.
    Scans take turns with it (`take_turn`).
    """

    # Whether there is anything to close.
    _is_whole = False
    # What the last scan left for the next, as it would be read from the disk once that is written.
    known: CachedTree | None = None
    # The folder that it is to be written to, unless it is there.
    _owed: bytes | None = None
    # Whether a scan has begun that has not ended: whatever it broke off in is not to be relied on.
    _is_torn = False
    # Whether a file with several links was not known before, and whether anything was taken over unseen.
    _is_doubtful = False
    _is_believed = False
    # Whether all that happened before the mark was heard.
    _is_marked = False
    # Whether anything was heard since that was last asked, or a save took it in.
    _heard = False
    # The last scan, while nothing was heard since it began, and all of it is vouched for.
    _last: tuple[ScanResult, CachedTree] | None = None

    def __init__(
        self,
        store: bytes,
        *,
        most: Callable[[], int] | None = None,
        interval: Callable[[], float] | None = None,
        rest: RestThread | None = None,
    ) -> None:
        own_share = share()
        self._most = most or (lambda: own_share - self._watched_by_others())
        self._interval = interval
        self._rest = rest
        # A fork shares the queue with its parent, who would lack what was heard by it.
        self._process = os.getpid()
        self._turns = allocate_lock()
        # When everything was to be looked at anew.
        self._doubted = time.monotonic()
        self._inotify = Inotify()
        self._mounts = self._mark = -1
        self._is_whole = True
        self._mounts = os.open(_MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
        self._mark = _unnamed(store)
        self._marked = self._inotify.add(self._mark, MODIFY)
        self._remounted = select.poll()
        self._remounted.register(self._mounts, select.POLLPRI)
        self._root: tuple[int, int] | None = None
        self._device: int | None = None
        # Whether something was mounted since it was asked which device that is.
        self._is_remounted = True
        # How many directories the last scan could not have watched, because there are too many.
        self.unwatched: int = 0
        self._paths: dict[int, bytes] = {}
        self._watches: dict[bytes, int] = {}
        self._vouched: dict[bytes, bytes] = {}
        # Of directories that were vouched for until something happened to files in them: the signature, and
        # the names of those. All else in them is as it was.
        self._disturbed: dict[bytes, tuple[bytes, set[bytes]]] = {}
        # What was listed in this scan after it was watched, and nothing of it is in doubt.
        self._listed: set[bytes] = set()
        # Files with several links that were met, by device and inode.
        self._linked: set[tuple[int, int]] = set()
        # The records of the scan that ended last, those of them that are not vouched for (None: any may be),
        # and those that are not like most.
        self._records: Mapping[bytes, Record] | None = None
        self._dirty: set[bytes] | None = None
        self._marks = Marks({})
        _open[id(self)] = ref(self)

    @property
    def descriptor(self) -> int:
        """What can be waited for: it can be read when something happened."""
        return self._inotify.descriptor

    @property
    def count(self) -> int:
        """How many directories are watched."""
        return len(self._watches)

    @property
    def is_here(self) -> bool:
        """Whether it hears anything in this process: it is open, and not a fork's."""
        return self._inotify.descriptor >= 0 and self._process == os.getpid()

    @property
    def is_guest(self) -> bool:
        """Whether the process that it is in does other work, too."""
        return self._rest is not None

    def take_turn(self) -> bool:
        """Begin a scan with it, until `end_turn`; False in a fork, or while another thread's goes on.

        After one that broke off it knows nothing, and after its ``interval`` it vouches for nothing.
        """
        if not self.is_here or not self._turns.acquire(timeout=_WAIT):
            return False
        try:
            self._begin_turn()
        except BaseException:  # a signal's, above all
            self._turns.release()
            raise
        return True

    def _begin_turn(self) -> None:
        if self._is_torn:
            self.forget()
        self._is_torn = True
        now = time.monotonic()
        if self._interval is not None and now >= self._doubted + self._interval():
            self._doubted = now
            self.doubt()

    def end_turn(self, *, whole: bool) -> None:
        """End a scan, which came to its end if it is ``whole``."""
        self._is_torn = not whole
        self._turns.release()

    def _watched_by_others(self) -> int:
        found = [one() for one in tuple(_open.values())]
        return sum(one.count for one in found if one is not None and one is not self)

    @property
    def is_local(self) -> bool | None:
        """Whether all changes come by this kernel; None before the first scan."""
        return None if self._root is None else self._device is not None

    def begin(self, root: int, *, device_of: Callable[[int], int | None]) -> None:
        """Begin a scan from an open root: whatever happened until now is heard.

        ``device_of`` returns the device whose changes all come by this kernel; without one nothing is vouched
        for. As long as nothing is mounted it is asked once for each root.
        """
        self._hear_of_mounts()
        seen = os.fstat(root)
        here = seen.st_dev, seen.st_ino
        if here != self._root or self._is_remounted:
            self._is_remounted = False
            device = device_of(root)
            if here != self._root or device != self._device:
                self._forget_everything()
                self._root, self._device = here, device
        self._hear_up_to_now()
        self._listed.clear()
        self.unwatched = 0
        self._is_doubtful = self._is_believed = False

    def last_scan(
        self, root: int, *, device_of: Callable[[int], int | None]
    ) -> tuple[ScanResult, CachedTree] | None:
        """Begin a scan; return what the last one found if nothing that it looked at has changed."""
        self.begin(root, device_of=device_of)
        return self._last

    def remember(self, result: ScanResult, snapshot: CachedTree, *, scanned: Mapping[bytes, Record]) -> None:
        """Keep what a scan left, and what it found unless something of it has to be looked at again.

        The records are those ``scanned``, but for where their details lie by now.
        """
        self.known = snapshot
        if self._records is not scanned:
            return
        self._records = snapshot.records
        if self._dirty is not None and not self._dirty and not self._marks.doubtful:
            self._last = result, snapshot

    def _hear_up_to_now(self) -> None:
        """Hear everything that happened before this moment; what cannot be sure of that is doubted."""
        self._is_marked = False
        try:
            os.pwrite(self._mark, b"x", 0)
        except OSError:  # the store is full, or must not be written any more
            self._listen()
            self.doubt()
            return
        self._listen()
        if self._is_marked:
            return
        waiting = select.poll()
        waiting.register(self.descriptor, select.POLLIN)
        while not self._is_marked:
            if not waiting.poll(_PATIENCE):
                self.doubt()
                return
            self._listen()

    def hear(self) -> bool:
        """Take note of what happened so far, and tell whether anything did since this was last asked."""
        self._listen()
        heard, self._heard = self._heard, False
        return heard

    def has_more(self) -> bool:
        """Tell whether something happened that was not heard yet; it is left for the next to hear."""
        waiting = select.poll()
        waiting.register(self.descriptor, select.POLLIN)
        return bool(waiting.poll(0))

    def settle(self) -> None:
        """Take note that a save has all that was heard until its scan began."""
        self._heard = False

    def _listen(self) -> None:
        gone: set[bytes] = set()
        for watch, mask, names in self._inotify.read():
            if mask & OVERFLOWED:
                self.doubt()
                self._heard = self._is_marked = True
            elif watch == self._marked:
                self._is_marked = True
            path = self._paths.get(watch)
            if path is None:
                continue
            self._heard = True
            self._last = None
            if mask & OF_DIRECTORY or not names:
                self._distrust(path)
            else:
                self._hear_of(path, names)
            if mask & OF_DIRECTORY and mask & _ENTRIES:
                gone.update(join(path, name) for name in names)
        if gone:
            self._forget(gone)
        self._hear_of_mounts()

    def _hear_of(self, path: bytes, names: Collection[bytes]) -> None:
        """Take note that something happened to files in a directory."""
        before = self._disturbed.get(path)
        vouched = self._vouched.get(path)
        self._distrust(path)
        if vouched is not None:
            before = vouched, set()
        if before is not None and len(before[1]) + len(names) <= _MOST_NAMED:
            before[1].update(names)
            self._disturbed[path] = before

    def _hear_of_mounts(self) -> None:
        if self._remounted.poll(0):
            self.doubt()
            self._heard = self._is_remounted = True

    def doubt(self) -> None:
        """Vouch for nothing: the next scan looks at everything."""
        self._last = self._dirty = None
        self._vouched.clear()
        self._disturbed.clear()

    def _distrust(self, path: bytes) -> None:
        """Vouch for a directory no longer."""
        self._vouched.pop(path, None)
        self._disturbed.pop(path, None)
        if self._dirty is not None:
            self._dirty.add(path)

    def forget(self) -> None:
        """Know nothing of what was watched: work with it broke off, at whatever place."""
        self._heard = True
        self._forget_everything()
        self._records = None
        for known in (self._paths, self._vouched, self._disturbed, self._watches):
            known.clear()
        self._listed.clear()
        self._linked.clear()
        self._root = None

    def device_at(self, root: int) -> int | None:
        """Return the device whose changes all come by this kernel; None where another folder is watched."""
        seen = os.fstat(root)
        return self._device if (seen.st_dev, seen.st_ino) == self._root else None

    def hears_of(self, path: bytes) -> bool:
        """Tell whether a directory is watched."""
        return path in self._watches

    def heard_of(self, path: bytes, record: Record) -> Collection[bytes] | None:
        """Return the names of the files of which alone something was heard since a directory was recorded.

        None where more may be otherwise. That it is the same directory still is left to who asks.
        """
        disturbed = self._disturbed.get(path)
        if disturbed is None or disturbed[0] != record[SIGNATURE] or self._linked:
            return None
        self._is_believed = True
        return disturbed[1]

    def asked_alone(self, path: bytes) -> None:
        """Take note that what was heard of in a directory is known again, so that it may be vouched for."""
        self._listed.add(path)

    def cover(self, descriptor: int, path: bytes) -> bool:
        """Watch an open directory before it is listed; tell whether it may be vouched for after that."""
        self._last = None
        self._distrust(path)
        if path not in self._watches and len(self._watches) >= self._most():
            self.unwatched += 1
            return False
        try:
            watch = self._inotify.add(descriptor, _HEARD)
        except OSError as error:  # no more watches, or gone
            self.unwatched += error.errno == ENOSPC
            return False
        before, others = self._watches.get(path), self._paths.get(watch)
        if before is not None and before != watch:
            self._drop(path)
        self._paths[watch] = path
        self._watches[path] = watch
        if others is None or others == path:
            # What may be changed from elsewhere is not vouched for, but what happens here is heard.
            # What takes the place of a folder is told to the one above alone, and to nobody in it.
            is_told = self._watches.keys() >= {b"", *ancestors(path)}
            return is_told and self._device is not None and os.fstat(descriptor).st_dev == self._device
        # It had another path a moment ago, or has two.
        self._watches.pop(others, None)
        self._distrust(others)
        self._listed.discard(others)
        return False

    def listed(
        self,
        path: bytes,
        descriptor: int,
        *,
        names: bytes,
        states: bytes,
        covered: bool,
        may_have_links: bool,
    ) -> None:
        """Take note of what was found in a directory, and whether it may be vouched for."""
        # Where a file with several links was met, each has to be asked for: it may have one by now.
        looks = bool(names) and (may_have_links or bool(self._linked))
        has_links = looks and self._has_links(names.split(b"\0"), unpacked(states), descriptor)
        if covered and not has_links:
            self._listed.add(path)

    def vouches(self, path: bytes, record: Record) -> bool:
        """Tell whether a directory is still as a record has it."""
        vouched = self._vouched.get(path) == record[SIGNATURE]
        self._is_believed |= vouched
        return vouched

    def ways(self, records: Mapping[bytes, Record], *, is_dependent: bool) -> set[bytes] | None:
        """Return which directories of the last scan have to be looked at, and all that lead to them.

        None where that is not known. What depends on the index or the previous checkpoint is among them if
        it ``is_dependent``.
        """
        if self._dirty is None or self._records is not records:
            return None
        self._is_believed = True
        marks = self._marks
        found = self._dirty.union(marks.doubtful, marks.dependent if is_dependent else ())
        return found | ways(found)

    @property
    def telling(self) -> set[bytes] | None:
        """The directories with gaps, private files or repositories in them; None where that is not known."""
        return None if self._dirty is None else self._marks.telling

    def refutes(self) -> bool:
        """Tell whether what this scan took over is in doubt by what it met, so that it has to look again."""
        if not self._is_doubtful:
            return False
        # A link to a file was made somewhere: what was listed before that knew of one link only.
        self._listed.clear()
        self.doubt()
        return self._is_believed

    def end(
        self,
        records: Mapping[bytes, Record],
        *,
        visited: Iterable[bytes] | None = None,
        gone: Iterable[bytes] = (),
    ) -> None:
        """End a scan that came to some records: what was listed is vouched for until more is heard.

        Where the last scan's records stand but for those of directories ``visited``, and of those that are
        ``gone``, only these are looked through.
        """
        for path in self._listed:
            record = records.get(path)
            if record is not None:
                self._disturbed.pop(path, None)
                self._vouched[path] = record[SIGNATURE]
        self._listed.clear()
        dirty = self._dirty
        if visited is None or dirty is None:
            for path in self._watches.keys() - records.keys():
                self._drop(path)
            vouched = self._vouched.get
            self._dirty = {path for path, record in records.items() if vouched(path) != record[SIGNATURE]}
            self._marks = Marks(records)
        else:
            for path in gone:
                if path in self._watches:
                    self._drop(path)
                self._marks.drop(path)
            for path in visited:
                record = records[path]
                self._marks.note(path, record)
                if self._vouched.get(path) == record[SIGNATURE]:
                    dirty.discard(path)
                else:
                    dirty.add(path)
            self._dirty = {path for path in dirty if path in records}  # goes through the few, not all records
        self._records = records

    @property
    def is_owing(self) -> bool:
        """Whether the scan cache on the disk is that of an earlier scan."""
        return self._owed is not None

    def keep(self, folder: bytes, snapshot: CachedTree, *, result: ScanResult) -> None:
        """Remember what a scan left for the next, and write it as the scan cache, if little is new later.

        Where another thread's scan goes on for long neither is done, and the next looks at more.
        """
        self._keep(
            folder, snapshot, remember=lambda kept: self.remember(result, kept, scanned=snapshot.records)
        )

    def keep_restored(
        self,
        folder: bytes,
        snapshot: CachedTree,
        *,
        scanned: Mapping[bytes, Record],
        places: Collection[bytes],
        look_again: Callable[[CachedTree], None],
    ) -> None:
        """Do so with what a restore left of what was ``scanned``; ``places`` are the directories it changed.

        What was heard of them until now may be our own work, what comes after that is somebody else's: those
        for which it can vouch when they were looked at again need no look by the next scan.
        """

        def remember(kept: CachedTree) -> None:
            self.known, self._last = kept, None
            if self._records is not scanned:
                return
            self._records = kept.records
            for path in places:
                self._marks.note(path, kept.records[path])
            if self._dirty is not None and self.is_here and not self._is_torn:
                self._is_torn, self._is_doubtful = True, False
                self._hear_up_to_now()
                look_again(kept)
                self.refutes()
                for path in set(places) - self._listed:
                    self._distrust(path)
                self.end(kept.records, visited=places)
                self._is_torn = False
            else:
                for path in places:
                    self._distrust(path)

        self._keep(folder, snapshot, remember=remember)

    def _keep(self, folder: bytes, snapshot: CachedTree, *, remember: Callable[[CachedTree], None]) -> None:
        if not self._turns.acquire(timeout=_WAIT_TO_KEEP):
            return
        try:
            kept = snapshot if self._owe(folder, snapshot) else cache.keep(folder, snapshot)
            if kept is not None:
                remember(kept)
        finally:
            self._turns.release()
        if self.is_owing and self._rest is not None:
            self._rest.put_off(self.settle_up)

    def _owe(self, folder: bytes, snapshot: CachedTree) -> bool:
        """Put off writing a scan cache that is to be remembered now; False where it has to be written.

        What lies there meanwhile is that of an earlier scan, which proves as little as it did.
        """
        known = self.known
        is_next = known is not None and known.details.name == snapshot.details.name != b""
        if not is_next or snapshot.details.owed_bytes > _MOST_OWED:
            self._owed = None
            return False
        self._owed = folder
        return True

    def settle_up(self) -> None:
        """Write the scan cache that was put off, unless somebody else wrote another meanwhile.

        Once it has returned no other thread is at that.
        """
        if not self.is_here or not self._turns.acquire(timeout=_WAIT_TO_KEEP):
            return
        try:
            self._settle_up()
        finally:
            self._turns.release()

    def _settle_up(self) -> None:
        try:
            kept = self._written()
        finally:
            self._owed = None  # not before: who sees that nothing is owed may read what was written
        if kept is None:
            return
        known, self.known = self.known, kept
        if known is not None and self._records is known.records:
            self._records = kept.records
        if self._last is not None and self._last[1] is known:
            self._last = self._last[0], kept

    def _written(self) -> CachedTree | None:
        """Write what is owed, and return what would be read then; None if nothing was written."""
        known = self.known
        if self._owed is None or known is None or known.source != cache.source_of(self._owed):
            return None
        return cache.keep(self._owed, known)

    def close(self) -> None:
        """Hear nothing any more; harmless when repeated."""
        self.settle_up()
        if self._rest is not None:
            self._rest.end()
        _open.pop(id(self), None)
        self._inotify.close()
        # Nobody uses their numbers from here on, which may be another file's as soon as they are closed.
        mounts, mark, self._mounts, self._mark = self._mounts, self._mark, -1, -1
        for descriptor in (mounts, mark):
            if descriptor >= 0:
                os.close(descriptor)

    def __del__(self) -> None:
        if self._is_whole:
            self._owed = None
            self.close()

    def _has_links(self, names: Iterable[bytes], stats: Iterable[Evidence | int], descriptor: int) -> bool:
        found = False
        for name, state in zip(names, stats, strict=True):
            if isinstance(state, int) or state[0] & FORMAT_MASK != FORMAT_FILE:
                continue
            try:
                seen = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except OSError:  # gone, or replaced: it is heard of
                continue
            file = seen.st_dev, seen.st_ino
            if seen.st_nlink == 1:  # the next link to it is a new one, and so is one to a file of its number
                self._linked.discard(file)
                continue
            found = True
            self._is_doubtful |= file not in self._linked
            self._linked.add(file)
        return found

    def _forget(self, gone: set[bytes]) -> None:
        """Let go of directories, and of everything below them."""
        for path in [one for one in self._watches if _lies_in(one, gone)]:
            self._drop(path)

    def _forget_everything(self) -> None:
        self._last = self._dirty = None
        for path in list(self._watches):
            self._drop(path)

    def _drop(self, path: bytes) -> None:
        watch = self._watches.pop(path)
        self._distrust(path)
        self._listed.discard(path)
        if self._paths.get(watch) == path:
            del self._paths[watch]
            self._inotify.remove(watch)


# Those of this process that are open: together they take one share. No `WeakSet`: that cannot be gone through
# while another thread opens one.
_open: dict[int, ref[DirectoryWatch]] = {}


def _lies_in(path: bytes, tops: set[bytes]) -> bool:
    while path not in tops:
        above, slash, _ = path.rpartition(b"/")
        if not slash:
            return b"" in tops
        path = above
    return True


def share() -> int:
    """Return how many directories one user's process may watch."""
    try:
        with open(_LIMIT, "rb", buffering=0) as file:
            return int(file.read()) // _SHARE
    except (OSError, ValueError):
        return 0


def _unnamed(folder: bytes) -> int:
    path = folder + b"/watch-%d-%s" % (os.getpid(), os.urandom(4).hex().encode())
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.unlink(path)
    return descriptor
