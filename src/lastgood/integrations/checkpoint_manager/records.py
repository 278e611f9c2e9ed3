"""What the manager does, synchronously: checkpoints of a project, each with its record."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import lastgood
from lastgood.errors import NotFound, Usage
from lastgood.ids import name_fault
from lastgood.integrations.turns import alone, turn
from lastgood.literals import Kind
from lastgood.model import checkpoint as model
from lastgood.model.checkpoint import ID_NOTE
from lastgood.model.report import UndoReport
from lastgood.model.session import Features, readable
from lastgood.settings import Settings
from lastgood.workspace import Workspace
from lastgood.workspace.arguments import PathLike, expect, plain

# --- The record of a checkpoint: the skill's shape, out of what lastgood's own checkpoint says ---

# Under this key of the metadata a checkpoint of ours keeps its record.
NOTE = "checkpoint-manager"
TYPES: Mapping[str, Kind] = {
    "automatic": "risky",
    "manual": "manual",
    "feature": "feature",
    "session": "session-start",
}
# How many stay of a type; of the others all do.
KEPT: Mapping[str, int] = {"automatic": 5, "session": 3}
_OTHER_SPELLINGS = {"auto": "automatic"}


class Facts(dict[str, Any]):
    """A part of a record; its keys can be read as attributes."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the record holds
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass(frozen=True)
class Checkpoint:
    """A moment of a project that can be rolled back to.

    ``timestamp`` is ISO 8601 in UTC. ``git_state`` says how the project's git stood (it is never moved),
    ``feature_state`` which feature is being built and which are complete, ``context`` the session's
    number and its use of tokens. ``lastgood_id`` is what ``lastgood show`` takes.
    """

    id: str
    name: str
    description: str
    timestamp: str
    git_state: Facts
    feature_state: Facts
    context: Facts
    type: str
    lastgood_id: str

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON-compatible values."""
        return {key: dict(value) if isinstance(value, Facts) else value for key, value in vars(self).items()}


def type_of(given: str) -> str:
    """Return a type of checkpoint; `Usage` for what is none."""
    chosen = _OTHER_SPELLINGS.get(given, given) if isinstance(given, str) else None
    if chosen is None or chosen not in TYPES:
        raise Usage(f"{given!r} is no type of checkpoint", hint="types: " + ", ".join(TYPES))
    return chosen


def noted(record: Mapping[str, object]) -> dict[str, str]:
    """Return the metadata that keep a record."""
    try:
        return {NOTE: json.dumps(record, allow_nan=False, sort_keys=True), ID_NOTE: str(record["id"])}
    except (TypeError, ValueError, RecursionError) as error:
        raise Usage(
            f"the context cannot be kept as JSON: {error}", hint="give texts, numbers, lists, dicts"
        ) from error


def record_of(checkpoint: model.Checkpoint) -> Checkpoint | None:
    """Return the record that a checkpoint keeps; None if it keeps none."""
    record = _read_note(checkpoint.metadata.get(NOTE))
    return None if record is None else _recorded(checkpoint, record)


def _recorded(checkpoint: model.Checkpoint, record: Mapping[str, Any]) -> Checkpoint:
    git = checkpoint.git
    return Checkpoint(
        id=record["id"],
        name=record["name"],
        description=record["description"],
        timestamp=checkpoint.created_at.isoformat(timespec="seconds"),
        git_state=Facts(
            commit_hash=None if git is None else git.head,
            branch=None if git is None else git.branch,
            dirty_files=[os.fsdecode(path) for path in (() if git is None else git.dirty or ())],
        ),
        feature_state=Facts(record["feature_state"]),
        context=Facts(record["context"]),
        type=record["type"],
        lastgood_id=checkpoint.id,
    )


def _read_note(note: str | None) -> dict[str, Any] | None:
    """Return a record as it was noted down; None if it is none: anybody can write metadata."""
    try:
        record = json.loads(note or "null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    texts = all(isinstance(record.get(key), str) for key in ("id", "name", "description", "type"))
    parts = all(isinstance(record.get(key), dict) for key in ("feature_state", "context"))
    return record if texts and parts else None


# --- The feature list and the progress file of a project, as autonomous coding agents keep them ---

FEATURE_LISTS = ("feature_list.json", ".claude/feature_list.json")
PROGRESS_FILES = (
    "progress.md",
    "claude-progress.txt",
    "claude-progress.md",
    ".claude/progress.md",
    ".claude/progress.json",
)
_COMPLETE = frozenset({"complete", "completed", "done", "passed", "passing", "verified"})
_CURRENT = frozenset({"active", "current", "in-progress", "in_progress", "in progress", "started"})
_LARGEST = 8 << 20


def feature_state(root: str, lists: Sequence[str], known: Features) -> dict[str, object]:
    """Return the feature being built, those complete, and the path of the list.

    The list is read as it lies in the project; where there is none that can be read, ``known`` counts.
    """
    for path in lists:
        state = _read_state(os.path.join(root, path))
        if state is not None:
            return {**state, "snapshot_path": path}
    return {"current": known.current, "completed": list(known.completed), "snapshot_path": None}


def _read_state(path: str) -> dict[str, object] | None:
    """Return which features are under way and complete; None if there is no list, or it is no such list.

    A list gives each feature with its state, or, as the skill's records do, the names of these alone.
    """
    try:
        given = json.loads(_content(path))
    except (OSError, ValueError, RecursionError):
        return None
    found = given.get("features") if isinstance(given, dict) else given
    if isinstance(found, dict):
        found = [{"id": key, **(one if isinstance(one, dict) else {})} for key, one in found.items()]
    if isinstance(found, list):
        return _standing([one for one in found if isinstance(one, dict)])
    if not isinstance(given, dict) or not given.keys() & {"current", "completed"}:
        return None
    current, completed = given.get("current"), given.get("completed")
    return {
        "current": None if current is None else _name(current),
        "completed": [_name(one) for one in completed] if isinstance(completed, list) else [],
    }


def _name(given: object) -> str:
    """Return what a feature is called, given as a name or as all that is known of it."""
    return next(name for name, _ in _named([given])) if isinstance(given, dict) else str(given)


def _content(path: str) -> bytes:
    """Return what a list holds; none is waited for, as the end of a pipe would be."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(_LARGEST) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""


