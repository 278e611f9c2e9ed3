"""The program between a caller and a command: it starts the command, and nothing outlives the two.

A caller may be killed at any moment. This process notices (descriptor 0 closes, or its parent is
another one) and ends whatever the command started. It takes in every orphan below it (prctl(2),
PR_SET_CHILD_SUBREAPER), so that it also finds what became a daemon or put off its environment.

Descriptor 0 brings the order, then a byte for each request; 1 is the command's output; 2 takes lines that
say what happens: ``starting``, then ``started PID`` or ``unstarted NUMBER PLACE``; ``still TIME`` and
``moving TIME`` when the command is stopped with the caller and goes on with it; ``ended STATUS``,
``left PID COMMAND``, and at last ``over``. ``key NUMBER`` before ``ended`` says which signal its terminal
sent to a command that ended soon after it (Ctrl-C).

A command that is lent the caller's terminal runs in the caller's session, in a group of its own, and is
brought to the foreground. ``stopped NUMBER`` says that it was stopped there (Ctrl-Z): the terminal is the
caller's again, who is to stop too, and to ask for `GO_ON` when it goes on.
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

    from lastgood.terminal import KeyWatch, Terminal

    # The descriptors that the command gets as 0, 1 and 2 (all of them, the first, or none); the caller's
    # group where the first is a terminal that is lent to it, else 0; and whether only when it asks for it.
    Given = tuple[tuple[int, ...], int, bool]
    # Words, directory, environment, mark, the caller's number, how much patience it has, with what is left.
    Order = tuple[list[bytes], bytes, dict[bytes, bytes], bytes, int, float, float, Given]

LENGTH_BYTES = 8
# Requests; every other byte is the number of a signal to be forwarded.
END, KILL = 0, 255
# What the caller asks for when it goes on after it stopped together with the command.
GO_ON = int(signal.SIGCONT)
# How long what was asked to end may take (seconds), and how long we wait for what was killed.
GRACE = 2.0
LAST_WAIT = 20.0
# How long what a command left behind may take to end by itself, if nobody says otherwise.
SETTLING = 0.5
# What ends so soon after a key (seconds) ended by it.
_BY_KEY = 3.0
_TICK = 0.02
_LOOK = 0.5
_STOPPED = b"T"
# A command in the background is stopped by them when it wants the terminal.
_WANTS_TERMINAL = (signal.SIGTTIN, signal.SIGTTOU)
# Codes from here on are what shells and programs end with for a signal.
_SIGNALLED = 128
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
    terminal = _terminal(order[7])
    command = _start(
        order,
        ignored=[n for n, old in zip(_QUIET, inherited, strict=True) if old == signal.SIG_IGN],
        terminal=terminal,
    )
    if command is None:
        return
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    attending = _Supervision(
        command, mark=None if takes_orphans else order[3], caller=order[4], asleep=asleep, lent=terminal
    )
    attending.follow(patience=order[5])
    attending.end(settling=order[6])
    _tell(b"over")
    os._exit(0)  # at once: the caller waits for it


def _terminal(given: Given) -> _LentTerminal | None:
    """Return the terminal that is lent to the command, if one is."""
    descriptors, owner, on_demand = given
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    if not owner:
        return None
    from lastgood.terminal import Terminal  # lazily: most commands get none

    return _LentTerminal(Terminal(descriptors[0], owner=owner), on_demand=on_demand)


def _start(order: Order, *, ignored: list[int], terminal: _LentTerminal | None) -> int | None:
    receiving, sending = os.pipe()
    gate, opening = os.pipe()
    parent = os.getpid()
    _tell(b"starting")
    pid = os.fork()
    if pid == 0:
        os.close(opening)
        _become(order, ignored=ignored, sending=sending, parent=parent, terminal=terminal, gate=gate)
    if terminal is not None:
        terminal.watch_keys(pid)
    for descriptor in (sending, gate, opening):
        os.close(descriptor)
    for descriptor in order[7][0][1:] if terminal else order[7][0]:
        os.close(descriptor)  # who reads from the other end is to hear that the command ended
    with open(receiving, "rb") as faults:
        fault = faults.read()
    if fault:
        os.waitpid(pid, 0)
        if terminal is not None:
            terminal.key()
            terminal.take_back(lambda group: group == pid, reset=False)
        _tell(b"unstarted " + fault)
        return None
    _tell(b"started %d" % pid)
    return pid


def _become(
    order: Order, *, ignored: list[int], sending: int, parent: int, terminal: _LentTerminal | None, gate: int
) -> None:
    """Turn into the command when the gate is open; never returns."""
    words, directory, environment = order[:3]
    place = directory
    try:
        if terminal is None:
            os.setsid()
        else:
            os.setpgid(0, 0)
            os.read(gate, 1)
            terminal.begin(os.getpid())
        _prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            return  # it died before that
        signal.set_wakeup_fd(-1)
        for number in (*_QUIET, *_CHANGED):
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
        _take_streams(order[7][0])
        os.chdir(directory)
        place = words[0]
        os.execvpe(words[0], words, environment)  # noqa: S606 - the caller's own command
    except OSError as error:
        os.write(sending, b"%d " % (error.errno or 0) + place.translate(_PLAIN))
    except ValueError:  # a NUL within a word
        os.write(sending, b"%d " % errno.EINVAL + place.translate(_PLAIN))
    finally:
        os._exit(_UNSTARTED)


def _take_streams(given: tuple[int, ...]) -> None:
    """Make standard input, output and error what the command is given; else nothing, and our pipe."""
    os.dup2(given[0] if given else os.open(os.devnull, os.O_RDONLY), 0)
    for number, descriptor in enumerate(given[1:], start=1):
        os.dup2(descriptor, number)
    if len(given) < 3:
        os.dup2(1, 2)


class _LentTerminal:
    """The caller's terminal while the command may have it; ``on_demand`` only when it asks for it.

    Beside others of the caller's group (``lastgood run -- COMMAND | less``) it would be taken from them.
    """

    def __init__(self, terminal: Terminal, *, on_demand: bool) -> None:
        self._terminal = terminal
        self._on_demand = on_demand
        self.take_back = terminal.take_back
        self._watch: KeyWatch | None = None

    @property
    def watch(self) -> int | None:
        """The process that hears the keys: none of the command's."""
        return None if self._watch is None else self._watch.pid

    def watch_keys(self, command: int) -> None:
        """Begin to hear which keys send a signal to a command's group, which is made if it is not there."""
        from lastgood.terminal import CAN_WATCH_KEYS, KeyWatch

        try:
            os.setpgid(command, command)
            if CAN_WATCH_KEYS:
                self._watch = KeyWatch(
                    command, die_with_parent=lambda: _prctl(_DIE_WITH_PARENT, signal.SIGKILL)
                )
        except OSError:
            return  # it was killed at once, or there is no room for one more process

    def key(self) -> int:
        """Return the signal of a key that was pressed a moment ago, else 0; no more is heard."""
        watch, self._watch = self._watch, None
        number, at = (0, 0.0) if watch is None else watch.end()
        return number if time.monotonic() - at <= _BY_KEY else 0

    def lost_watch(self) -> None:
        """Do without what heard the keys: it was killed, and reaped."""
        assert self._watch is not None
        self._watch.close()
        self._watch = None

    def begin(self, command: int) -> None:
        """Lend it to a command that begins, or goes on; a caller in the background has none to lend."""
        if not self._on_demand:
            self._terminal.lend(command)

    def demanded(self, command: int) -> bool:
        """Lend it to a command that was stopped because it wants it; tell whether it has it now."""
        lent = self._terminal.lend(command)
        self._on_demand = self._on_demand and not lent
        return lent


