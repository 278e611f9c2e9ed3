"""A checkpoint: what was held, when, why, and what became of it since."""

from __future__ import annotations

from lastgood.errors import Damaged, Unsupported
from lastgood.ids import is_checkpoint_id, short
from lastgood.model.canonical import TEXT, Fields, Form, dumps, iso, loads, optional, sequence, words
from lastgood.model.session import (
    BRIEF_PROGRESS,
    BRIEF_PROGRESS_IN_PARTS,
    NO_PROGRESS,
    PROGRESS,
    PROGRESS_IN_PARTS,
    is_long,
)
from lastgood.model.tree import Counts, Gap
from lastgood.value import Alias, Value, cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from typing import ClassVar

    from lastgood.literals import ActorType, ConversationForm, Ending, GapReason, GitOperation, Kind, Moment
    from lastgood.model.session import Living, Position, Progress
    from lastgood.value import Binary, OsText, Text, Timestamp


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
# Under this key of its metadata a checkpoint bears what another program calls it; that is a REF (rule S20).
ID_NOTE = "id"
# Rule S10: an automatic save of an unchanged workspace makes no checkpoint.
AUTOMATIC_KINDS: frozenset[Kind] = frozenset({"turn", "tool", "auto", "risky", "guard"})
# Of these kinds is what hosts, runs and programs keep by themselves: they know for whom. Whoever types one of
# them does not, and is named for nothing.
PROGRAMS: frozenset[Kind] = frozenset({"turn", "tool", "auto", "error"})


