"""A checkpoint: what was held, when, why, and what became of it since."""

from __future__ import annotations

from lastgood.ids import short
from lastgood.model.progress import Progress
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Literal

    from lastgood.model.conversation import Conversation
    from lastgood.model.progress import Position
    from lastgood.model.tree import Counts, Gap

    Moment = Literal["before", "after"]
    Kind = Literal[
        "session-start",
        "turn",
        "tool",
        "task",
        "sprint",
        "feature",
        "iteration",
        "auto",
        "manual",
        "risky",
        "compaction",
        "guard",
        "error",
        "interrupt",
        "session-end",
    ]
    ActorType = Literal["agent", "tool", "person", "lastgood", "unknown"]
    Operation = Literal["merge", "rebase", "cherry-pick", "bisect", "revert"]

KINDS: tuple[Kind, ...] = (
    "session-start",
    "turn",
    "tool",
    "task",
    "sprint",
    "feature",
    "iteration",
    "auto",
    "manual",
    "risky",
    "compaction",
    "guard",
    "error",
    "interrupt",
    "session-end",
)
# Rule S10: an automatic save of an unchanged workspace makes no checkpoint.
AUTOMATIC_KINDS: frozenset[Kind] = frozenset({"turn", "tool", "auto", "risky", "guard"})


class Actor(Value):
    """Who brought about the moment that a checkpoint holds."""

    type: ActorType = "unknown"
    name: str | None = None
    call: str | None = None


class NestedRepository(Value):
    """A repository inside the workspace (or a submodule), captured as plain files without its ``.git``."""

    path: bytes
    head: str | None


class GitState(Value):
    """What the project's own repository said at the moment of the checkpoint; read, never changed.

    ``head`` is a commit id in hex, None before the first commit. ``branch`` is None when detached.
    ``dirty`` is None where telling would take running the project's filters.
    """

    head: str | None
    branch: str | None
    dirty: tuple[bytes, ...] | None = None
    operation: Operation | None = None
    nested: tuple[NestedRepository, ...] = ()


class Metrics(Value):
    """What the moment cost, and how the session stood; sizes in bytes, times as named."""

    save_ms: float = 0.0
    stored_bytes: int = 0
    session_seconds: float | None = None
    tasks_done: int = 0
    tasks_failed: int = 0
    tasks_total: int = 0
    success_ratio: float | None = None
    tokens: int | None = None
    memory_bytes: int | None = None
    cpu_seconds: float | None = None


class IgnoreState(Value):
    """The ignore rules of the moment that are not files of the workspace itself.

    ``excludes`` are the built-in and configured patterns, ``includes`` the opted-in ones,
    ``info_exclude`` the text of the repository's ``info/exclude``. A restore judges by them what
    was ignored *then* (rule T4). ``readable`` is False if some rules could not be read.
    """

    excludes: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    info_exclude: bytes = b""
    global_exclude: bytes = b""
    readable: bool = True


class Check(Value):
    """What came of a check command; ``exit_code`` is None where it did not come to one.

    ``output_tail`` is the end of what it wrote. ``reason`` says why it failed without an exit code of
    its own, or why the verdict does not count.
    """

    command: str
    exit_code: int | None
    seconds: float
    output_tail: str
    reason: str | None = None


class Manifest(Value):
    """The durable record of a checkpoint's birth, kept inside its commit; never changed (invariant 6).

    ``sequence`` is the number the checkpoint expected to get; the catalogue gives the real one.
    ``created_at`` is in nanoseconds since the epoch, UTC. ``size`` counts bytes of file contents.
    ``task`` is the task that it was made for, ``moment`` whether before or after it (or a turn).
    ``state`` gives the blob ids, in hex, of what else is kept, by name: ``index`` is the project's.
    ``copy_of`` is the commit that this record is a reduced copy of, as an export makes it, and
    ``withheld`` says what that left out: ``files`` (which are gaps), ``conversation``, ``secrets``.
    """

    id: str
    workspace: str
    workspace_key: str
    kind: Kind
    message: str
    name: str | None
    created_at: int
    sequence: int
    previous: str | None
    root: TreeRef
    changes: Counts
    files: int
    size: int
    ignored: int
    gaps: tuple[Gap, ...]
    partial: bool
    private: tuple[bytes, ...]
    forced: tuple[bytes, ...]
    actor: Actor
    git: GitState | None
    ignore: IgnoreState
    metrics: Metrics
    metadata: Mapping[str, str]
    session: str | None = None
    task: str | None = None
    moment: Moment | None = None
    progress: Progress = Progress()
    conversation: Conversation | None = None
    state: Mapping[str, str] = {}
    copy_of: str | None = None
    withheld: tuple[str, ...] = ()


