"""Names that a file system takes for one although they are spelt differently: which of them a restore uses.

On exFAT and NTFS, and in folders that a container has from a Mac or from Windows, `Src` and `src` are one. A
plan is made by names: it would find `src` where `Src` is to be written, and then take it away. So what is
there keeps its spelling, and comes to hold what the target has under the other.
"""

from __future__ import annotations

from lastgood.model.operation import Step
from lastgood.model.tree import DIRECTORY, is_directory, same_content
from lastgood.paths import folded, join, printable, to_text
from lastgood.restore.plan import MAKING, UNTOUCHED, action_between, in_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lastgood.model.tree import Entry


def as_spelt(
    steps: Sequence[Step],
    look: Callable[[bytes], Entry | None],
    *,
    listed: Callable[[bytes], Sequence[Entry] | None] = lambda _path: (),
) -> tuple[Step, ...]:
    """Return steps, in the safe order, that use the spelling which the workspace has.

    ``look`` reads a path of it as it is now; where names are told apart it finds nothing at a new one, and
    the steps are as they were. ``listed`` tells what is in a directory, for a merge: what that leaves
    alone has no step.
    """
    return in_order(_Spelling(steps, look, listed).steps())


class _Spelling:
    def __init__(
        self,
        steps: Sequence[Step],
        look: Callable[[bytes], Entry | None],
        listed: Callable[[bytes], Sequence[Entry] | None],
    ) -> None:
        self._steps = steps
        self._look = look
        self._listed = listed
        # What goes, or stays though the target has it not, by what all its spellings have in common.
        self._there = {folded(step.path): step for step in steps if step.want is None}
        # How directories of the target are spelt in the workspace; None where one cannot be made.
        self._directories: dict[bytes, bytes | None] = {}
        # Of what is there, what has become another step.
        self._used: set[bytes] = set()
        # By directory, what stays in it, by what all its spellings have in common.
        self._staying: dict[bytes, dict[bytes, Step]] = {}

    def steps(self) -> list[Step]:
        rest = [step for step in self._steps if not _is_new(step)]
        made = [spelt for step in self._steps if _is_new(step) and (spelt := self._spelt(step)) is not None]
        return [*(step for step in rest if step.want is not None or step.path not in self._used), *made]

    def _spelt(self, step: Step) -> Step | None:
        """Return what makes a path, as the workspace spells it; None where nothing is left to be done."""
        above, _, name = step.path.rpartition(b"/")
        place = self._directories.get(above, above)
        if place is None:
            return self._barred(step, f"{_shown(above)} could not be made")
        there = self._there.get(folded(step.path)) or self._stays(place, folded(name))
        if there is not None and there.path not in self._used and self._is_one(step, beside=place == above):
            return self._instead(step, there)
        if place == above:
            return step
        return self._at(step, join(place, name))

    def _stays(self, place: bytes, name: bytes) -> Step | None:
        """Return as a step what stays in a directory under some spelling of a name, None if nothing does."""
        if place not in self._staying:
            self._staying[place] = {
                folded(entry.name): Step(path=join(place, entry.name), action="keep")
                for entry in self._listed(place) or ()
            }
        return self._staying[place].get(name)

    def _is_one(self, step: Step, *, beside: bool) -> bool:
        """Tell whether a path is already there, under another spelling; so is all in such a directory."""
        return not beside or self._look(step.path) is not None

    def _instead(self, step: Step, there: Step) -> Step | None:
        """Return what has something that is there become what was to be made under another spelling."""
        want, have = step.want, there.have
        assert want is not None
        stays = there.action in UNTOUCHED
        if stays:
            have = self._look(there.path)
            if not (want.kind == DIRECTORY and is_directory(have)):
                return self._barred(step, f"{_shown(there.path)} stays, which is the same name here")
        else:
            self._used.add(there.path)
        reason = None
        name, wanted = _last(there.path), _last(step.path)
        if name != wanted:
            reason = f"spelt so here, where {_shown(wanted)} is the same name"
        if want.kind == DIRECTORY:
            self._directories[step.path] = there.path
        if stays:
            return None
        want = want.replace(name=name)
        if same_content(want, have):
            return None if reason is None else Step(path=there.path, action="keep", have=have, reason=reason)
        return Step(path=there.path, action=action_between(want, have), want=want, have=have, reason=reason)

    def _at(self, step: Step, path: bytes) -> Step:
        if step.action == "mkdir":
            self._directories[step.path] = path
        return step.replace(path=path)

    def _barred(self, step: Step, reason: str) -> Step:
        if step.action == "mkdir":
            self._directories[step.path] = None
        return Step(path=step.path, action="skip", want=step.want, reason=reason)


def _is_new(step: Step) -> bool:
    return step.have is None and step.action in MAKING


def _last(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _shown(path: bytes) -> str:
    return printable(to_text(path))
