"""What a path holds now, read anew, and the letting go of what came out of one.

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
from _operator import attrgetter

from lastgood.directories import MOST_OPEN, Nearby, is_nowhere, open_root
from lastgood.errors import CROWDED, Unsafe, crowded
from lastgood.files import is_lease_awaited, is_written_by_nobody, take_lease
from lastgood.host import Proof
from lastgood.ids import sha1_for
from lastgood.model.tree import DIRECTORY, FILE, LINK, Entry
from lastgood.paths import parent, printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Literal, Self

    from lastgood.ids import Digest

    # Deleted or not there; open for writing; or not what it was expected to be.
    Fate = Literal["gone", "held", "other"]
    # An id, and the bytes of which it is.
    Content = tuple[bytes, bytes]


# --- What a path holds now, read anew and hashed as git hashes ---

_PIECE = 1 << 18
_TRIES = 3
_KEPT_FROM_US = frozenset({errno.EACCES, errno.EPERM})
_READ_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def in_memory(contents: Mapping[bytes, bytes], entry: Entry | None) -> Content | None:
    """Return the content of a file, if it is among those that were proven and are in memory.

    What is read of a file and equals it has its id: nothing is hashed to know that.
    """
    if entry is None or entry.kind != FILE:
        return None
    content = contents.get(entry.oid)
    return None if content is None else (entry.oid, content)


def entry_at(name: bytes, directory: int) -> Entry | None:
    """Return what a name in a directory holds, None if nothing.

    A directory's ``oid`` is empty, and so is that of anything whose content cannot be read as a
    whole: a socket, an unreadable file, one that will not hold still. OSError where nothing can be opened.
    """
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if is_nowhere(error):
            return None
        return Entry(name=name, kind=FILE, mode=0, oid=b"")
    if stat.S_ISDIR(found.st_mode):
        return Entry(name=name, kind=DIRECTORY, mode=stat.S_IMODE(found.st_mode), oid=b"")
    if stat.S_ISLNK(found.st_mode):
        return _link_at(name, directory)
    oid = _file_id(name, directory) if stat.S_ISREG(found.st_mode) else b""
    return Entry(name=name, kind=FILE, mode=stat.S_IMODE(found.st_mode), oid=oid)


def proof_at(name: bytes, directory: int, likely: Content | None = None) -> Proof:
    """Return what a name in a directory holds, as `entry_at` does, with the evidence for it.

    ``likely`` is what it is expected to be.
    """
    proof = None
    before = _seen(name, directory)
    if before is not None:
        find = _proven_file if stat.S_ISREG(before.st_mode) else _proven_other
        proof = find(name, directory, before, likely)
    return proof or Proof(entry=entry_at(name, directory))


def _proven_file(name: bytes, directory: int, before: os.stat_result, likely: Content | None) -> Proof | None:
    """Return the proof for a file; None unless stat says the same of what was read as before and after."""
    try:
        descriptor, found = opened_regular(name, directory)
    except OSError:
        return None
    try:
        # A write stamps the file first and copies then: of who writes already no time tells, but a lease.
        steady = is_written_by_nobody(descriptor)
        oid = _id_of(descriptor, found.st_size, likely)
    except OSError:
        return None
    else:
        after = _seen(name, directory)  # while no other file can have the number of this one
    finally:
        os.close(descriptor)
    if not oid or after is None or not _version(before) == _version(found) == _version(after):
        return None
    entry = Entry(name=name, kind=FILE, mode=stat.S_IMODE(before.st_mode), oid=oid)
    return Proof(entry=entry, stat=before, steady=steady)


def _proven_other(
    name: bytes, directory: int, before: os.stat_result, _likely: Content | None
) -> Proof | None:
    """Return the proof for a link; of anything else nothing is noted but what it is."""
    entry = entry_at(name, directory)
    if entry is None or not entry.oid:
        return Proof(entry=entry)
    after = _seen(name, directory)
    if after is None or _version(before) != _version(after):
        return None
    return Proof(entry=entry, stat=before, steady=True)


def _seen(name: bytes, directory: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return None


_version = attrgetter("st_mode", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ino", "st_dev")


def _link_at(name: bytes, directory: int) -> Entry:
    try:
        target = os.readlink(name, dir_fd=directory)
    except OSError:  # it became something else meanwhile: it will not hold still
        return Entry(name=name, kind=FILE, mode=0, oid=b"")
    return Entry(name=name, kind=LINK, mode=0, oid=blob_id(target))


def content_at(name: bytes, directory: int, entry: Entry) -> bytes | None:
    """Return a file's bytes, or a link's target; None unless they are those of an entry."""
    try:
        if entry.kind == LINK:
            content = os.readlink(name, dir_fd=directory)
        else:
            descriptor = open_regular(name, directory)
            with open(descriptor, "rb") as file:
                # One that grows has not the entry's bytes, however many it gets.
                content = file.read(os.fstat(descriptor).st_size + 1)
    except OSError as error:
        if error.errno in CROWDED:
            raise
        return None
    return content if blob_id(content) == entry.oid else None


def blob_id(content: bytes) -> bytes:
    """Return the id under which git would know some bytes."""
    digest = _begin(len(content))
    digest.update(content)
    return digest.digest()


def _steady_id(
    descriptor: int, before: os.stat_result, likely: Content | None
) -> tuple[bytes, os.stat_result]:
    """Return the blob id of an open file, empty if it does not hold still, and what stat says after that."""
    for _ in range(_TRIES):
        oid, before = _whole_id(descriptor, before, likely)
        if oid:
            break
        os.lseek(descriptor, 0, os.SEEK_SET)
    return oid, before


def is_unreadable(error: OSError) -> bool:
    """Tell whether an error means that a file is there, and that its owner keeps it from us."""
    return error.errno in _KEPT_FROM_US


def _file_id(name: bytes, directory: int) -> bytes:
    for _ in range(_TRIES):
        try:
            descriptor, before = opened_regular(name, directory)
        except OSError as error:
            if error.errno in CROWDED:
                raise
            return b""
        try:
            oid, _ = _whole_id(descriptor, before)
        except OSError:
            return b""
        finally:
            os.close(descriptor)
        if oid:
            return oid
    return b""


def open_regular(name: bytes, directory: int) -> int:
    """Open a regular file to read it; FileNotFoundError for anything else."""
    return opened_regular(name, directory)[0]


def opened_regular(name: bytes, directory: int) -> tuple[int, os.stat_result]:
    """Do so, and return what stat says of it, too."""
    descriptor = os.open(name, _READ_FILE, dir_fd=directory)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise FileNotFoundError
    return descriptor, found


def _whole_id(
    descriptor: int, before: os.stat_result, likely: Content | None = None
) -> tuple[bytes, os.stat_result]:
    """Return the blob id of a file, empty if it changed since ``before``, and what stat says of it then."""
    oid = _id_of(descriptor, before.st_size, likely)
    after = os.fstat(descriptor)
    still = before.st_size == after.st_size and before.st_mtime_ns == after.st_mtime_ns
    return oid if still else b"", after


def _id_of(descriptor: int, size: int, likely: Content | None) -> bytes:
    """Return the blob id of what is read of a file, empty if it has not so many bytes."""
    found = b""
    if likely is not None and len(likely[1]) == size:
        found = os.read(descriptor, size)
        if found == likely[1]:
            return likely[0]
    return _read_id(descriptor, size, begun=found)


def _read_id(descriptor: int, size: int, *, begun: bytes) -> bytes:
    """Return the blob id of a file of which some was read already, empty if it has not so many bytes."""
    digest = _begin(size)
    digest.update(begun)
    left = size - len(begun)
    while left:
        piece = os.read(descriptor, min(left, _PIECE))
        if not piece:
            return b""
        digest.update(piece)
        left -= len(piece)
    return digest.digest()


def _begin(size: int) -> Digest:
    return sha1_for(size)(b"blob %d\0" % size)


class PathReader:
    """Answers what paths hold now; the directories near the last one stay open until it ends.

    So do the first to ``keep`` of those that hold paths.
    """

    def __init__(self, root: bytes, *, keep: int = 0) -> None:
        self._path = root
        self._root = -1
        self._keep = keep
        self._nearby = Nearby(-1)

    def __enter__(self) -> Callable[[bytes], Entry | None]:
        return self.present

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._nearby.close()
        if self._root >= 0:
            descriptor, self._root = self._root, -1
            os.close(descriptor)

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

    @property
    def kept(self) -> Mapping[bytes, int]:
        """The directories that stay open until it ends, by their paths."""
        return self._nearby.kept

    def permissions(self, path: bytes) -> int | None:
        """Return the permissions of a directory, None of what is none, or cannot be looked at."""
        try:
            found = os.stat(
                path.rpartition(b"/")[2] or b".", dir_fd=self.directory(path), follow_symlinks=False
            )
        except OSError as error:
            busy = crowded(error)
            if busy is not None:
                raise busy from error
            return None
        return stat.S_IMODE(found.st_mode) if stat.S_ISDIR(found.st_mode) else None

    def directory(self, path: bytes) -> int:
        """Return the descriptor of the directory that holds a path."""
        if b"\0" in path or (path and not {b"", b".", b".."}.isdisjoint(path.split(b"/"))):
            raise Unsafe(
                f"{printable(to_text(path))} is no path inside the workspace", hint="name a path in it"
            )
        if self._root < 0:
            self._root = open_root(self._path)
            self._nearby = Nearby(self._root, keep=self._keep)
        return self._nearby.open(parent(path))


class PathProver:
    """Answers what paths hold now, with the evidence for it; ``contents`` are some that were proven, by id.

    Some dozens of the directories that hold them stay open until it ends.
    """

    def __init__(self, root: bytes, contents: Mapping[bytes, bytes]) -> None:
        self._looking = PathReader(root, keep=MOST_OPEN)
        self._contents = contents

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._looking.__exit__(kind, error, trace)

    def prove(self, path: bytes, likely: Entry | None) -> Proof:
        """Return what a path holds, as `PathReader.present` does, with the evidence for it."""
        name = path.rpartition(b"/")[2]
        try:
            directory = self._looking.directory(path)
            return proof_at(name or b".", directory, in_memory(self._contents, likely))
        except OSError:
            return Proof(entry=self._looking.present(path))

    @property
    def folders(self) -> Mapping[bytes, int]:
        """Directories in which something was proven, open as they were then, by their paths."""
        return self._looking.kept


# --- What came out of a path, looked at once more before it goes for good (rule T12b) ---


def discard(
    name: bytes,
    directory: int,
    *,
    expected: Callable[[Entry], bool],
    likely: Content | None = None,
    hold: Callable[[int], None] | None = None,
) -> Fate:
    """Delete what a name holds if that is expected, and nobody can be about to write to it.

    ``likely`` is what it most likely is. ``hold`` takes over a file that is gone, open and with its lease:
    its last closing waits for the disk.
    """
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return "gone"
    if stat.S_ISREG(found.st_mode):
        return _discard_file(name, directory, found, expected=expected, likely=likely, hold=hold)
    entry = entry_at(name, directory)
    if entry is None or entry.kind == DIRECTORY or not expected(entry):
        return "other"
    os.unlink(name, dir_fd=directory)
    return "gone"


def _discard_file(
    name: bytes,
    directory: int,
    found: os.stat_result,
    *,
    expected: Callable[[Entry], bool],
    likely: Content | None,
    hold: Callable[[int], None] | None,
) -> Fate:
    try:
        descriptor, found = opened_regular(name, directory)
    except OSError as error:
        if not is_unreadable(error):
            raise
        # Nobody could read it before either: all that is known of it is that.
        if not expected(Entry(name=name, kind=FILE, mode=stat.S_IMODE(found.st_mode), oid=b"")):
            return "other"
        os.unlink(name, dir_fd=directory)
        return "gone"
    try:
        lease = take_lease(descriptor)
        oid, found = _steady_id(descriptor, found, likely)
        if not expected(Entry(name=name, kind=FILE, mode=stat.S_IMODE(found.st_mode), oid=oid)):
            return "other"
        # By another name it goes on living.
        if found.st_nlink < 2 and (lease == "refused" or (lease == "ours" and is_lease_awaited(descriptor))):
            return "held"
        os.unlink(name, dir_fd=directory)
        if hold is not None and found.st_nlink < 2:  # else its other name is not to be kept from writers
            handed, descriptor = descriptor, -1  # first: closed twice, it might be another file's by then
            hold(handed)
    finally:
        if descriptor >= 0:
            os.close(descriptor)  # and the lease with it
    return "gone"
