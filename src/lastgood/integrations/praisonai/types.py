"""The values of `praisonaiagents.checkpoints`: fields in its order, and beside them what its guide names."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import Enum
from hashlib import sha256
from typing import Any, ClassVar, Self, SupportsIndex

from lastgood.errors import LastgoodError, Usage
from lastgood.model.report import DiffReport
from lastgood.model.report import FileDiff as Line
from lastgood.workspace import Workspace
from lastgood.workspace.arguments import plain

Read = Callable[[bytes], bytes | None]


SHORT = 8
DEFAULT_FILE_SIZE = 2 * 1024 * 1024
DEFAULT_EXCLUDES = (
    ".git",
    ".praisonai",
    "__pycache__",
    "*.pyc",
    ".env",
    "node_modules",
    ".venv",
    "venv",
    "*.log",
)
USER_NAME = "PraisonAI Checkpoints"
USER_EMAIL = "checkpoints@praison.ai"
_FOLDER_DIGITS = 12


class CheckpointEvent(str, Enum):  # noqa: UP042 - users print these, and a StrEnum prints otherwise
    """What a service tells its handlers of."""

    INITIALIZED = "initialized"
    CHECKPOINT_CREATED = "checkpoint_created"
    CHECKPOINT_RESTORED = "checkpoint_restored"
    CHECKPOINTS_PRUNED = "checkpoints_pruned"
    ERROR = "error"
    # Of these the guide tells: two other names, and one more event.
    CREATED = CHECKPOINT_CREATED
    RESTORED = CHECKPOINT_RESTORED
    DELETED = "checkpoint_deleted"


@dataclass
class CheckpointConfig:
    """Where a service works and what it leaves out.

    One that is handed to a service as ``config`` needs no workspace: the service names it.
    ``max_file_size`` is in bytes; 0 is no limit, and its default means lastgood's own. ``max_checkpoints``
    below 1 is no limit either. ``exclude_patterns`` are gitignore patterns. ``user_name`` and
    ``user_email`` are kept for those who read them: no checkpoint needs a git identity.
    """

    workspace_dir: str = "."
    storage_dir: str | None = None
    enabled: bool = True
    auto_checkpoint: bool = True
    max_checkpoints: int = 100
    user_name: str = field(default_factory=lambda: os.environ.get("PRAISONAI_GIT_USER_NAME", USER_NAME))
    user_email: str = field(default_factory=lambda: os.environ.get("PRAISONAI_GIT_USER_EMAIL", USER_EMAIL))
    max_file_size: int = DEFAULT_FILE_SIZE
    exclude_patterns: list[str] = field(default_factory=lambda: list(DEFAULT_EXCLUDES))

    def __post_init__(self) -> None:
        _refuse_no_patterns(self.exclude_patterns)
        _refuse_no_number(self.max_checkpoints, "max_checkpoints")
        _refuse_no_number(self.max_file_size, "max_file_size")
        self.exclude_patterns = list(self.exclude_patterns)
        self.workspace_dir = os.path.expanduser(_path(self.workspace_dir))
        given = "" if self.storage_dir is None else _path(self.storage_dir)
        self.storage_dir = os.path.expanduser(given) if given else os.path.join(_home(), "checkpoints")
        # A relative path means what it meant when it was said, wherever the program goes afterwards.
        self._absolute = _absolute(self.workspace_dir)
        self._storage = _absolute(self.storage_dir)

    @property
    def root(self) -> str:
        """The workspace's real path: however it is spelled, it is one workspace."""
        return os.path.realpath(self._absolute)

    @property
    def place(self) -> str:
        """The workspace's absolute path, spelled as it was given."""
        return self._absolute

    def get_checkpoint_dir(self) -> str:
        """Return the folder of this workspace's checkpoints."""
        digits = sha256(os.fsencode(self.root)).hexdigest()[:_FOLDER_DIGITS]
        return os.path.join(self._storage, digits)


