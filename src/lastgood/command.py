"""Runs commands, each in a session of its own and watched over by a process that leaves nothing of it behind.

What starts and ends the command is `lastgood.supervisor`, a process between this one and it.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import stat
import subprocess
import sys
import time
from marshal import dumps

from lastgood.ids import SESSION_VARIABLE
from lastgood.model.checkpoint import CommandResult
from lastgood.model.session import Living
from lastgood.procfs import GONE, GROUP, STATE, settled_pids, stat_of, words_of
from lastgood.supervisor import END, GO_ON, GRACE, KILL, LAST_WAIT, LENGTH_BYTES, SETTLING
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lastgood.literals import Ending
    from lastgood.model.run import Command
    from lastgood.terminal import Terminal


# --- Ends what a command left whose watch was killed: all that can be told by its group and its mark ---

_STRIDE = 0.05


def sweep(mark: bytes, *, group: int | None, patience: float) -> None:
    """Kill what bears a mark in its environment, or is of a group, until nothing of it is left.

    Gives up after ``patience`` seconds: what the kernel does not let go of cannot be ended.
    """
    enough = time.monotonic() + patience
    while _kill_all(_living(mark, group)) and time.monotonic() < enough:
        time.sleep(_STRIDE)


def _living(mark: bytes, group: int | None) -> Iterator[int]:
    for pid in settled_pids():
        fields = stat_of(pid)
        if len(fields) <= GROUP or fields[STATE] in GONE:
            continue
        if int(fields[GROUP]) == group or mark in words_of(pid, "environ"):
            yield pid


def _kill_all(found: Iterator[int]) -> bool:
    """Kill each as soon as it is found, as some beget the next one at once; False if there was none."""
    killed = False
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue  # gone meanwhile, or another user's
        killed = True
    return killed


# --- Runs commands, each in a session of its own and watched over by a process that leaves nothing of it
# behind ---

TAIL = 4096
# Whatever a command starts bears this in its environment, also what leaves its process group.
MARK = "LASTGOOD_CHECK"
_OURS = "LASTGOOD_"
_SHELL = ("/bin/sh", "-c")
_TICK = 0.05
# As much as a pipe may hold for anybody: what floods waits for us the less often.
_BLOCK = 1 << 20
_FAULT_LIMIT = 500
# Longer than the process in between may take to end a command by force.
_ENOUGH = GRACE + LAST_WAIT + 5.0
# How long a command may take to end after a signal was forwarded to it.
PATIENCE = 5.0
# A wait that takes so much longer than it was to means that this process was stopped meanwhile.
_STOPPED = 1.0
# Who cannot be stopped, and is asked by a command that wants a terminal out of its reach, waits so long.
_RESPITE = 0.5
_BOOTSTRAP = "import sys; sys.path.append(sys.argv[1]); from lastgood.supervisor import main; main()"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _idle() -> None:
    """Do nothing while a command runs."""


class Given(Value):
    """What a command gets of what this process was given; nothing: no input, and its output is taken.

    ``stdin`` is a descriptor. With a ``terminal`` this process's standard input, output and error are
    the command's own as they are, and so is the terminal, which is the first of them.
    """

    stdin: int | None = None
    terminal: bool = False


class GuardedCommands:
    """Runs commands with the environment of the caller; when a call returns, nothing that it started is left.

    Nor is anything left for long if the caller is killed meanwhile. ``tick`` is called while a command is
    just run, as `attend` has it; ``patience`` is how many seconds a command has to end when it was asked
    to, ``settling`` what it left behind to end by itself.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        patience: float = PATIENCE,
        settling: float = SETTLING,
        tick: Callable[[], None] = _idle,
    ) -> None:
        self._environment = environment
        self._patience = patience
        self._settling = settling
        self._tick = tick

    def run(
        self, words: Sequence[str], *, directory: bytes, variables: Mapping[str, str], timeout: float
    ) -> CommandResult:
        """Run a program; what it started, and did not end, is ended with it."""
        return self.attend(
            tuple(words),
            directory=directory,
            variables=variables,
            timeout=timeout,
            output=_unheard,
            tick=self._tick,
            asked=_never,
        )

    def attend(
        self,
        command: Command,
        *,
        directory: bytes,
        variables: Mapping[str, str],
        timeout: float | None,
        output: Callable[[bytes], None],
        tick: Callable[[], None],
        asked: Callable[[], Sequence[int]],
        given: Given | None = None,
    ) -> CommandResult:
        """Run a command, a text by the shell, and stay with it; standard input is empty unless ``given``.

        ``output`` gets what it writes, standard output and standard error together, as it comes, in
        parts of at most 64 KiB. ``tick`` is called about every 50 ms. ``asked`` tells which signals
        have come so far that ask the work to end: each is forwarded to the command, which has a few
        seconds then; the same one again ends it at once. All three are called in the caller's thread;
        what they raise ends the command and goes on. ``timeout`` is in seconds, None for no end.
        What the command started, and did not end, is ended with it. If a command that is given the
        terminal is stopped there (Ctrl-Z), so is this process's group; how it leaves the terminal set
        counts only if it ended by itself.
        """
        words = (*_SHELL, command) if isinstance(command, str) else command
        mark = os.urandom(8).hex()
        environment = {**self._environment, **variables, MARK: mark}
        if not _is_same(environment.get("PWD"), directory):
            environment["PWD"] = os.fsdecode(directory)  # some programs believe it more than where they are
        started = time.monotonic()
        handed = _Handed(given or Given())
        try:
            supervisor = _attendant(
                self._environment, mark, session=environment.get(SESSION_VARIABLE), handed=handed
            )
        except OSError as error:
            return CommandResult(
                ending="unstarted", code=0, seconds=0.0, tail=b"", fault=_start_failure(error)
            )
        finally:
            handed.close()
        running = _Running(supervisor, mark, started=started, patience=self._patience, handed=handed)
        try:
            running.order(words, directory=directory, environment=environment, settling=self._settling)
            running.follow(timeout, output=output, tick=tick, asked=asked)
        except BaseException:
            running.end(_unheard)
            raise
        running.end(output)
        return running.outcome()


