"""What the verbs return: the fields of the published JSON, as frozen values."""

from __future__ import annotations

from lastgood.model.checkpoint import Actor
from lastgood.paths import is_beyond, is_git_alias, within
from lastgood.value import Alias, Value, cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import ClassVar, Literal

    from lastgood.literals import (
        ChangeStatus,
        DiffStatus,
        Direction,
        Doubt,
        FindingState,
        Kind,
        LeftBranch,
        NotHeldReason,
        Result,
        RewindUnit,
        SessionState,
        State,
    )
    from lastgood.model.checkpoint import Checkpoint, GitState, HealthNote, SaveReport
    from lastgood.model.operation import Operation, Outcome, PartOutcome, RestorePlan
    from lastgood.model.session import Effect, Position, Progress, Session, SessionReport, Task
    from lastgood.model.tree import Counts, Gap
    from lastgood.value import OsText, Text, Timestamp


# The reason of a path that was written with the marks of its conflicts in it.
MARKED = "conflict: marked in the file"
# How that of one begins that was merged but for the places that both sides changed.
PARTLY = "conflict: kept as it is where both changed it"

_COUNTED = ("write", "delete", "mkdir", "rmdir", "chmod", "keep", "skip", "fail")
_UNDONE = {"failed": "fail", "skipped": "skip", "kept": "keep"}


