"""The record of a checkpoint: the skill's shape, out of what lastgood's own checkpoint says."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from lastgood.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.model import checkpoint as model

# Under this key of the metadata a checkpoint of ours keeps its record.
NOTE = "checkpoint-manager"
TYPES: Mapping[str, model.Kind] = {
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
        return {
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "timestamp": self.timestamp,
            "git_state": dict(self.git_state),
            "feature_state": dict(self.feature_state),
            "context": dict(self.context),
            "type": self.type,
            "lastgood_id": self.lastgood_id,
        }


def type_of(given: str) -> str:
    """Return a type of checkpoint; `Usage` for what is none."""
    chosen = _OTHER_SPELLINGS.get(given, given) if isinstance(given, str) else None
    if chosen is None or chosen not in TYPES:
        raise Usage(f"{given!r} is no type of checkpoint", hint="types: " + ", ".join(TYPES))
    return chosen


def noted(record: Mapping[str, object]) -> dict[str, str]:
    """Return the metadata that keep a record."""
    try:
        return {NOTE: json.dumps(record, allow_nan=False, sort_keys=True)}
    except (TypeError, ValueError, RecursionError) as error:
        raise Usage(
            f"the context cannot be kept as JSON: {error}", hint="give texts, numbers, lists, dicts"
        ) from error


def record_of(checkpoint: model.Checkpoint) -> Checkpoint | None:
    """Return the record that a checkpoint keeps; None if it keeps none."""
    record = _read(checkpoint.metadata.get(NOTE))
    if record is None:
        return None
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


def _read(note: str | None) -> dict[str, Any] | None:
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
