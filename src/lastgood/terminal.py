"""The terminal that a command is lent: which process group has it, and how it is set (termios(3))."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # the public module costs an enum
import fcntl
import os
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


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
