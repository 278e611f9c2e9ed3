"""The workspace's files: read into a tree by the scanner, changed by the applier alone."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Protocol

    from lastgood.model.operation import Journal
    from lastgood.model.plan import Outcome, Step
    from lastgood.model.scan import ScanRequest, ScanResult
    from lastgood.model.settings import Durability
    from lastgood.model.tree import Entry, TreeId
    from lastgood.ports.engine import ObjectReader, ObjectWriter
else:
    Protocol = object


class Stamp(Value):
    """The evidence that a file is the one that was scanned: what stat said when it was read."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


class Scan(Protocol):
    """One reading of a workspace."""

    @property
    def result(self) -> ScanResult:
        """What was found."""

    def directory(self, path: bytes) -> Sequence[Entry] | None:
        """Return the captured entries of a directory, sorted by name; None if it was not captured."""

    def left_out(self, path: bytes) -> Sequence[bytes]:
        """Return the names in a captured directory that were not captured: ignored, gaps, ``.git``."""

    def ignored(self, path: bytes, *, directory: bool) -> bool | None:
        """Tell whether the present rules ignore a path, present or not; None if rules are unreadable.

        Only rules count here: what is captured although ignored is ignored for this question too.
        """

    def stamp(self, path: bytes) -> Stamp | None:
        """Return the evidence for a captured file or link."""

    def remembered(self, path: bytes, tree: TreeId) -> Sequence[Entry] | None:
        """Return what a directory held when it had an identity; None unless the last scan says so."""

    def keep(self) -> None:
        """Write the scan cache; called only after what was scanned is durable and acknowledged."""


class Scanner(Protocol):
    """Reads a workspace; writes nothing inside it and runs nothing found there (rule S12)."""

    def scan(self, request: ScanRequest, *, writer: ObjectWriter) -> Scan:
        """Read the workspace, adding new contents and directories to the writer.

        Raises `NotFound` if the root is gone, `Unsafe` if it is not a directory, `Storage` when the
        store's disk fails. What cannot be read of the workspace is a gap, never an error.
        """


class Applier(Protocol):
    """Changes a workspace; every component is opened without following links (rule T12)."""

    def present(self, path: bytes) -> Entry | None:
        """Return what a path holds now, hashed anew; None if nothing (or no directory above it)."""

    def looking(self) -> AbstractContextManager[Callable[[bytes], Entry | None]]:
        """Hand out `present` for many paths one after another, in their order.

        It keeps directories open, so it is for a time in which nothing of ours changes any.
        """

    def read(self, path: bytes, entry: Entry) -> bytes | None:
        """Return the content of a file, or the target of a link; None if it is not this entry's any more."""

    def apply(
        self,
        steps: Sequence[Step],
        *,
        token: str,
        objects: ObjectReader,
        stamp: Callable[[bytes], Stamp | None],
        closed: Mapping[bytes, int] = {},
    ) -> Sequence[Outcome]:
        """Carry out steps in the safe order and return one outcome a path, in the order of the steps.

        Directories that are opened to work in them are closed again in the end; ``closed`` are those
        that an interrupted apply may have left open, with the permissions that they had.
        A path whose stamp no longer fits is left alone and fails with reason "changed". Temporary
        names are ``.lastgood-TOKEN-N``. Raises nothing for single paths; `Storage` when the disk
        is full (nothing is deleted then); `Unsafe` and `Busy` before anything is written.
        """

    def write_tree(
        self, tree: TreeId, *, objects: ObjectReader, durability: Durability = "full"
    ) -> Sequence[Outcome]:
        """Write a whole tree into the (empty) root.

        With ``durability`` "fast" nothing is carried through to the disk: for a copy that goes again.
        """

    def clear_temporaries(
        self,
        token: str,
        directories: Sequence[bytes],
        *,
        steps: Sequence[Step] = (),
        stored: Callable[[bytes], bool] | None = None,
    ) -> Sequence[Outcome]:
        """Settle what an interrupted apply left in some directories, and return what could not just go.

        ``steps`` are those of the apply; ``stored`` tells of a content whether it is in the store, for
        where the steps are not known. What had been set aside is put back if its path is free. What a
        person wrote meanwhile goes back, or is kept outside and named (rule T12b). What cannot be changed
        (another user's by now, or made immutable) is left and named, and the rest goes on.
        """

    def left_over(self) -> Mapping[str, Sequence[bytes]]:
        """Return, by the token of each restore, the directories that hold temporary files of its."""


class JournalFile(Protocol):
    """The record of a restore that is running."""

    def read(self) -> Journal | None:
        """Return the journal of an unfinished restore."""

    def open(self, journal: Journal) -> None:
        """Write the journal; durable when it returns."""

    def close(self) -> None:
        """Remove the journal; durable when it returns."""

    def leave(self, operation: str) -> None:
        """Put the journal of a restore aside that is done, and that left something behind."""

    def left(self) -> Sequence[Journal]:
        """Return the journals that were put aside so."""

    def left_by(self) -> tuple[str, ...]:
        """Return the operations that may have temporary names in the workspace: an unfinished one too."""

    def forget(self, operation: str) -> None:
        """Remove one of them: what was left is gone."""

    def set_aside(self) -> str:
        """Give a damaged journal another name, durably, and return where it is."""