def counts_of(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Return how many paths had each action; those failed, skipped or kept count as that alone."""
    counts = dict.fromkeys(_COUNTED, 0)
    for outcome in outcomes:
        counts[_UNDONE.get(outcome.result, outcome.action)] += 1
    return counts


def planned_outcomes(plan: RestorePlan) -> tuple[Outcome, ...]:
    """Return the lines of a report on a plan that is not carried out."""
    from lastgood.model.operation import Outcome  # lazily: a save needs the other reports, and no plan

    untouched: dict[str, Result] = {"keep": "kept", "skip": "skipped"}
    return tuple(
        Outcome(
            path=step.path,
            action=step.action,
            result=untouched.get(step.action, "planned"),
            reason=step.reason,
        )
        for step in plan.steps
    )


class ListedEntry(Value):
    """One path of a checkpoint. ``mode`` holds the permission bits; ``oid`` is a blob id in hex.

    Of what is ``lost``, by damage of the store, the size or what lies below is not known.
    """

    path: bytes
    mode: int
    kind: str
    size: int
    oid: str
    lost: bool = False


class FileDiff(Value):
    """One path that differs. Line counts are 0 for binary files; a ``large`` one counts as binary.

    They are 0, too, for a ``private`` one of which nothing but the name was to be told, and for a
    ``damaged`` one: what a checkpoint has of it cannot be read.
    """

    path: bytes
    status: DiffStatus
    old_path: bytes | None = None
    additions: int = 0
    deletions: int = 0
    binary: bool = False
    large: bool = False
    private: bool = False
    damaged: bool = False


class Unmatched(Value):
    """A path that was asked for and that neither side of a comparison holds.

    ``left_out`` tells that it is there, ignored or a gap; ``near`` is the path that may have been meant.
    """

    path: bytes
    left_out: bool = False
    near: bytes | None = None


class DiffReport(Value):
    """What differs between a checkpoint and another, or the workspace (``to`` is None).

    ``patch`` is a patch that ``git apply`` takes, in bytes; None unless it was asked for. Of binary files,
    of private ones unless those were asked for, and of those over 8 MiB, it has a line that says so, which
    changes nothing when it is applied.
    ``unmatched`` are those of the paths asked for that neither side holds.
    """

    from_: str
    to: str | None
    files: tuple[FileDiff, ...]
    patch: bytes | None = None
    unmatched: tuple[Unmatched, ...] = ()


class Occurrences(Value):
    """How often a text was in a file ``before`` a checkpoint, and is ``after`` it."""

    path: bytes
    before: int
    after: int


class PathChange(Value):
    """A checkpoint at which a path is not what it was before.

    ``size`` is in bytes, None for a directory and for what is gone. ``files`` counts the changed files, of
    which there may be several in a directory; the lines are theirs, 0 for binary and large ones. Where a
    text was looked for, these are the files that have it more or less often than before: ``occurrences``.
    """

    checkpoint: Checkpoint
    status: DiffStatus
    size: int | None = None
    files: int = 1
    additions: int = 0
    deletions: int = 0
    binary: bool = False
    occurrences: tuple[Occurrences, ...] = ()


class LogReport(Value):
    """The checkpoints at which a path changed, newest first.

    Where a text was looked for, ``unsearched`` are the private files that were passed over, and ``damaged``
    those of which a version could not be read; the path itself where that is so of a whole checkpoint, or a
    folder in it.
    """

    path: bytes
    changes: tuple[PathChange, ...]
    unsearched: tuple[bytes, ...] = ()
    damaged: tuple[bytes, ...] = ()


class Blamed(Value):
    """Who changed something last, and at which checkpoint that came in; without one it is not saved yet.

    ``label`` says for what: a prompt, a tool's call, a task, a message. ``initial`` tells that it was there
    already when the first checkpoint that is left was made. Who that was nobody knows then. ``why`` says why
    nobody knows of anything else.
    """

    checkpoint: str | None = None
    at: Timestamp | None = None
    kind: Kind | None = None
    session: str | None = None
    actor: Actor = Actor()
    label: Text = ""
    initial: bool = False
    why: Doubt | None = None


class BlamedLines(Value):
    """Lines of a file that one change brought, the first and the last by number; ``path`` is its name then.

    A file that is told as a whole has no numbers.
    """

    path: bytes
    by: Blamed
    first: int | None = None
    last: int | None = None


class BlamedFile(Value):
    """A file of a folder, with who changed it last."""

    path: bytes
    by: Blamed


class BlameReport(Value):
    """Who changed a path last: of a file by ``lines``, of a folder by ``files``.

    ``whole`` tells of a file that is no text, or too large. ``content`` are its lines as they are now, None
    of one that is told as a whole.
    """

    path: bytes
    kind: Literal["file", "directory"]
    whole: bool = False
    lines: tuple[BlamedLines, ...] = ()
    files: tuple[BlamedFile, ...] = ()
    content: tuple[bytes, ...] | None = None


class HeadMoved(Value):
    """How the project's HEAD differs from the checkpoint's; ``commits`` is None if it cannot be told.

    A branch is None where HEAD is detached, or there is no repository. ``left_branch`` says why HEAD could
    not stand on the branch of then again without that being moved, None if it could.
    """

    commits: int | None
    from_: str | None
    to: str | None
    from_branch: OsText | None = None
    to_branch: OsText | None = None
    left_branch: LeftBranch | None = None


class NotHeld(Value):
    """A path that was there at a checkpoint, is not there now, and that no restore can bring back.

    It was ``ignored``, is the ``.git`` of a nested ``repository`` at ``head``, or was a gap of the
    checkpoint, of ``size`` bytes, for that reason. ``changed``: it is there, in another size, and stays so.
    """

    path: bytes
    reason: NotHeldReason
    head: str | None = None
    size: int | None = None
    changed: bool = False

    @property
    def omission(self) -> bool:
        """Whether it was to come back (exit code 3): not what was ignored or purged, nor a socket or pipe."""
        # The last hold nothing, and their program makes them anew.
        if self.changed or self.reason in {"ignored", "repository", "purged"}:
            return False
        return (
            self.reason != "unsupported"
            or is_beyond(self.path)
            or is_git_alias(self.path.rpartition(b"/")[2])
        )


class RestoreReport(Value):
    """What a restore did, or would do (``dry_run``), path by path.

    ``planned`` is what was to happen. ``operation`` can be undone. ``directory`` is where
    ``restore --to`` wrote. ``conversation`` says where it came back to, ``progress`` is the record
    now in force, ``irreversible`` are steps of the work that the restore does not take back. ``not_held``
    says what a restore could not bring back, as far as the checkpoint names it, of some paths only what is a
    gap at or below them; ``not_held_unnamed`` counts what was ignored then beyond that: nobody knows which of
    it is missing.
    ``folder_made``: the workspace's folder was gone. ``index_differs``: HEAD is where it was, and what is
    staged is not what was staged then; told of a restore that was carried out. ``changed_beside`` is what a
    rewind takes back although no turn and no run of it changed it; None where that cannot be told.
    """

    planned: RestorePlan
    target: str
    outcomes: tuple[Outcome, ...]
    guard: str | None = None
    operation: str | None = None
    dry_run: bool = False
    head_moved: HeadMoved | None = None
    index_differs: bool = False
    directory: OsText | None = None
    parts: tuple[PartOutcome, ...] = ()
    conversation: Mapping[str, object] | None = None
    progress: Progress | None = None
    irreversible: tuple[Effect, ...] = ()
    not_held: tuple[NotHeld, ...] = ()
    not_held_unnamed: int = 0
    folder_made: bool = False
    changed_beside: tuple[ChangedBeside, ...] | None = ()

    scopes: ClassVar[Alias[tuple[str, ...]]] = Alias(
        "planned.scopes", "What was asked for: files, conversation, progress, git."
    )
    plan: ClassVar[Alias[str]] = Alias("planned.id", "The id of the plan.")
    files: ClassVar[Alias[tuple[Outcome, ...]]] = Alias("outcomes", "What became of each path.")

    @property
    def counts(self) -> dict[str, int]:
        """How many paths were written, deleted, kept and so on."""
        return counts_of(self.outcomes)

    @property
    def omissions(self) -> tuple[Outcome, ...]:
        """The paths that were skipped, failed, or hold marks of a conflict (exit code 3)."""
        return tuple(outcome for outcome in self.outcomes if _is_omission(outcome))

    conflicts: ClassVar[Alias[tuple[bytes, ...]]] = Alias(
        "planned.conflicts", "The paths that both sides of a merge changed, each in its way."
    )

    @property
    def complete(self) -> bool:
        """Whether everything that was asked for was done (exit code 0)."""
        # What a merge cannot bring back may have been taken away since its base, which it keeps.
        lacking = not self.planned.base and any(one.omission for one in self.not_held)
        return (
            not self.omissions
            and not lacking
            and all(part.result in {"restored", "planned"} for part in self.parts)
        )


def _is_omission(outcome: Outcome) -> bool:
    reason = outcome.reason or ""
    return outcome.result in {"skipped", "failed"} or reason == MARKED or reason.startswith(PARTLY)


class RewindExtent(Value):
    """How far back a rewind goes: to before so many turns, runs, or states of the files.

    ``turns`` are the checkpoints of the turns that it takes back, ``under_way`` those turns that nobody saw
    end, which have none yet. ``runs`` are the checkpoints at the start of the runs, ``saves`` those that
    hold what else was changed and goes too; all newest first. ``steps`` is the number that leads there;
    ``idle`` are those of the turns that changed no file, and are not in it.
    """

    target: Checkpoint
    unit: RewindUnit
    runs: tuple[Checkpoint, ...] = ()
    saves: tuple[Checkpoint, ...] = ()
    turns: tuple[Checkpoint, ...] = ()
    under_way: tuple[Effect, ...] = ()
    steps: int = 1
    idle: tuple[Checkpoint, ...] = ()


class ChangedBeside(Value):
    """A path that a rewind takes back although no turn and no run that it counts changed it.

    Of a rollback (`recover`) it is one that another session saved as changed since.

    ``checkpoint`` holds the change; None of one that is not saved yet. ``why`` says why nobody knows whose
    it is.
    """

    path: bytes
    checkpoint: Checkpoint | None
    actor: Actor
    why: Doubt | None = None


class UndoReport(Value):
    """What an undo or redo did."""

    operation: Operation
    guard: str | None = None
    outcomes: tuple[Outcome, ...] = ()
    parts: tuple[PartOutcome, ...] = ()

    @property
    def omissions(self) -> tuple[Outcome, ...]:
        """The paths that were skipped, failed, or hold marks of a conflict (exit code 3)."""
        return tuple(outcome for outcome in self.outcomes if _is_omission(outcome))

    @property
    def complete(self) -> bool:
        """Whether everything that was asked for was done (exit code 0)."""
        return not self.omissions and all(part.result != "failed" for part in self.parts)

    files: ClassVar[Alias[tuple[Outcome, ...]]] = Alias("outcomes", "What became of each path.")


class UndoPlan(Value):
    """What an undo, or a redo, would do; nothing was touched.

    ``operation`` is the one that it is about. Of a delete or prune ``checkpoints`` are those that would come
    back, or go again, and ``planned`` has no steps.
    """

    direction: Direction
    operation: Operation
    planned: RestorePlan
    outcomes: tuple[Outcome, ...] = ()
    parts: tuple[PartOutcome, ...] = ()
    checkpoints: tuple[str, ...] = ()

    plan: ClassVar[Alias[str]] = Alias("planned.id", "The id of the plan.")
    files: ClassVar[Alias[tuple[Outcome, ...]]] = Alias("outcomes", "What would become of each path.")
    conflicts: ClassVar[Alias[tuple[bytes, ...]]] = Alias(
        "planned.conflicts", "The paths that were changed since, too, each in its way."
    )

    @property
    def counts(self) -> dict[str, int]:
        """How many paths would be written, deleted, kept and so on."""
        return counts_of(self.outcomes)


class PurgedCheckpoint(Value):
    """A checkpoint that holds contents which are to go, and the paths at which it does."""

    id: str
    workspace: OsText
    workspace_key: str
    paths: tuple[bytes, ...]


class PurgePlan(Value):
    """What a purge takes away: contents by blob id in hex, ``size`` bytes together, all that a path ever had.

    Whatever else has such a content loses it, too. ``again`` tells that it was purged before, and nothing
    is left of it but perhaps bytes that are not freed. ``spared_contents`` stay, also at the path: the
    workspace has them at the paths ``spared`` too, and a purge everywhere was not asked for.
    """

    path: bytes
    workspace_key: str
    contents: tuple[str, ...]
    size: int
    checkpoints: tuple[PurgedCheckpoint, ...]
    again: bool = False
    spared: tuple[bytes, ...] = ()
    spared_contents: tuple[str, ...] = ()

    @property
    def others(self) -> tuple[str, ...]:
        """The other workspaces that hold some of it, by path."""
        held = (one for one in self.checkpoints if one.workspace_key != self.workspace_key)
        return tuple(dict.fromkeys(one.workspace for one in held))

    @property
    def elsewhere(self) -> tuple[bytes, ...]:
        """The other paths that have a content which the path ever had, ``spared`` or not."""
        held = {path for one in self.checkpoints for path in one.paths} | set(self.spared)
        return tuple(sorted(path for path in held if not within(path, self.path)))


class PurgeReport(Value):
    """What a purge took away, and the bytes freed.

    ``not_searched`` names what of the store may have copies of its own: ``damaged`` files set aside, and
    files ``kept`` that a restore found in use.
    """

    plan: PurgePlan
    freed_bytes: int
    not_searched: tuple[str, ...] = ()


class DeleteReport(Value):
    """Which checkpoints a delete removed; ``free_after`` (nanoseconds) is when bytes may be freed.

    ``needed`` gives those that an operation needs to be undone or done again, with the reason.
    """

    operation: Operation
    checkpoints: tuple[str, ...]
    free_after: Timestamp
    needed: Mapping[str, str] = {}

    deleted: ClassVar[Alias[tuple[str, ...]]] = Alias(
        "checkpoints", "The ids of the checkpoints that were removed."
    )


class ChangedPath(Value):
    """A path that is not as it was at a checkpoint."""

    path: bytes
    status: ChangeStatus


class StatusReport(Value):
    """How things are with a workspace; sizes in bytes.

    ``at`` is the checkpoint at which it stands, ``latest`` the newest. ``drift`` is what changed since
    ``at``, None if the workspace was not scanned; ``changed`` are the first of those paths, of each kind.
    ``session`` is the one under way, else the newest that did not finish; ``sessions`` are all those
    that live, ``incomplete`` all that ended without finishing and wait to be dealt with (rule P8).
    ``position`` is that of the session, outside any that of the workspace. ``store_parts`` is what the
    store takes of the disk. ``ignored`` are the first of the topmost paths that rules leave out, of which
    there are ``ignored_count``, None where nobody looked; a directory's ends with a slash. Of the
    ``checkpoints`` so many are ``guards``.
    ``project_settings`` are what the project's own file adds, a line each (rule K7). ``git`` is where the
    project's HEAD is now, without what is dirty or nested. ``resident`` is whether a process watches the
    workspace, and ``resident_note`` what is to be said of that: why none does, or not all of it.
    """

    workspace: OsText
    store: OsText
    state: State
    latest: Checkpoint | None
    drift: Counts | None
    gaps: tuple[Gap, ...]
    durability: str
    checkpoints: int
    store_parts: StoreSize
    health: tuple[HealthNote, ...]
    resident: bool = False
    session: SessionReport | None = None
    position: Position | None = None
    sessions: tuple[SessionReport, ...] = ()
    incomplete: tuple[SessionReport, ...] = ()
    at: Checkpoint | None = None
    changed: tuple[ChangedPath, ...] = ()
    ignored: tuple[bytes, ...] = ()
    ignored_count: int | None = None
    guards: int = 0
    project_settings: tuple[Text, ...] = ()
    git: GitState | None = None
    resident_note: HealthNote | None = None

    store_bytes: ClassVar[Alias[int]] = Alias(
        "store_parts.total", "What the store takes of the disk, with all that is in it."
    )


class DamagedCheckpoint(Value):
    """A checkpoint of which something is lost; ``files`` are the paths hit."""

    id: str
    files: tuple[bytes, ...]
    reason: str


class VerifyReport(Value):
    """What was proven, what is damaged, and what was mended.

    ``unreferenced_bytes`` belong to no checkpoint that is listed; ``unlisted`` is how many checkpoints
    are stored and not listed: of saves that were killed, or whose rows were lost.
    """

    checkpoints: int
    damaged: tuple[DamagedCheckpoint, ...]
    repaired: tuple[Text, ...] = ()
    faults: tuple[Text, ...] = ()
    unreferenced_bytes: int = 0
    unlisted: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong (any more)."""
        return not self.damaged and not self.faults


class WorkspaceSummary(Value):
    """A workspace that the store knows. ``present`` is False when its folder is not on this machine now.

    ``stored_bytes`` is what its checkpoints added to the store. ``session`` is incomplete where one stopped
    without finishing, else active where one is under way, None elsewhere.
    """

    key: str
    path: OsText
    checkpoints: int
    present: bool
    latest: Checkpoint | None
    stored_bytes: int = 0
    session: SessionState | None = None


# --- What the verbs about the work itself return ---


class SessionStarted(Value):
    """A session that began; ``saved`` is its first checkpoint, None where settings want none.

    ``took_over`` is the living session that had to give way, ``unfinished`` are the ids of those that
    died before and wait to be continued or given up. One that was ``continued`` had stopped without
    finishing; ``unknown`` are steps of it of which nobody saw the end.
    """

    session: SessionReport
    saved: SaveReport | None = None
    took_over: Session | None = None
    unfinished: tuple[str, ...] = ()
    continued: bool = False
    unknown: tuple[Effect, ...] = ()

    @property
    def new_gaps(self) -> tuple[Gap, ...]:
        """The gaps that the checkpoint before the saved one did not have."""
        return () if self.saved is None else self.saved.new_gaps


class SessionEnded(Value):
    """A session that ended; ``unknown`` are its steps of which nobody saw the end."""

    session: SessionReport
    saved: SaveReport | None = None
    unknown: tuple[Effect, ...] = ()

    @property
    def new_gaps(self) -> tuple[Gap, ...]:
        """The gaps that the checkpoint before the saved one did not have."""
        return () if self.saved is None else self.saved.new_gaps


class ProgressReport(Value):
    """Progress as a verb left it: of a session, or of the workspace (``session`` is None).

    ``task`` is the one that changed. ``saved`` is the checkpoint that came of it, if any; ``unknown``
    are earlier attempts of which nobody saw the end.
    """

    progress: Progress
    session: str | None = None
    task: Task | None = None
    saved: SaveReport | None = None
    unknown: tuple[Effect, ...] = ()


# --- What a store takes of the disk ---


class StoreSize(Value):
    """Bytes that the file system has allocated for a store, each file once, by what they are for.

    ``objects`` are what checkpoints hold, ``catalogue`` is the database with its log, ``backups`` are the
    copies of the databases, ``ledger`` is what frameworks keep, ``caches`` are what the next scan starts
    from, ``outputs`` what runs printed, ``kept`` what restores found in use and moved out of the way,
    ``damaged`` what a repair set aside, ``reserve`` the room that is given up when the disk is full.
    """

    objects: int = 0
    catalogue: int = 0
    backups: int = 0
    ledger: int = 0
    caches: int = 0
    outputs: int = 0
    kept: int = 0
    damaged: int = 0
    reserve: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        """All of it, as ``du`` adds it up."""
        return sum(self.parts.values())

    @property
    def parts(self) -> dict[str, int]:
        """The amounts by name."""
        return cast("dict[str, int]", self.as_dict())


# --- What an examination of the machine and the store found (`lastgood doctor`) ---


class Finding(Value):
    """One thing that was looked at: fine, worth knowing, or what keeps lastgood from working."""

    code: str
    state: FindingState
    message: Text
    hint: Text = ""
