"""The machine: clocks, randomness, locks, and the project's own git, which is changed only when asked for."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from typing import Protocol

    from lastgood.model.session import Living, Owner, Usage
    from lastgood.model.tree import Change
    from lastgood.ports.engine import ObjectWriter
    from lastgood.ports.workspace import Scan
else:
    Protocol = object


class Clock(Protocol):
    """Time and chance."""

    def now(self) -> int:
        """Return nanoseconds since the epoch, UTC; may jump."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    def random(self) -> bytes:
        """Return eight random bytes."""


class SharedHold:
    """Proof that a lock is held beside others."""

    __slots__ = ()


class ExclusiveHold(SharedHold):
    """Proof that a lock is held alone."""

    __slots__ = ()


class Locks(Protocol):
    """Locks that die with their owner (``flock``); a held one is the proof of life (rule S16).

    Each raises `Busy` after ``wait`` seconds, naming the owner as far as it is known.
    """

    def share_workspace(self, key: str, *, wait: float) -> AbstractContextManager[SharedHold]:
        """Keep restores out while saving."""

    def hold_workspace(self, key: str, *, wait: float) -> AbstractContextManager[ExclusiveHold]:
        """Keep saves and other restores out while restoring."""

    def share_store(self, *, wait: float) -> AbstractContextManager[SharedHold]:
        """Keep sweeps out while reading or saving."""

    def hold_store(self, *, wait: float) -> AbstractContextManager[ExclusiveHold]:
        """Keep everyone out while bytes are freed."""

    def recovery(self, key: str, *, wait: float) -> AbstractContextManager[ExclusiveHold]:
        """Let one process at a time settle what became of a workspace's runs."""

    def running(self, key: str, *, wait: float) -> AbstractContextManager[ExclusiveHold]:
        """Let one runner at a time carry out a plan in a workspace; held for as long as it lives."""

    def maintenance(self, *, wait: float) -> AbstractContextManager[ExclusiveHold]:
        """Let one process at a time consolidate, back up and tag."""


class Reserve(Protocol):
    """Room that a store keeps on its disk, for the day on which that is full."""

    def make_room(self) -> int:
        """See that there is some room, before bytes are freed or an interrupted restore is settled.

        What killed processes left goes first, then the reserve, then what can be made again. Returns how
        many bytes of the reserve were given up.
        """

    def lay_in(self, *, again: int = 0) -> None:
        """Make the reserve where there is plenty of room and it is not whole; failing to harms nothing.

        ``again`` is what was given up of it: that much need not leave plenty.
        """


class Processes(Protocol):
    """The processes of this machine, as far as they can be seen from here."""

    def owner(self, pid: int | None) -> Owner:
        """Describe the owner of a lease; without a pid one that lives by heartbeat alone.

        Raises `NotFound` if no process has this number.
        """

    def alive(self, owner: Owner) -> bool | None:
        """Tell whether an owner lives; None where that cannot be told from here (rule S16)."""

    def boot(self) -> str | None:
        """Return the id of the machine's present run; None where that cannot be told."""

    def encloses(self, owner: Owner) -> bool:
        """Tell whether this process is an owner, or was started below it."""

    def marked(self, session: str) -> Sequence[Living]:
        """Return the living processes that were started within a session, told by their environment."""

    def usage(self, owner: Owner) -> Usage | None:
        """Return what an owner and the processes below it use; None where that cannot be told."""


class Stance(Value):
    """Where the project's HEAD stands and what its index holds.

    ``branch`` is a whole ref name, None when detached; ``commit`` is None before the first one.
    ``index`` is the id of the blob, in hex, that a checkpoint would keep the index as.
    """

    branch: str | None
    commit: str | None
    index: str


class Posture(Value):
    """A stance as it was found; ``conflicts`` are the paths that the index holds in several stages."""

    stance: Stance
    conflicts: tuple[bytes, ...]


class Realigned(Value):
    """What came of realigning: what HEAD says now, and the ref under which the old commit is kept."""

    head: str
    kept: str | None
    conflicts: tuple[bytes, ...]


class Alignment(Protocol):
    """How the project's HEAD, index and files stand to one another at one moment."""

    @property
    def dirty(self) -> tuple[bytes, ...] | None:
        """The paths that git's status would show; None if the project's filters would have to tell."""

    @property
    def index(self) -> bytes | None:
        """The id of the blob that holds the index; None if it cannot be kept."""

    @property
    def too_large(self) -> int | None:
        """The size in bytes of an index that is too large to be kept."""

    def keep(self, checkpoint: str) -> None:
        """Remember it for the next time; called only when the checkpoint that holds it exists."""


class ProjectGit(Protocol):
    """The project's own repository: nothing in it is run, and only `realign` changes anything."""

    def head(self, root: bytes) -> str | None:
        """Return the commit that HEAD stands for, None without a repository or commit."""

    def commits_between(self, root: bytes, old: str, new: str) -> int | None:
        """Return by how many commits HEAD moved; None if that cannot be told."""

    def alignment(
        self, root: bytes, *, scan: Scan, writer: ObjectWriter, since: str | None, changes: Sequence[Change]
    ) -> Alignment | None:
        """Return what a checkpoint keeps of the repository; None if the workspace belongs to none.

        ``changes`` are those of the files since the checkpoint ``since``, None before the first.
        The index is added to the writer unless it is stored already.
        """

    def posture(self, root: bytes) -> Posture | None:
        """Return how HEAD and index stand; None without a repository.

        Raises `Unsafe` or `Unsupported` where they could not be put back either: a repository of
        another folder, one of which the workspace is only a part, one of another format.
        """

    def attachable(self, root: bytes, stance: Stance) -> bool:
        """Tell whether HEAD could stand on the stance's branch without that being moved."""

    def refuse_realigning(self, root: bytes, wanted: Stance, content: bytes) -> None:
        """Raise what speaks against it: `Unsafe`, `Unsupported`, `Conflict` (a lock), `Damaged`.

        ``content`` is that of the wanted index.
        """

    def realign(
        self, root: bytes, *, known: Stance, wanted: Stance, content: bytes, words: str, at: int
    ) -> Realigned:
        """Bring a stance about from the known one, or from half-way; can be repeated after a kill.

        ``words`` go into HEAD's log, ``at`` is in seconds. Raises `Conflict` if anything else is
        found, or a lock is held; `Unsafe`, `Unsupported`, `Storage`.
        """
