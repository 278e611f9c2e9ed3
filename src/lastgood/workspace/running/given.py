"""What the command of a task gets of what the run itself was given: its terminal, or its standard input."""

from __future__ import annotations

import os
import stat

from lastgood.command import Given
from lastgood.errors import Storage
from lastgood.files import make_directories, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.model.run import PlannedTask

STDIN = 0
_BLOCK = 1 << 16


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

    def given(self, task: PlannedTask) -> Given:
        """Return what the next attempt of a task is given; an earlier one's input is given again."""
        if not task.terminal or not _is_open(STDIN):
            return Given()
        if os.isatty(STDIN):
            return Given(terminal=True)
        if task.retries and self._descriptor == STDIN and _comes_once(STDIN):
            self._descriptor = self._copied()
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

    def _copied(self) -> int:
        """Return a file that has all that is still to come."""
        from tempfile import mkstemp

        try:
            make_directories(self._folder)
            copy, name = mkstemp(dir=self._folder)
            os.unlink(name)
            self._read_into(copy)
        except OSError as error:
            raise _not_kept(error) from error
        return copy

    def _read_into(self, copy: int) -> None:
        from select import select

        part = b"more"
        try:
            while part:
                self._check()
                if select([STDIN], [], [], 0.1)[0]:
                    part = os.read(STDIN, _BLOCK)
                    write_whole(copy, part)
            os.lseek(copy, 0, os.SEEK_SET)
        except BaseException:
            os.close(copy)
            raise


def _not_kept(error: OSError) -> Storage:
    return Storage(
        f"standard input could not be kept for another attempt: {error.strerror}",
        hint="give it as a file (< FILE), or leave out the retries",
    )


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _comes_once(descriptor: int) -> bool:
    """Tell whether what was read cannot be read again."""
    return not stat.S_ISREG(os.fstat(descriptor).st_mode)


def _place(descriptor: int) -> int | None:
    try:
        return os.lseek(descriptor, 0, os.SEEK_CUR)
    except OSError:
        return None  # a pipe
