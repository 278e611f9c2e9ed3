"""Reads files as one whole version each (rule S8).

Where times prove names, those of a directory are not read again as long as its own stat data are what
they were: that is a fifth of a scan in which nothing changed.
"""

from __future__ import annotations

import errno
import os
import sys
from _blake2 import blake2b

from lastgood.errors import Unsafe, crowded
from lastgood.files import digest, is_written_by_nobody
from lastgood.paths import printable, to_text
from lastgood.scanner import (
    CAPTURED,
    FORMAT_DIRECTORY,
    FORMAT_FILE,
    FORMAT_LINK,
    FORMAT_MASK,
    MODE,
    NAME,
    NAMES,
    RACY,
    SEEN,
    SIGNATURE,
    STATE,
    TOO_LARGE,
    UNREADABLE,
    UNSTABLE,
    evidence,
)
from lastgood.scanner.states import ask, lay_aside, packed, sheet, unpacked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Final

    from lastgood.engine import ObjectWriter
    from lastgood.host import Clock
    from lastgood.scanner import Evidence, Record, Row, Seen
    from lastgood.scanner.states import Sheet
    from lastgood.scanner.watch import DirectoryWatch


# --- Opens what lies in a workspace without following links, below or above ---

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_ATIME: int = getattr(os, "O_NOATIME", 0)

# The path led somewhere, and now it does not: the entry is gone. That its handle is stale (ESTALE, on network
# and overlay file systems) proves no such thing.
GONE = frozenset({errno.ENOENT})
# Something else has taken the entry's place.
_REPLACED = frozenset({errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.ENXIO, errno.EISDIR})


def open_root(root: bytes) -> int:
    """Open a workspace; `NotFound` if it is gone, `Unsafe` if it cannot be read as a directory."""
    try:
        return os.open(root, DIRECTORY_FLAGS)
    except OSError as error:
        from lastgood.root import gone, is_folder, is_gone, no_folder  # lazily: a scan has no use for it

        if is_gone(root):
            raise gone(root) from error
        if not is_folder(root):
            raise no_folder(root) from error
        raise crowded(error) or Unsafe(
            f"the workspace {printable(to_text(root))} cannot be read as a directory: {error.strerror}",
            hint="look at what lies there, and at its permissions",
        ) from error


def descend(root: int, path: bytes) -> int:
    """Open a directory of a workspace from its top, name by name; OSError if the way is barred."""
    descriptor = os.open(b".", DIRECTORY_FLAGS, dir_fd=root)
    for name in path.split(b"/") if path else ():
        above = descriptor
        try:
            descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=above)
        finally:
            os.close(above)
    return descriptor


def names_in(root: bytes, path: bytes) -> list[bytes]:
    """Return the names in a directory of a workspace; OSError if the way is barred."""
    top = os.open(root, DIRECTORY_FLAGS)
    try:
        descriptor = descend(top, path)
    finally:
        os.close(top)
    try:
        return [os.fsencode(name) for name in os.listdir(descriptor)]
    finally:
        os.close(descriptor)


def open_file(name: bytes, *, directory: int) -> int:
    """Open a file for reading without leaving a trace of it; never waits for a FIFO's other end."""
    try:
        return os.open(name, _FILE_FLAGS | _NO_ATIME, dir_fd=directory)
    except PermissionError:  # another user's file: only its owner may spare the access time
        return os.open(name, _FILE_FLAGS, dir_fd=directory)


def state_of(error: OSError) -> int | None:
    """Return the state of an entry that could not be opened or read; None if it is gone.

    Raises `Busy` where nothing can be opened: that is no gap, it says nothing of the entry.
    """
    busy = crowded(error)
    if busy is not None:
        raise busy from error
    if error.errno in GONE:
        return None
    return UNSTABLE if error.errno in _REPLACED else UNREADABLE


# --- Reads files as one whole version each (rule S8) ---

