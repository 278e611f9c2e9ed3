"""Has the resident carry out a command, where there is one; else the command goes on in its own process.

It is asked before anything of the house is loaded, in a Python that may not even have its `os` (decision
067): nothing is imported here but what is built in, and `_socket` once there is a socket to connect to. So
annotations are not postponed, which would load `__future__`, and no class is made.
"""

import posix
import sys
from posix import _exit

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
    from collections.abc import Sequence
    from typing import NoReturn

VERBS = frozenset({"save", "create", "status", "watch"})
# The verb of agents' hosts, who say it first, and send on standard input what happens.
HOOK = "hook"
# Who is busy does not greet: the command is as quick by itself.
_GREETING_SECONDS = 0.05
# But for what only the resident can do: to watch one more workspace.
_BUSY_SECONDS = 5.0
# How often it is looked whether the resident was stopped meanwhile, and how long an interrupted command
# waits to hear what became of it.
_LOOK_SECONDS = 0.5
_INTERRUPTED_SECONDS = 5.0
_LONGEST_NAME = 100
_ID_BYTES = 8
_PROPOSED = b"LASTGOOD_PROPOSED"
_MANY_OBJECTS = 50_000
_LARGE_BLOCK = 1 << 20
_READ_BYTES = 1 << 16
# Most answers are shorter: they come whole.
_ANSWER_BYTES = 1 << 16
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


def run() -> "NoReturn":
    """Carry out the command line of this process and end it."""
    words = sys.argv[1:]
    given, answer = None, b""
    id, place = _handed_on(), None
    if id:
        answer = BROKEN
    else:
        id, place = posix.urandom(_ID_BYTES).hex(), socket_of(words)
    if place is not None:
        try:
            posix.stat(place)
            if words[0] == HOOK:  # before it is greeted: who serves all waits for no host
                given = _input()
            answer = asked(place, words, id=id, given=given)
            if answer[:1] == DONE:
                _exit(_tell(answer))
        except KeyboardInterrupt:
            _load_site()
            from lastgood.cli.main import interrupted

            _exit(interrupted(words))
        except OSError:
            pass  # there is none, or none to talk to: nothing was done
    _load_site()
    import gc

    # Modules are no garbage: looking for some while they are loaded takes 2 ms.
    gc.set_threshold(_MANY_OBJECTS)
    # Once a block so large was freed, glibc gives no smaller one back to the kernel, to ask for it again with
    # the next file that is compressed (mallopt(3), M_MMAP_THRESHOLD): that takes half a millisecond.
    bytes(_LARGE_BLOCK)
    try:
        from lastgood.module_finder import install
    except ImportError:
        pass  # a Python that keeps what it is made of elsewhere: its own finder does
    else:
        install()
    from lastgood.cli.main import run

    run(proposed=id if answer[:1] == BROKEN else None, given=given)


def run_for(program: "list[str]") -> "NoReturn":
    """Carry out a hook as `install` enters it, in a Python without `site`, in the place of a program.

    ``program`` are the words that start that, which hints name.
    """
    sys.argv[0] = program[-1]
    sys.orig_argv = [*([] if program[0] == sys.executable else [sys.executable]), *program, *sys.argv[1:]]
    run()


def _handed_on() -> str:
    """Return the digits that client.pl asked with before a resident broke down (decision 070), "" if none."""
    digits = posix.environ.pop(_PROPOSED, b"")
    posix.unsetenv(_PROPOSED)
    is_ours = len(digits) == 2 * _ID_BYTES and not digits.strip(b"0123456789abcdef")
    return digits.decode() if is_ours else ""


def _load_site() -> None:
    """Have Python find what else is installed, where a hook began without: only asking needs none of that."""
    if sys.flags.no_site and sys.flags.ignore_environment and "site" not in sys.modules:
        import site

        site.main()


def socket_of(words: "Sequence[str]") -> str | None:
    """Return where the resident would be that a call is for; None of what none carries out."""
    if not words or sys.platform != "linux" or (words[0] != HOOK and VERBS.isdisjoint(words)):
        return None
    if b"LASTGOOD_TRACE" in posix.environ or sys.getfilesystemencoding() != "utf-8":
        return None
    folder = _store(words)
    return None if folder is None else f"{folder}/{SOCKET}"


def asked(place: str, words: "Sequence[str]", *, id: str, given: bytes | None = None) -> bytes:
    """Return what the resident at a socket answers; OSError where there is none.

    ``id`` may be that of a checkpoint, and ``given`` is the standard input. It begins with `DECLINED` where
    nothing was done, and with `BROKEN` where the resident went away before it said what came of the command:
    some of it may be done.
    """
    connection = _connected(place, patience=_BUSY_SECONDS if _only_it_can(words) else _GREETING_SECONDS)
    try:
        # Where a standard stream is closed, ours would be taken for it.
        return _asked(connection, words, id=id, given=given) if connection.fileno() > 2 else DECLINED
    finally:
        connection.close()