def _is_same(path: str | None, directory: bytes) -> bool:
    """Tell whether a path is another spelling of a directory."""
    try:
        return path is not None and os.path.samefile(os.fsencode(path), directory)
    except (OSError, ValueError):
        return False


class _Handed:
    """What a command is given, as copies that go to the process in between, and how it is to be used."""

    def __init__(self, given: Given) -> None:
        wanted = (0, 1, 2) if given.terminal else () if given.stdin is None else (given.stdin,)
        self.descriptors = tuple(_copy_of(descriptor) for descriptor in wanted)
        self.owner = os.getpgrp() if given.terminal else 0
        self.on_demand = given.terminal and any(_is_pipe(descriptor) for descriptor in (1, 2))
        self.terminal: Terminal | None = None
        if given.terminal:
            from lastgood.terminal import Terminal  # lazily: most commands get none

            self.terminal = Terminal(0, owner=self.owner)

    def close(self) -> None:
        """Part with the copies."""
        for descriptor in self.descriptors:
            os.close(descriptor)


def _copy_of(descriptor: int) -> int:
    """Return a copy that is none of the standard streams; of one that is closed, of nothing."""
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:
        nothing = os.open(os.devnull, os.O_RDWR)
        try:
            return fcntl.fcntl(nothing, fcntl.F_DUPFD_CLOEXEC, 3)
        finally:
            os.close(nothing)


