"""Files and links, written beside their targets and exchanged: a reader sees the old or the new (rule T6)."""

from __future__ import annotations

import errno
import os

from lastgood.adapters.apply.renaming import take
from lastgood.adapters.apply.site import Changed
from lastgood.model.tree import DIRECTORY, LINK
from lastgood.names import parent
from lastgood.rules.evidence import PERMISSION_BITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.adapters.apply.displaced import Displaced
    from lastgood.adapters.apply.flush import Flush
    from lastgood.adapters.apply.site import Site
    from lastgood.model.plan import Step
    from lastgood.ports.engine import ObjectReader

# Their descriptors are open at once; the least limit that systems set is 256.
CHUNK = 128
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PRIVATE = 0o600


class Chunk:
    """Some files on their way: all written, then all synced, then all renamed."""

    def __init__(
        self, site: Site, objects: ObjectReader, *, displaced: Displaced, removals: Mapping[bytes, Step]
    ) -> None:
        self._site = site
        self._displaced = displaced
        self._objects = objects
        self._removals = removals
        # By number of their step: files written and not yet renamed, with an open descriptor if synced later.
        self._beside: dict[int, Step] = {}
        self._open: dict[int, int] = {}
        self._troubles: dict[int, OSError | None] = {}

    def write(self, number: int, step: Step) -> None:
        """Write a step's content beside its target."""
        assert step.want is not None
        directory, _ = self._site.place(step.path)
        temporary = self._site.temporary(step.path)
        self._beside[number] = step
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

    def place(self, number: int, step: Step) -> None:
        """Give the target its new content, if it still holds what the step says it has.

        What it held comes out (`displaced`), and is to be settled.
        """
        site = self._site
        directory, name = site.place(step.path)
        site.expect(step, directory, name)
        if step.have is None:
            self._take(step)
        elif step.have.kind == DIRECTORY:
            self._take_for_directory(step)
        else:
            self._displaced.replace(step)
        del self._beside[number]

    def _take_for_directory(self, step: Step) -> None:
        site = self._site
        site.expect_contents(step.path, self._removals)
        # Moving a directory changes what it says of its parent.
        site.directories.open_to_change(step.path)
        site.set_aside(step)
        try:
            # What came into it until then is seen now: no path leads there any more.
            site.expect_contents(step.path, self._removals)
            self._take(step)
        except OSError:
            site.put_back(step.path)
            raise

    def _take(self, step: Step) -> None:
        directory, name = self._site.place(step.path)
        try:
            take(self._site.temporary(step.path), directory, to=name, target=directory)
        except FileExistsError:
            raise Changed from None

    def drop(self, number: int) -> None:
        """Forget a file that cannot be written or renamed."""
        if number in self._open:
            os.close(self._open.pop(number))
        step = self._beside.pop(number, None)
        if step is None:
            return
        try:
            above = self._site.directories.open(parent(step.path))
            os.unlink(self._site.temporary(step.path), dir_fd=above)
        except OSError:
            return  # nothing had been created, or its directory went away with it

    def drop_all(self) -> None:
        """Forget every file not yet renamed."""
        for number in list(self._beside):
            self.drop(number)
