"""Files: small durable writes, whole or not at all, and whether somebody else writes to one."""

from __future__ import annotations

import errno
import os
import stat
import sys
from _blake2 import blake2b
from _functools import partial  # type: ignore[import-not-found]  # lighter than `functools`
from _thread import allocate_lock, get_ident, start_new_thread

if sys.platform == "linux":
    import fcntl
    from _signal import SIGURG  # type: ignore[import-not-found]  # lighter than `signal`, which makes enums

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Sequence
    from typing import Literal

    # Refused because somebody has the file open for writing; unknown where nobody gets one.
    Lease = Literal["ours", "refused", "unknown"]

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700
# As many as every system takes (IOV_MAX).
_PIECES_AT_ONCE = 1024
# In a store, there while its reserve is whole (`reserve.py`): each save looks for it.
RESERVE = b"/reserve/00"


def make_directories(path: bytes) -> None:
    """Make a directory and those missing above it, each of mode 0700 whatever the umask."""
    missing = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for place in reversed(missing):
        try:
            os.mkdir(place, PRIVATE_DIRECTORY)
        except FileExistsError:
            if not os.path.isdir(place):
                raise
        else:
            os.chmod(place, PRIVATE_DIRECTORY)


def unlink_quietly(path: bytes | str) -> None:
    """Delete a file if it is there and that can be: what stays harms nobody, and is found later."""
    try:
        os.unlink(path)
    except OSError:
        return


def write_private(path: bytes, content: bytes) -> None:
    """Write a file of mode 0600 whatever the umask, through to the disk; replaces what was there."""
    sync_and_close(written_private(path, content))


def written_private(path: bytes, content: bytes) -> int:
    """Write such a file, and return it open; not yet through to the disk."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, PRIVATE_FILE)
    try:
        os.fchmod(descriptor, PRIVATE_FILE)
        write_whole(descriptor, content)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def sync_and_close(descriptor: int) -> None:
    """Carry an open file through to the disk, and close it."""
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_durably(path: bytes, content: bytes, *, temporary: bytes) -> None:
    """Give a file new content so that a reader, or a power cut, finds the old or the new."""
    write_private(temporary, content)
    os.rename(temporary, path)
    sync_directory(os.path.dirname(path))


def write_whole(descriptor: int, content: bytes | memoryview) -> None:
    """Write all bytes, however many calls it takes."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def write_pieces(descriptor: int, pieces: Sequence[bytes | memoryview]) -> None:
    """Write all bytes of pieces, one after another; to join much first touches memory that is not there."""
    for first in range(0, len(pieces), _PIECES_AT_ONCE):
        some = pieces[first : first + _PIECES_AT_ONCE]
        done = os.writev(descriptor, some)
        if done < sum(map(len, some)):
            write_whole(descriptor, memoryview(b"".join(some))[done:])


def sync_file(path: str | bytes) -> None:
    """Carry a file's content through to the disk. Never for a database that is open."""
    _sync(path, os.O_RDONLY | os.O_CLOEXEC)