TRIES = 3
# A change within this time of a reading may have left the very same stat data behind (nanoseconds):
# ticks of the kernel's clock are up to 10 ms, and some file systems count whole or even seconds only.
FINE_WINDOW = 50_000_000
COARSE_WINDOW = 2_000_000_000
SECOND = 1_000_000_000

# Larger files than this are never held in memory.
WHOLE_BYTES: Final = 32 << 20
_PIECE_BYTES = 1 << 20


class Reading:
    """What came of reading one entry.

    ``stat`` is None if the entry is gone. ``content`` is None for a large file, and for what could
    not be read; ``mark`` is a digest of the bytes, b"" unless they have to be compared later.
    """

    __slots__ = ("content", "mark", "stat", "state")

    def __init__(
        self, state: int, stat: Evidence | None, *, content: bytes | None = None, mark: bytes = b""
    ) -> None:
        self.state: int = state
        self.stat: Evidence | None = stat
        self.content: bytes | None = content
        self.mark: bytes = mark


def is_racy(stat: Evidence, now: int) -> bool:
    """Tell whether a file read at a time could have changed since without a trace in its stat data."""
    newest = max(stat[2], stat[3])
    return newest > now - (FINE_WINDOW if newest % SECOND else COARSE_WINDOW)


# Where a file system stamps whatever follows a look at a file with another time than the look saw, however
# soon it comes: multigrain timestamps (Documentation/filesystems/multigrain-ts.rst), from Linux 6.13 on.
# tmpfs has them too, but does not stamp what is stored through a mapping that was read before.
_MULTIGRAIN = frozenset({b"btrfs", b"ext4", b"xfs"})
_MULTIGRAIN_KERNEL = (6, 13)


def multigrain_device(directory: int) -> int | None:
    """Return the device of an open directory if its files have multigrain timestamps, else None."""
    system = os.uname()
    if system.sysname != "Linux" or _version(system.release) < _MULTIGRAIN_KERNEL:
        return None
    try:
        return os.fstat(directory).st_dev if file_system(directory) in _MULTIGRAIN else None
    except OSError:
        return None


def _version(release: str) -> tuple[int, int]:
    major, _, rest = release.partition(".")
    minor = rest.partition(".")[0].partition("-")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)


# What mounts are of, by their numbers, which no other mount gets as long as the machine runs.
_systems: dict[int, bytes] = {}
_MOST_SYSTEMS = 64
# AT_EMPTY_PATH, STATX_MNT_ID_UNIQUE (from Linux 6.8 on), and where in struct statx the answer lies.
_ITSELF: Final = 0x1000
_UNIQUE_MOUNT: Final = 0x4000
_MOUNT: Final = 144


def file_system(directory: int) -> bytes:
    """Return the type of the file system of an open directory as it is mounted; b"" if nothing tells it."""
    # Of what a mount is never changes, and as long as something in it is open it is the one that is listed.
    number = _mount_number(directory)
    known = b"" if number is None else _systems.get(number, b"")
    if known:
        return known
    told = _listed_file_system(directory)
    if number is not None:
        if len(_systems) >= _MOST_SYSTEMS:
            _systems.clear()
        _systems[number] = told
    return told


def _mount_number(directory: int) -> int | None:
    """Return the number of the mount of an open directory; None where the kernel has none that stays."""
    if "lastgood.scanner.libc" not in sys.modules:
        return None  # to load it takes longer than to be told once
    try:
        from lastgood.scanner.libc import mount_number

        return mount_number(directory)
    except (ImportError, OSError):  # a Python without `_ctypes`, a library without the call
        return None


def _listed_file_system(directory: int) -> bytes:
    try:
        mount = _fields(b"/proc/self/fdinfo/%d" % directory, named=b"mnt_id:")[1]
        line = _fields(b"/proc/self/mountinfo", named=mount)
        return line[line.index(b"-") + 1]
    except (OSError, ValueError, IndexError):  # not Linux, or without /proc
        return b""


