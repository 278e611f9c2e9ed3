"""A workspace: what reads and changes its files, its project's git, its journal, and what goes with them.

Protocols alone, so no start loads them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Literal, Protocol

    from lastgood import files, journal
    from lastgood.engine import ObjectReader, ObjectWriter
    from lastgood.host import (
        FoundGitPosition,
        GitPosition,
        MergedText,
        MergeInput,
        Proof,
        RealignedGit,
        ScanRequest,
        ScanResult,
        Stamp,
    )
    from lastgood.literals import ConversationForm, Durability, Favour
    from lastgood.model.checkpoint import CommandResult, FileExtent, GitState, PrefixEvidence
    from lastgood.model.operation import Outcome, Step
    from lastgood.model.tree import Change, Difference, Entry, Listings, TreeId

    # One implementation each, which verbs know by what it is for.
    JournalFile = journal.FileJournal
    JournalReader = journal.JournalReader

    Presence = Literal["absent", "same", "different"]
else:
    Protocol = object


# --- The project's own git, which is looked at, and changed only when asked for ---


class GitSnapshot(Protocol):
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


class ProjectReader(Protocol):
    """The project's own repository, which is looked at and never run."""

    def state(self, root: bytes) -> GitState | None:
        """Return where HEAD stands; None without a repository. ``dirty`` and ``nested`` are not looked up."""

    def commits_between(self, root: bytes, old: str, new: str) -> int | None:
        """Return by how many commits HEAD moved; None if that cannot be told."""

    def commit(self, root: bytes, revision: str) -> tuple[str, int] | None:
        """Return the commit that git means by a revision, and its time in nanoseconds; None if it is none."""

    def snapshot(
        self, root: bytes, *, scan: Scan, writer: ObjectWriter, since: str | None, changes: Sequence[Change]
    ) -> GitSnapshot | None:
        """Return what a checkpoint keeps of the repository; None if the workspace belongs to none.

        ``changes`` are those of the files since the checkpoint ``since``, None before the first.
        The index is added to the writer unless it is stored already.
        """

    def index(self, root: bytes) -> bytes | None:
        """Return the id of the blob that would hold the index; None if it cannot be known."""

    def found_position(self, root: bytes) -> FoundGitPosition | None:
        """Return how HEAD and index stand; None without a repository.

        Raises `Unsafe` or `Unsupported` where they could not be put back either: a repository of
        another folder, one of which the workspace is only a part, one of another format.
        """

    def attachable(self, root: bytes, position: GitPosition) -> bool:
        """Tell whether HEAD could stand on the position's branch without that being moved."""

    def is_taken(self, root: bytes, branch: str) -> bool:
        """Tell whether another worktree stands on a branch, by its whole name: git lets only one do so."""

    def refuse_realigning(self, root: bytes, wanted: GitPosition, content: bytes) -> None:
        """Raise what speaks against it: `Unsafe`, `Unsupported`, `Conflict` (a lock), `Damaged`.

        ``content`` is that of the wanted index.
        """


class ProjectGit(ProjectReader, Protocol):
    """The project's own repository, in which HEAD and index can be put back."""

    def realign(
        self, root: bytes, *, known: GitPosition, wanted: GitPosition, content: bytes, words: str, at: int
    ) -> RealignedGit:
        """Bring a position about from the known one, or from half-way; can be repeated after a kill.

        ``words`` go into HEAD's log, ``at`` is in seconds. Raises `Conflict` if anything else is
        found, or a lock is held; `Unsafe`, `Unsupported`, `Storage`.
        """


# --- The workspace's files: read into a tree by the scanner, changed by the applier alone ---


class Scan(Protocol):
    """One reading of a workspace."""

    @property
    def result(self) -> ScanResult:
        """What was found."""

    def directory(self, path: bytes) -> Sequence[Entry] | None:
        """Return the captured entries of a directory, sorted by name; None if it was not captured."""

    def ignored_paths(self) -> tuple[bytes, ...]:
        """Return the first of the topmost ignored paths, with a slash at the end of a directory's."""

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

    def differing(self, path: bytes, before: TreeId, now: TreeId) -> Listings | None:
        """Return what a directory held when it had an identity, and holds now, without what is in both alike.

        None unless the last scan says what it held, and it is now what it was captured as.
        """

    def edits(self, before: TreeId) -> Sequence[Difference] | None:
        """Return what of an earlier tree has other contents or permissions now, sorted by path.

        None unless the last scan says what it held, and nothing came, went or became of another kind since.
        """

    def was_read(self, path: bytes) -> bool:
        """Tell whether it is certain that this scan read a file or link, and no cache told of it."""

    def keep(self) -> None:
        """Write the scan cache; called only after what was scanned is durable and acknowledged."""

    def keep_restored(
        self,
        brought: Mapping[bytes, Proof],
        *,
        folders: Mapping[bytes, int],
        trial: Callable[[], ObjectWriter],
        cap: int,
    ) -> None:
        """Do so, with what a restore has brought since, as far as that can be taken in.

        ``folders`` are directories in which it was proven, open. ``trial`` begins a pack that becomes
        nothing. What is larger than ``cap`` is none of a scan's.
        """