class TreeRef(Value):
    """A `TreeId` in hex, as written in manifests and rows."""

    tree: str
    modes: str = ""


class Checkpoint(Value):
    """A named moment of a workspace: its manifest, and the facts that may change.

    ``sequence`` orders checkpoints whatever the clocks say (rule S15). ``damaged`` is the reason
    found by `verify`, ``recovered`` tells that a rebuild of the catalogue brought it back.
    ``deleted_at`` (nanoseconds) is set while a deletion can still be undone.
    """

    manifest: Manifest
    commit: str
    sequence: int
    name: str | None
    pinned: bool = False
    good: bool | None = None
    check: Check | None = None
    damaged: str | None = None
    recovered: bool = False
    deleted_at: int | None = None

    @property
    def id(self) -> str:
        """The whole id."""
        return self.manifest.id

    @property
    def short_id(self) -> str:
        """The id as lists show it."""
        return short(self.manifest.id)

    @property
    def kind(self) -> Kind:
        """Why the checkpoint was made."""
        return self.manifest.kind

    @property
    def message(self) -> str:
        """What the caller said about it."""
        return self.manifest.message

    @property
    def created_at(self) -> datetime:
        """When it was made, in UTC, to the microsecond."""
        from datetime import UTC, datetime, timedelta  # lazily: a save has no use for calendars

        microseconds = self.manifest.created_at // 1000
        return datetime.fromtimestamp(0, tz=UTC) + timedelta(microseconds=microseconds)

    @property
    def workspace(self) -> str:
        """The real path of the workspace when it was made."""
        return self.manifest.workspace

    @property
    def previous(self) -> str | None:
        """The id of the checkpoint before it."""
        return self.manifest.previous

    @property
    def tree(self) -> str:
        """The git tree of its files, in hex."""
        return self.manifest.root.tree

    @property
    def changes(self) -> Counts:
        """How many paths changed since the checkpoint before it."""
        return self.manifest.changes

    @property
    def files(self) -> int:
        """How many files it holds."""
        return self.manifest.files

    @property
    def ignored(self) -> int:
        """How many entries the ignore rules left out."""
        return self.manifest.ignored

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What the checkpoint does not hold."""
        return self.manifest.gaps

    @property
    def partial(self) -> bool:
        """Whether a time budget ended the scan early."""
        return self.manifest.partial

    @property
    def actor(self) -> Actor:
        """Who brought it about."""
        return self.manifest.actor

    @property
    def git(self) -> GitState | None:
        """What the project's own repository said; None where there was none."""
        return self.manifest.git

    @property
    def metrics(self) -> Metrics:
        """What the moment cost, and how the session stood."""
        return self.manifest.metrics

    @property
    def metadata(self) -> Mapping[str, str]:
        """The notes that were attached."""
        return self.manifest.metadata

    @property
    def session(self) -> str | None:
        """The id of the session it belongs to; None outside one."""
        return self.manifest.session

    @property
    def task(self) -> str | None:
        """The id of the task that it was made for."""
        return self.manifest.task

    @property
    def moment(self) -> Moment | None:
        """Whether it was made before or after its task or turn."""
        return self.manifest.moment

    @property
    def position(self) -> Position | None:
        """Where in its workflow the work stood; None if nobody said."""
        position = self.manifest.progress.position
        return None if position.empty else position

    @property
    def progress(self) -> Progress | None:
        """How far the work had come; None if nobody said."""
        return None if self.manifest.progress.empty else self.manifest.progress

    @property
    def conversation(self) -> Conversation | None:
        """The conversation up to that moment."""
        return self.manifest.conversation

    @property
    def bytes(self) -> int:
        """How many bytes its files have."""
        return self.manifest.size