def file_system_number(directory: int) -> int | None:
    """Return the number of an open directory's file system, statfs(2); None if nothing tells it."""
    if sys.platform != "linux":
        return None
    try:
        from lastgood.scanner import libc

        return libc.file_system_number(directory)
    except (ImportError, OSError):  # a Python without `_ctypes`
        return None


# The file systems on which the times of a directory prove what names are in it (decision 021): local
# ones, which change a directory's times together with its entries, by their numbers in <linux/magic.h>.
# What is served from elsewhere, or by a program, may say the times that it remembers.
_EXT_2_3_4, _XFS, _BTRFS, _F2FS = 0xEF53, 0x58465342, 0x9123683E, 0xF2F52010
_ZFS, _TMPFS, _OVERLAY = 0x2FC12FC1, 0x01021994, 0x794C7630
_KEEPING = frozenset({_EXT_2_3_4, _XFS, _BTRFS, _F2FS, _ZFS, _TMPFS, _OVERLAY})


def proving_device(directory: int) -> int | None:
    """Return the device of an open directory; None unless times are known to prove names there."""
    return os.fstat(directory).st_dev if file_system_number(directory) in _KEEPING else None


def _fields(path: bytes, *, named: bytes) -> list[bytes]:
    """Return the fields of the line that begins with a word; none if there is no such line."""
    with open(path, "rb", buffering=0) as file:
        for line in file.read().splitlines():
            fields = line.split()
            if fields and fields[0] == named:
                return fields
    return []


class ContentReader:
    """Reads entries of open directories and hands their bytes to the writer.

    ``exact_on`` returns, for the open ``root``, the device on which no change leaves the times that a look
    has seen, None if there is none; it is asked where a file is so young that only this could prove its
    version.
    """

    def __init__(
        self,
        writer: ObjectWriter,
        *,
        root: int,
        clock: Clock,
        cap: int,
        exact_on: Callable[[int], int | None],
    ) -> None:
        self.writer: ObjectWriter = writer
        self.root: int = root
        self.clock: Clock = clock
        self._cap = cap
        self._exact_on = exact_on
        self._exact: int | None = None
        self._asked = False

    def read(self, name: bytes, stat: Evidence, *, directory: int, forced: bool = False) -> Reading:
        """Read a file or link; ``stat`` is what was known of it before. Never raises for the entry."""
        if stat[0] & FORMAT_MASK == FORMAT_LINK:
            return self._link(name, stat, directory=directory)
        reading = Reading(UNSTABLE, stat)
        for _ in range(TRIES):
            try:
                reading = self._attempt(name, stat, directory=directory, forced=forced)
            except OSError as error:
                state = state_of(error)
                return Reading(UNSTABLE, None) if state is None else Reading(state, stat)
            if reading.state != UNSTABLE:
                break
        return reading

    def store(self, reading: Reading, name: bytes, *, directory: int) -> bytes | None:
        """Add what was read to the writer and return its id; None if it is another content by now."""
        if reading.content is not None:
            return self.writer.blob(reading.content)
        assert reading.stat is not None
        try:
            descriptor = open_file(name, directory=directory)
        except OSError as error:
            state_of(error)
            return None
        try:
            oid = self.writer.blob_from(descriptor, reading.stat[1])
            after = evidence(os.fstat(descriptor))
        except EOFError:
            return None
        finally:
            os.close(descriptor)
        return oid if after == reading.stat else None

    def _link(self, name: bytes, stat: Evidence, *, directory: int) -> Reading:
        now = self.clock.now()
        try:
            target = os.readlink(name, dir_fd=directory)
            seen = os.stat(name, dir_fd=directory, follow_symlinks=False)
            after = evidence(seen)
        except OSError as error:
            state = state_of(error)
            if state is None:
                return Reading(UNSTABLE, None)
            # readlink says EINVAL of what is no link any more
            return Reading(UNSTABLE, stat)
        if after != stat and after[0] & FORMAT_MASK != FORMAT_LINK:
            return Reading(UNSTABLE, stat)
        proven = not is_racy(after, now) or (after == stat and self._is_exact(seen))
        return Reading(CAPTURED if proven else RACY, after, content=target, mark=_mark(target))

    def _attempt(self, name: bytes, stat: Evidence, *, directory: int, forced: bool) -> Reading:
        now = self.clock.now()
        descriptor = open_file(name, directory=directory)
        try:
            seen = os.fstat(descriptor)
            before = evidence(seen)
            if before[0] & FORMAT_MASK != FORMAT_FILE:
                return Reading(UNSTABLE, stat)
            size = before[1]
            if size > self._cap and not forced:
                return Reading(TOO_LARGE, before)
            # A write stamps the file first and copies then: of who writes already no time tells, but a lease.
            proven = not is_racy(before, now) or (self._is_exact(seen) and is_written_by_nobody(descriptor))
            if size > WHOLE_BYTES:
                content, mark = None, _digest(descriptor, size)
            else:
                content, mark = whole(descriptor, size), b""
            after = evidence(os.fstat(descriptor))
        finally:
            os.close(descriptor)
        if (
            after != before
            or (content is None and not mark)
            or (content is not None and len(content) != size)
        ):
            return Reading(UNSTABLE, before)
        if proven:
            return Reading(CAPTURED, before, content=content, mark=mark)
        return Reading(RACY, before, content=content, mark=mark or _mark(content or b""))

    def _is_exact(self, seen: os.stat_result) -> bool:
        """Tell whether every change after this look gives the file another change time."""
        return is_exact(seen, self.exact_on(self.root))

    def exact_on(self, root: int) -> int | None:
        """Return the device on which no change leaves the times that a look has seen; asked for once."""
        if not self._asked:
            self._exact, self._asked = self._exact_on(root), True
        return self._exact


