"""The least of what else is measured, in bare Python.

What it takes to ask for every file's state beside a busy process; what a save without a change asks for, that
the least that keeps what is promised leaves out; and a hook's server.
"""

from __future__ import annotations

import os
import signal
import socket
import time

from bare import Kept, Listed, look, read
from promised import DIRECTORY, Promised

# So long a process is busy at most that nobody ends.
_BUSY_SECONDS = 60


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


class Asking(Promised):
    """The least, which also asks what it leaves out of a save without a change, in bare calls.

    They are those that ours makes in a folder without a repository. Each lock file is opened, and the one of
    its name, for which nobody waits alone; what restores left is listed; the catalogue's file is the same;
    the packs are there that the last checkpoint needs, and none is doubted; each folder above is of the same
    file system; times prove names there; the last look is the one that was written. After the look the
    checkpoint is still there, and its pack, and the reserve for a full disk.
    """

    def __init__(self, root: str, store: str) -> None:
        super().__init__(root, store)
        locks = (f"{store}/lock", f"{self._place}/lock")
        self._locked = [(lock, f"{lock}.turn") for lock in locks]
        self._catalogue = f"{store}/catalogue"
        self._doubted, self._reserve = f"{store}/objects.git/doubted", f"{store}/reserve"
        self._above = [root]
        while self._above[-1] != "/":
            self._above.append(os.path.dirname(self._above[-1]))

    def unchanged(self) -> str:
        """Find everything as it was, and return the checkpoint that says how."""
        opened = self._asked()
        at = super().unchanged()
        os.stat(self._catalogue)
        self._rows.execute("PRAGMA data_version").fetchone()
        os.access(self._packs, os.F_OK)
        for file in opened:
            os.close(file)
        os.access(self._reserve, os.F_OK)
        return at

    def _asked(self) -> list[int]:
        exists, opened = os.access, []
        for lock, turn in self._locked:
            exists(turn, os.F_OK)
            opened.append(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            os.fstat(opened[-1])
            os.stat(lock, follow_symlinks=False)
        os.listdir(self._place)
        os.stat(self._catalogue)
        exists(self._packs, os.F_OK)
        opened.append(os.open(self._path, DIRECTORY))
        for folder in self._above:
            os.stat(folder)
        exists(f"{self._path}/.git", os.F_OK)
        os.stat(f"{self._place}/scan")
        exists(self._doubted, os.F_OK)
        exists(self._packs, os.F_OK)
        os.fstatvfs(opened[-1])
        os.fstat(opened[-1])
        return opened


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
