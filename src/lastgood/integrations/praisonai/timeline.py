"""What a service does, synchronously: checkpoints of one workspace, in a store of their own."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from itertools import islice
from threading import Lock
from typing import Concatenate, ParamSpec, TypeGuard, TypeVar

import lastgood
from lastgood.errors import Ambiguous, Busy, LastgoodError, NotFound, Storage, Unsafe, Usage
from lastgood.integrations.praisonai import types
from lastgood.integrations.praisonai.types import (
    DEFAULT_FILE_SIZE,
    SHORT,
    ChangedFiles,
    Checkpoint,
    CheckpointConfig,
    CheckpointDiff,
    paths_of,
)
from lastgood.integrations.turns import alone, turn
from lastgood.literals import Kind
from lastgood.model import checkpoint as model
from lastgood.model.checkpoint import Checkpoint as KeptCheckpoint
from lastgood.model.operation import Operation
from lastgood.model.report import RestoreReport
from lastgood.paths import printable
from lastgood.save import MESSAGE_LIMIT
from lastgood.settings import MEBIBYTE, Rungs, Settings
from lastgood.store import ensure_store
from lastgood.workspace import Workspace
from lastgood.workspace.arguments import admit

Messages = Iterable[Mapping[str, object]]


# --- The line of a workspace's checkpoints: which there are, where the workspace stands, what came before
# ---

# What a checkpoint of ours notes down: the step it is for, what it followed, what it is.
STEP, PARENT, ROLE = "praisonai.step", "praisonai.parent", "praisonai.role"
INITIAL, RESCUE = "initial", "pre-restore"
PRE_RESTORE = "[pre-restore] auto-save"
PREFIX = "ckpt_"
_LEAST_DIGITS = 4


def is_number(given: object) -> TypeGuard[int]:
    """Tell whether something is a whole number."""
    return isinstance(given, int) and not isinstance(given, bool)


class NoSuchStep(NotFound):
    """The line has no such step, or is not that long."""


class Line:
    """The checkpoints of one moment, newest first; guards of lastgood's own are passed over.

    ``at`` is where the workspace stands: at the last checkpoint made, or at the one that was restored
    since. A restore that found nothing to do left no trace of itself: ``moved`` remembers it.
    """

    def __init__(
        self,
        every: Sequence[KeptCheckpoint],
        operations: Sequence[Operation],
        *,
        stands: str | None = None,
        moved: UnchangedRestore | None = None,
    ) -> None:
        self._every = {one.id: one for one in every}
        self.kept: list[KeptCheckpoint] = [
            one for one in every if one.kind != "guard" or one.metadata.get(ROLE) == RESCUE
        ]
        self.trunk: list[KeptCheckpoint] = [one for one in self.kept if one.kind != "guard"]
        self.mark: tuple[str | None, str | None] = (
            every[0].id if every else None,
            operations[0].id if operations else None,
        )
        self.at: KeptCheckpoint | None = self._stand(operations, stands, moved)

    @property
    def newest(self) -> KeptCheckpoint | None:
        """The newest checkpoint that a save compares the workspace with."""
        return next((one for one in self.trunk if not one.partial), None)

    @property
    def made(self) -> int:
        """How many there are beside the one that every line begins with."""
        return sum(one.metadata.get(ROLE) != INITIAL for one in self.kept)

    def before(self, checkpoint: KeptCheckpoint) -> KeptCheckpoint | None:
        """Return what a checkpoint followed."""
        noted = self._every.get(checkpoint.metadata.get(PARENT, ""))
        if noted is not None and noted.sequence < checkpoint.sequence:
            return noted
        return next((one for one in self.trunk if one.sequence < checkpoint.sequence), None)

    def back(self) -> Iterator[KeptCheckpoint]:
        """Yield where the workspace stands, and all that led there."""
        reached = self.at
        while reached is not None:
            yield reached
            reached = self.before(reached)

    def matching(self, text: str) -> list[KeptCheckpoint]:
        """Return the checkpoints whose id begins with some digits; fewer than four name nothing."""
        digits = text.removeprefix(PREFIX)
        if len(digits) < _LEAST_DIGITS:
            return []
        return [one for one in self.kept if one.id.removeprefix(PREFIX).startswith(digits)]

    def of_step(self, step: int) -> KeptCheckpoint | None:
        """Return the newest checkpoint of a step; what is no number is none."""
        if not is_number(step):
            return None
        return next((one for one in self.kept if one.metadata.get(STEP) == str(step)), None)

    def _stand(
        self, operations: Sequence[Operation], stands: str | None, moved: UnchangedRestore | None
    ) -> KeptCheckpoint | None:
        newest = self.newest
        if moved is not None and moved.mark == self.mark and moved.target in self._every:
            return self._every[moved.target]
        last = next((one for one in operations if one.type == "restore" and not one.undone), None)
        target = None if last is None else self._every.get(last.target or "")
        if last is None or target is None or newest is None:
            return newest
        if last.stands is not None:
            return target if last.stands == stands else newest
        # A restore to a guard leaves where the workspace stands (rule T15); here it is the line's own end.
        guard = self._every.get(last.guard or "")
        if guard is None or guard.kind != "guard":
            return target if last.at > newest.manifest.created_at else newest
        return target if guard.sequence >= newest.sequence else newest


@dataclass
class UnchangedRestore:
    """A restore that had nothing to change: where to, and how the line stood then."""

    target: str
    mark: tuple[str | None, str | None]


def line_of(workspace: Workspace, moved: UnchangedRestore | None = None) -> Line:
    """Return the line of a workspace as it is now."""
    try:
        stands = workspace.get("@").id
    except NotFound:
        stands = None
    return Line(workspace.list(), workspace.operations(), stands=stands, moved=moved)


def found(line: Line, workspace: Workspace, text: str) -> KeptCheckpoint:
    """Return the one checkpoint meant; raises `NotFound`, `Ambiguous`, or what a REF can raise."""
    matches = line.matching(text)
    if len(matches) > 1:
        raise Ambiguous(
            f"'{printable(text)}' fits {len(matches)} checkpoints",
            hint="give more digits of the id",
            details={"candidates": [one.id for one in matches]},
        )
    return matches[0] if matches else workspace.get(text)


# --- Where a service keeps its checkpoints, and the settings that its own configuration amounts to ---

# Folders that are nobody's project.
PROTECTED_PATHS = [
    *map(os.path.expanduser, ("~", "~/Desktop", "~/Documents", "~/Downloads")),
    "/",
    "/tmp",  # noqa: S108 - refused, not used
    "/var",
    "/etc",
]
_SYSTEM = {"/bin", "/boot", "/dev", "/etc", "/lib", "/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var"}
_UNLIMITED = 1 << 62
_UNCOUNTED = 1 << 40
_OURS = 32 * MEBIBYTE
_FORMAT = "format"


def store_of(config: CheckpointConfig) -> str:
    """Return the store's path: where PraisonAI has its repository, or beside one that is there."""
    folder = config.get_checkpoint_dir()
    usual, beside = os.path.join(folder, ".git"), os.path.join(folder, "lastgood")
    if os.path.lexists(os.path.join(beside, _FORMAT)):
        return beside
    foreign = os.path.lexists(os.path.join(usual, "HEAD")) or os.path.isfile(usual)
    return beside if foreign else usual


