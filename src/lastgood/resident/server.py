"""Answers whoever connects to the resident's socket, one after the other."""

from __future__ import annotations

import _socket
import fcntl
import os
import select
import signal
import struct
import time

from lastgood.files import PRIVATE_FILE
from lastgood.resident import (
    BROKEN,
    DECLINED,
    DONE,
    LARGEST,
    LENGTH_BYTES,
    SIZE_BYTES,
    SOCKET,
    STREAM_BYTES,
    framed,
    received,
)
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

# How long a client may take to say what it wants, in seconds: the words are on their way already.
_PATIENCE = 1.0
_WAITING = 16
_PEER = struct.Struct("iII")
_NAMESPACES = ("mnt", "pid", "user")
# Most requests are shorter: they come whole.
_REQUEST_BYTES = 1 << 14
# So many parts of a request are there whatever is asked for.
_FIXED = 6


class Declined(BaseException):
    """What was asked for is for the client to do; nothing was done yet."""


class Request(Value):
    """A command that a client asks for.

    ``id`` are the digits of the checkpoint that is to be made, if one is. ``widths`` are those of the
    standard streams: -1 of what is no terminal. ``pid`` is the client's, which waits meanwhile. ``python``
    and ``started`` are its interpreter and all words that it was started by. ``given`` is what came on its
    standard input, where that is read.
    """

    id: str
    pid: int
    widths: tuple[int, ...]
    folder: str
    python: str
    words: tuple[str, ...]
    started: tuple[str, ...]
    environment: Mapping[str, str]
    given: bytes = b""


class Answer(Value):
    """What came of it: the exit code, and what is written to which stream, in its order."""

    code: int
    said: tuple[tuple[int, bytes], ...]


class Listener:
    """The socket of a store, while nobody else holds its lock; OSError if it cannot be made.

    ``greeting`` returns what is said first. ``answer`` carries out a request; raises `Declined`.
    """

    def __init__(
        self, store: bytes, *, greeting: Callable[[], bytes], answer: Callable[[Request], Answer]
    ) -> None:
        self._answer = answer
        self._greeting = greeting
        self._client: _socket.socket | None = None
        # Only a process itself takes up others.
        self._namespaces = _namespaces("self")
        self._folder = os.open(store, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        try:
            self._bind()
        except BaseException:
            self._socket.close()
            os.close(self._folder)
            raise
        signal.signal(signal.SIGIO, self._interrupt)

    @property
    def descriptor(self) -> int:
        """What can be waited for: it can be read when somebody connects."""
        return self._socket.fileno()

    @property
    def is_found(self) -> bool:
        """Whether clients still find this socket."""
        try:
            seen = os.stat(SOCKET, dir_fd=self._folder, follow_symlinks=False)
        except OSError:
            return False
        return (seen.st_dev, seen.st_ino) == self._bound

    def serve(self) -> None:
        """Answer whoever connected first; whatever becomes of the connection is the client's loss."""
        try:
            # As `socket.accept` does, which then looks up what families and types are called.
            descriptor, _ = self._socket._accept()  # type: ignore[attr-defined]  # noqa: SLF001
        except OSError:
            return
        client = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)
        client.settimeout(_PATIENCE)
        try:
            request = self._asked(client)
            if request is not None:
                client.sendall(self._answered(client, request))
        except (OSError, ValueError):
            return
        finally:
            client.close()

    def close(self) -> None:
        """Be found no longer; harmless when repeated."""
        if self._folder < 0:
            return
        if self.is_found:
            os.unlink(SOCKET, dir_fd=self._folder)
        self._socket.close()
        descriptor, self._folder = self._folder, -1
        os.close(descriptor)
        signal.signal(signal.SIGIO, signal.SIG_IGN)

    def _bind(self) -> None:
        """Take the name, whoever had it is dead: a path may be too long for a socket's address."""
        aside = f"{SOCKET}.{os.getpid()}"
        mask = os.umask(0o777 & ~PRIVATE_FILE)
        try:
            self._socket.bind(f"/proc/self/fd/{self._folder}/{aside}")
        finally:
            os.umask(mask)
        self._socket.listen(_WAITING)
        self._socket.setblocking(False)
        seen = os.stat(aside, dir_fd=self._folder, follow_symlinks=False)
        self._bound = seen.st_dev, seen.st_ino
        os.rename(aside, SOCKET, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def _asked(self, client: _socket.socket) -> Request | None:
        """Greet a client and return what it wants; None if it is not one of ours."""
        pid, user, group = _PEER.unpack(
            client.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _PEER.size)
        )
        if (user, group) != (os.geteuid(), os.getegid()) or not self._sees_the_same(pid):
            return None
        client.sendall(self._greeting())
        said = _InTime(client, seconds=_PATIENCE)
        begun = said.recv(_REQUEST_BYTES)
        begun += received(said, LENGTH_BYTES - len(begun))
        length = LENGTH_BYTES + int.from_bytes(begun[:LENGTH_BYTES], "big")
        if length > LENGTH_BYTES + LARGEST:
            return None
        content = begun + received(said, length - len(begun))
        client.settimeout(_PATIENCE)
        return _request(content[LENGTH_BYTES:length], pid=pid)

    def _sees_the_same(self, pid: int) -> bool:
        """Tell whether paths and process numbers mean to another process what they mean here."""
        try:
            at_same_root = os.path.samestat(os.stat(f"/proc/{pid}/root"), os.stat("/"))
            return at_same_root and _namespaces(pid) == self._namespaces
        except OSError:
            return False

    def _answered(self, client: _socket.socket, request: Request) -> bytes:
        try:
            descriptor = client.fileno()
            fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
            # One with a time limit never blocks.
            fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
            self._client = client
            if _is_over(client):
                return b""
            answer = self._answer(request)
            self._client = None
        except Declined:
            return framed(DECLINED)
        except (Exception, KeyboardInterrupt):  # noqa: BLE001 - the client comes to the same fault, and tells it
            return framed(BROKEN)
        finally:
            self._client = None
        return framed(DONE, bytes((answer.code,)), *_streams(answer.said))

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        """Stop what is done for a client that was interrupted, or is gone, as Ctrl-C would there."""
        client = self._client
        if client is not None and _is_over(client):
            self._client = None
            raise KeyboardInterrupt