class Actor(Value):
    """Who brought about the moment that a checkpoint holds."""

    type: ActorType = "unknown"
    name: Text | None = None
    call: Text | None = None


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
    branch: OsText | None
    dirty: tuple[bytes, ...] | None = None
    operation: GitOperation | None = None
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
    ``built_in_off`` those built-in ones that were switched off,
    ``info_exclude`` the text of the repository's ``info/exclude``. A restore judges by them what
    was ignored *then* (rule T4). ``readable`` is False if some rules could not be read.
    """

    excludes: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    info_exclude: Binary = b""
    global_exclude: Binary = b""
    readable: bool = True
    built_in_off: tuple[str, ...] = ()


class Check(Value):
    """What came of a check command; ``exit_code`` is None where it did not come to one.

    ``output_tail`` is the end of what it wrote. ``reason`` says why it failed without an exit code of
    its own, or why the verdict does not count.
    """

    command: Text
    exit_code: int | None
    seconds: float
    output_tail: Text
    reason: str | None = None


class Manifest(Value):
    """The durable record of a checkpoint's birth, kept inside its commit; never changed (invariant 6).

    ``sequence`` is the number the checkpoint expected to get; the catalogue gives the real one.
    ``created_at`` is in nanoseconds since the epoch, UTC. ``size`` counts bytes of file contents.
    ``task`` is the task that it was made for, ``moment`` whether before or after it (or a turn).
    ``ignored_paths`` are the first of the ``ignored`` ones, with a slash at the end of a directory's.
    ``state`` gives the blob ids, in hex, of what else is kept, by name: ``index`` is the project's.
    ``copy_of`` is the commit that this record is a reduced copy of, as an export makes it, and
    ``withheld`` says what that left out: ``files`` (which are gaps), ``conversation``, ``secrets``.
    """

    id: str
    workspace: OsText
    workspace_key: str
    kind: Kind
    message: Text
    name: str | None
    created_at: Timestamp
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
    metadata: Mapping[Text, Text]
    session: str | None = None
    task: str | None = None
    moment: Moment | None = None
    progress: Progress = NO_PROGRESS
    conversation: Conversation | None = None
    state: Mapping[str, str] = {}
    copy_of: str | None = None
    withheld: tuple[str, ...] = ()
    ignored_paths: tuple[bytes, ...] = ()


class TreeRef(Value):
    """A `TreeId` in hex, as written in manifests and rows."""

    tree: str
    modes: str = ""


# How the reason of a damage ends that names what is lost; before that stands how many paths of the files,
# and what else by its name, joined by `AND`. It is stored, so the words stay.
NOT_READ = " cannot be read"
NOT_READ_BACK = " could not be read back"
AND = " and "
_PROGRESS = "progress/"
_BESIDE = ("conversation", _PROGRESS, "state/")


def _lost(reason: str | None) -> list[str] | None:
    """Return what the reason of a damage names as lost; None if it names nothing."""
    if reason is None:
        return []
    ending = next((one for one in (NOT_READ, NOT_READ_BACK) if reason.endswith(one)), None)
    return None if ending is None else reason.removesuffix(ending).split(AND)


class Checkpoint(Value):
    """A named moment of a workspace: its manifest, and the facts that may change.

    ``sequence`` orders checkpoints whatever the clocks say (rule S15). ``damaged`` is the reason
    found by `verify`, ``recovered`` tells that a rebuild of the catalogue brought it back.
    ``deleted_at`` (nanoseconds) is set while a deletion can still be undone.
    """

    _telling = ("id", "name", "kind", "message", "good")

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

    id: ClassVar[Alias[str]] = Alias("manifest.id", "The whole id.")

    @property
    def short_id(self) -> str:
        """The id as lists show it."""
        return short(self.manifest.id)

    kind: ClassVar[Alias[Kind]] = Alias("manifest.kind", "Why the checkpoint was made.")
    message: ClassVar[Alias[str]] = Alias("manifest.message", "What the caller said about it.")

    @property
    def created_at(self) -> datetime:
        """When it was made, in UTC, to the microsecond."""
        from datetime import UTC, datetime, timedelta  # lazily: a save has no use for calendars

        microseconds = self.manifest.created_at // 1000
        return datetime.fromtimestamp(0, tz=UTC) + timedelta(microseconds=microseconds)

    workspace: ClassVar[Alias[str]] = Alias(
        "manifest.workspace", "The real path of the workspace when it was made."
    )
    previous: ClassVar[Alias[str | None]] = Alias("manifest.previous", "The id of the checkpoint before it.")
    tree: ClassVar[Alias[str]] = Alias("manifest.root.tree", "The git tree of its files, in hex.")
    changes: ClassVar[Alias[Counts]] = Alias(
        "manifest.changes", "How many paths changed since the checkpoint before it."
    )
    files: ClassVar[Alias[int]] = Alias("manifest.files", "How many files it holds.")
    ignored: ClassVar[Alias[int]] = Alias("manifest.ignored", "How many entries the ignore rules left out.")
    gaps: ClassVar[Alias[tuple[Gap, ...]]] = Alias("manifest.gaps", "What the checkpoint does not hold.")
    partial: ClassVar[Alias[bool]] = Alias("manifest.partial", "Whether a time budget ended the scan early.")
    actor: ClassVar[Alias[Actor]] = Alias("manifest.actor", "Who brought it about.")
    git: ClassVar[Alias[GitState | None]] = Alias(
        "manifest.git", "What the project's own repository said; None where there was none."
    )
    metrics: ClassVar[Alias[Metrics]] = Alias(
        "manifest.metrics", "What the moment cost, and how the session stood."
    )
    metadata: ClassVar[Alias[Mapping[str, str]]] = Alias("manifest.metadata", "The notes that were attached.")
    session: ClassVar[Alias[str | None]] = Alias(
        "manifest.session", "The id of the session it belongs to; None outside one."
    )
    task: ClassVar[Alias[str | None]] = Alias("manifest.task", "The id of the task that it was made for.")
    moment: ClassVar[Alias[Moment | None]] = Alias(
        "manifest.moment", "Whether it was made before or after its task or turn."
    )

    @property
    def position(self) -> Position | None:
        """Where in its workflow the work stood; None if nobody said."""
        position = self.manifest.progress.position
        return None if position.empty else position

    @property
    def progress(self) -> Progress | None:
        """How far the work had come; None if nobody said."""
        return None if self.manifest.progress.empty else self.manifest.progress

    conversation: ClassVar[Alias[Conversation | None]] = Alias(
        "manifest.conversation", "The conversation up to that moment."
    )
    bytes: ClassVar[Alias[int]] = Alias("manifest.size", "How many bytes its files have.")

    @property
    def files_sound(self) -> bool:
        """Whether no damage to its files is known; the conversation, say, may be damaged all the same."""
        lost = _lost(self.damaged)
        return lost is not None and all(name.startswith(_BESIDE) for name in lost)

    @property
    def progress_sound(self) -> bool:
        """Whether no damage to its progress is known; its files may be damaged all the same."""
        lost = _lost(self.damaged)
        return lost is not None and not any(name.startswith(_PROGRESS) for name in lost)

    @property
    def whole(self) -> bool:
        """Whether a workspace can stand at it: it is complete and no guard (rule T15)."""
        return not self.manifest.partial and self.manifest.kind != "guard"


# What names a checkpoint: a REF, or one that was had before.
Ref = str | Checkpoint

# --- A conversation as a checkpoint holds it (rule P5) ---

CONVERSATION_FORMS: tuple[ConversationForm, ...] = (
    "messages",
    "claude-code",
    "codex",
    "gemini-cli",
    "opencode",
    "lines",
)


class Conversation(Value):
    """Where a conversation's bytes are, and how much of it there is.

    ``tree`` is the git tree of its segments in hex: subtrees of blobs, under numbers, whose bytes, joined in
    the order of their names, are the transcript up to the moment of the checkpoint (``size`` bytes, exactly
    as they were). What is kept beside it lies there too, under names. ``source`` is the file that it was
    read from, None for messages. ``messages`` counts messages as the form defines them.
    """

    tree: str
    form: ConversationForm
    size: int
    messages: int
    source: bytes | None = None


class FileExtent(Value):
    """How a file lies on the disk, ``size`` in bytes: with another device or inode it is another file."""

    device: int
    inode: int
    size: int
    modified_ns: int


class PrefixEvidence(Value):
    """What shows, without reading it all, that a file still begins with what is stored of it.

    ``segments`` are the stored blobs (id and size in bytes) in order, ``sums`` their CRC-32, ``folders``
    the trees of those folders in which no more of them have room. ``digest``
    is that of some windows of the file. ``proven`` tells whose turn it is to be read again and compared
    by id, ``summed`` the same for a comparison by sum. ``beside`` is what is kept beside it: name, stamp,
    tree, blobs. Derived: without it the next save reads all (rule K6).
    """

    generation: str
    place: FileExtent
    form: ConversationForm
    messages: int
    segments: tuple[tuple[bytes, int], ...]
    sums: tuple[int, ...]
    folders: tuple[bytes, ...]
    digest: bytes
    proven: tuple[int, int] = (0, 0)
    summed: tuple[int, int] = (0, 0)
    beside: tuple[tuple[str, bytes, bytes, tuple[bytes, ...]], ...] = ()

    @property
    def size(self) -> int:
        """How many bytes of the file are stored."""
        return sum(size for _, size in self.segments)


# --- Manifests as canonical JSON: ``checkpoint.json`` in every checkpoint's commit ---

_SCHEMA = "lastgood.manifest/1"
# Of those whose progress has a list that lies in parts beside the manifest.
_SCHEMA_WITH_PARTS = "lastgood.manifest/2"
GAP_REASONS: tuple[GapReason, ...] = (
    "too-large",
    "unreadable",
    "unsupported",
    "unstable",
    "budget",
    "withheld",
    "purged",
)
_ACTORS = ("agent", "tool", "person", "lastgood", "unknown")
_OPERATIONS = ("merge", "rebase", "cherry-pick", "bisect", "revert")


GAP = Form(Gap, sparse="size", GapReason=words(*GAP_REASONS))
CHECK = Form(Check, "a verdict")
_GAPS = sequence(GAP)


def _manifest_form(progress: Form[Progress], *, without: str = "") -> Form[Manifest]:
    """Return the form of manifests; ``without`` are fields of git's state that are not read."""
    return Form(
        Manifest,
        "a manifest",
        names={"created_at": "created_ns", "size": "bytes"},
        sparse="session task moment progress conversation state copy_of withheld ignored_paths",
        flat={"root": Form(TreeRef)},
        Kind=words(*KINDS),
        Counts=Form(Counts),
        Gap=GAP,
        Actor=Form(Actor, ActorType=words(*_ACTORS)),
        GitState=Form(
            GitState,
            without=without,
            branch=optional(TEXT),
            GitOperation=words(*_OPERATIONS),
            NestedRepository=Form(NestedRepository),
        ),
        IgnoreState=Form(IgnoreState, sparse="built_in_off"),
        Metrics=Form(Metrics),
        Moment=TEXT,
        Progress=progress,
        Conversation=Form(Conversation, names={"size": "bytes"}, ConversationForm=words(*CONVERSATION_FORMS)),
    )