def refuse_nameless(config: CheckpointConfig) -> None:
    """Refuse an empty name: it does not mean the current folder."""
    if not config.workspace_dir:
        raise NotFound("Workspace does not exist: its name is empty", hint="name the folder of a project")


def refuse_unfit(config: CheckpointConfig) -> None:
    """Refuse what cannot be a workspace, before anything is made for it."""
    refuse_nameless(config)
    root = config.root
    if root in {os.path.realpath(path) for path in PROTECTED_PATHS}:
        raise Unsafe(f"Cannot checkpoint protected path: {root}", hint="name the folder of a project")
    if not os.path.isdir(root):
        raise NotFound(f"Workspace does not exist: {config.workspace_dir}", hint="make it first")


def prepared(config: CheckpointConfig) -> Settings:
    """Make a workspace's store, if there is none, and return the settings to open it with."""
    store = store_of(config)
    if _own(config.root, store):  # a place that lastgood itself makes no store in
        admit(config.root, os.environ, allow_root=_is_meant(config.root))
        ensure_store(os.fsencode(store), random=os.urandom(16))
    with opened(config) as workspace:
        return settled(config, workspace.settings, store=store)


def opened(config: CheckpointConfig, settings: Settings | None = None) -> Workspace:
    """Open a workspace; its settings are known when it is prepared."""
    root, store = config.root, store_of(config)
    return lastgood.open(root, store=store, maintenance="off", allow_root=_is_meant(root), settings=settings)


