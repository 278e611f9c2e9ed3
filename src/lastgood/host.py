"""The machine: clocks, randomness, locks; and the values that what reads and changes a workspace is given."""

from __future__ import annotations

import os
import time

from lastgood.value import Value, setters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Protocol

    from lastgood.model.checkpoint import GitState, IgnoreState
    from lastgood.model.operation import Instant
    from lastgood.model.tree import Entry, Gap, TreeId
    from lastgood.processes import ProcFiles
    from lastgood.reserve import StoreReserve
    from lastgood.settings import CaptureSettings

    # One implementation each, which verbs know by what it is for.
    Processes = ProcFiles
    Reserve = StoreReserve
else:
    Protocol = object


class Clock(Protocol):
    """Time and chance."""

    def now(self) -> int:
        """Return nanoseconds since the epoch, UTC; may jump."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    def since_boot(self) -> tuple[str, int] | None:
        """Return the machine's present boot and the nanoseconds since, suspended ones too.

        None where that cannot be told. Nobody sets these.
        """

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

    def watching(self, key: str, *, wait: float) -> AbstractContextManager[ExclusiveHold]:
        """Let one process at a time make checkpoints of a workspace by itself; held while it does."""

    def is_watched(self, key: str) -> bool:
        """Tell whether a process watches a workspace just now."""

    def serving(self, *, wait: float) -> AbstractContextManager[ExclusiveHold]:
        """Let one process at a time carry out what commands ask for; held while it does."""

    def is_served(self) -> bool:
        """Tell whether a process carries out what commands ask for."""

    def server(self) -> int | None:
        """Return that process; None where nobody sees it."""

    def maintenance(self, *, wait: float) -> AbstractContextManager[ExclusiveHold]:
        """Let one process at a time consolidate, back up and tag."""


# --- How the project's own git stands, and what came of putting it back ---


class GitPosition(Value):
    """Where the project's HEAD stands and what its index holds.

    ``branch`` is a whole ref name, None when detached; ``commit`` is None before the first one.
    ``index`` is the id of the blob, in hex, that a checkpoint would keep the index as.
    """

    branch: str | None
    commit: str | None
    index: str


class FoundGitPosition(Value):
    """A position as it was found; ``conflicts`` are the paths that the index holds in several stages."""

    position: GitPosition
    conflicts: tuple[bytes, ...]


class RealignedGit(Value):
    """What came of realigning: what HEAD says now, and the ref under which the old commit is kept.

    ``left`` are files of ours that a failing disk kept, a lock perhaps.
    """

    head: str
    kept: str | None
    conflicts: tuple[bytes, ...]
    left: tuple[str, ...]


# --- What a scan is asked for, and what it found ---


class Stamp(Value):
    """The evidence that a file is the one that was scanned: what stat said when it was read."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    # Written out, as an entry's: a restore asks for that of each path, and proves it.
    def __init__(self, *, size: int, mtime_ns: int, ctime_ns: int, inode: int) -> None:
        _set_size(self, size)
        _set_mtime(self, mtime_ns)
        _set_ctime(self, ctime_ns)
        _set_inode(self, inode)


_set_size, _set_mtime, _set_ctime, _set_inode = setters(Stamp)


class Proof(Value):
    """What a path was seen to hold; ``entry`` is None for nothing.

    ``stat`` is what was said of a file or link then, None of anything else. ``steady`` tells that it was the
    same before and after, and that nobody had the file open for writing between.
    """

    entry: Entry | None
    stat: os.stat_result | None = None
    steady: bool = False

    def __init__(
        self, *, entry: Entry | None, stat: os.stat_result | None = None, steady: bool = False
    ) -> None:
        _set_entry(self, entry)
        _set_stat(self, stat)
        _set_steady(self, steady)


_set_entry, _set_stat, _set_steady = setters(Proof)


class ScanRequest(Value):
    """How to read a workspace into a tree.

    ``root`` is the workspace's real path. ``previous`` is the tree of the newest checkpoint: what it
    holds stays captured although ignored now (rule S5). ``forced`` are paths captured whatever the
    rules and the size cap say (a guard's; a directory means all below it but a ``.git``). They, and
    the paths in ``fresh``, are read anew whatever the scan cache knows of them.
    ``budget`` is in seconds. ``generation`` is the engine's; a scan cache of another generation
    proves no object (invariant 4). ``store`` is the store's real path: it is never captured.
    ``left_by`` are restores that left temporary names in the workspace: these are no files of anybody's.
    """

    root: bytes
    settings: CaptureSettings
    previous: TreeId | None
    generation: str
    store: bytes
    forced: tuple[bytes, ...] = ()
    fresh: tuple[bytes, ...] = ()
    budget: float | None = None
    left_by: tuple[str, ...] = ()


class ScanResult(Value):
    """A workspace as one tree.

    ``ignored`` counts the entries left out by rule (a directory counts as one). ``private`` are files
    captured although ignored and in no index, and those over the size cap that were forced. ``size``
    counts bytes of file contents.
    """

    tree: TreeId
    files: int
    size: int
    ignored: int
    gaps: tuple[Gap, ...]
    partial: bool
    private: tuple[bytes, ...]
    git: GitState | None
    ignore: IgnoreState


# --- What a merge is given, and what it gave ---


class MergeInput(Value):
    """Three versions of one text: what both sides began as, and what they are."""

    base: bytes
    ours: bytes
    theirs: bytes


class MergedText(Value):
    """What a merge gave; ``clean`` unless both sides changed the same place."""

    content: bytes
    clean: bool


# --- The machine's own clocks and randomness ---


def instant_of(clock: Clock) -> Instant:
    """Return the present by both clocks: that which may be set, and that which nobody sets."""
    from lastgood.model.operation import Instant  # lazily: no save asks

    at, told = clock.now(), clock.since_boot()
    return Instant(at=at) if told is None else Instant(at=at, boot=told[0], uptime=told[1])


# By this name the kernel calls the time namespace that it begins with.
_FIRST_TIME_NAMESPACE = "time:[4026531834]"
# This boot, once the kernel was asked: no process outlives that in which it began.
_boot: str | None = None


def _counted_boot() -> str | None:
    """Return what the uptime is counted from: a boot, beside it a time namespace, which counts its own.

    Into another of these a process may go at any time, so that is asked each time.
    """
    global _boot  # noqa: PLW0603 - the same for all of a machine
    if _boot is None:
        try:
            with open("/proc/sys/kernel/random/boot_id", "rb", buffering=0) as file:
                _boot = file.read().decode("ascii", "replace").strip()
        except OSError:
            return None
    try:
        counted = os.readlink("/proc/self/ns/time")
    except OSError:  # a kernel that has none
        return _boot
    return _boot if counted == _FIRST_TIME_NAMESPACE else f"{_boot} {counted}"


class SystemClock:
    """Time and chance as the operating system gives them."""

    __slots__ = ()

    def now(self) -> int:
        """Return nanoseconds since the epoch, UTC; may jump."""
        return time.time_ns()

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def since_boot(self) -> tuple[str, int] | None:
        """Return the machine's present boot and the nanoseconds since, suspended ones too."""
        boot = _counted_boot()
        return None if boot is None else (boot, time.clock_gettime_ns(time.CLOCK_BOOTTIME))

    def random(self) -> bytes:
        """Return eight random bytes."""
        return os.urandom(8)