def is_exact(seen: os.stat_result, device: int | None) -> bool:
    """Tell whether a look saw times that no later change leaves, as they are on a ``device``."""
    return seen.st_dev == device and _has_parts(seen.st_ctime_ns)


def _has_parts(change_time: int) -> bool:
    # Inodes without room for parts of a second have whole ones only, wherever they are.
    return change_time % SECOND != 0


def mark_of(reading: Reading) -> bytes:
    """Return the digest of what was read."""
    return reading.mark or _mark(reading.content or b"")


def _mark(content: bytes) -> bytes:
    return blake2b(content, digest_size=32).digest()


def whole(descriptor: int, size: int) -> bytes:
    """Read as many bytes as a file should have (that it grew, stat will say)."""
    content = os.read(descriptor, size)
    if len(content) == size:
        return content
    pieces = [content]
    left = size - len(content)
    while left > 0 and content:
        content = os.read(descriptor, left)
        pieces.append(content)
        left -= len(content)
    return b"".join(pieces)


def _digest(descriptor: int, size: int) -> bytes:
    """Return the digest of a large file, b"" if it has another size than it said."""
    running = blake2b(digest_size=32)
    while piece := os.read(descriptor, _PIECE_BYTES):
        running.update(piece)
        size -= len(piece)
    return running.digest() if size == 0 else b""


# --- Lists directories: the names in them, and what stat says of each entry ---


class Listing:
    """A directory as it was listed: names in the file system's order, and what stat said of each.

    ``names`` are joined by NUL, ``states`` are as they are compared; ``lost`` are entries that could not be
    asked. ``seen`` is what stat said of the directory itself, where that proves the names. ``inodes`` are
    those of some entries, where it may be long before these are entered. Where only some were asked for,
    ``told`` is what stat said of those, by name.
    """

    __slots__ = ("descriptor", "inodes", "lost", "names", "seen", "signature", "states", "told")

    def __init__(
        self, descriptor: int, names: bytes, *, states: bytes, seen: Seen, lost: Sequence[bytes] = ()
    ) -> None:
        self.descriptor: int = descriptor
        self.inodes: Mapping[bytes, int] = {}
        self.told: Mapping[bytes, Evidence] | None = None
        self.names: bytes = names
        self.states: bytes = states
        self.seen: Seen = seen
        self.lost: Sequence[bytes] = lost
        self.signature: bytes = signature(names, states)

    @property
    def stats(self) -> Sequence[Evidence | int]:
        """What stat said of each entry, the mode alone of a directory."""
        return unpacked(self.states)

    def fits(self, record: Record) -> bool:
        """Tell whether everything is as it was recorded."""
        return self.signature == record[SIGNATURE] and not self.lost

    def proves_more(self, record: Record) -> bool:
        """Tell whether the names could be proven by this listing, and not by what is recorded."""
        return bool(self.seen) and self.seen != record[SEEN]