class ChangedFiles(list[str]):
    """The paths of changed files; compares, counts and formats as their number does."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return len(self) == other if isinstance(other, (int, float)) else super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: object) -> bool:
        return len(self) < other if isinstance(other, (int, float)) else super().__lt__(_texts(other))

    def __le__(self, other: object) -> bool:
        return len(self) <= other if isinstance(other, (int, float)) else super().__le__(_texts(other))

    def __gt__(self, other: object) -> bool:
        return len(self) > other if isinstance(other, (int, float)) else super().__gt__(_texts(other))

    def __ge__(self, other: object) -> bool:
        return len(self) >= other if isinstance(other, (int, float)) else super().__ge__(_texts(other))

    def __index__(self) -> int:
        return len(self)

    __int__ = __index__

    def __add__(self, other: Any) -> Any:  # noqa: ANN401 - a list's sum, or a number's
        return len(self) + other if isinstance(other, int) else super().__add__(other)

    def __radd__(self, other: int) -> int:
        return other + len(self)

    def __str__(self) -> str:
        return str(len(self))

    def __format__(self, form: str) -> str:
        return format(len(self), form)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]:
        return (type(self), (list(self),))


@dataclass
class Checkpoint:
    """A moment of the workspace that can be had back.

    ``id`` are the digits of lastgood's id, so that its command line takes them too. ``files_changed``
    are the paths that differ from the checkpoint before; it also reads as their number. ``metadata``
    says what else is known: ``lastgood_id``, ``kind``, ``files``, ``bytes``, and under ``gaps`` each path
    that it does not hold, with the reason.
    """

    id: str
    short_id: str = ""
    message: str = ""
    timestamp: datetime = field(default_factory=lambda: datetime.now(tz=UTC))
    files_changed: ChangedFiles = field(default_factory=ChangedFiles)
    insertions: int = 0
    deletions: int = 0
    step: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        self.short_id = self.short_id or self.id[:SHORT]
        given: object = self.files_changed
        if isinstance(given, list):  # a plain number, as the original has it, stays one
            self.files_changed = ChangedFiles(given)

    @classmethod
    def from_git_commit(cls, commit_hash: str, message: str, timestamp: str | datetime) -> Self:
        """Return a checkpoint of what git tells of a commit."""
        moment = datetime.fromisoformat(timestamp) if isinstance(timestamp, str) else timestamp
        return cls(id=commit_hash, short_id=commit_hash[:SHORT], message=message, timestamp=moment)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-compatible values."""
        record = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "metadata"}
        return record | {"timestamp": self.timestamp.isoformat(), "files_changed": int(self.files_changed)}


@dataclass
class FileDiff:
    """One file that differs: added, modified or deleted.

    The contents are given of text files up to 1 MiB.
    """

    path: str
    absolute_path: str
    status: str
    additions: int = 0
    deletions: int = 0
    before_content: str | None = None
    after_content: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-compatible values, without the contents."""
        shown = ("path", "absolute_path", "status", "additions", "deletions")
        return {key: getattr(self, key) for key in shown}


@dataclass
class CheckpointDiff:
    """What differs between a checkpoint and another, or the workspace (``to_checkpoint`` is None).

    ``from_id`` and ``to_id`` are whole ids, ``diff_content`` a patch that ``git apply`` takes (bytes that
    are no UTF-8 are lone surrogates in it). ``error`` says why there is no answer.
    """

    from_checkpoint: str
    to_checkpoint: str | None
    files: list[FileDiff] = field(default_factory=list)
    total_additions: int = 0
    total_deletions: int = 0
    from_id: str | None = field(default=None, kw_only=True)
    to_id: str | None = field(default=None, kw_only=True)
    diff_content: str = field(default="", kw_only=True)
    error: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.total_additions = sum(one.additions for one in self.files)
        self.total_deletions = sum(one.deletions for one in self.files)
        self.from_id = self.from_checkpoint if self.from_id is None else self.from_id
        self.to_id = self.to_checkpoint if self.to_id is None else self.to_id

    @property
    def added_files(self) -> list[str]:
        """The paths that are new."""
        return self._paths("added")

    @property
    def modified_files(self) -> list[str]:
        """The paths whose content or mode changed."""
        return self._paths("modified")

    @property
    def deleted_files(self) -> list[str]:
        """The paths that are gone."""
        return self._paths("deleted")

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-compatible values."""
        return {
            "from_checkpoint": self.from_checkpoint,
            "to_checkpoint": self.to_checkpoint,
            "files": [one.to_dict() for one in self.files],
            "total_additions": self.total_additions,
            "total_deletions": self.total_deletions,
        }

    def _paths(self, status: str) -> list[str]:
        return [one.path for one in self.files if one.status == status]


@dataclass(eq=False)
class CheckpointResult:
    """What came of an operation; as a text it is the checkpoint's id."""

    success: bool
    checkpoint: Checkpoint | None = None
    error: str | None = None
    _held = ""

    @classmethod
    def ok(cls, checkpoint: Checkpoint) -> Self:
        """Return a success."""
        return cls(success=True, checkpoint=checkpoint)

    @classmethod
    def fail(cls, error: str) -> Self:
        """Return a failure."""
        return cls(success=False, error=error)

    @classmethod
    def unchanged(cls, error: str, *, held: str) -> Self:
        """Return the failure of a save of nothing new, with the id of what holds these files already."""
        result = cls.fail(error)
        result._held = held  # noqa: SLF001 - one of its own
        return result

    @property
    def id(self) -> str:
        """The checkpoint's id, of a save of nothing new that of the one before; empty if there is none."""
        return self._held if self.checkpoint is None else self.checkpoint.id

    def __str__(self) -> str:
        return self.id

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return bool(self.id) and self.id == other
        if not isinstance(other, CheckpointResult):
            return NotImplemented
        mine = (self.success, self.checkpoint, self.error)
        return mine == (other.success, other.checkpoint, other.error)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]


def _texts(other: object) -> list[str]:
    assert isinstance(other, list)
    return other


