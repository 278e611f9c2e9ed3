"""The checkpoint-manager skill's class and its partner for errors, over checkpoints that hold.

Change ``from scripts.checkpoint_manager import CheckpointManager`` to
``from lastgood.integrations.checkpoint_manager import CheckpointManager``, and likewise
``ErrorRecoverer``; the rest of a program stays.
"""

from lastgood.integrations.checkpoint_manager.checkpoints import CheckpointManager
from lastgood.integrations.checkpoint_manager.records import Checkpoint, Rollback
from lastgood.integrations.checkpoint_manager.recovery import (
    Attempt,
    ErrorCategory,
    ErrorRecoverer,
    RecoveryResult,
    RecoveryStrategy,
    handle_error,
    with_recovery,
)

__all__ = [
    "Attempt",
    "Checkpoint",
    "CheckpointManager",
    "ErrorCategory",
    "ErrorRecoverer",
    "RecoveryResult",
    "RecoveryStrategy",
    "Rollback",
    "handle_error",
    "with_recovery",
]
