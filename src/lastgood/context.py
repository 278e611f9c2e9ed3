"""The ports that the verbs of one workspace work with, tied together by the composition root."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.catalogue import Catalogue, Work, WorkspaceRow
    from lastgood.engine import Engine
    from lastgood.host import (
        Applier,
        Clock,
        JournalFile,
        Locks,
        Processes,
        ProjectGit,
        Reserve,
        Scanner,
        TextMerger,
        Transcripts,
    )
    from lastgood.ledger import Ledgers
    from lastgood.model.report import HealthNote, StoreSize
    from lastgood.settings import Settings


class Context(Value):
    """One workspace of one store.

    ``root`` is the workspace's real path, ``store`` the store's, ``key`` the workspace's name inside
    the store; ``row`` is what the catalogue knows of it, or will with its first checkpoint. ``wait``
    is how long to wait for a lock, in seconds. ``session`` is the session that the caller says it
    belongs to, if any. ``applier_of`` makes an applier for a folder: this
    one, or another (``restore --to``). ``merger`` finds what merges texts. ``remarks`` say what was met
    when all this was tied together. ``measure`` looks at how much of the disk the store takes. What not
    every verb needs is opened when it is first asked for.
    """

    key: str
    row: WorkspaceRow
    root: bytes
    store: bytes
    settings: Settings
    engine_of: Callable[[], Engine]
    catalogue: Catalogue
    locks: Locks
    clock: Clock
    journal: JournalFile
    scanner: Scanner
    applier_of: Callable[[bytes], Applier]
    project_of: Callable[[], ProjectGit]
    work_of: Callable[[], Work]
    processes_of: Callable[[], Processes]
    merger: Callable[[], TextMerger]
    transcripts_of: Callable[[], Transcripts]
    reserve_of: Callable[[], Reserve]
    ledgers: Ledgers
    measure: Callable[[], StoreSize]
    session: str | None = None
    remarks: tuple[HealthNote, ...] = ()
    wait: float = 30.0

    @property
    def engine(self) -> Engine:
        """What keeps the bytes."""
        return self.engine_of()

    @property
    def project(self) -> ProjectGit:
        """The project's own git."""
        return self.project_of()

    @property
    def work(self) -> Work:
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
    def applier(self) -> Applier:
        """The applier of this workspace; a save has no use for one."""
        return self.applier_of(self.root)

    @property
    def transcripts(self) -> Transcripts:
        """The files of conversations; a plain save has no use for them."""
        return self.transcripts_of()