class ScanBegun(Protocol):
    """A scan that has begun with a look, of which its scanner knows more."""

    def close(self) -> None:
        """End what still looks; harmless when repeated."""


class Scanner(Protocol):
    """Reads a workspace; writes nothing inside it and runs nothing found there (rule S12)."""

    def begin(self, root: bytes) -> ScanBegun | None:
        """Have another process begin to look at a workspace of which a scan follows; None where none pays.

        Only while a lock keeps the workspace as it is. Whoever began it closes it.
        """

    def scan(self, request: ScanRequest, *, writer: ObjectWriter, begun: ScanBegun | None = None) -> Scan:
        """Read the workspace, adding new contents and directories to the writer.

        Raises `NotFound` if the root is gone, `Unsafe` if it is not a directory, `Storage` when the
        store's disk fails. What cannot be read of the workspace is a gap, never an error.
        """


class Prover(Protocol):
    """Tells what paths hold, and by what that is known."""

    def prove(self, path: bytes, likely: Entry | None) -> Proof:
        """Return the proof of what a path holds; ``likely`` is what is expected there."""

    @property
    def folders(self) -> Mapping[bytes, int]:
        """Directories in which something was proven, by their paths: as long as this lasts they are open."""


class FileReader(Protocol):
    """Looks at the files of a folder; every component is opened without following links (rule T12)."""

    def present(self, path: bytes) -> Entry | None:
        """Return what a path holds now, hashed anew; None if nothing (or no directory above it)."""

    def looking(self) -> AbstractContextManager[Callable[[bytes], Entry | None]]:
        """Hand out `present` for many paths one after another, in their order.

        It keeps directories open, so it is for a time in which nothing of ours changes any.
        """

    def closed(self, paths: Iterable[bytes]) -> Mapping[bytes, int]:
        """Return the permissions of those of some directories, in their order, that keep their owner out."""

    def proving(self, contents: Mapping[bytes, bytes] = {}) -> AbstractContextManager[Prover]:
        """Do so with what is evidence for it; ``contents`` are some that were proven, by their ids."""

    def read(self, path: bytes, entry: Entry) -> bytes | None:
        """Return the content of a file, or the target of a link; None if it is not this entry's any more."""

    def left_over(self) -> Mapping[str, Sequence[bytes]]:
        """Return, by the token of each restore, where its temporary names are."""


class DiskThreads(Protocol):
    """Has the disk do something beside a restore."""

    def beside(self, work: Callable[[], None]) -> files.DiskWork:
        """Begin something, and return what waits for it."""

    def sync_all(self, descriptors: Sequence[int]) -> dict[int, OSError]:
        """Sync files or directories, and return what went wrong by descriptor."""

    def end_soon(self) -> None:
        """Take note that hardly anything is left to be begun."""


class TreeWriter(FileReader, Protocol):
    """Fills a new folder, which is nobody's workspace."""

    def write_tree(
        self, tree: TreeId, *, objects: ObjectReader, durability: Durability = "full"
    ) -> Sequence[Outcome]:
        """Write a whole tree into the (empty) root.

        With ``durability`` "fast" nothing is carried through to the disk: for a copy that goes again.
        """


class Applied(Protocol):
    """Steps that were carried out."""

    @property
    def outcomes(self) -> Sequence[Outcome]:
        """What became of each, in their order."""

    def wait(self) -> None:
        """Return when all names are on the disk; `Storage` if that does not take them."""

    def end(self) -> None:
        """Return when the room of what was replaced is free, too, and nothing is on its way any more."""