def signature(names: bytes, states: bytes) -> bytes:
    """Return what is equal only if the names are, and what was said of every entry."""
    # Releases that kept states otherwise had a NUL there: nothing that they signed is taken for this.
    return digest(b"%d\1%b%b" % (len(names), names, states))


def recorded_states(record: Record, rows: Iterable[Row]) -> bytes | None:
    """Return what was said of the entries of a directory, by its rows; None where these do not say all."""
    by_name = {row[NAME]: row for row in rows}
    stats = stats_of([by_name.get(name) for name in names_of(record[NAMES])])
    states = None if stats is None else packed(stats)
    if states is None or signature(record[NAMES], states) != record[SIGNATURE]:
        return None
    return states


def stats_of(rows: Iterable[Row | None]) -> list[Evidence | int] | None:
    """Return what was said of entries of which rows tell; None where one does not say all."""
    stats: list[Evidence | int] = []
    for row in rows:
        if row is None:
            return None
        if row[MODE] & FORMAT_MASK == FORMAT_DIRECTORY:
            stats.append(row[MODE])
        elif row[STATE] <= RACY:
            stats.append(row[1:6])
        else:  # as of what is left out
            return None
    return stats


def _nowhere() -> None:
    """Tell that no device has such times."""


class Lister:
    """Lists open directories. On ``device`` times prove names; None if they do so nowhere.

    ``exact_on`` returns the device on which no change leaves the times that a look has seen; it is asked
    where a directory is so young that only this could prove its names. ``watch`` hears of changes in what is
    listed, where somebody has it do so.
    """

    def __init__(
        self,
        *,
        device: int | None,
        clock: Clock,
        exact_on: Callable[[], int | None] = _nowhere,
        watch: DirectoryWatch | None = None,
    ) -> None:
        self.watch = watch
        self.device: int | None = device
        self._exact_on = exact_on
        self._clock = clock
        # On other devices an answer may take as long as a network does: nobody's threads wait for that.
        self.sheet: Sheet | None = None if device is None else sheet()
        # Whether anything but a directory may have several links of what was listed last.
        self.may_have_links: bool = True

    def close(self) -> None:
        """Lay aside what it asks with; it lists nothing more."""
        if self.sheet is not None:
            lay_aside(self.sheet)
            self.sheet = None

    def list(self, descriptor: int, *, known: Record | None) -> Listing:
        """List a directory, of which a record may be ``known``; OSError if that is refused."""
        now, here = self._clock.now(), self._seen(descriptor)
        if here and known is not None and known[SEEN] == here:
            names = known[NAMES]
            try:
                return Listing(descriptor, names, states=self._ask(descriptor, names, here), seen=here)
            except OSError:  # an entry went just now, or cannot be asked
                now, here = self._clock.now(), self._seen(descriptor)
        names = _names_in(descriptor)
        seen = here if here and (not is_racy(here, now) or self._is_exact(here)) else ()
        try:
            return Listing(descriptor, names, states=self._ask(descriptor, names, here), seen=seen)
        except OSError:
            return _list_what_is_left(descriptor, names)

    def ask_alone(
        self, descriptor: int, names: Iterable[bytes], *, known: Record
    ) -> dict[bytes, Evidence] | None:
        """Ask for some files in a directory that is known, all else in which is as it was.

        None where it is another, by its own inode and times, its names are not proven, or one of those is no
        file with one name. Names that nothing has are left out.
        """
        if not known[SEEN] or self._seen(descriptor) != known[SEEN]:
            return None
        told: dict[bytes, Evidence] = {}
        for name in set(names).intersection(names_of(known[NAMES])):
            try:
                seen = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except OSError:  # it went just now, or cannot be asked
                return None
            if seen.st_nlink != 1 or seen.st_mode & FORMAT_MASK != FORMAT_FILE:
                return None
            told[name] = evidence(seen)
        return told

    def states_of(self, descriptor: int, record: Record, *, told: bytes | None = None) -> bytes | None:
        """Return what is said of the entries of a directory if their names are proven to be those recorded.

        None where that is not so, or one of them could not be asked. What was ``told`` just now is not asked
        again.
        """
        seen = os.fstat(descriptor)
        if seen.st_dev != self.device or evidence(seen) != record[SEEN]:
            return None
        if told:
            return told
        if self.sheet is not None:
            return self.sheet.ask(descriptor, record[NAMES])
        try:
            return packed(ask(descriptor, names_of(record[NAMES])))
        except OSError:
            return None

    def _is_exact(self, here: Evidence) -> bool:
        """Tell whether each change after a look at a directory on the device gives it other times."""
        return _has_parts(here[3]) and self._exact_on() == self.device

    def _seen(self, descriptor: int) -> Seen:
        """Return what stat says of a directory, () on another device."""
        if self.device is None:
            return ()
        seen = os.fstat(descriptor)
        return evidence(seen) if seen.st_dev == self.device else ()

    def _ask(self, descriptor: int, names: bytes, here: Seen) -> bytes:
        """Ask for each entry of a directory, which is on the device if it was seen there."""
        self.may_have_links = True
        if here and self.sheet is not None:
            states = self.sheet.ask(descriptor, names)
            if states is not None:
                self.may_have_links = self.sheet.has_links
                return states
        return packed(ask(descriptor, names_of(names)))