def _is_meant(root: str) -> bool:
    """Tell whether a folder is the root of a mounted disk that is no system's: a container's, say."""
    return os.path.ismount(root) and f"/{root.split('/')[1]}" not in _SYSTEM


def settled(config: CheckpointConfig, configured: Settings, *, store: str) -> Settings:
    """Return the settings of a workspace with what the service's configuration says laid over them."""
    capture = configured.capture
    size = config.max_file_size
    if size == DEFAULT_FILE_SIZE:
        size = max(capture.max_file_size, _OURS)
    kept = kept_of(config)
    most = max(configured.limits.max_checkpoints, 3 * kept)
    return configured.replace(
        capture=capture.replace(
            built_in=(),
            exclude=(*capture.exclude, *_patterns(config), *_own(config.root, store)),
            max_file_size=min(size, _UNLIMITED) if size > 0 else _UNLIMITED,
        ),
        retention={**configured.retention, "manual": Rungs(last=kept), "turn": Rungs(last=kept)},
        limits=configured.limits.replace(max_checkpoints=most),
    )


def kept_of(config: CheckpointConfig) -> int:
    """Return how many checkpoints stay."""
    most = config.max_checkpoints
    return min(most, _UNCOUNTED) if most > 0 else _UNCOUNTED


def _patterns(config: CheckpointConfig) -> tuple[str, ...]:
    """Return what is left out; ``.git`` always is, and needs no pattern."""
    return tuple(pattern for pattern in config.exclude_patterns if pattern.strip("/") != ".git")


def _own(root: str, store: str) -> tuple[str, ...]:
    """Return the pattern of a folder of checkpoints that lies inside the workspace."""
    folder = os.path.realpath(os.path.dirname(store))
    if not folder.startswith(root.rstrip("/") + "/"):
        return ()
    return ("/" + os.path.relpath(folder, root) + "/",)


def remove(config: CheckpointConfig) -> None:
    """Delete a service's store, and its folder unless something else is in it."""
    refuse_nameless(config)
    folder, store = config.get_checkpoint_dir(), store_of(config)
    try:
        if os.path.lexists(os.path.join(store, _FORMAT)):
            shutil.rmtree(store)
        if os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)
    except OSError as error:
        raise Storage(
            f"{error.filename or folder} cannot be deleted: {error.strerror}", hint="check its permissions"
        ) from error


# --- What a service does, synchronously: checkpoints of one workspace, in a store of their own ---

Checkpoints = list[Checkpoint]
Conversation = list[dict[str, object]]
Changes = tuple[ChangedFiles, int, int]


logger: logging.Logger = logging.getLogger(__name__)

# After so many saves the store is tidied, and what is beyond `max_checkpoints` let go.
_TIDIED_EVERY = 20


@dataclass
class Saved:
    """A checkpoint that was made, and how many fell out of sight by that.

    Of an unchanged workspace it is the one that holds the files already, and ``made`` is False.
    """

    checkpoint: Checkpoint
    dropped: int = 0
    made: bool = True


@dataclass
class Restored:
    """A checkpoint that was brought back; ``omitted`` are the paths that could not be."""

    checkpoint: Checkpoint
    omitted: tuple[str, ...] = ()


