"""A checkpoint: what was held, when, why, and what became of it since."""

from __future__ import annotations

from lastgood.errors import Damaged, Unsupported
from lastgood.ids import is_checkpoint_id, short
from lastgood.model.canonical import Fields, base64_text, dumps, iso, loads, path_value
from lastgood.model.session import Progress, progress_of, written_progress
from lastgood.model.tree import Counts, Gap
from lastgood.value import Value, cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from typing import Literal

    from lastgood.model.session import Living, Position, Task
    from lastgood.model.tree import GapReason

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
    # What the bytes are: messages given by the caller, one JSON object a line; a host's transcript
    # in its own form; or lines of JSON of nobody known.
    ConversationForm = Literal["messages", "claude-code", "codex", "lines"]
    Ending = Literal["exited", "killed", "stopped", "interrupted", "unstarted"]


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


# --- A conversation as a checkpoint holds it (rule P5) ---

CONVERSATION_FORMS: tuple[ConversationForm, ...] = ("messages", "claude-code", "codex", "lines")


class Conversation(Value):
    """Where a conversation's bytes are, and how much of it there is.

    ``tree`` is the git tree of its segments in hex: subtrees of blobs whose bytes, joined in the order of
    their names, are the transcript up to the moment of the checkpoint (``size`` bytes, exactly as
    they were). ``source`` is the file that it was read from, None for messages. ``messages`` counts
    messages as the form defines them.
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
    by id, ``summed`` the same for a comparison by sum. Derived: without it the next save reads all
    (rule K6).
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

    @property
    def size(self) -> int:
        """How many bytes of the file are stored."""
        return sum(size for _, size in self.segments)


# --- Manifests as canonical JSON: ``checkpoint.json`` in every checkpoint's commit ---

VERSION = 1
_SCHEMA = "lastgood.manifest/"
GAP_REASONS: tuple[GapReason, ...] = (
    "too-large",
    "unreadable",
    "unsupported",
    "unstable",
    "budget",
    "withheld",
)
_ACTORS = ("agent", "tool", "person", "lastgood", "unknown")
_OPERATIONS = ("merge", "rebase", "cherry-pick", "bisect", "revert")


def encode(manifest: Manifest) -> bytes:
    """Return a manifest as JSON; equal manifests give equal bytes."""
    record: dict[str, object] = {
        "schema": f"{_SCHEMA}{VERSION}",
        "id": manifest.id,
        "workspace": path_value(manifest.workspace.encode("utf-8", "surrogateescape")),
        "workspace_key": manifest.workspace_key,
        "kind": manifest.kind,
        "message": manifest.message,
        "name": manifest.name,
        "created_at": iso(manifest.created_at),
        "created_ns": manifest.created_at,
        "sequence": manifest.sequence,
        "previous": manifest.previous,
        "tree": manifest.root.tree,
        "modes": manifest.root.modes,
        "changes": manifest.changes.as_dict(),
        "files": manifest.files,
        "bytes": manifest.size,
        "ignored": manifest.ignored,
        "gaps": [gap_record(gap) for gap in manifest.gaps],
        "partial": manifest.partial,
        "private": [path_value(path) for path in manifest.private],
        "forced": [path_value(path) for path in manifest.forced],
        "actor": manifest.actor.as_dict(),
        "git": None if manifest.git is None else git_record(manifest.git),
        "ignore": _ignore_record(manifest.ignore),
        "metrics": manifest.metrics.as_dict(),
        "metadata": dict(manifest.metadata),
    }
    return dumps(record | _work_record(manifest))


def _work_record(manifest: Manifest) -> dict[str, object]:
    """Return what a manifest says of the work; nothing where there is nothing to say."""
    conversation = manifest.conversation
    said: dict[str, object] = {
        "session": manifest.session,
        "task": manifest.task,
        "moment": manifest.moment,
        "progress": None if manifest.progress.empty else written_progress(manifest.progress),
        "conversation": None if conversation is None else _conversation_record(conversation),
        "state": dict(manifest.state) or None,
        "copy_of": manifest.copy_of,
        "withheld": list(manifest.withheld) or None,
    }
    return {key: value for key, value in said.items() if value is not None}


def _conversation_record(conversation: Conversation) -> dict[str, object]:
    return {
        "tree": conversation.tree,
        "form": conversation.form,
        "bytes": conversation.size,
        "messages": conversation.messages,
        "source": None if conversation.source is None else path_value(conversation.source),
    }


def gap_record(gap: Gap) -> dict[str, object]:
    """Return a gap as the interface's JSON has it."""
    record: dict[str, object] = {"path": path_value(gap.path), "reason": gap.reason}
    if gap.size is not None:
        record["size"] = gap.size
    return record


