"""How paths get their new content, and what becomes of what comes out: nobody's edit is lost (rule T12b).

Between the last look at a path and its replacement anybody may write to it. So a replacement is an
exchange with what lies ready under ``.lastgood-TOKEN-N.old``, a deletion a move to that name: whatever
the path held in that very moment is there now, and is looked at again before it goes (`discard`).

- It is what the step says, which the guard holds, and nobody has it open for writing: it goes.
- It is that, and somebody has it open for writing: it leaves for the store, where they go on writing to
  it; if that is on another disk it is put back, and the step has failed.
- It is anything else, an edit: it is put back by a second exchange, and the step has failed. What comes
  out then has to be what the step wrote. If it is not, somebody wrote to the path between the two
  exchanges: theirs is the newer one, gets the path back, and the older one is kept in the store.

A file system without exchanges has the path stand empty for a moment: rule T12b beats rule T6.
"""

from __future__ import annotations

import errno
import os
import stat

from lastgood import renames
from lastgood.directories import is_nowhere
from lastgood.errors import Damaged
from lastgood.files import write_whole
from lastgood.model.tree import DIRECTORY, LINK, PERMISSION_BITS, same_content
from lastgood.paths import join, parent, printable, to_text
from lastgood.renames import exchange, is_there, take
from lastgood.restore.look import discard, in_memory
from lastgood.restore.site import PathChanged
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lastgood.engine import ObjectReader
    from lastgood.literals import Result
    from lastgood.model.operation import Step
    from lastgood.model.tree import Entry
    from lastgood.restore.kept import Kept
    from lastgood.restore.look import Fate
    from lastgood.restore.site import Site


# --- Files and links, written beside their targets and exchanged: a reader sees the old or the new (rule
# T6) ---

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# So much is read ahead at most.
_AHEAD_BYTES = 1 << 20


class Chunk:
    """Some files on their way: all written, then all synced, then all renamed."""

    def __init__(
        self,
        site: Site,
        objects: ObjectReader,
        *,
        displaced: Displaced,
        removals: Mapping[bytes, Step],
        contents: dict[bytes, bytes],
    ) -> None:
        # Those that were proven and are in memory, by their ids.
        self._contents = contents
        self._site = site
        self._displaced = displaced
        self._objects = objects
        self._removals = removals
        # By number of their step: files written and not yet renamed, with an open descriptor if synced later.
        self._beside: dict[int, Step] = {}
        self._open: dict[int, int] = {}
        self._troubles: dict[int, OSError] = {}

    def read_ahead(self, numbered: Iterable[tuple[int, Step]]) -> None:
        """Read what is to be written first, as far as it is little; nothing of the workspace is touched."""
        left = _AHEAD_BYTES
        for _, step in numbered:
            if step.want is None or step.want.kind == LINK or step.want.oid in self._contents:
                continue
            pieces = self._objects.pieces(step.want.oid)
            try:
                content = next(pieces, b"")
                # Where nothing follows it is proven.
                if left < len(content) or next(pieces, None) is not None:
                    return
            except Damaged:  # to write it will say so
                continue
            left -= len(content)
            self._contents[step.want.oid] = content

    def write(self, number: int, step: Step) -> None:
        """Write a step's content beside its target."""
        assert step.want is not None
        directory, _ = self._site.place(step.path)
        temporary = self._site.temporary(step.path)
        self._beside[number] = step
        if step.want.kind == LINK:
            os.symlink(self._objects.read_blob(step.want.oid), temporary, dir_fd=directory)
            return
        # From the beginning with its own permissions: whoever may read it there may do so in a moment anyway.
        mode = step.want.mode & PERMISSION_BITS
        descriptor = os.open(temporary, _CREATE, mode, dir_fd=directory)
        self._open[number] = descriptor
        size = self._copied(step.want, descriptor)
        found = os.fstat(descriptor)
        if found.st_size != size:
            raise OSError(errno.EIO, "not all of it could be written")
        if stat.S_IMODE(found.st_mode) != mode:  # by the umask
            os.fchmod(descriptor, mode)

    def _copied(self, want: Entry, descriptor: int) -> int:
        content = self._contents.get(want.oid)
        if content is not None:
            try:
                write_whole(descriptor, content)
            except OSError:
                os.lseek(descriptor, 0, os.SEEK_SET)  # once more, by who says what is wrong
            else:
                return len(content)
        return self._objects.copy_blob(want.oid, descriptor)

    def flush(self) -> bool:
        """Carry all contents through to the disk; False if it did not take all: then `check` says which."""
        troubles = self._site.threads.sync_all(list(self._open.values()))
        self._troubles = {
            number: troubles[descriptor]
            for number, descriptor in self._open.items()
            if descriptor in troubles
        }
        while self._open:
            os.close(self._open.popitem()[1])
        return not troubles

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
            self._displaced.replace(step, directory=directory, name=name)
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
            raise PathChanged from None

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