class Applier(TreeWriter, Protocol):
    """Changes a workspace."""

    def make_root(self) -> Sequence[bytes]:
        """Make the workspace's folder again where it is gone, and return what was made (rule T12a)."""

    def unmake(self, made: Sequence[bytes]) -> None:
        """Remove folders that were made for nothing, as long as they are empty."""

    def apply(
        self,
        steps: Sequence[Step],
        *,
        token: str,
        objects: ObjectReader,
        stamp: Callable[[bytes], Stamp | None],
        contents: dict[bytes, bytes] | None = None,
        closed: Mapping[bytes, int] = {},
        unsynced: Collection[bytes] = (),
        ready: Callable[[], None] = ...,
        threads: DiskThreads | None = None,
    ) -> Applied:
        """Carry out steps in the safe order and return one outcome a path, in the order of the steps.

        ``contents`` are some that were proven and are in memory, by their ids, to which what is read ahead
        is added. Nothing is changed before ``ready`` returns. The last names are on the disk once that is
        waited for.
        Directories that are opened to work in them are closed again in the end; ``closed`` are those
        that an interrupted apply may have left open, with the permissions that they had, ``unsynced``
        those in which it may have changed names that are not on the disk: they are carried there, too.
        A path whose stamp no longer fits is left alone and fails with reason "changed". Temporary
        names are ``.lastgood-TOKEN-N``. Raises nothing for single paths; `Storage` when the disk
        is full (nothing is deleted then); `Unsafe` and `Busy` before anything is written.
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


# --- Transcripts: files of others, only ever read; and the new ones that a restore puts beside them ---


class Beside(Protocol):
    """What is kept beside a transcript: a sub-agent's conversation, or what of its own may still change."""

    @property
    def name(self) -> str:
        """Under which name it is kept."""

    @property
    def stamp(self) -> bytes:
        """What is another one as soon as the content is; b"" where nothing tells."""

    def pieces(self) -> Iterator[bytes]:
        """Yield its bytes, as long as the transcript is open. `Invalid` if they cannot be read."""


class Transcript(Protocol):
    """Bytes that grow at their end, open for reading."""

    def place(self) -> FileExtent:
        """Return where the file lies and how long it is now."""

    def read(self, offset: int, size: int) -> bytes:
        """Return that many bytes from there; fewer only at the end. `Invalid` if they cannot be read."""

    def beside(self, form: str) -> Iterable[Beside]:
        """Yield what is kept beside a transcript of a form, in any order."""

    def close(self) -> None:
        """Let go of the file; harmless when repeated."""


class TranscriptReader(Protocol):
    """The files of conversations, and what is remembered of them between saves."""

    def open(self, path: bytes) -> Transcript:
        """Open a file for reading, without ever waiting for one.

        Raises `NotFound` if there is none, `Invalid` for what is no plain file or cannot be read.
        """

    def recall(self, source: bytes) -> PrefixEvidence | None:
        """Return what was remembered of a source; None in any doubt."""

    def remember(self, source: bytes, evidence: PrefixEvidence) -> None:
        """Remember something of a source; that this fails harms nothing."""

    def where(self, form: ConversationForm, path: bytes) -> bytes:
        """Return where a host would look for a transcript: in its present home if the one of then is gone."""

    def beside(self, path: bytes, *, missing: int = 0) -> bytes:
        """Return the real folder that a file lies in, fit to put another one into.

        So many of the last folders may be missing; they are made with the file. Raises `NotFound` if it is
        not there, `Unsafe` if somebody else could meddle with it.
        """

    def present(self, path: bytes, *, size: int, digest: bytes, folders: int = 0) -> Presence:
        """Tell whether a path holds exactly some content (a SHA-256), something else, or nothing.

        A link in the place of one of the last ``folders`` is something else.
        """


class Transcripts(TranscriptReader, Protocol):
    """The files of conversations, to which new ones can be added."""

    def place(self, path: bytes, pieces: Iterable[bytes]) -> None:
        """Write a new file of mode 0600, durable and whole when its name appears; its folder too.

        Raises `Conflict` if the name is taken, `Unsafe` if the file cannot be written.
        """

    def remove(self, path: bytes, *, folders: int = 0) -> None:
        """Remove a file durably, with so many of the folders that it lies in once they are empty.

        Harmless if it is gone.
        """

    def tidy(self, path: bytes) -> None:
        """Remove what a killed `place` of a file left beside it."""


# --- Commands of the caller, run apart; nothing that a workspace holds is ever run by itself (rule S12) ---


class Commands(Protocol):
    """Runs checks; when a call returns, nothing that it started is left."""

    def run(
        self, words: Sequence[str], *, directory: bytes, variables: Mapping[str, str], timeout: float
    ) -> CommandResult:
        """Run a program with its arguments in a folder, standard input empty.

        ``variables`` are added to the caller's environment, ``timeout`` is in seconds.
        """


# --- Merging texts, which takes a program that not every machine has ---


class TextMerger(Protocol):
    """Merges texts line by line."""

    def merge(self, texts: MergeInput, *, favour: Favour | None, label: str) -> MergedText:
        """Merge three versions; ``label`` is what marks of a conflict call theirs.

        With ``ours`` or ``theirs`` the places where both changed are taken from that side. Raises
        `Unsupported` where nothing is there to merge with.
        """
