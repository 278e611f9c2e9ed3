"""Directories of a workspace, each opened through its parent without following links.

Two descriptors are open at once, and no path is longer than a name: no depth stops it.
"""

from __future__ import annotations

import errno
import os
import stat

from lastgood.errors import Storage, crowded
from lastgood.model.tree import PERMISSION_BITS, SPECIAL_BITS
from lastgood.paths import parent, printable, to_text, within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    # Does something in an open directory, and returns the directories in it to go on with.
    Enter = Callable[[int], list[bytes]]


OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Linux: a descriptor that needs no permission on the file itself.
_BARE = getattr(os, "O_PATH", 0)
# So many of one kind are open at once.
MOST_OPEN = 32
_OWNER_READS = 0o500
_OWNER_WRITES = 0o700
_NOWHERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


def open_root(root: bytes) -> int:
    """Open a workspace's root; `NotFound` if it is gone, `Unsafe` if it is a link or no directory."""
    try:
        return os.open(root, OPEN_DIRECTORY)
    except OSError as error:
        from lastgood.root import gone, is_folder, is_gone, no_folder

        if is_gone(root):
            raise gone(root) from error
        if not is_folder(root):
            raise no_folder(root) from error
        raise crowded(error) or Storage(
            f"{printable(to_text(root))} cannot be opened: {error.strerror}", hint="look at its permissions"
        ) from error


def is_nowhere(error: OSError) -> bool:
    """Tell whether an error means that a path, or a directory above it, is not there."""
    return error.errno in _NOWHERE


def _mount_of(descriptor: int) -> bytes:
    """Return by which mount an open file was found, as proc(5) tells; b"" where it does not."""
    from lastgood.procfs import content_of  # lazily: hardly anything is busy

    lines = content_of(os.getpid(), f"fdinfo/{descriptor}").splitlines()
    return next((line for line in lines if line.startswith(b"mnt_id:")), b"")


class Nearby:
    """Opens directories to look into, as they are: each from the nearest above it that is open still.

    For many paths after each other, in their order. Nobody is to move directories meanwhile. Of those that
    are asked for the first to ``keep`` stay open.
    """

    def __init__(self, root: int, *, keep: int = 0) -> None:
        self._root = root
        self._keep = keep
        self.kept: dict[bytes, int] = {}
        # Directories that lie in each other; the outer ones are closed first.
        self._open: list[tuple[bytes, int]] = []

    def open(self, path: bytes) -> int:
        """Return the descriptor of a directory, good until the next one is opened."""
        opened = self._open
        known, descriptor = b"", self._root
        while opened:
            known, descriptor = opened[-1]
            if known == path:
                return descriptor
            if path.startswith(known + b"/"):
                break
            self._leave(*opened.pop())
            known, descriptor = b"", self._root
        for name in path[len(known) :].strip(b"/").split(b"/") if path else ():
            known = known + b"/" + name if known else name
            descriptor = os.open(name, OPEN_DIRECTORY, dir_fd=descriptor)
            opened.append((known, descriptor))
            if len(opened) > MOST_OPEN:
                self._leave(*opened.pop(0))
        if path and len(self.kept) < self._keep:
            self.kept.setdefault(path, descriptor)
        return descriptor

    def close(self) -> None:
        """Close them all."""
        while self._open:
            self._leave(*self._open.pop())
        while self.kept:
            os.close(self.kept.popitem()[1])

    def _leave(self, path: bytes, descriptor: int) -> None:
        if self.kept.get(path) != descriptor:
            os.close(descriptor)


