"""The catalogue keeps facts: which checkpoints exist, and everything about them that may change."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from lastgood.model.checkpoint import Check, Manifest, TreeRef
    from lastgood.model.run import PlannedRun
    from lastgood.model.session import Effect, Progress, Session

    # Why a workspace counts as standing at its newest checkpoint: its place was lost with a damaged
    # catalogue, or the checkpoint there and all before it are deleted.
    PlaceFault = Literal["lost", "deleted"]


class WorkspaceRow(Value):
    """A workspace known to the store. ``path`` is its real path, ``machine`` where that path counts."""

    key: str
    path: str
    machine: str
    created_at: int


class CheckpointFacts(Value):
    """What a save has to know of a checkpoint, without its manifest being read.

    ``tree`` and ``modes`` are in hex; ``gaps`` is the text that `encode_gaps` wrote.
    """

    id: str
    sequence: int
    kind: str
    created_at: int
    tree: str
    modes: str
    partial: bool
    gaps: str


class LatestFacts(Value):
    """The newest checkpoint of a workspace, and the one ``at`` which it stands (rule T15)."""

    newest: CheckpointFacts
    at: CheckpointFacts | None


class Query(Value):
    """Which checkpoints to list, newest first unless the ``oldest``. ``since`` is in nanoseconds.

    ``name`` is a glob (``*``, ``?``, ``[a-z]``), matched with the first line of the message where there is
    no name; ``called`` is one name exactly, ``message`` one message whole, but for space around it, or what
    another program calls the checkpoint. ``root`` is the tree of the files. In ``brief`` the checkpoints
    come without the tasks of their progress and the paths that git showed, which takes a fraction of the
    time where there are many.
    """

    workspace_key: str | None = None
    limit: int | None = None
    offset: int = 0
    kind: str | None = None
    session: str | None = None
    task: str | None = None
    moment: str | None = None
    step: int | None = None
    since: int | None = None
    until: int | None = None
    name: str | None = None
    called: str | None = None
    message: str | None = None
    good: bool = False
    complete: bool = False
    partial: bool = False
    guards: bool = True
    deleted: bool = False
    root: TreeRef | None = None
    brief: bool = False
    oldest: bool = False


class Arrival(Value):
    """A checkpoint that comes from another store, with the number that it is to get here if it can."""

    manifest: Manifest
    commit: str
    sequence: int
    name: str | None = None
    pinned: bool = False
    good: bool | None = None
    check: Check | None = None


class Arrivals(Value):
    """What an import brings; ``progress`` by key, with the workspace's. ``revived`` were deleted here."""

    workspaces: tuple[WorkspaceRow, ...] = ()
    checkpoints: tuple[Arrival, ...] = ()
    sessions: tuple[Session, ...] = ()
    progress: tuple[tuple[str, str, Progress], ...] = ()
    effects: tuple[Effect, ...] = ()
    runs: tuple[PlannedRun, ...] = ()
    revived: tuple[str, ...] = ()
