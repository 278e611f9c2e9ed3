"""Files and links, written beside their targets and renamed: a reader sees the old or the new (rule T6)."""

from __future__ import annotations

import errno
import os

from lastgood.model.tree import DIRECTORY, LINK
from lastgood.names import parent
from lastgood.rules.evidence import PERMISSION_BITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.adapters.apply.flush import Flush
    from lastgood.adapters.apply.site import Site
    from lastgood.model.plan import Step
    from lastgood.model.tree import Entry
    from lastgood.ports.engine import ObjectReader

# Their descriptors are open at once; the least limit that systems set is 256.
CHUNK = 128
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PRIVATE = 0o600


class Chunk:
    """Some files on their way: all written, then all synced, then all renamed."""

    def __init__(self, site: Site, objects: ObjectReader, *, removals: Mapping[bytes, Step]) -> None:
        self._site = site
        self._objects = objects
        self._removals = removals
        # By number of their step: files written and not yet renamed, with an open descriptor if synced later.
        self._beside: dict[int, bytes] = {}
        self._open: dict[int, int] = {}
        self._troubles: dict[int, OSError | None] = {}

    def write(self, number: int, step: Step) -> None:
        """Write a step's content beside its target."""
        assert step.want is not None
        directory, _ = self._site.place(step.path)
        temporary = self._site.temporary(number)
        self._beside[number] = parent(step.path)
        if step.want.kind == LINK:
            os.symlink(self._objects.read_blob(step.want.oid), temporary, dir_fd=directory)
            return
        descriptor = os.open(temporary, _CREATE, _PRIVATE, dir_fd=directory)
        self._open[number] = descriptor
        size = self._objects.copy_blob(step.want.oid, descriptor)
        if os.fstat(descriptor).st_size != size:
            raise OSError(errno.EIO, "not all of it could be written")
        os.fchmod(descriptor, step.want.mode & PERMISSION_BITS)

    def flush(self, flush: Flush) -> None:
        """Carry all contents through to the disk; `check` tells how that went."""
        troubles = flush(list(self._open.values()))
        self._troubles = {number: troubles.get(descriptor) for number, descriptor in self._open.items()}
        while self._open:
            os.close(self._open.popitem()[1])

    def check(self, number: int, _step: Step) -> None:
        """Raise what went wrong for one file in `flush`."""
        trouble = self._troubles.get(number)
        if trouble is not None:
            raise trouble

    def rename(self, number: int, step: Step) -> None:
        """Give the target its new content, if it still holds what the step says it has."""
        site = self._site
        directory, name = site.place(step.path)
        site.expect(step, directory, name)
        moves = _is_directory(step.have)
        if moves:
            site.expect_contents(step.path, self._removals)
            # Moving a directory changes what it says of its parent.
            site.directories.open_to_change(step.path)
            site.set_aside(step, number)
            directory, name = site.place(step.path)
        try:
            os.rename(site.temporary(number), name, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError:
            if moves:
                site.put_back(step.path)
            raise
        del self._beside[number]

    def drop(self, number: int) -> None:
        """Forget a file that cannot be written or renamed."""
        if number in self._open:
            os.close(self._open.pop(number))
        above = self._beside.pop(number, None)
        if above is None:
            return
        try:
            os.unlink(self._site.temporary(number), dir_fd=self._site.directories.open(above))
        except OSError:
            return  # nothing had been created, or its directory went away with it

    def drop_all(self) -> None:
        """Forget every file not yet renamed."""
        for number in list(self._beside):
            self.drop(number)


def _is_directory(entry: Entry | None) -> bool:
    return entry is not None and entry.kind == DIRECTORY