def _standing(features: Sequence[Mapping[str, object]]) -> dict[str, object]:
    named = list(_named(features))
    open_ones = [(id, one) for id, one in named if not _is_complete(one)]
    under_way = [id for id, one in open_ones if str(one.get("status", "")).lower() in _CURRENT]
    return {
        "current": next(iter((*under_way, *(id for id, _ in open_ones))), None),
        "completed": [id for id, one in named if _is_complete(one)],
    }


def _named(features: Sequence[Mapping[str, object]]) -> Iterator[tuple[str, Mapping[str, object]]]:
    for place, one in enumerate(features, start=1):
        given = next((one[key] for key in ("id", "feature_id", "name", "title") if one.get(key)), place)
        yield str(given), one


def _is_complete(feature: Mapping[str, object]) -> bool:
    told = feature.get("passes", feature.get("completed", feature.get("done")))
    return told is True or str(feature.get("status", "")).lower() in _COMPLETE


# --- What the manager does, synchronously: checkpoints of a project, each with its record ---

# What operations of this program, one within the other or beside each other, may have to go back to.
_HELD: list[str] = []


@dataclass(frozen=True)
class Rollback:
    """What a rollback did; ``undo`` takes it back.

    ``kept`` were left alone by rule, ``failed`` could not be brought back: each with the reason.
    ``commits_since`` is how many commits the project's HEAD, which stays, is ahead; None if it is not.
    """

    checkpoint: Checkpoint
    restored: tuple[str, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    failed: tuple[str, ...]
    commits_since: int | None

    @property
    def success(self) -> bool:
        """Whether everything came back."""
        return not self.failed


class RecordedCheckpoints:
    """Makes checkpoints and goes back to them, one operation at a time. Raises `lastgood.errors`."""

    def __init__(
        self,
        project_dir: PathLike,
        *,
        store: PathLike | None = None,
        feature_list: str | None = None,
        progress_file: str | None = None,
    ) -> None:
        self.root: str = os.path.realpath(os.fsdecode(plain(project_dir)))
        self._store = None if store is None else os.fsdecode(plain(store))
        self._lists = FEATURE_LISTS if feature_list is None else (os.fsdecode(plain(feature_list)),)
        self._files = PROGRESS_FILES if progress_file is None else (os.fsdecode(plain(progress_file)),)
        self._lock = Lock()
        self._settings: Settings | None = None

    def create_checkpoint(
        self,
        name: str = "",
        description: str = "",
        type: str = "manual",
        *,
        context: Mapping[str, Any] | None = None,
        messages: Iterable[Mapping[str, object]] | None = None,
    ) -> Checkpoint:
        """Make a checkpoint.

        Of type automatic five stay, of type session three; manual ones stay until they are deleted,
        those of a feature for ever. ``context`` may give ``session_number`` and ``token_usage``,
        ``messages`` the conversation so far.
        """
        name, description = _text(name, "the name"), _text(description, "the description")
        given, type = _facts(context), type_of(type)
        with self._at_work() as workspace, alone(self.root):
            every = _records(workspace)
            context = {"session_number": _session_number(every, type), "token_usage": 0, **given}
            record = {
                "id": _new_id({known.id for _, known in every}),
                "name": name,
                "description": description,
                "type": type,
                "feature_state": feature_state(self.root, self._lists, workspace.progress().features),
                "context": context,
            }
            tokens = context["token_usage"]
            lasting, named = type not in KEPT, bool(name) and name_fault(name) is None
            report = workspace.save(
                ": ".join(text for text in (name, description) if text),
                kind=TYPES[type],
                metadata=noted(record),
                allow_empty=True,
                # Manual ones stay until they are deleted: what is named or pinned is never let go.
                name=name if lasting and named else None,
                pin=lasting and not named,
                tokens=tokens if isinstance(tokens, int) and tokens > 0 else None,
                messages=messages,
            )
            made = record_of(report.checkpoint)
            assert made is not None
            _delete_surplus(workspace, type)
            return made

    def rollback(self, checkpoint_id: str, *, git: bool = False) -> Rollback:
        """Go back to a checkpoint: files, feature list, progress; ``undo`` takes it back.

        The present state is saved first. HEAD, branches and the index stay, unless ``git``.
        """
        expect(git, bool, what="git")
        with self._at_work() as workspace:
            return _rolled_back(workspace, _target(workspace, checkpoint_id), git=git)

    def rollback_to_latest(self, *, git: bool = False) -> Rollback:
        """Go back to the newest checkpoint."""
        expect(git, bool, what="git")
        with self._at_work() as workspace:
            return _rolled_back(workspace, _newest(workspace), git=git)

    def undo(self, *, force: bool = False, merge: bool = False) -> UndoReport:
        """Take the last rollback back; `Conflict` if its files changed since.

        ``force`` takes it back all the same (the present state is saved first), ``merge`` keeps what
        changed since.
        """
        expect(force, bool, what="force")
        expect(merge, bool, what="merge")
        with self._at_work() as workspace:
            return workspace.undo(force=force, merge=merge)

    def list_checkpoints(self, type: str | None = None) -> list[Checkpoint]:
        """Return the checkpoints, newest first, all or those of a type."""
        wanted = None if type is None else type_of(type)
        with self._at_work() as workspace:
            return [record for _, record in _records(workspace) if wanted in {None, record.type}]

    def get_checkpoint(self, checkpoint_id: str) -> Checkpoint:
        """Return a checkpoint's record."""
        with self._at_work() as workspace:
            return _record(_target(workspace, checkpoint_id))

    def read(self, checkpoint_id: str, path: str) -> bytes:
        """Return a file of the project as a checkpoint holds it."""
        with self._at_work() as workspace:
            return workspace.read(_target(workspace, checkpoint_id).id, path)

    def validate_checkpoint(self, checkpoint_id: str) -> bool:
        """Prove that a checkpoint can be brought back, by bringing it back aside."""
        with self._at_work() as workspace:
            return workspace.verify(_target(workspace, checkpoint_id).id, deep=True).ok

    def delete_checkpoint(self, checkpoint_id: str) -> None:
        """Delete a checkpoint; for a day ``lastgood undo`` brings it back."""
        with self._at_work() as workspace:
            target = _target(workspace, checkpoint_id)
            if target.pinned:
                workspace.unpin(target.id)
            workspace.delete(target.id)

    @contextmanager
    def holding(self, id: str) -> Iterator[None]:
        """Keep a checkpoint for as long as this program may want to go back to it."""
        _HELD.append(id)
        try:
            yield
        finally:
            _HELD.remove(id)

    @contextmanager
    def _at_work(self) -> Iterator[Workspace]:
        """Open the project for one operation; a call that is cancelled while it waits never has it."""
        with turn(self._lock):
            if self._settings is None:
                with lastgood.open(self.root, store=self._store) as workspace:
                    self._settings = self._settled(workspace.settings)
            with lastgood.open(self.root, store=self._store, settings=self._settings) as workspace:
                yield workspace

    def _settled(self, configured: Settings) -> Settings:
        """Return settings by which feature list and progress file are captured though ignored (rule P2)."""
        capture = configured.capture
        more = tuple(name for name in (*self._lists, *self._files) if name not in capture.state_files)
        return configured.replace(
            capture=capture.replace(
                state_files=(*capture.state_files, *more),
                include=(*capture.include, *(f"/{name}" for name in more)),
            )
        )


def _records(workspace: Workspace) -> list[tuple[model.Checkpoint, Checkpoint]]:
    found = ((one, record_of(one)) for one in workspace.list())
    return [(one, record) for one, record in found if record is not None]


def _newest(workspace: Workspace) -> model.Checkpoint:
    every = _records(workspace)
    if not every:
        raise NotFound("there is no checkpoint to roll back to", hint="await manager.create_checkpoint(…)")
    return every[0][0]


def _target(workspace: Workspace, id: str) -> model.Checkpoint:
    """Return the checkpoint of an id of ours, or of anything that names one; `Usage` for what is no text."""
    expect(id, str, what="the id of the checkpoint")
    every = _records(workspace)
    match = next((one for one in every if id in {one[1].id, one[1].lastgood_id}), None)
    match = match or next((one for one in every if id and id == one[1].name), None)
    return workspace.get(id) if match is None else match[0]


def _record(checkpoint: model.Checkpoint) -> Checkpoint:
    """Return the record of a checkpoint, whoever made it."""
    return record_of(checkpoint) or _foreign(checkpoint)


def _foreign(checkpoint: model.Checkpoint) -> Checkpoint:
    """Return the record of a checkpoint that something else made; what cannot be read of it is None."""
    features = checkpoint.manifest.progress.features
    completed = readable(features.completed)
    record = {
        "id": checkpoint.id,
        "name": checkpoint.name or "",
        "description": checkpoint.message,
        "type": next((type for type, kind in TYPES.items() if kind == checkpoint.kind), "automatic"),
        "feature_state": {
            "current": features.current,
            "completed": None if completed is None else list(completed),
            "snapshot_path": None,
        },
        "context": {},
    }
    return _recorded(checkpoint, record)


def _new_id(taken: set[str]) -> str:
    """Return an id of this second, UTC, unlike any other."""
    from datetime import UTC, datetime

    moment = f"checkpoint-{datetime.now(tz=UTC):%Y%m%d-%H%M%S}"
    number = 1
    while (id := moment if number == 1 else f"{moment}-{number}") in taken:
        number += 1
    return id


def _session_number(every: list[tuple[model.Checkpoint, Checkpoint]], type: str) -> int:
    """Return the number of the session under way: a checkpoint of type session begins the next."""
    known = next((record.context.get("session_number") for _, record in every), None)
    last = known if isinstance(known, int) else 0
    return last + 1 if type == "session" or not last else last


def _delete_surplus(workspace: Workspace, type: str) -> None:
    """Let go what is beyond the number to keep of a type."""
    most = KEPT.get(type)
    if most is not None:
        beyond = [both for both in _records(workspace) if both[1].type == type][most:]
        workspace.delete_unkept(*(one.id for one, record in beyond if record.id not in _HELD))


def _rolled_back(workspace: Workspace, target: model.Checkpoint, *, git: bool) -> Rollback:
    """Bring a checkpoint back: files, feature list, progress."""
    report = workspace.restore(target.id, only=["files", "progress"], git=git)

    def named(*results: str) -> tuple[str, ...]:
        return tuple(
            os.fsdecode(one.path) + (f" ({one.reason})" if one.reason else "")
            for one in report.outcomes
            if one.result in results
        )

    moved = report.head_moved
    parts = tuple(f"{one.scope} ({one.reason})" for one in report.parts if one.result == "failed")
    return Rollback(
        checkpoint=_record(target),
        restored=named("restored"),
        removed=named("removed"),
        kept=named("kept"),
        failed=(*named("failed", "skipped"), *parts),
        commits_since=None if moved is None else moved.commits,
    )


def _text(given: object, what: str) -> str:
    """Return a text; None is none, as programs leave it out."""
    if given is not None and not isinstance(given, str):
        raise Usage(f"{what} is {type(given).__name__}, not str", hint=f"give {what} as a text")
    return given or ""


def _facts(context: object) -> dict[str, Any]:
    if context is not None and not isinstance(context, Mapping):
        raise Usage(f"the context is {type(context).__name__}, not dict", hint="give the context as a dict")
    return dict(context or {})
