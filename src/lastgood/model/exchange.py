"""Checkpoints on their way from one store to another, in one file."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.checkpoint import Check
    from lastgood.model.run import WorkPlan
    from lastgood.model.session import Effect, Progress, Session
    from lastgood.value import OsText, Timestamp


class Choices(Value):
    """What an export takes along beside what it always does.

    ``private`` files (and those that only a guard holds), the ``conversation``, its texts and the
    manifests' ``exact`` (not redacted), and files although they show ``secrets``.
    """

    private: bool = False
    conversation: bool = True
    exact: bool = False
    secrets: bool = False


class Bounds(Value):
    """What a pack says of itself: how many objects, the largest, and all together in bytes."""

    objects: int
    largest: int
    total: int


class Member(Value):
    """One member of an export file: its size in bytes, and its SHA-256 in hex."""

    size: int
    sha256: str


class Header(Value):
    """What stands first in an export file; times in nanoseconds."""

    created_at: Timestamp
    checkpoints: int
    facts: Member
    pack: Member
    bounds: Bounds


class Origin(Value):
    """A workspace as it was known where the export was made."""

    key: str
    path: OsText
    machine: str
    created_at: int


class ExportedCheckpoint(Value):
    """The mutable facts of one checkpoint; its manifest is in its commit."""

    id: str
    commit: str
    sequence: int
    name: str | None = None
    pinned: bool = False
    good: bool | None = None
    check: Check | None = None


class ExportedProgress(Value):
    """The progress of a session, or of a workspace outside any."""

    key: str
    workspace_key: str
    progress: Progress


class ExportedPlan(Value):
    """A plan, and the sessions of a workspace that carry it out."""

    sessions: tuple[str, ...]
    workspace_key: str
    plan: WorkPlan


class ExportedBook(Value):
    """A book of the ledger: its entries (key, mark or None, and two cells), and the pieces that these need.

    The texts are UTF-8, with surrogates as they are.
    """

    workspace_key: str
    space: str
    name: bytes
    entries: tuple[tuple[bytes, bytes | None, bytes, bytes], ...]
    pieces: tuple[bytes, ...]


class Facts(Value):
    """Everything that an export says beside the objects."""

    workspaces: tuple[Origin, ...] = ()
    checkpoints: tuple[ExportedCheckpoint, ...] = ()
    sessions: tuple[Session, ...] = ()
    progress: tuple[ExportedProgress, ...] = ()
    effects: tuple[Effect, ...] = ()
    plans: tuple[ExportedPlan, ...] = ()
    books: tuple[ExportedBook, ...] = ()


class Withheld(Value):
    """What an export left out of one checkpoint: paths, and whether texts were changed."""

    id: str
    paths: tuple[bytes, ...] = ()
    conversation: bool = False
    redacted: bool = False


class ExportReport(Value):
    """What an export wrote; ``size`` in bytes. ``damaged`` were left out, being known as such.

    ``books`` of the ledger left with it, ``books_withheld`` stayed, None where a damaged one
    cannot tell.
    """

    file: OsText
    checkpoints: tuple[str, ...]
    workspaces: tuple[OsText, ...]
    sessions: int
    size: int
    withheld: tuple[Withheld, ...] = ()
    damaged: tuple[str, ...] = ()
    books: int = 0
    books_withheld: int | None = 0


class ImportReport(Value):
    """What an import added (``checkpoints``), and what was here already (``known``).

    ``reduced`` are those that the file has whole, and of which a reduced copy is here and stays. ``books``
    of the ledger are those that were added.
    """

    file: OsText
    checkpoints: tuple[str, ...]
    known: tuple[str, ...]
    workspaces: tuple[Origin, ...]
    sessions: int
    attached: OsText | None = None
    reduced: tuple[str, ...] = ()
    books: int = 0
