"""What it takes to ask for every file's state beside a busy process, and a hook's server, in bare Python."""

from __future__ import annotations

import os
import signal
import socket
import time

from bare import Kept, Listed, look, read

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
