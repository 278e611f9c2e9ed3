"""Runs git in a repository of ours that borrows the project's objects; nothing of the project's is obeyed."""

from __future__ import annotations

import os
import time

from lastgood.files import write_whole
from lastgood.git_command import SEALED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.project_git import Repository

_FIRST_NAP = 0.0005
_LONGEST_NAP = 0.01
_KILL = 9
# Where a program finds the file that is open as its fourth: a kill leaves nothing of it behind.
_THIRD = b"/proc/self/fd/3" if hasattr(os, "memfd_create") else b"/dev/fd/3"


class Asker:
    """The git program, looked for in absolute folders only, and run in ``repository``, which is ours.

    Scratch files lie in ``folder``.
    """

    def __init__(self, repository: bytes, *, search_path: bytes, folder: bytes) -> None:
        self._repository = repository
        self._path = b":".join(part for part in search_path.split(b":") if part.startswith(b"/"))
        self._folder = folder

    @property
    def program(self) -> bytes | None:
        """Where git is; None if there is none."""
        places = (part + b"/git" for part in self._path.split(b":") if part)
        return next((place for place in places if os.access(place, os.X_OK)), None)

    def ask(
        self,
        found: Repository,
        arguments: Sequence[bytes],
        *,
        given: bytes = b"",
        index: bytes = b"",
        patience: float = 10.0,
    ) -> bytes | None:
        """Return what git printed; None if it failed, is missing, or took more than so many seconds.

        ``index`` is the content of the index that it shall use.
        """
        program = self.program
        if program is None:
            return None
        environment = SEALED | {
            b"PATH": self._path,
            b"GIT_DIR": self._repository,
            b"GIT_OBJECT_DIRECTORY": found.objects,
            b"GIT_SHALLOW_FILE": found.common_dir + b"/shallow",
        }
        if index:
            environment[b"GIT_INDEX_FILE"] = _THIRD
        try:
            return self._run(program, arguments, environment, given=(given, index), patience=patience)
        except OSError:
            return None

    def _run(
        self,
        program: bytes,
        arguments: Sequence[bytes],
        environment: dict[bytes, bytes],
        *,
        given: tuple[bytes, bytes],
        patience: float,
    ) -> bytes | None:
        # Opened in the order of their places, so that putting one in its place never hits a later one.
        feed, printed = self._sheet(), self._sheet()
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        index = self._sheet()
        try:
            for sheet, content in zip((feed, index), given, strict=True):
                write_whole(sheet, content)
                os.lseek(sheet, 0, os.SEEK_SET)
            actions = [
                (os.POSIX_SPAWN_DUP2, descriptor, place)
                for place, descriptor in enumerate((feed, printed, nowhere, index))
            ]
            # Git has to stand somewhere; the caller's folder may be gone, and is none of its concern.
            words = (program, b"-C", b"/", *arguments)
            child = os.posix_spawn(program, words, environment, file_actions=actions)
            if _wait(child, patience) != 0:
                return None
            return os.pread(printed, os.fstat(printed).st_size, 0)
        finally:
            for descriptor in (feed, printed, nowhere, index):
                os.close(descriptor)

    def _sheet(self) -> int:
        """Open a file without a name."""
        if hasattr(os, "memfd_create"):
            return os.memfd_create("lastgood")
        path = self._folder + b"/git.sheet." + os.urandom(8).hex().encode()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.unlink(path)
        return descriptor


def _wait(child: int, patience: float) -> int:
    """Wait for a child's end, and return its exit status; a child that takes too long is killed."""
    deadline = time.monotonic() + patience
    nap = _FIRST_NAP
    try:
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > deadline:
                break
            time.sleep(nap)
            nap = min(nap * 1.5, _LONGEST_NAP)
    except ChildProcessError:  # the caller ignores SIGCHLD: then nobody can tell how it ended
        return -1
    except BaseException:
        _end(child)
        raise
    _end(child)
    return -1


def _end(child: int) -> None:
    os.kill(child, _KILL)
    os.waitpid(child, 0)
