"""What came out of a path: discarded, kept outside or put back, so that nobody's edit is lost (rule T12b).

Between the last look at a path and its replacement anybody may write to it. So a replacement is an
exchange with what lies ready under ``.lastgood-TOKEN-N.old``, a deletion a move to that name: whatever
the path held in that very moment is there now, and is looked at again before it goes (`discard`).

- It is what the step says, which the guard holds, and nobody has it open for writing: it goes.
- It is that, and somebody has it open for writing: it leaves for the store, where they go on writing to
  it; if that is on another disk it is put back, and the step has failed.
- It is anything else, an edit: it is put back by a second exchange, and the step has failed. What comes
  out then has to be what the step wrote. If it is not, somebody wrote to the path between the two
  exchanges: theirs is the newer one, gets the path back, and the older one is kept in the store.

A file system without exchanges has the path stand empty for a moment: rule T12b beats rule T6.

A read lease (fcntl(2), F_SETLEASE) is granted only while nobody has a file open for writing; a shared
mapping that can be written keeps its file open, also when its descriptor is closed (measured on ext4
and tmpfs; on overlayfs, which maps the file below, only as long as a descriptor is open). So the order
is: lease, then look, then unlink, then let the lease go.

- Who had the file open before the lease is seen by it: the file is told as held, whatever it holds.
- Who wrote and closed before the lease is seen by the look, which reads every byte: times alone do not
  tell, for what is stored through a mapping need not change them.
- Who opens it for writing while the lease is held waits in the kernel until it is let go, and is seen
  just before the unlink: the file is told as held. By then no path leads to it but our temporary name,
  another link (which keeps it, whatever becomes of ours), and the descriptor of a reader.

Nothing more can be known where the file system has no leases (some network ones, and FUSE), the file is
another user's, or the system is not Linux: there what the look says counts.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count

from lastgood import renames
from lastgood.deletion_policy import same_content
from lastgood.directories import OPEN_DIRECTORY, is_nowhere
from lastgood.model.tree import DIRECTORY, FILE, LINK, Entry
from lastgood.paths import join, parent, printable, to_text
from lastgood.procfs import writers_of
from lastgood.renames import exchange, is_there, take
from lastgood.restore.site import Changed, entry_at, is_unreadable, open_regular, steady_id
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Literal

    from lastgood.directories import Directories
    from lastgood.model.operation import Result, Step
    from lastgood.restore.site import Site

    # Deleted or not there; open for writing; or not what it was expected to be.
    Fate = Literal["gone", "held", "other"]
    # Refused because somebody has the file open for writing; unknown where nobody gets one.
    Lease = Literal["ours", "refused", "unknown"]


# --- What came out of a path, looked at once more before it goes for good (rule T12b) ---

if sys.platform == "linux":
    import fcntl
    from signal import SIGURG


def discard(name: bytes, directory: int, *, expected: Callable[[Entry], bool]) -> Fate:
    """Delete what a name holds if that is expected, and nobody can be about to write to it."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return "gone"
    if stat.S_ISREG(found.st_mode):
        return _discard_file(name, directory, found, expected=expected)
    entry = entry_at(name, directory)
    if entry is None or entry.kind == DIRECTORY or not expected(entry):
        return "other"
    os.unlink(name, dir_fd=directory)
    return "gone"


def _lease(descriptor: int) -> Lease:
    """Take a read lease on an open file, which ends with its descriptor.

    Who opens it for writing meanwhile has us told by a signal, and the usual one would end us: so it is
    one that programs ignore unless they ask for it.
    """
    if sys.platform != "linux":
        return "unknown"
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return "refused" if error.errno == errno.EAGAIN else "unknown"
    return "ours"


def _discard_file(
    name: bytes, directory: int, found: os.stat_result, *, expected: Callable[[Entry], bool]
) -> Fate:
    try:
        descriptor = open_regular(name, directory)
    except OSError as error:
        if not is_unreadable(error):
            raise
        # Nobody could read it before either: all that is known of it is that.
        if not expected(Entry(name=name, kind=FILE, mode=stat.S_IMODE(found.st_mode), oid=b"")):
            return "other"
        os.unlink(name, dir_fd=directory)
        return "gone"
    try:
        lease = _lease(descriptor)
        oid = steady_id(descriptor)
        found = os.fstat(descriptor)
        if not expected(Entry(name=name, kind=FILE, mode=stat.S_IMODE(found.st_mode), oid=oid)):
            return "other"
        # By another name it goes on living.
        if found.st_nlink < 2 and (lease == "refused" or (lease == "ours" and _is_awaited(descriptor))):
            return "held"
        os.unlink(name, dir_fd=directory)
    finally:
        os.close(descriptor)  # and the lease with it
    return "gone"