def _is_pipe(descriptor: int) -> bool:
    """Tell whether others may read what is written, beside this process and on its terminal."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


class _Running:
    """A command that runs, and all that came of it."""

    def __init__(
        self,
        supervisor: subprocess.Popen[bytes],
        mark: str,
        *,
        started: float,
        patience: float,
        handed: _Handed,
    ) -> None:
        assert supervisor.stdin is not None
        assert supervisor.stdout is not None
        assert supervisor.stderr is not None
        self._attendant = supervisor
        self._handed = handed
        self._mark = f"{MARK}={mark}"
        self._started = started
        self._patience = patience
        self._requests = supervisor.stdin.fileno()
        self._output = supervisor.stdout.fileno()
        self._word = supervisor.stderr.fileno()
        self._poll = select.poll()
        self._open = {self._output, self._word}
        for descriptor in self._open:
            os.set_blocking(descriptor, False)
            self._poll.register(descriptor, select.POLLIN)
        _widen(self._output)
        self._tail = b""
        self._said = b""
        self._may_have_started = False
        self._over = False
        self._group: int | None = None
        self._status: int | None = None
        self._key = 0
        self._seconds = 0.0
        self._fault = ""
        self._left: tuple[Living, ...] = ()
        self._ended_by: tuple[Ending, int] | None = None
        self._enough = float("inf")
        self._paused = 0.0
        self._counted = 0.0
        self._still_since: float | None = None

    def order(
        self, words: Sequence[str], *, directory: bytes, environment: Mapping[str, str], settling: float
    ) -> None:
        """Say what to run."""
        given = [os.fsencode(word) for word in words]
        encoded = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
        mark = os.fsencode(self._mark)
        handed = self._handed
        lent = (handed.descriptors, handed.owner, handed.on_demand)
        order = dumps((given, directory, encoded, mark, os.getpid(), self._patience, settling, lent))
        rest = memoryview(len(order).to_bytes(LENGTH_BYTES, "big") + order)
        try:
            while rest:
                rest = rest[os.write(self._requests, rest) :]
        except BrokenPipeError:
            return  # its last words say why

    def follow(
        self,
        timeout: float | None,
        *,
        output: Callable[[bytes], None],
        tick: Callable[[], None],
        asked: Callable[[], Sequence[int]],
    ) -> None:
        """Return when the command has ended, and all that it started."""
        deadline = float("inf") if timeout is None else self._started + timeout
        ticked = 0.0
        heard = 0
        while self._word in self._open and time.monotonic() < self._enough:
            self._take(output)
            if time.monotonic() - ticked >= _TICK:
                self._attendant.send_signal(signal.SIGCONT)  # a command may have stopped it
                tick()
                signals = asked()
                for number in signals[heard:]:
                    self._interrupt(number, again=number in signals[:heard])
                    heard += 1
                ticked = time.monotonic()
            if self._overdue(deadline):
                self._stop("stopped", 0, request=END)

    def end(self, output: Callable[[bytes], None]) -> None:
        """End whatever is left, gently first, and take the rest of the output."""
        try:
            self._end(END, output)
        finally:
            try:
                self._end(KILL, output)
            finally:
                self._dismiss(output)

    def outcome(self) -> CommandResult:
        """Tell what came of the command; only after its end."""
        ending, code = self._ended_by or self._ending()
        return CommandResult(
            ending=ending,
            code=code,
            key=self._key,
            seconds=self._seconds,
            tail=self._tail,
            fault=self._fault,
            left=self._left,
        )

    def _ending(self) -> tuple[Ending, int]:
        if self._status is None:
            if not self._may_have_started:
                self._fault = self._fault or "what was to watch over it was killed"
                return "unstarted", 0
            self._fault = "what watched over it was killed"
            return "killed", signal.SIGKILL
        return ("killed", -self._status) if self._status < 0 else ("exited", self._status)

    def _interrupt(self, number: int, *, again: bool) -> None:
        if again:
            self._request(KILL)
        elif self._ended_by is not None:
            self._request(number)
        self._stop("interrupted", number, request=number)

    def _stop(self, ending: Ending, code: int, *, request: int) -> None:
        """Have a command that still runs ended; once."""
        if self._status is None and self._ended_by is None:
            self._ended_by = (ending, code)
            self._enough = time.monotonic() + self._patience + _ENOUGH
            self._request(request)

    def _request(self, byte: int) -> None:
        try:
            os.write(self._requests, bytes([byte]))
        except BrokenPipeError:
            return  # it is over already

    def _take(self, output: Callable[[bytes], None]) -> int:
        """Wait a moment for something to be said, by the command or about it; return how much it said."""
        before = time.monotonic()
        ready = self._poll.poll(_TICK * 1000)
        after = time.monotonic()
        if after - before > _STOPPED:
            self._pause(before, after)
        taken = 0
        for descriptor, _ in ready:
            part = self._read(descriptor)
            if descriptor == self._word:
                self._hear(part)
            elif part:
                taken += len(part)
                self._tail = (self._tail + part[-TAIL:])[-TAIL:]
                output(part)
        return taken

    def _read(self, descriptor: int) -> bytes:
        """Return what there is to be read, nothing if there is nothing any more."""
        try:
            part = os.read(descriptor, _BLOCK)
        except BlockingIOError:
            return b""
        if not part:
            self._open.discard(descriptor)
            self._poll.unregister(descriptor)
        return part

    def _listen(self) -> None:
        """Hear what has been said about the command up to now."""
        while self._word in self._open and (part := self._read(self._word)):
            self._hear(part)

    def _pause(self, begin: float, end: float) -> None:
        """Leave some time out of account, once."""
        self._paused += max(0.0, end - max(begin, self._counted))
        self._counted = max(self._counted, end)

    def _overdue(self, deadline: float) -> bool:
        """Tell whether a command has had its time; what it stood still for does not count (Ctrl-Z)."""
        if time.monotonic() - self._paused <= deadline:
            return False
        self._listen()  # the process in between knows of it, wherever this one was stopped
        return self._still_since is None and time.monotonic() - self._paused > deadline

    def _hear(self, part: bytes) -> None:
        *lines, self._said = (self._said + part).split(b"\n")
        for line in lines:
            word, _, rest = line.partition(b" ")
            first, _, last = rest.partition(b" ")
            if word == b"starting":
                self._may_have_started = True
            elif word == b"started":
                self._group = int(first)
            elif word == b"ended":
                self._status = int(first)
                self._seconds = time.monotonic() - self._started
            elif word in {b"still", b"moving", b"stopped"}:
                self._hear_of_stop(word, first)
            elif word == b"key":
                self._key = int(first)
            elif word == b"over":
                self._over = True
            elif word == b"left":
                self._left += (Living(pid=int(first), command=os.fsdecode(last)),)
            elif word == b"unstarted":
                self._may_have_started = False
                self._fault = f"{last.decode('utf-8', 'replace')}: {os.strerror(int(first))}"
            else:
                self._fault = line.decode("utf-8", "replace")[:_FAULT_LIMIT]

    def _hear_of_stop(self, word: bytes, rest: bytes) -> None:
        if word == b"stopped":
            self._stop_too(int(rest))
        elif word == b"still":
            self._still_since = float(rest)
        elif self._still_since is not None:
            self._pause(self._still_since, float(rest))
            self._still_since = None

    def _put_terminal_back(self) -> None:
        """Do what the process in between did not come to."""
        if self._handed.terminal is not None:
            from lastgood.terminal import is_group_gone

            self._handed.terminal.take_back(
                lambda group: group == self._group or is_group_gone(group), reset=True
            )

    def _stop_too(self, number: int) -> None:
        """Stop this process's group as the command was on its terminal; the shell has it meanwhile."""
        before = time.monotonic()
        os.kill(0, number)
        after = time.monotonic()
        self._pause(before, after)
        if after - before < _TICK and number in {signal.SIGTTIN, signal.SIGTTOU}:
            time.sleep(_RESPITE)  # nobody could let us go on, so nobody stops us, nor gives us the terminal
        self._request(GO_ON)

    def _end(self, request: int, output: Callable[[bytes], None]) -> None:
        self._request(request)
        enough = time.monotonic() + _ENOUGH
        while self._word in self._open and time.monotonic() < enough:
            self._take(output)

    def _dismiss(self, output: Callable[[bytes], None]) -> None:
        """Part with the process in between, and do its work if something killed it."""
        supervisor = self._attendant
        if self._word in self._open:
            supervisor.kill()
        supervisor.wait()
        self._listen()
        if self._may_have_started and not self._over:
            sweep(self._mark.encode(), group=self._group, patience=LAST_WAIT)
            self._put_terminal_back()
        rest = _BLOCK  # no more was in the pipe: who fills it still is out of reach, as another user's
        try:
            while rest > 0 and self._output in self._open and self._poll.poll(0):
                rest -= self._take(output)
        finally:
            for file in (supervisor.stdin, supervisor.stdout, supervisor.stderr):
                assert file is not None
                file.close()
        self._seconds = self._seconds or time.monotonic() - self._started


