"""Undoable changes, and the journal of the one that is running."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from lastgood.model.part import Part
    from lastgood.model.plan import RestorePlan, Step

    OperationType = Literal["restore", "delete", "prune", "undo", "redo"]


class Operation(Value):
    """One change that was asked for, and that `undo` can take back (rule T8).

    ``at`` is in nanoseconds since the epoch. ``steps`` are the touched paths with what they held
    before (``have``) and after (``want``); ``checkpoints`` are the ids that a delete removed.
    ``parts`` are what else was changed. ``of`` names the operation that an undo or redo acted on,
    ``session`` the session in which it was done.
    """

    id: str
    workspace_key: str
    type: OperationType
    at: int
    target: str | None = None
    guard: str | None = None
    undone: bool = False
    steps: tuple[Step, ...] = ()
    checkpoints: tuple[str, ...] = ()
    of: str | None = None
    parts: tuple[Part, ...] = ()
    session: str | None = None


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
    started_at: int
    guard: str
    target_tree: str
    plan: RestorePlan
    session: str | None = None
    closed: Mapping[bytes, int] = {}