def encode_gaps(gaps: Iterable[Gap]) -> str:
    """Return gaps as JSON text; equal gaps give equal texts."""
    return dumps([gap_record(gap) for gap in gaps]).decode("ascii")


def decode_gaps(text: str) -> tuple[Gap, ...]:
    """Return the gaps that `encode_gaps` wrote."""
    fields = Fields(loads(f'{{"gaps":{text}}}', what="a list of gaps"), what="a list of gaps")
    return tuple(_gap(item) for item in fields.subs("gaps"))


def git_record(git: GitState) -> dict[str, object]:
    """Return a git state as the interface's JSON has it."""
    return {
        "head": git.head,
        "branch": git.branch,
        "dirty": None if git.dirty is None else [path_value(path) for path in git.dirty],
        "operation": git.operation,
        "nested": [{"path": path_value(nested.path), "head": nested.head} for nested in git.nested],
    }


def _ignore_record(ignore: IgnoreState) -> dict[str, object]:
    return {
        "excludes": list(ignore.excludes),
        "includes": list(ignore.includes),
        "info_exclude": base64_text(ignore.info_exclude),
        "global_exclude": base64_text(ignore.global_exclude),
        "readable": ignore.readable,
    }


def decode(text: bytes | str) -> Manifest:
    """Return the manifest that a text holds.

    Raises `Damaged` if it is none, `Unsupported` if a newer lastgood wrote it.
    """
    record, tasks = _read(text)
    fields = Fields(record, what="a manifest")
    version = fields.text("schema").removeprefix(_SCHEMA)
    if version != str(VERSION):
        raise Unsupported(
            f"a manifest has the format {fields.text('schema')!r}; this lastgood reads {_SCHEMA}{VERSION}",
            hint="use a newer lastgood",
        )
    if not is_checkpoint_id(fields.text("id")):
        raise Damaged("a manifest has no good id", hint="run: lastgood verify --repair")
    return Manifest(
        id=fields.text("id"),
        workspace=fields.path("workspace").decode("utf-8", "surrogateescape"),
        workspace_key=fields.text("workspace_key"),
        kind=cast("Kind", fields.one_of("kind", KINDS)),
        message=fields.text("message"),
        name=fields.text_or_none("name"),
        created_at=fields.number("created_ns"),
        sequence=fields.number("sequence"),
        previous=fields.text_or_none("previous"),
        root=TreeRef(tree=fields.text("tree"), modes=fields.text("modes")),
        changes=_changes(fields.sub("changes")),
        files=fields.number("files"),
        size=fields.number("bytes"),
        ignored=fields.number("ignored"),
        gaps=tuple(_gap(item) for item in fields.subs("gaps")),
        partial=fields.flag("partial"),
        private=fields.paths("private"),
        forced=fields.paths("forced"),
        actor=_actor(fields.sub("actor")),
        git=_git(fields.sub_or_none("git")),
        ignore=_ignore(fields.sub("ignore")),
        metrics=_metrics(fields.sub("metrics")),
        metadata=fields.texts_by_name("metadata"),
        session=fields.text_or_none("session"),
        task=fields.text_or_none("task"),
        moment=cast("Moment | None", fields.text_or_none("moment")),
        progress=progress_of(fields.sub_or_none("progress"), known=tasks),
        conversation=_conversation(fields.sub_or_none("conversation")),
        state={} if fields.is_null("state") else fields.texts_by_name("state"),
        copy_of=fields.text_or_none("copy_of"),
        withheld=() if fields.is_null("withheld") else fields.texts("withheld"),
    )


