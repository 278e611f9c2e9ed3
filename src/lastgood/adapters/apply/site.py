"""Where an apply works: open directories, the evidence about what stands there, and what was moved."""

from __future__ import annotations

import errno
import os
import stat

from lastgood.adapters.apply import aside
from lastgood.adapters.apply.places import is_nowhere
from lastgood.adapters.apply.reading import entry_at
from lastgood.model.tree import DIRECTORY, FILE, LINK
from lastgood.names import ancestors, join, parent
from lastgood.rules.evidence import alike

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lastgood.adapters.apply.places import Directories
    from lastgood.model.plan import Step
    from lastgood.model.tree import Entry, EntryKind
    from lastgood.ports.workspace import Stamp


class Changed(OSError):
    """A path does not hold what its step says it has."""

    def __init__(self) -> None:
        super().__init__(errno.ESTALE, "changed")


class Site:
    """Answers for paths as they are now, wherever something set aside may have taken them."""

    def __init__(
        self, directories: Directories, *, token: str, stamp: Callable[[bytes], Stamp | None]
    ) -> None:
        self.directories = directories
        # What was set aside, by the path it had.
        self.moved: dict[bytes, bytes] = {}
        # The directories among them: their contents have yet to be deleted.
        self._emptied: dict[bytes, bytes] = {}
        self._token = token
        self._stamp = stamp

    def temporary(self, path: bytes) -> bytes:
        """Return the name to write to beside a path: what bears it has never been anybody else's."""
        return aside.temporary_name(self._token, path)

    def old(self, path: bytes) -> bytes:
        """Return the name beside a path for what it is about to hold, or held before."""
        return self.temporary(path) + aside.OLD

    def newer(self, path: bytes) -> bytes:
        """Return one more such name, for what came to a path after we wrote to it."""
        return self.temporary(path + b"/newer") + aside.OLD

    def is_ours(self, name: bytes) -> bool:
        """Tell whether a name is a temporary one of this apply."""
        return aside.is_of(name, self._token)

    def place(self, path: bytes) -> tuple[int, bytes]:
        """Return the directory in which a path can be changed, and its name there."""
        now = self.located(path)
        return self.directories.open_to_change(parent(now)), now.rpartition(b"/")[2]

    def located(self, path: bytes) -> bytes:
        """Return where a path is now, if a directory above it was set aside."""
        if self._emptied:
            for above in ancestors(path):
                if above in self._emptied:
                    return self._emptied[above] + path[len(above) :]
        return path

    def expect(self, step: Step, directory: int, name: bytes) -> None:
        """Raise `Changed` unless a name holds what its step says it has."""
        if not self._is_as_planned(step, directory, name):
            raise Changed

    def expect_contents(self, path: bytes, removals: Mapping[bytes, Step]) -> None:
        """Raise `Changed` if a directory, set aside perhaps, holds anything that is to stay."""
        waiting = [path]
        while waiting:
            place = waiting.pop()
            now = self.located(place + b"/")[:-1]
            for name in self.directories.names(now):
                step = removals.get(join(place, name))
                if step is None:
                    raise Changed
                self.expect(step, self.directories.open(now), name)
                if step.action == "rmdir":
                    waiting.append(step.path)

    def set_aside(self, step: Step) -> None:
        """Move what a step has in its way out of it until the end; `Changed` if it became something else."""
        where = aside.set_aside(self.directories, step.path, self.temporary(step.path))
        self.moved[step.path] = where
        if step.have is not None and step.have.kind == DIRECTORY:
            self._emptied[step.path] = where
            return
        if not self._is_as_planned(step, self.directories.open(parent(where)), where.rpartition(b"/")[2]):
            self.put_back(step.path)
            raise Changed

    def put_back(self, path: bytes) -> None:
        """Move a path that was set aside back to its place, unless somebody has taken that."""
        if aside.put_back(self.directories, path, self.moved[path]):
            del self.moved[path]
            self._emptied.pop(path, None)

    def _is_as_planned(self, step: Step, directory: int, name: bytes) -> bool:
        have = step.have
        try:
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError as error:
            if is_nowhere(error):
                return have is None
            raise
        if have is None or _kind(found.st_mode) != have.kind:
            return False
        if have.kind == DIRECTORY:
            return True
        return self._is_stamped(step.path, found) or _is_alike(have, directory, name)

    def _is_stamped(self, path: bytes, found: os.stat_result) -> bool:
        stamp = self._stamp(path)
        return stamp is not None and (
            stamp.size == found.st_size
            and stamp.mtime_ns == found.st_mtime_ns
            and stamp.ctime_ns == found.st_ctime_ns
            and stamp.inode == found.st_ino
        )


def _is_alike(have: Entry, directory: int, name: bytes) -> bool:
    # Without a stamp, or with one that another of the file's hard links made stale, contents decide.
    return alike(have, entry_at(name, directory))


def _kind(mode: int) -> EntryKind:
    if stat.S_ISDIR(mode):
        return DIRECTORY
    return LINK if stat.S_ISLNK(mode) else FILE