class Directories:
    """A bounded set of open directories.

    Directories of our own that their owner may not read or write are made accessible when need be;
    `unlocked` tells their permissions before, which they get back in the end. ``closed`` are some that
    may be accessible from earlier.
    """

    def __init__(self, root: bytes, *, closed: Mapping[bytes, int] = {}) -> None:
        self._root = open_root(root)
        self._device = os.fstat(self._root).st_dev
        self._user = os.geteuid()
        # The least recently used comes first.
        self._open: dict[bytes, int] = {}
        # Those of them in which names may be changed, as was seen when they were opened for that.
        self._changeable: set[bytes] = set()
        self._nearby = Nearby(self._root)
        self.unlocked: dict[bytes, int] = dict(closed)
        # Those that were made: what their permissions become.
        self._made: dict[bytes, Callable[[int], int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for path in sorted(self.unlocked, reverse=True):
            try:
                self.lock_again(path)
            except OSError:  # it went, or its disk fails
                continue
        self.forget(b"")
        os.close(self._root)

    def open(self, path: bytes) -> int:
        """Return a descriptor of a directory, good until some dozens of others have been opened."""
        return self._opened(path)[0]

    def open_to_change(self, path: bytes) -> int:
        """Return a descriptor of a directory in which names may be changed.

        Raises OSError EXDEV for one that lies on another file system than the root.
        """
        if path in self._changeable and path in self._open:
            descriptor = self._open[path] = self._open.pop(path)  # used just now
            return descriptor
        descriptor, found = self._opened(path)
        if path in self._changeable:
            return descriptor
        found = found or os.fstat(descriptor)
        if found.st_dev != self._device:
            raise OSError(errno.EXDEV, "it lies on another file system")
        self._unlock(path, descriptor, found, need=_OWNER_WRITES)
        self._changeable.add(path)
        return descriptor

    def names(self, path: bytes) -> list[bytes]:
        """Return the names in a directory."""
        return [os.fsencode(name) for name in os.listdir(self.open(path))]

    def is_mounted_on(self, path: bytes) -> bool | None:
        """Tell whether something is mounted on a path; None where the system does not say that."""
        flags = _BARE | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            around = self.open(parent(path))
            there = os.open(path.rpartition(b"/")[2], flags, dir_fd=around) if _BARE else -1
        except OSError:
            return None
        if there < 0:
            return None
        try:
            mounts = _mount_of(there), _mount_of(around)
        finally:
            os.close(there)
        return mounts[0] != mounts[1] if all(mounts) else None

    def add_made(self, path: bytes, change: Callable[[int], int]) -> None:
        """Know a directory that was just made, and what its permissions become in the end.

        It is opened, for by its descriptor it gets them wherever somebody moves it meanwhile. If that is
        closed before the end it gets them then, unless they would keep out who goes on to work in it.
        """
        self._made[path] = change
        try:  # noqa: SIM105 - contextlib costs start-up time
            self.open(path)
        except OSError:  # it is gone already: whatever is done in it tells that
            pass

    def set_mode(self, path: bytes, change: Callable[[int], int]) -> None:
        """Change the permissions of a directory, of one that is open wherever it is by now.

        Raises OSError all the same if it is not at its path any more.
        """
        self._changeable.discard(path)
        above, _, name = path.rpartition(b"/")
        if path and path not in self._open:
            change_mode(name, self.open(above), change, only=os.O_DIRECTORY)
            return
        descriptor = self._known(path)
        found = os.fstat(descriptor)
        os.fchmod(descriptor, change(stat.S_IMODE(found.st_mode)))
        if path:
            now = os.stat(name, dir_fd=self.open(above), follow_symlinks=False)
            if (now.st_dev, now.st_ino) != (found.st_dev, found.st_ino):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    def lock_again(self, path: bytes) -> None:
        """Give a directory its permissions back, unless somebody has set others meanwhile."""
        before = self.unlocked[path] & PERMISSION_BITS

        def closed(mode: int) -> int:
            is_ours = mode & PERMISSION_BITS == before | mode & _OWNER_WRITES
            return before | mode & SPECIAL_BITS if is_ours else mode

        self.set_mode(path, closed)
        del self.unlocked[path]

    def open_again(self, path: bytes) -> int:
        """Open a directory as it is, its permissions unchanged; the caller closes the descriptor."""
        if path in self._open or not path:
            return os.dup(self._known(path))
        return os.dup(self._nearby.open(path))

    def hand_over(self, path: bytes) -> int:
        """Do so for who needs it last of all: what is open is the caller's from now on."""
        descriptor = self._open.pop(path, -1)
        return self.open_again(path) if descriptor < 0 else descriptor

    def hand_over_all(self) -> list[int]:
        """Return what else is open but the root, for the caller to close."""
        descriptors = list(self._open.values())
        self._open.clear()
        return descriptors

    def moved(self, path: bytes, now: bytes) -> None:
        """Take note that a directory, or a file, is somewhere else."""
        self.forget(path)
        for known in [known for known in self.unlocked if within(known, path)]:
            self.unlocked[now + known[len(path) :]] = self.unlocked.pop(known)

    def forget(self, path: bytes) -> None:
        """Close a directory and all below it, because it moves or goes."""
        self._nearby.close()
        for known in [known for known in self._open if within(known, path)]:
            os.close(self._open.pop(known))

    def _opened(self, path: bytes) -> tuple[int, os.stat_result | None]:
        """Do what `open` does, and return what was said of the directory if it was opened just now."""
        known, found = path, None
        while known and known not in self._open:
            known = known.rpartition(b"/")[0]
        descriptor = self._known(known)
        for name in path[len(known) :].strip(b"/").split(b"/") if known != path else ():
            known = known + b"/" + name if known else name
            descriptor, found = self._enter(known, name, descriptor)
        return descriptor, found

    def _known(self, path: bytes) -> int:
        if not path:
            return self._root
        descriptor = self._open.pop(path)
        self._open[path] = descriptor
        return descriptor

    def _enter(self, path: bytes, name: bytes, outer: int) -> tuple[int, os.stat_result]:
        try:
            descriptor = os.open(name, OPEN_DIRECTORY, dir_fd=outer)
        except PermissionError:
            self._unlock_unreadable(path, name, outer)
            descriptor = os.open(name, OPEN_DIRECTORY, dir_fd=outer)
        self._open[path] = descriptor
        self._changeable.discard(path)
        found = os.fstat(descriptor)
        self._unlock(path, descriptor, found, need=_OWNER_READS)
        if len(self._open) > MOST_OPEN:
            self._close_oldest()
        return descriptor, found

    def _close_oldest(self) -> None:
        path = next(iter(self._open))
        descriptor = self._open.pop(path)
        try:
            if path in self._made:
                mode = self._made.pop(path)(stat.S_IMODE(os.fstat(descriptor).st_mode))
                if mode & _OWNER_WRITES == _OWNER_WRITES:
                    os.fchmod(descriptor, mode)
        except OSError:  # it is tried again in the end, and told then
            pass
        finally:
            os.close(descriptor)

    def _unlock(self, path: bytes, descriptor: int, found: os.stat_result, *, need: int) -> None:
        if found.st_mode & need == need or found.st_uid != self._user:
            return
        # Not for root, whom permissions do not stop: a kill would leave the directory widened.
        if os.access(b".", os.R_OK | os.W_OK | os.X_OK, dir_fd=descriptor, effective_ids=True):
            return
        os.fchmod(descriptor, stat.S_IMODE(found.st_mode) | need)
        self.unlocked.setdefault(path, stat.S_IMODE(found.st_mode))

    def _unlock_unreadable(self, path: bytes, name: bytes, outer: int) -> None:
        before = change_mode(name, outer, lambda mode: mode | _OWNER_READS, only=os.O_DIRECTORY)
        self.unlocked.setdefault(path, before)


def change_mode(name: bytes, directory: int, change: Callable[[int], int], *, only: int = 0) -> int:
    """Change the permissions of a file or directory, never through a link; return them as they were.

    ``only`` may be O_DIRECTORY, for which nothing else will do.
    """
    flags = os.O_NOFOLLOW | os.O_CLOEXEC | only
    try:
        descriptor = os.open(name, flags | os.O_RDONLY | os.O_NONBLOCK, dir_fd=directory)
        bare = False
    except PermissionError:
        if not _BARE:
            raise
        descriptor = os.open(name, flags | _BARE, dir_fd=directory)
        bare = True
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            raise OSError(errno.ELOOP, "it is no file and no directory")
        mode = stat.S_IMODE(found.st_mode)
        if bare:
            os.chmod(b"/proc/self/fd/%d" % descriptor, change(mode))
        else:
            os.fchmod(descriptor, change(mode))
    finally:
        os.close(descriptor)
    return mode


# --- Goes through folders however deep they are, to delete them ---

_OWNER = 0o700


def remove_tree(path: bytes) -> int:
    """Delete a folder of ours with all that is in it, links as links, and return the bytes of its files.

    What its owner may not change is made accessible first. OSError where something cannot be deleted.
    """
    above, name = os.path.split(path)
    directory = os.open(above or b".", OPEN_DIRECTORY)
    try:
        return remove_below(name, directory)
    finally:
        os.close(directory)


def remove_below(name: bytes, directory: int) -> int:
    """Delete what a name in an open directory stands for, as `remove_tree` does."""
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=directory)
        return found.st_size
    freed = 0

    def empty(descriptor: int) -> list[bytes]:
        nonlocal freed
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if mode & _OWNER != _OWNER:
            os.fchmod(descriptor, mode | _OWNER)
        directories = _directories(descriptor)
        for one in set(_names(descriptor)).difference(directories):
            freed += os.stat(one, dir_fd=descriptor, follow_symlinks=False).st_size
            os.unlink(one, dir_fd=descriptor)
        return directories

    _walk(name, directory, enter=empty, remove=True)
    os.rmdir(name, dir_fd=directory)
    return freed


def holds(wanted: bytes, name: bytes, directory: int) -> bool:
    """Tell whether a directory holds a name, at whatever depth; False for what is no directory."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        return False
    found = False

    def look(descriptor: int) -> list[bytes]:
        nonlocal found
        found = found or wanted in _names(descriptor)
        return [] if found else _directories(descriptor)

    _walk(name, directory, enter=look, remove=False)
    return found


def _walk(name: bytes, directory: int, *, enter: Enter, remove: bool) -> None:
    """Enter a directory and those below it; with ``remove`` each of these is deleted when it is left.

    OSError EXDEV where another file system begins, ESTALE where a directory was moved away meanwhile.
    """
    descriptor = _open(name, directory)
    try:
        # By directory on the way: those in it that have not been left, and how to know it again.
        way = [(enter(descriptor), _identity(descriptor))]
        while True:
            inside, identity = way[-1]
            if inside:
                below = _open(inside[-1], descriptor)
                os.close(descriptor)
                descriptor = below
                if _identity(descriptor)[0] != identity[0]:
                    raise OSError(errno.EXDEV, "another file system is mounted in it")
                way.append((enter(descriptor), _identity(descriptor)))
                continue
            way.pop()
            if not way:
                return
            above = os.open(b"..", OPEN_DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = above
            inside, identity = way[-1]
            if _identity(descriptor) != identity:
                raise OSError(errno.ESTALE, "a directory in it was moved meanwhile")
            left = inside.pop()
            if remove:
                os.rmdir(left, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def _names(descriptor: int) -> list[bytes]:
    return [os.fsencode(name) for name in os.listdir(descriptor)]


def _directories(descriptor: int) -> list[bytes]:
    with os.scandir(descriptor) as entries:
        return [os.fsencode(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)]


def _open(name: bytes, directory: int) -> int:
    try:
        return os.open(name, OPEN_DIRECTORY, dir_fd=directory)
    except PermissionError:
        change_mode(name, directory, lambda mode: mode | _OWNER, only=os.O_DIRECTORY)
        return os.open(name, OPEN_DIRECTORY, dir_fd=directory)


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
