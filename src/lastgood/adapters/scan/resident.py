"""A process that scans, kept ready while its workspace is open (decision 022).

It answers one question at a time: into a file without a name, announced by a few bytes, so that this side
waits for the interpreter three times, not thousands of times. It is nobody's child, so that no program
waits for it by mistake. It ends as soon as nobody holds the other end of its questions, and when none has
come for a while.
"""

from __future__ import annotations

import fcntl
import os
from _thread import RLock

from lastgood import errors
from lastgood.adapters.room import free
from lastgood.adapters.stopping import STRIDE, asker, heed

LENGTH_BYTES = 8
ANSWER = b"lastgood scan answer\n"
# What is announced, before the length of what was said: that the next question may come, that none may, or
# that there is no room to say anything.
READY = b"r"
LAST = b"l"
NOT_WRITTEN = b"w"
ANNOUNCEMENT_BYTES = 1 + LENGTH_BYTES

# Before anything else it lets go of its parent. Isolated from environment, user and folder; without site;
# leaving no bytecode behind.
_OPTIONS = (b"-I", b"-S", b"-B", b"-c")
_BOOTSTRAP = b"""
import posix, sys
posix.chdir("/")
try:
    if posix.fork():
        posix._exit(0)
except OSError:
    pass
sys.path.append(sys.argv[1])
from lastgood.helper import main
main()
"""
_FIRST_FREE = 3
# What is said of a large workspace takes some megabytes.
_ANSWER_BYTES = 32 << 20

# The ends that keep such processes alive, and their pipes. A fork of this process lets go of them.
_held: dict[int, tuple[int, int]] = {}
# This process does not fork while one is started: the fork would keep the other ends as well, and whoever
# waits for the end of announcements would wait for the fork.
_starting = RLock()
_HOOKS: list[str] = []


class Resident:
    """One such process, started here; OSError if it cannot be. ``sheet`` is the file that it writes into."""

    def __init__(self, python: bytes, *, sheet: int) -> None:
        self.status = 0  # with which what was started here ended
        self.heard = False  # whether it took the last question whole
        self._owner = os.getpid()
        self._starter = 0
        self._sheet = sheet
        self._questions = self._announcements = -1
        self._pipe = (0, 0)
        _watch_forks()
        try:
            with _starting:
                self._start(python)
        finally:
            if not self._starter:
                self.end()

    @property
    def is_ours(self) -> bool:
        """Whether this process started and still holds it: a fork does not, nor who closed all files."""
        try:
            return self._owner == os.getpid() and _identity(self._questions) == self._pipe
        except OSError:
            return False

    def ask(self, question: bytes) -> tuple[bytes, bytes]:
        """Return what was announced (nothing if the process is gone), and what was said.

        It works on after this only if it is ready for the next question.
        """
        try:
            self.heard = self._send(len(question).to_bytes(LENGTH_BYTES, "big") + question)
            announced = self._wait()
        except BaseException:  # Ctrl-C, too: the answer that nobody waited for would be the next one's
            self.end()
            raise
        if announced[:1] == READY:
            self._reap(os.WNOHANG)
        else:
            self._dismiss()
        size = int.from_bytes(announced[1:], "big") if announced else os.fstat(self._sheet).st_size
        return announced[:1], os.pread(self._sheet, size, 0)

    def end(self) -> None:
        """Have it end, and wait for that; harmless when repeated."""
        if self._sheet < 0 or (self._questions >= 0 and not self.is_ours):
            return
        self._dismiss()
        os.close(self._sheet)
        self._sheet = -1

    def __del__(self) -> None:
        self.end()

    def _start(self, python: bytes) -> None:
        theirs: list[int] = []
        try:
            receiving, self._questions = _pipe()
            theirs.append(receiving)
            self._pipe = _held[self._questions] = _identity(self._questions)
            self._announcements, sending = _pipe()
            theirs.append(sending)
            self._starter = _start(python, (receiving, sending, self._sheet))
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def _send(self, content: bytes) -> bool:
        rest = memoryview(content)
        while rest:
            try:
                rest = rest[os.write(self._questions, rest) :]
            except BrokenPipeError:  # it is gone, and may have said why
                return False
        return True

    def _wait(self) -> bytes:
        """Wait for an announcement, unless this thread is asked to give up."""
        if asker() is not None:
            from select import POLLIN, poll

            waiting = poll()
            waiting.register(self._announcements, POLLIN)
            while not waiting.poll(STRIDE * 1000):
                heed()
        return os.read(self._announcements, ANNOUNCEMENT_BYTES)

    def _reap(self, how: int = 0) -> None:
        """Wait for what was started here: it has ended, or is the process itself and does when dismissed."""
        if not self._starter:
            return
        try:
            ended, status = os.waitpid(self._starter, how)
        except ChildProcessError:  # somebody else waits for all children here
            ended, status = self._starter, 0
        if ended:
            self._starter = 0
            self.status = os.waitstatus_to_exitcode(status)

    def _dismiss(self) -> None:
        """Let go of the process, which makes it end, and wait until nobody can announce anything."""
        if self._questions < 0:
            return
        _held.pop(self._questions, None)
        os.close(self._questions)
        self._questions = -1
        self._reap()
        announcements, self._announcements = self._announcements, -1
        if announcements >= 0:
            while os.read(announcements, ANNOUNCEMENT_BYTES):
                pass
            os.close(announcements)


def nameless_file(folder: bytes) -> int:
    """Open a file that nobody else can find, and that is gone when nobody has it open.

    It lies in a folder, or in memory where the disk of that is full: to look at a workspace takes no room.
    """
    bytes_free, files_free = free(folder)
    if hasattr(os, "memfd_create") and (bytes_free < _ANSWER_BYTES or files_free < 1):
        descriptor = os.memfd_create("lastgood")
        fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
        return _off_the_streams(descriptor)
    path = folder + b"/scan.answer." + os.urandom(8).hex().encode()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.unlink(path)
    return _off_the_streams(descriptor)


def _start(python: bytes, streams: tuple[int, int, int]) -> int:
    package = os.path.dirname(os.path.dirname(os.path.abspath(errors.__file__)))
    command = [python, *_OPTIONS, _BOOTSTRAP, os.fsencode(package)]
    actions = [(os.POSIX_SPAWN_DUP2, stream, place) for place, stream in enumerate(streams)]
    # In a group of its own: what a terminal sends to all, Ctrl-C or Ctrl-Z, is for the owner.
    return os.posix_spawn(python, command, {}, file_actions=actions, setpgroup=0)


def _identity(descriptor: int) -> tuple[int, int]:
    seen = os.fstat(descriptor)
    return seen.st_dev, seen.st_ino


def _pipe() -> tuple[int, int]:
    receiving, sending = os.pipe()
    return _off_the_streams(receiving), _off_the_streams(sending)


def _off_the_streams(descriptor: int) -> int:
    """Return a descriptor that does not have the number of a standard stream, which may be closed here."""
    if descriptor >= _FIRST_FREE:
        return descriptor
    import fcntl

    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
    os.close(descriptor)
    return moved


def _watch_forks() -> None:
    if not _HOOKS:
        _HOOKS.append("fork")
        os.register_at_fork(
            before=_starting.acquire, after_in_parent=_starting.release, after_in_child=_let_go
        )


def _let_go() -> None:
    _starting.release()
    while _held:
        descriptor, pipe = _held.popitem()
        try:
            if _identity(descriptor) == pipe:
                os.close(descriptor)
        except OSError:  # closed by somebody who closes all that he does not know
            continue
