"""Has the resident carry out a command, where there is one; else the command goes on in its own process.

It is asked before anything of the house is loaded, so nothing is imported here but what Python has
loaded anyway, and `_socket` once there is a socket to connect to (decision 038).
"""

from __future__ import annotations

import os
import sys

from lastgood.cli.started import program
from lastgood.resident import (
    BROKEN,
    DECLINED,
    DONE,
    LARGEST,
    LENGTH_BYTES,
    SIZE_BYTES,
    SOCKET,
    STREAM_BYTES,
    greeting,
    question,
    received,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Iterator, Sequence
    from typing import NoReturn

VERBS = frozenset({"save", "create", "status", "watch"})
# The verb of agents' hosts, who say it first, and send on standard input what happens.
HOOK = "hook"
INTERRUPTED = 130
# Who is busy does not greet: the command is as quick by itself.
_GREETING_SECONDS = 0.05
# How often it is looked whether the resident was stopped meanwhile, and how long an interrupted command
# waits to hear what became of it.
_LOOK_SECONDS = 0.5
_INTERRUPTED_SECONDS = 5.0
_LONGEST_NAME = 100
_ID_BYTES = 8
_READ_BYTES = 1 << 16
# Variables that count: those of these names, and all that begin so; for a hook all, as each host has its own.
_NAMES = frozenset({b"HOME", b"PATH", b"TZ", b"TMPDIR", b"TERM", b"NO_COLOR", b"PWD"})
# By what is behind the agents' ones is known who saves.
_BEGINNINGS = (
    b"LASTGOOD_",
    b"XDG_",
    b"CLAUDE_CONFIG_DIR=",
    b"CODEX_HOME=",
    b"GEMINI_CLI_HOME=",
    b"CLAUDECODE=",
    b"CLINE_ACTIVE=",
    b"CLINE_CONNECTOR_CLI_LAUNCH=",
    b"CODEX_SANDBOX",
    b"CODEX_THREAD_ID=",
    b"CURSOR_AGENT=",
    b"GEMINI_CLI=",
    b"OPENCODE=",
)


class Broken(Exception):
    """The resident went away before it said what came of the command: some of it may be done."""


class Question:
    """What a command asks for. Its ``id`` may be that of a checkpoint, and ``given`` its standard input."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.is_hook: bool = words[0] == HOOK
        self.id: bytes = b""
        self.given: bytes | None = None

    def content(self) -> bytes:
        """Return what the resident is told."""
        return question(b"\0".join(self._parts()), self.given or b"")

    def _parts(self) -> Iterator[bytes]:
        yield self.id
        yield b" ".join(b"%d" % _width(stream) for stream in range(3))
        yield os.getcwdb()
        yield os.fsencode(program())
        yield b"%d" % len(self.words)
        yield from map(os.fsencode, self.words)
        for name, value in os.environb.items():
            if self.is_hook or name in _NAMES or (name + b"=").startswith(_BEGINNINGS):
                yield b"%s=%s" % (name, value)


def run() -> NoReturn:
    """Carry out the command line of this process and end it."""
    words = sys.argv[1:]
    proposed = given = None
    if words and sys.platform == "linux" and (words[0] == HOOK or not VERBS.isdisjoint(words)):
        asked = Question(words)
        try:
            answer = _answer(asked)
            if answer is not None:
                os._exit(_tell(answer))
        except Broken:
            proposed = asked.id.decode("ascii")
        except KeyboardInterrupt:
            from lastgood.cli.main import interrupted

            os._exit(interrupted(words))
        except OSError:
            pass  # there is none, or none to talk to: nothing was done
        given = asked.given
    from lastgood.cli.main import run

    run(proposed=proposed, given=given)


def _answer(asked: Question) -> bytes | None:
    """Return what the resident answers; None where it is not asked, or declines. OSError, `Broken`."""
    folder = _store(asked.words)
    if folder is None or "LASTGOOD_TRACE" in os.environ or sys.getfilesystemencoding() != "utf-8":
        return None
    place = f"{folder}/{SOCKET}"
    os.stat(place)
    if asked.is_hook:  # before it is greeted: who serves all waits for no host
        asked.given = _input()
    connection = _connected(place)
    try:
        # Where a standard stream is closed, ours would be taken for it.
        return _asked(connection, asked) if connection.fileno() > 2 else None
    finally:
        connection.close()


def _input() -> bytes:
    """Return all that comes on standard input; OSError."""
    found = b""
    while True:
        try:
            part = os.read(0, _READ_BYTES)
        except BlockingIOError:
            from select import select

            select([0], [], [])
            continue
        if not part:
            return found
        found += part


def _asked(connection: socket, asked: Question) -> bytes | None:
    expected = greeting()
    if _peer(connection)[1] != os.geteuid():
        return None
    if received(connection, len(expected) + 1)[:-1] != expected:
        return None
    asked.id = os.urandom(_ID_BYTES).hex().encode("ascii")
    content = asked.content()
    if len(content) > LARGEST:
        return None
    try:
        connection.sendall(content)
        answer = _heard(connection)
    except OSError as error:
        raise Broken from error
    if answer[:1] == BROKEN:
        raise Broken
    return None if answer[:1] == DECLINED else answer


def _store(words: Sequence[str]) -> str | None:
    """Return the store of a call, None where more than a look at the words is needed to know it."""
    chosen = os.environ.get("LASTGOOD_STORE", "")
    for place, word in enumerate(words):
        if word == "--":
            break
        if word.startswith("--store"):
            name, equals, value = word.partition("=")
            if name != "--store":
                return None
            chosen = value if equals else "".join(words[place + 1 : place + 2])
    if chosen:
        return None if chosen.startswith("~") or ".." in chosen else chosen
    kept = os.environ.get("XDG_STATE_HOME", "")
    if not kept.startswith("/"):
        home = os.environ.get("HOME", "")
        if not home.startswith("/"):
            return None
        kept = f"{home}/.local/state"
    return f"{kept}/lastgood"


def _connected(place: str) -> socket:
    from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, socket

    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
    folder = -1
    try:
        connection.settimeout(_GREETING_SECONDS)
        name = os.fsencode(place)
        if len(name) > _LONGEST_NAME:
            folder = os.open(os.path.dirname(name), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            name = b"/proc/self/fd/%d/%s" % (folder, SOCKET.encode())
        connection.connect(name)
    except BaseException:
        connection.close()
        raise
    finally:
        if folder >= 0:
            os.close(folder)
    return connection


def _peer(connection: socket) -> tuple[int, int]:
    """Return the process and the user that answer."""
    from _socket import SO_PEERCRED, SOL_SOCKET

    found = connection.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)
    return int.from_bytes(found[:4], sys.byteorder), int.from_bytes(found[4:8], sys.byteorder)


def _width(stream: int) -> int:
    """Return the width of a terminal, 0 of one without; -1 of what is none."""
    try:
        if not os.isatty(stream):
            return -1
        return os.get_terminal_size(stream).columns
    except OSError:
        return 0


def _heard(connection: socket) -> bytes:
    """Wait for the answer and return it, also of a command that is interrupted meanwhile."""
    try:
        return _waited(connection)
    except KeyboardInterrupt:
        connection.shutdown(1)  # the resident stops, and says how far it came
        connection.settimeout(_INTERRUPTED_SECONDS)
        try:
            answer = _framed(connection)
        except OSError:
            raise KeyboardInterrupt from None
        if answer[:1] != DONE:
            raise
        return answer


def _waited(connection: socket) -> bytes:
    """Return the answer; OSError if the resident went away, or was stopped."""
    from _socket import MSG_PEEK

    connection.settimeout(_LOOK_SECONDS)
    while True:
        try:
            connection.recv(1, MSG_PEEK)
            break
        except TimeoutError:
            if _is_stopped(_peer(connection)[0]):
                raise
    return _framed(connection)


def _is_stopped(pid: int) -> bool:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[:1] in ([b"T"], [b"t"])


def _framed(connection: socket) -> bytes:
    length = int.from_bytes(received(connection, LENGTH_BYTES), "big")
    return received(connection, length)


def _tell(answer: bytes) -> int:
    """Write what the resident said to where it belongs, and return the exit code."""
    silent = set()
    place = 2
    while place < len(answer):
        stream = answer[place]
        begin = place + STREAM_BYTES + SIZE_BYTES
        place = begin + int.from_bytes(answer[place + STREAM_BYTES : begin], "big")
        try:
            if stream not in silent:
                _write(stream, answer[begin:place])
        except BrokenPipeError:
            silent.add(stream)
        except OSError as error:
            silent.add(stream)
            if stream == 1:
                from lastgood.cli.main import unwritten

                return unwritten(error)
    return answer[1]


def _write(stream: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        try:
            rest = rest[os.write(stream, rest) :]
        except BlockingIOError:
            from select import select

            select([], [stream], [])