# --- What came out of a path: discarded, kept outside or put back, so that nobody's edit is lost (rule
# T12b) ---

CHANGED = "changed"


class Settled(Value):
    """What became of something displaced; ``result`` is None where the step went well all the same.

    ``kept`` is where it is now, outside; ``left`` where it is in the workspace, if it could not go.
    """

    result: Result | None = None
    reason: str | None = None
    kept: bytes | None = None
    left: bytes | None = None


class Displaced:
    """Brings paths to their new content, and settles what comes out.

    ``kept`` is a folder outside for what people may still be writing to, None where there is none.
    ``contents`` are proven ones, in memory by their ids.
    """

    def __init__(
        self,
        site: Site,
        *,
        kept: bytes | None,
        steps: Sequence[Step],
        contents: Mapping[bytes, bytes],
    ) -> None:
        self._site = site
        self._folder = kept
        self._contents = contents
        self._steps = {step.path: step for step in steps}
        self._numbers: dict[int, bytes] | None = None
        self._exchanging = True

    @property
    def _kept(self) -> Kept:
        from lastgood.restore.kept import Kept

        return Kept(self._folder, token=self._site.token)

    def replace(self, step: Step, *, directory: int, name: bytes) -> None:
        """Give a path the file or link that lies beside it; what it held takes the name of the old one."""
        fresh, old = self._site.temporary(step.path), self._site.old(step.path)
        if self._exchanging:
            # What bears a name without suffix is ours for certain, whoever finds it after a kill.
            take(fresh, directory, to=old, target=directory)
            try:
                done = exchange(old, name, directory)
            except OSError:
                os.rename(old, fresh, src_dir_fd=directory, dst_dir_fd=directory)
                raise
            if done:
                return
            os.rename(old, fresh, src_dir_fd=directory, dst_dir_fd=directory)
        take(name, directory, to=old, target=directory)
        self._exchanging = False  # nor will it be possible for the next one
        try:
            take(fresh, directory, to=name, target=directory)
        except FileExistsError:
            raise PathChanged from None
        except OSError:
            take(old, directory, to=name, target=directory)
            raise

    def remove(self, step: Step, *, directory: int, name: bytes) -> None:
        """Move a path to the name of the old one."""
        take(name, directory, to=self._site.old(step.path), target=directory)

    def settle(self, step: Step) -> Settled | None:
        """Decide what becomes of what came out of a path; None if it went, and all is well."""
        directory, _ = self._site.place(step.path)
        old = self._site.old(step.path)
        fate = discard(
            old,
            directory,
            expected=lambda entry: self._knows(step.path, entry),
            likely=in_memory(self._contents, step.have),
            hold=self._site.hold,
        )
        if fate == "gone":
            return None
        who = _who(old, directory) if fate == "held" else ""
        if fate == "held":
            kept = self._kept.move(self._site.directories, self._beside(step), called=last(step.path))
            if kept is not None:
                return Settled(reason=f"{who}; what it writes goes to {shown(kept)}", kept=kept)
        if self._put_back(step):
            reason = f"{who}, and the store is on another disk" if who else CHANGED
            return self._with_newer(step, Settled(result="failed", reason=reason))
        return self._with_newer(step, self.take_out(self._beside(step), called=last(step.path)))

    def stuck(self, step: Step) -> Settled | None:
        """Return what to say of what could not be settled, because the disk fails."""
        left = self._beside(step)
        try:
            directory, _ = self._site.place(step.path)
        except OSError as error:
            if is_nowhere(error):
                return None
            raise
        if not is_there(self._site.old(step.path), directory):
            return None
        return self._with_newer(step, Settled(reason=f"what was there is left in {shown(left)}", left=left))

    def settle_aside(self, path: bytes, where: bytes) -> Settled | None:
        """Decide what becomes of a path that was set aside; None if it went, and all is well."""
        directories = self._site.directories
        wrapper, name = parent(where), last(where)
        held = self._purge(path, where)
        settled = None
        if is_there(name, directories.open(wrapper)):
            who = _who(name, directories.open(wrapper)) if held else ""
            settled = self.take_out(where, called=name)
            if held:
                settled = _of_open(who, settled)
        renames.remove_directory(directories, wrapper)
        return settled

    def _purge(self, path: bytes, where: bytes) -> bool:
        """Delete what was set aside if the store has it; tell whether all the rest is open for writing."""
        directories = self._site.directories
        directory = directories.open_to_change(parent(where))
        if not _is_directory(last(where), directory):
            return self._discard(path, where) == "held"
        order = [b""]
        fates = set()
        for inner in order:  # grows
            place = where + inner
            for name in directories.names(place):
                if _is_directory(name, directories.open(place)):
                    order.append(inner + b"/" + name)
                else:
                    was = self._path_of(name) or path + inner + b"/" + name
                    fates.add(self._discard(was, join(place, name)))
        for inner in reversed(order):
            renames.remove_directory(directories, where + inner)
        return fates <= {"gone", "held"} and "held" in fates

    def _path_of(self, name: bytes) -> bytes | None:
        """Return the path beside which a temporary name was made, if a step is about it."""
        if not self._site.is_ours(name):
            return None
        if self._numbers is None:
            self._numbers = {renames.number_of(path): path for path in self._steps}
        return self._numbers.get(renames.number_in(name))

    def _knows(self, path: bytes, entry: Entry) -> bool:
        """Tell whether something is what a step found at a path or brings to it: the store has both."""
        step = self._steps.get(path)
        return step is not None and (same_content(step.have, entry) or same_content(step.want, entry))

    def _discard(self, path: bytes, where: bytes) -> Fate:
        directory = self._site.directories.open_to_change(parent(where))
        return discard(last(where), directory, expected=lambda entry: self._knows(path, entry))

    def take_out(self, path: bytes, *, called: bytes) -> Settled:
        """Bring something of a person's out of the workspace."""
        directories = self._site.directories
        where, gone = self._kept.move(directories, path, called=called), True
        if where is None:
            where, gone = self._kept.copy(directories, path, called=called)
        left = None if gone else path
        reason = CHANGED + _places("what was there", kept=where, left=left)
        return Settled(result="failed", reason=reason, kept=where, left=left)

    def _with_newer(self, step: Step, settled: Settled) -> Settled:
        """Bring out too what came to a path after we wrote to it, where it could not go back either."""
        directory, _ = self._site.place(step.path)
        name = self._site.newer(step.path)
        if not is_there(name, directory):
            return settled
        path = join(parent(self._site.located(step.path)), name)
        try:
            newer = self.take_out(path, called=last(step.path))
        except OSError:  # what is known already has to be told all the same
            newer = Settled(left=path)
        said = _places("what came after it", kept=newer.kept, left=newer.left)
        return Settled(
            result="failed",
            reason=f"{settled.reason}{said}",
            kept=settled.kept or newer.kept,
            left=settled.left or newer.left,
        )

    def _put_back(self, step: Step) -> bool:
        """Give a path back what came out of it; False if something newer has come there meanwhile."""
        directory, name = self._site.place(step.path)
        old = self._site.old(step.path)
        if step.want is not None:
            try:
                if not exchange(old, name, directory):
                    return self._put_back_without(step, directory, name)
            except FileNotFoundError:
                pass  # somebody has deleted it meanwhile
            else:
                if discard(old, directory, expected=lambda entry: self._knows(step.path, entry)) == "gone":
                    return True
                exchange(old, name, directory)
                return False
        return _taken(old, directory, name)

    def _put_back_without(self, step: Step, directory: int, name: bytes) -> bool:
        """Do so where nothing can be exchanged; what is newer may keep the name that it gets for that."""
        newer = self._site.newer(step.path)
        try:
            take(name, directory, to=newer, target=directory)
        except FileNotFoundError:
            return _taken(self._site.old(step.path), directory, name)
        except FileExistsError:  # it was taken when this was tried before
            return False
        if discard(newer, directory, expected=lambda entry: self._knows(step.path, entry)) == "gone":
            return _taken(self._site.old(step.path), directory, name)
        _taken(newer, directory, name)
        return False

    def _beside(self, step: Step) -> bytes:
        return join(parent(self._site.located(step.path)), self._site.old(step.path))


