"""The ports that the verbs of one workspace work with, tied together by the composition root."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.catalogue import WorkspaceRow, checkpoints, work
    from lastgood.engine import Engine, EngineReader
    from lastgood.host import Clock, Locks, Processes, Reserve, SharedHold
    from lastgood.ledger import Ledgers, LedgersReader
    from lastgood.model.checkpoint import HealthNote
    from lastgood.model.report import StoreSize
    from lastgood.settings import Settings
    from lastgood.worktree import (
        Applier,
        FileReader,
        JournalFile,
        JournalReader,
        ProjectGit,
        ProjectReader,
        Scanner,
        TextMerger,
        TranscriptReader,
        Transcripts,
        TreeWriter,
    )

    # One implementation each, of which verbs know what their transaction lets them do.
    Catalogue = checkpoints.SqliteCatalogue
    CatalogueMaintainer = checkpoints.CatalogueMaintainer
    CatalogueReader = checkpoints.CatalogueReader
    CatalogueWriter = checkpoints.CatalogueWriter
    SessionTransaction = work.SessionTransaction
    WorkReader = work.WorkReader


class Writers(Value):
    """What changes a store and a workspace; a transaction hands it out, while it holds its locks."""

    catalogue: Catalogue
    engine_of: Callable[[], Engine]
    journal_of: Callable[[], JournalFile]
    applier_of: Callable[[], Applier]
    project_of: Callable[[], ProjectGit]
    transcripts_of: Callable[[], Transcripts]
    ledgers: Ledgers

    @property
    def journal(self) -> JournalFile:
        """The record of a restore that is running, to be written."""
        return self.journal_of()


class Context(Value):
    """One workspace of one store, to be read; what changes it is for transactions alone (``writers``).

    ``root`` is the workspace's real path, ``store`` the store's, ``key`` the workspace's name inside
    the store; ``row`` is what the catalogue knows of it, or will with its first checkpoint. ``wait``
    is how long to wait for a lock, in seconds. ``session`` is the session that the caller says it
    belongs to, if any; ``passing`` that the caller is over in a moment, so that whose its sessions are is
    told from the processes above it. ``applier_of`` makes what reads a folder, this one or another, and
    fills a new one (``restore --to``). ``merger`` finds what merges texts. ``remarks`` say what was met when
    all this was tied together. ``measure`` looks at how much of the disk the store takes. What not
    every verb needs is opened when it is first asked for.
    """

    key: str
    row: WorkspaceRow
    root: bytes
    store: bytes
    settings: Settings
    engine_of: Callable[[], EngineReader]
    catalogue: CatalogueReader
    locks_of: Callable[[], Locks]
    clock: Clock
    journal_of: Callable[[], JournalReader]
    scanner: Scanner
    applier_of: Callable[[bytes], TreeWriter]
    project_of: Callable[[], ProjectReader]
    work_of: Callable[[], WorkReader]
    processes_of: Callable[[], Processes]
    merger: Callable[[], TextMerger]
    transcripts_of: Callable[[], TranscriptReader]
    reserve_of: Callable[[], Reserve]
    ledgers: LedgersReader
    measure: Callable[[], StoreSize]
    writers: Callable[[SharedHold], Writers]
    session: str | None = None
    passing: bool = False
    remarks: tuple[HealthNote, ...] = ()
    wait: float = 30.0

    @property
    def engine(self) -> EngineReader:
        """What keeps the bytes."""
        return self.engine_of()

    @property
    def locks(self) -> Locks:
        """What keeps others out."""
        return self.locks_of()

    @property
    def journal(self) -> JournalReader:
        """The record of a restore that is running, if there is one."""
        return self.journal_of()

    @property
    def project(self) -> ProjectReader:
        """The project's own git."""
        return self.project_of()

    @property
    def work(self) -> WorkReader:
        """The facts about the work."""
        return self.work_of()

    @property
    def processes(self) -> Processes:
        """The processes of this machine."""
        return self.processes_of()

    @property
    def reserve(self) -> Reserve:
        """The room that the store keeps on its disk."""
        return self.reserve_of()

    @property
    def applier(self) -> FileReader:
        """The files of this workspace, to be looked at; a save has no use for that."""
        return self.applier_of(self.root)

    @property
    def transcripts(self) -> TranscriptReader:
        """The files of conversations; a plain save has no use for them."""
        return self.transcripts_of()