def proven_names(descriptor: int, device: int | None) -> tuple[bytes, Evidence] | None:
    """Return the names in an open directory, and times that prove them; None where none do at once.

    On a ``device`` where each change after a look leaves other times. The look comes first: a change that had
    begun by then holds the directory until it has ended, and the listing waits for that. It begins anew, from
    what is there by then: the directory may have been opened long before.
    """
    seen = os.fstat(descriptor)
    return (_names_in(descriptor), evidence(seen)) if is_exact(seen, device) else None


def _names_in(descriptor: int) -> bytes:
    # What came after it was opened btrfs tells only then (from Linux 6.5 on).
    os.lseek(descriptor, 0, os.SEEK_SET)
    return os.fsencode("\0".join(os.listdir(descriptor)))


def names_of(joined: bytes) -> list[bytes]:
    """Return the names of a listing."""
    return joined.split(b"\0") if joined else []


def place_of(name: bytes, joined: bytes) -> int | None:
    """Return the place of a name in a listing, None where it is not in it."""
    start = (b"\0%b\0" % joined).find(b"\0%b\0" % name)
    return None if start < 0 else joined.count(b"\0", 0, start)


def inodes_of(descriptor: int, names: Iterable[bytes]) -> dict[bytes, int]:
    """Return the inodes of some entries of an open directory, but of those that are gone."""
    found = {}
    for name in names:
        try:
            found[name] = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_ino
        except OSError:
            continue
    return found


def _list_what_is_left(descriptor: int, names: bytes) -> Listing:
    """List a directory of which some entries are gone, or cannot be asked."""
    left: list[bytes] = []
    lost: list[bytes] = []
    stats: list[Evidence | int] = []
    for name in names_of(names):
        try:
            stats += ask(descriptor, [name])
        except OSError as error:
            if error.errno not in GONE:
                lost.append(name)
            continue
        left.append(name)
    return Listing(descriptor, b"\0".join(left), states=packed(stats), seen=(), lost=lost)