def _is_awaited(descriptor: int) -> bool:
    """Tell whether somebody waits for our lease to end."""
    return sys.platform == "linux" and fcntl.fcntl(descriptor, fcntl.F_GETLEASE) != fcntl.F_RDLCK


# --- What came out of a path: discarded, kept outside or put back, so that nobody's edit is lost (rule
# T12b) ---

CHANGED = "changed"


class Settled(Value):
    """What became of something displaced; ``result`` is None where the step went well all the same.

    ``kept`` is where it is now, outside; ``left`` where it is in the workspace, if it could not go.
    """

    result: Result | None = None
    reason: str | None = None
    kept: bytes | None = None
    left: bytes | None = None


class Displaced:
    """Brings paths to their new content, and settles what comes out.

    ``stored`` tells of a content whether the store has it, for where the steps are not known.
    """

    def __init__(
        self,
        site: Site,
        *,
        kept: Kept,
        steps: Sequence[Step],
        stored: Callable[[bytes], bool] | None = None,
    ) -> None:
        self._site = site
        self._kept = kept
        self._steps = {step.path: step for step in steps}
        self._stored = stored
        self._numbers: dict[int, bytes] | None = None
        self._exchanging = True

    def replace(self, step: Step) -> None:
        """Give a path the file or link that lies beside it; what it held takes the name of the old one."""
        site = self._site
        directory, name = site.place(step.path)
        fresh, old = site.temporary(step.path), site.old(step.path)
        if self._exchanging:
            # What bears a name without suffix is ours for certain, whoever finds it after a kill.
            take(fresh, directory, to=old, target=directory)
            try:
                done = exchange(old, name, directory)
            except OSError:
                _rename(old, fresh, directory)
                raise
            if done:
                return
            _rename(old, fresh, directory)
        take(name, directory, to=old, target=directory)
        self._exchanging = False  # nor will it be possible for the next one
        try:
            take(fresh, directory, to=name, target=directory)
        except FileExistsError:
            raise Changed from None
        except OSError:
            take(old, directory, to=name, target=directory)
            raise

    def remove(self, step: Step) -> None:
        """Move a path to the name of the old one."""
        directory, name = self._site.place(step.path)
        take(name, directory, to=self._site.old(step.path), target=directory)

    def settle(self, step: Step) -> Settled | None:
        """Decide what becomes of what came out of a path; None if it went, and all is well."""
        directory, _ = self._site.place(step.path)
        old = self._site.old(step.path)
        fate = discard(old, directory, expected=lambda entry: self._knows(step.path, entry))
        if fate == "gone":
            return None
        who = _who(old, directory) if fate == "held" else ""
        if fate == "held":
            kept = self._kept.move(self._site.directories, self._beside(step), called=_last(step.path))
            if kept is not None:
                return Settled(reason=f"{who}; what it writes goes to {_shown(kept)}", kept=kept)
        if self._put_back(step):
            reason = f"{who}, and the store is on another disk" if who else CHANGED
            return self._with_newer(step, Settled(result="failed", reason=reason))
        return self._with_newer(step, self.take_out(self._beside(step), called=_last(step.path)))

    def stuck(self, step: Step) -> Settled | None:
        """Return what to say of what could not be settled, because the disk fails."""
        left = self._beside(step)
        try:
            directory, _ = self._site.place(step.path)
        except OSError as error:
            if is_nowhere(error):
                return None
            raise
        if not is_there(self._site.old(step.path), directory):
            return None
        return self._with_newer(step, Settled(reason=f"what was there is left in {_shown(left)}", left=left))

    def settle_aside(self, path: bytes, where: bytes) -> Settled | None:
        """Decide what becomes of a path that was set aside; None if it went, and all is well."""
        directories = self._site.directories
        wrapper, name = parent(where), _last(where)
        held = self._purge(path, where)
        settled = None
        if is_there(name, directories.open(wrapper)):
            who = _who(name, directories.open(wrapper)) if held else ""
            settled = self.take_out(where, called=name)
            if held and settled.kept is not None:
                settled = Settled(
                    reason=f"{who}; what it writes goes to {_shown(settled.kept)}", kept=settled.kept
                )
        renames.remove_directory(directories, wrapper)
        return settled

    def clear(self, place: bytes) -> Iterator[tuple[bytes, Settled]]:
        """Settle everything temporary in a directory, and yield what could not just go, by path.

        What cannot be changed is left, and the rest goes on.
        """
        try:
            names = [name for name in self._site.directories.names(place) if self._site.is_ours(name)]
        except OSError as error:
            if not is_nowhere(error):
                yield place, _unchangeable(place, error)
            return
        for name in names:
            try:
                yield from self._clear(place, name)
            except OSError as error:
                if not is_nowhere(error):
                    where = join(place, name)
                    yield self._path_of(name) or where, _unchangeable(where, error)

    def _clear(self, place: bytes, name: bytes) -> Iterator[tuple[bytes, Settled]]:
        if name.endswith(renames.SUFFIX):
            yield from self._clear_aside(join(place, name))
        elif name.endswith(renames.OLD):
            yield from self._clear_old(place, name)
        else:  # it has never borne another name
            os.unlink(name, dir_fd=self._site.directories.open_to_change(place))

    def _clear_old(self, place: bytes, name: bytes) -> Iterator[tuple[bytes, Settled]]:
        path = self._path_of(name) or join(place, name)
        if path in self._steps and parent(path) == place:
            settled = self.settle(self._steps[path])
        elif self._discard(path, join(place, name)) == "gone":
            settled = None
        else:
            settled = self.take_out(join(place, name), called=_last(path))
        if settled is not None:
            yield path, settled

    def _clear_aside(self, wrapper: bytes) -> Iterator[tuple[bytes, Settled]]:
        directories = self._site.directories
        for name in directories.names(wrapper):
            path, where = join(parent(wrapper), name), join(wrapper, name)
            if not is_there(name, directories.open_to_change(parent(wrapper))) and renames.put_back(
                directories, path, where
            ):
                return
            settled = self.settle_aside(path, where)
            if settled is not None:
                yield path, settled
            return
        renames.remove_directory(directories, wrapper)

    def _purge(self, path: bytes, where: bytes) -> bool:
        """Delete what was set aside if the store has it; tell whether all the rest is open for writing."""
        directories = self._site.directories
        directory = directories.open_to_change(parent(where))
        if not _is_directory(_last(where), directory):
            return self._discard(path, where) == "held"
        order = [b""]
        fates = set()
        for inner in order:  # grows
            place = where + inner
            for name in directories.names(place):
                if _is_directory(name, directories.open(place)):
                    order.append(inner + b"/" + name)
                else:
                    was = self._path_of(name) or path + inner + b"/" + name
                    fates.add(self._discard(was, join(place, name)))
        for inner in reversed(order):
            renames.remove_directory(directories, where + inner)
        return fates <= {"gone", "held"} and "held" in fates

    def _path_of(self, name: bytes) -> bytes | None:
        """Return the path beside which a temporary name was made, if a step is about it."""
        if not self._site.is_ours(name):
            return None
        if self._numbers is None:
            self._numbers = {renames.number_of(path): path for path in self._steps}
        return self._numbers.get(renames.number_in(name))

    def _knows(self, path: bytes, entry: Entry) -> bool:
        """Tell whether something is what a step found at a path or brings to it: the store has both."""
        step = self._steps.get(path)
        if step is not None and (same_content(step.have, entry) or same_content(step.want, entry)):
            return True
        return self._stored is not None and self._stored(entry.oid)

    def _discard(self, path: bytes, where: bytes) -> Fate:
        directory = self._site.directories.open_to_change(parent(where))
        return discard(_last(where), directory, expected=lambda entry: self._knows(path, entry))

    def take_out(self, path: bytes, *, called: bytes) -> Settled:
        """Bring something of a person's out of the workspace."""
        directories = self._site.directories
        where, gone = self._kept.move(directories, path, called=called), True
        if where is None:
            where, gone = self._kept.copy(directories, path, called=called)
        left = None if gone else path
        reason = CHANGED + _places("what was there", kept=where, left=left)
        return Settled(result="failed", reason=reason, kept=where, left=left)

    def _with_newer(self, step: Step, settled: Settled) -> Settled:
        """Bring out too what came to a path after we wrote to it, where it could not go back either."""
        directory, _ = self._site.place(step.path)
        name = self._site.newer(step.path)
        if not is_there(name, directory):
            return settled
        path = join(parent(self._site.located(step.path)), name)
        try:
            newer = self.take_out(path, called=_last(step.path))
        except OSError:  # what is known already has to be told all the same
            newer = Settled(left=path)
        said = _places("what came after it", kept=newer.kept, left=newer.left)
        return Settled(
            result="failed",
            reason=f"{settled.reason}{said}",
            kept=settled.kept or newer.kept,
            left=settled.left or newer.left,
        )

    def _put_back(self, step: Step) -> bool:
        """Give a path back what came out of it; False if something newer has come there meanwhile."""
        directory, name = self._site.place(step.path)
        old = self._site.old(step.path)
        if step.want is not None:
            try:
                if not exchange(old, name, directory):
                    return self._put_back_without(step, directory, name)
            except FileNotFoundError:
                pass  # somebody has deleted it meanwhile
            else:
                if discard(old, directory, expected=lambda entry: self._knows(step.path, entry)) == "gone":
                    return True
                exchange(old, name, directory)
                return False
        return _taken(old, directory, name)

    def _put_back_without(self, step: Step, directory: int, name: bytes) -> bool:
        """Do so where nothing can be exchanged; what is newer may keep the name that it gets for that."""
        newer = self._site.newer(step.path)
        try:
            take(name, directory, to=newer, target=directory)
        except FileNotFoundError:
            return _taken(self._site.old(step.path), directory, name)
        except FileExistsError:  # it was taken when this was tried before
            return False
        if discard(newer, directory, expected=lambda entry: self._knows(step.path, entry)) == "gone":
            return _taken(self._site.old(step.path), directory, name)
        _taken(newer, directory, name)
        return False

    def _beside(self, step: Step) -> bytes:
        return join(parent(self._site.located(step.path)), self._site.old(step.path))