class _Supervision:
    """A command that runs; ``mark`` is what else tells its offspring, where orphans do not come to us."""

    def __init__(
        self, command: int, *, mark: bytes | None, caller: int, asleep: int, lent: _LentTerminal | None
    ) -> None:
        self._command = command
        self._lent = lent
        self._told_of = os.WNOHANG | (os.WUNTRACED if lent else 0)
        self._standing = False
        self._mark = mark
        self._caller = caller
        self._asleep = asleep
        self._running = True
        self._hurried = False
        self._alone = False
        self._paused = False
        self._spoiled = False
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
                if request == GO_ON:
                    self._go_on()
                    continue
                _signal(-self._command, request)
                deadline = min(deadline, time.monotonic() + patience)

    def end(self, *, settling: float) -> None:
        """End whatever is left, gently first; what just ends by itself has ``settling`` seconds to."""
        if not self._running:
            self._settle(settling)
        elif self._alone and self._lent is not None:
            self._lent.take_back(self._is_ours, reset=True)
        self._spoiled = self._spoiled or self._running
        if not self._hurried:
            self._end(signal.SIGTERM, wait=GRACE)
        self._end(signal.SIGKILL, wait=LAST_WAIT)
        if self._lent is not None:
            self._lent.take_back(self._is_ours, reset=self._spoiled)

    def _keep_step(self) -> None:
        """Stop what runs while the caller is stopped (Ctrl-Z), and let it go on with it."""
        stopped = stat_of(self._caller)[:1] == [_STOPPED]
        if stopped != self._paused:
            self._paused = stopped
            _tell(b"%s %f" % (b"still" if stopped else b"moving", time.monotonic()))
            if stopped:
                self._signal_all(signal.SIGSTOP)
            else:
                self._standing = True
                self._go_on()
        elif self._lent is not None and not self._paused and not self._standing:
            self._lent.begin(self._command)  # the shell may have brought the caller to the foreground (fg)

    def _go_on(self) -> None:
        """Let a command that stood still go on, in the foreground if the caller is there."""
        if not self._standing or self._paused:
            return
        self._standing = False
        if self._lent is not None:
            self._lent.begin(self._command)
        self._signal_all(signal.SIGCONT)

    def _stopped_by(self, number: int) -> None:
        """Stand still with a command that was stopped on its terminal, unless that is what it wants."""
        assert self._lent is not None
        if self._paused or self._standing:
            return  # the caller stands still already
        if number in _WANTS_TERMINAL and self._lent.demanded(self._command):
            _signal(-self._command, signal.SIGCONT)
            return
        self._standing = True
        self._lent.take_back(self._is_ours, reset=True, stopped=True)
        _tell(b"stopped %d" % number)

    def _ended_with(self, status: int) -> None:
        self._running = False
        # What ends by itself says how it leaves the terminal, as stty does.
        self._spoiled = self._spoiled or status < 0 or status > _SIGNALLED
        if self._lent is not None:
            key = self._lent.key()
            self._lent.take_back(self._is_ours, reset=self._spoiled)
            if key:
                _tell(b"key %d" % key)
        _tell(b"ended %d" % status)

    def _is_ours(self, group: int) -> bool:
        """Tell whether a process group is of what the command started, or of nobody any more."""
        from lastgood.terminal import is_group_gone

        if group == self._command or is_group_gone(group):
            return True
        # One that vanished meanwhile has no group any more.
        return any(int(fields[GROUP]) == group for fields in map(stat_of, self._living()) if fields[GROUP:])

    def _signal_all(self, number: int) -> None:
        for pid in self._living():
            _signal(pid, number)

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
        group = set(filter(self._is_in_group, self._living()))
        if group or not _HAS_PROC:
            # At one moment: a shell that hears of it after its command did would begin the next one.
            _signal(-self._command, number)
            _signal(-self._command, signal.SIGCONT)  # what is stopped hears nothing
            told |= group
        while self._something_left() and time.monotonic() < deadline:
            for pid in self._living():
                if pid not in told:
                    told.add(pid)
                    _signal(pid, number)
                    _signal(pid, signal.SIGCONT)
            if number == signal.SIGKILL:
                self._chase()
                continue
            self._requests(_TICK)
            if self._hurried:
                return

    def _is_in_group(self, pid: int) -> bool:
        """Tell whether a process is of the group that the command was started in."""
        fields = stat_of(pid)
        return len(fields) > GROUP and int(fields[GROUP]) == self._command

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
                pid, status = os.waitpid(-1, self._told_of)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if os.WIFSTOPPED(status):
                if pid == self._command:
                    self._stopped_by(os.WSTOPSIG(status))
            elif pid == self._command:
                self._ended_with(os.waitstatus_to_exitcode(status))
            elif self._lent is not None and pid == self._lent.watch:
                self._lent.lost_watch()

    def _living(self) -> Iterator[int]:
        """Yield what lives of all that the command started, and itself.

        Our own children come first, as they are found: what begets children faster than all of /proc
        can be read has little time to do so.
        """
        me = os.getpid()
        ours = {me, None if self._lent is None else self._lent.watch}
        below: dict[int, list[int]] = {}
        told: set[int] = set()
        for pid in pids():
            fields = stat_of(pid)
            if len(fields) <= GROUP or fields[STATE] in GONE or pid in ours:
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