class _InTime:
    """The end of a connection from which all has to come within some time: not each byte, as by itself."""

    def __init__(self, connection: _socket.socket, *, seconds: float) -> None:
        self._connection = connection
        self._ends = time.monotonic() + seconds

    def recv(self, size: int, /) -> bytes:
        """Return at most so many bytes, none at the end; TimeoutError when the time is over."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv(size)


def _is_over(client: _socket.socket) -> bool:
    """Tell whether a client says no more: it was interrupted, or is gone."""
    waiting = select.poll()
    waiting.register(client, select.POLLRDHUP)
    return bool(waiting.poll(0))


def _namespaces(process: int | str) -> list[str]:
    return [os.readlink(f"/proc/{process}/ns/{one}") for one in _NAMESPACES]


def _request(content: bytes, *, pid: int) -> Request:
    asked = LENGTH_BYTES + int.from_bytes(content[:LENGTH_BYTES], "big")
    told = content[LENGTH_BYTES:asked].decode("utf-8", "surrogateescape").split("\0")
    id, widths, folder, count, all_count, python = told[:_FIXED]
    begun = _FIXED + int(count)
    named = begun + int(all_count)
    return Request(
        id=id,
        pid=pid,
        widths=tuple(map(int, widths.split())),
        folder=folder,
        python=python,
        words=tuple(told[_FIXED:begun]),
        started=tuple(told[begun:named]),
        environment=dict([one.split("=", 1) for one in told[named:]]),
        given=content[asked:],
    )


def _streams(said: Sequence[tuple[int, bytes]]) -> list[bytes]:
    return [
        stream.to_bytes(STREAM_BYTES, "big") + len(content).to_bytes(SIZE_BYTES, "big") + content
        for stream, content in said
    ]
