"""What a service does, synchronously: checkpoints of one workspace, in a store of their own."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from itertools import islice
from threading import Lock
from typing import Concatenate, ParamSpec, TypeVar

from lastgood.actions.save import MESSAGE_LIMIT
from lastgood.errors import Busy, LastgoodError, NotFound, Usage
from lastgood.integrations.praisonai import comparing
from lastgood.integrations.praisonai.line import (
    INITIAL,
    PARENT,
    PRE_RESTORE,
    PREFIX,
    RESCUE,
    ROLE,
    STEP,
    Line,
    Moved,
    Unmet,
    found,
    is_number,
    line_of,
)
from lastgood.integrations.praisonai.place import kept_of, opened, prepared, refuse_unfit, remove
from lastgood.integrations.praisonai.types import (
    SHORT,
    ChangedFiles,
    Checkpoint,
    CheckpointConfig,
    CheckpointDiff,
    paths_of,
)
from lastgood.integrations.turns import alone, turn

Checkpoints = list[Checkpoint]
Conversation = list[dict[str, object]]
Changes = tuple[ChangedFiles, int, int]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from lastgood.model import checkpoint as model
    from lastgood.model.report import RestoreReport
    from lastgood.model.settings import Settings
    from lastgood.workspace import Workspace

    Messages = Iterable[Mapping[str, object]]

logger = logging.getLogger(__name__)

# After so many saves the store is tidied, and what is beyond `max_checkpoints` let go.
_TIDIED_EVERY = 20


@dataclass
class Saved:
    """A checkpoint that was made, and how many fell out of sight by that."""

    checkpoint: Checkpoint
    dropped: int = 0


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
        self._moved: Moved | None = None
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
    ) -> Saved | None:
        """Make a checkpoint; None if nothing changed since the one where the workspace stands."""
        with self._at_work() as (workspace, line):
            at, newest = line.at, line.newest
            forced = allow_empty or _is_first(line)
            notes = {} if step is None else {STEP: str(step)}
            if at is not None and newest is not None and at.id != newest.id:
                if not forced and messages is None and not _differs(workspace, at):
                    return None
                notes[PARENT] = at.id
                forced = True
            kind: model.Kind = "manual" if step is None else "turn"
            report = workspace.save(
                _cut(message), kind=kind, metadata=notes, allow_empty=forced, messages=messages
            )
            return self._saved(workspace, report.checkpoint) if report.created else None

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
                raise Unmet(f"Cannot rewind {steps} step(s): only {len(passed)} checkpoint(s) available")
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
                comparing.stored(workspace, before.id),
                (comparing.present(workspace) if after is None else comparing.stored(workspace, after.id)),
            )
            files = comparing.files_of(report, place=self._config.place, contents=comparing.Contents(*ends))
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
            self._moved = Moved(target.id, after.mark)
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
        files = comparing.files_of(report, place=self._config.place, contents=None)
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
        raise Unmet(f"No checkpoint found for step {step!r}")
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
