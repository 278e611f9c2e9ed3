"""Program: carries out command lines of lastgood, each in a fork of a process that has loaded it.

A fork is to be what a new process would be: its words, folder, environment, umask, standard streams and
terminal are those that were asked for, its parent is whoever started this program, and it runs the script of
the command from its first line. What it does not show is how the command loads; see docs/decisions/050.

Imports as little as the command does, for a fork has it all.
"""

from __future__ import annotations

import _socket
import ctypes
import fcntl
import gc
import marshal
import os
import pkgutil
import posix
import signal
import sys
import time
from importlib import import_module
from io import TextIOWrapper
from types import CodeType, ModuleType

# The number of the call `clone`, by the machine.
CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE_PARENT = 0x8000
# The request by which a terminal becomes that of a session (ioctl_tty(2)).
_TIOCSCTTY = 0x540E
_LENGTH_BYTES = 4
# Rooms that no command needs, or seldom, and that load much from elsewhere.
_LEFT_OUT = {
    "__main__",
    "aio",
    "hooks",
    "integrations",
    "literals",
    "mcp_server",
    "pydantic_schema",
    "reporting",
    "running",
    "testing",
    "type_hints",
}


def main() -> None:
    """Serve the socket that is named until its other end is closed."""
    connection = _socket.socket(fileno=int(sys.argv[1]))
    script = sys.argv[2]
    with open(script, "rb") as file:
        code = compile(file.read(), script, "exec")
    import lastgood

    _load(lastgood)
    sys.path[0] = os.path.dirname(script)
    gc.collect()
    gc.freeze()  # so that no fork copies the pages of all this when it looks for garbage
    call = CLONE[os.uname().machine]
    interpreter = ctypes.pythonapi
    system = ctypes.PyDLL(None)
    while True:
        length, passed, *_ = connection.recvmsg(_LENGTH_BYTES, _socket.CMSG_SPACE(3 * _LENGTH_BYTES))
        if not length:
            return
        streams = list(memoryview(passed[0][2]).cast("i"))
        order = marshal.loads(_received(connection, int.from_bytes(length, "big")))
        interpreter.PyOS_BeforeFork()
        # As a child of whoever asks, who can wait for it, and which it finds as its parent.
        child = system.syscall(call, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
        if child == 0:
            interpreter.PyOS_AfterFork_Child()
            connection.close()
            _be(order, streams, code)
            return
        interpreter.PyOS_AfterFork_Parent()
        for stream in streams:
            os.close(stream)
        connection.sendall(child.to_bytes(_LENGTH_BYTES, "big", signed=True))


def _load(package: ModuleType) -> None:
    """Import the modules of a package, and those of the packages in it."""
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if module.name.rpartition(".")[2] not in _LEFT_OUT:
            loaded = import_module(module.name)
            if module.ispkg:
                _load(loaded)


def _received(connection: _socket.socket, length: int) -> bytes:
    content = b""
    while len(content) < length:
        content += connection.recv(length - len(content))
    return content


def _be(
    order: tuple[list[bytes], bytes, dict[bytes, bytes], int, bool], streams: list[int], code: CodeType
) -> None:
    """Be the process that was asked for, up to its last line; Python itself ends it as any other."""
    words, folder, environment, umask, has_terminal = order
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if has_terminal:
        os.setsid()
        fcntl.ioctl(0, _TIOCSCTTY, 0)
        assert isinstance(sys.stdout, TextIOWrapper)
        sys.stdout.reconfigure(line_buffering=not sys.stdout.write_through)
    os.umask(umask)
    os.chdir(folder)
    os.environb.clear()
    os.environb.update(environment)
    posix.environ.clear()  # what the client reads, which does without `os`
    posix.environ.update(environment)
    time.tzset()
    sys.argv = [code.co_filename, *map(os.fsdecode, words)]
    sys.orig_argv = [sys.executable, *sys.argv]
    script = ModuleType("__main__")
    script.__file__ = code.co_filename
    sys.modules["__main__"] = script
    exec(code, script.__dict__)


if __name__ == "__main__":
    main()