def _read(text: bytes | str) -> tuple[dict[str, object], tuple[Task, ...]]:
    said = b'"progress":' in text if isinstance(text, bytes) else '"progress":' in text
    if not said:
        return loads(text, what="a manifest"), ()
    from lastgood.model.session import read  # lazily: most checkpoints know of no tasks

    return read(text, what="a manifest", within="progress")


def _changes(fields: Fields) -> Counts:
    return Counts(
        added=fields.number("added"), modified=fields.number("modified"), deleted=fields.number("deleted")
    )


def _conversation(fields: Fields | None) -> Conversation | None:
    if fields is None:
        return None
    return Conversation(
        tree=fields.text("tree"),
        form=cast("ConversationForm", fields.one_of("form", CONVERSATION_FORMS)),
        size=fields.number("bytes"),
        messages=fields.number("messages"),
        source=None if fields.is_null("source") else fields.path("source"),
    )


def _gap(fields: Fields) -> Gap:
    reason = cast("GapReason", fields.one_of("reason", GAP_REASONS))
    return Gap(path=fields.path("path"), reason=reason, size=fields.number_or_none("size"))


def _actor(fields: Fields) -> Actor:
    return Actor(
        type=cast("ActorType", fields.one_of("type", _ACTORS)),
        name=fields.text_or_none("name"),
        call=fields.text_or_none("call"),
    )


def _git(fields: Fields | None) -> GitState | None:
    if fields is None:
        return None
    operation = fields.text_or_none("operation")
    if operation is not None:
        fields.one_of("operation", _OPERATIONS)
    return GitState(
        head=fields.text_or_none("head"),
        branch=fields.text_or_none("branch"),
        dirty=None if fields.is_null("dirty") else fields.paths("dirty"),
        operation=cast("Operation | None", operation),
        nested=tuple(
            NestedRepository(path=nested.path("path"), head=nested.text_or_none("head"))
            for nested in fields.subs("nested")
        ),
    )


def _ignore(fields: Fields) -> IgnoreState:
    return IgnoreState(
        excludes=fields.texts("excludes"),
        includes=fields.texts("includes"),
        info_exclude=fields.binary("info_exclude"),
        global_exclude=fields.binary("global_exclude"),
        readable=fields.flag("readable"),
    )


def _metrics(fields: Fields) -> Metrics:
    return Metrics(
        save_ms=fields.decimal("save_ms"),
        stored_bytes=fields.number("stored_bytes"),
        session_seconds=fields.decimal_or_none("session_seconds"),
        tasks_done=fields.number("tasks_done"),
        tasks_failed=fields.number("tasks_failed"),
        tasks_total=fields.number("tasks_total"),
        success_ratio=fields.decimal_or_none("success_ratio"),
        tokens=fields.number_or_none("tokens"),
        memory_bytes=fields.number_or_none("memory_bytes"),
        cpu_seconds=fields.decimal_or_none("cpu_seconds"),
    )


# --- What came of a check command, and what it says about a checkpoint ---

CHECK_TIMEOUT = 600.0


class CommandResult(Value):
    """What came of a command.

    ``code`` is its exit code if it ``exited``, the number of the signal if it was ``killed``, or if the
    caller was asked to end and it was ``interrupted`` with it, whatever it made of that; else 0.
    ``stopped`` means that it was still running when its time was over. ``tail`` is the end of what it
    wrote to standard output and standard error together. ``fault`` says why it could not start.
    ``left`` is what it had started and left running, which was ended after it.
    """

    ending: Ending
    code: int
    seconds: float
    tail: bytes
    fault: str = ""
    left: tuple[Living, ...] = ()


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


# --- What came of a check command, as canonical JSON ---


def check_of(fields: Fields) -> Check:
    """Return what came of a check from its record."""
    return Check(
        command=fields.text("command"),
        exit_code=fields.number_or_none("exit_code"),
        seconds=fields.decimal("seconds"),
        output_tail=fields.text("output_tail"),
        reason=fields.text_or_none("reason"),
    )
