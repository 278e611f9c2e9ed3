"""Manifests and checkpoints of which only some facts matter."""

from __future__ import annotations

from typing import Any

from lastgood.model.checkpoint import Actor, Checkpoint, IgnoreState, Manifest, Metrics, TreeRef
from lastgood.model.tree import Counts

_PLAIN = Manifest(
    id="",
    workspace="/w",
    workspace_key="w",
    kind="turn",
    message="",
    name=None,
    created_at=0,
    sequence=0,
    previous=None,
    root=TreeRef(tree="ab" * 20),
    changes=Counts(),
    files=0,
    size=0,
    ignored=0,
    gaps=(),
    partial=False,
    private=(),
    forced=(),
    actor=Actor(),
    git=None,
    ignore=IgnoreState(),
    metrics=Metrics(),
    metadata={},
)


def manifest(number: int, **facts: Any) -> Manifest:
    """Return a manifest whose number makes its id, sequence and time."""
    own = {"id": f"ckpt_{number:016x}", "created_at": number, "sequence": number}
    return _PLAIN.replace(**(own | facts))


def checkpoint(number: int, **facts: Any) -> Checkpoint:
    """Return a checkpoint; what says how it was made goes to its manifest."""
    later = {"name": None} | {name: facts.pop(name) for name in Checkpoint._fields if name in facts}
    return Checkpoint(manifest=manifest(number, **facts), commit="cd" * 20, sequence=number, **later)
