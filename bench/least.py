"""The least that a Python program can do for a save, a restore or a hook, bare, and beside git.

It does what `bare` does. No rules, no times that prove anything, no trees, no locks, no conversation, nothing
that says what it did. `Proving` alone has of these what a save that changed nothing is believed by.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import time
from _blake2 import blake2b
from _ctypes import byref, dlopen, dlsym
from _sha1 import sha1
from itertools import repeat

import trees
from bare import BASIC, NOFOLLOW, STATX_BYTES, Answer, Call, Kept, Listed, listed, look, read, sync

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
        self.before: dict[str, bytes] = {}

    def edited(self, turn: int) -> list[str]:
        """Change some files, and return which."""
        before = {path: read(path) for path in self.paths(turn)}
        trees.edit(self.root, files=self.files, count=_COUNT, turn=turn)
        self.before = before
        return list(before)

    def unchanged(self, _changed: list[str]) -> None:
        """Ask for the state of every file."""
        look(self.listed)

    def save(self, changed: list[str]) -> None:
        """Do that, and keep what changed."""
        self.unchanged(changed)
        self.kept.keep([read(path) for path in changed])
        self.kept.commit(b"a checkpoint")

    def restore(self, changed: list[str]) -> None:
        """Save what is there, say so, write what was there before, look at it, and say that it is done."""
        self.save(changed)
        journal = f"{self.store}/journal"
        self.kept.write(journal, b"what is going to change")
        folders = {os.path.dirname(path) for path in changed}
        sync([self.store])
        written = []
        for path in changed:
            written.append(os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            os.write(written[-1], self.before[path])
        for descriptor in written:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        for descriptor in written:
            os.fsync(descriptor)
            os.close(descriptor)
        for path in changed:
            os.rename(f"{path}.new", path)
        sync(sorted(folders))
        for path in changed:
            assert sha1(read(path)).digest() == sha1(self.before[path]).digest()
        self.kept.commit(b"an operation")
        os.unlink(journal)
        sync([self.store])

    def paths(self, turn: int) -> list[str]:
        """Return which files a turn changes."""
        found = trees.edited(files=self.files, count=_COUNT, turn=turn)
        return [os.path.join(self.root, path) for path in found]


class Proving:
    """Tells that nothing changed so that it can be believed, by what it has seen before.

    Locks keep a restore and a sweep out, a folder's own times prove its names, what is said of the entries
    is compared as it is kept (a digest), and where the tree stands is looked up.
    """

    def __init__(self, root: str, store: str) -> None:
        os.makedirs(store, exist_ok=True)
        self._kept, self._store = Kept(store), store
        self._kept.commit(b"a checkpoint")
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
        self._known = [(folder, names, *self._look(folder, names)) for folder, names in folders]

    def unchanged(self, _changed: list[str]) -> None:
        """Find everything as it was."""
        held = [self._locked(name) for name in ("store", "workspace")]
        assert not os.path.lexists(f"{self._store}/journal")
        assert self._kept.last()
        for folder, names, seen, states in self._known:
            assert self._look(folder, names) == (seen, states)
        for descriptor in held:
            os.close(descriptor)

    def _look(self, folder: str, names: list[bytes]) -> tuple[tuple[int, int, int], bytes]:
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
        states = blake2b(b"".join(columns), digest_size=16).digest()
        return (seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns), states

    def _locked(self, name: str) -> int:
        path = f"{self._store}/{name}.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        assert os.path.samestat(os.fstat(descriptor), os.stat(path))
        return descriptor


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