def _only_it_can(words: "Sequence[str]") -> bool:
    """Tell whether a call has one more workspace watched; what stands after ``--`` is no option."""
    if "--background" not in words:
        return False
    typed = words[: words.index("--")] if "--" in words else words
    return "watch" in typed and "--background" in typed


def _asked(connection: "socket", words: "Sequence[str]", *, id: str, given: bytes | None) -> bytes:
    content = _request(words, id=id, given=given)  # while the other side looks at who connects
    expected = greeting()
    if (
        _peer(connection)[1] != posix.geteuid()
        or received(connection, len(expected) + 1)[:-1] != expected
        or len(content) > LARGEST
    ):
        return DECLINED
    try:
        connection.sendall(content)
        return _heard(connection)
    except OSError:
        return BROKEN


def _request(words: "Sequence[str]", *, id: str, given: bytes | None) -> bytes:
    """Return what the resident is told."""
    parts = [
        id.encode(),
        b" ".join([b"%d" % _width(stream) for stream in (0, 1, 2)]),
        posix.getcwdb(),
        b"%d" % len(words),
        b"%d" % len(sys.orig_argv),
        *[word.encode("utf-8", "surrogateescape") for word in (sys.executable, *words, *sys.orig_argv)],
    ]
    is_hook = words[0] == HOOK
    for name, value in posix.environ.items():
        if is_hook or name in _NAMES or (name + b"=").startswith(_BEGINNINGS):
            parts.append(b"%s=%s" % (name, value))
    return question(b"\0".join(parts), given or b"")


def _input() -> bytes:
    """Return all that comes on standard input; OSError."""
    parts: list[bytes] = []
    while True:
        try:
            part = posix.read(0, _READ_BYTES)
        except BlockingIOError:
            from select import select

            select([0], [], [])
            continue
        if not part:
            return b"".join(parts)
        parts.append(part)


def _store(words: "Sequence[str]") -> str | None:
    """Return the store of a call, None where more than a look at the words is needed to know it."""
    chosen = _variable(b"LASTGOOD_STORE")
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
    kept = _variable(b"XDG_STATE_HOME")
    if not kept.startswith("/"):
        home = _variable(b"HOME")
        if not home.startswith("/"):
            return None
        kept = f"{home}/.local/state"
    return f"{kept}/lastgood"


def _variable(name: bytes) -> str:
    return posix.environ.get(name, b"").decode("utf-8", "surrogateescape")


def _connected(place: str, *, patience: float) -> "socket":
    from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, socket

    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
    folder = -1
    try:
        connection.settimeout(patience)
        name = place.encode("utf-8", "surrogateescape")
        if len(name) > _LONGEST_NAME:
            flags = posix.O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC
            folder = posix.open(name.rpartition(b"/")[0], flags)
            name = b"/proc/self/fd/%d/%s" % (folder, SOCKET.encode())
        connection.connect(name)
    except BaseException:
        connection.close()
        raise
    finally:
        if folder >= 0:
            posix.close(folder)
    return connection


def _peer(connection: "socket") -> tuple[int, int]:
    """Return the process and the user that answer."""
    from _socket import SO_PEERCRED, SOL_SOCKET

    found = connection.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)
    return int.from_bytes(found[:4], sys.byteorder), int.from_bytes(found[4:8], sys.byteorder)


def _width(stream: int) -> int:
    """Return the width of a terminal, 0 of one without; -1 of what is none."""
    try:
        if not posix.isatty(stream):
            return -1
        return posix.get_terminal_size(stream).columns
    except OSError:
        return 0


def _heard(connection: "socket") -> bytes:
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


def _waited(connection: "socket") -> bytes:
    """Return the answer; OSError if the resident went away, or was stopped."""
    connection.settimeout(_LOOK_SECONDS)
    while True:
        try:
            begun = connection.recv(_ANSWER_BYTES)
            break
        except TimeoutError:
            if _is_stopped(_peer(connection)[0]):
                raise
    return _framed(connection, begun)


def _is_stopped(pid: int) -> bool:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[:1] in ([b"T"], [b"t"])


def _framed(connection: "socket", begun: bytes = b"") -> bytes:
    """Return what the resident says, of which something came already."""
    begun += received(connection, LENGTH_BYTES - len(begun))
    length = LENGTH_BYTES + int.from_bytes(begun[:LENGTH_BYTES], "big")
    return begun[LENGTH_BYTES:] + received(connection, length - len(begun))


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
                _load_site()
                from lastgood.cli.main import unwritten

                return unwritten(error)
    return answer[1]


def _write(stream: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        try:
            rest = rest[posix.write(stream, rest) :]
        except BlockingIOError:
            from select import select

            select([], [stream], [])