def sync_directory(path: str | bytes) -> None:
    """Carry a directory's names through to the disk."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _sync(path: str | bytes, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# On Linux and macOS it can be asked for who acts, not for who started the program. Where a sandbox refuses
# the newer call that this takes, as older container runtimes do, nothing would seem to be there.
_ACTING = os.access in os.supports_effective_ids and os.access(b"/", os.F_OK, effective_ids=True)


def path_exists(path: bytes | str) -> bool:
    """Tell whether a path leads to anything; quicker than by an error where it mostly does not."""
    return os.access(path, os.F_OK, effective_ids=True) if _ACTING else os.path.lexists(path)


def read_whole(path: bytes) -> bytes | None:
    """Return a file's content, None if there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def read_plain(path: str, *, limit: int) -> bytes | None:
    """Return the content of somebody's file; None for what is no plain file, or has more bytes than that.

    A pipe or device in its place is never waited for.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(descriptor)


# --- Carrying files through to the disk side by side: the file system joins the waits ---
#
# Measured on ext4: 128 files one after another took 170 to 690 ms, by eight threads 14 to 43 ms; beside
# others who write, ten files 58 ms, by four threads 9, with their bytes on the way first 4; a pack and its
# index 10, 4 and 4. With their bytes on the way these two, one after the other and without a thread, take as
# long as by two, beside others who write too, and half of the processor time (0.17 and 0.35 ms).

_THREADS = 8
_FEW = 2
_SHARE = 3  # from four threads on, fewer files are not worth one more
_ONE_EACH = 4
_BEGUN_BYTES = 1 << 20


# Threads that wait for the disk, for what they are told next, or for the interpreter to end.
_disk_threads: set[int] = set()
os.register_at_fork(after_in_child=_disk_threads.clear)


def count_disk_threads() -> int:
    """Return how many threads of ours there are that hardly take the interpreter from anybody."""
    return len(_disk_threads)


def begin_disk_thread(work: Callable[[], None]) -> None:
    """Have a thread do something that waits for the disk; RuntimeError where there can be no more of them."""
    start_new_thread(_run_disk_thread, (work,))


def _run_disk_thread(work: Callable[[], None]) -> None:
    mine = get_ident()
    _disk_threads.add(mine)
    try:
        work()
    finally:
        _disk_threads.discard(mine)


def sync_all(
    descriptors: Sequence[int],
    *,
    sync: Callable[[int], None] | None = None,
    begin: Callable[[Callable[[], None]], None] = begin_disk_thread,
) -> dict[int, OSError]:
    """Sync files or directories, and return what went wrong by descriptor; ``begin`` has threads do it."""
    carry = os.fsync if sync is None else sync
    # Only what a thread takes out of here was synced, whatever ends it.
    troubles = {descriptor: OSError(errno.EIO, os.strerror(errno.EIO)) for descriptor in descriptors}
    count = len(descriptors)
    threads = 1 if count <= _FEW else min(_THREADS, max(min(count, _ONE_EACH), -(-count // _SHARE)))
    if count > 1:
        _begin_writing(descriptors)
    running = []
    for first in range(1, threads):
        ended = allocate_lock()
        ended.acquire()
        share = descriptors[first::threads]
        try:
            begin(partial(_sync_some, share, carry, troubles, ended))
        except RuntimeError:  # the system allows no more of them
            _sync_some(share, carry, troubles)
        else:
            running.append(ended)
    _sync_some(descriptors[::threads], carry, troubles)
    for ended in running:
        ended.acquire()
    return troubles


class DiskWork:
    """A call of the system that waits for the disk, made in a thread of its own; `wait` raises its fault.

    Whoever begins one waits for it before anything returns that says what it is to have done.
    """

    __slots__ = ("_ended", "_error", "_work")

    def __init__(
        self, work: Callable[[], None], *, begin: Callable[[Callable[[], None]], None] = begin_disk_thread
    ) -> None:
        """Begin it; at once and here where the system allows no more threads."""
        self._work = work
        self._error: OSError | None = OSError(errno.EIO, os.strerror(errno.EIO))
        self._ended = allocate_lock()
        self._ended.acquire()
        try:
            begin(self._run)
        except RuntimeError:
            self._run()

    def _run(self) -> None:
        try:
            self._work()
        except OSError as error:
            self._error = error
        else:
            self._error = None
        finally:
            self._ended.release()

    def wait(self) -> None:
        """Return when it has ended; OSError if it failed, again whenever this is asked."""
        with self._ended:
            if self._error is not None:
                raise self._error


def _begin_writing(descriptors: Sequence[int]) -> None:
    """Set the bytes of files on their way, so that one commit of the file system's journal serves them all.

    That is what Linux does first when it is told that they are not needed in memory. What has been written
    is dropped from there, so only the first of a large file are told.
    """
    if sys.platform != "linux":
        return
    for descriptor in descriptors:
        try:
            os.posix_fadvise(descriptor, 0, _BEGUN_BYTES, os.POSIX_FADV_DONTNEED)
        except OSError:  # syncing will tell
            continue


def _sync_some(
    descriptors: Sequence[int],
    sync: Callable[[int], None],
    troubles: dict[int, OSError],
    ended: LockType | None = None,
) -> None:
    try:
        for descriptor in descriptors:
            try:
                sync(descriptor)
            except OSError as error:
                troubles[descriptor] = error
            else:
                troubles.pop(descriptor)
    finally:
        if ended is not None:
            ended.release()


# --- Files of our own that prove themselves: a line that names their form, a digest, the content ---

DIGEST_BYTES = 16


def digest(content: bytes | memoryview) -> bytes:
    """Return 16 bytes that stand for a content."""
    return blake2b(content, digest_size=DIGEST_BYTES).digest()


def proof(form: bytes, body: bytes) -> bytes:
    """Return what such a file holds in front of its content."""
    return form + digest(body)


def read_proven(path: bytes, *, form: bytes) -> bytes | None:
    """Return the content of such a file; None if there is none, or any doubt about it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        found = _read_whole(descriptor)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    body = found[len(form) + DIGEST_BYTES :]
    return body if found.startswith(form + digest(body)) else None


def _read_whole(descriptor: int) -> bytes:
    pieces = []
    while piece := os.read(descriptor, os.fstat(descriptor).st_size + 1):
        pieces.append(piece)
    return b"".join(pieces)


# --- Whether somebody has a file open for writing: a read lease (fcntl(2), F_SETLEASE) tells ---


def take_lease(descriptor: int) -> Lease:
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


def is_lease_awaited(descriptor: int) -> bool:
    """Tell whether somebody waits for our lease to end."""
    return sys.platform == "linux" and fcntl.fcntl(descriptor, fcntl.F_GETLEASE) != fcntl.F_RDLCK


def is_written_by_nobody(descriptor: int) -> bool:
    """Tell whether it is sure that nobody has an open file open, or mapped, for writing at this moment."""
    if sys.platform != "linux" or take_lease(descriptor) != "ours":
        return False
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:  # the kernel took it away: somebody has waited for it too long
        return False
    return True


# --- How many can be open at once ---


def crowd(needed: int) -> OSError | None:
    """Try whether so many files more can be opened at once; return the error if they cannot.

    One is opened; the others are its numbers, of which a process may have so many. They are taken only
    where it is not known that there are enough.
    """
    opened: list[int] = []
    try:
        opened.append(os.open(b"/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        if needed - 1 <= _free_numbers():
            return None
        while len(opened) < needed:
            opened.append(os.dup(opened[0]))
    except OSError as error:
        return error
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return None


def _free_numbers() -> int:
    """Return how many files more the limit of this process allows; 0 where that is not told.

    Linux tells from 6.2 on how many are open.
    """
    if sys.platform != "linux":
        return 0
    try:
        open_now = os.stat(b"/proc/self/fd").st_size
        return os.sysconf("SC_OPEN_MAX") - open_now if open_now else 0
    except (OSError, ValueError):
        return 0