# By schema: the form, and the one that is read in brief.
_FORMS = {
    _SCHEMA: (_manifest_form(PROGRESS), _manifest_form(BRIEF_PROGRESS, without="dirty")),
    _SCHEMA_WITH_PARTS: (
        _manifest_form(PROGRESS_IN_PARTS),
        _manifest_form(BRIEF_PROGRESS_IN_PARTS, without="dirty"),
    ),
}


def encode(manifest: Manifest) -> bytes:
    """Return a manifest as JSON; equal manifests give equal bytes."""
    schema = _SCHEMA_WITH_PARTS if is_long(manifest.progress) else _SCHEMA
    record = _FORMS[schema][0].write(manifest)
    record |= {"schema": schema, "created_at": iso(manifest.created_at)}
    return dumps(record)


def decode(text: bytes | str, *, brief: bool = False) -> Manifest:
    """Return the manifest that a text holds; a ``brief`` one names no tasks and no paths that git shows.

    Long lists of its progress have to be told where they are stored before they are read. Raises
    `Damaged` if it is none, `Unsupported` if a newer lastgood wrote it.
    """
    record = loads(text, what="a manifest")
    schema = Fields(record, what="a manifest").text("schema")
    if schema not in _FORMS:
        raise Unsupported(
            f"a manifest has the format {schema!r}; this lastgood reads up to {_SCHEMA_WITH_PARTS}",
            hint="use a newer lastgood",
        )
    whole, short = _FORMS[schema]
    manifest = (short if brief else whole).take(record)
    if not is_checkpoint_id(manifest.id):
        raise Damaged("a manifest has no good id", hint="run: lastgood verify --repair")
    return manifest