def _is_directory(name: bytes, directory: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _taken(name: bytes, directory: int, to: bytes) -> bool:
    try:
        take(name, directory, to=to, target=directory)
    except FileExistsError:
        return False
    return True


def _who(name: bytes, directory: int) -> str:
    from lastgood.procfs import writers_of

    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    names = writers_of(found.st_dev, found.st_ino)
    return f"open for writing in {', '.join(names)}" if names else "open for writing in another program"


def _of_open(who: str, settled: Settled) -> Settled:
    """Say who has open what was brought out, or could not go as its copy is not what they write to."""
    if settled.kept is not None and settled.left is None:
        return Settled(reason=f"{who}; what it writes goes to {shown(settled.kept)}", kept=settled.kept)
    where = _places("what was there", kept=settled.kept, left=settled.left)
    return settled.replace(reason=f"{who}, and the store is on another disk{where}")


def shown(path: bytes) -> str:
    """Return a path as people are told of it."""
    return printable(to_text(path))


def _places(what: str, *, kept: bytes | None, left: bytes | None) -> str:
    """Return where something is now, to follow what became of it."""
    said = "" if kept is None else f"; {what} is kept in {shown(kept)}"
    return said if left is None else f"{said}; {what} is left in {shown(left)}"


def last(path: bytes) -> bytes:
    """Return the last name of a path."""
    return path.rpartition(b"/")[2]
