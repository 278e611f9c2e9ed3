"""What came out of a path: discarded, kept outside or put back, so that nobody's edit is lost (rule T12b).

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

import os
import stat

from lastgood.adapters.apply import aside
from lastgood.adapters.apply.discarding import discard
from lastgood.adapters.apply.places import is_nowhere
from lastgood.adapters.apply.renaming import exchange, is_there, take
from lastgood.adapters.apply.site import Changed
from lastgood.adapters.procfs import writers_of
from lastgood.names import join, parent, printable, to_text
from lastgood.rules.evidence import alike
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lastgood.adapters.apply.discarding import Fate
    from lastgood.adapters.apply.kept import Kept
    from lastgood.adapters.apply.site import Site
    from lastgood.model.plan import Result, Step
    from lastgood.model.tree import Entry


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

    ``stored`` tells of a content whether the store has it, for where the steps are not known.
    """

    def __init__(
        self,
        site: Site,
        *,
        kept: Kept,
        steps: Sequence[Step],
        stored: Callable[[bytes], bool] | None = None,
    ) -> None:
        self._site = site
        self._kept = kept
        self._steps = {step.path: step for step in steps}
        self._stored = stored
        self._numbers: dict[int, bytes] | None = None
        self._exchanging = True

    def replace(self, step: Step) -> None:
        """Give a path the file or link that lies beside it; what it held takes the name of the old one."""
        site = self._site
        directory, name = site.place(step.path)
        fresh, old = site.temporary(step.path), site.old(step.path)
        if self._exchanging:
            # What bears a name without suffix is ours for certain, whoever finds it after a kill.
            take(fresh, directory, to=old, target=directory)
            try:
                done = exchange(old, name, directory)
            except OSError:
                _rename(old, fresh, directory)
                raise
            if done:
                return
            _rename(old, fresh, directory)
        take(name, directory, to=old, target=directory)
        self._exchanging = False  # nor will it be possible for the next one
        try:
            take(fresh, directory, to=name, target=directory)
        except FileExistsError:
            raise Changed from None
        except OSError:
            take(old, directory, to=name, target=directory)
            raise

    def remove(self, step: Step) -> None:
        """Move a path to the name of the old one."""
        directory, name = self._site.place(step.path)
        take(name, directory, to=self._site.old(step.path), target=directory)

    def settle(self, step: Step) -> Settled | None:
        """Decide what becomes of what came out of a path; None if it went, and all is well."""
        directory, _ = self._site.place(step.path)
        old = self._site.old(step.path)
        fate = discard(old, directory, expected=lambda entry: self._knows(step.path, entry))
        if fate == "gone":
            return None
        who = _who(old, directory) if fate == "held" else ""
        if fate == "held":
            kept = self._kept.move(self._site.directories, self._beside(step), called=_last(step.path))
            if kept is not None:
                return Settled(reason=f"{who}; what it writes goes to {_shown(kept)}", kept=kept)
        if self._put_back(step):
            reason = f"{who}, and the store is on another disk" if who else CHANGED
            return self._with_newer(step, Settled(result="failed", reason=reason))
        return self._with_newer(step, self.take_out(self._beside(step), called=_last(step.path)))

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
        return self._with_newer(step, Settled(reason=f"what was there is left in {_shown(left)}", left=left))

    def settle_aside(self, path: bytes, where: bytes) -> Settled | None:
        """Decide what becomes of a path that was set aside; None if it went, and all is well."""
        directories = self._site.directories
        wrapper, name = parent(where), _last(where)
        held = self._purge(path, where)
        settled = None
        if is_there(name, directories.open(wrapper)):
            who = _who(name, directories.open(wrapper)) if held else ""
            settled = self.take_out(where, called=name)
            if held and settled.kept is not None:
                settled = Settled(
                    reason=f"{who}; what it writes goes to {_shown(settled.kept)}", kept=settled.kept
                )
        aside.remove_directory(directories, wrapper)
        return settled

    def clear(self, place: bytes) -> Iterator[tuple[bytes, Settled]]:
        """Settle everything temporary in a directory, and yield what could not just go, by path.

        What cannot be changed is left, and the rest goes on.
        """
        try:
            names = [name for name in self._site.directories.names(place) if self._site.is_ours(name)]
        except OSError as error:
            if not is_nowhere(error):
                yield place, _unchangeable(place, error)
            return
        for name in names:
            try:
                yield from self._clear(place, name)
            except OSError as error:
                if not is_nowhere(error):
                    where = join(place, name)
                    yield self._path_of(name) or where, _unchangeable(where, error)

    def _clear(self, place: bytes, name: bytes) -> Iterator[tuple[bytes, Settled]]:
        if name.endswith(aside.SUFFIX):
            yield from self._clear_aside(join(place, name))
        elif name.endswith(aside.OLD):
            yield from self._clear_old(place, name)
        else:  # it has never borne another name
            os.unlink(name, dir_fd=self._site.directories.open_to_change(place))

    def _clear_old(self, place: bytes, name: bytes) -> Iterator[tuple[bytes, Settled]]:
        path = self._path_of(name) or join(place, name)
        if path in self._steps and parent(path) == place:
            settled = self.settle(self._steps[path])
        elif self._discard(path, join(place, name)) == "gone":
            settled = None
        else:
            settled = self.take_out(join(place, name), called=_last(path))
        if settled is not None:
            yield path, settled

    def _clear_aside(self, wrapper: bytes) -> Iterator[tuple[bytes, Settled]]:
        directories = self._site.directories
        for name in directories.names(wrapper):
            path, where = join(parent(wrapper), name), join(wrapper, name)
            if not is_there(name, directories.open_to_change(parent(wrapper))) and aside.put_back(
                directories, path, where
            ):
                return
            settled = self.settle_aside(path, where)
            if settled is not None:
                yield path, settled
            return
        aside.remove_directory(directories, wrapper)

    def _purge(self, path: bytes, where: bytes) -> bool:
        """Delete what was set aside if the store has it; tell whether all the rest is open for writing."""
        directories = self._site.directories
        directory = directories.open_to_change(parent(where))
        if not _is_directory(_last(where), directory):
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
            aside.remove_directory(directories, where + inner)
        return fates <= {"gone", "held"} and "held" in fates

    def _path_of(self, name: bytes) -> bytes | None:
        """Return the path beside which a temporary name was made, if a step is about it."""
        if not self._site.is_ours(name):
            return None
        if self._numbers is None:
            self._numbers = {aside.number_of(path): path for path in self._steps}
        return self._numbers.get(aside.number_in(name))

    def _knows(self, path: bytes, entry: Entry) -> bool:
        """Tell whether something is what a step found at a path or brings to it: the store has both."""
        step = self._steps.get(path)
        if step is not None and (alike(step.have, entry) or alike(step.want, entry)):
            return True
        return self._stored is not None and self._stored(entry.oid)

    def _discard(self, path: bytes, where: bytes) -> Fate:
        directory = self._site.directories.open_to_change(parent(where))
        return discard(_last(where), directory, expected=lambda entry: self._knows(path, entry))

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
            newer = self.take_out(path, called=_last(step.path))
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


def _rename(name: bytes, to: bytes, directory: int) -> None:
    os.rename(name, to, src_dir_fd=directory, dst_dir_fd=directory)


def _unchangeable(left: bytes, error: OSError) -> Settled:
    reason = f"{(error.strerror or str(error)).lower()}: {_shown(left) or '.'} cannot be cleared"
    return Settled(result="skipped", reason=reason, left=left)


def _who(name: bytes, directory: int) -> str:
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    names = writers_of(found.st_dev, found.st_ino)
    return f"open for writing in {', '.join(names)}" if names else "open for writing in another program"


def _shown(path: bytes) -> str:
    return printable(to_text(path))


def _places(what: str, *, kept: bytes | None, left: bytes | None) -> str:
    """Return where something is now, to follow what became of it."""
    said = "" if kept is None else f"; {what} is kept in {_shown(kept)}"
    return said if left is None else f"{said}; {what} is left in {_shown(left)}"


def _last(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]
