"""Undoable changes, and the journal of the one that is running; both as canonical JSON too."""

from __future__ import annotations

from lastgood.model.canonical import TEXT, Converter, Form, Wrong, sequence, words
from lastgood.model.tree import Entry
from lastgood.settings import SCOPES
from lastgood.value import Value, setters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from lastgood.literals import Action, EventType, Favour, OperationType, PartScope, Result, Scope
    from lastgood.value import OsValue, Text, Timestamp


class Instant(Value):
    """A moment: ``at`` by the clock, which may be set; ``uptime`` by what nobody sets, in nanoseconds.

    ``boot`` is the run of the machine that it was in; both None where that cannot be told.
    """

    at: Timestamp
    boot: str | None = None
    uptime: int | None = None


class Operation(Value):
    """One change that was asked for, and that `undo` can take back (rule T8).

    ``at`` is in nanoseconds since the epoch. ``steps`` are the touched paths with what they held
    before (``have``) and after (``want``); ``checkpoints`` are the ids that a delete removed.
    ``parts`` are what else was changed. ``of`` names the operation that an undo or redo acted on,
    ``session`` the session in which it was done. ``stands`` is the checkpoint at which the workspace stands
    since, ``stood`` the one at which it stood before; None if it did not move (rule T15). ``boot`` and
    ``uptime`` tell that by a clock which nobody sets, where there is one.
    """

    id: str
    workspace_key: str
    type: OperationType
    at: Timestamp
    target: str | None = None
    guard: str | None = None
    undone: bool = False
    steps: tuple[Step, ...] = ()
    checkpoints: tuple[str, ...] = ()
    of: str | None = None
    parts: tuple[Part, ...] = ()
    session: str | None = None
    stands: str | None = None
    stood: str | None = None
    boot: str | None = None
    uptime: int | None = None


class Journal(Value):
    """What must be known to finish or roll back an interrupted restore (rule T7).

    ``operation`` is the id that the operation will have, and part of the name of every temporary
    file (``.lastgood-OPERATION-N``), ``type`` and ``of`` what will be recorded when it ends.
    ``closed`` are directories that have to be opened to work in them, with the permissions that they
    get back.
    """

    operation: str
    type: OperationType
    of: str | None
    started_at: Timestamp
    guard: str
    target_tree: str
    plan: RestorePlan
    session: str | None = None
    closed: Mapping[bytes, int] = {}


# --- A restore before it happens: plain, frozen, printable, made before anything is touched ---

# How the reason of a step begins whose path both sides of a merge changed (rule T17).
CONFLICT = "conflict"
# The reason of an "rmdir" that takes along what is too deep to be kept, because that was asked for.
DISCARDED = "with what is too deep in it to be kept"
# The reason of the step that takes such a one back.
NOT_BACK = "without what was too deep in it to be kept"
# How the reason begins of a path whose content the store has not as it was.
DAMAGED = "damaged in the store: "


class Step(Value):
    """What is to become of one path.

    ``want`` is what the path is to hold (None: nothing), ``have`` what it held when the plan was
    made (None: nothing). ``write`` covers files and links; a write whose ``have`` is of another kind
    sets that aside first. ``forced`` marks a present path that a save would leave out and that the
    guard has to hold all the same (rule T2). ``keep`` and ``skip`` touch nothing and say why.
    """

    path: bytes
    action: Action
    want: Entry | None = None
    have: Entry | None = None
    reason: str | None = None
    forced: bool = False

    # Written out, as an entry's: a plan builds thousands of these, and this takes a third of the time.
    def __init__(
        self,
        *,
        path: bytes,
        action: Action,
        want: Entry | None = None,
        have: Entry | None = None,
        reason: str | None = None,
        forced: bool = False,
    ) -> None:
        _set_path(self, path)
        _set_action(self, action)
        _set_want(self, want)
        _set_have(self, have)
        _set_reason(self, reason)
        _set_forced(self, forced)


_set_path, _set_action, _set_want, _set_have, _set_reason, _set_forced = setters(Step)


class Merged(Value):
    """A path whose content is merged: the blobs of the base and of the target that it is made from.

    The third is what the path's step has, the result what it wants. ``then`` are the bases and targets that
    this is merged with in turn. ``favour`` says whose the places are that both changed, if the plan does not.
    """

    path: bytes
    base: bytes
    target: bytes
    then: tuple[tuple[bytes, bytes], ...] = ()
    favour: Favour | None = None


