"""What the command of a task gets of what the run itself was given: its terminal, or its standard input."""

from __future__ import annotations

import fcntl
import os
import stat
import time

from lastgood.command import Given
from lastgood.errors import Busy, Invalid, Storage
from lastgood.files import make_directories, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lastgood.model.run import PlannedTask

STDIN = 0
# As much of what comes through a pipe is kept for another attempt.
KEPT_LIMIT = 64 << 20
_BLOCK = 1 << 16
_LOOK = 0.1
# Who waits longer for the end of a pipe is told so, in seconds.
_TOLD_AFTER = 1.0
_WAITING = "waiting for the end of standard input, which is kept for another attempt"
_HINT = "give it as a file (< FILE), or leave out the retries"


class StandardInput:
    """Hands standard input to the tasks that are to have it (``terminal: true``), one after the other.

    What comes through a pipe comes once. So that a task with retries can have it again, all of it is read
    before its first attempt, into a file in ``folder`` that has no name; a file is wound back. ``check``
    raises if the run is to end meanwhile.
    """

    def __init__(self, folder: bytes, *, check: Callable[[], None]) -> None:
        self._folder = folder
        self._check = check
        self._descriptor = STDIN
        self._task: str | None = None
        self._begins: int | None = None

    def is_lent_to(self, task: PlannedTask) -> bool:
        """Tell whether a task is to have the terminal itself."""
        return task.terminal and os.isatty(STDIN)

    def keep_for(self, task: PlannedTask, *, tell: Callable[[str], None]) -> None:
        """Read what a task's attempts are to have, if that comes once and there may be several.

        Its end is waited for, which is told; `Busy` if it does not come within the task's timeout,
        `Invalid` for more than is kept.
        """
        if task.terminal and task.retries and self._descriptor == STDIN and _comes_once(STDIN):
            self._descriptor = self._copied(task.timeout, tell=tell)

    def given(self, task: PlannedTask) -> Given:
        """Return what the next attempt of a task is given; an earlier one's input is given again."""
        if not task.terminal or not _is_open(STDIN):
            return Given()
        if os.isatty(STDIN):
            return Given(terminal=True)
        if self._task != task.id:
            self._task, self._begins = task.id, _place(self._descriptor)
        elif self._begins is not None:
            os.lseek(self._descriptor, self._begins, os.SEEK_SET)
        return Given(stdin=self._descriptor)

    def close(self) -> None:
        """Part with what was read of standard input."""
        if self._descriptor != STDIN:
            os.close(self._descriptor)
            self._descriptor = STDIN

    def _copied(self, timeout: float | None, *, tell: Callable[[str], None]) -> int:
        """Return a file that has all that is still to come."""
        from tempfile import mkstemp

        try:
            make_directories(self._folder)
            copy, name = mkstemp(dir=self._folder)
            os.unlink(name)
            self._read_into(copy, timeout=timeout, tell=tell)
        except OSError as error:
            raise Storage(
                f"standard input could not be kept for another attempt: {error.strerror}", hint=_HINT
            ) from error
        return copy

    def _read_into(self, copy: int, *, timeout: float | None, tell: Callable[[str], None]) -> None:
        try:
            for part in self._parts(timeout, tell=tell):
                write_whole(copy, part)
            os.lseek(copy, 0, os.SEEK_SET)
        except BaseException:
            os.close(copy)
            raise

    def _parts(self, timeout: float | None, *, tell: Callable[[str], None]) -> Iterator[bytes]:
        """Yield what comes up to its end."""
        from select import select

        began, room = time.monotonic(), KEPT_LIMIT
        told = False
        while True:
            self._check()
            if select([STDIN], [], [], _LOOK)[0]:
                part = os.read(STDIN, _BLOCK)
                if not part:
                    return
                room -= len(part)
                if room < 0:
                    raise Invalid(
                        f"more than {KEPT_LIMIT >> 20} MiB came through standard input:"
                        " too much to be kept for another attempt",
                        hint=_HINT,
                    )
                yield part
            waited = time.monotonic() - began
            if timeout is not None and waited > timeout:
                raise Busy(f"standard input did not end within {timeout:g} s", hint=_HINT)
            if waited > _TOLD_AFTER and not told:
                told = True
                tell(_WAITING)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _comes_once(descriptor: int) -> bool:
    """Tell whether there is something to be read that cannot be read again: a pipe, or a socket."""
    if not _is_open(descriptor):
        return False
    mode = os.fstat(descriptor).st_mode
    access = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
    return (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)) and access != os.O_WRONLY


def _place(descriptor: int) -> int | None:
    try:
        return os.lseek(descriptor, 0, os.SEEK_CUR)
    except OSError:
        return None  # a pipe
