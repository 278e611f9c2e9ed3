"""Names that a file system takes for one although they are spelt differently: which of them a restore uses.

On exFAT and NTFS, and in folders that a container has from a Mac or from Windows, `Src` and `src` are one. A
plan is made by names: it would find `src` where `Src` is to be written, and then take it away. So what is
there keeps its spelling, and comes to hold what the target has under the other.
"""

from __future__ import annotations

from lastgood.model.operation import Step
from lastgood.model.tree import DIRECTORY, is_directory, same_content
from lastgood.paths import folded, join, printable, to_text
from lastgood.restore.plan import MAKING, action_between, in_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lastgood.model.tree import Entry


def as_spelt(steps: Sequence[Step], look: Callable[[bytes], Entry | None]) -> tuple[Step, ...]:
    """Return steps, in the safe order, that use the spelling which the workspace has.

    ``look`` reads a path of it as it is now; where names are told apart it finds nothing at a new one, and
    the steps are as they were.
    """
    return in_order(_Spelling(steps, look).steps())


class _Spelling:
    def __init__(self, steps: Sequence[Step], look: Callable[[bytes], Entry | None]) -> None:
        self._steps = steps
        self._look = look
        # What goes, or stays though the target has it not, by what all its spellings have in common.
        self._there = {folded(step.path): step for step in steps if step.want is None}
        # How directories of the target are spelt in the workspace; None where one cannot be made.
        self._directories: dict[bytes, bytes | None] = {}
        # Of what is there, what has become another step.
        self._used: set[bytes] = set()

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
        there = self._there.get(folded(step.path))
        if there is not None and there.path not in self._used and self._is_one(step, beside=place == above):
            return self._instead(step, there)
        if place == above:
            return step
        return self._at(step, join(place, name))

    def _is_one(self, step: Step, *, beside: bool) -> bool:
        """Tell whether a path is already there, under another spelling; so is all in such a directory."""
        return not beside or self._look(step.path) is not None

    def _instead(self, step: Step, there: Step) -> Step | None:
        """Return what has something that is there become what was to be made under another spelling."""
        want, have = step.want, there.have
        assert want is not None
        if there.action == "keep":
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
        if there.action == "keep":
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
