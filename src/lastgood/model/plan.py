"""A restore before it happens: plain, frozen, printable, made before anything is touched."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from lastgood.model.part import Part, Scope
    from lastgood.model.tree import Entry

    Action = Literal["write", "delete", "mkdir", "rmdir", "chmod", "keep", "skip"]
    Result = Literal["restored", "removed", "kept", "skipped", "failed", "planned"]
    Favour = Literal["ours", "theirs", "markers"]

# How the reason of a step begins whose path both sides of a merge changed (rule T17).
CONFLICT = "conflict"
# The reason of an "rmdir" that takes along what is too deep to be kept, because that was asked for.
DISCARDED = "with what is too deep in it to be kept"
# The reason of the step that takes such a one back.
NOT_BACK = "without what was too deep in it to be kept"


class Step(Value):
    """What is to become of one path.

    ``want`` is what the path is to hold (None: nothing), ``have`` what it held when the plan was
    made (None: nothing). ``write`` covers files and links; a write whose ``have`` is of another kind
    sets that aside first. ``forced`` marks a present path that a save would leave out and that the
    guard has to hold all the same (rule T2). ``keep`` and ``skip`` touch nothing and say why.
    """

    path: bytes
    action: Action
    want: Entry | None = None
    have: Entry | None = None
    reason: str | None = None
    forced: bool = False


class Merged(Value):
    """A path whose content is merged: the blobs of the base and of the target that it is made from.

    The third is what the path's step has, the result what it wants.
    """

    path: bytes
    base: bytes
    target: bytes


class RestorePlan(Value):
    """Everything a restore will do, in order: directories, writes, modes, deletions, the rest; then parts.

    ``id`` is derived from the content, so that the same target and workspace give the same id
    (rule T16). ``paths`` limits the files, ``()`` for the whole workspace. ``base`` is the checkpoint
    since which changes are kept in a merge (rule T17), None where nothing is merged.
    """

    id: str
    target: str
    workspace_key: str
    paths: tuple[bytes, ...]
    steps: tuple[Step, ...]
    discard: bool = False
    force: bool = False
    scopes: tuple[Scope, ...] = ("files",)
    parts: tuple[Part, ...] = ()
    base: str | None = None
    favour: Favour | None = None
    merged: tuple[Merged, ...] = ()

    def of(self, *actions: Action) -> tuple[Step, ...]:
        """Return the steps with one of some actions, in order."""
        return tuple(step for step in self.steps if step.action in actions)

    @property
    def whole(self) -> bool:
        """Whether all files come to be as they were at the target: the workspace then stands there."""
        return not self.paths and "files" in self.scopes and self.base is None

    @property
    def deletions(self) -> int:
        """How many files the plan takes away."""
        return len(self.of("delete"))

    @property
    def empty(self) -> bool:
        """Whether nothing would be touched."""
        return not self.parts and not self.of("write", "delete", "mkdir", "rmdir", "chmod")

    @property
    def conflicts(self) -> tuple[bytes, ...]:
        """The paths that both sides of a merge changed, each in its way."""
        return tuple(step.path for step in self.steps if (step.reason or "").startswith(CONFLICT))


class Outcome(Value):
    """What became of one path: the report's line (rule T10).

    ``kept`` is where something lies now, outside the workspace, that somebody may have been writing to;
    ``left`` is a path of the workspace at which what was to go could not be taken away (rule T12b).
    """

    path: bytes
    action: Action
    result: Result
    reason: str | None = None
    kept: bytes | None = None
    left: bytes | None = None
