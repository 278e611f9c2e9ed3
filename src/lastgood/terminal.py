"""The terminal that a command is lent: which group has it, how it is set (termios(3)), its Ctrl-C."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # the public module costs an enum
import errno
import fcntl
import os
import select
import termios
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import NoReturn

# What a terminal sends to the group in its foreground.
_HEARD = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
CAN_WATCH_KEYS = hasattr(signal, "sigwaitinfo")
_ANSWERS_WITHIN = 2000  # milliseconds
_DESCRIPTORS = 1 << 16


class Terminal:
    """A terminal, and the process group that owns it: that of a shell's job, which lends it.

    Where a descriptor is not the controlling terminal, or that has hung up, nothing here does anything.
    """

    def __init__(self, descriptor: int, *, owner: int) -> None:
        self._descriptor = descriptor
        self._owner = owner
        self._flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        self._settings = _settings_of(descriptor)
        self._borrowers: list[object] | None = None

    def lend(self, group: int) -> bool:
        """Bring a group to the foreground if its owner is there; tell whether it was.

        It finds the terminal set as it left it when that was taken back while it stood still.
        """
        with _Undisturbed():
            try:
                if os.tcgetpgrp(self._descriptor) != self._owner:
                    return False
                self._settings = _settings_of(self._descriptor) or self._settings
                if self._borrowers is not None:
                    self._set(self._borrowers)
                os.tcsetpgrp(self._descriptor, group)
            except OSError:
                return False
        self._borrowers = None
        return True

    def take_back(self, is_ours: Callable[[int], bool], *, reset: bool, stopped: bool = False) -> None:
        """Bring the owner to the foreground again, unless somebody else has the terminal by now.

        ``is_ours`` tells whether a group is of those that it was lent to. ``reset`` sets the terminal as
        it was; how those that ``stopped`` had set it is kept for them.
        """
        with _Undisturbed():
            try:
                group = os.tcgetpgrp(self._descriptor)
                if group != self._owner and not is_ours(group):
                    return
                if stopped:
                    self._borrowers = _settings_of(self._descriptor)
                if reset:
                    fcntl.fcntl(self._descriptor, fcntl.F_SETFL, self._flags)
                    self._set(self._settings)
                if group != self._owner:
                    os.tcsetpgrp(self._descriptor, self._owner)
            except OSError:
                return

    def _set(self, settings: list[object] | None) -> None:
        """Set the terminal at once: output that is held back (Ctrl-S) is not waited for."""
        try:
            if settings is not None:
                termios.tcsetattr(self._descriptor, termios.TCSANOW, settings)  # type: ignore[arg-type]
        except termios.error:
            return


class _Undisturbed:
    """While entered, this thread may have its way with a terminal from the background."""

    def __enter__(self) -> None:
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)


class KeyWatch:
    """A process in a command's group that hears what the terminal sends to that: Ctrl-C, and its end.

    It holds nothing of the command's, and is a child of this process, which has to reap it.
    """

    def __init__(self, command: int, *, die_with_parent: Callable[[], object]) -> None:
        asked, self._asking = os.pipe()
        self._answer, answering = os.pipe()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self.pid: int = os.fork()
        if self.pid == 0:
            _watch(command, asked=asked, answering=answering, die_with_parent=die_with_parent)
        os.close(asked)
        os.close(answering)
        os.read(self._answer, 1)  # it is in its place, or has ended
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end(self) -> tuple[int, float]:
        """End it; return the last signal that it heard, and when by the monotonic clock; 0 for none."""
        try:
            os.write(self._asking, b"?")
            for number in (signal.SIGCONT, signal.SIGUSR1):
                os.kill(self.pid, number)
            waiting = select.poll()
            waiting.register(self._answer, select.POLLIN)
            words = os.read(self._answer, 64).split() if waiting.poll(_ANSWERS_WITHIN) else []
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except OSError:  # something killed it
            words = []
        self.close()
        return (int(words[0]), float(words[1])) if len(words) == 2 else (0, 0.0)

    def close(self) -> None:
        """Part with one that has ended."""
        os.close(self._asking)
        os.close(self._answer)


def _watch(command: int, *, asked: int, answering: int, die_with_parent: Callable[[], object]) -> NoReturn:
    """Keep the last signal until asked for it. Every signal is blocked, so that none stops or ends this.

    Of several that wait the one with the lowest number comes first: what was sent before the question too.
    """
    try:
        for number in _HEARD:
            signal.signal(number, signal.SIG_DFL)  # what is ignored does not wait
        os.setpgid(0, command)
        die_with_parent()
        first, second = sorted((asked, answering))
        os.closerange(0, first)
        os.closerange(first + 1, second)
        os.closerange(second + 1, _DESCRIPTORS)
        os.write(answering, b" ")
        question = select.poll()
        question.register(asked, select.POLLIN)
        heard = b""
        while True:
            found = signal.sigwaitinfo({*_HEARD, signal.SIGUSR1})
            if found.si_signo == signal.SIGUSR1:
                if question.poll(0):
                    os.write(answering, heard or b"0 0")
                    break
            elif found.si_code > 0 or found.si_signo == signal.SIGHUP:  # from the kernel: it was a key
                heard = b"%d %f" % (found.si_signo, time.monotonic())
    finally:
        os._exit(0)


def is_hung_up(descriptor: int) -> bool:
    """Tell whether a descriptor is a terminal that is no more: its window was closed."""
    try:
        os.tcgetpgrp(descriptor)
    except OSError as error:
        return error.errno == errno.EIO
    return False


def is_group_gone(group: int) -> bool:
    """Tell whether a process group has no member any more."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _settings_of(descriptor: int) -> list[object] | None:
    try:
        return termios.tcgetattr(descriptor)
    except termios.error:
        return None
