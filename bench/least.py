"""The least that a Python program can do for a save, a restore or a hook, bare, and beside git.

It does what `bare` does. No rules, no times that prove anything, no trees, no locks, no conversation, nothing
that says what it did. `Believed` alone has what a save or a restore is believed by.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
import time
import zlib
from _ctypes import byref, dlopen, dlsym
from contextlib import contextmanager
from hashlib import sha1
from itertools import repeat
from typing import TYPE_CHECKING

import trees
from bare import BASIC, NOFOLLOW, STATX_BYTES, Answer, Call, Kept, Listed, listed, look, read

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src"))

# The quickest ways that are known to sync files side by side, to ask who writes to one, and to exchange two.
from lastgood.files import (
    Beside,
    is_lease_awaited,
    is_written_by_nobody,
    sync_all,
    sync_directory,
    take_lease,
)
from lastgood.renames import exchange

try:
    from isal.isal_zlib import compress
except ImportError:
    from zlib import compress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    # When its names last changed, and a column for each thing that was said of the entries.
    State = tuple[tuple[int, int, int], list[bytes]]

_COUNT = 10
# So long a process is busy at most that nobody ends.
_BUSY_SECONDS = 60


class Least:
    """One workspace, and a store that can be thrown away."""

    def __init__(self, root: str, store: str) -> None:
        self.root, self.store = root, store
        self.kept = Kept(store)
        self.listed = listed(root)
        self.files = sum(len(names) for _, _, names in os.walk(root))

    def edited(self, turn: int) -> list[str]:
        """Change some files, and return which."""
        trees.edit(self.root, files=self.files, count=_COUNT, turn=turn)
        found = trees.edited(files=self.files, count=_COUNT, turn=turn)
        return [os.path.join(self.root, path) for path in found]

    def unchanged(self) -> None:
        """Ask for the state of every file."""
        look(self.listed)

    def save(self, changed: list[str]) -> None:
        """Do that, and keep what changed."""
        self.unchanged()
        self.kept.keep([read(path) for path in changed])
        self.kept.commit(b"a checkpoint")


class Believed:
    """Saves and restores so that it can be believed, by what it has seen before.

    Locks keep others out, a folder's own times prove its names, what is said of the entries is compared with
    what was said, and where the tree stands is looked up. What is about to go is durable, and was read back,
    before anything changes; nobody's edit in between is lost; and each path is proven in the end. All that
    was known stays in memory.
    """

    def __init__(self, root: str, store: str) -> None:
        os.makedirs(store, exist_ok=True)
        self._kept, self._store = Kept(store), store
        self._ask = Call(dlsym(dlopen(None, 0), "statx"))  # type: ignore[arg-type]  # what is loaded already
        folders = listed(root)
        size = STATX_BYTES * max(len(names) for _, names in folders)
        memory = bytearray(size)
        whole = (Answer * size).from_buffer(memory)
        self._answers = [byref(whole, start) for start in range(0, size, STATX_BYTES)]
        view = memoryview(memory)
        twos, fours, eights = view.cast("H"), view.cast("I"), view.cast("Q")
        # Mode, inode, size, seconds and nanoseconds of both times: where they begin in an answer.
        self._columns = [
            (twos, 28),
            *((eights, place) for place in (32, 40, 96, 112)),
            (fours, 104),
            (fours, 120),
        ]
        self._names = dict(folders)
        self._known = {folder: self._look(folder) for folder in self._names}
        # What a restore goes back to: the id of each file's content; and where the contents lie.
        self._saved: dict[str, bytes] = {}
        self._places: dict[bytes, tuple[str, int, int]] = {}
        with self._held(fcntl.LOCK_SH):
            found = {os.path.join(one, name) for one, _, names in os.walk(root) for name in names}
            self._saved = self._keep({path: read(path) for path in found})
            self._kept.commit(b"a checkpoint")

    def unchanged(self) -> None:
        """Find everything as it was."""
        with self._held(fcntl.LOCK_SH):
            assert not self._changed()

    def save(self) -> None:
        """Keep what changed."""
        with self._held(fcntl.LOCK_SH):
            self._saved.update(self._keep(self._changed()))
            self._kept.commit(b"a checkpoint")

    def restore(self) -> None:
        """Bring back what was saved."""
        with self._held(fcntl.LOCK_EX):
            had = self._keep(self._changed())
            self._kept.commit(b"a guard")
            wanted = self._announced(had)
            self._exchange(had, wanted)
            folders = {os.path.dirname(path) for path in had}
            opened = [os.open(folder, os.O_RDONLY | os.O_DIRECTORY) for folder in folders]
            syncing = Beside(lambda: _synced(opened))
            for path in had:
                _prove(path, self._saved[path])
            syncing.wait()
            self._kept.commit(b"an operation")
            closing = Beside(self._close_journal)
            self._known.update({folder: self._look(folder) for folder in folders})
            closing.wait()

    def _changed(self) -> dict[str, bytes]:
        """Return what changed files hold now."""
        changed = {}
        for folder, before in self._known.items():
            now = self._look(folder)
            if now == before:
                continue
            names = self._names[folder]
            assert now[0] == before[0] or set(os.listdir(os.fsencode(folder))) == set(names)
            self._known[folder] = now
            for name in _differing(names, before[1], now[1]):
                path = os.path.join(folder, os.fsdecode(name))
                if path in self._saved:
                    changed[path] = read(path)
        return changed

    def _keep(self, contents: Mapping[str, bytes]) -> dict[str, bytes]:
        """Keep contents in a pack of their own, durably, and return their ids."""
        ids = {path: sha1(content).digest() for path, content in contents.items()}
        stem, start, packed = f"{self._store}/packs/{os.urandom(8).hex()}", 0, []
        for path, content in contents.items():
            packed.append(compress(content, 1))
            self._places[ids[path]] = f"{stem}.pack", start, len(packed[-1])
            start += len(packed[-1])
        index = b"".join(sorted(ids.values()))
        _synced([_written(f"{stem}.pack", b"".join(packed)), _written(f"{stem}.idx", index)])
        for kind in ("pack", "idx"):
            os.rename(f"{stem}.{kind}.new", f"{stem}.{kind}")
        sync_directory(f"{self._store}/packs")
        return ids

    def _content(self, oid: bytes) -> bytes:
        pack, start, length = self._places[oid]
        descriptor = os.open(pack, os.O_RDONLY)
        content = zlib.decompress(os.pread(descriptor, length, start))
        os.close(descriptor)
        assert sha1(content).digest() == oid
        return content

    def _announced(self, had: Mapping[str, bytes]) -> dict[str, bytes]:
        """Write what is going to change into a journal, durably, and return what is going to be written."""
        journal = f"{self._store}/journal"
        descriptor = _written(journal, b"".join(map(os.fsencode, had)))
        writing = Beside(lambda: _synced([descriptor]))
        for oid in had.values():
            self._content(oid)  # what is about to go can be had back
        writing.wait()
        os.rename(f"{journal}.new", journal)
        syncing = Beside(lambda: sync_directory(self._store))
        wanted = {path: self._content(self._saved[path]) for path in had}
        syncing.wait()
        return wanted

    def _exchange(self, had: Mapping[str, bytes], wanted: Mapping[str, bytes]) -> None:
        """Give each path its content, and let what came out of it go if it is what was kept."""
        _synced([_written(path, content) for path, content in wanted.items()])
        for path in wanted:
            folder, name = os.path.split(os.fsencode(path))
            directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            assert exchange(name + b".new", name, directory)
            os.close(directory)
        for path, oid in had.items():
            descriptor = os.open(f"{path}.new", os.O_RDONLY | os.O_NOFOLLOW)
            assert take_lease(descriptor) == "ours"
            assert sha1(os.read(descriptor, os.fstat(descriptor).st_size)).digest() == oid
            assert not is_lease_awaited(descriptor)
            os.unlink(f"{path}.new")
            os.close(descriptor)

    def _close_journal(self) -> None:
        os.unlink(f"{self._store}/journal")
        sync_directory(self._store)

    def _look(self, folder: str) -> State:
        names = self._names[folder]
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        seen = os.fstat(directory)
        asked = map(self._ask, repeat(directory), names, repeat(NOFOLLOW), repeat(BASIC), self._answers)
        assert not any(asked)
        os.close(directory)
        many = len(names) * STATX_BYTES
        columns = [
            view[start // view.itemsize : many // view.itemsize : STATX_BYTES // view.itemsize].tobytes()
            for view, start in self._columns
        ]
        return (seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns), columns

    @contextmanager
    def _held(self, kind: int) -> Iterator[None]:
        """Hold store and workspace, where nothing is half done."""
        held = [self._locked("store", fcntl.LOCK_SH), self._locked("workspace", kind)]
        assert not os.path.lexists(f"{self._store}/journal")
        assert self._kept.last() or not self._saved
        yield
        for descriptor in held:
            os.close(descriptor)

    def _locked(self, name: str, kind: int) -> int:
        path = f"{self._store}/{name}.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        assert os.path.samestat(os.fstat(descriptor), os.stat(path))
        return descriptor


def _differing(names: Sequence[bytes], before: Sequence[bytes], now: Sequence[bytes]) -> set[bytes]:
    """Return the names of which a column says something else."""
    found = set()
    for was, column in zip(before, now, strict=True):
        width = len(column) // len(names)
        if was != column:
            places = range(0, len(column), width)
            found |= {names[at // width] for at in places if was[at : at + width] != column[at : at + width]}
    return found


def _written(path: str, content: bytes) -> int:
    """Write a file beside a path, and return it open."""
    descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(descriptor, content)
    return descriptor


def _synced(descriptors: Sequence[int]) -> None:
    """Sync files or folders side by side, and close them."""
    assert not sync_all(descriptors)
    for descriptor in descriptors:
        os.close(descriptor)


def _prove(path: str, oid: bytes) -> None:
    """Find a file to hold a content, with nobody writing to it meanwhile."""
    before = _version(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    assert is_written_by_nobody(descriptor)
    assert sha1(os.read(descriptor, os.fstat(descriptor).st_size)).digest() == oid
    os.close(descriptor)
    assert _version(path) == before


def _version(path: str) -> tuple[int, int, int]:
    seen = os.lstat(path)
    return seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns


def rate(roots: list[str], store: str, *, saves: int) -> float:
    """Return how many saves of ten files a second processes make together, each of a workspace of its own."""
    before = time.perf_counter()
    children = []
    for number, root in enumerate(roots):
        child = os.fork()
        if not child:
            least = Least(root, f"{store}-{number}")
            for turn in range(saves):
                least.save(least.edited(turn))
            os._exit(0)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    return len(roots) * saves / (time.perf_counter() - before)


def looked_by_two(known: Listed, *, beside_busy: bool) -> float:
    """Return the seconds that two processes take to look at everything, maybe beside a busy one."""
    busy = os.fork() if beside_busy else -1
    if not busy:
        signal.alarm(_BUSY_SECONDS)
        while True:
            pass
    try:
        before = time.perf_counter()
        half = os.fork()
        if not half:
            look(known[::2])
            os._exit(0)
        look(known[1::2])
        assert os.waitpid(half, 0)[1] == 0
        return time.perf_counter() - before
    finally:
        if beside_busy:
            os.kill(busy, signal.SIGKILL)
            os.waitpid(busy, 0)


class Server:
    """A process that saves what it is asked for over a socket: one file each time, or none."""

    def __init__(self, store: str) -> None:
        os.makedirs(store, exist_ok=True)
        self.place = os.path.join(store, "socket")
        listener = socket.socket(socket.AF_UNIX)
        if os.path.exists(self.place):
            os.unlink(self.place)
        listener.bind(self.place)
        listener.listen()
        self._child = os.fork()
        if not self._child:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            _serve(listener, Kept(store))
        listener.close()

    def ask(self) -> float:
        """Ask for nothing, and return the seconds until the answer."""
        before = time.perf_counter()
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(self.place)
            asking.sendall(b"-")
            assert asking.recv(16)
        return time.perf_counter() - before

    def close(self) -> None:
        """End it."""
        os.kill(self._child, signal.SIGTERM)
        os.waitpid(self._child, 0)


def _serve(listener: socket.socket, kept: Kept) -> None:
    while True:
        client, _ = listener.accept()
        with client:
            path = client.recv(1 << 12)
            if path == b"-":
                kept.last()
            else:
                kept.keep([read(os.fsdecode(path))])
                kept.commit(b"a checkpoint")
            client.sendall(b"done")
