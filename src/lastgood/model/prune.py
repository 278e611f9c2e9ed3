"""What a prune decides of every checkpoint, with the reason, and what it did."""

from __future__ import annotations

from lastgood.model.size import StoreSize
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.operation import Operation


class Decision(Value):
    """What becomes of one checkpoint. A ``firm`` one is kept whatever the limits say."""

    id: str
    keep: bool
    reason: str
    firm: bool = False


class PrunePlan(Value):
    """What a prune would do; times in nanoseconds.

    ``decisions`` are of one workspace, newest first. ``freed_bytes`` is what the packs hold that
    only the removed ones need. ``lost`` are checkpoints deleted earlier that an immediate prune
    (``now``) would put beyond undo as well.
    """

    workspace_key: str
    decisions: tuple[Decision, ...]
    freed_bytes: int = 0
    free_after: int | None = None
    now: bool = False
    lost: tuple[str, ...] = ()

    @property
    def keep(self) -> tuple[Decision, ...]:
        """The checkpoints that stay."""
        return tuple(one for one in self.decisions if one.keep)

    @property
    def remove(self) -> tuple[Decision, ...]:
        """The checkpoints that go."""
        return tuple(one for one in self.decisions if not one.keep)

    @property
    def removed(self) -> tuple[str, ...]:
        """The ids of those that go."""
        return tuple(one.id for one in self.decisions if not one.keep)


class PruneReport(Value):
    """What a prune did, or would do (``dry_run``).

    ``freed_bytes`` are freed already if ``free_after`` is None, else not before that time
    (nanoseconds). ``set_aside`` are the damaged ones that a verification marked. ``waiting_bytes`` could
    not be freed at once: the disk has no room to write anew what lies in one pack with them.
    """

    keep: tuple[Decision, ...] = ()
    remove: tuple[Decision, ...] = ()
    set_aside: tuple[str, ...] = ()
    freed_bytes: int = 0
    free_after: int | None = None
    dry_run: bool = False
    operation: Operation | None = None
    lost: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    waiting_bytes: int = 0


class Sizes(Value):
    """How many bytes checkpoints added to the store when they were saved, by workspace and session.

    ``deleted`` counts those that wait for the end of the grace time. ``store`` is what the store takes
    of the disk, with all that is in it, and ``parts`` says what that is.
    """

    store: int
    workspaces: dict[str, int]
    sessions: dict[str, int]
    deleted: int = 0
    parts: StoreSize = StoreSize()
