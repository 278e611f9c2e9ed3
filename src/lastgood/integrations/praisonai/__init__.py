"""A drop-in for `praisonaiagents.checkpoints`, as its code is and as its guide describes it.

Change ``from praisonaiagents.checkpoints import CheckpointService`` to
``from lastgood.integrations.praisonai import CheckpointService``; the rest of a program stays.
"""

from lastgood.integrations.praisonai.service import CheckpointService
from lastgood.integrations.praisonai.turns import SessionCheckpointManager, Turn
from lastgood.integrations.praisonai.types import (
    ChangedFiles,
    Checkpoint,
    CheckpointConfig,
    CheckpointDiff,
    CheckpointEvent,
    CheckpointResult,
    FileDiff,
)

__all__ = [
    "ChangedFiles",
    "Checkpoint",
    "CheckpointConfig",
    "CheckpointDiff",
    "CheckpointEvent",
    "CheckpointResult",
    "CheckpointService",
    "FileDiff",
    "SessionCheckpointManager",
    "Turn",
]
