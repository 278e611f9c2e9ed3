"""What an interrupted apply left in a workspace: found by its names, and brought back, deleted or kept."""

from __future__ import annotations

import os

from lastgood import renames
from lastgood.directories import Nearby, is_nowhere, open_root
from lastgood.model.operation import Outcome
from lastgood.paths import join, parent
from lastgood.renames import is_temporary, is_there, token_of
from lastgood.restore.displaced import Displaced, Settled, last, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lastgood.model.operation import Step
    from lastgood.model.tree import Entry
    from lastgood.restore.site import Site


def left_over(root: bytes) -> Mapping[str, Sequence[bytes]]:
    """Return, by the token of each restore, where its temporary names are."""
    found: dict[str, list[bytes]] = {}
    top = open_root(root)
    nearby = Nearby(top)
    waiting = [b""]
    try:
        while waiting:
            place = waiting.pop()
            temporary, below = _listed(nearby, place)
            for name in sorted(temporary):
                found.setdefault(token_of(name), []).append(join(place, name))
            waiting += [join(place, name) for name in reversed(below)]
    finally:
        nearby.close()
        os.close(top)
    return found


def _listed(nearby: Nearby, place: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the temporary names in a directory, and the directories to go on with.

    What was set aside is settled as a whole, and a repository is none of ours.
    """
    temporary, below = [], []
    try:
        with os.scandir(nearby.open(place)) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)
                if is_temporary(name):
                    temporary.append(name)
                elif name != b".git" and entry.is_dir(follow_symlinks=False):
                    below.append(name)
    except OSError:
        return temporary, []  # nothing of ours is where nobody may look
    return temporary, sorted(below)


class Leftovers(Displaced):
    """Settles what an interrupted apply left.

    ``stored`` tells of a content whether the store has it, for where the steps are not known.
    """

    def __init__(
        self,
        site: Site,
        *,
        kept: bytes | None,
        steps: Sequence[Step],
        stored: Callable[[bytes], bool] | None,
    ) -> None:
        super().__init__(site, kept=kept, steps=steps, contents={})
        self._stored = stored

    def clear(self, place: bytes) -> Iterator[Outcome]:
        """Settle everything temporary in a directory, and yield what could not just go.

        What cannot be changed is left, and the rest goes on.
        """
        try:
            names = [name for name in self._site.directories.names(place) if self._site.is_ours(name)]
        except OSError as error:
            if not is_nowhere(error):
                yield _told(place, _unchangeable(place, error))
            return
        for name in names:
            try:
                for path, settled in self._clear(place, name):
                    yield _told(path, settled)
            except OSError as error:
                if not is_nowhere(error):
                    where = join(place, name)
                    yield _told(self._path_of(name) or where, _unchangeable(where, error))

    def _clear(self, place: bytes, name: bytes) -> Iterator[tuple[bytes, Settled]]:
        if name.endswith(renames.SUFFIX):
            yield from self._clear_aside(join(place, name))
        elif name.endswith(renames.OLD):
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
            settled = self.take_out(join(place, name), called=last(path))
        if settled is not None:
            yield path, settled

    def _clear_aside(self, wrapper: bytes) -> Iterator[tuple[bytes, Settled]]:
        directories = self._site.directories
        for name in directories.names(wrapper):
            path, where = join(parent(wrapper), name), join(wrapper, name)
            if not is_there(name, directories.open_to_change(parent(wrapper))) and renames.put_back(
                directories, path, where
            ):
                return
            settled = self.settle_aside(path, where)
            if settled is not None:
                yield path, settled
            return
        renames.remove_directory(directories, wrapper)

    def _knows(self, path: bytes, entry: Entry) -> bool:
        """Tell whether the store has something, by a step or because it says so."""
        return super()._knows(path, entry) or (self._stored is not None and self._stored(entry.oid))


def _unchangeable(left: bytes, error: OSError) -> Settled:
    reason = f"{(error.strerror or str(error)).lower()}: {shown(left) or '.'} cannot be cleared"
    return Settled(result="skipped", reason=reason, left=left)


def _told(path: bytes, settled: Settled) -> Outcome:
    return Outcome(
        path=path,
        action="skip",
        result="kept" if settled.result is None else "skipped",
        reason=settled.reason,
        kept=settled.kept,
        left=settled.left,
    )
