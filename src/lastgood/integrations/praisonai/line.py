"""The line of a workspace's checkpoints: which there are, where the workspace stands, what came before."""

from __future__ import annotations

from lastgood.errors import Ambiguous, NotFound
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeGuard

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Operation
    from lastgood.workspace import Workspace

# What a checkpoint of ours notes down: the step it is for, what it followed, what it is.
STEP, PARENT, ROLE = "praisonai.step", "praisonai.parent", "praisonai.role"
INITIAL, RESCUE = "initial", "pre-restore"
PRE_RESTORE = "[pre-restore] auto-save"
PREFIX = "ckpt_"
_LEAST_DIGITS = 4


def is_number(given: object) -> TypeGuard[int]:
    """Tell whether something is a whole number."""
    return isinstance(given, int) and not isinstance(given, bool)


class Unmet(NotFound):
    """The line has no such step, or is not that long."""


class Line:
    """The checkpoints of one moment, newest first; guards of lastgood's own are passed over.

    ``at`` is where the workspace stands: at the last checkpoint made, or at the one that was restored
    since. A restore that found nothing to do left no trace of itself: ``moved`` remembers it.
    """

    def __init__(
        self, every: Sequence[Checkpoint], operations: Sequence[Operation], *, moved: Moved | None = None
    ) -> None:
        self._every = {one.id: one for one in every}
        self.kept = [one for one in every if one.kind != "guard" or one.metadata.get(ROLE) == RESCUE]
        self.trunk = [one for one in self.kept if one.kind != "guard"]
        self.mark = (every[0].id if every else None, operations[0].id if operations else None)
        self.at = self._stand(operations, moved)

    @property
    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that a save compares the workspace with."""
        return next((one for one in self.trunk if not one.partial), None)

    @property
    def made(self) -> int:
        """How many there are beside the one that every line begins with."""
        return sum(one.metadata.get(ROLE) != INITIAL for one in self.kept)

    def before(self, checkpoint: Checkpoint) -> Checkpoint | None:
        """Return what a checkpoint followed."""
        noted = self._every.get(checkpoint.metadata.get(PARENT, ""))
        if noted is not None and noted.sequence < checkpoint.sequence:
            return noted
        return next((one for one in self.trunk if one.sequence < checkpoint.sequence), None)

    def back(self) -> Iterator[Checkpoint]:
        """Yield where the workspace stands, and all that led there."""
        reached = self.at
        while reached is not None:
            yield reached
            reached = self.before(reached)

    def matching(self, text: str) -> list[Checkpoint]:
        """Return the checkpoints whose id begins with some digits; fewer than four name nothing."""
        digits = text.removeprefix(PREFIX)
        if len(digits) < _LEAST_DIGITS:
            return []
        return [one for one in self.kept if one.id.removeprefix(PREFIX).startswith(digits)]

    def of_step(self, step: int) -> Checkpoint | None:
        """Return the newest checkpoint of a step; what is no number is none."""
        if not is_number(step):
            return None
        return next((one for one in self.kept if one.metadata.get(STEP) == str(step)), None)

    def _stand(self, operations: Sequence[Operation], moved: Moved | None) -> Checkpoint | None:
        newest = self.newest
        if moved is not None and moved.mark == self.mark and moved.target in self._every:
            return self._every[moved.target]
        last = next((one for one in operations if one.type == "restore" and not one.undone), None)
        target = None if last is None else self._every.get(last.target or "")
        if last is None or target is None or newest is None:
            return newest
        guard = self._every.get(last.guard or "")
        since = last.at > newest.manifest.created_at if guard is None else guard.sequence >= newest.sequence
        return target if since else newest


class Moved:
    """A restore that had nothing to change: where to, and how the line stood then."""

    def __init__(self, target: str, mark: tuple[str | None, str | None]) -> None:
        self.target = target
        self.mark = mark


def line_of(workspace: Workspace, moved: Moved | None = None) -> Line:
    """Return the line of a workspace as it is now."""
    return Line(workspace.list(), workspace.operations(), moved=moved)


def found(line: Line, workspace: Workspace, text: str) -> Checkpoint:
    """Return the one checkpoint meant; raises `NotFound`, `Ambiguous`, or what a REF can raise."""
    matches = line.matching(text)
    if len(matches) > 1:
        raise Ambiguous(
            f"'{printable(text)}' fits {len(matches)} checkpoints",
            hint="give more digits of the id",
            details={"candidates": [one.id for one in matches]},
        )
    return matches[0] if matches else workspace.get(text)