Rescued = list[Saved]
Words = ParamSpec("Words")
Answer = TypeVar("Answer")


def _healing(
    verb: Callable[Concatenate[Timeline, Words], Answer],
) -> Callable[Concatenate[Timeline, Words], Answer]:
    """Return a verb that first finishes a restore of somebody who was killed, where one is in its way."""

    @wraps(verb)
    def healing(timeline: Timeline, /, *args: Words.args, **words: Words.kwargs) -> Answer:
        try:
            return verb(timeline, *args, **words)
        except Busy:
            if not timeline.heal():
                raise
            return verb(timeline, *args, **words)

    return healing


class Timeline:
    """The checkpoints of a workspace, one operation at a time, from whichever thread.

    Failures are the exceptions of `lastgood.errors`.
    """

    def __init__(self, config: CheckpointConfig) -> None:
        self._config = config
        self._lock = Lock()
        self._settings: Settings | None = None
        self._changes: dict[str, Changes] = {}
        self._moved: UnchangedRestore | None = None
        self._in_view = 0

    def open(self) -> None:
        """Begin: make the store and its first checkpoint if there is none; finish what was interrupted."""
        refuse_unfit(self._config)
        with turn(self._lock), alone(self._config.root):
            self._settings = prepared(self._config)
            with opened(self._config, self._settings) as workspace:
                _finished(workspace)
                line = line_of(workspace)
                if not line.kept:
                    notes = {ROLE: INITIAL}
                    workspace.save("Initial checkpoint", pin=True, metadata=notes, allow_empty=True)
            self._in_view = min(line.made, kept_of(self._config))

    def heal(self) -> bool:
        """Finish a restore that was interrupted; tell whether there was one."""
        with self._at_work() as (workspace, _):
            return _finished(workspace)

    def close(self) -> None:
        """End: nothing goes until `open` begins again."""
        with turn(self._lock):
            self._settings = None

    @_healing
    def save(
        self,
        message: str,
        *,
        allow_empty: bool = False,
        step: int | None = None,
        messages: Messages | None = None,
    ) -> Saved:
        """Make a checkpoint, unless nothing changed since the one where the workspace stands."""
        with self._at_work() as (workspace, line):
            at, newest = line.at, line.newest
            forced = allow_empty or _is_first(line)
            notes = {} if step is None else {STEP: str(step)}
            if at is not None and newest is not None and at.id != newest.id:
                if not forced and messages is None and not _differs(workspace, at):
                    return Saved(self._shown(workspace, line, at), made=False)
                notes[PARENT] = at.id
                forced = True
            kind: Kind = "manual" if step is None else "turn"
            report = workspace.save(
                _cut(message), kind=kind, metadata=notes, allow_empty=forced, messages=messages
            )
            if not report.created:
                return Saved(self._shown(workspace, line, report.checkpoint), made=False)
            return self._saved(workspace, report.checkpoint)

    @_healing
    def restore(
        self, ref: str | None = None, *, step: int | None = None, rescued: Rescued | None = None
    ) -> Restored:
        """Bring the files of a checkpoint back; what was unsaved is saved first, and ``rescued`` has it."""
        with self._at_work() as (workspace, line):
            target = _target(workspace, line, ref, step)
            return self._restore(workspace, line, target, rescued)

    @_healing
    def rewind(self, steps: int = 1, *, rescued: Rescued | None = None) -> Restored:
        """Go some checkpoints back from where the workspace stands."""
        with self._at_work() as (workspace, line):
            back = line.back()
            passed = list(islice(back, min(steps, sys.maxsize)))
            target = next(back, None)
            if target is None:
                raise NoSuchStep(f"Cannot rewind {steps} step(s): only {len(passed)} checkpoint(s) available")
            return self._restore(workspace, line, target, rescued)

    @_healing
    def diff(self, from_ref: str | None = None, to_ref: str | None = None) -> CheckpointDiff:
        """Compare a checkpoint (by default the one before the last) with another, or the workspace."""
        with self._at_work() as (workspace, line):
            if from_ref is not None:
                before = found(line, workspace, from_ref)
            elif line.at is None:
                raise NotFound("there is no checkpoint yet", hint="save one")
            else:
                before = line.before(line.at) or line.at
            after = None if to_ref is None else found(line, workspace, to_ref)
            report = workspace.diff(before.id, None if after is None else after.id)
            ends = (
                types.stored(workspace, before.id),
                (types.present(workspace) if after is None else types.stored(workspace, after.id)),
            )
            files = types.files_of(report, place=self._config.place, contents=types.Contents(*ends))
            return CheckpointDiff(
                from_checkpoint=_digits(before)[:SHORT],
                to_checkpoint=None if after is None else _digits(after)[:SHORT],
                files=files,
                from_id=_digits(before),
                to_id=None if after is None else _digits(after),
                diff_content=(report.patch or b"").decode("utf-8", "surrogateescape"),
            )

    def list(self, limit: int | None = None) -> Checkpoints:
        """Return checkpoints, newest first."""
        if limit is not None and not is_number(limit):
            raise Usage(f"the limit is {type(limit).__name__}, not int", hint="give a whole number")
        with self._at_work() as (workspace, line):
            chosen = line.kept if limit is None else line.kept[: max(0, limit)]
            return [self._shown(workspace, line, one) for one in chosen]

    def get(self, ref: str) -> Checkpoint | None:
        """Return the one checkpoint whose id begins so."""
        with self._at_work() as (workspace, line):
            matches = line.matching(ref)
            return self._shown(workspace, line, matches[0]) if len(matches) == 1 else None

    def conversation(self, ref: str) -> Conversation:
        """Return the messages that a checkpoint holds; none if none were given to it."""
        with self._at_work() as (workspace, line):
            checkpoint = found(line, workspace, ref)
            held = checkpoint.conversation is not None
            return list(workspace.conversation(checkpoint.id)) if held else []

    def of_step(self, step: int) -> Checkpoint | None:
        """Return the newest checkpoint of a step."""
        with self._at_work() as (workspace, line):
            match = line.of_step(step)
            return None if match is None else self._shown(workspace, line, match)

    def delete(self, ref: str) -> Checkpoint | None:
        """Remove a checkpoint, and return it; for a day ``lastgood undo`` can bring it back."""
        with self._at_work() as (workspace, line):
            matches = line.matching(ref)
            if len(matches) != 1:
                return None
            gone = self._shown(workspace, line, matches[0])
            if matches[0].metadata.get(ROLE) == INITIAL:
                workspace.unpin(matches[0].id)
            workspace.delete(matches[0].id)
            return gone

    def delete_all(self) -> None:
        """Delete the store of this workspace, with every checkpoint in it."""
        with turn(self._lock), alone(self._config.root):
            self._settings = None
            remove(self._config)

    @contextmanager
    def _at_work(self) -> Iterator[tuple[Workspace, Line]]:
        """Open the store for one operation: what is open for longer, others cannot delete."""
        with turn(self._lock):
            if self._settings is None:
                raise Usage("Service not initialized", hint="await service.initialize()")
            with opened(self._config, self._settings) as workspace:
                yield workspace, line_of(workspace, self._moved)

    def _restore(
        self, workspace: Workspace, line: Line, target: model.Checkpoint, rescued: Rescued | None
    ) -> Restored:
        before = self._rescue(workspace, line)
        if before is not None and rescued is not None:
            rescued.append(before)
        report = workspace.restore(target.id, only=["files"])
        after = line_of(workspace)
        if report.operation is None:
            self._moved = UnchangedRestore(target.id, after.mark)
        return Restored(self._shown(workspace, after, target), omitted=_omitted(report))

    def _rescue(self, workspace: Workspace, line: Line) -> Saved | None:
        """Save what is unsaved, as a checkpoint that can be named."""
        if line.at is None:
            return None
        # A save compares with the newest one by itself.
        is_newest = line.newest is not None and line.at.id == line.newest.id
        if not is_newest and not _differs(workspace, line.at):
            return None
        notes = {ROLE: RESCUE, PARENT: line.at.id}
        report = workspace.save(PRE_RESTORE, kind="guard", metadata=notes)
        return self._saved(workspace, report.checkpoint) if report.created else None

    def _saved(self, workspace: Workspace, made: model.Checkpoint) -> Saved:
        line = line_of(workspace)
        self._in_view += 1
        dropped = max(0, self._in_view - kept_of(self._config))
        self._in_view -= dropped
        saved = Saved(self._shown(workspace, line, made), dropped)
        if line.made % _TIDIED_EVERY == 0:
            _tidy(workspace)
        return saved

    def _shown(self, workspace: Workspace, line: Line, one: model.Checkpoint) -> Checkpoint:
        """Return a checkpoint as PraisonAI's programs read it."""
        changed, insertions, deletions = self._changed(workspace, line, one)
        step = one.metadata.get(STEP)
        return Checkpoint(
            id=_digits(one),
            short_id=_digits(one)[:SHORT],
            message=one.message,
            timestamp=one.created_at,
            files_changed=ChangedFiles(changed),
            insertions=insertions,
            deletions=deletions,
            step=int(step) if step is not None and step.isdecimal() else None,
            metadata=_described(one),
        )

    def _changed(self, workspace: Workspace, line: Line, one: model.Checkpoint) -> Changes:
        known = self._changes.get(one.id)
        before = line.before(one)
        if known is not None or before is None:
            return known or (ChangedFiles(), 0, 0)
        try:
            report = workspace.diff(before.id, one.id, patch=False)
        except LastgoodError as error:  # damage of one checkpoint hides no other
            logger.warning("what %s changed cannot be told: %s", one.short_id, error)
            return ChangedFiles(), 0, 0
        files = types.files_of(report, place=self._config.place, contents=None)
        lines = sum(one.additions for one in files), sum(one.deletions for one in files)
        self._changes[one.id] = (paths_of(files), *lines)
        return self._changes[one.id]