def _is_directory(name: bytes, directory: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _taken(name: bytes, directory: int, to: bytes) -> bool:
    try:
        take(name, directory, to=to, target=directory)
    except FileExistsError:
        return False
    return True


def _rename(name: bytes, to: bytes, directory: int) -> None:
    os.rename(name, to, src_dir_fd=directory, dst_dir_fd=directory)


def _unchangeable(left: bytes, error: OSError) -> Settled:
    reason = f"{(error.strerror or str(error)).lower()}: {_shown(left) or '.'} cannot be cleared"
    return Settled(result="skipped", reason=reason, left=left)


def _who(name: bytes, directory: int) -> str:
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    names = writers_of(found.st_dev, found.st_ino)
    return f"open for writing in {', '.join(names)}" if names else "open for writing in another program"


def _shown(path: bytes) -> str:
    return printable(to_text(path))


def _places(what: str, *, kept: bytes | None, left: bytes | None) -> str:
    """Return where something is now, to follow what became of it."""
    said = "" if kept is None else f"; {what} is kept in {_shown(kept)}"
    return said if left is None else f"{said}; {what} is left in {_shown(left)}"


def _last(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


# --- Where goes what somebody may still be writing to: out of the workspace, into the store (rule T12b) ---

_PRIVATE = 0o700
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 20
# So much of a name is kept where a number has to be added.
_LONGEST = 200


class Kept:
    """The folder for what one operation keeps, made when it is first needed; None where there is none."""

    def __init__(self, folder: bytes | None, *, token: str) -> None:
        self._folder = None if folder is None else join(folder, token.encode())

    def move(self, directories: Directories, path: bytes, *, called: bytes) -> bytes | None:
        """Move a path into the folder, and return where it is; None if that lies on another disk.

        Whoever has it open goes on writing to the very same file.
        """
        if self._folder is None:
            return None
        with _made(self._folder) as target:
            to = _free(called, target)
            if not _move(directories, path, to, target):
                return None
            with suppress(OSError):  # it is there: to say so counts more than a disk that fails
                _sync_names(self._folder, target)
            return join(self._folder, to)

    def copy(self, directories: Directories, path: bytes, *, called: bytes) -> tuple[bytes | None, bool]:
        """Copy a path into the folder and delete it; return where it is, and whether all of it could go.

        Nothing is deleted before the whole copy is on the disk. What somebody has open for writing stays:
        what they write would go to the file that is deleted.
        """
        if self._folder is None:
            return None, False
        with _made(self._folder) as target:
            to = _free(called, target)
            copy = _Copy(directories, target)
            try:
                copy.take_in(path, to)
                copy.sync()
                _sync_names(self._folder, target)
            except OSError:
                from lastgood.directories import remove_below

                with suppress(OSError):
                    remove_below(to, target)
                raise
            gone = copy.discard_original()
            return (join(self._folder, to) if is_there(to, target) else None), gone


class _Copy:
    """A copy of a file or a directory on another disk, whose original goes when that is safe."""

    def __init__(self, directories: Directories, target: int) -> None:
        self._directories = directories
        self._target = target
        # Directories, outer ones first, with their copies.
        self._folders: list[tuple[bytes, bytes]] = []
        # Files and links, with their copies and what those hold.
        self._files: list[tuple[bytes, bytes, Entry | None]] = []
        self._whole = True

    def take_in(self, path: bytes, to: bytes) -> None:
        """Copy a path, but for what cannot be read."""
        if not self._is_directory(path):
            self._copy_file(path, to)
            return
        self._folders.append((path, to))
        for place, copy in self._folders:  # grows
            os.mkdir(copy, _PRIVATE, dir_fd=self._target)
            for name in self._directories.names(place):
                inside, inside_copy = join(place, name), join(copy, name)
                if self._is_directory(inside):
                    self._folders.append((inside, inside_copy))
                else:
                    self._copy_file(inside, inside_copy)

    def sync(self) -> None:
        """Carry the names in the copies of directories through to the disk."""
        for _, copy in self._folders:
            _sync(copy, self._target)

    def discard_original(self) -> bool:
        """Delete what was copied, and tell whether all of the original is gone.

        A copy that is not what the original holds by now, or that somebody may still be writing to, goes.
        """
        for path, copy, entry in self._files:
            try:
                if discard(_last(path), self._above(path), expected=partial(same_content, entry)) == "gone":
                    continue
                os.unlink(copy, dir_fd=self._target)
            except OSError:  # rather twice than never
                pass
            self._whole = False
        if self._whole:
            self._remove_folders()
        return self._whole

    def _remove_folders(self) -> None:
        for place, _ in reversed(self._folders):
            self._directories.forget(place)
            try:
                os.rmdir(_last(place), dir_fd=self._above(place))
            except OSError:  # something came into it meanwhile
                self._whole = False
                return

    def _copy_file(self, path: bytes, to: bytes) -> None:
        name, directory = _last(path), self._above(path)
        entry = entry_at(name, directory)
        if entry is None:
            return
        if entry.kind == LINK:
            os.symlink(os.readlink(name, dir_fd=directory), to, dir_fd=self._target)
        elif entry.kind == DIRECTORY or not entry.oid:
            self._whole = False
            return
        else:
            _copy_bytes(name, directory, to=to, mode=entry.mode, target=self._target)
        self._files.append((path, to, entry_at(to, self._target)))

    def _is_directory(self, path: bytes) -> bool:
        found = os.stat(_last(path), dir_fd=self._above(path), follow_symlinks=False)
        return stat.S_ISDIR(found.st_mode)

    def _above(self, path: bytes) -> int:
        return self._directories.open_to_change(parent(path))


@contextmanager
def _made(folder: bytes) -> Iterator[int]:
    """Make a folder, and the one that holds it, where they are missing, and open it."""
    for one in (parent(folder), folder):
        with suppress(FileExistsError):
            os.mkdir(one, _PRIVATE)
    descriptor = os.open(folder, OPEN_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _sync_names(folder: bytes, descriptor: int) -> None:
    """Carry through to the disk the names in an open folder, its own, and that of the one that holds it."""
    os.fsync(descriptor)
    for above in (parent(folder), parent(parent(folder))):
        _sync(above, descriptor)


def _sync(path: bytes, directory: int) -> None:
    descriptor = os.open(path, OPEN_DIRECTORY, dir_fd=directory)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _free(called: bytes, target: int) -> bytes:
    return next(name for name in _names(called) if not is_there(name, target))


def _names(called: bytes) -> Iterator[bytes]:
    yield called
    for number in count(2):
        yield b"%b.%d" % (called[:_LONGEST], number)


def _move(directories: Directories, path: bytes, to: bytes, target: int) -> bool:
    directories.forget(path)
    directory = directories.open_to_change(parent(path))
    try:
        take(_last(path), directory, to=to, target=target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return False
    return True


def _copy_bytes(name: bytes, directory: int, *, to: bytes, mode: int, target: int) -> None:
    source = open_regular(name, directory)
    try:
        descriptor = os.open(to, _CREATE, mode, dir_fd=target)
        try:
            while piece := os.read(source, _PIECE):
                rest = memoryview(piece)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    finally:
        os.close(source)