def _refuse_no_patterns(patterns: object) -> None:
    """Refuse one text in place of several: each letter would be a pattern, and ``*`` leaves all out."""
    if isinstance(patterns, (str, bytes)) or not isinstance(patterns, Iterable):
        raise Usage("exclude_patterns is no list", hint='give a list of texts: exclude_patterns=["*.log"]')
    if any(not isinstance(one, str) for one in patterns):
        raise Usage(
            "a pattern of exclude_patterns is no text", hint='for example: exclude_patterns=["*.log"]'
        )


def _refuse_no_number(given: object, what: str) -> None:
    """Refuse what is no whole number: by it checkpoints go, or files are left out."""
    if not isinstance(given, int) or isinstance(given, bool):
        raise Usage(f"{what} is {type(given).__name__}, not int", hint=f"give {what} as a whole number")


def _path(given: str | bytes | os.PathLike[str]) -> str:
    """Return a path as text, "" for an empty one; `Usage` or `Invalid` for what is none."""
    return os.fsdecode(plain(given)) if given != "" else ""


def _absolute(path: str) -> str:
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)


def _home() -> str:
    """Return PraisonAI's own folder of the user, which may be one of before."""
    named = os.environ.get("PRAISONAI_HOME")
    if named:
        return os.path.expanduser(named)
    own, old = (os.path.join(os.path.expanduser("~"), name) for name in (".praisonai", ".praison"))
    if os.path.exists(own):
        return own
    if os.path.exists(old):
        return old
    place = os.environ.get("XDG_DATA_HOME", "")
    return os.path.join(place, "praisonai") if os.path.isabs(place) else own


def paths_of(files: Iterable[FileDiff]) -> ChangedFiles:
    """Return the paths of files that differ."""
    return ChangedFiles(one.path for one in files)


# --- Differences as PraisonAI's programs read them: three statuses, text before and after, one patch ---

_LARGEST = 1 << 20
_ALTOGETHER = 32 << 20
_LOOKED_AT = 8000


class Contents:
    """Reads what differs, as text, as long as that is a reasonable amount."""

    def __init__(self, before: Read, after: Read) -> None:
        self._before = before
        self._after = after
        self._left = _ALTOGETHER

    def before(self, path: bytes) -> str | None:
        """Return what was in a file; None if it is no text, or too much."""
        return self._text(self._before(path))

    def after(self, path: bytes) -> str | None:
        """Return what is in a file."""
        return self._text(self._after(path))

    def _text(self, content: bytes | None) -> str | None:
        if content is None or len(content) > min(_LARGEST, self._left) or b"\0" in content[:_LOOKED_AT]:
            return None
        self._left -= len(content)
        try:
            return content.decode()
        except UnicodeDecodeError:
            return None


def stored(workspace: Workspace, ref: str) -> Read:
    """Return a reader of the files of a checkpoint."""

    def read(path: bytes) -> bytes | None:
        try:
            return workspace.read(ref, path, private=False)
        except LastgoodError:  # no file, one that is private or damaged: the difference is told all the same
            return None

    return read


def present(workspace: Workspace) -> Read:
    """Return a reader of the files of the workspace; links are never followed."""
    root = os.fsencode(workspace.path)

    def read(path: bytes) -> bytes | None:
        full = os.path.join(root, path)
        try:
            if os.path.realpath(os.path.dirname(full)) != os.path.dirname(full):
                return None
            if os.path.islink(full):
                return os.readlink(full)
            return _content(full)
        except OSError:  # gone, changed meanwhile, or not readable
            return None

    return read


def _content(path: bytes) -> bytes | None:
    """Return what a regular file holds, as far as it is asked for."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        parts = []
        while part := os.read(file, _LARGEST + 1):
            parts.append(part)
            if sum(map(len, parts)) > _LARGEST:
                break
        return b"".join(parts)
    finally:
        os.close(file)


def files_of(report: DiffReport, *, place: str, contents: Contents | None) -> list[FileDiff]:
    """Return the files that differ, by path; a renamed one is gone here and new there."""
    parts = [part for line in report.files for part in _parts(line)]
    return [_file(*part, place=place, contents=contents) for part in sorted(parts, key=lambda one: one[0])]


def _parts(line: Line) -> Iterator[tuple[bytes, str, Line]]:
    if line.status == "renamed" and line.old_path is not None:
        yield line.old_path, "deleted", line
        yield line.path, "added", line
    else:
        known = line.status in {"added", "deleted"}
        yield line.path, line.status if known else "modified", line


def _file(path: bytes, status: str, line: Line, *, place: str, contents: Contents | None) -> FileDiff:
    name = os.fsdecode(path)
    before = contents.before(path) if contents is not None and status != "added" else None
    after = contents.after(path) if contents is not None and status != "deleted" else None
    additions, deletions = line.additions, line.deletions
    if line.status == "renamed":
        additions, deletions = _lines(after), _lines(before)
    return FileDiff(
        path=name,
        absolute_path=os.path.join(place, name),
        status=status,
        additions=additions,
        deletions=deletions,
        before_content=before,
        after_content=after,
    )


def _lines(text: str | None) -> int:
    return 0 if not text else text.count("\n") + (not text.endswith("\n"))