def _attendant(
    environment: Mapping[str, str], mark: str, *, session: str | None, handed: _Handed
) -> subprocess.Popen[bytes]:
    """Start the process in between; of the session that it works for it is a part as long as it lives.

    It bears the command's mark: what it forked, and what is yet to become the command, does so too.
    Only within this process's own session can it lend the terminal of that.
    """
    kept = {name: value for name, value in environment.items() if not name.startswith(_OURS)}
    kept[MARK] = mark
    if session is not None:
        kept[SESSION_VARIABLE] = session
    return subprocess.Popen(  # noqa: S603 - our own words
        [_python(), "-I", "-S", "-B", "-c", _BOOTSTRAP, _PACKAGE],
        env=kept,
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        pass_fds=handed.descriptors,
        start_new_session=handed.terminal is None,
        process_group=None if handed.terminal is None else 0,
    )


def _widen(pipe: int) -> None:
    """Let a pipe hold more, where the system has it."""
    widen = getattr(fcntl, "F_SETPIPE_SZ", None)
    try:
        if widen is not None:
            fcntl.fcntl(pipe, widen, _BLOCK)
    except OSError:
        return  # this user's pipes hold too much already


def _python() -> str:
    """Return an interpreter; a program with one inside is none."""
    own = os.path.basename(sys.executable or "")
    return sys.executable if own.startswith(("python", "pypy")) else "python3"


def _never() -> Sequence[int]:
    return ()


def _unheard(_part: bytes) -> None:
    """Let output pass; its end is kept anyway."""


def _start_failure(error: OSError) -> str:
    name = error.filename
    shown = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
    return f"{shown}: {error.strerror}" if shown else str(error.strerror)
