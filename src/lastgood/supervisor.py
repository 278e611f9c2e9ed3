"""The program between a caller and a command: it starts the command, and nothing outlives the two.

A caller may be killed at any moment. This process notices (descriptor 0 closes, or its parent is
another one) and ends whatever the command started. It takes in every orphan below it (prctl(2),
PR_SET_CHILD_SUBREAPER), so that it also finds what became a daemon or put off its environment.

Descriptor 0 brings the order, then a byte for each request; 1 is the command's output; 2 takes lines that
say what happens: ``starting``, then ``started PID`` or ``unstarted NUMBER PLACE``; ``still TIME`` and
``moving TIME`` when the command is stopped with the caller and goes on with it; ``ended STATUS``,
``left PID COMMAND``, and at last ``over``.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # the public module costs an enum
import errno
import os
import select
import time
from marshal import loads

from lastgood.procfs import GONE, GROUP, PARENT, STATE, content_of, pids, stat_of, words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    # Words, directory, environment, mark, the caller's number, how much patience it has, with what is left.
    Order = tuple[list[bytes], bytes, dict[bytes, bytes], bytes, int, float, float]

LENGTH_BYTES = 8
# Requests; every other byte is the number of a signal to be forwarded.
END, KILL = 0, 255
# How long what was asked to end may take (seconds), and how long we wait for what was killed.
GRACE = 2.0
LAST_WAIT = 20.0
# How long what a command left behind may take to end by itself, if nobody says otherwise.
SETTLING = 0.5
_TICK = 0.02
_LOOK = 0.5
_STOPPED = b"T"
_QUIET = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# What Python changes at its start, and this program.
_CHANGED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)
_DIE_WITH_PARENT, _TAKE_ORPHANS = 1, 36  # prctl(2)
_UNSTARTED = 127
# Every control character becomes a blank: one line stays one line.
_PLAIN = bytes(byte if 32 <= byte != 127 else 32 for byte in range(256))
_HAS_PROC = os.path.exists("/proc/self/stat")


def main() -> None:
    """Run one command as descriptor 0 says, and end when nothing of it is left."""
    os.chdir("/")
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    inherited = [signal.signal(number, signal.SIG_IGN) for number in _QUIET]
    asleep, awake = os.pipe()
    for end in (asleep, awake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(awake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _noticed)
    order: Order = loads(_exactly(int.from_bytes(_exactly(LENGTH_BYTES), "big")))  # noqa: S302 - our caller's
    takes_orphans = _prctl(_TAKE_ORPHANS, 1)
    command = _start(
        order, ignored=[n for n, old in zip(_QUIET, inherited, strict=True) if old == signal.SIG_IGN]
    )
    if command is None:
        return
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    attending = _Supervision(
        command, mark=None if takes_orphans else order[3], caller=order[4], asleep=asleep
    )
    attending.follow(patience=order[5])
    attending.end(settling=order[6])
    _tell(b"over")
    os._exit(0)  # at once: the caller waits for it


def _start(order: Order, *, ignored: list[int]) -> int | None:
    words, directory, environment, *_ = order
    receiving, sending = os.pipe()
    parent = os.getpid()
    _tell(b"starting")
    pid = os.fork()
    if pid == 0:
        _become(words, directory, environment, ignored=ignored, sending=sending, parent=parent)
    os.close(sending)
    with open(receiving, "rb") as faults:
        fault = faults.read()
    if fault:
        os.waitpid(pid, 0)
        _tell(b"unstarted " + fault)
        return None
    _tell(b"started %d" % pid)
    return pid


def _become(
    words: list[bytes],
    directory: bytes,
    environment: dict[bytes, bytes],
    *,
    ignored: list[int],
    sending: int,
    parent: int,
) -> None:
    """Turn into the command; never returns."""
    place = directory
    try:
        os.setsid()
        _prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            return  # it died before that
        signal.set_wakeup_fd(-1)
        for number in (*_QUIET, *_CHANGED):
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(1, 2)
        os.chdir(directory)
        place = words[0]
        os.execvpe(words[0], words, environment)  # noqa: S606 - the caller's own command
    except OSError as error:
        os.write(sending, b"%d " % (error.errno or 0) + place.translate(_PLAIN))
    except ValueError:  # a NUL within a word
        os.write(sending, b"%d " % errno.EINVAL + place.translate(_PLAIN))
    finally:
        os._exit(_UNSTARTED)


class _Supervision:
    """A command that runs; ``mark`` is what else tells its offspring, where orphans do not come to us."""

    def __init__(self, command: int, *, mark: bytes | None, caller: int, asleep: int) -> None:
        self._command = command
        self._mark = mark
        self._caller = caller
        self._asleep = asleep
        self._running = True
        self._hurried = False
        self._alone = False
        self._paused = False
        self._poll = select.poll()
        self._poll.register(asleep, select.POLLIN)
        self._poll.register(0, select.POLLIN)

    def follow(self, *, patience: float) -> None:
        """Return when the command has ended, or has to be ended.

        After a signal was forwarded it has ``patience`` seconds to end by itself.
        """
        deadline = float("inf")
        while True:
            self._reap()
            if not self._running or self._alone or time.monotonic() > deadline:
                return
            self._keep_step()
            for request in self._requests(_LOOK if deadline == float("inf") else _TICK):
                if request in {END, KILL}:
                    return
                _signal(-self._command, request)
                deadline = min(deadline, time.monotonic() + patience)

    def end(self, *, settling: float) -> None:
        """End whatever is left, gently first; what just ends by itself has ``settling`` seconds to."""
        if not self._running:
            self._settle(settling)
        if not self._hurried:
            self._end(signal.SIGTERM, wait=GRACE)
        self._end(signal.SIGKILL, wait=LAST_WAIT)

    def _keep_step(self) -> None:
        """Stop what runs while the caller is stopped (Ctrl-Z), and let it go on with it."""
        stopped = stat_of(self._caller)[:1] == [_STOPPED]
        if stopped != self._paused:
            self._paused = stopped
            _tell(b"%s %f" % (b"still" if stopped else b"moving", time.monotonic()))
            for pid in self._living():
                _signal(pid, signal.SIGSTOP if stopped else signal.SIGCONT)

    def _settle(self, seconds: float) -> None:
        """Leave what the command left behind a moment to end by itself, as the last of a pipe does."""
        deadline = time.monotonic() + seconds
        while self._something_left():
            if time.monotonic() > deadline or self._alone:
                for pid in self._living():
                    _tell(b"left %d " % pid + b" ".join(words_of(pid, "cmdline")).translate(_PLAIN)[:200])
                return
            self._requests(_TICK)
            if self._hurried:
                return

    def _end(self, number: int, *, wait: float) -> None:
        deadline = time.monotonic() + wait
        told: set[int] = set()
        if not _HAS_PROC:
            _signal(-self._command, number)
        while self._something_left() and time.monotonic() < deadline:
            for pid in self._living():
                if pid not in told:
                    told.add(pid)
                    _signal(pid, number)
                    _signal(pid, signal.SIGCONT)  # what is stopped hears nothing
            if number == signal.SIGKILL:
                self._chase()
                continue
            self._requests(_TICK)
            if self._hurried:
                return

    def _chase(self) -> None:
        """Kill our children for a while as fast as we can: some beget the next one at once, and die."""
        deadline = time.monotonic() + _TICK
        while self._reap() and time.monotonic() < deadline:
            for word in content_of(os.getpid(), f"task/{os.getpid()}/children").split():
                _signal(int(word), signal.SIGKILL)

    def _something_left(self) -> bool:
        children = self._reap()
        if self._mark is None:
            return children
        return any(True for _ in self._living()) if _HAS_PROC else _signal(-self._command, 0)

    def _requests(self, wait: float) -> bytes:
        """Wait for something to happen, and return what the caller asks for."""
        if os.getppid() != self._caller:
            self._alone = True
        ready = {descriptor for descriptor, _ in self._poll.poll(wait * 1000)}
        if self._asleep in ready:
            os.read(self._asleep, 4096)
        if 0 not in ready:
            return b""
        requests = os.read(0, 64)
        if not requests:
            self._poll.unregister(0)
            self._alone = True
        self._hurried = self._hurried or KILL in requests
        return requests

    def _reap(self) -> bool:
        """Take leave of what has ended; False if we have no child any more.

        Where orphans come to us, nothing at all is left then.
        """
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._command:
                self._running = False
                _tell(b"ended %d" % os.waitstatus_to_exitcode(status))

    def _living(self) -> Iterator[int]:
        """Yield what lives of all that the command started, and itself.

        Our own children come first, as they are found: what begets children faster than all of /proc
        can be read has little time to do so.
        """
        me = os.getpid()
        below: dict[int, list[int]] = {}
        told: set[int] = set()
        for pid in pids():
            fields = stat_of(pid)
            if len(fields) <= GROUP or fields[STATE] in GONE or pid == me:
                continue
            parent = int(fields[PARENT])
            if parent == me or int(fields[GROUP]) == self._command or self._marked(pid):
                told.add(pid)
                yield pid
            below.setdefault(parent, []).append(pid)
        line = [me]
        while line:
            children = below.pop(line.pop(), [])
            line += children
            yield from (pid for pid in children if pid not in told)

    def _marked(self, pid: int) -> bool:
        return self._mark is not None and self._mark in words_of(pid, "environ")


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False  # gone meanwhile, or another user's
    return True


def _prctl(option: int, argument: int) -> bool:
    try:
        from ctypes import CDLL
    except ImportError:  # Python was built without
        return False
    try:
        return bool(CDLL(None).prctl(option, argument, 0, 0, 0) == 0)
    except (AttributeError, OSError):  # not Linux
        return False


def _noticed(_number: int, _frame: object) -> None:
    """Do nothing: the signal's arrival wakes the poll."""


def _tell(line: bytes) -> None:
    try:
        os.write(2, line + b"\n")
    except OSError:
        return  # nobody listens any more


def _exactly(size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = os.read(0, size - len(parts))
        if not part:
            os._exit(0)  # the caller was killed before it said what to do
        parts += part
    return parts