class RestorePlan(Value):
    """Everything a restore will do, in order: directories, writes, modes, deletions, the rest; then parts.

    ``id`` is derived from the content, so that the same target and workspace give the same id
    (rule T16). ``paths`` limits the files, ``()`` for the whole workspace. ``base`` is the checkpoint
    since which changes are kept in a merge (rule T17), None where nothing is merged.
    """

    id: str
    target: str
    workspace_key: str
    paths: tuple[bytes, ...]
    steps: tuple[Step, ...]
    discard: bool = False
    force: bool = False
    scopes: tuple[Scope, ...] = ("files",)
    parts: tuple[Part, ...] = ()
    base: str | None = None
    favour: Favour | None = None
    merged: tuple[Merged, ...] = ()

    def of(self, *actions: Action) -> tuple[Step, ...]:
        """Return the steps with one of some actions, in order."""
        return tuple(step for step in self.steps if step.action in actions)

    @property
    def whole(self) -> bool:
        """Whether all files come to be as they were at the target: the workspace then stands there."""
        return not self.paths and "files" in self.scopes and self.base is None

    @property
    def deletions(self) -> int:
        """How many files the plan takes away."""
        return len(self.of("delete"))

    @property
    def empty(self) -> bool:
        """Whether nothing would be touched."""
        return not self.parts and not self.of("write", "delete", "mkdir", "rmdir", "chmod")

    @property
    def conflicts(self) -> tuple[bytes, ...]:
        """The paths that both sides of a merge changed, each in its way."""
        return tuple(step.path for step in self.steps if (step.reason or "").startswith(CONFLICT))


class Outcome(Value):
    """What became of one path: the report's line (rule T10).

    ``kept`` is where something lies now, outside the workspace, that somebody may have been writing to;
    ``left`` is a path of the workspace at which what was to go could not be taken away (rule T12b).
    """

    path: bytes
    action: Action
    result: Result
    reason: Text | None = None
    kept: bytes | None = None
    left: bytes | None = None

    # Written out, as a step's.
    def __init__(
        self,
        *,
        path: bytes,
        action: Action,
        result: Result,
        reason: str | None = None,
        kept: bytes | None = None,
        left: bytes | None = None,
    ) -> None:
        _put_path(self, path)
        _put_action(self, action)
        _put_result(self, result)
        _put_reason(self, reason)
        _put_kept(self, kept)
        _put_left(self, left)


_put_path, _put_action, _put_result, _put_reason, _put_kept, _put_left = setters(Outcome)


# --- What a restore changes beside files: the progress, the conversation, the project's HEAD and index ---


class Part(Value):
    """One thing beside files that a restore changes, as plain JSON that its own module understands.

    ``before`` is how it stood when the plan was made, ``after`` how it is to stand; both say enough
    to bring either state about again, after a crash too, so that undo is the part turned round.
    """

    scope: PartScope
    before: Mapping[str, object]
    after: Mapping[str, object]

    def turned(self) -> Part:
        """Return the way back."""
        return Part(scope=self.scope, before=self.after, after=self.before)


class PartOutcome(Value):
    """What became of a part. ``reason`` says why it was not restored; ``details`` is for reports."""

    scope: PartScope
    result: Literal["restored", "kept", "failed", "planned"]
    reason: Text | None = None
    details: Mapping[str, OsValue] = {}


# --- What observers are told, after the fact ---


class Event(Value):
    """Something that happened; ``report`` is what the verb returned, or the error it raised.

    ``began`` and ``ended`` are in nanoseconds since the epoch. ``attempted`` says of a failure what it
    would have been.
    """

    type: EventType
    workspace: str
    report: object
    began: int | None = None
    ended: int | None = None
    attempted: EventType | None = None


# --- Plans, operations and the restore journal as canonical JSON ---

VERSION = 1
_TYPES = words("restore", "delete", "prune", "undo", "redo")


class _Closed(Value):
    """A closed directory of a journal."""

    path: bytes
    mode: int


def _scopes(given: object) -> tuple[Scope, ...]:
    named = sequence(TEXT).read(given)
    if not set(named) <= set(SCOPES):
        raise Wrong("a list of " + ", ".join(SCOPES))
    return tuple(scope for scope in SCOPES if scope in named)


def _write_closed(closed: Mapping[bytes, int]) -> object:
    return [_CLOSED.write(_Closed(path=path, mode=mode)) for path, mode in closed.items()]


_STEP = Form(
    Step,
    Action=words("write", "delete", "mkdir", "rmdir", "chmod", "keep", "skip"),
    Entry=Form(Entry, EntryKind=words("file", "link", "directory")),
)
PART = Form(Part, PartScope=words(*SCOPES[1:]))
_CLOSED = Form(_Closed)
# Records of old name no parts, scopes or closed directories, no place where the workspace stands, no boot.
OPERATION = Form(
    Operation,
    "an operation",
    version=VERSION,
    late="parts",
    sparse="stands stood boot uptime",
    OperationType=_TYPES,
    Step=_STEP,
    Part=PART,
)
_PLAN = Form(
    RestorePlan,
    late="scopes parts",
    without="merged",
    scopes=Converter(_scopes, list),
    Step=_STEP,
    Part=PART,
    Favour=words("ours", "theirs", "markers"),
)
JOURNAL = Form(
    Journal,
    "a restore journal",
    version=VERSION,
    late="closed",
    OperationType=_TYPES,
    RestorePlan=_PLAN,
    closed=Converter(
        lambda given: {one.path: one.mode for one in sequence(_CLOSED).read(given)}, _write_closed
    ),
)