def _finished(workspace: Workspace) -> bool:
    if workspace.status().state != "interrupted":
        return False
    workspace.recover()
    return True


def _target(workspace: Workspace, line: Line, ref: str | None, step: int | None) -> model.Checkpoint:
    if step is None:
        return found(line, workspace, ref or "")
    of_step = line.of_step(step)
    if of_step is None:
        raise NoSuchStep(f"No checkpoint found for step {step!r}")
    return of_step


def _cut(message: str) -> str:
    """Return as much of a message as a checkpoint has room for: any text is one."""
    return message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…"


def _is_first(line: Line) -> bool:
    """Tell whether a save is the first, of a workspace that had files before: they are new to its user."""
    return line.made == 0 and line.at is not None and line.at.files > 0


def _differs(workspace: Workspace, since: model.Checkpoint) -> bool:
    return bool(workspace.diff(since.id, patch=False).files)


def _digits(checkpoint: model.Checkpoint) -> str:
    return checkpoint.id.removeprefix(PREFIX)


def _described(one: model.Checkpoint) -> dict[str, object]:
    """Return what else is known of a checkpoint, and what its maker noted down."""
    gaps = [{"path": os.fsdecode(gap.path), "reason": gap.reason, "size": gap.size} for gap in one.gaps]
    notes = {key: text for key, text in one.metadata.items() if not key.startswith("praisonai.")}
    own = {"lastgood_id": one.id, "kind": one.kind, "files": one.files, "bytes": one.bytes, "gaps": gaps}
    return {**notes, **own}


def _omitted(report: RestoreReport) -> tuple[str, ...]:
    return tuple(f"{os.fsdecode(one.path)} ({one.reason})" for one in report.omissions)


def _tidy(workspace: Workspace) -> None:
    """Let go what is beyond the number to keep, and join packs; a fault of this harms no save."""
    try:
        workspace.maintain()
    except LastgoodError as error:
        logger.warning("the store could not be tidied: %s", error)