# What `encode_gaps` makes of none.
NO_GAPS = "[]"


def encode_gaps(gaps: Iterable[Gap]) -> str:
    """Return gaps as JSON text; equal gaps give equal texts."""
    return dumps([GAP.write(gap) for gap in gaps]).decode("ascii")


def decode_gaps(text: str) -> tuple[Gap, ...]:
    """Return the gaps that `encode_gaps` wrote."""
    fields = Fields(loads(f'{{"gaps":{text}}}', what="a list of gaps"), what="a list of gaps")
    return cast("tuple[Gap, ...]", fields.read("gaps", _GAPS))


# --- What came of a check command, and what it says about a checkpoint ---

CHECK_TIMEOUT = 600.0


class CommandResult(Value):
    """What came of a command.

    ``code`` is its exit code if it ``exited``, the number of the signal if it was ``killed``, or if the
    caller was asked to end and it was ``interrupted`` with it, whatever it made of that; else 0.
    ``stopped`` means that it was still running when its time was over. ``tail`` is the end of what it
    wrote to standard output and standard error together. ``fault`` says why it could not start.
    ``left`` is what it had started and left running, which was ended after it. ``key`` is the number of
    the signal that the terminal it had sent it shortly before it ended (Ctrl-C, or a window that closed).
    """

    ending: Ending
    code: int
    seconds: float
    tail: bytes
    fault: str = ""
    left: tuple[Living, ...] = ()
    key: int = 0


class CheckOrder(Value):
    """A check to be made: a program with its arguments, how it is shown, and its time in seconds."""

    words: tuple[str, ...]
    shown: str
    timeout: float = CHECK_TIMEOUT


class CheckReport(Value):
    """A checkpoint with its verdict; ``aside`` tells that the command ran in a copy, not in the workspace."""

    checkpoint: Checkpoint
    good: bool | None
    check: Check
    aside: bool


# --- What a save returns ---


class HealthNote(Value):
    """Something a person should know, with what to do about it."""

    code: str
    message: str
    hint: str


class SaveReport(Value):
    """The outcome of a save; ``checkpoint`` is the one it made, or the one the workspace equals.

    ``new_gaps`` are those that the previous checkpoint did not have (exit code 3). ``notes`` say what
    a person should know of the conversation.
    """

    checkpoint: Checkpoint
    created: bool
    reason: str | None = None
    unchanged_since: str | None = None
    new_gaps: tuple[Gap, ...] = ()
    notes: tuple[HealthNote, ...] = ()


def is_before_turn(checkpoint: Checkpoint) -> bool:
    """Tell whether a checkpoint holds the state before a turn."""
    moment = checkpoint.moment or checkpoint.manifest.metadata.get("moment")
    return checkpoint.kind == "turn" and moment == "before"
